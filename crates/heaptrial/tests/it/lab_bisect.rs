//! `heaptrial lab bisect` over a repository made for the test, whose commits are built and run for real.

use crate::support;

use std::path::Path;
use std::process::Output;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::upstream::{Commits, commit, repository};
use support::{heaptrial, json, stderr, stdout};

/// Holds 40 MB in pieces, a little more or less each time, and stays.
const HOLDER: &str = "import random, time\nheld = [bytes(4000) for _ in range(random.randrange(10000, 10500))]\nprint('held', flush=True)\ntime.sleep(600)\n";

/// Holds twice as much where the library that it runs tells this number or a higher one by that function.
fn holder(function: &str, from: usize) -> String {
    format!(
        "import ctypes, random, time\n\
        bad = ctypes.CDLL(None).{function}() >= {from}\n\
        held = [bytes(4000) for _ in range(random.randrange(5000, 5250) * (2 if bad else 1))]\n\
        print('held', flush=True)\n\
        time.sleep(600)\n"
    )
}

const LOAD: &str = "run --ready log:^held --duration 1s --tick 100ms --seed 7 -- /usr/bin/python3 program.py";

fn bisect(folder: &Path, options: &str) -> Output {
    let mut command = heaptrial(folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command.args("lab bisect".split(' ')).args(options.split_whitespace()).output().unwrap()
}

#[test]
fn a_bad_commit_is_found_among_those_of_a_repository_and_a_search_goes_on() {
    let Some(()) = drawn(0, 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let commits = Commits { count: 41, bad: 27, broken: 20, crashes: 30 };
    let ids = repository(folder, &commits);
    std::fs::write(folder.join("program.py"), HOLDER).unwrap();
    let asked = format!(
        "--good mimalloc --bad mimalloc --mirror upstream --good-commit {} --bad-commit {}",
        ids[0], ids[40]
    );

    let planned = json(&bisect(folder, &format!("--json {asked} {} --dry-run -- true", "run --duration 2s")));
    assert_eq!(planned["positions"].as_array().unwrap().len(), 41);
    assert_eq!(planned["left_out"], 6);

    let short = bisect(folder, &format!("--json --out found {asked} --blocks 5 {LOAD}"));
    assert_eq!(short.status.code(), Some(4), "{}", stderr(&short));
    let so_far = json(&short);
    assert_eq!(so_far["answer"]["found"], false);
    // On a busy machine some give no figure.
    let blocks = so_far["blocks"].as_array().unwrap();
    let measured = blocks.iter().filter(|block| block["arms"][0]["figures"]["Ok"].is_object());
    assert!(measured.count() <= 5, "{so_far:#}");

    let page = || std::fs::read_to_string(folder.join("found/bisect.html")).unwrap();
    let whole = bisect(folder, "--json --continue found --blocks 60");
    assert_eq!(whole.status.code(), Some(0), "{}", stderr(&whole));
    let report = json(&whole);
    let changes = report["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{report:#}");
    let commit = &changes[0]["commits"][0];
    assert_eq!(commit["id"], Value::from(ids[27].as_str()), "{report:#}");
    assert_eq!(commit["subject"], "Change 27");
    assert_eq!(commit["files"], serde_json::json!(["include/revision.h"]));
    let change = &report["answer"]["changes"][0];
    assert!(change["probability"].as_f64().unwrap() >= 0.95, "{change}");
    assert!((0.15..0.35).contains(&change["log_ratio"].as_f64().unwrap()), "{change}");
    // The first blocks are still there.
    assert_eq!(report["blocks"].as_array().unwrap()[..blocks.len()], blocks[..]);
    let skipped: Vec<&str> =
        report["skipped"].as_array().unwrap().iter().map(|at| at["name"].as_str().unwrap()).collect();
    assert!(skipped.contains(&&ids[20][..12]), "{skipped:?}");
    for name in ["bisect.html", "bisect.md", "bisect.json", "charts/history.svg"] {
        assert!(folder.join("found").join(name).is_file(), "{name}");
    }
    assert!(page().contains("Change 27") && !page().contains("under way"));

    let again = heaptrial(folder).args(["report", "found"]).output().unwrap();
    assert!(stdout(&again).contains("Change 27"), "{}", stderr(&again));
}

#[test]
#[ignore = "needs the sources of allocators"]
fn releases_are_searched_without_a_repository() {
    let Some(()) = drawn(1, 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("program.py"), holder("mi_version", 217)).unwrap();
    let asked = format!("--good mimalloc@2.1.1 --bad mimalloc@2.1.7 {LOAD}");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("allocators");
    let found = heaptrial(folder)
        .env("XDG_CACHE_HOME", cache)
        .args("lab bisect --json --out found".split(' '))
        .args(asked.split_whitespace())
        .output()
        .unwrap();
    assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
    let report = json(&found);
    assert_eq!((&report["of_commits"], &report["positions"]), (&false.into(), &5.into()), "{report:#}");
    let [change] = report["changes"].as_array().unwrap().as_slice() else { panic!("{report:#}") };
    assert_eq!((&change["after"], &change["to"]), (&"2.1.6".into(), &"2.1.7".into()), "{report:#}");
    assert!(report["answer"]["changes"][0]["log_ratio"].as_f64().unwrap() > 0.1, "{report:#}");
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let commits = Commits { count: 3, bad: 1, broken: 9, crashes: 9 };
    let ids = repository(folder, &commits);
    let ends = format!("--good-commit {} --bad-commit {}", ids[0], ids[2]);
    let load = "run --duration 1s -- true";
    for (options, code, told) in [
        ("--good mimalloc@2.1.7 --bad jemalloc@5.3.0", 2, "different families"),
        ("--good mimalloc@2.1.7 --bad mimalloc@2.1.7", 2, "the same version"),
        ("--good mimalloc@2.1.7 --bad mimalloc@3.9.9", 2, "no version `3.9.9`"),
        ("--good mimalloc@2.3.1 --bad mimalloc@2.3.2", 3, "no release of mimalloc between 2.3.1 and 2.3.2"),
        ("--good mimalloc --bad mimalloc@3.0.1", 2, "name a version"),
        ("--good mimalloc@2.1.7?purge_delay=0 --bad mimalloc@3.0.1", 2, "different settings"),
        ("--good mimalloc@2.1.7+secure --bad mimalloc@3.0.1", 2, "different variants"),
        ("--bad mimalloc@3.0.1", 2, "--good SPEC"),
        ("--good mimalloc@2.1.7 --bad mimalloc@3.0.1 --mirror nowhere", 3, "no git repository"),
        ("--good mimalloc@2.1.7 --bad mimalloc@3.0.1 --mirror upstream", 3, "no commit `refs/tags/v2.1.7`"),
    ] {
        let output = bisect(folder, &format!("--out run {options} {load}"));
        assert_eq!(output.status.code(), Some(code), "{options}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{options}: {}", stderr(&output));
    }
    // Two further commits whose source is another and whose library is the same.
    let header = folder.join("upstream/include/revision.h");
    let remarked = ["one", "two"].map(|remark| {
        let text = std::fs::read_to_string(&header).unwrap();
        std::fs::write(&header, format!("{text}/* {remark} */\n")).unwrap();
        commit(&folder.join("upstream"))
    });
    let same = format!(
        "--out run --good mimalloc --bad mimalloc --mirror upstream --good-commit {} --bad-commit {} run --duration 5s -- true",
        ids[2], remarked[1]
    );
    let output = bisect(folder, &same);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("build the same library"), "{}", stderr(&output));
    let of_commits = format!("--good mimalloc --bad mimalloc --mirror upstream {ends}");
    for (options, told) in [
        (format!("{of_commits} run --duration 1s -a glibc -- true"), "--allocator is not for a search"),
        (of_commits.clone(), "under what load?"),
        ("--continue run".to_owned(), "holds no search"),
    ] {
        let output = bisect(folder, &format!("--out run {options}"));
        assert!(stderr(&output).contains(told), "{options}: {}", stderr(&output));
    }
    assert!(!folder.join("run").exists());
}
