//! Importing what exporters tell of services whose lives are known: every reading is of the life that it was read of, none is missing
//! and none is invented, and the report's figures are those of what was drawn.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use heaptrial_model::{LifeStart, Metric, TrialKind};
use heaptrial_store::{ImportedSample, ImportedTrial, Store};
use heaptrial_testbed::drawn;
use serde_json::Value;
use support::exporters::{ARMS, BEGIN, Exporter, HOURS, LEVELS_KIB, Service, Told, World};
use support::series_store::{Server, installed};
use support::{arm, heaptrial, json as json_of, run, stderr, stdout, succeeds};

const MINUTE_MS: i64 = 60_000;
/// Of what two servers scraped one counts at a time: what only the other has for less than this may be missing.
const APART_MS: i64 = 5 * MINUTE_MS;

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

/// Imports until an hour; gives what is said.
fn import(folder: &Path, url: &str, exporter: Exporter, from: bool, hours: i64, more: &[&str]) -> String {
    let words = [&words(exporter)[..], more].concat();
    let output = import_by(folder, url, &words, from, hours);
    succeeds(&output);
    stdout(&output)
}

fn import_by(folder: &Path, url: &str, words: &[&str], from: bool, hours: i64) -> Output {
    let at = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let mut command = heaptrial(folder);
    command.args(["--db", "imported.db", "import", "prometheus", url]).args(words);
    command.args(["--to", &at(BEGIN + hours * 3600)]).env("NO_PROXY", "127.0.0.1,localhost");
    if from {
        command.args(["--from", &at(BEGIN - 60)]);
    }
    command.output().unwrap()
}

fn trial(folder: &Path, name: &str) -> ImportedTrial {
    let store = Store::open(&folder.join("imported.db")).unwrap();
    store.read_imported(name, TrialKind::ImportPrometheus).unwrap().unwrap().1
}

/// As drawn and as imported.
type Lives = BTreeMap<String, (String, Vec<Told>)>;

fn found(trial: &ImportedTrial) -> Lives {
    let bytes = |sample: &ImportedSample| match trial.plan.metric {
        Metric::Anon => sample.anon_bytes.unwrap() + sample.swap_bytes.unwrap(),
        _ => sample.rss_bytes,
    };
    let services = trial.services.iter().enumerate().map(|(index, service)| {
        let arm = trial.lists.iter().find(|list| list.members.contains(&index)).unwrap().arm.name.clone();
        let lives = service.lives.iter().map(|life| {
            assert_eq!(life.start, LifeStart::Observed, "{}", service.name);
            let readings = life.samples.iter().map(|sample| (sample.wall_us / 1000, bytes(sample))).collect();
            Told { started: life.started_wall_us as f64 / 1e6, readings }
        });
        (service.name.clone(), (arm, lives.collect()))
    });
    services.collect()
}

/// The first reading of each minute of a service, with the start of its life, which is not after its first reading.
fn first_of_minutes(services: &BTreeMap<String, Service>) -> Lives {
    let of_service = |service: &Service| {
        let mut last = i64::MIN;
        let mut lives = Vec::new();
        for life in service.lives.values() {
            let mut told = life.clone();
            told.readings.retain(|(at, _)| {
                let minute = at.div_euclid(MINUTE_MS);
                std::mem::replace(&mut last, minute) != minute
            });
            if let Some((first, _)) = told.readings.first() {
                told.started = told.started.min(*first as f64 / 1e3);
                lives.push(told);
            }
        }
        (service.arm.to_owned(), lives)
    };
    services.iter().map(|(name, service)| (name.clone(), of_service(service))).collect()
}

/// Starts that waver may be told a second later than at first.
#[track_caller]
fn same(what: &str, found: &Lives, drawn: &Lives) {
    assert_eq!(found.keys().collect::<Vec<_>>(), drawn.keys().collect::<Vec<_>>(), "{what}");
    for (name, (arm, lives)) in found {
        let (drawn_arm, drawn_lives) = &drawn[name];
        let starts = |lives: &[Told]| lives.iter().map(|life| life.started as i64).collect::<Vec<_>>();
        assert_eq!(arm, drawn_arm, "{what}: {name}");
        assert_eq!(
            lives.len(),
            drawn_lives.len(),
            "{what}: {name}: {:?} and {:?}",
            starts(lives),
            starts(drawn_lives)
        );
        for (life, drawn) in lives.iter().zip(drawn_lives) {
            assert!(
                (life.started - drawn.started).abs() <= 1.001,
                "{what}: {name}: {} and {}",
                life.started,
                drawn.started
            );
            let apart = life.readings.iter().zip(&drawn.readings).find(|(found, drawn)| found != drawn);
            let lengths = (life.readings.len(), drawn.readings.len());
            assert!(apart.is_none() && lengths.0 == lengths.1, "{what}: {name}: {apart:?}, {lengths:?}");
        }
    }
}

/// Readings are of what either server scraped, of the life that it was; nothing is missing but for moments.
#[track_caller]
fn one_of_both(what: &str, found: &Lives, services: &BTreeMap<String, Service>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), services.keys().collect::<Vec<_>>(), "{what}");
    for (name, (_, lives)) in found {
        for life in lives {
            let of = services[name].lives.values().find(|told| told.readings.contains(&life.readings[0]));
            let of = of.unwrap_or_else(|| panic!("{what}: {name}: {:?} was not scraped", life.readings[0]));
            let other = life.readings.iter().find(|reading| !of.readings.contains(reading));
            assert_eq!(other, None, "{what}: {name}: of another life, or of none");
            assert!(
                (life.started - of.started.min(life.readings[0].0 as f64 / 1e3)).abs() <= 1.001,
                "{what}: {name}"
            );
        }
        for told in services[name].lives.values() {
            let near = |at: i64| {
                let readings = lives.iter().flat_map(|life| &life.readings);
                readings.map(|(found, _)| found.abs_diff(at)).min().unwrap() <= APART_MS as u64
            };
            let missing = told.readings.iter().find(|(at, _)| !near(*at));
            assert_eq!(missing, None, "{what}: {name}");
        }
    }
}

/// Levels and their ratio are those that were drawn, restarts and peaks those of each service.
#[track_caller]
fn figures(what: &str, report: &Value, lives: &Lives) {
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
        let last = lives.last().unwrap();
        assert_eq!(
            service["memory"]["final_bytes"],
            last.readings.last().unwrap().1,
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
        let drawn = first_of_minutes(&world.services);
        for (store, server) in [
            ("prometheus", Server::prometheus_with(folder.path(), &world.openmetrics())),
            ("victoria", Server::victoria(folder.path(), &world.json_lines())),
        ] {
            let what = format!("{exporter:?} {seed} in {store}");
            let folder = folder.path().join(format!("imported-from-{store}"));
            std::fs::create_dir(&folder).unwrap();
            let url = server.url();
            let said = import(&folder, &url, exporter, true, HOURS, &["--name", "whole"]);
            let whole = found(&trial(&folder, "whole"));
            match exporter {
                Exporter::TwoServers => one_of_both(&what, &whole, &world.services),
                _ => same(&what, &whole, &drawn),
            }
            let told = match exporter {
                Exporter::Cadvisor => "services in no arm and left out",
                Exporter::Kubernetes => "of pause containers were left out",
                _ => "the starts of",
            };
            assert!(said.contains(told), "{what}: {said}");
            if exporter != Exporter::Processes {
                assert!(!said.contains("clock was set"), "{what}: {said}");
            }

            // One after the other it is the same.
            for (turn, hours) in [9, 21, HOURS].into_iter().enumerate() {
                import(&folder, &url, exporter, turn == 0, hours, &["--name", "parts", "--late", "2h"]);
            }
            let parts = found(&trial(&folder, "parts"));
            match exporter {
                // Which of both is read where they meet depends on where it was begun.
                Exporter::TwoServers => one_of_both(&what, &parts, &world.services),
                _ => same(&format!("{what}, in parts"), &parts, &whole),
            }
            if exporter == Exporter::TwoServers {
                // Two series of one service are no two parts of it.
                let refused = import_by(&folder, &url, &words(Exporter::Processes), true, HOURS);
                assert_eq!(refused.status.code(), Some(3), "{what}");
                let said = stderr(&refused);
                assert!(said.contains("{replica=\"a\"} and {replica=\"b\"}"), "{said}");
                assert!(said.contains("--replica-label"), "{said}");
            }
            if store == "prometheus" {
                let output = run(&folder, "--db imported.db --json --out report report whole");
                succeeds(&output);
                figures(&what, &json_of(&output), &whole);
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
