//! `heaptrial lab run` with real programs under real allocators.

use crate::support;

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{arm, heaptrial, json, own_seconds, processes_with, run, stderr, stdout, wait_for};

/// Holds 40 MB in pieces, a little more or less each time, and stays.
const HOLDER: &str = "import random, time\nheld = [bytes(4000) for _ in range(random.randrange(10000, 10500))]\ntime.sleep(600)\n";

fn folder_with(program: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.py"), program).unwrap();
    folder
}

fn lab(folder: &Path, options: &str, command: &[&str]) -> Output {
    heaptrial(folder)
        .args("lab run --offline --source host --out run --seed 7".split(' '))
        .args(options.split_whitespace())
        .arg("--")
        .args(command)
        .output()
        .unwrap()
}

fn report_of(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("run/report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Waits until a run has so many ticks in its database.
#[track_caller]
fn wait_for_ticks(database: &Path, count: u64) {
    wait_for("ticks in the database", Duration::from_secs(60), || {
        let store = heaptrial_store::Store::open(database).ok()?;
        let trial = store.trials().ok()?.pop()?;
        (store.tick_summary(trial.id).ok()?.ticks >= count).then_some(())
    });
}

#[test]
fn a_run_reports_on_itself_though_a_later_one_writes_to_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, duration: &str| {
        heaptrial(folder.path())
            .args("lab run --offline --source host -a glibc --tick 100ms --db shared.db".split(' '))
            .args(["--name", name, "--out", name, "--duration", duration, "--", "sleep", "60"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut first = start("first", "4s");
    wait_for_ticks(&folder.path().join("shared.db"), 1);
    let mut second = start("second", "6s");
    for (name, run) in [("first", &mut first), ("second", &mut second)] {
        assert!(run.wait().unwrap().success(), "{name}");
        let text = std::fs::read_to_string(folder.path().join(name).join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["name"], name);
    }
}

#[test]
fn a_program_is_compared_under_two_allocators_with_repeats() {
    let folder = folder_with(HOLDER);
    let options = "-a glibc -a jemalloc@5.3.0 --repeat 2 --duration 2s --tick 100ms --json";
    let output = lab(folder.path(), options, &["/usr/bin/python3", "program.py"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(report["schema_version"], 4);
    assert_eq!(report["kind"], "lab_command");
    assert_eq!(report["seed"], 7);
    assert_eq!(report, report_of(folder.path()));
    for name in ["glibc", "jemalloc@5.3.0"] {
        let arm = arm(&report, name);
        assert_eq!(arm["services"], 2);
        assert_eq!(arm["allocator"], name);
        let bytes = arm["anon_bytes_final"].as_f64().unwrap();
        assert!((4e7..2e8).contains(&bytes), "{name}: {bytes}");
        assert!(arm["rss_bytes_final"].as_f64().unwrap() > bytes);
    }
    assert_eq!(arm(&report, "glibc")["identity"]["linkage"], "libc");
    assert_eq!(arm(&report, "glibc")["ratio_to_control"], Value::Null);
    let jemalloc = arm(&report, "jemalloc@5.3.0");
    assert_eq!(jemalloc["identity"]["version"], "5.3.0");
    let ratio = &jemalloc["ratio_to_control"];
    // On a busy machine a repeat may have no reading at the age at which arms are compared; then there is no interval.
    if let Some(low) = ratio["low"].as_f64() {
        assert!(low <= ratio["estimate"].as_f64().unwrap());
    }
    // Two repeats of 2 s at 100 ms: on a quiet machine 20 samples for each of 4 services, on a busy one fewer, never more.
    let samples = report["samples"].as_u64().unwrap();
    assert!(report["services"][0].to_string().contains("pss_bytes"), "{report:#}");
    assert!((8..=88).contains(&samples), "{samples}");

    // The folder is complete.
    for file in [
        "heaptrial.db",
        "plan.json",
        "command.txt",
        "allocators.json",
        "report.html",
        "report.md",
        "logs/arm1-repeat1.stdout",
        "logs/arm2-repeat2.stderr",
    ] {
        assert!(folder.path().join("run").join(file).is_file(), "{file}");
    }
    // The command that repeats it gives the same order.
    let command = std::fs::read_to_string(folder.path().join("run/command.txt")).unwrap();
    assert!(command.contains("--seed 7") && command.contains("-- /usr/bin/python3 program.py"), "{command}");
    let table = stdout(&run(folder.path(), "report run"));
    assert!(table.contains("jemalloc@5.3.0"), "{table}");
}

/// Runs `script` where the first arm fails in the way that `words` tell; nothing of it is averaged in.
fn assert_fails_with(script: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(folder.path(), "-a glibc --duration 3s --tick 100ms", &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    let report = report_of(folder.path());
    let glibc = arm(&report, "glibc");
    assert_eq!(glibc["services"], 0, "{glibc:#}");
    assert_eq!(glibc["anon_bytes_final"], Value::Null);
    for word in words {
        assert!(told.contains(word), "`{word}` is not in: {told}");
        assert!(report.to_string().contains(word), "`{word}` is not in the report: {report:#}");
    }
}

#[test]
fn a_crash_and_an_early_exit_are_reported_and_never_averaged_in() {
    assert_fails_with("echo last words >&2; sleep 1; kill -SEGV $$", &["SIGSEGV", "last words"]);
    assert_fails_with("sleep 1; exit 7", &["exited early with code 7"]);
    assert_fails_with("exit 9", &["code 9"]);
}

#[test]
fn a_crash_of_a_program_that_leaves_helpers_is_a_crash() {
    let long = own_seconds(604);
    assert_fails_with(&format!("sleep {long} & sleep 1; kill -SEGV $$"), &["SIGSEGV"]);
    assert_eq!(processes_with(&format!("sleep\u{0}{long}")), Vec::<i32>::new());
}

#[test]
fn an_exit_after_the_last_sample_is_not_taken_for_the_planned_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 2.5; exit 7";
    let output = lab(folder.path(), "-a glibc --duration 3s --tick 1500ms", &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = report_of(folder.path());
    assert_eq!(arm(&report, "glibc")["services"], 0, "{report:#}");
    assert!(report.to_string().contains("code 7"), "{report:#}");
}

#[test]
fn settings_of_the_callers_environment_do_not_reach_an_arm() {
    let folder = tempfile::tempdir().unwrap();
    let run = |out: &str, command: &[&str]| {
        heaptrial(folder.path())
            .args(
                "lab run --offline --source host -a glibc --duration 1s --tick 100ms --json --out".split(' '),
            )
            .args([out, "--"])
            .args(command)
            .env("MALLOC_ARENA_MAX", "1")
            .output()
            .unwrap()
    };
    let clean = run("clean", &["sleep", "605"]);
    assert_eq!(clean.status.code(), Some(0), "{}", stderr(&clean));
    assert_eq!(arm(&json(&clean), "glibc")["identity"]["settings"], serde_json::json!({}));
    // A program that sets them itself does not run the treatment.
    let set = run("set", &["env", "MALLOC_ARENA_MAX=1", "sleep", "605"]);
    assert_eq!(set.status.code(), Some(1), "{}", stderr(&set));
    assert!(stderr(&set).contains("no part of the treatment"), "{}", stderr(&set));
}

#[test]
fn a_program_that_forks_away_is_reported_and_what_it_left_is_ended() {
    let long = own_seconds(601);
    assert_fails_with(&format!("sleep {long} & sleep 0.5"), &["forked away"]);
    assert_eq!(processes_with(&format!("sleep\u{0}{long}")), Vec::<i32>::new());
}

#[test]
fn a_program_that_drops_the_preload_is_not_measured_as_if_it_had_not() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["env", "-u", "LD_PRELOAD", "sleep", "60"];
    let output = lab(folder.path(), "-a glibc -a jemalloc@5.3.0 --duration 3s --tick 100ms", &command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = report_of(folder.path());
    assert_eq!(arm(&report, "glibc")["services"], 1);
    let jemalloc = arm(&report, "jemalloc@5.3.0");
    assert_eq!(jemalloc["services"], 0, "{jemalloc:#}");
    assert!(stderr(&output).contains("found glibc"), "{}", stderr(&output));
}

#[test]
fn a_run_whose_control_does_not_take_ends_with_its_first_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["env", "-u", "LD_PRELOAD", "sleep", "60"];
    let arms = "-a jemalloc@5.3.0 --repeat 3 --duration 1s --tick 100ms";
    let output = lab(folder.path(), arms, &command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing can be compared without the control"), "{}", stderr(&output));
    // And not three.
    assert!(stderr(&output).contains("a service failed"), "{}", stderr(&output));
    assert_eq!(arm(&report_of(folder.path()), "jemalloc@5.3.0")["services"], 0);
}

#[test]
fn a_child_that_holds_the_memory_under_another_allocator_contaminates_the_service() {
    let folder = folder_with(HOLDER);
    let script = "env -u LD_PRELOAD /usr/bin/python3 program.py & wait";
    let output = lab(folder.path(), "-a jemalloc@5.3.0 --duration 3s --tick 100ms", &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = report_of(folder.path());
    let jemalloc = arm(&report, "jemalloc@5.3.0");
    assert_eq!((&jemalloc["services"], &jemalloc["anon_bytes_final"]), (&0.into(), &Value::Null));
    assert!(stderr(&output).contains("python3"), "{}", stderr(&output));
}

#[test]
fn a_static_program_is_refused_before_it_is_started_unless_the_arm_names_no_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("static.c");
    std::fs::write(&source, "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { char *volatile p = malloc(100000); p[0] = 1; sleep(60); free(p); }\n").unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-static", "-O1", "-o", "static", "static.c"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(compiled.success());
    let output = lab(folder.path(), "-a jemalloc@5.3.0 --duration 3s --tick 100ms", &["./static"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("./static is linked statically"), "{}", stderr(&output));
    let plan = "name = \"x\"\nduration = \"1s\"\n[[arm]]\nname = \"as it is\"\ncontrol = true\ncommand = [\"./static\"]\n";
    std::fs::write(folder.path().join("arms.toml"), plan).unwrap();
    let output = lab(folder.path(), "--arms arms.toml --tick 100ms", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // A helper that no treatment reaches says nothing about the service's main process.
    let inner = tempfile::tempdir_in(folder.path()).unwrap();
    let service = ["sh", "-c", "../static & exec sleep 60"];
    let output = lab(inner.path(), "-a glibc -a jemalloc@5.3.0 --duration 2s", &service);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("no treatment reaches process"), "{}", stderr(&output));
}

#[test]
fn ctrl_c_ends_the_children_keeps_the_data_and_prints_the_report() {
    let folder = folder_with(HOLDER);
    // Another run of these tests may be going on.
    let name = format!("heaptrial-ctrl-c-{}", std::process::id());
    let child = heaptrial(folder.path())
        .args("lab run --offline --source host --out run -a glibc --duration 10m --tick 50ms --".split(' '))
        .args(["/usr/bin/python3", "program.py", &name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a running program", Duration::from_secs(60), || {
        (processes_with(&name).len() == 2).then_some(())
    });
    wait_for_ticks(&folder.path().join("run/heaptrial.db"), 5);
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("glibc"), "{}", stdout(&output));
    let report = report_of(folder.path());
    assert_eq!(report["outcome"], "interrupted");
    assert!(report["samples"].as_u64().unwrap() >= 5);
    assert_eq!(processes_with(&name), Vec::<i32>::new());
}

#[test]
fn kill_9_leaves_no_orphan_and_every_committed_tick() {
    let folder = folder_with(HOLDER);
    let name = format!("heaptrial-kill-9-{}", std::process::id());
    let script = format!(
        "/usr/bin/python3 program.py {name}-child & (setsid /usr/bin/python3 program.py {name}-setsid &) ; \
         exec /usr/bin/python3 program.py {name}-main"
    );
    let mut child = heaptrial(folder.path())
        .args("lab run --offline --source host --out run -a glibc --duration 10m --tick 50ms --".split(' '))
        .args(["sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let grown = |of: &str| processes_with(&format!("program.py\u{0}{name}-{of}")).len() == 1;
    wait_for("three programs", Duration::from_secs(60), || {
        (grown("child") && grown("setsid") && grown("main")).then_some(())
    });
    wait_for_ticks(&folder.path().join("run/heaptrial.db"), 5);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of all children", Duration::from_secs(10), || {
        processes_with(&format!("program.py\u{0}{name}")).is_empty().then_some(())
    });
    let output = run(folder.path(), "report run --json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert!(report["samples"].as_u64().unwrap() >= 5);
    assert_ne!(report["outcome"], "completed");
}

#[test]
fn a_dry_run_shows_the_order_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(folder.path(), "-a glibc -a jemalloc@5.3.0 --repeat 3 --dry-run", &["sleep", "60"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("round ")).count(), 6);
    let output = lab(folder.path(), "-a glibc -a jemalloc@5.3.0 --dry-run --json", &["sleep", "60"]);
    assert_eq!(json(&output)["rounds"].as_array().unwrap().len(), 2);
    // Where no arms are named, several are tried against what the program has.
    let output = lab(folder.path(), "--dry-run", &["sleep", "60"]);
    assert!(stdout(&output).contains("the control is current"), "{}", stdout(&output));
    assert!(stdout(&output).contains("glibc?trim_threshold=131072"), "{}", stdout(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Starts 20 threads more than any allocator makes arenas for on the processors that it sees, and tells how many arenas
/// there are by the allocator's own account.
const ARENAS: &str = r#"
import ctypes, os, re, threading, time
libc = ctypes.CDLL(None)
threads = 8 * len(os.sched_getaffinity(0)) + 20
ready = threading.Barrier(threads + 1)
def hold():
    libc.malloc(1000)
    ready.wait()
    time.sleep(600)
for _ in range(threads):
    threading.Thread(target=hold, daemon=True).start()
ready.wait()
def mallctl(name, kind):
    value, size = kind(), ctypes.c_size_t(ctypes.sizeof(kind))
    assert libc.mallctl(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0, name
    return value.value
if hasattr(libc, "mallctl"):
    made = sum(mallctl(f"arena.{number}.initialized", ctypes.c_bool) for number in range(mallctl("opt.narenas", ctypes.c_uint)))
else:
    libc.fopen.restype = ctypes.c_void_p
    name = f"arenas-{os.getpid()}"
    file = ctypes.c_void_p(libc.fopen(name.encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    made = len(re.findall("<heap nr=", open(name).read()))
print(made, flush=True)
time.sleep(600)
"#;

/// The arenas of the arms glibc, jemalloc and `glibc?arena_max=3`, and the report.
fn arenas(options: &str) -> ([u64; 3], Value) {
    let folder = folder_with(ARENAS);
    let options = format!(
        "-a glibc -a jemalloc@5.3.0 -a glibc?arena_max=3 --duration 3s --tick 100ms --json {options}"
    );
    let output = lab(folder.path(), &options, &["/usr/bin/python3", "program.py"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let made = [1, 2, 3].map(|arm| {
        let log = folder.path().join(format!("run/logs/arm{arm}-repeat1.stdout"));
        std::fs::read_to_string(log).unwrap().trim().parse().unwrap()
    });
    (made, json(&output))
}

#[test]
fn allocators_make_arenas_as_on_the_number_of_processors_asked_for() {
    let (made, report) = arenas("");
    let processors = &report["parameters"]["processors"];
    let seen = processors["seen"].as_u64().unwrap();
    assert_eq!(made, [8 * seen, 4 * seen, 3], "{report:#}");
    assert_eq!(processors["as_on"], Value::Null);

    let (made, report) = arenas("--processors 1");
    assert_eq!(made, [8, 1, 3], "{report:#}");
    let processors = &report["parameters"]["processors"];
    assert_eq!(processors["as_on"], 1);
    assert_eq!(processors["arms"]["glibc"], "as on 1 processors: arena_max=8");
    assert_eq!(processors["arms"]["glibc?arena_max=3"], "its own setting: arena_max=3");
    // Proved as any setting is.
    let identity = &arm(&report, "jemalloc@5.3.0")["identity"];
    assert_eq!(identity["settings"]["MALLOC_CONF"], "narenas:1", "{identity:#}");
    assert!(report["command"].as_str().unwrap().contains("--processors 1"));

    // One arena for each thread, and the main thread's.
    let (made, report) = arenas("--processors 1000");
    let threads = 8 * seen + 20;
    assert_eq!(made[0], threads + 1, "{report:#}");
    assert!(made[1] > threads && made[2] == 3, "{made:?}");
}
