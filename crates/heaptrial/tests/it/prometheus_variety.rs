//! What stores of operators hold beside well-behaved exporters, put into a real VictoriaMetrics and compared with what was drawn.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use heaptrial_model::{LifeStart, TrialKind};
use heaptrial_store::Store;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use support::series_store::{Server, installed};
use support::{heaptrial, stderr, stdout};

/// 2026-10-01, in seconds since 1970.
const BEGIN: i64 = 1_790_812_800;
const HOURS: i64 = 20;
const END: i64 = BEGIN + HOURS * 3600;

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

    /// Each life: its start, and its readings one by one.
    fn lives(&self) -> Vec<Life> {
        let of = |start: &i64| {
            let own = self.told.iter().copied().filter(|(at, _)| self.start_at(*at) == *start);
            (Some(*start), own.collect::<Vec<_>>())
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
    command.args(["--step", "1m", "--from", &time(BEGIN - 100), "--to", &time(END)]);
    command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
}

fn time(seconds: i64) -> String {
    // 2026-10-01 is the first day that is asked for, and the next is the last.
    let (day, rest) = ((seconds - BEGIN).div_euclid(86_400), (seconds - BEGIN).rem_euclid(86_400));
    let date = if day < 0 { "2026-09-30".to_owned() } else { format!("2026-10-{:02}", day + 1) };
    format!("{date}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// When it was started, where that is told, and its readings.
type Life = (Option<i64>, Vec<(i64, u64)>);
type Lives = BTreeMap<String, Vec<Life>>;

fn found(folder: &Path, name: &str) -> Lives {
    let store = Store::open(&folder.join("all.db")).unwrap();
    let (_, trial) = store.read_imported(name, TrialKind::ImportPrometheus).unwrap().unwrap();
    let lives = trial.services.into_iter().map(|service| {
        let lives = service.lives.iter().map(|life| {
            let readings = life.samples.iter().map(|sample| (sample.wall_us / 1_000_000, sample.rss_bytes));
            let start = (life.start == LifeStart::Observed).then_some(life.started_wall_us / 1_000_000);
            (start, readings.collect())
        });
        (service.name, lives.collect())
    });
    lives.collect()
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
    let drawn: Lives = services.iter().map(|service| (service.name.clone(), service.lives())).collect();
    assert!(drawn.values().any(|lives| lives.len() > 2));

    let whole = |name: &str, memory: &str, start: &str| -> String {
        let output = import(folder, &server, name, &["--query", memory, "--start", start]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        stdout(&output)
    };
    let said = whole("plain", "rss", "start");
    assert!(!said.contains("most readings"), "{said}");
    assert_eq!(found(folder, "plain"), drawn);

    for (start, why) in
        [("start_ms", "seems to be in milliseconds"), ("uptime", "`timestamp(UPTIME) - UPTIME`")]
    {
        let output = import(folder, &server, start, &["--query", "rss", "--start", start]);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why) && said.contains(start), "{start}: {said}");
    }
    // As the refusals say.
    for (name, start) in [("by-ms", "start_ms / 1000"), ("by-uptime", "timestamp(uptime) - uptime")] {
        whole(name, "rss", start);
        let starts = |lives: &Lives| -> Vec<Vec<Option<i64>>> {
            lives.values().map(|lives| lives.iter().map(|(start, _)| *start).collect()).collect()
        };
        assert_eq!(starts(&found(folder, name)), starts(&drawn), "{name}");
    }

    let said = whole("kib", "rss_kb", "start");
    assert!(said.contains("most readings are below 16 MiB"), "{said}");

    // Of what ran while the clock was not set only what began after that is told; before, no restart is.
    let mut by_set_clock = drawn.clone();
    let set = BEGIN + 3 * 3600;
    forget_before(by_set_clock.get_mut("s3").unwrap(), set);
    whole("unset", "rss", "start_unset");
    assert_eq!(found(folder, "unset"), by_set_clock);

    let mut since = drawn.clone();
    since.values_mut().for_each(|lives| forget_before(lives, BEGIN + 5 * 3600));
    whole("late", "rss", "start_late");
    assert_eq!(found(folder, "late"), since);
}

/// Lives as they are known where nothing is told of starts before a time: what ended before it is one life of unknown start.
fn forget_before(lives: &mut Vec<Life>, told_from: i64) {
    let first = lives.iter().position(|(_, readings)| readings.last().unwrap().0 >= told_from).unwrap();
    let before: Vec<(i64, u64)> = lives.drain(..first).flat_map(|(_, readings)| readings).collect();
    if !before.is_empty() {
        lives.insert(0, (None, before));
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
    let found = found(folder, "pair");
    let [(start, readings)] = &found["a"][..] else { panic!("{found:?}") };
    assert_eq!(*start, Some(BEGIN - 50));
    assert!(readings.iter().all(|(at, value)| *value == bytes(*at) as u64));
    // One counts as long as it goes on: the second from when the first was away until it was away itself.
    let counts = |at: i64| usize::from((BEGIN + 4 * 3600..BEGIN + 7 * 3600).contains(&at));
    let mut minutes = BTreeMap::new();
    for replica in 0..2 {
        for at in scrapes(replica).into_iter().filter(|at| counts(*at) == replica) {
            minutes.entry(at.div_euclid(60)).or_insert(at);
        }
    }
    // And what the second has behind the last of the first.
    let last = scrapes(0).pop().unwrap();
    minutes.extend(scrapes(1).into_iter().filter(|at| *at > last).map(|at| (at.div_euclid(60), at)));
    let times: Vec<i64> = readings.iter().map(|(at, _)| *at).collect();
    let wanted: Vec<i64> = minutes.into_values().collect();
    let only = |these: &[i64], those: &[i64]| -> Vec<i64> {
        these.iter().filter(|at| !those.contains(at)).map(|at| at - BEGIN).collect()
    };
    assert_eq!((only(&times, &wanted), only(&wanted, &times)), (Vec::new(), Vec::new()));
}
