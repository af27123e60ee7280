//! The forms of a report over synthetic databases.

use crate::fixture;

use fixture::Fixture;
use heaptrial_evaluate::judgement::{Judgement, Rows};
use heaptrial_report::{Document, Options, Ratio, Report, Reproduce, SCHEMA_VERSION, pseudonymise};
use serde_json::Value;

fn report(fixture: &Fixture) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture.write(&folder.path().join("trial.db"));
    Report::with_charts(&store, trial, &Options::default()).unwrap()
}

#[test]
fn a_command_run_with_losses_on_the_terminal() {
    insta::assert_snapshot!(report(&fixture::command(8)).terminal(false));
}

/// What others read from `report.json`.
#[test]
fn a_command_run_as_json() {
    let json: Value = serde_json::from_str(&report(&fixture::command(8)).json().unwrap()).unwrap();
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

/// The report for the maintainers of an allocator is the ordinary one, under other names and with how to see it again.
#[test]
fn a_report_for_maintainers_has_no_names_and_says_how_to_see_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture::tor().write(&folder.path().join("trial.db"));
    let mut rows = Rows::read(&store, trial).unwrap();
    let names: Vec<String> = rows.services.iter().map(|service| service.name.clone()).collect();
    pseudonymise(&mut rows);
    let judgement = Judgement::from_rows(&store, rows, &Options::default()).unwrap();
    let reproduce = Reproduce {
        bad: "mimalloc@3.0.1".to_owned(),
        good: "mimalloc@2.0.9".to_owned(),
        ratio: judgement.ratio_of(2, 1).as_ref().map(Ratio::from),
        defaults: Vec::new(),
        command: "heaptrial lab tor -a mimalloc@2.0.9 -a mimalloc@3.0.1 --repeat 3".to_owned(),
    };
    let command = reproduce.command.clone();
    let report = Report::charted(&judgement).unwrap().for_maintainers(reproduce);
    for text in [report.html(), report.markdown(), report.json().unwrap()] {
        assert!(names.iter().all(|name| !text.contains(name.as_str())), "{text}");
        assert!(text.contains(&command), "{text}");
    }
    assert!(report.charts().iter().any(|chart| chart.name == "memory-over-time"));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let report = report(&fixture::command(8));
    let colored = report.terminal(true);
    assert!(colored.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
    let expected = report.terminal(false);
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
        let report = report(&fixture);
        let folder = tempfile::tempdir().unwrap();
        let written = report.write(folder.path()).unwrap();
        assert_eq!(written.charts.len(), 3);
        for chart in report.charts() {
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
