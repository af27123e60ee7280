//! What the first page of a report says of imports that a careless reader would take at their word.

use crate::support;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{arm, json, run, stderr, stdout};

/// Relays of an arm: its name, and of each what it comes to need in MiB.
type Arm<'a> = (&'a str, Vec<f64>);

/// Relays that start anew one step after the first reading, read `steps` times every `minutes`.
fn write(folder: &Path, arms: &[Arm<'_>], minutes: u32, steps: u32) {
    let mut text = "timestamp,nickname,rss_kb,vmsize_kb,hwm_kb\n".to_owned();
    for step in 0..=steps {
        let at = step * minutes;
        let time = format!("2026-03-{:02}T{:02}:{:02}:00Z", 1 + at / 1440, at / 60 % 24, at % 60);
        for (arm, relays) in arms {
            for (number, level) in relays.iter().enumerate() {
                let hours = f64::from(at.saturating_sub(minutes / 2)) / 60.0;
                let wiggle = 1.0 + 0.003 * (f64::from(step) * 1.7 + number as f64 * 2.3).sin();
                let settled = if step == 0 { 3.0 } else { (1.0 - 0.5 * (-hours / 7.0).exp()) * wiggle };
                let rss = (level * settled * 1024.0) as u64;
                writeln!(text, "{time},{arm}{number},{rss},{},{rss}", rss * 2).unwrap();
            }
        }
    }
    fs::write(folder.join("memory.csv"), text).unwrap();
    for (arm, relays) in arms {
        let members: Vec<String> = (0..relays.len()).map(|number| format!("{arm}{number}")).collect();
        fs::write(folder.join(format!("{arm}.txt")), members.join("\n")).unwrap();
    }
}

/// The report as JSON and on the terminal.
#[track_caller]
fn report(folder: &Path, lists: &str) -> (Value, String) {
    let imported = run(folder, &format!("--db t.db import torutils memory.csv --name t --groups {lists}"));
    assert!(imported.status.success(), "{}{}", stdout(&imported), stderr(&imported));
    let (found, page) = (run(folder, "--db t.db report t --json"), run(folder, "--db t.db report t"));
    assert!(found.status.success() && page.status.success(), "{}{}", stderr(&found), stderr(&page));
    let words: Vec<String> = stdout(&page).split_whitespace().map(str::to_owned).collect();
    (json(&found), words.join(" "))
}

/// So many relays within 4% of a level.
fn around(level: f64, relays: usize) -> Vec<f64> {
    (0..relays).map(|number| level * (1.0 + 0.04 * (number as f64 * 1.3).sin())).collect()
}

#[test]
fn five_hours_after_a_start_nothing_bloats() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("glibc", around(4000.0, 10)), ("jemalloc", around(2000.0, 10))], 10, 30);
    let (report, page) = report(folder.path(), "glibc.txt jemalloc.txt");
    for name in ["glibc", "jemalloc"] {
        let found = arm(&report, name);
        assert_eq!(found["verdict"], "inconclusive", "{found}");
        assert!((0.9..1.5).contains(&found["verdict_detail"]["days_needed"].as_f64().unwrap()), "{found}");
    }
    assert!(!page.contains("Take services off") && page.contains("part of a day"), "{page}");
}

#[test]
fn a_control_that_is_mostly_another_arm_is_no_measure() {
    let folder = tempfile::tempdir().unwrap();
    let control = [around(1300.0, 12), around(6000.0, 8)].concat();
    write(folder.path(), &[("glibc", control), ("mimalloc209", around(1320.0, 15))], 120, 72);
    let (report, page) = report(folder.path(), "glibc.txt mimalloc209.txt");
    let mixed = |finding: &&Value| finding["kind"] == "mostly_as_another_arm";
    let found = report["findings"].as_array().unwrap().iter().find(mixed).unwrap();
    assert_eq!((&found["severity"], found["services"].as_array().unwrap().len()), (&"grave".into(), 12));
    let objections = arm(&report, "mimalloc209")["objections"].to_string();
    assert!(objections.contains("mostly_as_another_arm") || !page.contains("Use mimalloc209"), "{page}");
    assert!(page.contains("None: "), "{page}");
}

#[test]
fn the_plain_c_library_is_the_control() {
    let folder = tempfile::tempdir().unwrap();
    let arms = [
        ("glibc-2.41-arena-max-1", around(2000.0, 6)),
        ("glibc-2.41", around(4000.0, 6)),
        ("jemalloc-5.3.0", around(1500.0, 6)),
    ];
    write(folder.path(), &arms, 240, 42);
    let (report, _) = report(folder.path(), "glibc-2.41-arena-max-1.txt glibc-2.41.txt jemalloc-5.3.0.txt");
    assert_eq!(arm(&report, "glibc-2.41")["control"], true);
    let ratio = arm(&report, "jemalloc-5.3.0")["ratio_to_control"]["estimate"].as_f64().unwrap();
    assert!((ratio - 0.375).abs() < 0.01, "{ratio}");
}
