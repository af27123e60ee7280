//! The document of a search for a change.

use heaptrial_report::{
    BISECT_SCHEMA_VERSION, BisectReport, ChangeReport, CommitReport, Document, MeasuredPosition, Screen,
    SearchRun, SkippedPosition,
};
use heaptrial_search::bisect::{Answer, Change, Ends};
use heaptrial_search::tune::ArmFigures;
use heaptrial_search::{MeasuredArm, MeasuredBlock};

fn report(subject: &str) -> BisectReport {
    let commit = CommitReport {
        id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        day: "2024-05-21".to_owned(),
        subject: subject.to_owned(),
        tags: Vec::new(),
        files: vec!["src/arena.c".to_owned()],
        skipped: None,
    };
    let at = |position: usize, name: &str, log_ratio: f64| MeasuredPosition {
        position,
        name: name.to_owned(),
        blocks: 2,
        log_ratio,
        sd: 0.02,
    };
    let figures = |bytes: f64| ArmFigures { level: bytes.ln(), ..ArmFigures::default() };
    let arm =
        MeasuredArm { at: 8, name: "v3.0.1".to_owned(), sha256: String::new(), figures: Ok(figures(1.5e8)) };
    let change = Change { after: 4, to: 5, probability: 0.987, log_ratio: 0.405, narrowest: true };
    BisectReport {
        schema_version: BISECT_SCHEMA_VERSION,
        family: "mimalloc".to_owned(),
        older: "v2.1.7".to_owned(),
        newer: "v3.0.1".to_owned(),
        older_is_good: true,
        settings: Vec::new(),
        positions: 9,
        left_out: 2,
        forks_at: None,
        of_commits: true,
        confidence: 0.95,
        answer: Answer {
            found: true,
            same_ends: false,
            ends: Ends { differ: 0.999, log_ratio: 0.41, interval: [0.38, 0.44], measured: 3 },
            changes: vec![change],
            smaller: Vec::new(),
            blocks: 9,
        },
        changes: vec![ChangeReport {
            after: "aaaaaaaaaaaa".to_owned(),
            to: "0123456789ab".to_owned(),
            commits: vec![commit],
        }],
        measured: vec![at(0, "v2.1.7", 0.0), at(4, "aaaaaaaaaaaa", 0.01), at(8, "v3.0.1", 0.41)],
        skipped: vec![SkippedPosition {
            position: 2,
            name: "bbbbbbbbbbbb".to_owned(),
            why: "does not build".to_owned(),
        }],
        same: vec![("cccccccccccc".to_owned(), "aaaaaaaaaaaa".to_owned())],
        noise: 0.02,
        run: SearchRun {
            metric: "anonymous memory".to_owned(),
            seed: 7,
            command: "heaptrial lab bisect".to_owned(),
            stopped: None,
            blocks: vec![MeasuredBlock {
                number: 1,
                seconds: 60.0,
                fresh: false,
                control: figures(1e8),
                arms: vec![arm],
            }],
        },
    }
}

fn unfolded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_form_shows_the_commit_its_size_and_its_probability() {
    let found = report("Keep arenas");
    for text in [found.terminal(Screen::default()), found.markdown(), found.html()] {
        let text = unfolded(&text);
        for shown in ["0123456789ab", "Keep arenas", "1.50", "98.7%", "src/arena.c", "does not build"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        assert!(text.contains("cccccccccccc"), "{text}");
    }
    assert!(found.html().contains("<svg"));
    assert_eq!(serde_json::from_str::<BisectReport>(&found.json().unwrap()).unwrap(), found);
}

#[test]
fn no_commit_is_blamed_for_what_the_older_end_alone_has() {
    let mut found = report("Keep arenas");
    found.forks_at = Some("9c544aba41e6".to_owned());
    let text = unfolded(&found.terminal(Screen::default()));
    assert!(text.contains("may be what v2.1.7 alone has"), "{text}");
}

#[test]
fn ends_that_are_the_same_or_do_not_differ_are_reported_so() {
    let mut found = report("");
    found.answer.changes.clear();
    found.changes.clear();
    let text = unfolded(&found.terminal(Screen::default()));
    assert!(text.contains("do not differ under this load") && text.contains("1.46"), "{text}");
    found.answer = Answer { same_ends: true, ..Answer::default() };
    found.run.blocks.clear();
    assert!(found.terminal(Screen::default()).contains("build the same library"));
}
