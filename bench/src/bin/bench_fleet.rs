//! Times survey and status of many hosts against Ansible's own ping: `bench_fleet BUILD_FOLDER [HOSTS] [ROUNDS]`. Prints Markdown.
//!
//! Each host is a container with a real systemd and an sshd, a service and a running trial. The three are run in turn, so that
//! what else the machine does falls on all alike.

#[path = "../../../crates/testbed/src/bin/fleet/mod.rs"]
mod fleet;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use fleet::{Failure, Fleet, Host};
use heaptrial_testbed::{Container, Options};

const TRIAL: &str = r#"name = "fleet"
services = "churn@*"
duration = "2d"

[pace]
at_once = 2
pause = "0s"
settle = "100ms"

[[arm]]
name = "glibc"
control = true
allocator = "glibc"

[[arm]]
name = "one-arena"
allocator = "glibc?arena_max=1"
"#;
const SERVICES: usize = 2;
/// Where the build's folder is seen on a host.
const BUILD: &str = "/ht";

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: bench_fleet BUILD_FOLDER [HOSTS] [ROUNDS]";
    let build = PathBuf::from(arguments.next().ok_or(usage)?).canonicalize()?;
    let count: usize = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;

    let mut fleet = Fleet::new(&build, TRIAL)?;
    for number in 0..count {
        let name = format!("host{number:02}");
        let options = Options::new().bind(&build, BUILD);
        let host = Host { name: &name, suite: None, options, services: SERVICES, live_bytes: 1 << 20 };
        install_agent(fleet.add(&build, host)?)?;
    }
    let survey = || play(&fleet, "survey");
    succeed(&mut survey())?;
    succeed(&mut fleet.here("trial plan fleet.toml --survey surveys --seed 1"))?;
    succeed(&mut play(&fleet, "start"))?;
    let mut ping = fleet.control.command("ansible");
    ping.args(["all", "-m", "ping"]);

    let (mut status, mut surveys) = (play(&fleet, "status"), survey());
    let mut measured: [(&str, &mut Command, Vec<f64>); 3] = [
        ("`ansible -m ping`", &mut ping, Vec::new()),
        ("playbook `survey`", &mut surveys, Vec::new()),
        ("playbook `status`", &mut status, Vec::new()),
    ];
    for _ in 0..rounds {
        for (_, command, seconds) in &mut measured {
            let started = Instant::now();
            succeed(command)?;
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    let pings = measured[0].2.clone();
    println!("{count} hosts, {rounds} rounds, medians with the least and the most\n");
    println!("| | seconds | over ping, within a round |\n|---|---|---|");
    for (name, _, seconds) in measured {
        let ratios = seconds.iter().zip(&pings).map(|(seconds, ping)| seconds / ping).collect();
        println!("| {name} | {} | {} |", spread(seconds, 1), spread(ratios, 2));
    }
    Ok(())
}

/// The agent of the build, as a trial would bring it.
fn install_agent(host: &Container) -> Result<(), Failure> {
    let own = format!("{BUILD}/heaptrial");
    let unit = host.try_ok(&[&own, "agent", "--print-unit", &own])?;
    host.write("/etc/systemd/system/heaptrial-agent.service", unit, 0o644)?;
    host.try_ok(&["mkdir", "-p", "-m", "750", "/var/lib/heaptrial"])?;
    host.try_ok(&["systemctl", "daemon-reload"])?;
    host.try_ok(&["systemctl", "enable", "--now", "heaptrial-agent.service"])?;
    Ok(())
}

fn play(fleet: &Fleet, playbook: &str) -> Command {
    let folder = format!("heaptrial_local={}", fleet.control.path().display());
    let program = format!("heaptrial_program={BUILD}/heaptrial");
    fleet.playbook(playbook, &["heaptrial_trial=fleet", &program, &folder])
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{command:?} ended with {}\n{}{}", output.status, said(&output.stdout), said(&output.stderr))
        .into())
}

/// Median, least and most.
fn spread(mut values: Vec<f64>, places: usize) -> String {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    format!("{median:.places$} ({:.places$} to {:.places$})", values[0], values[values.len() - 1])
}
