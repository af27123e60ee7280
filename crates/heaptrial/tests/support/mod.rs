//! Running the real binary.
#![allow(dead_code)] // each test file uses a part of it

pub mod bed;
pub mod control;
pub mod exporters;
pub mod fleet;
pub mod hosts;
pub mod series_store;
pub mod served;
pub mod shapes;
pub mod steps;
#[path = "../../../exchange/tests/it/support/stored.rs"]
pub mod stored;
pub mod trials;
pub mod two_hosts;
pub mod upstream;
pub mod watched;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The binary under test, in `folder`, with nothing of the caller's settings.
pub fn heaptrial(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaptrial"));
    command.current_dir(folder).env_remove("NO_COLOR").env_remove("LD_PRELOAD");
    command
}

/// Runs it and gives what it said; `arguments` are split at spaces.
pub fn run(folder: &Path, arguments: &str) -> Output {
    heaptrial(folder).args(arguments.split_whitespace()).output().unwrap()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// That it succeeded.
#[track_caller]
pub fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
}

/// Standard output as JSON.
#[track_caller]
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", stdout(output), stderr(output)))
}

/// An arm of a report by name.
#[track_caller]
pub fn arm<'a>(report: &'a Value, name: &str) -> &'a Value {
    let arms = report["arms"].as_array().unwrap();
    arms.iter().find(|arm| arm["name"] == name).unwrap_or_else(|| panic!("no arm {name} in {report:#}"))
}

/// A program whose heap is known by its arguments.
pub fn heaps(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../allocator/tests/it/heaps.c");
    let program = folder.join("heaps");
    let cc = ["-O1", "-fno-builtin", "-pthread", source, "-o"];
    assert!(Command::new("cc").args(cc).arg(&program).status().unwrap().success());
    program
}

/// Waits until `ready` gives something.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(started.elapsed() < limit, "{what} did not happen within {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A time to sleep for by which this run of the tests knows its own processes: another run may be going on.
pub fn own_seconds(number: u32) -> String {
    format!("{number}{:07}", std::process::id())
}

/// Process ids of all processes with `marker` in their command line.
pub fn processes_with(marker: &str) -> Vec<i32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != std::process::id() as i32)
        .filter(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(marker)
        })
        .collect()
}
