//! `heaptrial lab tune` with a real program under the real C library.

use crate::support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{heaptrial, json, stderr, stdout};

/// Fills memory with large pieces and small ones between them, and frees the large ones. As it comes the C library serves large
/// ones from the heap after the first was freed, where the small ones keep the memory; with a fixed threshold they are mapped,
/// and given back. Every run draws other sizes.
const PROGRAM: &str = "import random, time\n\
    kept = []\n\
    for _ in range(4):\n\
    \x20   large = []\n\
    \x20   for _ in range(60):\n\
    \x20       large.append(b'x' * random.randrange(150000, 300000))\n\
    \x20       kept.append(b'y' * random.randrange(600, 3000))\n\
    \x20   del large\n\
    print('held', flush=True)\n\
    time.sleep(600)\n";

fn tune(folder: &Path, options: &str) -> Output {
    command(folder, options).output().unwrap()
}

fn command(folder: &Path, options: &str) -> Command {
    let mut command = heaptrial(folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command.args("lab tune".split(' ')).args(options.split_whitespace());
    command
}

const SPACE: &str = "--over glibc --setting mmap_threshold=65536,33554432 --setting trim_threshold=131072 \
                     --setting arena_test=2 --candidates 3 --verify 3 --winners 1";
const LOAD: &str = "run --ready log:^held --duration 1s --tick 100ms --seed 7 -- /usr/bin/python3 program.py";

/// Starts a search and interrupts it after its first block.
fn interrupted(folder: &Path, options: &str) -> i32 {
    let mut child = command(folder, options).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = Vec::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let there =
        lines.by_ref().inspect(|line| said.push(line.clone())).any(|told| told.starts_with("block 1:"));
    assert!(there, "{}", said.join("\n"));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("lab tune --continue")), "{}", rest.join("\n"));
    child.wait().unwrap().code().unwrap()
}

fn specs_of_blocks(report: &Value) -> Vec<(bool, Vec<String>)> {
    let blocks = report["blocks"].as_array().unwrap().iter();
    blocks
        .map(|block| {
            let arms = block["arms"].as_array().unwrap().iter();
            let specs = arms.map(|arm| arm["name"].as_str().unwrap().to_owned()).collect();
            (block["fresh"].as_bool().unwrap(), specs)
        })
        .collect()
}

#[test]
fn a_setting_that_matters_is_found_and_verified_and_a_search_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("program.py"), PROGRAM).unwrap();

    let dry = json(&tune(
        folder,
        &format!("--json {SPACE} --blocks 3 {}", LOAD.replace("--seed", "--dry-run --seed")),
    ));
    // Three levels, two and two, without the one that the control is.
    assert_eq!(dry["candidates"], 11, "{dry:#}");

    let code = interrupted(folder, &format!("--out found {SPACE} --blocks 4 {LOAD}"));
    assert_eq!(code, 1);
    let so_far = json(&heaptrial(folder).args(["report", "found", "--json"]).output().unwrap());
    assert_eq!(so_far["blocks"].as_array().unwrap().len(), 1);
    assert_eq!(so_far["verified"], Value::Null);

    // Two do not go on at once.
    let mut command = Command::new("flock");
    let holder = command.args(["found/search.lock", "sh", "-c", "echo held; read end"]).current_dir(folder);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(holder.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let refused = tune(folder, "--continue found");
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("goes on with the search in"), "{}", stderr(&refused));
    drop(holder.stdin.take());
    holder.wait().unwrap();

    let whole = tune(folder, "--json --continue found");
    assert_eq!(whole.status.code(), Some(0), "{}", stderr(&whole));
    let report = json(&whole);
    assert_eq!(report["blocks"][0], so_far["blocks"][0]);
    let blocks = specs_of_blocks(&report);
    assert_eq!(blocks.iter().filter(|(fresh, _)| !fresh).count(), 4);
    assert_eq!(blocks.iter().filter(|(fresh, _)| *fresh).count(), 3);
    let winner = &report["verified"]["arms"][0];
    let spec = winner["spec"].as_str().unwrap();
    // Either threshold ends that glibc raises its own.
    let ends_it = spec.contains("mmap_threshold=65536") || spec.contains("trim_threshold=131072");
    assert!(ends_it && !spec.contains("mmap_threshold=33554432"), "{report:#}");
    assert!(blocks.iter().filter(|(fresh, _)| *fresh).all(|(_, specs)| *specs == [spec]));
    let level =
        winner["against"].as_array().unwrap().iter().find(|against| against["figure"] == "level").unwrap();
    let (ratio, high) = (level["log_ratio"].as_f64().unwrap().exp(), level["interval"][1].as_f64().unwrap());
    assert!(ratio < 0.7 && high < 0.0, "{level:#}");
    // What is said of the level is of fresh seeds alone.
    let fresh = report["blocks"].as_array().unwrap().iter().filter(|block| block["fresh"] == true);
    let level = |figures: &Value| figures["level"].as_f64().unwrap();
    let logs: Vec<f64> =
        fresh.map(|block| level(&block["arms"][0]["figures"]["Ok"]) - level(&block["control"])).collect();
    assert!((logs.iter().sum::<f64>() / 3.0 - ratio.ln()).abs() < 1e-9, "{logs:?} {ratio}");

    let page = std::fs::read_to_string(folder.join("found/tune.html")).unwrap();
    assert!(page.contains("mmap_threshold=65536"));
    let text = stdout(&heaptrial(folder).args(["report", "found"]).output().unwrap());
    assert!(text.contains("On fresh seeds") && text.contains("the search believed"), "{text}");

    let new = heaptrial(folder)
        .args(["trial", "new", "tuned", "--services", "web-*", "--from-tune", "found"])
        .output()
        .unwrap();
    assert!(new.status.success(), "{}", stderr(&new));
    let plan = std::fs::read_to_string(folder.join("tuned.toml")).unwrap();
    assert!(
        plan.contains("allocator = \"glibc\"") && plan.contains(&format!("allocator = \"{spec}\"")),
        "{plan}"
    );

    let again = tune(folder, &format!("--out found {SPACE} --blocks 4 {LOAD}"));
    assert_eq!(again.status.code(), Some(3), "{}", stderr(&again));
    assert!(stderr(&again).contains("already holds a search"), "{}", stderr(&again));

    // Its winners were verified on seeds that it never saw: more blocks are another search.
    let more = tune(folder, "--continue found --blocks 5");
    assert_eq!(more.status.code(), Some(3), "{}", stderr(&more));
    assert!(stderr(&more).contains("begin a longer search in another folder"), "{}", stderr(&more));
    assert_eq!(json(&tune(folder, "--json --continue found")), report);
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let load = "run --duration 4s -- true";
    for (options, code, told) in [
        ("", 2, "--over SPEC"),
        ("--over glibc --setting arena_mx", 2, "none of glibc has a setting `arena_mx`"),
        ("--over glibc --setting arena_max=many", 2, "`many` is not a value"),
        (
            "--over mimalloc@2.0.9 --setting purge_delay",
            2,
            "none of mimalloc@2.0.9 has a setting `purge_delay`",
        ),
        (
            "--over glibc,jemalloc@5.3.0,mimalloc@2.0.9 --candidates 2 --blocks 2",
            2,
            "--blocks 2 is too little",
        ),
        ("--over glibc --work-within 1.05", 2, "but no work"),
        ("--over glibc --candidates 1", 2, "2..=50"),
        ("--over glibc,glibc?arena_max=1", 2, "names glibc twice"),
    ] {
        let output = tune(folder, &format!("--out run {options} {load}"));
        assert_eq!(output.status.code(), Some(code), "{options}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{options}: {}", stderr(&output));
    }
    for (options, told) in [
        ("--over glibc run --duration 4s -a glibc -- true", "--allocator is not for a search"),
        ("--over glibc", "under what load?"),
        ("--continue run", "holds no search"),
    ] {
        let output = tune(folder, &format!("--out run {options}"));
        assert!(stderr(&output).contains(told), "{options}: {}", stderr(&output));
    }
    assert!(!folder.join("run").exists());
}

#[test]
fn limits_that_nothing_keeps_are_told_as_such_and_make_no_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Whoever sets anything does a tenth of the work.
    let program = "import os, sys, time\n\
        rate = 10 if any(name.startswith('MALLOC_') for name in os.environ) else 100\n\
        open(sys.argv[1] + '/work', 'w').write('{\"rate\": %d}' % rate)\n\
        print('held', flush=True)\n\
        time.sleep(600)\n";
    std::fs::write(folder.join("program.py"), program).unwrap();
    let options = "--out none --over glibc --setting arena_max=1,2 --candidates 2 --blocks 2 --json run --ready log:^held \
                   --duration 1s --tick 100ms --work rate=file:{dir}/work#rate -- /usr/bin/python3 program.py {dir}";
    let found = tune(folder, options);
    assert_eq!(found.status.code(), Some(4), "{}", stderr(&found));
    let report = json(&found);
    assert_eq!(report["verified"], Value::Null);
    assert!(report["candidates"].as_array().unwrap().iter().all(|one| one["within"] == false), "{report:#}");
    let text = std::fs::read_to_string(folder.join("none/tune.md")).unwrap();
    assert!(text.matches("| limits not kept (work missed of 1.11) |").count() == 2, "{text}");
    let new =
        heaptrial(folder).args("trial new t --services web-* --from-tune none".split(' ')).output().unwrap();
    assert_eq!(new.status.code(), Some(3), "{}", stderr(&new));
    assert!(stderr(&new).contains("has no winner"), "{}", stderr(&new));
}
