//! The whole story of a trial over four hosts with two systems: `demo_fleet BUILD_FOLDER DEB REPORT_FOLDER [SERVICES]`.
//!
//! Throw-away hosts on a network of their own, reached by Ansible over SSH: Heaptrial is installed, a trial drawn over all of them,
//! started, gathered, reported and put back; what it found is rolled out by its verdict, watched and rolled back; Heaptrial is removed.
//! At the end every file below /etc and /usr of every host is compared with what was there before.

mod fleet;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fleet::{Failure, Fleet, Host};
use heaptrial_testbed::{Options, Snapshot};

/// Each host with its system.
const HOSTS: [(&str, &str); 4] =
    [("alpha", "bookworm"), ("beta", "bookworm"), ("gamma", "trixie"), ("delta", "trixie")];
/// What a trial may change.
const CHANGED: [&str; 2] = ["/etc", "/usr"];
/// Seconds that show what minutes do.
const FAST_AGENT: &str = "[Service]\nExecStart=\nExecStart=/usr/bin/heaptrial agent --interval 2s\n";
/// Where its lines are kept from the snapshot.
const FAST_FOLDER: &str = "/run/systemd/system/heaptrial-agent.service.d";
const SAMPLED: Duration = Duration::from_secs(60);
const TRIAL: &str = r#"name = "fleet"
services = "churn@*"
duration = "2d"

[pace]
at_once = 2
pause = "0s"
settle = "500ms"

[[arm]]
name = "glibc"
control = true
allocator = "glibc"

[[arm]]
name = "one-arena"
allocator = "glibc?arena_max=1"

[[arm]]
name = "jemalloc"
allocator = "jemalloc@5.3.0"
"#;

/// Prints each command as one types it.
struct Demonstration {
    fleet: Fleet,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: demo_fleet BUILD_FOLDER DEB REPORT_FOLDER [SERVICES]";
    let build = PathBuf::from(arguments.next().ok_or(usage)?).canonicalize()?;
    let deb = PathBuf::from(arguments.next().ok_or(usage)?).canonicalize()?;
    let reports = PathBuf::from(arguments.next().ok_or(usage)?);
    let services: usize = arguments.next().map_or(Ok(20), |text| text.parse())?;

    say(&format!(
        "Four throw-away hosts with a real systemd boot, two of Debian 12 and two of Debian 13, with {services} services each."
    ))?;
    let demonstration = Demonstration { fleet: boot(&build, services)? };
    let before = demonstration.snapshots()?;
    demonstration.trial(&deb)?;
    demonstration.rollout()?;
    demonstration.play("remove", &["heaptrial_purge=true"])?;
    let Demonstration { fleet } = demonstration;
    for (host, before) in fleet.hosts.iter().zip(before) {
        let changed = before.difference(&Snapshot::of(host, &CHANGED)?);
        if !changed.is_empty() {
            return Err(format!("{}: not everything is as before: {changed:?}", host.name()).into());
        }
    }
    say("On each of the four hosts every file below /etc and /usr is byte by byte as it was before.")?;
    std::fs::create_dir_all(&reports)?;
    Command::new("cp").arg("-r").arg(fleet.control.path().join("report/.")).arg(&reports).status()?;
    say(&format!("The report is in {}: open report.html. The hosts are gone.", reports.display()))
}

fn boot(build: &Path, services: usize) -> Result<Fleet, Failure> {
    let mut fleet = Fleet::new(build, TRIAL)?;
    for (name, suite) in HOSTS {
        let options = Options::new().disk_bytes(2 << 30);
        let host = Host { name, suite: Some(suite), options, services, live_bytes: 8 << 20 };
        fleet.add(build, host)?.write(format!("{FAST_FOLDER}/demo.conf"), FAST_AGENT, 0o644)?;
    }
    Ok(fleet)
}

impl Demonstration {
    fn snapshots(&self) -> Result<Vec<Snapshot>, Failure> {
        // What the first login leaves is there before.
        let mut ping = self.fleet.control.command("ansible");
        ping.args(["all", "-m", "ping", "-o"]);
        run(&mut ping, "ansible -i hosts all -m ping -o")?;
        self.fleet.hosts.iter().map(|host| Ok(Snapshot::of(host, &CHANGED)?)).collect()
    }

    /// From the installation to the verdict of a trial that was put back.
    fn trial(&self, deb: &Path) -> Result<(), Failure> {
        self.play("install", &[&format!("heaptrial_deb={}", deb.display())])?;
        say("A trial is described in a file, and drawn over what all hosts have:")?;
        println!("{TRIAL}");
        let folder = format!("heaptrial_local={}", self.fleet.control.path().display());
        let own = ["heaptrial_trial=fleet", &folder];
        self.play("survey", &own)?;
        self.here("trial plan fleet.toml --survey surveys --seed 7")?;
        self.play("start", &own)?;
        say("The agents sample for a minute.")?;
        std::thread::sleep(SAMPLED);
        self.play("status", &own)?;
        self.play("stop", &[own[0], "heaptrial_state=reverted"])?;
        self.play("gather", &own)?;
        self.here("report heaptrial.db --out report")?;
        self.here("trial verdict heaptrial.db --arm jemalloc -o jemalloc.json")
    }

    /// By the verdict to all hosts, watched, and back.
    fn rollout(&self) -> Result<(), Failure> {
        let verdict =
            format!("heaptrial_verdict={}", self.fleet.control.path().join("jemalloc.json").display());
        let more = r#"{"heaptrial_rollout": "to-jemalloc", "heaptrial_services": ["churn@*"], "heaptrial_force": "a minute of readings shows how it is done", "heaptrial_poll": 2, "heaptrial_shares": [1, "100%"], "heaptrial_options": ["--soak", "5s", "--waves", "50%,100%", "--pause", "0s", "--at-once", "2"]}"#;
        self.play("rollout", &[&verdict, more])?;
        let watch = "heaptrial_watch=to-jemalloc";
        self.play("watch", &[watch, &verdict])?;
        std::thread::sleep(Duration::from_secs(10));
        say("The same again shows what the watches say.")?;
        self.play("watch", &[watch, &verdict])?;
        self.play("watch", &[watch, "heaptrial_state=stopped"])?;
        self.play("rollout", &[&verdict, more, "heaptrial_state=rolled_back"])
    }

    /// Runs a playbook of the collection as one types it.
    fn play(&self, playbook: &str, variables: &[&str]) -> Result<(), Failure> {
        let mut typed = format!("ansible-playbook -i hosts heaptrial.fleet.{playbook}");
        let folder = self.fleet.control.path().display().to_string();
        for variable in variables {
            let quote = if variable.contains(' ') { "'" } else { "" };
            typed += &format!(" -e {quote}{}{quote}", variable.replace(&folder, "$PWD"));
        }
        run(&mut self.fleet.playbook(playbook, variables), &typed)
    }

    /// Runs a command on the machine that controls the hosts.
    fn here(&self, arguments: &str) -> Result<(), Failure> {
        run(&mut self.fleet.here(arguments), &format!("heaptrial {arguments}"))
    }
}

/// Ansible prints what it changes, and not what is as it should be.
fn run(command: &mut Command, typed: &str) -> Result<(), Failure> {
    command.env("ANSIBLE_DISPLAY_SKIPPED_HOSTS", "False").env("ANSIBLE_DISPLAY_OK_HOSTS", "False");
    command.env("ANSIBLE_STDOUT_CALLBACK", "default");
    println!("$ {typed}");
    std::io::stdout().flush()?;
    let status = command.stdin(Stdio::null()).status()?;
    println!();
    if status.success() { Ok(()) } else { Err(format!("{typed} ended with {status}").into()) }
}

fn say(text: &str) -> Result<(), Failure> {
    println!("# {text}\n");
    Ok(std::io::stdout().flush()?)
}
