//! A trial over two hosts whose ledger is gathered and whose readings are in a real Prometheus and a real VictoriaMetrics: what a
//! report reads there is what the hosts' databases have, as far as it was scraped.
//!
//! Histories are drawn: services that restart and are down for a while, a host that boots, an agent that is away, scrapes that fail
//! singly and for hours, clocks that are an hour off and are set back, a target that is called otherwise for some hours, and one
//! that is scraped by two.

mod support;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use heaptrial_exchange::{Access, ReadingsRequest, read_readings};
use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_model::{Identity, LifeKey, Linkage, Metric, RemoteReadings, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, Readings, Store, TickInput};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use support::series_store::{Server, installed};
use support::{arm, heaptrial, json as json_of, stderr, stdout};

const S: i64 = 1_000_000;
/// 2026-10-01, in seconds since 1970.
const START: i64 = 1_790_812_800;
const HOURS: i64 = 48;
const SERVICES: usize = 12;
const ARMS: [&str; 2] = ["glibc", "mimalloc@2.0.9"];
const HOSTS: [&str; 2] = ["alpha", "beta"];
const STEP_US: i64 = 900 * S;

/// A reading that was scraped: by which target, when, and what.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scraped {
    target: usize,
    at_ms: i64,
    boottime_us: i64,
    kib: u32,
}

/// Everything that was drawn.
#[derive(Debug, Default)]
struct World {
    /// Databases of the hosts.
    databases: Vec<PathBuf>,
    /// By host, service and start (microseconds since 1970 by the host's clock).
    scraped: BTreeMap<(String, String, i64), Vec<Scraped>>,
    /// Series by name and labels, as text without braces: milliseconds since 1970 and values.
    series: BTreeMap<(&'static str, String), Vec<(i64, f64)>>,
}

fn service(index: usize) -> String {
    format!("tor@{index:02}.service")
}

fn identity(family: &str) -> Identity {
    Identity {
        family: family.into(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: Some("00".repeat(32)),
        linkage: Linkage::Preloaded,
        settings: Default::default(),
        evidence: vec![],
        effective: Default::default(),
        libraries: vec![],
    }
}

fn plan() -> Value {
    let services = HOSTS.iter().flat_map(|host| {
        (0..SERVICES).map(move |index| {
            json!({ "service": service(index), "host": host, "arm": ARMS[index % 2], "block": index / 4, "stratum": "relay" })
        })
    });
    json!({ "id": "00112233445566778899aabbccddeeff", "duration": "2d", "services": services.collect::<Vec<_>>() })
}

/// Those of this machine stand for those of every host.
fn facts() -> Value {
    serde_json::to_value(HostFacts::read(&HostRoot::default()).unwrap()).unwrap()
}

fn begin(path: &Path, host: &str, started_us: i64) -> (Store, i64) {
    let specs = ARMS.map(|arm| arm.parse().unwrap());
    let trial = NewTrial {
        name: "fleet".into(),
        kind: TrialKind::Field,
        boot_id: format!("{host}-0"),
        host_facts: facts(),
        metric: Metric::Anon,
        seed: 7,
        repeats: 1,
        planned_us: HOURS * 3600 * S,
        arms: TrialPlan::from_specs("fleet", &specs).unwrap().arms,
        parameters: json!({ "plan": plan(), "host": host, "started_boottime_us": 0 }),
        command: "heaptrial trial start fleet".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: started_us,
    };
    let services: Vec<NewService> = (0..SERVICES)
        .map(|index| NewService {
            name: service(index),
            arm: index % 2,
            block: index as u32 / 4,
            position: index as u32,
            attributes: Value::Null,
        })
        .collect();
    let mut store = Store::create(path).unwrap();
    let id = store.begin_field_trial(&trial, &[None, None], &services).unwrap();
    (store, id)
}

/// A service while its host goes on.
struct Running {
    row: i64,
    life: i64,
    /// True time, and by the host's clock in microseconds.
    started: (f64, i64),
    next_restart: f64,
    down_until: f64,
    lives: u64,
}

/// How the clock of a host goes: seconds ahead of the store's.
fn ahead(host: &str, at: f64) -> f64 {
    match (host, at < (START + 20 * 3600) as f64) {
        ("beta", true) => 3600.0,
        ("beta", false) => -20.0,
        _ => 0.4,
    }
}

/// Labels of who scrapes a host, and from which hour until which.
fn targets(host: &str) -> Vec<(String, std::ops::Range<i64>, i64)> {
    match host {
        // It is called otherwise for four hours.
        "alpha" => vec![
            ("instance=\"alpha:9779\",job=\"heaptrial-agent\"".into(), 0..14, 31),
            ("instance=\"10.0.0.1:9779\",job=\"heaptrial-agent\"".into(), 14..18, 31),
            ("instance=\"alpha:9779\",job=\"heaptrial-agent\"".into(), 18..HOURS, 31),
        ],
        // Two scrape it, until one goes away.
        _ => vec![
            ("instance=\"beta\",job=\"heaptrial-agent\",replica=\"a\"".into(), 0..34, 11),
            ("instance=\"beta\",job=\"heaptrial-agent\",replica=\"b\"".into(), 0..HOURS, 47),
        ],
    }
}

impl World {
    fn draw(folder: &Path, seed: u64) -> Self {
        let mut world = Self::default();
        for host in HOSTS {
            world.draw_host(folder, host, &mut StdRng::seed_from_u64(seed * 10 + host.len() as u64));
        }
        world
    }

    fn draw_host(&mut self, folder: &Path, host: &str, rng: &mut StdRng) {
        let path = folder.join(format!("{host}.db"));
        let wall_us = |at: f64| ((at + ahead(host, at)) * 1e6) as i64;
        let start = START as f64;
        let (mut store, trial) = begin(&path, host, wall_us(start));
        let mut boot = (0, start - 500_000.0);
        let mut host_row = store.add_host(&format!("{host}-0"), &facts()).unwrap();
        let mut running: Vec<Running> = store
            .services(trial)
            .unwrap()
            .iter()
            .enumerate()
            .map(|(index, service)| Running {
                row: service.id,
                life: 0,
                started: (0.0, 0),
                // One after the other, as a start of a trial restarts them.
                next_restart: start + 90.0 * index as f64 + rng.random_range(0.0..20.0),
                down_until: 0.0,
                lives: 0,
            })
            .collect();
        let (mut agent_away, mut scrapes_fail) = (0.0..0.0, 0.0..0.0);
        let reboot = if host == "beta" { start + 26.0 * 3600.0 } else { f64::INFINITY };
        let mut sequence = 0;
        for minute in 0..HOURS * 60 {
            let at = start + minute as f64 * 60.0 + 7.0;
            if boot.0 == 0 && at > reboot {
                boot = (1, reboot + 30.0);
                host_row = store.add_host(&format!("{host}-1"), &facts()).unwrap();
                agent_away = at..at + 150.0;
                for service in &mut running {
                    service.life = 0;
                    service.next_restart = reboot + 60.0 + rng.random_range(0.0..200.0);
                }
            }
            if rng.random_bool(0.0003) {
                agent_away = at..at + rng.random_range(200.0..5000.0);
            }
            if rng.random_bool(0.0003) {
                scrapes_fail = at..at + rng.random_range(60.0..9000.0);
            }
            for (index, service) in
                running.iter_mut().enumerate().filter(|(_, service)| service.next_restart <= at)
            {
                let began = service.next_restart;
                service.lives += 1;
                service.started = (began, wall_us(began));
                let key = LifeKey {
                    boot_id: format!("{host}-{}", boot.0),
                    pid: index as i32 + 9,
                    start_ticks: service.lives,
                };
                let boottime_us = ((began - boot.1) * 1e6) as i64;
                let arm = ARMS[index % 2].split('@').next().unwrap();
                let started = (service.started.1, boottime_us);
                service.life =
                    store.add_life(service.row, &key, started, Some(&identity(arm)), None).unwrap();
                service.down_until = began;
                service.next_restart = match index % 5 {
                    // Some are restarted all the time, most never.
                    0 => began + rng.random_range(100.0..30_000.0),
                    1 => began + rng.random_range(40_000.0..200_000.0),
                    _ => f64::INFINITY,
                };
            }
            if agent_away.contains(&at) {
                continue;
            }
            let boottime_us = ((at - boot.1) * 1e6) as i64;
            let mut read: Vec<(usize, Sample)> = Vec::new();
            for (index, service) in running.iter_mut().enumerate() {
                // It is down for a while before its next start.
                let down = service.next_restart - at < 70.0 && index == 0;
                if service.life == 0 || down {
                    continue;
                }
                let days = (at - service.started.0) / 86_400.0;
                let level = if index % 2 == 0 { 600.0 } else { 150.0 } * (1.0 + 0.02 * index as f64);
                let settled = 1.0 - 0.6 * (-days / 0.1).exp();
                let burst = if rng.random_bool(0.002) { 1.4 } else { 1.0 };
                let mib = (level * settled + 20.0 * days) * rng.random_range(0.98..1.02) * burst;
                let anon_bytes = (mib * 256.0) as u64 * 4096;
                let swap_bytes = if days > 0.4 { (index as u64) << 20 } else { 0 };
                read.push((
                    index,
                    Sample {
                        rss_bytes: anon_bytes + (28 << 20),
                        anon_bytes,
                        swap_bytes,
                        ..Sample::default()
                    },
                ));
            }
            let tick = TickInput {
                sequence,
                wall_us: wall_us(at),
                boottime_us,
                samples: read.iter().map(|(index, sample)| (running[*index].life, *sample)).collect(),
                host_id: Some(host_row),
                ..TickInput::default()
            };
            store.write_tick(trial, &tick).unwrap();
            sequence += 1;
            for (target, (labels, hours, phase)) in targets(host).into_iter().enumerate() {
                let at_ms = ((at - 7.0) * 1e3) as i64 + phase * 1000 + rng.random_range(0..3000);
                let hour = (at_ms / 1000 - START) / 3600;
                if !hours.contains(&hour) || scrapes_fail.contains(&at) || rng.random_bool(0.01) {
                    continue;
                }
                self.scrape(host, (target, &labels, at_ms), &tick, &read, &running);
            }
        }
        self.databases.push(path);
    }

    fn scrape(
        &mut self,
        host: &str,
        (target, labels, at_ms): (usize, &str, i64),
        tick: &TickInput,
        read: &[(usize, Sample)],
        running: &[Running],
    ) {
        let mut put = |name: &'static str, more: &str, value: f64| {
            let labels =
                [labels, more].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(",");
            self.series.entry((name, labels)).or_default().push((at_ms, value));
        };
        let plan = plan();
        let info = format!("trial=\"fleet\",plan={},host=\"{host}\"", plan["id"]);
        put("heaptrial_trial_info", &info, 1.0);
        put("heaptrial_agent_last_tick_timestamp_seconds", "", tick.wall_us as f64 / 1e6);
        put("heaptrial_agent_last_tick_boottime_seconds", "", tick.boottime_us as f64 / 1e6);
        for (index, sample) in read {
            let own = format!("service=\"{}\",arm=\"{}\",trial=\"fleet\"", service(*index), ARMS[index % 2]);
            let bytes = sample.anon_bytes + sample.swap_bytes;
            let started_us = running[*index].started.1;
            put("heaptrial_service_memory_bytes", &own, bytes as f64);
            put("heaptrial_service_anon_bytes", &own, sample.anon_bytes as f64);
            put("heaptrial_service_start_time_seconds", &own, started_us as f64 / 1e6);
        }
        for (index, sample) in read {
            let key = (host.to_owned(), service(*index), running[*index].started.1);
            let kib = ((sample.anon_bytes + sample.swap_bytes) / 1024) as u32;
            let scraped = Scraped { target, at_ms, boottime_us: tick.boottime_us, kib };
            self.scraped.entry(key).or_default().push(scraped);
        }
    }

    fn openmetrics(&self) -> String {
        let mut text = String::new();
        for ((name, labels), values) in &self.series {
            for (at_ms, value) in values {
                writeln!(text, "{name}{{{labels}}} {value} {}.{:03}", at_ms / 1000, at_ms % 1000).unwrap();
            }
        }
        text + "# EOF\n"
    }

    fn json_lines(&self) -> String {
        let mut text = String::new();
        for ((name, labels), values) in &self.series {
            let mut metric = json!({ "__name__": name });
            for label in labels.split(',') {
                let (label, value) = label.split_once('=').unwrap();
                metric[label] = json!(value.trim_matches('"'));
            }
            let (times, values): (Vec<i64>, Vec<f64>) = values.iter().copied().unzip();
            writeln!(text, "{}", json!({ "metric": metric, "values": values, "timestamps": times })).unwrap();
        }
        text
    }

    /// Gathers into a database: all that hosts have, or their ledgers alone.
    fn gather(&self, folder: &Path, name: &str, more: &[&str]) -> PathBuf {
        for database in &self.databases {
            let part = folder.join("part.db");
            let part = part.to_str().unwrap();
            let export = ["export", database.to_str().unwrap(), "--format", "heaptrial", "-o", part];
            succeeds(&heaptrial(folder).args([&export[..], more].concat()).output().unwrap());
            succeeds(&heaptrial(folder).args(["--db", name, "import", "heaptrial", part]).output().unwrap());
        }
        folder.join(name)
    }
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
}

fn read(database: &Path, url: &str, step_us: i64) -> RemoteReadings {
    let store = Store::open(database).unwrap();
    let trial = store.trials().unwrap().remove(0);
    let request = ReadingsRequest { url: url.into(), access: Access::default(), step_us, until_us: None };
    let (readings, warnings) = read_readings(&store, &trial, &request).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert!(readings.hosts_without.is_empty() && readings.of_unknown_lives.is_empty(), "{readings:?}");
    readings
}

/// Rows of lives by host, service and start, with their start on the boot clock.
fn lives(database: &Path) -> HashMap<(String, String, i64), (i64, i64)> {
    let store = Store::open(database).unwrap();
    let trial = store.trials().unwrap().remove(0).id;
    let services = store.services(trial).unwrap();
    let key = |life: &heaptrial_store::LifeRecord| {
        let service = services.iter().find(|service| service.id == life.service_id).unwrap();
        let (host, name) = service.name.split_once('/').unwrap();
        (host.to_owned(), name.to_owned(), life.started_wall_us)
    };
    let lives = store.lives(trial).unwrap();
    lives.iter().map(|life| (key(life), (life.id, life.started_boottime_us))).collect()
}

fn age(scraped: &Scraped, started_boottime_us: i64) -> f32 {
    ((scraped.boottime_us - started_boottime_us) as f64 / 1e6) as f32
}

fn window(scraped: &Scraped) -> i64 {
    (scraped.at_ms * 1000 - 1).div_euclid(STEP_US)
}

/// What each target scraped of a life in each span, and what they did together.
fn by_window(scraped: &[Scraped]) -> BTreeMap<(Option<usize>, i64), Vec<Scraped>> {
    let mut found: BTreeMap<(Option<usize>, i64), Vec<Scraped>> = BTreeMap::new();
    for one in scraped {
        found.entry((Some(one.target), window(one))).or_default().push(*one);
        let together = found.entry((None, window(one))).or_default();
        if together.iter().all(|other| other.boottime_us != one.boottime_us) {
            together.push(*one);
        }
    }
    found
}

fn median(scraped: &[Scraped]) -> f64 {
    let mut values: Vec<f64> = scraped.iter().map(|one| f64::from(one.kib)).collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2] + values[(values.len() - 1) / 2]) / 2.0
}

/// Every reading is the median of a span within its life, but for the last, which was scraped so; every span that was scraped has one;
/// the peak is the highest that was scraped.
#[track_caller]
fn are_scraped(world: &World, database: &Path, readings: &RemoteReadings) {
    let rows = lives(database);
    for (key, scraped) in &world.scraped {
        let (row, started) = rows[key];
        let found = readings.lives.get(&row).unwrap_or_else(|| panic!("no readings of {key:?}"));
        assert!(found.readings.is_sorted_by(|a, b| a.age_seconds < b.age_seconds), "{key:?}");
        assert_eq!(found.peak_kib, scraped.iter().map(|one| one.kib).max().unwrap(), "{key:?}");
        let last = scraped.iter().max_by_key(|one| one.boottime_us).unwrap();
        let reading = found.readings.last().unwrap();
        assert_eq!((reading.age_seconds, reading.kib), (age(last, started), last.kib), "{key:?}");
        let windows = by_window(scraped);
        let mut covered = BTreeSet::new();
        for reading in &found.readings {
            let is_median = |span: &&Vec<Scraped>| (median(span) - f64::from(reading.kib)).abs() <= 1.0;
            let is_of = |span: &&Vec<Scraped>| {
                let ages = span.iter().map(|one| age(one, started));
                let (first, last) = ages.fold((f32::MAX, f32::MIN), |(a, b), age| (a.min(age), b.max(age)));
                (first..=last).contains(&reading.age_seconds)
            };
            let spans = windows.iter().filter(|(_, span)| is_of(span));
            let of: Vec<i64> =
                spans.filter(|(_, span)| is_median(span)).map(|((_, window), _)| *window).collect();
            let is_last = reading.age_seconds == age(last, started);
            assert!(is_last || !of.is_empty(), "{key:?}: {reading:?}");
            covered.extend(of);
        }
        let missing: Vec<i64> =
            scraped.iter().map(window).filter(|window| !covered.contains(window)).collect();
        assert!(missing.is_empty(), "{key:?} lacks {missing:?}");
    }
    assert_eq!(readings.lives.len(), world.scraped.len());
}

/// Asked for by the minute it is what the database has of the ticks that were scraped.
#[track_caller]
fn is_in_the_database(world: &World, full: &Path, readings: &RemoteReadings) {
    let rows = lives(full);
    let store = Store::open(full).unwrap();
    let trial = store.trials().unwrap().remove(0);
    let own = Readings::of_trial(&store, trial.id, trial.plan.metric).unwrap();
    for (key, scraped) in &world.scraped {
        let (row, started) = rows[key];
        let ticks: BTreeSet<i64> = scraped.iter().map(|one| one.boottime_us).collect();
        let ages: Vec<f32> =
            ticks.iter().map(|boottime_us| ((boottime_us - started) as f64 / 1e6) as f32).collect();
        let mut of_life = own.of_life(&store, row, started).unwrap();
        of_life.retain(|reading| ages.contains(&reading.age_seconds));
        let found = &readings.lives[&row].readings;
        assert!(*found == of_life, "{key:?}: {} and {}", found.len(), of_life.len());
    }
}

fn report(folder: &Path, database: &Path, more: &[&str]) -> Output {
    let mut command = heaptrial(folder);
    command.args(["--json", "--out", "report", "report", database.to_str().unwrap()]).args(more);
    command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
}

#[track_caller]
fn near(what: &str, found: &Value, wanted: &Value, apart: f64) {
    let (found, wanted) = (found.as_f64(), wanted.as_f64());
    let (Some(a), Some(b)) = (found, wanted) else { panic!("{what}: {found:?} and {wanted:?}") };
    assert!((a / b - 1.0).abs() <= apart, "{what}: {a} from the store, {b} from the database");
}

#[test]
fn a_report_from_a_store_is_that_from_the_databases() {
    if !installed(&["prometheus", "promtool", "victoria-metrics"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let world = World::draw(folder, 1);
    let full = world.gather(folder, "full.db", &[]);
    let ledger = world.gather(folder, "ledger.db", &["--ledger"]);
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&ledger) < size(&full) / 4, "{} and {}", size(&ledger), size(&full));
    let prometheus = Server::prometheus_with(folder, &world.openmetrics());
    let victoria = Server::victoria(folder, &world.json_lines());
    let from_databases = report(folder, &full, &[]);
    succeeds(&from_databases);
    let wanted = json_of(&from_databases);

    let rolled = [&prometheus, &victoria].map(|server| {
        let rolled = read(&ledger, &server.url(), STEP_US);
        are_scraped(&world, &ledger, &rolled);
        // A span of a minute has one scrape.
        let singly = read(&ledger, &server.url(), 60 * S);
        let readings = |of: &RemoteReadings| of.lives.values().map(|life| life.readings.len()).sum::<usize>();
        assert!(readings(&rolled) * 8 < readings(&singly), "{}, {}", readings(&rolled), readings(&singly));
        is_in_the_database(&world, &full, &{
            // Rows of the two databases differ.
            let (here, there) = (lives(&ledger), lives(&full));
            let lives = here
                .iter()
                .filter_map(|(key, (row, _))| Some((there[key].0, singly.lives.get(row)?.clone())));
            RemoteReadings { lives: lives.collect(), ..singly.clone() }
        });

        let output = report(folder, &ledger, &["--series", &server.url()]);
        succeeds(&output);
        let found = json_of(&output);
        same_figures(&world, &found, &wanted);
        rolled
    });
    // Both stores tell the same.
    assert_eq!(rolled[0].lives, rolled[1].lives);

    looks_are_taken_on_all_of_it(folder, &full, &ledger, &prometheus.url());
    verdicts_are_of_all_of_it(folder, &full, &ledger, &prometheus.url());
    what_is_missing_is_told(folder, &world, &ledger, &prometheus.url());
}

/// Levels agree to half a percent (scrapes fail for hours, and memory grows by a tenth a day), growth within its interval, and what was scraped last or was highest is the same.
#[track_caller]
fn same_figures(world: &World, found: &Value, wanted: &Value) {
    let graves = |report: &Value| {
        let findings = report["findings"].as_array().unwrap().iter();
        let graves = findings.filter(|finding| finding["severity"] == "grave");
        graves.map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(graves(found), graves(wanted));
    for name in ARMS {
        let (found, wanted) = (arm(found, name), arm(wanted, name));
        near("level", &found["memory"]["median_bytes"], &wanted["memory"]["median_bytes"], 0.005);
        near("mean of the last", &found["memory"]["final_bytes"], &wanted["memory"]["final_bytes"], 0.01);
        assert_eq!(found["services"], wanted["services"]);
        assert_eq!(found["events"], wanted["events"]);
        let days = found["by_day"].as_array().unwrap().iter().zip(wanted["by_day"].as_array().unwrap());
        for (found, wanted) in days {
            assert_eq!(found["services"], wanted["services"]);
            near("day", &found["median_bytes"], &wanted["median_bytes"], 0.01);
        }
        let (growth, interval) =
            (found["growth"]["share_per_day"]["value"].as_f64().unwrap(), &wanted["growth"]["share_per_day"]);
        let within = interval["low"].as_f64().unwrap()..=interval["high"].as_f64().unwrap();
        assert!(within.contains(&growth), "{growth} is not in {interval}");
    }
    let ratio = |report: &Value| arm(report, ARMS[1])["ratio_to_control"].clone();
    for part in ["estimate", "low", "high"] {
        near(part, &ratio(found)[part], &ratio(wanted)[part], 0.005);
    }
    for (found, wanted) in
        found["services"].as_array().unwrap().iter().zip(wanted["services"].as_array().unwrap())
    {
        let (host, name) = found["name"].as_str().unwrap().split_once('/').unwrap();
        assert_eq!((&found["name"], &found["restarts"]), (&wanted["name"], &wanted["restarts"]));
        let own = |key: &&(String, String, i64)| key.0 == host && key.1 == name;
        // Lives by when they were scraped: a clock was set back.
        let lives = world.scraped.iter().filter(|(key, _)| own(key)).map(|(_, scraped)| scraped);
        let last = lives.max_by_key(|scraped| scraped.last().unwrap().at_ms).unwrap();
        let peak = last.iter().map(|one| u64::from(one.kib) * 1024).max().unwrap();
        assert_eq!(found["memory"]["peak_bytes"], peak, "{name}");
        assert!(found["memory"]["peak_bytes"].as_u64() <= wanted["memory"]["peak_bytes"].as_u64(), "{name}");
    }
}

/// A look is one on the ledger with the readings of the store, and refused on the ledger alone.
fn looks_are_taken_on_all_of_it(folder: &Path, full: &Path, ledger: &Path, url: &str) {
    let look = |database: &Path, more: &[&str]| {
        let mut command = heaptrial(folder);
        command.args(["--json", "--db", database.to_str().unwrap(), "trial", "look", "fleet"]).args(more);
        command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
    };
    let refused = look(ledger, &[]);
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("this database has no readings of alpha, beta"),
        "{}",
        stderr(&refused)
    );
    let (wanted, found) = (look(full, &[]), look(ledger, &["--series", url]));
    assert_eq!(found.status.code(), wanted.status.code(), "{}", stderr(&found));
    let (wanted, found) = (json_of(&wanted), json_of(&found));
    assert_eq!((&found["number"], &found["decision"]), (&wanted["number"], &wanted["decision"]));
    assert!(found["decision"].is_string(), "{found:#}");
}

/// A verdict is one on the ledger with the readings of the store, and refused on the ledger alone.
fn verdicts_are_of_all_of_it(folder: &Path, full: &Path, ledger: &Path, url: &str) {
    for database in [full, ledger] {
        let ended = "UPDATE trial SET ended_wall_us = started_wall_us + planned_us";
        rusqlite::Connection::open(database).unwrap().execute(ended, []).unwrap();
    }
    let verdict = |database: &Path, more: &[&str]| {
        let mut command = heaptrial(folder);
        command.args(["--json", "trial", "verdict", database.to_str().unwrap(), "--arm", ARMS[1]]).args(more);
        command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
    };
    let refused = verdict(ledger, &[]);
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("this database has no readings of alpha, beta"),
        "{}",
        stderr(&refused)
    );
    let (wanted, found) = (verdict(full, &[]), verdict(ledger, &["--series", url]));
    succeeds(&wanted);
    succeeds(&found);
    let (wanted, found) = (json_of(&wanted), json_of(&found));
    near("ratio", &found["ratio"], &wanted["ratio"], 0.005);
    assert_eq!((&found["verdict"], &found["findings"]), (&wanted["verdict"], &wanted["findings"]));
}

/// A host that nobody scrapes, a ledger that lacks a life, a store without the trial.
fn what_is_missing_is_told(folder: &Path, world: &World, ledger: &Path, url: &str) {
    let missing = |database: &Path, more: &[&str]| -> Value {
        let output = report(folder, database, more);
        succeeds(&output);
        let report = json_of(&output);
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(findings[0]["kind"], "series_missing", "{findings:#?}");
        assert_eq!(findings[0]["severity"], "grave");
        findings[0].clone()
    };
    let told = missing(ledger, &[]);
    assert_eq!(told["evidence"], "this database has no readings of alpha, beta");

    let alone = folder.join("alone");
    std::fs::create_dir(&alone).unwrap();
    let series = world.series.iter().filter(|((_, labels), _)| !labels.contains("instance=\"beta\""));
    let series = series.map(|(key, values)| (key.clone(), values.clone())).collect();
    let of_alpha = World { series, ..World::default() };
    let victoria = Server::victoria(&alone, &of_alpha.json_lines());
    let told = missing(ledger, &["--series", &victoria.url()]);
    assert_eq!(told["evidence"], format!("{} has no readings of beta", victoria.url()));

    let lacking = folder.join("lacking.db");
    std::fs::copy(ledger, &lacking).unwrap();
    let connection = rusqlite::Connection::open(&lacking).unwrap();
    let sql =
        "DELETE FROM life WHERE id = (SELECT max(l.id) FROM life l JOIN service s ON s.id = l.service_id
                                            WHERE s.name = 'alpha/tor@03.service')";
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
    drop(connection);
    let told = missing(&lacking, &["--series", url]);
    let evidence = told["evidence"].as_str().unwrap();
    assert!(
        evidence.contains("of lives that are not in the ledger") && evidence.contains("alpha/tor@03.service")
    );

    let nothing = folder.join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    let empty = Server::victoria(&nothing, "");
    let output = report(folder, ledger, &["--series", &empty.url()]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("has no readings of the trial"), "{}", stderr(&output));
}
