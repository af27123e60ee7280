//! `--userland`: a lab run in the root of another suite.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Output;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::{heaptrial, stderr};

/// A relay that does nothing: it maps what a relay links.
const IDLE_RELAY: [&str; 6] = ["--", "tor", "--hush", "--DisableNetwork", "1", "--DataDirectory"];

fn run(folder: &Path, out: &str, arguments: &[&str]) -> (Output, Value) {
    let data = folder.join(format!("{out}-data"));
    let output = heaptrial(folder)
        .args("lab run -a glibc -a jemalloc@5.3.0 --duration 3s --seed 1 --out".split(' '))
        .arg(out)
        .args(arguments)
        .args(IDLE_RELAY)
        .arg(&data)
        .output()
        .unwrap();
    let report = folder.join(out).join("report.json");
    let report = fs::read_to_string(report).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    (output, report)
}

/// The builds of a library in an arm.
fn versions<'a>(report: &'a Value, arm: usize, name: &str) -> Vec<&'a str> {
    let libraries = report["arms"][arm]["libraries"].as_array().unwrap();
    libraries
        .iter()
        .filter(|library| library["name"] == name)
        .filter_map(|library| library["version"].as_str())
        .collect()
}

/// What is mounted, but for the containers of tests that run beside this one.
fn mounts() -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    all.lines().filter(|mount| !mount.contains(" heaptrial-testbed ")).map(str::to_owned).collect()
}

#[test]
#[ignore = "needs root and the package archive"]
fn a_run_in_another_suite() {
    let Some(()) = drawn(3, 6) else { return };
    if !rustix::process::geteuid().is_root() {
        return heaptrial_testbed::skip("a userland is entered by root alone");
    }
    let folder = tempfile::tempdir().unwrap();
    let before = mounts();
    let (output, plain) = run(folder.path(), "plain", &["--userland", "trixie"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        plain["host"]["userland"].as_str().unwrap().starts_with("userland trixie, on a host of"),
        "{}",
        plain["host"]
    );
    assert!(plain["host"]["os"].as_str().unwrap().contains("trixie"));
    // Debian 13's C library, as the process itself maps it, and not that of this host.
    assert_eq!(plain["arms"][0]["identity"]["version"], "2.41");
    assert!(versions(&plain, 0, "libzstd.so.1")[0].starts_with("1.5.7"), "{plain}");
    assert_eq!(versions(&plain, 0, "libzstd.so.1"), versions(&plain, 1, "libzstd.so.1"));

    // TLS clients inside trust whom the host trusts, by the files that it has for them.
    let own = folder.path().join("own-authority.pem");
    fs::write(&own, "whom this host trusts besides").unwrap();
    let script = format!(
        "cat /etc/ssl/certs/ca-certificates.crt {} > {}",
        own.display(),
        folder.path().join("trusted").display()
    );
    let output = heaptrial(folder.path())
        .args("lab run --userland trixie -a glibc --duration 1s --tick 100ms --out trust -- sh -c".split(' '))
        .arg(format!("{script}; sleep 60"))
        .env("SSL_CERT_FILE", &own)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let bundle = fs::read("/etc/ssl/certs/ca-certificates.crt").unwrap();
    let expected = [bundle, fs::read(&own).unwrap()].concat();
    assert!(
        fs::read(folder.path().join("trusted")).unwrap() == expected,
        "other authorities are trusted inside"
    );

    let (output, on_host) = run(folder.path(), "on-host", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_ne!(versions(&on_host, 0, "libzstd.so.1"), versions(&plain, 0, "libzstd.so.1"));
    let compared = heaptrial(folder.path()).args(["report", "plain", "on-host"]).output().unwrap();
    let told = String::from_utf8_lossy(&compared.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("The libraries differ") && told.contains("libc.so.6 "), "{told}");
    let command = plain["command"].as_str().unwrap();
    assert!(command.contains("--userland trixie"), "{command}");
    assert_eq!(mounts(), before, "mounts were left");
}

#[test]
fn what_is_no_userland_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (output, report) = run(folder.path(), "refused", &["--userland", "./nothing"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("expected a suite"), "{}", stderr(&output));
    assert!(report.is_null() && !folder.path().join("refused").exists());
}
