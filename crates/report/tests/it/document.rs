//! What a report concludes from rows, and its JSON against the schema in docs/.

use crate::fixture;
use crate::lab;

use fixture::{MIB, Service};
use heaptrial_evaluate::judgement::JudgementError;
use heaptrial_model::Ending;
use heaptrial_report::{Document, Options, Outcome, Report, ReportError, Screen};
use heaptrial_store::Store;

fn flat(name: &str, arm: usize, block: u32, mib: f64) -> Service {
    Service::new(name, arm, block, move |_| mib)
}

#[test]
fn figures_of_an_arm_are_means_and_medians_over_its_services() {
    let mut fixture = fixture::command(1);
    fixture.services = [(0, 100.0), (0, 110.0), (0, 240.0), (1, 50.0), (1, 55.0), (1, 120.0)]
        .iter()
        .enumerate()
        .map(|(index, (arm, mib))| flat(&format!("s{index}"), *arm, 0, *mib))
        .collect();
    let report = lab(&fixture);
    let glibc = report.arms[0].memory.as_ref().unwrap();
    let mib = |bytes: u64| bytes as f64 / MIB;
    // RSS is RssAnon and 28 MiB of file pages.
    assert_eq!(mib(glibc.final_bytes), 178.0);
    let level = (138.0f64.ln() + 128.0f64.ln() + 268.0f64.ln()) / 3.0;
    assert!(
        (mib(glibc.median_bytes.unwrap()) - level.exp()).abs() < 1e-5,
        "the geometric mean, as in the ratio"
    );
    assert_eq!(mib(glibc.peak_bytes), 268.0);
    assert_eq!(mib(report.arms[0].anon_bytes_final.unwrap()), 150.0);
    assert_eq!(report.arms[0].slope_bytes_per_hour, Some(0.0));
    let ratio = report.arms[1].ratio_to_control.as_ref().unwrap();
    let logs = |values: [f64; 3]| values.iter().map(|v| (v + 28.0).ln()).sum::<f64>() / 3.0;
    let expected = (logs([50.0, 55.0, 120.0]) - logs([100.0, 110.0, 240.0])).exp();
    assert!((ratio.estimate - expected).abs() < 1e-9);
    assert!(ratio.low.unwrap() < expected && expected < ratio.high.unwrap());
    assert_eq!(report.arms[0].ratio_to_control, None);
    assert_eq!(report.arms[2].memory, None);
}

#[test]
fn one_service_per_arm_gets_no_interval() {
    let report = lab(&fixture::tor());
    assert!(
        report.terminal(Screen::default()).replace('\n', " ").contains("one service per arm: no interval")
    );
    for arm in report.arms.iter().filter(|arm| !arm.control) {
        let ratio = arm.ratio_to_control.as_ref().unwrap();
        assert_eq!((ratio.low, ratio.high, ratio.p_value), (None, None, None));
    }
}

#[test]
fn services_that_do_not_count_are_in_no_figure() {
    let mut fixture = fixture::command(2);
    // Far away from the others: any of them in a figure would show.
    fixture.services.truncate(4);
    fixture.services.extend(
        ["crashed", "exited", "contaminated", "unproved", "young"].map(|name| flat(name, 0, 0, 9000.0)),
    );
    let n = fixture.services.len();
    fixture.services[n - 5].ending = Ending::Signaled(11);
    fixture.services[n - 4].ending = Ending::Exited(3);
    fixture.services[n - 3].contamination = Some("it maps another allocator");
    fixture.services[n - 2].proved = false;
    fixture.services[n - 1].ending = Ending::Interrupted;
    fixture.services[n - 1].lives_for = 20.0;
    let report = lab(&fixture);
    let glibc = &report.arms[0];
    assert_eq!((glibc.services, glibc.services_excluded.len()), (2, 5));
    assert!(glibc.memory.as_ref().unwrap().peak_bytes < (1000.0 * MIB) as u64);
    let reasons: Vec<&str> = glibc.services_excluded.iter().map(|service| service.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "killed by SIGSEGV (signal 11)",
            "exited early with code 3",
            "non-compliant: it maps another allocator",
            "its allocator was never proved",
            "too young to compare: it was cut off at 19 s, others reached 59 s",
        ]
    );
}

#[test]
fn a_slow_start_makes_no_other_run_too_young() {
    let mut fixture = fixture::command(3);
    let services = [("a", 0, 0), ("b", 1, 0), ("c", 0, 1), ("d", 1, 1), ("e", 0, 2), ("f", 1, 2)];
    let of_arm = |arm: usize| if arm == 0 { 100.0 } else { 50.0 };
    let flat = |(name, arm, block)| flat(name, arm, block, of_arm(arm));
    fixture.services = services.map(flat).into();
    fixture.services[2].began_before = 90.0;
    let report = lab(&fixture);
    let counted: Vec<_> =
        report.arms[..2].iter().map(|arm| (arm.services, arm.services_excluded.len())).collect();
    assert_eq!(counted, [(3, 0), (3, 0)]);
}

#[test]
fn an_arm_without_a_service_that_counts_has_no_figures_but_a_warning() {
    let mut fixture = fixture::command(1);
    fixture.services[1].proved = false;
    fixture.events.push((
        Some(1),
        "arm_failed",
        "jemalloc@5.3.0 (jemalloc-1) ld.so: object cannot be preloaded: ignored".to_owned(),
    ));
    let report = lab(&fixture);
    let arm = &report.arms[1];
    assert_eq!((arm.services, &arm.memory, &arm.ratio_to_control, &arm.identity), (0, &None, &None, &None));
    let excluded =
        "jemalloc@5.3.0: 1 of 1 service excluded: jemalloc-1 (ld.so: object cannot be preloaded: ignored).";
    assert!(report.caveats.iter().any(|caveat| caveat == excluded), "{:?}", report.caveats);
}

#[test]
fn a_run_without_services_or_samples_is_reported_all_the_same() {
    let mut fixture = fixture::command(1);
    fixture.services.clear();
    fixture.outcome = Some("failed");
    let report = lab(&fixture);
    assert_eq!((report.samples, report.outcome), (0, Outcome::Failed));
    assert!(
        report.terminal(Screen::default()).contains("No service has readings, so nothing can be compared")
    );
    let folder = tempfile::tempdir().unwrap();
    let written = report.write(folder.path()).unwrap();
    assert!(written.charts.is_empty() && written.html.is_file());
}

#[test]
fn a_killed_run_is_reported_up_to_its_last_sample() {
    let mut fixture = fixture::command(1);
    fixture.outcome = None;
    let report = lab(&fixture);
    assert_eq!(report.outcome, Outcome::Unfinished);
    assert!((report.duration_seconds - 59.4).abs() < 1e-9);
    assert!(report.caveats[0].starts_with("No end of the run was recorded"), "{:?}", report.caveats);
}

#[test]
fn the_warm_up_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture::command(1).write(&folder.path().join("trial.db"));
    let options = Options { warm_up: Some(std::time::Duration::from_secs(45)), ..Options::default() };
    let report = Report::from_store(&store, trial, &options).unwrap();
    assert_eq!(report.analysis.warm_up_seconds, 45.0);
    // Later than every reading: no medians, no ratios, and that is told.
    let options = Options { warm_up: Some(std::time::Duration::from_secs(600)), ..Options::default() };
    let report = Report::from_store(&store, trial, &options).unwrap();
    assert_eq!(report.arms[1].ratio_to_control, None);
    assert!(report.caveats.iter().any(|text| text.contains("no readings after warm-up")));
}

#[test]
fn a_trial_that_is_not_there_is_an_error_that_names_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture::command(1).write(&folder.path().join("trial.db"));
    let error = Report::from_store(&store, trial + 7, &Options::default()).unwrap_err();
    assert!(matches!(error, ReportError::Judgement(JudgementError::Failed(_))));
    assert!(error.to_string().contains("1 (`redis fill and delete`)"), "{error}");
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trial.db");
    let (store, trial) = fixture::command(3).write(&path);
    let first = Report::with_charts(&store, trial, &Options::default()).unwrap();
    drop(store);
    let again = Report::with_charts(&Store::open(&path).unwrap(), trial, &Options::default()).unwrap();
    assert_eq!(first.json().unwrap(), again.json().unwrap());
    assert_eq!(first.html(), again.html());
}

#[test]
fn lives_that_ended_otherwise_are_reported_all_the_same() {
    let mut endings = fixture::command(2);
    endings.services[0].ending = Ending::Exited(1);
    endings.services[1].ending = Ending::ForkedAway;
    endings.services[2].ending = Ending::Interrupted;
    endings.arms[0].1 = None;
    lab(&endings);
    lab(&fixture::hostile());
}
