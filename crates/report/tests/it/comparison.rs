//! Several trials side by side.

use crate::fixture;
use crate::fleet;

use fixture::Fixture;
use heaptrial_report::{Comparison, Options, Report, compare};
use heaptrial_store::ImportedTrial;

fn lab(fixture: &Fixture) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture.write(&folder.path().join("trial.db"));
    Report::from_store(&store, trial, &Options::default()).unwrap()
}

fn field(trial: &ImportedTrial) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = fleet::write(trial, &folder.path().join("fleet.db"));
    Report::from_store(&store, id, &Options::default()).unwrap()
}

#[test]
fn a_lab_run_and_a_field_trial_as_markdown() {
    let comparison = compare(&[lab(&fixture::tor()), field(&fleet::contaminated())]);
    insta::assert_snapshot!(comparison.markdown().unwrap());
}

#[test]
fn arms_are_matched_by_treatment_and_nothing_is_pooled() {
    let reports = [lab(&fixture::tor()), field(&fleet::contaminated())];
    let comparison = compare(&reports);
    let same =
        comparison.treatments.iter().find(|treatment| treatment.treatment == "mimalloc@2.0.9").unwrap();
    let names: Vec<&str> = same.results.iter().flatten().map(|result| result.arm.as_str()).collect();
    assert_eq!(names, ["mimalloc@2.0.9", "group_mimalloc209"]);
    for (result, report) in same.results.iter().flatten().zip(&reports) {
        let own = report.arms.iter().find(|arm| arm.name == result.arm).unwrap();
        assert_eq!(result.ratio_to_control.as_ref(), own.ratio_as_treated());
    }
    for caveat in ["kind of trial", "metric", "ages", "assignment", "memory of the host"] {
        assert!(
            comparison.caveats.iter().any(|text| text.contains(caveat)),
            "{caveat}: {:#?}",
            comparison.caveats
        );
    }
    let back: Comparison = serde_json::from_str(&comparison.json().unwrap()).unwrap();
    assert_eq!(back.json().unwrap(), comparison.json().unwrap());
}

#[test]
fn all_forms_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let comparison = compare(&[lab(&fixture::tor()), field(&fleet::contaminated())]);
    let out = folder.path().join("comparison");
    let written = heaptrial_report::write_comparison(&comparison, &out).unwrap();
    assert_eq!(written, ["comparison.html", "comparison.md", "comparison.json"].map(|name| out.join(name)));
    assert!(written.iter().all(|path| path.is_file()));
}

#[test]
fn a_trial_beside_itself_differs_in_nothing() {
    let report = lab(&fixture::command(4));
    let comparison = compare(&[report.clone(), report]);
    assert_eq!(comparison.caveats, [""; 0]);
    assert_eq!(comparison.trials[1].name, "redis fill and delete (2)");
    let text = comparison.terminal(false).unwrap();
    assert!(text.contains("jemalloc@5.3.0 needs the least in both trials."), "{text}");
    assert!(compare(&[]).terminal(false).unwrap().contains("No trial has a figure"));
}

/// Two runs of `fixture::command`, the second with other ratios of its arms and its control first or not.
fn against(ratios: impl Fn(&mut heaptrial_report::Ratio), control_first: bool) -> String {
    let report = lab(&fixture::command(4));
    let mut comparison = compare(&[report.clone(), report]);
    let control = |known: &heaptrial_report::ComparedTreatment| {
        known.results.iter().flatten().any(|result| result.control)
    };
    for known in &mut comparison.treatments {
        let first = control(known) == control_first;
        let second = known.results[1].as_mut().unwrap();
        second.ratio_to_control.iter_mut().for_each(&ratios);
        second.place = Some(if first { 1 } else { 2 });
    }
    comparison.terminal(false).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn trials_disagree_where_each_shows_its_own_least() {
    let turned = against(
        |ratio| {
            (ratio.estimate, ratio.low, ratio.high) = (1.5, Some(1.3), Some(1.7));
        },
        true,
    );
    assert!(turned.contains("The trials do not agree on who needs the least: jemalloc@5.3.0"), "{turned}");
    let not_told_apart = against(
        |ratio| {
            (ratio.estimate, ratio.low, ratio.high) = (1.08, Some(0.91), Some(1.29));
        },
        true,
    );
    assert!(!not_told_apart.contains("do not agree"), "{not_told_apart}");
    assert!(not_told_apart.contains("no two show a contradiction"), "{not_told_apart}");
}

#[test]
fn an_arm_that_bloats_is_not_the_least_without_a_word() {
    let report = lab(&fixture::command(4));
    let mut comparison = compare(&[report.clone(), report]);
    let best = comparison.treatments.iter_mut().find(|known| known.treatment == "jemalloc@5.3.0").unwrap();
    best.results[0].as_mut().unwrap().verdict = Some("bloating".to_owned());
    let text = comparison.terminal(false).unwrap();
    assert!(
        text.contains("jemalloc@5.3.0 is bloating in redis fill and delete: what it needs now"),
        "{text}"
    );
}

#[test]
fn hostile_names_stay_text() {
    let comparison = compare(&[lab(&fixture::hostile()), field(&fleet::hostile())]);
    let html = comparison.html().unwrap();
    for markup in ["<script", "<img", "<b>", "\u{1b}", "\u{202e}"] {
        assert!(!html.contains(markup), "{markup:?}");
    }
    assert!(!comparison.terminal(false).unwrap().chars().any(|c| c.is_control() && c != '\n'));
    assert!(!comparison.markdown().unwrap().contains('<'));
}
