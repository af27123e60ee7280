//! The forms of a report over synthetic databases.

use crate::{fixture, lab};

use heaptrial_report::{Document, SCHEMA_VERSION, Screen};
use serde_json::Value;

#[test]
fn a_command_run_with_losses_on_the_terminal() {
    insta::assert_snapshot!(lab(&fixture::command(8)).terminal(Screen::default()));
}

/// What others read from `report.json`.
#[test]
fn a_command_run_as_json() {
    let json: Value = serde_json::from_str(&lab(&fixture::command(8)).json().unwrap()).unwrap();
    assert_eq!(json["schema_version"], SCHEMA_VERSION);
    let [control, jemalloc, _] = &json["arms"].as_array().unwrap()[..] else { panic!("{json}") };
    let is = |found: &Value, wanted: Value| assert_eq!(*found, wanted);
    is(&control["name"], "glibc".into());
    is(&control["allocator"], "glibc".into());
    is(&control["control"], true.into());
    is(&control["services"], 8.into());
    is(&control["ratio_to_control"], Value::Null);
    is(&jemalloc["services"], 7.into());
    is(&jemalloc["services_excluded"][0]["name"], "jemalloc-2".into());
    is(&jemalloc["identity"]["version"], "5.3.0".into());
    is(&jemalloc["memory"]["metric"], "rss".into());
    is(&jemalloc["memory"]["median_bytes"], 142_655_731.into());
    is(&jemalloc["memory"]["final_bytes"], 158_666_021.into());
    is(&jemalloc["memory"]["peak_bytes"], 172_009_472.into());
    is(&jemalloc["rss_bytes_final"], 158_666_021.into());
    for (field, value) in [("estimate", 0.6117), ("low", 0.5943), ("high", 0.6308), ("p_value", 0.015625)] {
        let found = jemalloc["ratio_to_control"][field].as_f64().unwrap();
        assert!((found - value).abs() < 1e-4, "{field}: {found}");
    }
    let lost = &json["services"][4];
    is(&lost["name"], "jemalloc-2".into());
    is(&lost["ending"]["signaled"], 11.into());
}

#[test]
fn colour_changes_nothing_but_colour() {
    let report = lab(&fixture::command(8));
    let colored = report.terminal(Screen { colored: true, width: None });
    assert!(colored.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
    let expected = report.terminal(Screen::default());
    assert_eq!(trimmed, expected.lines().collect::<Vec<_>>());
}

/// A run of any size gets all its charts.
#[test]
fn charts_hold_few_and_many_arms_and_services() {
    for (arms, repeats) in [(1, 1), (9, 12), (24, 4)] {
        let mut fixture = fixture::command(1);
        let identity = fixture.arms[0].1.clone();
        let arm = |arm: usize| (format!("mimalloc@3.{arm}.1?purge_delay={arm}"), identity.clone());
        fixture.arms = (0..arms).map(arm).collect();
        let service = |index: usize| {
            let (arm, block) = (index % arms, (index / arms) as u32);
            let curve = fixture::curve(50.0 + 20.0 * arm as f64, 0.5, index as u32);
            fixture::Service::new(&format!("service-{index}"), arm, block, curve)
        };
        fixture.services = (0..arms * repeats).map(service).collect();
        let charts = lab(&fixture).charts();
        assert_eq!(charts.len(), 2);
        for svg in charts.iter().map(|chart| chart.file()) {
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        }
    }
}
