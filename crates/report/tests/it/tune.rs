//! The document of a search over settings.

use heaptrial_report::{
    Document, Screen, SearchRun, TUNE_SCHEMA_VERSION, TuneReport, VerifiedArm, VerifiedReport,
};
use heaptrial_search::tune::{Against, ArmFigures, DropReason, Effect, Figure, Limits, Standing};
use heaptrial_search::{MeasuredArm, MeasuredBlock};

fn against(figure: Figure, log_ratio: f64, half: f64) -> Against {
    let interval = Some((log_ratio - half, log_ratio + half));
    Against { other: None, figure, blocks: 5, log_ratio, interval }
}

fn block(spec: &str) -> MeasuredBlock {
    let figures = |bytes: f64| ArmFigures { level: bytes.ln(), ..ArmFigures::default() };
    let arm = MeasuredArm { at: 0, name: spec.to_owned(), sha256: String::new(), figures: Ok(figures(6e7)) };
    MeasuredBlock { number: 1, seconds: 60.0, fresh: false, control: figures(1e8), arms: vec![arm] }
}

fn report() -> TuneReport {
    let spec = "mimalloc@2.0.9?decommit_delay=0";
    let candidate = |spec: &str, level: f64, dropped: Option<DropReason>| Standing {
        candidate: 0,
        spec: spec.to_owned(),
        blocks: 3,
        believed: Some((level, 0.02)),
        cpu: Some(0.01),
        within: true,
        dropped,
    };
    let arm = VerifiedArm {
        spec: spec.to_owned(),
        believed: Some((0.6_f64.ln(), 0.02)),
        failed: None,
        against: vec![
            against(Figure::Level, 0.66_f64.ln(), 0.05),
            against(Figure::Cpu, 0.01, 0.02),
            Against {
                other: Some("mimalloc@2.0.9".to_owned()),
                ..against(Figure::Level, 0.99_f64.ln(), 0.05)
            },
        ],
    };
    TuneReport {
        schema_version: TUNE_SCHEMA_VERSION,
        control: "glibc".to_owned(),
        over: vec!["glibc".to_owned(), "mimalloc@2.0.9".to_owned()],
        limits: Limits { cpu: Some(1.05_f64.ln()), ..Limits::default() },
        margin: 1.01_f64.ln(),
        error: 0.05,
        possible: Some(160),
        noise: Some((0.031, 9)),
        candidates: vec![
            candidate(spec, 0.6_f64.ln(), None),
            candidate("glibc?arena_max=1", 0.1, Some(DropReason::Worse { than: None, log_ratio: 0.1 })),
        ],
        effects: vec![Effect {
            base: "mimalloc@2.0.9".to_owned(),
            setting: "decommit_delay".to_owned(),
            value: "0".to_owned(),
            candidates: 3,
            log_ratio: -0.1,
            sd: 0.02,
        }],
        verified: Some(VerifiedReport {
            blocks: 5,
            asked: 5,
            level: 0.95,
            beside: vec!["mimalloc@2.0.9".to_owned()],
            arms: vec![arm],
            failed: Vec::new(),
        }),
        run: SearchRun {
            metric: "anonymous memory".to_owned(),
            seed: 7,
            command: "heaptrial lab tune".to_owned(),
            stopped: None,
            blocks: vec![block(spec)],
        },
    }
}

fn text(report: &TuneReport) -> String {
    report.markdown().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_form_shows_fresh_figures_and_what_was_predicted() {
    let found = report();
    for text in [found.terminal(Screen::default()), found.markdown(), found.html()] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for shown in ["0.66 (0.63 to 0.69) times the memory", "0.60", "worse than the control"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
    assert_eq!(serde_json::from_str::<TuneReport>(&found.json().unwrap()).unwrap(), found);
    assert_eq!(found.arms(), ["glibc", "mimalloc@2.0.9", "mimalloc@2.0.9?decommit_delay=0"]);
}

#[test]
fn what_fresh_seeds_do_not_show_is_no_winner() {
    let with = |place: usize, against: Against| {
        let mut report = report();
        report.verified.as_mut().unwrap().arms[0].against[place] = against;
        report
    };
    let open = with(0, against(Figure::Level, -0.4, 0.5));
    assert!(!open.found() && text(&open).contains("Nothing is shown to be better than glibc"));
    let broken = with(1, against(Figure::Cpu, 0.2, 0.02));
    assert!(!broken.found() && text(&broken).contains("breaks the limit of CPU time (1.05)"));
    let idle = with(1, Against { blocks: 4, ..against(Figure::Cpu, 0.01, 0.02) });
    assert!(!idle.found() && text(&idle).contains("measured in 4 of 5 blocks only"));
    let mut unsure = with(1, against(Figure::Cpu, 0.04, 0.1));
    assert!(unsure.found() && text(&unsure).contains("not shown to keep the limit of CPU time (1.05)"));
    // An arm that is shown to keep the limits comes first, even with more memory.
    let mut kept = report().verified.unwrap().arms[0].clone();
    kept.spec = "jemalloc".to_owned();
    kept.against[0] = against(Figure::Level, 0.7_f64.ln(), 0.05);
    unsure.verified.as_mut().unwrap().arms.push(kept);
    let order: Vec<&str> = unsure.winners().iter().map(|arm| arm.spec.as_str()).collect();
    assert_eq!(order, ["jemalloc", "mimalloc@2.0.9?decommit_delay=0"]);
}

#[test]
fn nothing_has_an_interval_before_noise_is_known() {
    let mut early = report();
    assert!(text(&early).contains("0.60 ± 4%"));
    for noise in [Some((0.0001, 2)), None] {
        early.noise = noise;
        let text = text(&early);
        assert!(!text.contains("± 4%") && !text.contains("0.87 to 0.94"), "{text}");
    }
}

#[test]
fn nothing_is_found_before_all_blocks_are_there() {
    let mut cut_off = report();
    let verified = cut_off.verified.as_mut().unwrap();
    verified.blocks = 2;
    verified.failed = vec![("mimalloc@2.0.9".to_owned(), 1, "killed by SIGSEGV".to_owned())];
    assert!(!cut_off.found() && cut_off.arms() == ["glibc", "mimalloc@2.0.9"]);
    let text = text(&cut_off);
    assert!(text.contains("2 of 5 blocks of the verification are there"), "{text}");
    assert!(text.contains("mimalloc@2.0.9 failed in 1 of 2 blocks"), "{text}");
}

#[test]
fn without_a_winner_every_candidate_says_why_it_is_out() {
    let mut none = report();
    none.verified = None;
    none.candidates[0].within = false;
    none.candidates[1].dropped = Some(DropReason::Failed { message: "\u{1b}[2J<script>".to_owned() });
    let shown = text(&none);
    assert!(shown.contains("None of 2 measured candidates was verified"), "{shown}");
    assert!(shown.contains("limits not kept"), "{shown}");
    assert!(!none.terminal(Screen::default()).contains('\u{1b}') && !none.html().contains("<script>"));
}
