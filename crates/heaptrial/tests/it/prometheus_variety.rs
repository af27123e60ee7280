//! What stores of operators hold beside well-behaved exporters, put into a real VictoriaMetrics and compared with what was drawn.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use heaptrial_model::LifeStart;
use heaptrial_store::Store;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use support::series_store::{Server, installed};
use support::steps::{self, Life};
use support::{heaptrial, stderr, stored};

/// 2026-10-01, in seconds since 1970.
const BEGIN: i64 = 1_790_812_800;
const HOURS: i64 = 20;
const END: i64 = BEGIN + HOURS * 3600;
const STEP_MS: i64 = 5 * 60_000;

/// A service: starts of its lives, and readings with what was told of the start and of the time that it is up.
struct Service {
    name: String,
    starts: Vec<i64>,
    told: Vec<(i64, u64)>,
}

impl Service {
    fn start_at(&self, at: i64) -> i64 {
        *self.starts.iter().rev().find(|start| **start <= at).unwrap()
    }

    fn lives(&self) -> Vec<Life> {
        let of = |start: &i64| {
            let own = self.told.iter().filter(|(at, _)| self.start_at(*at) == *start);
            (*start as f64, own.map(|(at, bytes)| (at * 1000, *bytes)).collect::<Vec<_>>())
        };
        self.starts.iter().map(of).filter(|(_, readings)| !readings.is_empty()).collect()
    }
}

fn draw(seed: u64) -> Vec<Service> {
    let mut rng = StdRng::seed_from_u64(seed);
    let service = |number: i64| {
        let mut starts = vec![BEGIN - rng.random_range(100..1_000_000)];
        while rng.random_bool(0.7) && starts.len() < 5 {
            let last = BEGIN.max(*starts.last().unwrap());
            starts.push(last + rng.random_range(300..HOURS * 900));
        }
        starts.retain(|start| *start < END);
        let times = (BEGIN + number..END).step_by(60);
        let told = times.filter(|_| rng.random_bool(0.97)).collect::<Vec<i64>>().into_iter();
        let told = told.map(|at| (at, 4096 * rng.random_range(30_000..60_000))).collect();
        Service { name: format!("s{number}"), starts, told }
    };
    (0..12).map(service).collect()
}

/// A series as VictoriaMetrics takes it in.
fn series(name: &str, service: &Service, value: impl Fn(i64, u64) -> f64) -> String {
    let values: Vec<f64> = service.told.iter().map(|(at, bytes)| value(*at, *bytes)).collect();
    let times: Vec<i64> = service.told.iter().map(|(at, _)| at * 1000).collect();
    let labels = json!({ "__name__": name, "instance": service.name });
    json!({ "metric": labels, "values": values, "timestamps": times }).to_string() + "\n"
}

fn import(folder: &Path, server: &Server, name: &str, queries: &[&str]) -> Output {
    let mut command = heaptrial(folder);
    command.args(["--db", "all.db", "import", "prometheus", &server.url(), "--name", name]).args(queries);
    command.args(["--step", "5m", "--from", &time(BEGIN - 100), "--to", &time(END)]);
    command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
}

fn time(seconds: i64) -> String {
    // 2026-10-01 is the first day that is asked for, and the next is the last.
    let (day, rest) = ((seconds - BEGIN).div_euclid(86_400), (seconds - BEGIN).rem_euclid(86_400));
    let date = if day < 0 { "2026-09-30".to_owned() } else { format!("2026-10-{:02}", day + 1) };
    format!("{date}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

type Found = BTreeMap<String, (String, Vec<(LifeStart, Life)>)>;

fn found(folder: &Path, name: &str) -> Found {
    steps::found(&stored::read(&Store::open(&folder.join("all.db")).unwrap(), name))
}

#[track_caller]
fn same(what: &str, found: &Found, services: &[Service]) {
    for service in services {
        steps::same(&format!("{what}: {}", service.name), &found[&service.name].1, &service.lives(), STEP_MS);
    }
}

#[test]
fn starts_and_memory_in_other_units_and_clocks_that_were_not_set() {
    if !installed(&["victoria-metrics"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let services = draw(11);
    let mut lines = String::new();
    for service in &services {
        let start = |at: i64| service.start_at(at) as f64;
        lines += &series("rss", service, |_, bytes| bytes as f64);
        lines += &series("rss_kb", service, |_, bytes| bytes as f64 / 1024.0);
        lines += &series("start", service, |at, _| start(at));
        lines += &series("start_ms", service, |at, _| start(at) * 1e3);
        lines += &series("uptime", service, |at, _| at as f64 - start(at));
        // A host without a clock of its own begins in 1970; its time is set after three hours.
        lines +=
            &series("start_unset", service, |at, _| match at < BEGIN + 3 * 3600 && service.name == "s3" {
                true => 40.0,
                false => start(at),
            });
        // The exporter tells starts since an upgrade.
        lines += &series("start_late", service, |at, _| match at < BEGIN + 5 * 3600 {
            true => 0.0,
            false => start(at),
        });
    }
    let server = Server::victoria(folder, &lines);
    assert!(services.iter().any(|service| service.lives().len() > 2));
    let whole = |name: &str, memory: &str, start: &str| {
        let output = import(folder, &server, name, &["--query", memory, "--start", start]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        found(folder, name)
    };
    same("plain", &whole("plain", "rss", "start"), &services);
    let refused = |memory: &str, start: &str, why: &str| {
        let output = import(folder, &server, "refused", &["--query", memory, "--start", start]);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{start}: {said}");
    };
    refused("rss", "start_ms", "seems to be in milliseconds");
    refused("rss", "uptime", "`timestamp(UPTIME) - UPTIME`");
    refused("rss_kb", "start", "of rss_kb are below 1 MiB");
    // As the refusals say.
    same("by-ms", &whole("by-ms", "rss", "start_ms / 1000"), &services);
    same("by-uptime", &whole("by-uptime", "rss", "timestamp(uptime) - uptime"), &services);
    same("by-kb", &whole("by-kb", "rss_kb * 1024", "start"), &services);

    // What ran before its start was reported is of unknown age, but for what ran on then.
    let unset = whole("unset", "rss", "start_unset");
    let late = whole("late", "rss", "start_late");
    for service in &services {
        for (lives, reported_from) in [
            (&late[&service.name].1, BEGIN + 5 * 3600),
            (&unset[&service.name].1, if service.name == "s3" { BEGIN + 3 * 3600 } else { BEGIN }),
        ] {
            let known: Vec<_> =
                lives.iter().filter(|(start, _)| *start == LifeStart::Observed).cloned().collect();
            let since = |life: &Life| life.1.last().is_some_and(|(at, _)| at / 1000 >= reported_from);
            let drawn: Vec<Life> = service.lives().into_iter().filter(since).collect();
            steps::same(&service.name, &known, &drawn, STEP_MS);
            assert!(lives.len() - known.len() <= 1, "{}: {lives:?}", service.name);
        }
    }
}

/// Two servers scrape the same, each with its own moment of the interval, which was a quarter of a minute and is five minutes since the
/// tenth hour. Both are away for a while, one after the other.
#[test]
fn two_servers_whose_interval_was_changed_count_as_one() {
    if !installed(&["victoria-metrics"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let changed = BEGIN + 10 * 3600;
    let away = |replica: usize, at: i64| match replica {
        0 => (BEGIN + 4 * 3600..BEGIN + 5 * 3600).contains(&at),
        _ => (BEGIN + 7 * 3600..BEGIN + 8 * 3600).contains(&at),
    };
    let scrapes = |replica: usize| -> Vec<i64> {
        let before = (BEGIN + replica as i64 * 7..changed).step_by(15);
        let since = (changed + replica as i64 * 100..END).step_by(300);
        before.chain(since).filter(|at| !away(replica, *at)).collect()
    };
    let bytes = |at: i64| 150_000_000 + at % 1_000 * 4096;
    let mut lines = String::new();
    for replica in 0..2 {
        let times = scrapes(replica);
        for (name, value) in [("rss", true), ("start", false)] {
            let values: Vec<i64> =
                times.iter().map(|at| if value { bytes(*at) } else { BEGIN - 50 }).collect();
            let times: Vec<i64> = times.iter().map(|at| at * 1000).collect();
            let labels = json!({ "__name__": name, "instance": "a", "replica": format!("r{replica}") });
            lines += &(json!({ "metric": labels, "values": values, "timestamps": times }).to_string() + "\n");
        }
    }
    let server = Server::victoria(folder, &lines);
    let output = import(
        folder,
        &server,
        "pair",
        &["--query", "rss", "--start", "start", "--replica-label", "replica"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let readings: Vec<(i64, u64)> = (0..2)
        .flat_map(scrapes)
        .map(|at| (at * 1000, bytes(at) as u64))
        .collect::<BTreeMap<i64, u64>>()
        .into_iter()
        .collect();
    let found = found(folder, "pair");
    assert_eq!(found["a"].1.len(), 1);
    steps::same("pair", &found["a"].1, &[((BEGIN - 50) as f64, readings)], STEP_MS);
}
