//! The whole story of a field trial on a throw-away host: `demo_field BUILD_FOLDER REPORT_FOLDER [INSTANCES]`.
//!
//! Real relays as instances of `tor@.service` on a private network, a trial of five arms planned, started, sampled,
//! looked at, its winner rolled out and back, and reverted, each command as one types it. The host is gone at the end; the report stays.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use heaptrial_testbed::{Container, FIVE_WAY, Options, PrivateDirectory, Snapshot, Testbed, TorInstances};

type Failure = Box<dyn std::error::Error>;

/// Three for each arm: a rollout holds services to a ratio of the trial if it has so many.
const INSTANCES: usize = 15;
const LIMIT: Duration = Duration::from_secs(600);
/// When the first look is planned, from the start.
const FIRST_LOOK: Duration = Duration::from_secs(300);
/// What a trial may change.
const CHANGED: [&str; 2] = ["/etc", "/usr"];
/// A tenth of a minute, so that minutes show what days do.
const FAST_AGENT: &str =
    "[Service]\nExecStart=\nExecStart=/usr/lib/heaptrial/bin/heaptrial agent --interval 2s\n";

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: demo_field BUILD_FOLDER REPORT_FOLDER [INSTANCES]";
    let build = PathBuf::from(arguments.next().ok_or(usage)?).canonicalize()?;
    let reports = PathBuf::from(arguments.next().ok_or(usage)?);
    let instances: usize = arguments.next().map_or(Ok(INSTANCES), |text| text.parse())?;

    say(
        "A throw-away host with a real systemd boots (the first time its files are installed, which takes a minute).",
    )?;
    let base = Testbed::prepare()?;
    let host = Container::boot(&base, Options::new().bind(&build, "/ht"))?;
    let torrc = host.install_private_directory(&PrivateDirectory {
        loaded: instances,
        ..PrivateDirectory::new(build.join("examples/private_directory"))
    })?;
    let relays = TorInstances::new(instances, torrc);
    let units = host.install_tor_instances(&relays)?;
    host.start(&units)?;
    say(&format!("{instances} real relays start, as tor@NAME.service on a private network of their own."))?;
    host.wait_for_bootstrap(&relays.names, LIMIT)?;
    host.write("/etc/systemd/system/heaptrial-agent.service.d/demo.conf", FAST_AGENT, 0o644)?;
    host.write("/root/five-way.toml", FIVE_WAY, 0o644)?;
    host.try_ok(&["ln", "-s", "/ht/heaptrial", "/usr/local/bin/heaptrial"])?;

    show(&host, "services tor@relay*")?;
    say(
        "A trial is described in a file (`heaptrial trial new` writes one with comments); this one has five arms:",
    )?;
    println!("{FIVE_WAY}");
    show(&host, "trial plan five-way.toml --seed 7")?;
    let before = Snapshot::of(&host, &CHANGED)?;
    show(&host, "preflight tor@relay01.service --allocator mimalloc@2.0.9")?;
    show(&host, "trial start five-way --yes")?;
    say("The agent samples. Five minutes until the first look that was planned.")?;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(270) {
        std::thread::sleep(Duration::from_secs(90));
        show(&host, "trial status five-way")?;
    }
    std::thread::sleep(FIRST_LOOK.saturating_sub(started.elapsed()));
    show(&host, "trial look five-way")?;
    show(&host, "trial stop five-way --yes")?;
    roll_out(&host)?;
    show(&host, "trial stop five-way --revert --yes --pause 0s")?;
    let changed = before.difference(&Snapshot::of(&host, &CHANGED)?);
    if !changed.is_empty() {
        return Err(format!("not everything is as before: {changed:?}").into());
    }
    say("Every file below /etc and /usr is byte by byte as it was before the trial.")?;
    show(&host, "report five-way --out /root/report")?;
    std::fs::create_dir_all(&reports)?;
    let report = host.root().join("root/report/.");
    Command::new("cp").arg("-r").arg(report).arg(&reports).status()?;
    say(&format!("The report is in {}: open report.html. The host is gone.", reports.display()))
}

/// The winner for the relays of the control in waves, and back again: to what runs on these the trial has the best ratio.
fn roll_out(host: &Container) -> Result<(), Failure> {
    say(
        "What won goes to the relays of the control: a canary, which is put back once to prove that it can be, then waves.",
    )?;
    let before = Snapshot::of(host, &CHANGED)?;
    let status = host.try_ok(&["/ht/heaptrial", "trial", "status", "five-way", "--json"])?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let services = status["services"].as_object().ok_or("the trial's status has no services")?;
    let control = services.iter().filter(|(_, service)| service["arm"] == "glibc");
    let control: Vec<&str> = control.map(|(name, _)| name.as_str()).collect();
    show(
        host,
        &format!(
            "rollout start five-way --arm mimalloc-2.0.9 --services {} --waves 50%,100% --soak 20s --at-once 2 --pause 1s --no-work --yes",
            control.join(" ")
        ),
    )?;
    show(host, "rollout status")?;
    show(host, "services tor@relay*")?;
    say("A day later somebody changes their mind.")?;
    show(host, "rollout rollback five-way-rollout --yes --pause 0s --at-once 2")?;
    let changed = before.difference(&Snapshot::of(host, &CHANGED)?);
    if changed.is_empty() { Ok(()) } else { Err(format!("not everything is as before: {changed:?}").into()) }
}

/// Runs one command as one types it. Exit code 4 of a look is an answer, not a failure, and so is 1 of `rollout start` and
/// `rollout status`: memory of relays that are seconds old may stop its gate, and the wave is put back.
fn show(host: &Container, arguments: &str) -> Result<(), Failure> {
    println!("$ heaptrial {arguments}");
    std::io::stdout().flush()?;
    let mut command = host.try_command("/usr/bin/env")?;
    command
        .args(["-C", "/root", "HOME=/root", "COLUMNS=80", "/ht/heaptrial"])
        .args(arguments.split_whitespace());
    let status = command.stdin(Stdio::null()).status()?;
    println!();
    match status.code() {
        Some(0 | 4) => Ok(()),
        Some(1) if arguments.starts_with("rollout sta") => Ok(()),
        code => Err(format!("heaptrial {arguments} ended with {code:?}").into()),
    }
}

fn say(text: &str) -> Result<(), Failure> {
    println!("# {text}\n");
    Ok(std::io::stdout().flush()?)
}
