//! A trial over two hosts whose ledger is gathered and whose readings are in a real Prometheus and a real VictoriaMetrics: what
//! reports and the dashboard read there is what the hosts' databases have, as far as it was scraped.

use crate::support;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use heaptrial_exchange::{Access, ReadingsRequest, read_readings};
use heaptrial_model::{RemoteReadings, units};
use heaptrial_store::{Readings, Store};
use serde_json::Value;
use support::scraped_fleet::{ARMS, S, STEP_US, Scraped, World};
use support::series_store::{Server, ask, installed};
use support::{arm, heaptrial, json as json_of, stderr, succeeds};

const PATIENCE: Duration = Duration::from_secs(60);

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
/// the highest peak is the highest that was scraped, and each of them was scraped.
#[track_caller]
fn are_scraped(world: &World, database: &Path, readings: &RemoteReadings) {
    let rows = lives(database);
    for (key, scraped) in &world.scraped {
        let (row, started) = rows[key];
        let found = readings.lives.get(&row).unwrap_or_else(|| panic!("no readings of {key:?}"));
        assert!(found.readings.is_sorted_by(|a, b| a.age_seconds < b.age_seconds), "{key:?}");
        let peak = found.peaks.iter().map(|reading| reading.kib).max();
        assert_eq!(peak, scraped.iter().map(|one| one.kib).max(), "{key:?}");
        let last = scraped.iter().max_by_key(|one| one.boottime_us).unwrap();
        let reading = found.readings.last().unwrap();
        assert_eq!((reading.age_seconds, reading.kib), (age(last, started), last.kib), "{key:?}");
        let windows = by_window(scraped);
        assert!(found.peaks.is_sorted_by(|a, b| a.age_seconds <= b.age_seconds), "{key:?}");
        let read: BTreeSet<u32> = scraped.iter().map(|one| one.kib).collect();
        assert!(found.peaks.iter().all(|peak| read.contains(&peak.kib)), "{key:?}: {:?}", found.peaks);
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

    the_dashboard_shows_what_was_scraped_last(folder, &world, &ledger, &prometheus);
    looks_are_taken_on_all_of_it(folder, &full, &ledger, &prometheus.url());
    verdicts_are_of_all_of_it(folder, &full, &ledger, &prometheus.url());
    the_dashboard_reports(folder, &full, &ledger, &prometheus.url());
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
        let lives = world.scraped.iter().filter(|(key, _)| own(key)).map(|(_, scraped)| scraped);
        let peak = lives.flatten().map(|one| u64::from(one.kib) * 1024).max().unwrap();
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

/// `heaptrial serve` of the test, ended with it.
struct Dashboard {
    child: Child,
    address: SocketAddr,
}

impl Dashboard {
    fn of(folder: &Path, database: &Path, more: &[&str]) -> Self {
        let mut command = heaptrial(folder);
        command
            .args(["serve", database.to_str().unwrap(), "--listen", "127.0.0.1:0", "--host", "x"])
            .args(more);
        command.env("NO_PROXY", "127.0.0.1,localhost").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let address = url.trim().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        Self { child, address }
    }

    fn page(&self, path: &str) -> String {
        ask(self.address, "GET", path, "").unwrap()
    }

    /// The page, once it holds `text`: what takes long appears when it is there.
    #[track_caller]
    fn page_with(&self, path: &str, text: &str) -> String {
        let started = Instant::now();
        loop {
            let page = self.page(path);
            if page.contains(text) {
                return page;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{path} never has `{text}`, but {}",
                &page[..page.len().min(4000)]
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many queries a Prometheus has answered.
fn queries(server: &Server) -> u64 {
    let exposed = server.ask("GET", "/metrics", "").unwrap();
    let of_api = exposed.lines().filter(|line| {
        line.starts_with("prometheus_http_requests_total{") && line.contains("handler=\"/api/v1/")
    });
    of_api.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64).sum()
}

/// While the trial runs: last readings and their chart, for which the store is asked once, however often pages are.
fn the_dashboard_shows_what_was_scraped_last(
    folder: &Path,
    world: &World,
    ledger: &Path,
    prometheus: &Server,
) {
    let dashboard = Dashboard::of(folder, ledger, &["--series", &prometheus.url()]);
    let trial = dashboard.page_with("/trial/fleet", "<svg");
    assert!(trial.contains(&format!("Readings are those that {} has", prometheus.url())), "{trial}");
    let mut last: BTreeMap<(&str, &str), &Scraped> = BTreeMap::new();
    for ((host, service, _), scraped) in &world.scraped {
        // A clock was set back: the newest life is the one that was scraped last.
        let newest = scraped.iter().max_by_key(|one| one.at_ms).unwrap();
        let known = last.entry((host, service)).or_insert(newest);
        *known = if known.at_ms < newest.at_ms { newest } else { known };
    }
    assert_eq!(last.len(), 24);
    for page in [&trial, &dashboard.page("/")] {
        for ((host, service), scraped) in &last {
            let row =
                page.split("<tr").find(|row| row.contains(&format!("/service/{host}%2F{service}?"))).unwrap();
            let memory = units::memory(f64::from(scraped.kib) * 1024.0);
            assert!(row.contains(&memory), "{host}/{service}: {memory} is not in {row}");
        }
    }
    let asked = queries(prometheus);
    for _ in 0..5 {
        for path in ["/", "/trial/fleet", "/service/alpha%2Ftor@01.service", "/service/beta%2Ftor@00.service"]
        {
            let page = dashboard.page(path);
            assert!(page.contains("<svg") || path == "/", "{page}");
            assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        }
    }
    assert_eq!(queries(prometheus), asked);

    // A store that does not answer: pages tell it, and show the ledger.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let dashboard = Dashboard::of(folder, ledger, &["--series", &nowhere]);
    for path in ["/trial/fleet", "/service/alpha%2Ftor@01.service", "/"] {
        let page = dashboard.page_with(path, &format!("cannot ask {nowhere}"));
        assert!(page.contains("did not tell the readings") && page.contains("mimalloc"), "{page}");
    }
    let refused = heaptrial(folder)
        .args(["serve", ledger.to_str().unwrap(), "--series", "localhost:9090"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("is no address of a store"), "{}", stderr(&refused));
}

/// After its end the report is the one of `heaptrial report`.
fn the_dashboard_reports(folder: &Path, full: &Path, ledger: &Path, url: &str) {
    let without = Dashboard::of(folder, ledger, &[]);
    without.page_with("/trial/fleet", "This database has no readings of alpha, beta");
    let found = json_of(&report(folder, ledger, &["--series", url]));
    let ratio = arm(&found, ARMS[1])["ratio_to_control"]["estimate"].as_f64().unwrap();
    let ratio = format!("{ratio:.2}");
    let dashboard = Dashboard::of(folder, ledger, &["--series", url]);
    for path in ["/trial/fleet", "/trial/fleet/report"] {
        let page = dashboard.page_with(path, "Final metrics");
        let (_, figures) = page.split_once("Final metrics").unwrap();
        assert!(figures.contains(&ratio), "{path} lacks {ratio}");
        assert!(!page.contains("has no readings of"), "{path}");
    }
    // Where the database has the readings, no store is asked.
    let own = Dashboard::of(folder, full, &["--series", "http://127.0.0.1:1"]);
    let page = own.page_with("/trial/fleet", "Final metrics");
    assert!(page.split_once("Final metrics").unwrap().1.contains(&ratio) && !page.contains("cannot ask"));
}
