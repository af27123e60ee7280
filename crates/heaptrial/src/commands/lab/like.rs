//! `--like`: the options that make the lab as a running service has it.
//!
//! This program is started anew with those options in place of `--like`, so that the command which repeats the run has them
//! and needs no such service.

use std::convert::Infallible;
use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use heaptrial_host::{HostFacts, HostRoot, Process, codename};
use heaptrial_model::ServiceName;
use heaptrial_relay::{Control, Relay};

use super::OWN_PROGRAM;
use super::repeat_command::RepeatCommand;
use crate::answer::Answer;
use crate::commands::value::size_word;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// How long a relay may take to report its connections.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than so many take hours: who wants them asks for them.
const CONSENSUSES: u64 = 36;
/// What a relay of the lab may hold.
const CONNECTIONS: u64 = 20_000;
/// Options of a torrc that bear on a relay's memory and that the lab takes over.
const TORRC: [&str; 8] = [
    "AvoidDiskWrites",
    "ConstrainedSockets",
    "DirCache",
    "MaxConsensusAgeForDiffs",
    "MaxHSDirCacheBytes",
    "MaxMemInQueues",
    "MaxOnionQueueDelay",
    "NumCPUs",
];

/// What a lab command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    Program,
    Relays,
}

/// What was read of a service: each value with its source, and the option that it makes, if it makes one.
#[derive(Debug, Default)]
struct Likeness {
    lines: Vec<String>,
    options: Vec<(&'static str, String)>,
}

impl Likeness {
    /// Takes a value and its source, and makes it that option where there is one.
    fn take<T: Display, E: Display>(
        &mut self,
        what: &str,
        value: Result<T, E>,
        option: Option<&'static str>,
        source: &str,
    ) {
        let value = match value {
            Ok(value) => value.to_string(),
            Err(why) => return self.lines.push(format!("{what}: could not be read: {why}")),
        };
        self.lines.push(format!("{what}: {value} ({source})"));
        self.options.extend(option.map(|option| (option, value)));
    }

    /// The same of a value that is there.
    fn set(&mut self, what: &str, value: impl Display, option: &'static str, source: &str) {
        self.take(what, Ok::<_, Infallible>(value), Some(option), source);
    }
}

/// Starts this program again with the options that a service, named by its unit or the PID of its main process, has.
pub(super) fn start_as(like: &str, runs: Runs, global: &GlobalOptions) -> Result<Answer, Failure> {
    let likeness = read(like, runs, global)?;
    eprintln!("as {like}:");
    likeness.lines.iter().for_each(|line| eprintln!("  {line}"));
    let command = RepeatCommand::own()?.without_like(&likeness.options);
    Err(Failure::failed(Command::new(OWN_PROGRAM).args(command.words()).exec()))
}

fn read(like: &str, runs: Runs, global: &GlobalOptions) -> Result<Likeness, Failure> {
    let mut likeness = Likeness::default();
    let pid = match like.parse::<i32>() {
        Ok(pid) => pid,
        Err(_) => {
            let name: ServiceName = like.parse().map_err(|_| {
                Failure::usage(format!(
                    "--like {like}: expected the PID of a process, or a unit such as tor@1.service"
                ))
            })?;
            let unit = global.systemd()?.service(&name)?;
            if let (Some(bytes), Runs::Program) = (unit.memory_max_bytes, runs) {
                likeness.set("memory limit", size_word(bytes), "--memory-limit", "MemoryMax of its unit");
            }
            unit.status.main_pid.ok_or_else(|| {
                Failure::refused(format!(
                    "--like {like}: it does not run; start it, or give the options themselves"
                ))
            })?
        }
    };
    let facts = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
    let process = Process::new(&HostRoot::default(), pid);
    let command = process.cmdline().map_err(|error| Failure::refused(format!("--like {like}: {error}")))?;
    let command: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let relay = match runs {
        Runs::Program => None,
        Runs::Relays => Some(relay(like, &process, &command)?),
    };
    userland(&mut likeness, &process);
    let thp = facts.thp_mode.ok_or("the kernel does not report it");
    likeness.take("transparent huge pages", thp, None, "of this host's kernel, which the lab has as well");
    match relay {
        Some(relay) => of_relay(&mut likeness, &process, &relay, facts.cpu_count),
        None => likeness.take("processors", process.processors(), Some("--processors"), "its affinity"),
    }
    Ok(likeness)
}

fn relay(like: &str, process: &Process, command: &[String]) -> Result<Relay, Failure> {
    let program = command.first().map_or("nothing that can be read", String::as_str);
    let none =
        |why: &str| Failure::refused(format!("--like {like}: {why}; `lab run --like` takes any program"));
    let relay = Relay::of_command(&process.seen_root(), command, None)
        .ok_or_else(|| none(&format!("it runs `{program}`, which is no Tor relay")))?
        .map_err(|error| Failure::refused(format!("--like {like}: {error}")))?;
    match relay.role.as_str() {
        "client" => Err(none("it is a client of Tor and no relay (its torrc has no ORPort)")),
        _ => Ok(relay),
    }
}

fn userland(likeness: &mut Likeness, process: &Process) {
    const SOURCE: &str = "os-release as the process sees it";
    let here = codename(&HostRoot::default());
    let its = codename(&process.seen_root()).ok_or("its os-release names no suite");
    let option = its.as_ref().is_ok_and(|its| here.as_ref() != Some(its)).then_some("--userland");
    likeness.take("userland", its, option, SOURCE);
}

fn of_relay(likeness: &mut Likeness, process: &Process, relay: &Relay, cpu_count: u32) {
    const OF_PROCESSORS: &str = "of this host, for each of which Tor starts a worker thread";
    likeness.set("processors", cpu_count, "--processors", OF_PROCESSORS);
    likeness.take("threads", process.threads(), None, "/proc/PID/stat");
    let version = Control::of(relay, PATIENCE).and_then(|mut control| control.info("version"));
    const OF_VERSION: &str = "its control port; the lab takes the tor of its userland";
    likeness.take("version of Tor", version, None, OF_VERSION);
    for (option, value) in relay.options.iter().filter(|(option, _)| TORRC.contains(&option.as_str())) {
        likeness.set("torrc", format!("{option}={value}"), "--torrc", &relay.torrc.display().to_string());
    }
    let connections = relay.readings(PATIENCE).map_err(|error| error.to_string()).and_then(|readings| {
        let connections = readings.connections.ok_or("the relay does not report it")?;
        Ok(connections.min(CONNECTIONS))
    });
    let source = "its control port or MetricsPort";
    likeness.take("connections", connections, Some("--connections"), source);
    let hours = process.age().map(|age| (age.as_secs() / 3600).clamp(2, CONSENSUSES));
    let source = "its age in hours, 36 at most: more take hours";
    likeness.take("consensuses of the run", hours, Some("--consensuses"), source);
}
