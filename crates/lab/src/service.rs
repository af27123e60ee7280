//! A service under way: its supervisor, its sampler, its place in the ledger.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_allocator::{Catalog, identify_started_with, prove};
use heaptrial_host::{
    Cgroup, HostRoot, Process, ProcessReader, ProcessTree, ServiceProcesses, ServiceSampler,
};
use heaptrial_model::{Ending, Identity, Linkage};

use crate::Interrupt;
use crate::arms::PreparedArm;
use crate::end::EndRequest;
use crate::ends::Ends;
use crate::sharing::Sharing;
use crate::supervisor::{KeptCgroup, KeptCommand, Supervisor, SupervisorMessage};
use crate::workload::{Event, Launch, Slot};

/// Command lines that are told of a service, and how much of each.
const LINES_TOLD: usize = 5;
const LINE_LENGTH: usize = 80;

/// Runtimes that map the heap for their objects themselves.
const OWN_HEAPS: [&str; 4] = ["java", "node", "nodejs", "dotnet"];

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
    /// How it is asked to end.
    pub(crate) end: EndRequest,
    /// The environment variables that were set at its start.
    pub(crate) passed: Vec<(String, String)>,
    /// Its own control group, where it has one.
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) ends: Ends,
    pub(crate) sharing: Sharing,
    /// Ticks at which it could not be read, and why at the first of them.
    pub(crate) unread: (u64, Option<String>),
}

/// How patiently an ending is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Only one that was already told.
    Now,
    /// A main process that is gone is waited for to be told: this is the last chance.
    AtTheEnd,
}

impl RunningService {
    /// Whether its main process runs.
    pub(crate) fn is_alive(&self) -> bool {
        let process = Process::by_living_thread(&HostRoot::default(), self.process.pid());
        matches!(process.state(), Ok(state) if !matches!(state, 'Z' | 'X'))
    }

    /// Takes note of processes of it that ended; gives what is to be told at once.
    pub(crate) fn follow_ends(&mut self, tick: Duration) -> Vec<Event> {
        let told = self.supervisor.as_ref().map(Supervisor::process_ends).unwrap_or_default();
        let mut events = Vec::new();
        for message in told {
            match message {
                // How the main process ended is told by its supervisor.
                SupervisorMessage::ProcessEnded(end) if end.pid != self.process.pid() => {
                    let oom_kills = self.oom_kills();
                    let age = (end.at_boottime_us - self.started.boottime_us) as f64 / 1e6;
                    let oom = end.signal.is_some() && oom_kills > self.ends.out_of_memory();
                    let told = self.ends.take(end, age, tick, oom);
                    events.extend(told.map(|(kind, text)| Event { slot: Some(self.slot), kind, text }));
                }
                SupervisorMessage::EndsMissed => self.ends.missed(),
                _ => {}
            }
        }
        events
    }

    /// How many of its processes the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        // The group is gone soon after the service; the supervisor looked before that.
        let told = self.supervisor.as_ref().map_or(0, Supervisor::oom_kills);
        self.cgroup.as_ref().and_then(Cgroup::oom_kills).unwrap_or(0).max(told)
    }

    /// The command lines of its processes, each once; the first ones where they are many.
    pub(crate) fn command_lines(&self, root: &HostRoot) -> String {
        let family = ProcessTree::scan(root).map(|tree| self.processes.running(&tree)).unwrap_or_default();
        let words = family.into_iter().filter_map(|pid| Process::new(root, pid).cmdline().ok());
        let line = |words: Vec<OsString>| words.join(OsStr::new(" ")).to_string_lossy().into_owned();
        let lines: BTreeSet<String> = words.map(line).filter(|line| !line.is_empty()).collect();
        let more = lines.len().saturating_sub(LINES_TOLD);
        let shown = |line: &String| {
            let cut = if line.chars().count() > LINE_LENGTH { "…" } else { "" };
            format!("`{}{cut}`", line.chars().take(LINE_LENGTH).collect::<String>())
        };
        let mut told: Vec<String> = lines.iter().take(LINES_TOLD).map(shown).collect();
        told.extend((more > 0).then(|| format!("{more} more")));
        if told.is_empty() { "none that could be read".to_owned() } else { told.join(", ") }
    }

    /// Programs of its processes that keep most of what they have in a heap of their own.
    pub(crate) fn own_heaps(&self, root: &HostRoot) -> BTreeSet<String> {
        let family = ProcessTree::scan(root).map(|tree| self.processes.running(&tree)).unwrap_or_default();
        let name = |pid| Some(Process::new(root, pid).exe().ok()?.file_name()?.to_str()?.to_owned());
        family.into_iter().filter_map(name).filter(|name| OWN_HEAPS.contains(&name.as_str())).collect()
    }

    /// How it ended by itself, if it did.
    pub(crate) fn ended(&self, when: When) -> Option<Ending> {
        let supervisor = self.supervisor.as_ref()?;
        let message = match supervisor.ended() {
            None if when == When::AtTheEnd && !self.is_alive() => supervisor.wait_for_end(),
            message => message,
        };
        message.and_then(ending_of)
    }
}

/// How a service ended, behind its name.
pub(crate) fn clause(ending: &Ending) -> String {
    match ending {
        Ending::Signaled(_) | Ending::Interrupted | Ending::Stopped => format!("was {ending}"),
        _ => ending.to_string(),
    }
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
pub(crate) fn kept_command(
    slot: &Slot,
    launch: Launch,
    logs: &Path,
    cgroup: Option<KeptCgroup>,
) -> KeptCommand {
    let application = slot.arm.application();
    let mut environment = launch.environment;
    environment.extend(application.env.iter().cloned());
    let removed = inherited_allocator_settings(environment.keys());
    let words = application.argv_prefix.iter().cloned();
    KeptCommand {
        words: words.chain([launch.program.into_os_string()]).chain(launch.arguments).collect(),
        environment,
        removed,
        working_directory: launch.working_directory,
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

/// Proves which allocator the process runs, while it starts.
pub(crate) fn prove_identity(
    process: &Process,
    supervisor: &Supervisor,
    slot: &Slot,
    command: &KeptCommand,
    interrupt: &Interrupt,
) -> Proof {
    let started = Instant::now();
    let mut pause = Duration::from_millis(5);
    let passed: Vec<(String, String)> = command.environment.clone().into_iter().collect();
    loop {
        if let Some(ending) = supervisor.ended().and_then(ending_of) {
            return Proof { identity: None, contamination: None, ended: Some(ending) };
        }
        let process = Process::by_living_thread(&HostRoot::default(), process.pid());
        let found = identify_started_with(&process, &passed);
        let outcome = match &found {
            Ok(identity) => prove(&slot.arm.expected(identity), identity)
                .map_err(|mismatch| mismatch.with_stderr(&read_lossy(&command.stderr)).to_string()),
            Err(error) => Err(format!("its allocator could not be identified: {error}")),
        };
        // Before its libraries are mapped a process runs no allocator yet; that takes long where processors are short.
        let is_loaded = found.as_ref().is_ok_and(|identity| identity.linkage != Linkage::Unknown);
        let patience = if is_loaded { MISMATCH_PATIENCE } else { PROOF_PATIENCE };
        match outcome {
            Ok(()) => return Proof { identity: found.ok(), contamination: None, ended: None },
            // What was not proved by then says nothing about the arm.
            Err(_) if interrupt.requested() => {
                return Proof { identity: None, contamination: None, ended: Some(Ending::Interrupted) };
            }
            Err(why) if started.elapsed() >= patience => {
                return Proof { identity: found.ok(), contamination: Some(why), ended: None };
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// What a service's main process runs at the end of its life, which has mapped all of its libraries by then; `None` where it
/// cannot be told any more. An error tells why the life does not count: the main process, or others of its tree that
/// together hold a good part of its memory, run something else than the arm's treatment.
pub(crate) fn prove_at_the_end(
    root: &HostRoot,
    processes: ServiceProcesses,
    arm: &PreparedArm,
    passed: &[(String, String)],
) -> Result<Option<Identity>, String> {
    let Ok(tree) = ProcessTree::scan(root) else { return Ok(None) };
    let main = processes.main();
    let members: Vec<(i32, u64)> = processes
        .running(&tree)
        .into_iter()
        .filter_map(|pid| Some((pid, ProcessReader::open(root, pid).ok()?.read().ok()?.sample.rss_bytes)))
        .collect();
    let whole: u64 = members.iter().map(|(_, rss_bytes)| rss_bytes).sum();
    let (mut of_main, mut identities) = (None, Vec::new());
    let mut others: Vec<(u64, String)> = Vec::new();
    for (pid, rss_bytes) in members {
        let process = Process::by_living_thread(root, pid);
        // One that ends meanwhile cannot be told.
        let Ok(identity) = identify_started_with(&process, passed) else { continue };
        let mismatch = prove(&arm.expected(&identity), &identity).err().map(|mismatch| mismatch.to_string());
        let why = mismatch.map(|mismatch| {
            let program = process.exe().map(|path| path.display().to_string()).unwrap_or_default();
            format!("at its end, process {pid} ({program}) did not run the treatment: {mismatch}")
        });
        match why {
            Some(why) if pid == main => return Err(why),
            Some(why) => others.push((rss_bytes, why)),
            None if pid == main => of_main = Some(identity.clone()),
            None => {}
        }
        identities.push(identity);
    }
    let elsewhere: u64 = others.iter().map(|(rss_bytes, _)| rss_bytes).sum();
    if elsewhere as f64 >= NEGLIGIBLE_SHARE * whole as f64 {
        if let Some((_, why)) = others.iter().max_by_key(|(rss_bytes, _)| rss_bytes) {
            let further = match others.len() - 1 {
                0 => String::new(),
                further => format!("; nor did {further} more of its processes"),
            };
            return Err(format!("{why}{further}"));
        }
    }
    Ok(of_main)
}

/// What a supervisor's message means for the ledger.
pub(crate) fn ending_of(message: SupervisorMessage) -> Option<Ending> {
    match message {
        SupervisorMessage::Ended { code: Some(0), left: 1.., .. } => Some(Ending::ForkedAway),
        SupervisorMessage::Ended { signal: Some(number), .. } => Some(Ending::Signaled(number)),
        SupervisorMessage::Ended { code, .. } => Some(Ending::Exited(code.unwrap_or(-1))),
        // The service got SIGKILL as its parent-death signal.
        SupervisorMessage::Lost => Some(Ending::Signaled(9)),
        SupervisorMessage::Started { .. }
        | SupervisorMessage::NotStarted { .. }
        | SupervisorMessage::ProcessEnded(_)
        | SupervisorMessage::EndsMissed
        | SupervisorMessage::Outlasted(_) => None,
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
