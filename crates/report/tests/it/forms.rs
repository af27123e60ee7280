//! The forms of a report over synthetic databases.

use crate::digits;
use crate::fixture;

use std::path::Path;

use fixture::Fixture;
use heaptrial_judgement::{Judgement, Rows};
use heaptrial_model::AllocatorSpec;
use heaptrial_report::{
    BugParts, BugRun, Bundle, Options, Report, Secrets, Trajectories, pseudonymise, terminal, write,
    write_bug,
};

fn report(fixture: &Fixture) -> (Report, Trajectories) {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture.write(&folder.path().join("trial.db"));
    Report::with_trajectories(&store, trial, &Options::default()).unwrap()
}

#[test]
fn a_tor_run_on_the_terminal() {
    insta::assert_snapshot!(terminal(&report(&fixture::tor()).0, false).unwrap());
}

#[test]
fn a_command_run_with_losses_on_the_terminal() {
    insta::assert_snapshot!(terminal(&report(&fixture::command(8)).0, false).unwrap());
}

#[test]
fn a_command_run_as_markdown() {
    let (report, trajectories) = report(&fixture::command(8));
    insta::assert_snapshot!(report.markdown(&trajectories).unwrap());
}

#[test]
fn a_tor_run_as_json() {
    insta::assert_snapshot!(digits::nine_digits(&report(&fixture::tor()).0.json().unwrap()));
}

#[test]
fn a_tor_run_as_markdown() {
    let (report, trajectories) = report(&fixture::tor());
    insta::assert_snapshot!(report.markdown(&trajectories).unwrap());
}

#[test]
fn a_command_run_as_json() {
    insta::assert_snapshot!(digits::nine_digits(&report(&fixture::command(8)).0.json().unwrap()));
}

/// A bundle of a Tor run that will be written below `folder`.
fn bundle(folder: &Path) -> Bundle {
    let (store, trial) = fixture::tor().write(&folder.join("trial.db"));
    let mut rows = Rows::read(&store, trial).unwrap();
    pseudonymise(&mut rows);
    let judgement = Judgement::from_rows(&store, rows, &Options::default()).unwrap();
    let spec = |text: &str| text.parse::<AllocatorSpec>().unwrap();
    let (bad, good) = (spec("mimalloc@3.0.1"), spec("mimalloc@2.1.7"));
    let run = BugRun::new(judgement, &bad, Some(&good), &AllocatorSpec::clone).unwrap().unwrap();
    let mut secrets = Secrets::default();
    secrets.of_trial(&store, trial).unwrap();
    Bundle::new((&good, &bad), &[run], BugParts::default(), secrets).unwrap()
}

fn written(bundle: &Bundle, folder: &Path) -> String {
    let files = write_bug(bundle, &folder.join("bug")).unwrap();
    std::fs::read_to_string(files.markdown).unwrap()
}

#[test]
fn a_bug_bundle_as_markdown() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(written(&bundle(folder.path()), folder.path()));
}

/// Of relays that rest the level is one of a window, and what the table has not is not told.
#[test]
fn a_bug_bundle_says_what_its_figures_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundle = bundle(folder.path());
    let evidence = &mut bundle.bug.evidence[0];
    evidence.matched_age_seconds = Some(83.0 * 3600.0);
    evidence.window_seconds = Some(24.0 * 3600.0);
    for arm in &mut evidence.arms {
        if let Some(slope) = &mut arm.slope_bytes_per_hour {
            (slope.low, slope.high) = (None, None);
        }
    }
    let text = written(&bundle, folder.path());
    assert!(text.contains("median of the last 1 d up to an age of 3 d 11 h"), "{text}");
    assert!(text.contains("Growth is the slope after warm-up. "), "{text}");
}

#[test]
fn colour_changes_nothing_but_colour() {
    let (report, _) = report(&fixture::command(8));
    let colored = terminal(&report, true).unwrap();
    assert!(colored.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
    let expected = terminal(&report, false).unwrap();
    assert_eq!(trimmed, expected.lines().collect::<Vec<_>>());
}

/// A run of any size gets all its charts, as drawings and as pictures.
#[test]
fn charts_hold_few_and_many_arms_and_services() {
    for (arms, repeats) in [(1, 1), (2, 3), (9, 12), (24, 4)] {
        let mut fixture = fixture::command(1);
        let identity = fixture.arms[0].1.clone();
        fixture.arms = (0..arms)
            .map(|arm| (format!("mimalloc@3.{arm}.1?purge_delay={arm}"), identity.clone()))
            .collect();
        fixture.services = (0..arms * repeats)
            .map(|index| {
                let (arm, block) = (index % arms, (index / arms) as u32);
                let level = 50.0 + 20.0 * arm as f64;
                fixture::Service::new(
                    &format!("service-{index}"),
                    arm,
                    block,
                    fixture::curve(level, 0.5, index as u32),
                )
            })
            .collect();
        let (report, trajectories) = report(&fixture);
        let folder = tempfile::tempdir().unwrap();
        let written = write(&report, &trajectories, folder.path()).unwrap();
        assert_eq!(written.charts.len(), 8);
        for chart in report.charts(&trajectories).unwrap() {
            let svg = chart.file();
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{}", chart.name);
        }
        keep(&written.charts, &format!("{arms}-arms"));
    }
}

/// For looking at: kept where `HEAPTRIAL_SCREENSHOTS` names a folder.
fn keep(charts: &[std::path::PathBuf], prefix: &str) {
    let Some(folder) = std::env::var_os("HEAPTRIAL_SCREENSHOTS") else { return };
    std::fs::create_dir_all(&folder).unwrap();
    for chart in charts {
        let name = format!("{prefix}-{}", chart.file_name().unwrap().to_string_lossy());
        std::fs::copy(chart, std::path::Path::new(&folder).join(name)).unwrap();
    }
}
