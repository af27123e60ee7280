//! Who reads a database while another process makes its first import into it is told that, or reads what is there.

use crate::support;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use heaptrial_model::{LifeKey, Metric, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, Store, TickInput};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use support::series_store::ask;
use support::{heaptrial, json as json_of, run, stderr, succeeds, wait_for};

const PATIENCE: Duration = Duration::from_secs(120);
const ARMS: [&str; 2] = ["glibc", "mimalloc@2.0.9"];
const START_US: i64 = 1_767_225_600_000_000;
/// Two months of a reading a minute: more than SQLite keeps in memory, so that it writes in the middle of a transaction.
const TICKS: u32 = 90_000;
const SERVICES: usize = 8;

/// A host's database of a trial that is planned for two.
fn of_a_host(path: &Path) {
    let mut store = Store::create(path).unwrap();
    let assignments = ["alpha", "beta"].iter().flat_map(|host| {
        (0..SERVICES).map(move |index| {
            json!({ "service": format!("tor@{index}.service"), "host": host, "arm": ARMS[index % 2], "block": index / 2, "stratum": "relay" })
        })
    });
    let plan = json!({ "name": "fleet", "id": "0123456789abcdef", "tool_version": "", "seed": 7, "metric": "rss", "pace": {}, "arms": [], "builds": {},
            "duration": "60d", "looks": [], "services": assignments.collect::<Vec<_>>() });
    let specs = ARMS.map(|arm| arm.parse().unwrap());
    let trial = NewTrial {
        name: "fleet".into(),
        kind: TrialKind::Field,
        boot_id: "alpha-0".into(),
        host_facts: json!({}),
        metric: Metric::Anon,
        seed: 7,
        repeats: 1,
        planned_us: i64::from(TICKS) * 60_000_000,
        arms: TrialPlan::from_specs("fleet", &specs).unwrap().arms,
        parameters: json!({ "plan": plan, "host": "alpha", "started_boottime_us": 0 }),
        command: "heaptrial trial start fleet".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: START_US,
    };
    let services: Vec<NewService> = (0..SERVICES)
        .map(|index| NewService {
            name: format!("tor@{index}.service"),
            arm: index % 2,
            block: index as u32 / 2,
            position: index as u32,
            attributes: serde_json::Value::Null,
        })
        .collect();
    let id = store.begin_field_trial(&trial, &[None, None], &services).unwrap();
    let mut lives = Vec::new();
    for (index, service) in store.services(id).unwrap().iter().enumerate() {
        let key = LifeKey { boot_id: "alpha-0".into(), pid: 9 + index as i32, start_ticks: 1 };
        lives.push(store.add_life(service.id, &key, (START_US, 0), None, None).unwrap());
    }
    let first = TickInput { sequence: 0, wall_us: START_US, boottime_us: 1, ..TickInput::default() };
    store.write_tick(id, &first).unwrap();
    drop(store);
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(&format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {TICKS})
             INSERT INTO tick (trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us, host_id)
             SELECT {id}, n, {START_US} + n * 60000000, n * 60000000, 900, 800, (SELECT max(id) FROM host) FROM n;
             INSERT INTO sample (life_id, tick_id, rss_bytes, anon_bytes, swap_bytes, vsize_bytes, cpu_us)
             SELECT l.id, t.id, 400000000 + t.id % 977 * 4096, 380000000 + t.id % 977 * 4096, 0, 900000000, t.id * 1000
             FROM life l JOIN tick t ON t.sequence > 0 ORDER BY l.id, t.id;"
        ))
        .unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(lives.len(), SERVICES);
}

/// A child of the test, killed with it.
struct Process(Child);

impl Process {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Whether it succeeded, and what it said of what went wrong.
    fn end(mut self) -> (bool, String) {
        let mut text = String::new();
        std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut text).unwrap();
        (self.0.wait().unwrap().success(), text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_database_that_is_held_by_its_first_gathering_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    of_a_host(&folder.join("alpha.db"));
    let gathered: PathBuf = folder.join("gathered.db");
    let mut import = heaptrial(folder);
    import.args(["--db", "gathered.db", "import", "heaptrial", "alpha.db"]).stdout(Stdio::null());
    let mut import = Process(import.spawn().unwrap());
    // What it writes before the end of its transaction is where only a process that keeps all others out may write.
    wait_for("the middle of the import", PATIENCE, || {
        let size = std::fs::metadata(&gathered).map_or(0, |found| found.len());
        assert_eq!(import.0.try_wait().unwrap(), None, "it ended before it was held");
        (size > 4 << 20).then_some(())
    });
    import.signal(Signal::STOP);
    let output = run(folder, "--json --out report report gathered.db");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("gathered.db: another command holds the database, such as an import"), "{told}");

    let mut serve = heaptrial(folder);
    let output = serve.args(["serve", "gathered.db", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(stderr(&output).contains("another command holds the database"), "{}", stderr(&output));

    import.signal(Signal::CONT);
    assert!(import.0.wait().unwrap().success());
    let output = run(folder, "--json --out report report gathered.db");
    succeeds(&output);
    assert_eq!(json_of(&output)["services"].as_array().unwrap().len(), SERVICES);
}

/// A server that takes connections and answers nothing, as a store at work does.
fn silent() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn what_is_being_imported_is_not_there_before_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (listener, address) = silent();
    let mut import = heaptrial(folder);
    import.args(["--db", "new.db", "import", "prometheus", &format!("http://{address}")]);
    import
        .args(["--exporter", "process", "--from", "1h"])
        .env("NO_PROXY", "127.0.0.1")
        .stderr(Stdio::piped());
    let import = Process(import.spawn().unwrap());
    // It has asked, and waits.
    let asked = listener.accept().unwrap();
    let output = run(folder, "--out report report new.db");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("is there when the import has ended"), "{}", stderr(&output));
    let mut serve = heaptrial(folder);
    let mut serve = Process(
        serve
            .args(["serve", "new.db", "--listen", "127.0.0.1:0", "--host", "x"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut url = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(serve.0.stdout.take().unwrap()), &mut url)
        .unwrap();
    let at: SocketAddr = url.trim().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let page = ask(at, "GET", "/", "").unwrap();
    assert!(page.contains("holds no trial yet"), "{page}");
    drop((asked, listener));
    let output = import.end();
    assert!(!output.0 && output.1.contains("cannot ask"), "{output:?}");
    assert!(!folder.join("new.db").exists(), "an import that failed leaves no empty database");
}
