//! Several trials side by side.

use crate::{fixture, fleet, import, lab};

use heaptrial_report::{Document, Options, Screen, compare};

#[test]
fn a_lab_run_and_a_field_trial_as_markdown() {
    let comparison = compare(&[lab(&fixture::tor()), import(&fleet::contaminated(), &Options::default())]);
    insta::assert_snapshot!(comparison.markdown());
}

#[test]
fn arms_are_matched_by_treatment_and_nothing_is_pooled() {
    let reports = [lab(&fixture::tor()), import(&fleet::contaminated(), &Options::default())];
    let comparison = compare(&reports);
    let same =
        comparison.treatments.iter().find(|treatment| treatment.treatment == "mimalloc@2.0.9").unwrap();
    let names: Vec<&str> = same.results.iter().flatten().map(|result| result.arm.name.as_str()).collect();
    assert_eq!(names, ["mimalloc@2.0.9", "group_mimalloc209"]);
    for (result, report) in same.results.iter().flatten().zip(&reports) {
        assert!(report.arms.contains(&result.arm));
    }
    for caveat in ["kind of trial", "metric", "age at which", "assignment", "memory of the host"] {
        assert!(
            comparison.caveats.iter().any(|text| text.contains(caveat)),
            "{caveat}: {:#?}",
            comparison.caveats
        );
    }
}

#[test]
fn a_trial_compared_with_itself_differs_in_nothing() {
    let report = lab(&fixture::command(4));
    let comparison = compare(&[report.clone(), report]);
    assert_eq!(comparison.caveats, [""; 0]);
    assert_eq!(comparison.trials[1].name, "redis fill and delete (2)");
    let text = comparison.terminal(Screen::default());
    assert!(text.contains("jemalloc@5.3.0 has the least memory in redis fill and delete"), "{text}");
}
