//! Stores that speak the interface of Prometheus in their own ways. Thanos and Mimir cannot be had here: a small server answers as
//! their sources and manuals say, which is less than they themselves.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use heaptrial_exchange::{
    Access, ImportError, ImportSummary, PrometheusImport, Queries, export, import_prometheus,
};
use heaptrial_model::Metric;
use heaptrial_store::{ImportedService, Readings, Store};
use serde_json::{Value, json};

use crate::support::{lists_of, stored};

const BEGIN: i64 = 1_790_812_800;
const HOURS: i64 = 30;
const S: i64 = 1_000_000;
/// Seconds of a step.
const STEP: i64 = 300;

/// How a store answers.
#[derive(Clone, Default)]
struct Manners {
    /// Below which `/api/v1` is.
    prefix: &'static str,
    tenant: Option<&'static str>,
    /// Values that it gives at most at once, and what it says where there are more.
    limit: Option<(usize, Refusal)>,
    /// Each so many requests it has too much to do, with this status.
    busy: Option<(usize, u16)>,
    gzip: bool,
    warnings: Value,
    /// From which minute on the third service has the other arm's label.
    labelled_anew: Option<i64>,
    /// In which minutes it has none.
    unlabelled: Range<i64>,
    /// In which minutes nothing runs on the first service, which its exporter tells as zeros.
    down: Range<i64>,
}

#[derive(Clone, Copy)]
enum Refusal {
    Said(&'static str),
    /// A proxy before it, in a page.
    Page(u16),
}

struct FakeStore {
    address: SocketAddr,
    /// Form fields of each request that was answered with series.
    asked: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
    busy: Arc<AtomicUsize>,
}

/// Readings of a service by number: when, bytes, and when it was started. Restarted each 11 hours.
fn readings(number: i64) -> Vec<(i64, f64, i64)> {
    let at = |minute: i64| {
        let at = BEGIN + minute * 60 + number;
        let started = BEGIN + (minute / 660) * 660 * 60 - 7;
        (at, 1e8 * (number + 1) as f64 + (minute * 4096) as f64, started)
    };
    (0..HOURS * 60).filter(|minute| minute % 97 != 13).map(at).collect()
}

/// Two services on each host.
fn name(number: i64) -> String {
    format!("host{}:910{number}", number / 2)
}

/// A function over each step of a series of the fake store, such as `max_over_time(memory[300000ms])`.
fn series(question: &str, ends: &[i64], manners: &Manners) -> Vec<Value> {
    let (function, rest) = question.split_once('(').unwrap();
    let inner = rest.trim_start_matches("0.5, ");
    // `(memory) + (swap) or (memory) * 1` has nothing in swap.
    let query = if inner.contains("memory") { "memory" } else { inner.split('[').next().unwrap() };
    let minute_of = |at: i64| (at - BEGIN).div_euclid(60);
    let arm_at = |number: i64, at: i64| match (number, minute_of(at)) {
        (2, minute) if manners.unlabelled.contains(&minute) => None,
        (2, minute) if manners.labelled_anew.is_some_and(|changed| minute >= changed) => Some("mimalloc"),
        _ => Some(["glibc", "mimalloc"][number as usize % 2]),
    };
    let of = |(number, arm): (i64, Option<&'static str>)| {
        let value = |(at, bytes, started): (i64, f64, i64)| {
            let down = number == 0 && manners.down.contains(&minute_of(at));
            match query {
                "start" => (at, started as f64),
                _ if down => (at, 0.0),
                _ => (at, bytes),
            }
        };
        let own: Vec<(i64, f64)> =
            readings(number).into_iter().filter(|(at, ..)| arm_at(number, *at) == arm).map(value).collect();
        let values = ends.iter().filter_map(|end| {
            let within = own.iter().filter(|(at, _)| (end - STEP + 1..=*end).contains(at));
            let mut within: Vec<f64> = within.map(|(_, value)| *value).collect();
            let last = *within.last()?;
            within.sort_by(f64::total_cmp);
            let value = match function {
                "quantile_over_time" => median(&within),
                "max_over_time" => *within.last()?,
                "min_over_time" => within[0],
                _ => last,
            };
            Some(json!([*end as f64, value.to_string()]))
        });
        let mut labels = json!({ "instance": name(number) });
        if let Some(arm) = arm {
            labels["arm"] = arm.into();
        }
        json!({ "metric": labels, "values": values.collect::<Vec<_>>() })
    };
    let arms = [Some("glibc"), Some("mimalloc"), None];
    let all = (0..4).flat_map(|number| arms.map(|arm| (number, arm)));
    all.map(of).filter(|series| !series["values"].as_array().unwrap().is_empty()).collect()
}

fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

impl FakeStore {
    fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let busy = Arc::new(AtomicUsize::new(0));
        let store = Self { address, asked: Arc::clone(&asked), busy: Arc::clone(&busy) };
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                answer(stream, &manners, number, &asked, &busy);
            }
        });
        store
    }

    fn url(&self, prefix: &str) -> String {
        format!("http://{}{prefix}", self.address)
    }
}

/// One request a connection.
fn answer(
    mut stream: TcpStream,
    manners: &Manners,
    number: usize,
    asked: &Mutex<Vec<BTreeMap<String, String>>>,
    busy: &AtomicUsize,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let of = |line: &String| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        lines.iter().find_map(of)
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let form: BTreeMap<String, String> = String::from_utf8(body)
        .unwrap()
        .split('&')
        .filter_map(|field| field.split_once('='))
        .map(|(name, value)| (name.to_owned(), percent_decoded(value)))
        .collect();
    let mut say = |status: u16, more: &str, body: &[u8]| {
        let head =
            format!("HTTP/1.1 {status} x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{more}\r\n");
        let _ = stream.write_all(head.as_bytes());
        for part in body.chunks(777) {
            let _ = write!(stream, "{:x}\r\n", part.len());
            let _ = stream.write_all(part);
            let _ = stream.write_all(b"\r\n");
        }
        let _ = stream.write_all(b"0\r\n\r\n");
    };
    if !lines[0].starts_with(&format!("POST {}/api/v1/query_range ", manners.prefix)) {
        return say(404, "", b"404 page not found");
    }
    if manners.tenant.is_some_and(|tenant| header("x-scope-orgid").as_deref() != Some(tenant)) {
        return say(401, "", b"no org id\n");
    }
    if let Some((each, status)) = manners.busy
        && number % each == each - 1
    {
        busy.fetch_add(1, Ordering::SeqCst);
        return say(status, "Retry-After: 0\r\n", b"too many outstanding requests");
    }
    let number = |name: &str| form[name].parse::<f64>().unwrap() as i64;
    let ends: Vec<i64> = (number("start")..=number("end")).step_by(number("step") as usize).collect();
    let result = series(&form["query"], &ends, manners);
    let values: usize = result.iter().map(|series| series["values"].as_array().unwrap().len()).sum();
    match manners.limit {
        Some((limit, Refusal::Said(why))) if values > limit => {
            let said = json!({ "status": "error", "errorType": "execution", "error": why });
            return say(422, "", said.to_string().as_bytes());
        }
        Some((limit, Refusal::Page(status))) if values > limit => {
            return say(status, "", b"<html><title>Gateway</title></html>");
        }
        _ => {}
    }
    asked.lock().unwrap().push(form);
    let said = json!({
        "status": "success",
        "data": { "resultType": "matrix", "result": result, "analysis": {} },
        "infos": ["PromQL info: metric might not be a counter"],
        "warnings": manners.warnings,
    });
    let said = said.to_string();
    if manners.gzip && header("accept-encoding").is_some_and(|takes| takes.contains("gzip")) {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(said.as_bytes()).unwrap();
        return say(200, "Content-Encoding: gzip\r\n", &encoder.finish().unwrap());
    }
    say(200, "", said.as_bytes());
}

fn request(url: &str, access: Access) -> PrometheusImport {
    PrometheusImport {
        queries: Queries {
            url: url.to_owned(),
            memory: "memory".into(),
            swap: None,
            start: Some("start".into()),
            contaminated: None,
            service_labels: vec!["instance".into()],
            arm_label: Some("arm".into()),
            server_label: "instance".to_owned(),
            replica_label: None,
        },
        metric: Metric::Rss,
        access,
        groups: Vec::new(),
        from_us: (BEGIN - 100) * S,
        to_us: (BEGIN + HOURS * 3600) * S,
        step_us: STEP * S,
        about: None,
        name: "fake".into(),
        control: None,
        tool_version: "test".into(),
        command: "test".into(),
    }
}

fn import(folder: &Path, url: &str, access: Access) -> Result<ImportSummary, ImportError> {
    let mut store = Store::create(&folder.join("heaptrial.db")).unwrap();
    import_prometheus(&mut store, &request(url, access))
}

/// Each life of each service: when it was started, and its readings in seconds since 1970 and bytes.
type Lives = BTreeMap<String, Vec<(i64, Vec<(i64, u64)>)>>;

/// A reading is the median of a step that has no start in it nor at its edge, at its middle.
fn drawn() -> Lives {
    let of = |number: i64| {
        let mut steps: BTreeMap<i64, Vec<(i64, f64)>> = BTreeMap::new();
        for (at, bytes, started) in readings(number) {
            let end = (at + STEP - 1).div_euclid(STEP) * STEP;
            steps.entry(end).or_default().push((started, bytes));
        }
        let mut lives: BTreeMap<i64, Vec<(i64, u64)>> = BTreeMap::new();
        for (end, within) in steps {
            let started = within.last().unwrap().0;
            if started + STEP / 10 <= end - STEP {
                let mut bytes: Vec<f64> = within.into_iter().map(|(_, bytes)| bytes).collect();
                bytes.sort_by(f64::total_cmp);
                lives.entry(started).or_default().push((end - STEP / 2, median(&bytes) as u64));
            }
        }
        let starts: Vec<i64> = lives.keys().copied().collect();
        for (started, readings) in &mut lives {
            let next = starts.iter().copied().find(|next| next > started).unwrap_or(i64::MAX);
            readings.retain(|(middle, _)| middle + STEP / 2 <= next);
        }
        (name(number), lives.into_iter().collect())
    };
    (0..4).map(of).collect()
}

fn found(folder: &Path) -> Lives {
    let store = Store::open(&folder.join("heaptrial.db")).unwrap();
    let lives = stored::read(&store, "fake").services.into_iter().map(|service| {
        let lives = service.lives.iter().map(|life| {
            let readings = life.samples.iter().map(|sample| (sample.wall_us / S, sample.rss_bytes)).collect();
            (life.started_wall_us / S, readings)
        });
        (service.service.name, lives.collect())
    });
    lives.collect()
}

/// A trial that has what was drawn.
#[track_caller]
fn whole(manners: Manners, prefix: &str, access: impl FnOnce(&Path) -> Access) -> FakeStore {
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::start(manners);
    let summary = import(folder.path(), &store.url(prefix), access(folder.path())).unwrap();
    assert_eq!(found(folder.path()), drawn());
    assert!(!summary.notes.iter().any(|note| note.contains("warns")), "{:?}", summary.notes);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().filter(|entry| !is_ours(entry.as_ref().unwrap())).count(),
        0
    );
    store
}

fn is_ours(entry: &std::fs::DirEntry) -> bool {
    let name = entry.file_name().into_string().unwrap();
    name.starts_with("heaptrial.db") || name == "headers"
}

#[test]
fn below_a_path_for_a_tenant_in_parts_of_compressed_answers() {
    let manners = Manners { prefix: "/api/prom", tenant: Some("fleet"), gzip: true, ..Manners::default() };
    let store = whole(manners, "/api/prom/", |folder| {
        let path = folder.join("headers");
        std::fs::write(&path, "# whose they are\n\nX-Scope-OrgID: fleet\nX-Other:1\n").unwrap();
        Access { headers: vec![path], ..Access::default() }
    });
    // Thanos is asked to refuse rather than to answer in part.
    assert!(store.asked.lock().unwrap().iter().all(|form| form["partial_response"] == "false"));
}

/// It is restarted each 11 hours: a label that follows a start within the hour is that start's.
#[test]
fn a_label_that_changes_while_a_process_runs_on_does_not_make_it_another() {
    for (minute, contaminated) in [(900, &[true, false][..]), (700, &[false, false]), (1310, &[true, false])]
    {
        let folder = tempfile::tempdir().unwrap();
        let fake = FakeStore::start(Manners { labelled_anew: Some(minute), ..Manners::default() });
        import(folder.path(), &fake.url(""), Access::default()).unwrap();
        let store = Store::open(&folder.path().join("heaptrial.db")).unwrap();
        let lives = || {
            let trial = stored::read(&store, "fake");
            let lives =
                trial.services.into_iter().find(|service| service.service.name == name(2)).unwrap().lives;
            lives.into_iter().map(|life| life.contamination).collect::<Vec<_>>()
        };
        let found: Vec<bool> = lives().iter().map(Option::is_some).collect();
        assert_eq!(found, contaminated, "{minute}");
        if let Some(why) = &lives()[0] {
            assert!(why.contains("`glibc` before, `mimalloc` from here on"), "{why}");
        }
        // Asked again it is still so.
        import(folder.path(), &fake.url(""), Access::default()).unwrap();
        assert_eq!(lives().iter().map(Option::is_some).collect::<Vec<_>>(), contaminated, "{minute}");
    }
}

#[test]
fn without_the_tenant_it_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::start(Manners { tenant: Some("fleet"), ..Manners::default() });
    let error = import(folder.path(), &store.url(""), Access::default()).unwrap_err().to_string();
    assert!(
        error.contains("refuses the credentials (status 401)") && error.contains("--headers-file"),
        "{error}"
    );
    let path = folder.path().join("headers");
    for (text, why) in [("no header at all", "line 1: expected NAME: VALUE"), ("# none\n", "no header in it")]
    {
        std::fs::write(&path, text).unwrap();
        let access = Access { headers: vec![path.clone()], ..Access::default() };
        let error = import(folder.path(), &store.url(""), access).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("at all"), "{error}");
    }
    std::fs::write(&path, "authorization: Token secret\n").unwrap();
    let access = Access { headers: vec![path.clone()], bearer: Some(path), ..Access::default() };
    let error = import(folder.path(), &store.url(""), access).unwrap_err().to_string();
    assert!(error.contains("header Authorization, too") && !error.contains("secret"), "{error}");
}

#[test]
fn what_is_too_much_at_once_is_asked_for_in_parts() {
    for refusal in [
        Refusal::Said("query processing would load too many samples into memory in query execution"),
        Refusal::Page(504),
        Refusal::Page(413),
    ] {
        let store =
            whole(Manners { limit: Some((500, refusal)), ..Manners::default() }, "", |_| Access::default());
        let answers = store.asked.lock().unwrap().len();
        assert!(answers >= 3 * 4 * HOURS as usize * 12 / 500, "{answers}");
    }
}

#[test]
fn a_store_that_has_too_much_to_do_is_asked_later() {
    for status in [429, 503] {
        let store =
            whole(Manners { busy: Some((2, status)), ..Manners::default() }, "", |_| Access::default());
        assert!(store.busy.load(Ordering::SeqCst) > 1);
    }
    // A refusal that does not tell when to come again is one.
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::start(Manners { limit: Some((0, Refusal::Page(503))), ..Manners::default() });
    let error = import(folder.path(), &store.url(""), Access::default()).unwrap_err().to_string();
    assert!(error.contains("status 503"), "{error}");
}

#[test]
fn an_answer_in_part_is_refused_or_told() {
    let why = "receive series from Addr: store-1:10901: rpc error: code = Unavailable";
    let manners = Manners { warnings: json!([why]), ..Manners::default() };
    let folder = tempfile::tempdir().unwrap();
    let store = FakeStore::start(manners);
    let error = import(folder.path(), &store.url(""), Access::default()).unwrap_err().to_string();
    assert!(error.contains("a partial answer") && error.contains(why), "{error}");
    let access = Access { accept_partial: true, ..Access::default() };
    let summary = import(folder.path(), &store.url(""), access).unwrap();
    assert!(summary.notes.contains(&format!("the store warns: {why}")), "{:?}", summary.notes);
    assert!(store.asked.lock().unwrap().last().unwrap().get("partial_response").is_none());
}

/// The arms of the trial, which of them is the control, and their services.
fn arms(store: &Store) -> Vec<(String, bool, Vec<String>)> {
    let trial = stored::read(store, "fake");
    let names = |members: Vec<&ImportedService>| {
        members.into_iter().map(|member| member.service.name.clone()).collect()
    };
    let lists = lists_of(&trial).into_iter().zip(&trial.plan.arms);
    lists.map(|((name, members), arm)| (name.to_owned(), arm.control, names(members))).collect()
}

#[test]
fn a_label_of_an_arm_that_was_missing_for_a_while_is_no_other_arm() {
    let server = FakeStore::start(Manners { unlabelled: 600..660, ..Manners::default() });
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let request = request(&server.url(""), Access::default());
    import_prometheus(&mut store, &request).unwrap();
    assert_eq!(arms(&store)[0], ("glibc".to_owned(), true, vec![name(0), name(2)]));
    assert_eq!(found(folder.path()), drawn());
}

#[test]
fn zeros_of_what_does_not_run_are_no_readings_though_all_may_be_in_swap() {
    let server = FakeStore::start(Manners { down: 600..660, ..Manners::default() });
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let mut request = request(&server.url(""), Access::default());
    request.metric = Metric::Anon;
    request.queries.swap = Some("swap".into());
    let summary = import_prometheus(&mut store, &request).unwrap();
    let all = drawn().values().flatten().map(|(_, readings)| readings.len()).sum::<usize>();
    // The last step of the hour has a start in it as well.
    assert_eq!(summary.samples as usize, all - 11);
    let note = "12 readings of no memory excluded";
    assert!(summary.notes.iter().any(|own| own.starts_with(note)), "{:?}", summary.notes);

    // RSS was never asked for, and is none in what is exported.
    let (rss, anon) =
        (exported(&store, summary.trial_id, "rss_bytes"), exported(&store, summary.trial_id, "anon_bytes"));
    assert!(rss.iter().all(String::is_empty) && anon.iter().all(|bytes| !bytes.is_empty()));
}

/// A column of what is exported.
fn exported(store: &Store, trial_id: i64, name: &str) -> Vec<String> {
    let mut text = Vec::new();
    export(store, trial_id, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = lines.next().unwrap().iter().position(|column| *column == name).unwrap();
    lines.map(|line| line[column].to_owned()).collect()
}

#[test]
fn lists_in_files_make_arms_and_an_import_replaces_the_one_before() {
    let server = FakeStore::start(Manners::default());
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let mut request = request(&server.url(""), Access::default());
    let list = |arm: &str, members: &[i64]| {
        let path = folder.path().join(format!("{arm}.txt"));
        std::fs::write(&path, members.iter().map(|number| name(*number) + "\n").collect::<String>()).unwrap();
        path
    };
    request.groups = vec![list("glibc", &[0, 2]), list("mimalloc", &[1, 3])];
    let first = import_prometheus(&mut store, &request).unwrap();
    assert!(!first.replaced && arms(&store)[0].1);
    request.control = Some("mimalloc".into());
    request.groups = vec![list("glibc", &[0, 1]), list("mimalloc", &[2])];
    let second = import_prometheus(&mut store, &request).unwrap();
    assert_eq!((second.replaced, second.trial_id, second.ungrouped_services), (true, first.trial_id, 1));
    assert_eq!(
        arms(&store),
        [("glibc".to_owned(), false, vec![name(0), name(1)]), ("mimalloc".to_owned(), true, vec![name(2)])]
    );
}

/// The maximum of a step is the peak, though the median is the level.
#[test]
fn maxima_are_kept_beside_medians() {
    let server = FakeStore::start(Manners::default());
    let folder = tempfile::tempdir().unwrap();
    import(folder.path(), &server.url(""), Access::default()).unwrap();
    let store = Store::open(&folder.path().join("heaptrial.db")).unwrap();
    let trial = store.trials().unwrap()[0].id;
    let readings = Readings::of_trial(&store, trial, Metric::Rss).unwrap();
    let life = store.lives(trial).unwrap().remove(0);
    let levels = readings.of_life(&store, life.id, life.started_boottime_us).unwrap();
    let peaks = readings.rolled_up_peaks(&store, life.id, life.started_boottime_us).unwrap();
    assert_eq!(levels.len(), peaks.len());
    // Memory grows by a page each minute.
    assert!(levels.iter().zip(&peaks).all(|(level, peak)| (1..=12).contains(&(peak.kib - level.kib))));
}
