//! A service under way: its supervisor, its sampler, its place in the ledger.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_allocator::{Catalog, Identifier, is_beyond_reach, prove};
use heaptrial_host::{
    Cgroup, CgroupReader, HostError, HostRoot, Process, ProcessReader, ProcessTree, ServiceProcesses,
    ServiceSampler,
};
use heaptrial_model::{Ending, Identity, Linkage, Sample};

use crate::end::EndRequest;
use crate::ends::Ends;
use crate::supervisor::{KeptCgroup, KeptCommand, Supervisor};
use crate::workload::{Event, Launch, Slot};
use crate::{Interrupt, PreparedArm};

/// A process maps its libraries within milliseconds; on a saturated machine it may take seconds.
const PROOF_PATIENCE: Duration = Duration::from_secs(10);
/// How long a wrong identity is given to become right, after which it is what it is: the dynamic
/// loader maps the program before its libraries.
const MISMATCH_PATIENCE: Duration = Duration::from_secs(2);

/// Processes of a tree with less than this share of the tree's RSS together, such as a shell that waits for the program,
/// may run what they like.
const NEGLIGIBLE_SHARE: f64 = 0.05;

/// A service that was started.
#[derive(Debug)]
pub(crate) struct RunningService {
    pub(crate) slot: usize,
    pub(crate) service_id: i64,
    pub(crate) life_id: i64,
    pub(crate) process: Process,
    pub(crate) processes: ServiceProcesses,
    pub(crate) started: heaptrial_host::Instant,
    pub(crate) sampler: ServiceSampler,
    pub(crate) supervisor: Option<Supervisor>,
    pub(crate) ending: Option<Ending>,
    pub(crate) stderr: PathBuf,
    pub(crate) end: EndRequest,
    /// The environment variables that were set at its start.
    pub(crate) passed: Vec<(String, String)>,
    /// Its own control group, where it has one.
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) ends: Ends,
    /// Whether it ever had several processes.
    pub(crate) several: bool,
}

impl RunningService {
    /// Whether its main process runs.
    pub(crate) fn is_alive(&self) -> bool {
        let process = Process::new(&HostRoot::default(), self.process.pid());
        matches!(process.state(), Ok(state) if !matches!(state, 'Z' | 'X'))
    }

    /// A sample of it, with anonymous memory (each page once), CPU time and faults of its control group where it has one.
    pub(crate) fn read(&mut self) -> Result<Sample, HostError> {
        let mut sample = self.sampler.read()?;
        self.several |= sample.processes > 1 || self.sampler.family() > 1;
        if self.cgroup.is_none() {
            return Ok(sample);
        }
        // They have those too that ended without anybody of the tree waiting for them.
        if let Some(faults) = self.sampler.cgroup().and_then(CgroupReader::faults) {
            (sample.minor_faults, sample.major_faults) = faults;
        }
        sample.cpu_us = self.sampler.cgroup().and_then(CgroupReader::cpu_us).unwrap_or(sample.cpu_us);
        if let Some(once) = self.sampler.anonymous_of_cgroup().transpose()? {
            sample.anon_bytes = once.resident_bytes;
            sample.swap_bytes = once.swap_bytes;
        }
        Ok(sample)
    }

    /// Takes note of processes of it that ended; returns the first crash and OOM kill of each kind.
    pub(crate) fn follow_ends(&mut self) -> Vec<Event> {
        let main = self.process.pid();
        let ends = self.supervisor.as_mut().map_or(Vec::new(), |supervisor| supervisor.process_ends(main));
        let mut events = Vec::new();
        for end in ends {
            let age = (end.at_boottime_us - self.started.boottime_us) as f64 / 1e6;
            let oom = self.oom_kills() > self.ends.out_of_memory();
            let new = self.ends.take(&end, age, oom);
            events.extend(new.map(|(kind, text)| Event { slot: Some(self.slot), kind, text }));
        }
        events
    }

    /// How many of its processes were OOM-killed.
    pub(crate) fn oom_kills(&self) -> u64 {
        // The group is gone soon after the service; the supervisor looked before that.
        let before = self.supervisor.as_ref().map_or(0, Supervisor::oom_kills);
        self.cgroup.as_ref().and_then(Cgroup::oom_kills).unwrap_or(0).max(before)
    }

    /// How it ended by itself, if that was reported.
    pub(crate) fn ended(&mut self) -> Option<Ending> {
        self.supervisor.as_mut()?.ended()
    }

    /// The same, waiting for the report where its main process is gone.
    pub(crate) fn ended_at_last(&mut self) -> Option<Ending> {
        match self.ended() {
            None if !self.is_alive() => self.supervisor.as_mut()?.wait_for_end(),
            ending => ending,
        }
    }
}

/// How a service ended, behind its name.
pub(crate) fn clause(ending: &Ending) -> String {
    match ending {
        Ending::Signaled(_) | Ending::Interrupted | Ending::Stopped => format!("was {ending}"),
        _ => ending.to_string(),
    }
}

/// Puts the arm's allocator before a launch.
pub(crate) fn kept_command(
    slot: &Slot,
    launch: Launch,
    logs: &Path,
    cgroup: Option<KeptCgroup>,
) -> KeptCommand {
    let application = slot.arm.obtained.application();
    let mut environment = launch.environment;
    environment.extend(application.env.iter().cloned());
    let removed = inherited_allocator_settings(environment.keys());
    let words = application.argv_prefix.iter().cloned();
    KeptCommand {
        words: words.chain([launch.program.into_os_string()]).chain(launch.arguments).collect(),
        environment,
        removed,
        stdout: logs.join(format!("{}.stdout", slot.service)),
        stderr: logs.join(format!("{}.stderr", slot.service)),
        end: launch.end,
        cgroup,
    }
}

/// Variables of the caller's environment that would change an allocator behind the treatment's back.
pub(crate) fn inherited_allocator_settings<'a>(set: impl Iterator<Item = &'a String> + Clone) -> Vec<String> {
    let changes_allocator = |name: &str| {
        name == "LD_PRELOAD" || Catalog::builtin().families().any(|family| family.reads_variable(name))
    };
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| changes_allocator(name) && !set.clone().any(|own| own == name))
        .collect()
}

/// What is known of a service right after its start.
#[derive(Debug)]
pub(crate) enum Proof {
    Proved(Identity),
    Refuted {
        identity: Option<Identity>,
        why: String,
    },
    /// It ended, or the run was interrupted, before anything could be proved.
    Ended(Ending),
}

/// Proves which allocator a process runs, while it starts.
pub(crate) fn prove_identity(
    pid: i32,
    supervisor: &mut Supervisor,
    arm: &PreparedArm,
    command: &KeptCommand,
    interrupt: &Interrupt,
) -> Proof {
    let started = Instant::now();
    let mut pause = Duration::from_millis(5);
    let (identifier, passed) =
        (Identifier::default(), || Some(command.environment.clone().into_iter().collect()));
    loop {
        if let Some(ending) = supervisor.ended() {
            return Proof::Ended(ending);
        }
        let process = Process::new(&HostRoot::default(), pid);
        let (identity, why) = match identifier.identify(&process, &passed) {
            Ok(identity) => match prove(&arm.expected(&identity), &identity) {
                Ok(()) => return Proof::Proved(identity),
                Err(mismatch) => {
                    let why = mismatch.with_stderr(&read_lossy(&command.stderr)).to_string();
                    (Some(identity), why)
                }
            },
            Err(error) => (None, format!("its allocator could not be identified: {error}")),
        };
        // Before its libraries are mapped a process runs no allocator yet; that takes long where processors are short.
        let is_loaded = identity.as_ref().is_some_and(|identity| identity.linkage != Linkage::Unknown);
        let patience = if is_loaded { MISMATCH_PATIENCE } else { PROOF_PATIENCE };
        // What was not proved by then says nothing about the arm.
        if interrupt.requested() {
            return Proof::Ended(Ending::Interrupted);
        }
        if started.elapsed() >= patience {
            return Proof::Refuted { identity, why };
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// What a service was seen to run at the end of its life, when it has mapped all of its libraries.
#[derive(Debug, Default)]
pub(crate) struct AtTheEnd {
    /// Of its main process; `None` where it cannot be read any more.
    pub(crate) identity: Option<Identity>,
    /// Its processes that no treatment reaches, with their share of its memory.
    pub(crate) beyond_reach: Option<(String, f64)>,
}

/// The error is why the life does not count: the main process, or others of its tree that together hold a good part of its memory,
/// run something else than the arm's treatment, which reaches them.
pub(crate) fn prove_at_the_end(
    root: &HostRoot,
    processes: ServiceProcesses,
    arm: &PreparedArm,
    passed: &[(String, String)],
) -> Result<AtTheEnd, String> {
    let mut found = AtTheEnd::default();
    let Ok(tree) = ProcessTree::scan(root) else { return Ok(found) };
    let (identifier, passed) = (Identifier::default(), || Some(passed.to_vec()));
    let (mut first_other, mut first_beyond) = (None, None);
    let (mut whole_bytes, mut other_bytes, mut beyond_bytes) = (0, 0, 0);
    for pid in processes.running(&tree) {
        let Ok(read) = ProcessReader::open(root, pid).and_then(|mut reader| reader.read()) else { continue };
        whole_bytes += read.sample.rss_bytes;
        let process = Process::new(root, pid);
        // One that ends meanwhile runs nothing any more.
        let Ok(identity) = identifier.identify(&process, &passed) else { continue };
        let is_main = pid == processes.main();
        let program = || process.exe().map(|path| path.display().to_string()).unwrap_or_default();
        match prove(&arm.expected(&identity), &identity) {
            Ok(()) if is_main => found.identity = Some(identity),
            Ok(()) => {}
            Err(_) if !is_main && is_beyond_reach(&identity) => {
                beyond_bytes += read.sample.rss_bytes;
                first_beyond.get_or_insert(format!("process {pid} ({}, {})", program(), identity.label()));
            }
            Err(mismatch) => {
                let why = format!(
                    "at its end, process {pid} ({}) did not run the treatment: {mismatch}",
                    program()
                );
                if is_main {
                    return Err(why);
                }
                other_bytes += read.sample.rss_bytes;
                first_other.get_or_insert(why);
            }
        }
    }
    let share = |bytes: u64| bytes as f64 / whole_bytes.max(1) as f64;
    found.beyond_reach = first_beyond.map(|first| (first, share(beyond_bytes)));
    match first_other {
        Some(why) if share(other_bytes) >= NEGLIGIBLE_SHARE => Err(why),
        _ => Ok(found),
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
