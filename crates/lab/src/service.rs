//! A service under way: its keeper, its sampler, its place in the ledger.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_allocator::{identify, prove};
use heaptrial_host::{Process, ServiceSampler};
use heaptrial_model::{Ending, Identity};

use crate::keeper::{Keeper, KeeperMessage, KeptCommand};
use crate::workload::{Launch, Slot};
use crate::Interrupt;

/// A process maps its libraries within milliseconds; on a saturated machine it may take seconds.
const PROOF_PATIENCE: Duration = Duration::from_secs(10);
/// How long a wrong identity is given to become right, after which it is what it is: the dynamic
/// loader maps the program before its libraries.
const MISMATCH_PATIENCE: Duration = Duration::from_secs(2);

/// A service that was started.
#[derive(Debug)]
pub(crate) struct RunningService {
    pub(crate) slot: usize,
    pub(crate) service_id: i64,
    pub(crate) life_id: i64,
    pub(crate) process: Process,
    pub(crate) started: heaptrial_host::Instant,
    pub(crate) sampler: ServiceSampler,
    pub(crate) keeper: Option<Keeper>,
    pub(crate) ending: Option<Ending>,
    pub(crate) stderr: PathBuf,
}

/// What is known of a service right after its start.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) identity: Option<Identity>,
    /// Why the identity is not the arm's treatment.
    pub(crate) contamination: Option<String>,
    /// How it ended, if it did before anything could be proved.
    pub(crate) ended: Option<Ending>,
}

/// Puts the arm's allocator before a launch.
pub(crate) fn kept_command(slot: &Slot, launch: Launch, logs: &Path) -> KeptCommand {
    let application = slot.arm.application();
    let mut environment = launch.environment;
    environment.extend(application.env.iter().cloned());
    let words = application.argv_prefix.iter().cloned();
    KeptCommand {
        words: words.chain([launch.program.into_os_string()]).chain(launch.arguments).collect(),
        environment,
        working_directory: launch.working_directory,
        stdout: logs.join(format!("{}.stdout", slot.service)),
        stderr: logs.join(format!("{}.stderr", slot.service)),
    }
}

/// Proves which allocator the process runs, while it starts.
pub(crate) fn prove_identity(
    process: &Process,
    keeper: &Keeper,
    slot: &Slot,
    stderr: &Path,
    interrupt: &Interrupt,
) -> Proof {
    let started = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        if let Some(ending) = keeper.ended().and_then(ending_of) {
            return Proof { identity: None, contamination: None, ended: Some(ending) };
        }
        let found = identify(process);
        let outcome = match &found {
            Ok(identity) => prove(&slot.arm.obtained, identity)
                .map_err(|mismatch| mismatch.with_stderr(&read_lossy(stderr)).to_string()),
            Err(error) => Err(format!("its allocator could not be identified: {error}")),
        };
        let patience = if found.is_ok() { MISMATCH_PATIENCE } else { PROOF_PATIENCE };
        match outcome {
            Ok(()) => return Proof { identity: found.ok(), contamination: None, ended: None },
            Err(why) if started.elapsed() >= patience || interrupt.requested() => {
                return Proof { identity: found.ok(), contamination: Some(why), ended: None };
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// What a keeper's message means for the ledger.
pub(crate) fn ending_of(message: KeeperMessage) -> Option<Ending> {
    match message {
        KeeperMessage::Ended { left: 1.., .. } => Some(Ending::ForkedAway),
        KeeperMessage::Ended { signal: Some(number), .. } => Some(Ending::Signaled(number)),
        KeeperMessage::Ended { code, .. } => Some(Ending::Exited(code.unwrap_or(-1))),
        KeeperMessage::Started { .. } | KeeperMessage::NotStarted { .. } => None,
    }
}

/// The last lines that a service wrote to its standard error, for a message.
pub(crate) fn last_words(stderr: &Path) -> String {
    let text = read_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    if last.is_empty() { String::new() } else { format!("; it wrote last: {}", last.join(" / ")) }
}

fn read_lossy(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
