//! Importing from a real Prometheus and a real VictoriaMetrics: histories with known lives are drawn, put into them, and
//! what is imported is compared with what was drawn.

use crate::support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use heaptrial_model::{LifeStart, Metric, TrialKind};
use heaptrial_store::{ImportedTrial, SeriesPoint, Store};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use support::bed::Bed;
use support::series_store::{Server, ask, installed};
use support::{heaptrial, json, run, stderr, stdout, steps, stored, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);
const S: i64 = 1_000_000;
/// 2026-10-01, in seconds since 1970.
const BEGIN: i64 = 1_790_812_800;
const HOURS: i64 = 30;

/// A life as it was drawn: when it began and its readings (seconds since 1970, bytes).
#[derive(Debug, Clone, PartialEq, Default)]
struct Life {
    started: i64,
    readings: Vec<(i64, u64)>,
}

/// A service as it was drawn.
#[derive(Debug, Clone)]
struct Service {
    instance: String,
    name: String,
    arm: String,
    lives: Vec<Life>,
    /// Seconds since 1970 at which it was scraped, and what it reported as its start.
    told: Vec<(i64, f64)>,
}

/// Services that are restarted, fail to be scraped, stand still and come late, as real ones do.
fn draw(seed: u64) -> Vec<Service> {
    let mut rng = StdRng::seed_from_u64(seed);
    let end = BEGIN + HOURS * 3600;
    let mut services = Vec::new();
    for number in 0..10 {
        let offset = rng.random_range(0..60);
        let wavering = rng.random_bool(0.3);
        let first = BEGIN + offset + if rng.random_bool(0.2) { rng.random_range(0..36_000) } else { 0 };
        // The first life began before the first reading.
        let mut started = first - rng.random_range(120..864_000);
        let mut next_restart = first + rng.random_range(600..40 * 3600);
        let mut away = 0..0;
        let (mut lives, mut life) = (Vec::new(), Life { started, readings: Vec::new() });
        let mut told = Vec::new();
        let mut at = first;
        while at < end {
            if at >= next_restart {
                lives.push(std::mem::take(&mut life));
                let last = told.last().map_or(0, |told: &(i64, f64)| told.0);
                started = (next_restart - rng.random_range(0..20)).max(last + 1);
                life.started = started;
                next_restart = at + rng.random_range(300..30 * 3600);
            }
            if rng.random_bool(0.0005) {
                away = at..at + rng.random_range(60..7200);
            }
            if !away.contains(&at) && !rng.random_bool(0.01) && at >= started {
                let age = (at - started) as f64;
                let bytes = (200e6 + 40e6 * (age / 3600.0).sqrt() + rng.random_range(0.0..5e6)) as u64;
                life.readings.push((at, bytes));
                let jitter = if wavering { rng.random_range(-0.9..0.9) } else { 0.0 };
                told.push((at, started as f64 + jitter));
            }
            at += 60;
        }
        lives.push(life);
        lives.retain(|life| !life.readings.is_empty());
        services.push(Service {
            instance: format!("host{}:9256", number % 3),
            name: format!("relay{number}"),
            arm: if number % 2 == 0 { "glibc" } else { "mimalloc-2.0.9" }.into(),
            lives,
            told,
        });
    }
    services
}

/// A series: name of the metric, labels, and values by time in seconds.
type Series = (&'static str, Value, Vec<(i64, f64)>);

fn series(services: &[Service], world: u64) -> Vec<Series> {
    let mut series = Vec::new();
    for service in services {
        // A label that is none of the service's changes and comes back.
        for revision in ["first", "second"] {
            let labels = json!({
                "instance": service.instance, "name": service.name, "allocator": service.arm, "world": world.to_string(),
                "revision": revision,
            });
            let own = |at: i64| (at - BEGIN) / 36_000 % 2 == i64::from(revision == "second");
            let told = service.told.iter().copied().filter(|told| own(told.0));
            let memory = service.lives.iter().flat_map(|life| &life.readings).filter(|(at, _)| own(*at));
            series.push(("memory", labels.clone(), memory.map(|(at, bytes)| (*at, *bytes as f64)).collect()));
            series.push(("start", labels, told.collect()));
        }
    }
    series.retain(|(.., values): &Series| !values.is_empty());
    series
}

fn openmetrics(all: &[Series]) -> String {
    let mut text = String::new();
    for name in ["memory", "start"] {
        for (_, labels, values) in all.iter().filter(|(own, ..)| *own == name) {
            let labels = labels.as_object().unwrap().iter().map(|(label, value)| format!("{label}={value}"));
            let labels = labels.collect::<Vec<_>>().join(",");
            for (at, value) in values {
                writeln!(text, "{name}{{{labels}}} {value} {at}").unwrap();
            }
        }
    }
    text + "# EOF\n"
}

/// In VictoriaMetrics' own form, one series a line.
fn json_lines(all: &[Series]) -> String {
    let mut text = String::new();
    for (name, labels, values) in all {
        let mut metric = labels.clone();
        metric["__name__"] = json!(name);
        let (times, values): (Vec<i64>, Vec<f64>) =
            values.iter().map(|(at, value)| (at * 1000, *value)).unzip();
        writeln!(text, "{}", json!({ "metric": metric, "values": values, "timestamps": times })).unwrap();
    }
    text
}

fn import(folder: &Path, database: &str, url: &str, words: &str) -> Output {
    let mut command = heaptrial(folder);
    command.args(["--db", database, "import", "prometheus", url]).args(words.split_whitespace());
    command.env("NO_PROXY", "127.0.0.1,localhost").output().unwrap()
}

#[track_caller]
fn imported(output: &Output) {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
}

fn trial(folder: &Path, database: &str, name: &str) -> ImportedTrial {
    stored::read(&Store::open(&folder.join(database)).unwrap(), name)
}

/// The lives of each service as they were drawn.
fn drawn(services: &[Service]) -> BTreeMap<String, (String, Vec<steps::Life>)> {
    let of = |service: &Service| {
        let life = |life: &Life| {
            let readings = life.readings.iter().map(|(at, bytes)| (at * 1000, *bytes)).collect();
            (life.started as f64, readings)
        };
        let lives = service.lives.iter().map(life).collect();
        (format!("{}/{}", service.instance, service.name), (service.arm.clone(), lives))
    };
    services.iter().map(of).collect()
}

/// What is asked of one world, from before its begin to its end.
fn asked(world: u64) -> String {
    let begin = at(BEGIN - 100);
    format!(
        "--service-label instance --service-label name --arm-label allocator --query memory{{world=\"{world}\"}} \
         --start start{{world=\"{world}\"}} --from {begin}"
    )
}

fn at(seconds: i64) -> String {
    let time = std::process::Command::new("date")
        .args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .unwrap();
    stdout(&time).trim().to_owned()
}

#[test]
fn drawn_histories_come_back_from_both_stores() {
    let Some(()) = heaptrial_testbed::drawn(4, 6) else { return };
    if !installed(&["prometheus", "promtool", "victoria-metrics"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let worlds: Vec<(u64, Vec<Service>)> = (1..=4).map(|seed| (seed, draw(seed))).collect();
    let all: Vec<_> = worlds.iter().flat_map(|(world, services)| series(services, *world)).collect();
    let prometheus = Server::prometheus_with(folder, &openmetrics(&all));
    let victoria = Server::victoria(folder, &json_lines(&all));

    let end = at(BEGIN + HOURS * 3600);
    for (world, services) in &worlds {
        let drawn = drawn(services);
        let whole = format!("{} --to {end} --name whole", asked(*world));
        for (store, server) in [("p", &prometheus), ("v", &victoria)] {
            let database = format!("{store}{world}.db");
            imported(&import(folder, &database, &server.url(), &whole));
            let found = steps::found(&trial(folder, &database, "whole"));
            assert_eq!(found.keys().collect::<Vec<_>>(), drawn.keys().collect::<Vec<_>>());
            for (name, (arm, lives)) in &found {
                let (drawn_arm, drawn_lives) = &drawn[name];
                assert_eq!(arm, drawn_arm, "{name}");
                steps::same(&format!("{store}{world}: {name}"), lives, drawn_lives, 15 * 60_000);
            }
        }
    }

    // An expression is evaluated within each step.
    let sums = format!(
        "--query sum(memory{{world=\"1\"}})by(allocator) --service-label allocator --step 10m --from {} --to {end} --name sums",
        at(BEGIN)
    );
    for (database, server) in [("p1.db", &prometheus), ("v1.db", &victoria)] {
        imported(&import(folder, database, &server.url(), &sums));
        let trial = trial(folder, database, "sums");
        assert_eq!(
            trial.services.iter().map(|service| service.service.name.as_str()).collect::<Vec<_>>(),
            ["glibc", "mimalloc-2.0.9"]
        );
        let samples =
            || trial.services.iter().flat_map(|service| &service.lives).flat_map(|life| &life.samples);
        assert!(samples().all(|sample| sample.wall_us % (600 * S) == 300 * S));
        assert!(samples().count() > 300);
    }

    // A report is that of any import.
    let report = run(folder, "--db p1.db report --json whole");
    imported(&report);
    let report = json(&report);
    assert_eq!(report["kind"], "import_prometheus");
    assert_eq!(report["arms"].as_array().unwrap().len(), 2);
    let claimed = &support::arm(&report, "mimalloc-2.0.9")["treatment"]["allocator"];
    assert_eq!(claimed, "mimalloc@2.0.9", "{report:#}");

    refusals(folder, &prometheus, &end);
}

/// What cannot be imported is told, and leaves nothing behind.
fn refusals(folder: &Path, prometheus: &Server, end: &str) {
    let url = prometheus.url();
    let span = format!("--from {} --to {end}", at(BEGIN));
    let nowhere = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let (whole, named) = ("--query memory{world=\"1\"}", "--query memory{world=\"1\"} --service-label name");
    let cases: [(&str, &str, &str); 11] = [
        (&url, &format!("{named} --start start{{world=\"1\"}}*1000"), "Divide milliseconds by"),
        (&url, "--query memory{world=\"1\"}/1024 --service-label name", "are below 1 MiB"),
        (&url, whole, "two series of the service host0:9256 at the same time"),
        (&url, "--query nothing", "no readings of nothing"),
        (&url, &format!("{whole} --service-label pod"), "has the label `pod`; the labels are: allocator, "),
        (&url, "--query sum(memory", "refuses the query"),
        (&url, "--query memory[5m]", "refuses the query"),
        (&url, &format!("{named} --arm-label kind"), "no service of the lists"),
        (&format!("http://{nowhere}"), whole, "cannot ask"),
        ("http://user:secret@localhost:9090", whole, "--basic-file"),
        ("localhost:9090", whole, "no address of a store"),
    ];
    for (url, words, why) in cases {
        let output = import(folder, "none/refused.db", url, &format!("{words} {span}"));
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{words:?}: {said}");
        assert!(!said.contains("secret") || url.contains("secret"), "{said}");
        assert!(!folder.join("none").exists(), "{words:?}");
    }
}

/// A Prometheus that asks another one, which is away, answers with what it has itself and warns: that is not taken for the whole.
#[test]
fn answers_that_are_not_whole_are_refused() {
    if !installed(&["prometheus", "promtool"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = Server::prometheus_with(folder, &openmetrics(&series(&draw(3), 1)));
    drop(whole);
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let remote = format!("remote_read: [{{url: 'http://{nobody}/read', read_recent: true}}]\n");
    let part = Server::prometheus(folder, &remote, &[]);
    let words = asked(1);
    let output = import(folder, "part.db", &part.url(), &words);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a partial answer") && said.contains("--accept-partial"), "{said}");
    assert!(!folder.join("part.db").exists());
    let output = import(folder, "part.db", &part.url(), &format!("{words} --accept-partial"));
    imported(&output);
    assert!(stdout(&output).contains("the store warns"), "{}", stdout(&output));
}

/// A target that tells of one process; while `away` it tells nothing.
struct Target {
    address: SocketAddr,
    away: Arc<AtomicBool>,
}

impl Target {
    fn start(started: i64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let away = Arc::new(AtomicBool::new(false));
        let own = away.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                if own.load(Ordering::Relaxed) {
                    continue;
                }
                let body =
                    format!("process_resident_memory_bytes 1.5e8\nprocess_start_time_seconds {started}\n");
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, away }
    }
}

/// Prometheus marks what a scrape does not bring any more: it is missing at once, also in an expression, which else
/// looks back for five minutes.
#[test]
fn missing_scrapes_are_missing() {
    if !installed(&["prometheus"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let target = Target::start(1_790_000_000);
    let configuration = format!(
        "global: {{scrape_interval: 500ms, scrape_timeout: 400ms}}\n\
         scrape_configs: [{{job_name: relays, static_configs: [{{targets: ['{}']}}]}}]\n",
        target.address
    );
    let prometheus = Server::prometheus(folder, &configuration, &[]);
    let values = |query: &str| -> usize {
        let path = format!("/api/v1/query?query={query}");
        let answer = prometheus.ask("GET", &path, "").unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let body: Value =
            serde_json::from_str(&body[body.find('{').unwrap()..=body.rfind('}').unwrap()]).unwrap();
        body["data"]["result"]
            .as_array()
            .unwrap()
            .first()
            .map_or(0, |first| first["values"].as_array().unwrap().len())
    };
    let scraped = || values("process_resident_memory_bytes%5B1h%5D");
    let failed = || values("up%5B1h%5D") - scraped();
    wait_for("scrapes", PATIENCE, || (scraped() >= 4).then_some(()));
    target.away.store(true, Ordering::Relaxed);
    wait_for("scrapes that fail", PATIENCE, || (failed() >= 6).then_some(()));
    target.away.store(false, Ordering::Relaxed);
    let before = scraped();
    wait_for("scrapes again", PATIENCE, || (scraped() >= before + 4).then_some(()));
    for words in [
        "--exporter process --name plain",
        "--query process_resident_memory_bytes*1 --start process_start_time_seconds --name expression",
    ] {
        let words = format!("{words} --from 10m --step 500ms");
        imported(&import(folder, "live.db", &prometheus.url(), &words));
    }
    for name in ["plain", "expression"] {
        let trial = trial(folder, "live.db", name);
        let [service] = &trial.services[..] else { panic!("{:?}", trial.services) };
        let [life] = &service.lives[..] else { panic!("{name}: {:?}", service.lives) };
        assert_eq!((life.start, life.started_wall_us), (LifeStart::Observed, 1_790_000_000 * S), "{name}");
        assert_eq!(service.service.name, target.address.to_string());
        let longest = life.samples.windows(2).map(|pair| pair[1].wall_us - pair[0].wall_us).max().unwrap();
        assert!(longest >= 5 * 500_000, "{name}: the longest gap is {longest} µs");
        assert!(life.samples.iter().all(|sample| sample.rss_bytes == 150_000_000));
    }
}

/// With a password, a certificate of the client and an authority of one's own, all from files.
#[test]
fn credentials_are_read_from_files() {
    if !installed(&["prometheus", "openssl"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 30"));
    fs::write(folder.join("server.ext"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    fs::write(folder.join("client.ext"), "extendedKeyUsage=clientAuth\n").unwrap();
    for name in ["server", "client"] {
        openssl(&format!("req -new {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile {name}.ext -out {name}.pem"
        ));
    }
    // The digest of `swordfish` by bcrypt at its least cost.
    let hash = "$2b$04$MKaCtC8rZ3Hn/99wTq1SZOONjHFdXpWGDAq6qNXkdaWahwyXYJ8ia";
    fs::write(
        folder.join("web.yml"),
        format!(
            "tls_server_config: {{cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem, \
             client_auth_type: RequireAndVerifyClientCert}}\nbasic_auth_users: {{operator: '{hash}'}}\n"
        ),
    )
    .unwrap();
    let target = Target::start(1_790_000_000);
    let configuration = format!(
        "global: {{scrape_interval: 500ms, scrape_timeout: 400ms}}\n\
         scrape_configs: [{{job_name: relays, static_configs: [{{targets: ['{}']}}]}}]\n",
        target.address
    );
    let prometheus = Server::prometheus(folder, &configuration, &["--web.config.file=web.yml"]);
    fs::write(folder.join("password"), "operator:swordfish\n").unwrap();
    fs::write(folder.join("wrong"), "operator:trout\n").unwrap();
    let url = prometheus.url().replace("http:", "https:");
    let with = |words: &str| {
        import(folder, "tls.db", &url, &format!("--exporter process --from 1h --step 500ms {words}"))
    };
    let all = "--ca-file ca.pem --cert-file client.pem --key-file client.key --basic-file password";
    wait_for("an import", PATIENCE, || with(all).status.success().then_some(()));
    for (words, why) in [
        (all.replace("--basic-file password", "--basic-file wrong"), "refuses the credentials"),
        (all.replace(" --basic-file password", ""), "refuses the credentials"),
        (all.replace(" --cert-file client.pem --key-file client.key", ""), "cannot ask"),
        (all.replace("--ca-file ca.pem ", ""), "cannot ask"),
        (all.replace("password", "ca.srl.missing"), "ca.srl.missing: No such file"),
        (all.replace("--ca-file ca.pem", "--ca-file password"), "no certificate in it"),
    ] {
        let output = with(&words);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{words}: {said}");
        assert!(!said.contains("trout") && !said.contains("swordfish"), "{said}");
    }
}

/// Serves a unix socket at a port of loopback.
fn at_a_port(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(served) = UnixStream::connect(&socket) else { continue };
            let (mut asks, mut asked) = (stream.try_clone().unwrap(), served.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut asks, &mut asked));
            let (mut answers, mut answered) = (served, stream);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut answered);
                let _ = answered.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

/// The agent on a real systemd, scraped by a real Prometheus under the rules of `monitoring/`: what is imported is what
/// the agent's own database has.
#[test]
#[ignore = "needs root and a container"]
fn a_prometheus_has_what_the_database_has() {
    let Some(()) = heaptrial_testbed::drawn(0, 6) else { return };
    if !installed(&["prometheus", "promtool"]) {
        return;
    }
    let Some((bed, units)) = Bed::with_churn(4) else { return };
    let unit = bed.succeeds("agent --print-unit /ht/heaptrial").stdout;
    let folder = "/etc/systemd/system/heaptrial-agent.service";
    bed.container.write(folder, unit, 0o644).unwrap();
    let options = "--interval 1s --services churn@* --metrics unix:/run/heaptrial/metrics.sock";
    let start = format!("[Service]\nExecStart=\nExecStart=/ht/heaptrial agent {options}\n");
    bed.container.write(format!("{folder}.d/test.conf"), start, 0o644).unwrap();
    bed.container.ok(&["mkdir", "-p", "-m", "750", "/var/lib/heaptrial"]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "start", "heaptrial-agent.service"]);
    let socket = bed.container.root().join("run/heaptrial/metrics.sock");
    wait_for("the metrics", PATIENCE, || UnixStream::connect(&socket).ok());
    let address = at_a_port(socket);

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../monitoring/heaptrial.rules.yml");
    let configuration = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}}\n\
         rule_files: ['{}']\n\
         scrape_configs: [{{job_name: heaptrial, static_configs: [{{targets: ['{address}']}}]}}]\n",
        rules.display()
    );
    let prometheus = Server::prometheus(folder, &configuration, &[]);
    let ticks = || {
        let store = Store::create(&bed.database()).ok()?;
        let trial = store.trials().ok()?.into_iter().find(|trial| trial.plan.kind == TrialKind::Host)?;
        Some((trial.id, store.tick_summary(trial.id).ok()?.ticks))
    };
    wait_for("ticks", PATIENCE, || ticks().filter(|(_, ticks)| *ticks >= 15));
    bed.container.ok(&["systemctl", "restart", &units[1]]);
    let begun = ticks().unwrap().1;
    let (id, _) = wait_for("more ticks", PATIENCE, || ticks().filter(|(_, ticks)| *ticks >= begun + 15));

    let words = "--exporter heaptrial --metric rss --step 1s --from 1h --name host";
    imported(&import(folder, "host.db", &prometheus.url(), words));
    let trial = trial(folder, "host.db", "host");
    assert_eq!(trial.services.len(), 4);
    let store = Store::create(&bed.database()).unwrap();
    let (services, lives) = (store.services(id).unwrap(), store.lives(id).unwrap());
    for service in &trial.services {
        let name = service.service.name.split_once('/').unwrap().1;
        let own = services.iter().find(|own| own.name == name).unwrap();
        let own: Vec<_> = lives.iter().filter(|life| life.service_id == own.id).collect();
        assert_eq!(own.len(), if name == units[1] { 2 } else { 1 }, "{name}");
        assert_eq!(service.lives.len(), own.len(), "{name}");
        for (life, own) in service.lives.iter().zip(own) {
            assert_eq!(life.start, LifeStart::Observed);
            assert!(life.started_wall_us.abs_diff(own.started_wall_us) < 1000, "{life:?} {own:?}");
            let series = store.series(own, Metric::Rss).unwrap();
            assert!(life.samples.len() >= 5 && series.len() >= 5, "{name}: {}", life.samples.len());
            for sample in &life.samples {
                // Of the last tick before the scrape, which may have been in the middle of the next one.
                let age = (sample.wall_us - own.started_wall_us) as f64 / 1e6;
                // Metrics are of the last tick, which in a step as short as this may have been before the start.
                if age < 2.0 {
                    continue;
                }
                let near = |point: &SeriesPoint| {
                    (age - 3.0..age + 0.2).contains(&point.age_seconds)
                        && point.metric_bytes == sample.rss_bytes
                };
                assert!(series.iter().any(near), "{name}: {sample:?} at {age} s is none of {series:?}");
            }
        }
    }

    let answer = prometheus.ask("GET", "/api/v1/rules", "").unwrap();
    assert!(answer.contains("\"health\":\"ok\"") && !answer.contains("\"health\":\"err\""), "{answer}");
    let exposed = ask(address, "GET", "/metrics", "").unwrap();
    let mut promtool = Command::new("promtool");
    let mut promtool =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let body = exposed.split_once("\r\n\r\n").unwrap().1;
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}\n{body}", stderr(&checked));
}
