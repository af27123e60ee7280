//! From the operators' files to a report, a forecast and back out again.

use crate::support;
use crate::support::fleet;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use support::{arm, heaptrial, json, run, stderr, stdout};

const PRESENT: [&str; 5] = [
    "group_A_mimalloc301",
    "group_B_mimalloc209",
    "group_C_mimalloc217",
    "group_D_jemalloc",
    "group_E_glibc",
];

/// A folder with the files of the small fleet.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fleet::write(folder.path(), f64::INFINITY);
    folder
}

fn import(folder: &Path, lists: &[&str], more: &str) -> Output {
    let lists: Vec<String> = lists.iter().map(|list| format!("groups/{list}.txt")).collect();
    run(
        folder,
        &format!(
            "--db fleet.db import torutils memory.csv --timezone=-08:00 --events events.csv --diagnostics diagnostics.csv {more} --groups {}",
            lists.join(" ")
        ),
    )
}

#[track_caller]
fn report(folder: &Path, more: &str) -> Value {
    let output = run(folder, &format!("--db fleet.db report --json {more}"));
    assert!(output.status.success(), "{}", stderr(&output));
    json(&output)
}

#[track_caller]
fn imported(output: &Output) {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
}

fn close(found: &Value, expected: f64, share: f64) -> bool {
    (found.as_f64().unwrap() / expected - 1.0).abs() < share
}

#[track_caller]
fn findings<'r>(report: &'r Value, kind: &str) -> Vec<&'r Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["kind"] == kind).collect()
}

#[test]
fn an_import_becomes_a_report_with_means_ratios_and_verdicts() {
    let folder = files();
    imported(&import(folder.path(), &PRESENT, ""));
    let report = report(folder.path(), "");
    assert_eq!(report["kind"], "import_torutils");
    for (index, shape) in fleet::ARMS.iter().enumerate() {
        let relays: Vec<(usize, usize)> = (0..shape.relays).map(|number| (index, number)).collect();
        let found = arm(&report, shape.name);
        assert!(close(&found["rss_bytes_final"], fleet::mean_of_last(&relays), 1e-6), "{}", shape.name);
        assert_eq!(found["services"], shape.relays);
        assert_eq!(found["control"], shape.name == "group_E_glibc");
    }
    let ratio = &arm(&report, "group_B_mimalloc209")["ratio_to_control"];
    assert!(close(&ratio["estimate"], 1.3 / 6.2, 0.05), "{ratio}");
    assert!(
        ratio["low"].as_f64() < ratio["estimate"].as_f64()
            && ratio["estimate"].as_f64() < ratio["high"].as_f64()
    );
    assert!(ratio["p_value_adjusted"].as_f64() >= ratio["p_value"].as_f64());
    assert_eq!(arm(&report, "group_A_mimalloc301")["verdict"], "bloating");
    assert!(close(
        &arm(&report, "group_A_mimalloc301")["slope_bytes_per_hour"],
        0.9 * 1_073_741_824.0 / 24.0,
        0.1
    ));
    assert_ne!(arm(&report, "group_E_glibc")["verdict"], "bloating");
    assert!(findings(&report, "nearer_to_another_arm").is_empty());
}

#[test]
fn a_server_that_is_renamed_does_not_double_its_services() {
    let plain = files();
    imported(&import(plain.path(), &PRESENT, ""));
    let expected = report(plain.path(), "");

    // From the middle of the readings on the server has another label.
    let renamed = files();
    let path = renamed.path().join("memory.csv");
    let text = fs::read_to_string(&path).unwrap();
    let times: std::collections::BTreeSet<&str> = text.lines().skip(1).map(|line| &line[..19]).collect();
    let change = times.iter().nth(times.len() / 2).unwrap().to_string();
    let rows = text.lines().map(|line| match line[..19] >= change[..] && line.starts_with('2') {
        true => line.replacen(",go,", ",alpha,", 1),
        false => line.to_owned(),
    });
    fs::write(&path, rows.collect::<Vec<_>>().join("\n")).unwrap();
    let about = "hypothesis = 'mimalloc 2.0.9 needs a fifth'\nnext_steps = 'roll it out'\n";
    fs::write(renamed.path().join("about.toml"), about).unwrap();
    let output = import(renamed.path(), &PRESENT, "--about about.toml");
    imported(&output);
    let told = "- services whose server was read under one label after another, each counted once: 60 (";
    assert!(stdout(&output).contains(told), "{}", stdout(&output));
    let found = report(renamed.path(), "");
    assert_eq!(found["services"].as_array().map(Vec::len), expected["services"].as_array().map(Vec::len));
    for name in PRESENT {
        for figure in ["rss_bytes_final", "services", "ratio_to_control", "slope_bytes_per_hour", "verdict"] {
            assert_eq!(arm(&found, name)[figure], arm(&expected, name)[figure], "{name} {figure}");
        }
    }
    assert_eq!(found["services"].as_array().map_or(0, Vec::len), 60);
}

/// A report on five days of 12 relays of each of two arms that need the same. On a server they need 30% more than on the
/// other; so many of each arm run there.
fn on_two_servers(on_big: [usize; 2]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "timestamp,server,nickname,group,rss_kb\n".to_owned();
    for hour in 0..120 {
        for (arm, on_big) in ["glibc", "mimalloc209"].iter().zip(on_big) {
            for number in 0..12 {
                let (server, share) = if number < on_big { ("big", 130) } else { ("small", 100) };
                let noise = 1000 + (number * 7) % 11 * 5 + (number + hour * 5) % 13;
                text += &format!(
                    "2026-03-{:02}T{:02}:00:00Z,{server},{arm}{number},{arm},{}\n",
                    1 + hour / 24,
                    hour % 24,
                    20 * share * noise
                );
            }
        }
    }
    fs::write(folder.path().join("memory.csv"), text).unwrap();
    imported(&run(folder.path(), "--db fleet.db import torutils memory.csv"));
    report(folder.path(), "")
}

#[test]
fn what_servers_differ_by_is_no_effect_of_an_arm() {
    let found = on_two_servers([10, 2]);
    let ratio = &arm(&found, "mimalloc209")["ratio_to_control"];
    assert!(close(&ratio["estimate"], 1.0, 0.03), "{ratio}");
    assert!(ratio["low"].as_f64().unwrap() < 1.0 && ratio["high"].as_f64().unwrap() > 1.0, "{ratio}");
    // Nor does it make a service look as if it ran what the other arm runs.
    assert_eq!(
        arm(&found, "mimalloc209")["services_excluded"],
        Value::Array(Vec::new()),
        "{}",
        found["findings"]
    );
    assert_eq!(found["assignment"], "listed_within_servers");
}

#[test]
fn arms_on_servers_of_their_own_are_not_compared() {
    let found = on_two_servers([12, 0]);
    assert!(arm(&found, "mimalloc209")["ratio_to_control"].is_null(), "{}", found["arms"]);
    let told = findings(&found, "not_compared");
    assert_eq!((told.len(), &told[0]["severity"]), (1, &Value::from("grave")));
    // One of the control beside them, and these can be.
    let told = on_two_servers([12, 1]);
    assert!(!arm(&told, "mimalloc209")["ratio_to_control"].is_null());
    assert_eq!(findings(&told, "not_compared")[0]["severity"], "caution");
}

#[test]
fn off_treatment_are_named_unasked_and_the_result_stands_with_and_without_them() {
    let folder = files();
    let lists = [
        "group_A_mimalloc301",
        "group_B_mimalloc209",
        "group_C_mimalloc217",
        "group_D_jemalloc",
        "group_E_glibc_historical",
    ];
    imported(&import(folder.path(), &lists, ""));
    let report = report(folder.path(), "");
    let glibc = arm(&report, "group_E_glibc_historical");
    assert!(close(&glibc["rss_bytes_final"], fleet::mean_of_last(&fleet::historical()), 1e-6));
    let own: Vec<(usize, usize)> = (0..6).map(|number| (4, number)).collect();
    assert!(close(&glibc["as_treated"]["final_mean_bytes"], fleet::mean_of_last(&own), 1e-6), "{glibc}");
    let off_treatment: Vec<&str> = glibc["services_excluded"]
        .as_array()
        .unwrap()
        .iter()
        .map(|service| service["name"].as_str().unwrap())
        .collect();
    for name in ["brelay0", "brelay1", "brelay2", "drelay9"] {
        assert!(off_treatment.contains(&name), "{name}: {off_treatment:?}");
    }
    assert_eq!(off_treatment.len(), 4);
    let terminal = stdout(&run(folder.path(), "--db fleet.db report"));
    for word in ["brelay0", "drelay9", "group_E_glibc_historical"] {
        assert!(terminal.contains(word), "{word} is not in:\n{terminal}");
    }
}

#[test]
fn malformed_rows_are_told_by_line_and_column_and_left_out() {
    let folder = files();
    let path = folder.path().join("memory.csv");
    let text = fs::read_to_string(&path).unwrap();
    let first = format!(",{},", fleet::relay(0, 0));
    let broken = text.replacen(&first, &format!("{first}six"), 1);
    let line = text.lines().zip(broken.lines()).position(|(a, b)| a != b).unwrap() + 1;
    fs::write(&path, broken).unwrap();
    let output = import(folder.path(), &PRESENT, "");
    imported(&output);
    let told = stderr(&output);
    assert!(told.contains(&format!("memory.csv:{line}")) && told.contains("column"), "{told}");
    assert!(told.contains("1 malformed row"), "{told}");

    let strict = files();
    fs::copy(&path, strict.path().join("memory.csv")).unwrap();
    let output = import(strict.path(), &PRESENT, "--strict");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("memory.csv:{line}")), "{}", stderr(&output));
    assert!(!strict.path().join("fleet.db").exists(), "a refused import leaves nothing");
}

#[test]
fn the_timezone_moves_every_time_and_is_told() {
    let folder = files();
    let output = run(
        folder.path(),
        "--db a.db import torutils memory.csv --timezone +05:30 --groups groups/group_E_glibc.txt groups/group_D_jemalloc.txt",
    );
    imported(&output);
    assert!(stdout(&output).contains("+05:30"), "{}", stdout(&output));
    let exported = stdout(&run(folder.path(), "--db a.db export --format csv"));
    assert!(exported.contains("2026-02-28T18:30:00.000000Z,"), "{}", &exported[..600.min(exported.len())]);
    let refused = run(folder.path(), "--db b.db import torutils memory.csv --timezone Mars/Olympus");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("Mars/Olympus"));
}

#[test]
fn files_in_the_wrong_place_and_readings_of_times_to_come_are_told() {
    let folder = files();
    let events = run(
        folder.path(),
        "--db a.db import torutils memory.csv --events memory.csv --groups groups/group_E_glibc.txt",
    );
    assert_eq!(events.status.code(), Some(3), "{}", stdout(&events));
    assert!(stderr(&events).contains("event_type"), "{}", stderr(&events));
    let lists = run(folder.path(), "--db a.db import torutils memory.csv --groups memory.csv");
    assert_eq!(lists.status.code(), Some(3), "{}", stdout(&lists));
    assert!(stderr(&lists).contains("none of which was measured"), "{}", stderr(&lists));
    let path = folder.path().join("memory.csv");
    let text = fs::read_to_string(&path).unwrap();
    let last = text.lines().last().unwrap();
    let later = format!("{text}{}\n", last.replacen("2026-", "2066-", 1));
    fs::write(&path, later).unwrap();
    let output = import(folder.path(), &PRESENT, "--json");
    assert_eq!(json(&output)["import"]["samples"], 60 * fleet::days().len());
    assert_eq!(json(&output)["import"]["problems"]["counts"]["malformed_row"], 1);
}

#[test]
fn power_is_simulated_from_the_past_of_the_same_services() {
    let folder = files();
    imported(&import(folder.path(), &PRESENT, ""));
    let output =
        run(folder.path(), "--db fleet.db trial power --ratio 0.95 --arms 5 --services 3,10,40 --json");
    imported(&output);
    let table = &json(&output)["power"];
    assert_eq!(table["arm"], "group_E_glibc");
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.len() >= 3, "{table:#}");
    let share = |row: &Value, column: usize| row["power"][column].as_f64().unwrap();
    for row in rows {
        assert!(share(row, 0) < share(row, 2) && share(row, 2) > 0.9, "{row:#}");
    }
    let text = stdout(&run(folder.path(), "--db fleet.db trial power --ratio 0.95"));
    assert!(text.contains("PER ARM FOR 80%"), "{text}");
    let refused = run(folder.path(), "--db fleet.db trial power --ratio 0.95 --arm nobody");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("group_E_glibc"), "{}", stderr(&refused));
}

#[test]
fn files_that_are_none_of_the_formats_are_refused_with_what_was_expected() {
    let folder = files();
    for (name, text, words) in [
        ("empty.csv", "", "empty"),
        ("other.csv", "a,b\n1,2\n", "timestamp"),
        ("binary.csv", "\u{0}\u{1}\u{2}", "header"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
        let output = run(
            folder.path(),
            &format!("--db new.db import torutils {name} --groups groups/group_E_glibc.txt"),
        );
        assert_eq!(output.status.code(), Some(3), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(words) && stderr(&output).contains(name), "{}", stderr(&output));
        assert!(!folder.path().join("new.db").exists());
    }
    let missing = run(folder.path(), "import torutils nowhere.csv");
    assert_eq!(missing.status.code(), Some(3));
    assert!(stderr(&missing).contains("nowhere.csv"));
    assert!(!folder.path().join("heaptrial-runs").join("nowhere").exists());
}

/// The real trial, beside the checkout where it is there.
fn real_data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tor-five-way-2026-01");
    let found = folder.join("memory.csv").is_file();
    if !found {
        heaptrial_testbed::skip("the published measurements of 200 relays are not on this machine");
    }
    found.then_some(folder)
}

fn import_real(data: &Path, lists: &[&str]) -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let output = heaptrial(folder.path())
        .args(["--db", "fleet.db", "import", "torutils", "--timezone=-08:00"])
        .arg(data.join("memory.csv"))
        .arg("--events")
        .arg(data.join("events.csv"))
        .arg("--groups")
        .args(lists.iter().map(|list| data.join("groups").join(format!("{list}.txt"))))
        .output()
        .unwrap();
    imported(&output);
    let report = report(folder.path(), "");
    (folder, report)
}

fn gib(value: &Value) -> f64 {
    (value.as_f64().unwrap() / 1_073_741_824.0 * 100.0).round() / 100.0
}

#[test]
#[ignore = "needs the published measurements"]
fn the_real_trial_by_final_lists() {
    let Some(data) = real_data() else { return };
    let (_folder, report) = import_real(&data, &PRESENT);
    for (name, mean, relays) in [
        ("group_B_mimalloc209", 1.28, 80),
        ("group_C_mimalloc217", 1.78, 60),
        ("group_D_jemalloc", 2.74, 20),
        ("group_E_glibc", 6.19, 20),
        ("group_A_mimalloc301", 10.44, 20),
    ] {
        let found = arm(&report, name);
        assert_eq!(
            (gib(&found["rss_bytes_final"]), &found["services"]),
            (mean, &Value::from(relays)),
            "{name}"
        );
        assert!(found["services_excluded"].as_array().unwrap().is_empty(), "{name}");
    }
    let ratio = &arm(&report, "group_B_mimalloc209")["ratio_to_control"];
    assert!((4.7..5.0).contains(&(1.0 / ratio["estimate"].as_f64().unwrap())), "{ratio}");
    assert!(
        1.0 / ratio["high"].as_f64().unwrap() > 4.7 && 1.0 / ratio["low"].as_f64().unwrap() < 5.1,
        "{ratio}"
    );
    let bloating = arm(&report, "group_A_mimalloc301");
    assert_eq!(bloating["verdict"], "bloating");
    let per_day = bloating["slope_bytes_per_hour"].as_f64().unwrap() * 24.0 / 1_073_741_824.0;
    assert!((0.85..1.0).contains(&per_day), "{per_day}");
}

#[test]
#[ignore = "needs the published measurements"]
fn the_real_trial_by_the_published_lists() {
    let Some(data) = real_data() else { return };
    let lists = [
        "group_A_mimalloc301",
        "group_B_mimalloc209_historical",
        "group_C_mimalloc217_historical",
        "group_D_jemalloc",
        "group_E_glibc_historical",
    ];
    let (_folder, report) = import_real(&data, &lists);
    for (name, mean) in lists.iter().zip([10.44, 1.41, 1.83, 2.74, 4.15]) {
        assert_eq!(gib(&arm(&report, name)["rss_bytes_final"]), mean, "{name}");
    }
    let off_treatment = |name: &str| -> Vec<String> {
        let mut names: Vec<String> = arm(&report, name)["services_excluded"]
            .as_array()
            .unwrap()
            .iter()
            .map(|service| service["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        off_treatment("group_E_glibc_historical"),
        [
            "keithsweat",
            "kendricklamar",
            "kenmani",
            "marleymarl",
            "method",
            "methodman",
            "mustardonthebeat",
            "nastyyyy",
            "noid"
        ]
    );
    assert_eq!(
        off_treatment("group_B_mimalloc209_historical"),
        ["runthejewels", "rza", "schoolboyq", "seanprice"]
    );
    for name in ["group_A_mimalloc301", "group_C_mimalloc217_historical", "group_D_jemalloc"] {
        assert!(off_treatment(name).is_empty(), "{name}");
    }
}
