//! Importing what exporters tell of services whose lives are known: every reading is of the life that it was read of, none is missing
//! and none is invented, and the report's figures are those of what was drawn.

use crate::support;

use std::path::Path;
use std::process::Output;

use heaptrial_store::Store;
use heaptrial_testbed::drawn;
use serde_json::Value;
use support::exporters::{ARMS, BEGIN, Exporter, HOURS, LEVELS_KIB, World};
use support::series_store::{Server, installed};
use support::steps::{self, Life};
use support::{arm, heaptrial, json as json_of, run, stderr, stdout, stored, succeeds};

const STEP_MS: i64 = 15 * 60_000;

fn words(exporter: Exporter) -> Vec<&'static str> {
    let words = match exporter {
        Exporter::Processes => "--exporter process-exporter",
        Exporter::TwoServers => "--exporter process-exporter --replica-label replica",
        Exporter::Cadvisor => "--exporter cadvisor",
        Exporter::Kubernetes => "--exporter cadvisor --service-label pod --service-label container",
        Exporter::Systemd => {
            "--query systemd_process_resident_memory_bytes --start systemd_unit_start_time_seconds \
             --service-label instance --service-label name"
        }
    };
    [&words.split_whitespace().collect::<Vec<_>>()[..], &["--arm-label", "allocator"]].concat()
}

fn import(folder: &Path, url: &str, words: &[&str]) -> Output {
    let at = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let mut command = heaptrial(folder);
    command.args(["--db", "imported.db", "import", "prometheus", url, "--name", "whole"]).args(words);
    command.args(["--from", &at(BEGIN - 60), "--to", &at(BEGIN + HOURS * 3600)]);
    command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
}

type Found = std::collections::BTreeMap<String, (String, Vec<(heaptrial_model::LifeStart, Life)>)>;

/// Levels and their ratio are those that were drawn, restarts and peaks those of each service.
#[track_caller]
fn figures(what: &str, report: &Value, lives: &Found) {
    let near = |figure: &str, found: &Value, wanted: f64| {
        let found = found.as_f64().unwrap_or_else(|| panic!("{what}: no {figure}"));
        assert!((found / wanted - 1.0).abs() < 0.001, "{what}: {figure}: {found} and {wanted}");
    };
    for (name, kib) in ARMS.iter().zip(LEVELS_KIB) {
        let arm = arm(report, name);
        assert_eq!(arm["services"], 6, "{what}");
        near("level", &arm["memory"]["median_bytes"], (kib * 1024) as f64);
        near("peak", &arm["memory"]["peak_bytes"], (kib * 1024) as f64);
    }
    let ratio = &arm(report, ARMS[1])["ratio_to_control"];
    near("ratio", &ratio["estimate"], LEVELS_KIB[1] as f64 / LEVELS_KIB[0] as f64);
    for service in report["services"].as_array().unwrap() {
        let (_, lives) = &lives[service["name"].as_str().unwrap()];
        assert_eq!(service["restarts"], lives.len() - 1, "{what}: {}", service["name"]);
        let (_, (_, readings)) = lives.last().unwrap();
        assert_eq!(
            service["final_bytes"].as_f64().unwrap() as u64,
            readings.last().unwrap().1,
            "{what}: {}",
            service["name"]
        );
    }
}

fn an_exporter_is_understood(exporter: Exporter) {
    if !installed(&["prometheus", "promtool", "victoria-metrics"]) {
        return;
    }
    for seed in 1..=2 {
        let folder = tempfile::tempdir().unwrap();
        let world = World::draw(exporter, seed);
        for (store, server) in [
            ("prometheus", Server::prometheus_with(folder.path(), &world.openmetrics())),
            ("victoria", Server::victoria(folder.path(), &world.json_lines())),
        ] {
            let what = format!("{exporter:?} {seed} in {store}");
            let folder = folder.path().join(format!("imported-from-{store}"));
            std::fs::create_dir(&folder).unwrap();
            let url = server.url();
            let output = import(&folder, &url, &words(exporter));
            succeeds(&output);
            let said = stdout(&output);
            let database = Store::open(&folder.join("imported.db")).unwrap();
            let found = steps::found(&stored::read(&database, "whole"));
            assert_eq!(
                found.keys().collect::<Vec<_>>(),
                world.services.keys().collect::<Vec<_>>(),
                "{what}: {said}"
            );
            for (name, (arm, lives)) in &found {
                let service = &world.services[name];
                assert_eq!(arm, service.arm, "{what}: {name}");
                let drawn: Vec<Life> =
                    service.lives.values().map(|life| (life.started, life.readings.clone())).collect();
                steps::same(&format!("{what}: {name}"), lives, &drawn, STEP_MS);
            }
            let note = match exporter {
                Exporter::Cadvisor => "in no arm excluded",
                Exporter::Kubernetes => "of pause containers excluded",
                _ => "the starts of",
            };
            assert!(said.contains(note), "{what}: {said}");
            if exporter == Exporter::TwoServers {
                // Two series of one service are no two parts of it.
                let refused = import(&folder, &url, &words(Exporter::Processes));
                assert_eq!(refused.status.code(), Some(3), "{what}");
                let said = stderr(&refused);
                assert!(said.contains("{replica=\"a\"} and {replica=\"b\"}"), "{said}");
                assert!(said.contains("--replica-label"), "{said}");
            }
            if store == "prometheus" {
                let output = run(&folder, "--db imported.db --json --out report report whole");
                succeeds(&output);
                figures(&what, &json_of(&output), &found);
            }
        }
    }
}

#[test]
fn groups_of_processes() {
    an_exporter_is_understood(Exporter::Processes);
}

#[test]
fn what_two_servers_scrape() {
    let Some(()) = drawn(0, 3) else { return };
    an_exporter_is_understood(Exporter::TwoServers);
}

#[test]
fn control_groups_of_systemd() {
    let Some(()) = drawn(2, 3) else { return };
    an_exporter_is_understood(Exporter::Cadvisor);
}

#[test]
fn containers_of_kubernetes() {
    let Some(()) = drawn(1, 3) else { return };
    an_exporter_is_understood(Exporter::Kubernetes);
}

#[test]
fn units_of_a_template() {
    an_exporter_is_understood(Exporter::Systemd);
}
