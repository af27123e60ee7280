//! `heaptrial lab run` with a service under load.

use crate::support;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{arm, heaptrial, json, stderr, stdout};

/// Listens, holds 20 MB, and tells of its start and end.
const SERVER: &str = r#"
import os, signal, socket, sys, time
held = bytearray(20_000_000)
def say(word):
    with open("order", "a") as order:
        order.write(word + "\n")
def end(*_):
    say("service ended")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
say("service started")
while True:
    listener.accept()[0].close()
    sum(range(20_000))
"#;

fn lab(folder: &Path, arms: &[&str], options: &[&str], command: &[&str]) -> Output {
    heaptrial(folder)
        .args("lab run --offline --source host --out run --seed 7 --tick 50ms".split(' '))
        .args(arms)
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.py"), SERVER).unwrap();
    folder
}

const SERVICE: [&str; 3] = ["/usr/bin/python3", "server.py", "{port}"];

fn report_of(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("run/report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_load_is_apart_from_the_service_and_ends_first() {
    let folder = folder();
    let load = "trap 'echo load ended >> order; exit 0' INT; echo load ${LD_PRELOAD:-without preload} >> order; \
                while :; do sleep 0.05; done";
    let options = [
        "--duration",
        "1s",
        "--prepare",
        "echo prepare {arm} {repeat} > {dir}/told; cat {dir}/told >> order; echo {dir} > dir",
        "--ready",
        "tcp:{port}",
        "--load",
        load,
        "--conclude",
        "echo conclude >> order",
    ];
    let output = lab(folder.path(), &["-a", "jemalloc@5.3.0"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let order = "prepare jemalloc@5.3.0 1\nservice started\nload without preload\nload ended\nconclude\nservice ended\n";
    assert_eq!(read("order"), order);
    assert!(!Path::new(read("dir").trim()).exists(), "the service's folder is removed");
    let report = report_of(folder.path());
    // The load's shell is not of the service.
    let bytes = arm(&report, "jemalloc@5.3.0")["anon_bytes_final"].as_f64().unwrap();
    assert!((2e7..6e7).contains(&bytes), "{bytes}");
    assert_eq!(report["name"], "python3");
    assert!(read("run/command.txt").contains("--load"), "{}", read("run/command.txt"));
}

/// Puts work on the server, for long enough that a busy machine too reads each service many times.
const CLIENT: &str = r#"
import socket, sys, time
for _ in range(300):
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
time.sleep(2)
"#;

/// Two arms of one allocator, told apart by a variable; the load's numbers depend on it.
const ARMS: &str = r#"
name = "pools"
[[arm]]
name = "small"
control = true
environment = { POOL = "small" }
[[arm]]
name = "large"
environment = { POOL = "large at {port}" }
command = ["/usr/bin/python3", "-c", "import os, sys; assert os.environ['POOL'] == 'large at ' + sys.argv[1]; sys.argv[0:1] = []; exec(open('server.py').read().replace('sys.argv[1]', 'sys.argv[0]'))", "{port}"]
"#;

#[test]
fn work_is_told_beside_memory_and_beyond_the_margin_takes_the_rank() {
    let folder = folder();
    std::fs::write(folder.path().join("arms.toml"), ARMS).unwrap();
    std::fs::write(folder.path().join("client.py"), CLIENT).unwrap();
    let load = "/usr/bin/python3 client.py {port}; case {arm} in small) echo latency 10.{repeat} ms, 100{repeat} tps;; \
                *) echo latency 13.{repeat} ms, 99{repeat} tps;; esac";
    let options = [
        "--repeat",
        "4",
        "--ready",
        "tcp:{port}",
        "--load",
        load,
        "--work",
        "tps=([0-9]+) tps",
        "--work",
        "less:latency_ms=latency ([0-9.]+) (ms)",
        "--work-margin",
        "1.05",
    ];
    let output = lab(folder.path(), &["--arms", "arms.toml"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = report_of(folder.path());
    assert_eq!(report["name"], "pools");
    let measures = arm(&report, "large")["work"]["measures"].as_array().unwrap();
    let of = |name: &str| measures.iter().find(|measure| measure["name"] == name).unwrap();
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() / expected - 1.0).abs() < 0.01;
    let latency = of("latency_ms");
    assert!(near(&latency["amount"], 13.25), "{latency:#}");
    assert!(near(&latency["ratio"]["estimate"]["value"], 13.25 / 10.25), "{latency:#}");
    assert_eq!((&latency["less_is_better"], &latency["standing"]), (&true.into(), &"clearly_less".into()));
    let tps = of("tps");
    assert!(near(&tps["amount"], 992.5) && near(&tps["ratio"]["estimate"]["value"], 0.9901), "{tps:#}");
    assert_eq!(tps["standing"], "does_its_work");
    assert!(tps["cpu_seconds_for_each"].is_number() && latency["cpu_seconds_for_each"].is_null());
}

/// A summary at the end is all that a tool tells: an error is soon told, so that an arm of which half of the answers are errors looks
/// like the best.
#[test]
fn an_arm_that_fails_a_larger_share_of_requests_is_told_and_not_recommended() {
    let folder = folder();
    let load = "sleep 1; echo '  4000 requests in 1.00s, 1MB read'; case {arm} in glibc) ;; \
                *) echo '  Non-2xx or 3xx responses: 200{repeat}';; esac; echo 'Requests/sec: 4000'";
    let options = ["--repeat", "4", "--ready", "tcp:{port}", "--load", load, "--work-preset", "wrk"];
    let output = lab(folder.path(), &["-a", "glibc", "-a", "jemalloc@5.3.0"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = report_of(folder.path());
    let served = |name: &str| {
        let measures = arm(&report, name)["work"]["measures"].as_array().unwrap().clone();
        measures
            .into_iter()
            .find(|measure| measure["name"] == "requests of the load")
            .unwrap_or_else(|| panic!("{report:#}"))
    };
    let (control, other) = (served("glibc"), served("jemalloc@5.3.0"));
    assert_eq!(
        (control["amount"].as_f64(), control["total"].as_f64()),
        (Some(1.0), Some(0.0)),
        "{control:#}"
    );
    assert!((other["amount"].as_f64().unwrap() - 0.499).abs() < 0.001, "{other:#}");
    assert_eq!(other["standing"], "clearly_less", "{other:#}");
    assert!(stdout(&output).contains("no rank"), "{}", stdout(&output));
}

#[test]
fn a_load_that_fails_fails_its_repeat_with_its_last_words() {
    let folder = folder();
    let options = ["--duration", "20s", "--load", "sleep 0.3; echo no route >&2; exit 3", "--json"];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("its --load ended with code 3; it wrote last: no route"), "{told}");
    // The last line is the error, as JSON.
    let error: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(error["class"], "failed");
    let report = json(&output);
    assert_eq!(arm(&report, "glibc")["services"], 0, "{report:#}");
    // The service was not kept under a load that is gone.
    assert!(report["duration_seconds"].as_f64().unwrap() < 15.0, "{report:#}");
}

#[test]
fn an_arm_that_fails_in_a_repeat_has_no_rank() {
    let folder = folder();
    let arms = ["-a", "glibc", "-a", "glibc?arena_max=1", "--repeat", "3"];
    // Of the second arm one repeat comes up, with less memory than the control's.
    let service = "case {arm}{repeat} in glibc[123]|*1) ;; *) exit 4;; esac; exec python3 server.py {port}";
    let output =
        lab(folder.path(), &arms, &["--ready", "tcp:{port}", "--duration", "1s"], &["sh", "-c", service]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("glibc?arena_max=1 has no rank: 2 of 3 services excluded"),
        "{}",
        stdout(&output)
    );
    assert!(!stdout(&output).contains("arena_max=1 needs"), "{}", stdout(&output));
}

#[test]
fn ages_count_from_when_a_service_is_ready() {
    let folder = folder();
    let options = ["--ready", "path:{dir}/ready", "--load", "sleep 1"];
    let service = ["sh", "-c", "sleep 3; touch {dir}/ready; exec sleep 60"];
    let started = std::time::Instant::now();
    let output = lab(folder.path(), &["-a", "glibc"], &options, &service);
    let whole = started.elapsed().as_secs_f64();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = report_of(folder.path());
    assert!(report["caveats"].to_string().contains("it was ready after"), "{report:#}");
    let age = report["services"][0]["age_seconds"].as_f64().unwrap();
    assert!(age < whole - 3.0, "{age} of {whole}: {report:#}");
}

#[test]
fn a_load_that_ends_early_is_told_and_one_that_is_cut_off_too() {
    let folder = folder();
    let options = ["--duration", "4s", "--load", "sleep 0.2", "--work", "tps=([0-9]+) tps"];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("the load ended by itself after "), "{told}");
    assert!(told.contains("the load wrote no tps; see"), "{told}");
    assert!(told.contains("no service gave a figure of the work tps"), "{told}");
    std::fs::remove_dir_all(folder.path().join("run")).unwrap();
    let options = ["--duration", "1s", "--load", "sleep 60", "--work", "tps=([0-9]+) tps"];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &SERVICE);
    assert!(stderr(&output).contains("give it less time than --duration"), "{}", stderr(&output));
}

#[test]
fn a_service_that_is_never_ready_fails_and_says_what_was_waited_for() {
    let folder = folder();
    let options = ["--ready", "path:{dir}/socket", "--ready-timeout", "500ms"];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("was not ready within") && told.contains("there is no such file"), "{told}");
}

#[test]
fn what_prepares_may_fail_and_what_it_left_running_ends_with_the_service() {
    let folder = folder();
    let output = lab(folder.path(), &["-a", "glibc"], &["--prepare", "echo no disk >&2; false"], &SERVICE);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("its --prepare ended with code 1; it wrote last: no disk"));
    std::fs::remove_dir_all(folder.path().join("run")).unwrap();
    let long = support::own_seconds(606);
    let prepare = format!("sleep {long} & echo begun");
    let options = ["--duration", "500ms", "--prepare", &prepare];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(support::processes_with(&format!("sleep\u{0}{long}")), Vec::<i32>::new());
}

#[test]
fn work_comes_from_a_file_while_the_service_runs() {
    let folder = folder();
    let command =
        "i=0; while :; do i=$((i + 10)); echo $i > {dir}/new; mv {dir}/new {dir}/count; sleep 0.1; done";
    let options = ["--duration", "2s", "--work", "count:requests=file:{dir}/count"];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &["sh", "-c", command]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = report_of(folder.path());
    let measure = &arm(&report, "glibc")["work"]["measures"][0];
    assert_eq!(measure["name"], "requests");
    // Ten for each 0.1 s at most; on a busy machine fewer.
    let rate = measure["amount"].as_f64().unwrap();
    assert!((1.0..=110.0).contains(&rate), "{measure:#}");
}

#[test]
fn what_is_no_program_is_refused() {
    let folder = folder();
    for (program, why) in
        [("./server.py", "is not executable"), ("no-such-program-anywhere", "was not found")]
    {
        let output = lab(folder.path(), &["-a", "glibc"], &[], &[program]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{program}: {}", stderr(&output));
    }
    let options = ["--work", "tps=([0-9]+)"];
    let output = lab(folder.path(), &["-a", "glibc"], &options, &SERVICE);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("there is none"), "{}", stderr(&output));
}

#[test]
fn a_service_that_never_gets_ready_is_waited_for_once() {
    let folder = folder();
    let script = "test \"{arm}\" = glibc && touch {dir}/ready; exec sleep 60";
    let options =
        ["--repeat", "3", "--duration", "600ms", "--ready", "path:{dir}/ready", "--ready-timeout", "1s"];
    let arms = ["-a", "glibc", "-a", "glibc?arena_max=1"];
    let output = lab(folder.path(), &arms, &options, &["sh", "-c", script]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert_eq!(printed.matches("was not started").count(), 2, "{printed}");
}
