//! `heaptrial explain`: the C libraries of other systems, what it prints, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::allocators::{Running, json, kept_cache, run, under};

fn heaps(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../allocator/tests/it/heaps.c");
    let program = folder.join("heaps");
    let cc = ["-O1", "-fno-builtin", "-pthread", source, "-o"];
    assert!(Command::new("cc").args(cc).arg(&program).status().unwrap().success());
    program
}

fn explained(pid: u32) -> Value {
    json(&kept_cache(), &["explain", &pid.to_string()])["processes"][0].clone()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs the package archive"]
fn heaps_of_other_c_libraries_are_read() {
    let cache = kept_cache();
    let folder = tempfile::tempdir().unwrap();
    let program = heaps(folder.path());
    for spec in ["glibc", "glibc@2.41", "glibc@2.43"] {
        let verified = json(&cache, &["allocators", "verify", spec]);
        let start = |case: &str| {
            let mut command = under(&verified, &program);
            command.args(case.split(' ')).env("MALLOC_ARENA_MAX", "64");
            Running::start_at(command, "ready")
        };
        let bytes = |process: &Value, name: &str| {
            process[name].as_u64().unwrap_or_else(|| panic!("{spec}: {process:#}"))
        };
        // 4 threads with 20,000 blocks of 1,000 bytes and 8 of header each.
        let half = explained(start("4 1000 20000 half").0.id());
        let truth = 4 * 10_000 * 1008_u64;
        assert!((bytes(&half, "in_use_bytes") as f64 / truth as f64 - 1.0).abs() < 0.03, "{spec}: {half:#}");
        assert!(
            (bytes(&half, "free_in_pages_bytes") as f64 / truth as f64 - 1.0).abs() < 0.03,
            "{spec}: {half:#}"
        );
        assert_eq!((bytes(&half, "arenas"), bytes(&half, "threads")), (5, 5), "{spec}: {half:#}");
        let kept = explained(start("4 16000000 3 buffers").0.id());
        assert!(bytes(&kept, "kept_free_bytes") > 60_000_000, "{spec}: {kept:#}");
        assert!(kept["parsed_share"].as_f64().unwrap() > 0.99, "{spec}: {kept:#}");
        assert_eq!(kept["advice"][0]["try"][0], "glibc?trim_threshold=131072", "{spec}: {kept:#}");
    }
}

#[test]
fn a_process_is_shown_by_where_its_memory_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(heaps(folder.path()));
    command.args(["4", "16000000", "3", "buffers"]);
    let running = Running::start_at(command, "ready");
    let output = run(&kept_cache(), &["explain", &running.0.id().to_string()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("5 threads, 5 arenas") && text.contains("kept free"), "{text}");
    assert!(text.contains("Try `glibc?trim_threshold=131072`."), "{text}");
}

#[test]
fn what_cannot_be_read_is_said_in_one_sentence() {
    let cache = kept_cache();
    let gone = run(&cache, &["explain", "4194303"]);
    assert_eq!(gone.status.code(), Some(1), "{}", said(&gone));
    assert_eq!(said(&gone).lines().count(), 1, "{}", said(&gone));
    let none = run(&cache, &["explain", "/usr/bin/tor"]);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
}
