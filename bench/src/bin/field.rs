//! Many services on a real systemd: a trial's start, its revert and a rollout against a bare loop of `systemctl restart`.
//! `field BUILD_FOLDER [SERVICES] [ROUNDS] [START_MILLISECONDS]`; the folder holds `heaptrial` and
//! `examples/churn_service`, and a service takes the given time more to start. Needs root.
//!
//! All are timed in turn within each round, so that what else the machine does falls on all of them.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use heaptrial_stats::median;
use heaptrial_testbed::{Container, Options, Testbed};

const UNIT: &str = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=notify\n\
    Environment=LIVE_BYTES=1048576 ALLOCATIONS_PER_SECOND=20\nExecStart=/ht/examples/churn_service\nUser=daemon\n";
const LABELS: [&str; 11] = [
    "bare loop of `systemctl restart`",
    "the same, then `allocators identify` of all",
    "`trial plan`",
    "`trial start` with identity proof of each",
    "both",
    "`trial status`",
    "`services`",
    "`trial stop --revert`",
    "`rollout start` in one wave, until every service is proved",
    "the same, without the checks before it begins",
    "processor time of the agent in 20 s, at a tick a second",
];
/// The first of the rows that are held against a loop that proves as well.
const ROLLOUT: usize = 8;

fn main() {
    let mut given = std::env::args().skip(1);
    let build = PathBuf::from(given.next().expect("BUILD_FOLDER")).canonicalize().expect("a folder");
    let mut number =
        |otherwise: usize| given.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (services, rounds, start_milliseconds) = (number(200), number(5), number(0));
    let base = Testbed::prepare().expect("a base");
    let host = Container::boot(&base, Options::new().bind(&build, "/ht")).expect("a container");
    let mut unit = UNIT.to_owned();
    if start_milliseconds > 0 {
        unit += &format!("ExecStartPre=/bin/sleep {}\n", start_milliseconds as f64 / 1e3);
    }
    host.write("/etc/systemd/system/bench@.service", unit, 0o644).expect("a unit");
    host.ok(&["systemctl", "daemon-reload"]);
    let units: Vec<String> = (1..=services).map(|number| format!("bench@{number:03}.service")).collect();
    host.start(&units).expect("services");
    let rows: Vec<[f64; 11]> = (0..rounds).map(|round| one_round(&host, &units, round)).collect();
    println!("{services} services, medians of {rounds} rounds (range):\n");
    println!("| what | seconds | to the bare loop |\n|---|---|---|");
    for (what, label) in LABELS.iter().enumerate() {
        let base = usize::from((ROLLOUT..ROLLOUT + 2).contains(&what));
        let seconds: Vec<f64> = rows.iter().map(|row| row[what]).collect();
        let ratios: Vec<f64> = rows.iter().map(|row| row[what] / row[base]).collect();
        println!("| {label} | {} | {} |", shown(&seconds), shown(&ratios));
    }
}

fn shown(values: &[f64]) -> String {
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
    format!("{:.2} ({low:.2} to {high:.2})", median(values).unwrap_or(f64::NAN))
}

fn one_round(host: &Container, units: &[String], round: usize) -> [f64; 11] {
    let name = format!("bench-{round}");
    let arm = |name: &str, spec: &str| format!("[[arm]]\nname = \"{name}\"\nallocator = \"{spec}\"\n");
    let trial = format!(
        "name = \"{name}\"\nservices = \"bench@*\"\nduration = \"10d\"\n[pace]\npause = \"0s\"\nsettle = \"0s\"\n{}control = true\n{}{}",
        arm("glibc", "glibc"),
        arm("jemalloc", "jemalloc@5.3.0"),
        arm("mimalloc", "mimalloc@2.0.9")
    );
    host.write(format!("/root/{name}.toml"), &trial, 0o644).expect("a trial");
    let names: Vec<&str> = units.iter().map(String::as_str).collect();
    let shell = ["sh", "-c", "for unit in $0 $*; do systemctl restart $unit; done"];
    let bare = timed(host, &[&shell[..], &names].concat());
    let pids = host.ok(&[&["systemctl", "show", "-P", "MainPID"][..], &names].concat());
    let pids: Vec<&str> = pids.split_whitespace().collect();
    let proofs = timed(host, &[&["/ht/heaptrial", "allocators", "identify"][..], &pids].concat());
    let heaptrial = |words: &str| timed(host, &["sh", "-c", &format!("cd /root && /ht/heaptrial {words}")]);
    let plan = heaptrial(&format!("trial plan {name}.toml --seed {round}"));
    let start = heaptrial(&format!("trial start {name} --yes --no-agent"));
    let status = heaptrial(&format!("trial status {name}"));
    let services = heaptrial("services 'bench@*'");
    let revert = heaptrial(&format!("trial stop {name} --revert --yes"));
    let (rollout, run) = rollout(host, &name, &format!("rollout-{round}"), units.len());
    let agent = agent(host);
    [bare, bare + proofs, plan, start, plan + start, status, services, revert, rollout, run, agent]
}

/// Processor time in seconds of an agent that reads all services 20 times.
fn agent(host: &Container) -> f64 {
    let script = "timeout 20 /ht/heaptrial agent --services 'bench@*' --interval 1s > /dev/null 2>&1; times";
    let said = host.ok(&["sh", "-c", script]);
    let of_children = said.lines().last().expect("two lines");
    let seconds = of_children.split_whitespace().map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').expect("a time");
        60.0 * minutes.parse::<f64>().expect("minutes") + seconds.parse::<f64>().expect("seconds")
    });
    seconds.sum()
}

/// Seconds from the command, and from its first record, to the proof of the last service; the gate that follows would wait
/// for readings.
fn rollout(host: &Container, trial: &str, name: &str, count: usize) -> (f64, f64) {
    let words = format!(
        "rollout start {trial} --arm mimalloc --force benchmark --no-work --name {name} --canary {count} --at-once 1 --pause 0s --yes"
    );
    let started = Instant::now();
    let mut command = host.command("/ht/heaptrial");
    let mut child = command.args(words.split(' ')).stdout(Stdio::null()).spawn().expect("a rollout");
    let journal = host.root().join(format!("var/lib/heaptrial/trials/{name}/journal.jsonl"));
    let committed =
        || std::fs::read_to_string(&journal).map_or(0, |text| text.matches("\"committed\"").count());
    // The canary is proved twice.
    while committed() <= count {
        assert!(child.try_wait().expect("a process").is_none(), "the rollout ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
    let seconds = started.elapsed().as_secs_f64();
    let records = heaptrial_change::journal::read(journal.parent().expect("a folder")).expect("a journal");
    let run = (records[records.len() - 1].wall_us - records[0].wall_us) as f64 / 1e6;
    host.ok(&["/ht/heaptrial", "rollout", "pause", name]);
    child.wait().expect("an end");
    host.ok(&["/ht/heaptrial", "rollout", "rollback", name, "--yes", "--pause", "0s"]);
    (seconds, run)
}

fn timed(host: &Container, words: &[&str]) -> f64 {
    let started = Instant::now();
    host.ok(words);
    started.elapsed().as_secs_f64()
}
