//! Every service of `docs/lab-services.md`, by the command that the page has, in a short form.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::stderr;

/// Long times and many rounds of the page, and what stands for them in a test.
const SHORTER: [(&str, &str); 7] = [
    ("--repeat 6 ", "--repeat 1 --tick 100ms "),
    ("-T 60", "-T 3"),
    ("-d 60s", "-d 3s"),
    ("-t 60s", "-t 3s"),
    ("-t 60 ", "-t 3 "),
    ("-n 1000000 ", "-n 30000 "),
    ("-s 10 ", "-s 1 "),
];

/// The command of a service: the block below its heading.
fn command(service: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/lab-services.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(service));
    let section = section.unwrap_or_else(|| panic!("no section {service}"));
    let block = section.split("```").nth(1).unwrap_or_else(|| panic!("no command of {service}"));
    block.trim_start_matches("sh\n").to_owned()
}

fn present(programs: &[&str]) -> bool {
    let found = |program: &&str| {
        let postgresql = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> =
            ["/usr/bin", "/usr/sbin", "/bin", "/usr/local/bin"].iter().map(PathBuf::from).collect();
        folders.extend(postgresql.map(|version| version.path().join("bin")));
        folders.iter().any(|folder| folder.join(program).is_file())
    };
    let missing: Vec<&str> = programs.iter().filter(|program| !found(program)).copied().collect();
    if !missing.is_empty() {
        heaptrial_testbed::skip(&format!("{} is not installed", missing.join(", ")));
    }
    missing.is_empty()
}

/// Runs the page's command; every arm has figures and the work that is named.
#[track_caller]
fn runs(service: &str, programs: &[&str], work: &[&str]) {
    if !present(programs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut text = command(service);
    for (long, short) in SHORTER {
        text = text.replace(long, short);
    }
    let program = Path::new(env!("CARGO_BIN_EXE_heaptrial"));
    let out = folder.path().join("run");
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-euc", &text.replace("heaptrial lab run", "heaptrial lab run --out \"$RUN\"")])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PATH", path)
        .env("RUN", &out)
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", stderr(&output));
    let report = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    for arm in report["arms"].as_array().unwrap() {
        assert_eq!(arm["services"], 1, "{}", arm["name"]);
        let measures = arm["work"]["measures"].as_array().unwrap();
        for name in work {
            let told = measures.iter().find(|measure| measure["name"] == *name);
            let amount = told.and_then(|measure| measure["amount"].as_f64());
            assert!(amount.is_some_and(|amount| amount > 0.0), "{name} of {}: {measures:#?}", arm["name"]);
        }
    }
}

#[test]
#[ignore = "needs root and PostgreSQL"]
fn postgresql_under_pgbench() {
    if rustix::process::geteuid().is_root() {
        runs("PostgreSQL", &["postgres", "pgbench", "setpriv"], &["tps", "latency_ms"]);
    } else {
        heaptrial_testbed::skip("PostgreSQL's account can be taken by root only");
    }
}

#[test]
#[ignore = "needs nginx and wrk"]
fn nginx_under_wrk() {
    let Some(()) = drawn(0, 6) else { return };
    runs("nginx", &["nginx", "wrk"], &["requests", "latency_ms", "p99_ms"]);
}

#[test]
#[ignore = "needs Redis"]
fn redis_under_redis_benchmark() {
    let Some(()) = drawn(2, 6) else { return };
    runs("Redis", &["redis-server", "redis-benchmark"], &["SET requests", "GET p99_ms"]);
}

#[test]
#[ignore = "needs memcached and memcaslap"]
fn memcached_under_memcaslap() {
    let Some(()) = drawn(5, 6) else { return };
    runs("memcached", &["memcached", "memcaslap"], &["tps"]);
}

#[test]
#[ignore = "needs gunicorn and ab"]
fn a_python_application_under_ab() {
    let Some(()) = drawn(3, 6) else { return };
    runs("Python", &["gunicorn", "ab"], &["requests", "p99_ms"]);
}

#[test]
#[ignore = "needs node and ab"]
fn node_under_ab() {
    let Some(()) = drawn(4, 6) else { return };
    runs("Node", &["node", "ab"], &["requests"]);
}

#[test]
#[ignore = "needs a JDK and ab"]
fn java_under_ab() {
    let Some(()) = drawn(1, 6) else { return };
    runs("Java", &["javac", "ab"], &["requests"]);
}
