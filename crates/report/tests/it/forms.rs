//! The forms of a report over synthetic databases.

use crate::fixture;

use std::path::Path;

use fixture::Fixture;
use heaptrial_judgement::{Judgement, Rows};
use heaptrial_model::AllocatorSpec;
use heaptrial_report::{
    BugParts, BugRun, Bundle, Options, Report, SCHEMA_VERSION, Trajectories, pseudonymise, terminal, write,
    write_bug,
};
use serde_json::Value;

fn report(fixture: &Fixture) -> (Report, Trajectories) {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture.write(&folder.path().join("trial.db"));
    Report::with_trajectories(&store, trial, &Options::default()).unwrap()
}

#[test]
fn a_command_run_with_losses_on_the_terminal() {
    insta::assert_snapshot!(terminal(&report(&fixture::command(8)).0, false).unwrap());
}

/// What others read from `report.json`.
#[test]
fn a_command_run_as_json() {
    let json: Value = serde_json::from_str(&report(&fixture::command(8)).0.json().unwrap()).unwrap();
    assert_eq!(json["schema_version"], SCHEMA_VERSION);
    assert_eq!(
        (&json["kind"], &json["outcome"], &json["seed"]),
        (&"lab_command".into(), &"completed".into(), &42.into())
    );
    let [control, jemalloc, _] = &json["arms"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!(
        (&control["name"], &control["allocator"], &control["control"]),
        (&"glibc".into(), &"glibc".into(), &true.into())
    );
    assert_eq!(control["ratio_to_control"], Value::Null);
    assert_eq!(control["services"], 8);
    assert_eq!(
        (&jemalloc["name"], &jemalloc["control"], &jemalloc["services"]),
        (&"jemalloc@5.3.0".into(), &false.into(), &7.into())
    );
    assert_eq!(jemalloc["services_excluded"][0]["name"], "jemalloc-2");
    assert_eq!(
        (&jemalloc["identity"]["version"], &jemalloc["identity"]["linkage"]),
        (&"5.3.0".into(), &"preloaded".into())
    );
    assert_eq!(jemalloc["memory"]["metric"], "rss");
    for (field, bytes) in
        [("median_bytes", 142_655_731), ("final_bytes", 158_666_021), ("peak_bytes", 172_009_472)]
    {
        assert_eq!(jemalloc["memory"][field], bytes, "{field}");
    }
    assert_eq!(jemalloc["rss_bytes_final"], 158_666_021);
    for (field, value) in [("estimate", 0.6117), ("low", 0.5943), ("high", 0.6308), ("p_value", 0.015625)] {
        let found = jemalloc["ratio_to_control"][field].as_f64().unwrap();
        assert!((found - value).abs() < 1e-4, "{field}: {found}");
    }
    let lost = &json["services"][4];
    assert_eq!(
        (&lost["name"], &lost["counts"], &lost["ending"]["signaled"]),
        (&"jemalloc-2".into(), &false.into(), &11.into())
    );
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
    Bundle::new((&good, &bad), &[run], BugParts::default()).unwrap()
}

fn written(bundle: &Bundle, folder: &Path) -> String {
    let files = write_bug(bundle, &folder.join("bug")).unwrap();
    std::fs::read_to_string(files.markdown).unwrap()
}

/// Of relays that rest the level is one of a window, and what the table has not is not told.
#[test]
fn a_bug_bundle_says_what_its_figures_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundle = bundle(folder.path());
    let evidence = &mut bundle.bug.evidence[0];
    evidence.matched_age_seconds = Some(83.0 * 3600.0);
    evidence.window_seconds = Some(24.0 * 3600.0);
    let text = written(&bundle, folder.path());
    assert!(text.contains("median of the last 1 d up to an age of 3 d 11 h"), "{text}");
    assert!(text.contains("Growth is a share a day after warm-up, median over services. "), "{text}");
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
        assert_eq!(written.charts.len(), 4);
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
