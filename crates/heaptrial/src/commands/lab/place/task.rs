//! A block on a node: an internal command that a task of an array runs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_host::{Cgroup, FamilyUse, HostFacts, HostRoot, host_name};
use heaptrial_lab::{LabPlan, PreparedArm, Progress, RunOutcome, run_block};
use heaptrial_model::{About, Pace, TrialPlan};
use heaptrial_store::Store;
use rustix::fs::{FlockOperation, flock};

use super::On;
use super::asked::Asked;
use super::kept::{
    BlockFailure, BlockReport, KeptRun, RunFolder, SCHEMA_VERSION, Used, at, block_name, write,
};
use crate::commands::lab::{LabOptions, OWN_PROGRAM, accounting_here, check, heeding_signals, shell};
use crate::exit::Failure;

/// The internal command: the run's folder and the block's number follow.
pub const BLOCK_COMMAND: &str = "lab-block";

/// How often a node is asked what a block takes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_STEP: Duration = Duration::from_millis(50);

/// Exit codes of a task by which more is known than that it failed, as sysexits.h has them.
pub(super) mod exit {
    /// The node does not see the run's folder.
    pub(in super::super) const NOT_SHARED: u8 = 66;
    /// The node cannot write there.
    pub(in super::super) const CANNOT_WRITE: u8 = 73;
}

/// Why there is no result.
enum NoResult {
    Failed(Failure),
    /// The run's folder takes nothing.
    CannotWrite(Failure),
    /// It was asked to end, as when it is cancelled.
    Interrupted,
}

impl From<Failure> for NoResult {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Carries out a block and leaves what came of it in the run's folder. What was begun there before, on a node that died, was on
/// that node alone.
pub fn run_task(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let folder = arguments.next().map(|folder| RunFolder(PathBuf::from(folder)));
    let block = arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let (Some(folder), Some(block)) = (folder, block) else {
        eprintln!("usage: heaptrial {BLOCK_COMMAND} FOLDER NUMBER");
        return ExitCode::from(2);
    };
    let node = node();
    say(&format!("block {} on {node}", block + 1));
    match carry_out(&folder, block, &node) {
        Ok(()) => ExitCode::SUCCESS,
        Err(NoResult::Interrupted) => {
            say("it was asked to end; nothing of it is kept");
            ExitCode::FAILURE
        }
        Err(NoResult::CannotWrite(why)) => {
            say(&why.to_string());
            ExitCode::from(exit::CANNOT_WRITE)
        }
        Err(NoResult::Failed(why)) => {
            say(&why.to_string());
            match folder.write_failure(block, &BlockFailure { node, why: why.to_string() }) {
                Ok(()) => ExitCode::FAILURE,
                Err(_) => ExitCode::from(exit::CANNOT_WRITE),
            }
        }
    }
}

/// A line of the task's log, which lies in the run's folder. Where that is full, the exit code has to do.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The node as Slurm calls it.
fn node() -> String {
    std::env::var("SLURMD_NODENAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| host_name(&HostRoot::default()).unwrap_or_else(|_| "unknown".to_owned()))
}

fn carry_out(folder: &RunFolder, block: u32, node: &str) -> Result<(), NoResult> {
    let run = folder.read_run()?;
    folder.forget_failure(block);
    if folder.block(block).exists() {
        return Ok(());
    }
    std::env::set_current_dir(&run.directory).map_err(|error| {
        Failure::failed(format!(
            "{}, where the run was started, is not there: {error}",
            run.directory.display()
        ))
    })?;
    let mut facts = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
    // A task sees all processors of its node and may use some: allocators size themselves by those.
    let given = std::thread::available_parallelism().map_or(facts.cpu_count, |count| count.get() as u32);
    facts.cpu_count = facts.cpu_count.min(given);
    let plan = run.plan();
    let words = shell::split(&run.command).map_err(Failure::failed)?;
    let (_, command) = crate::parse(words).map_err(Failure::failed)?;
    let Asked { options, workload, duration } = Asked::of(&command, &plan)?;
    let metric = check(options, &plan, workload.as_ref(), duration)?;
    let arms = run.arms_here(options)?;
    let interrupt = heeding_signals(On::Here)?;
    let scratch =
        Scratch::create(&std::env::temp_dir(), &format!("heaptrial-{}-{}", run.token, block_name(block)))?;
    let lab = LabPlan {
        name: run.name.clone(),
        arms,
        repeats: run.repeats,
        duration: duration.map(|duration| duration.0),
        tick: options.tick.0,
        metric,
        accounting: accounting_here(options, metric)?,
        memory_limit_bytes: options.memory_limit,
        seed: run.seed,
        processors: options.processors,
        command: run.command.clone(),
        database: scratch.path.join("heaptrial.db"),
        folder: scratch.path.clone(),
        supervisor: PathBuf::from(OWN_PROGRAM),
        userland: None,
    };
    let kills = OomKills::since_now();
    let carried_out = measured(|| run_block(&lab, workload.as_ref(), block, &interrupt, &mut Told));
    // Slurm ends services together with the task: what goes wrong then is no failure of the block.
    if interrupt.requested() {
        return Err(NoResult::Interrupted);
    }
    let (outcome, used) = carried_out.map_err(Failure::from)?;
    if lab.memory_limit_bytes.is_none() && (kills.happened() || outcome.out_of_memory > 0) {
        return Err(NoResult::Failed(Failure::failed(
            "a process of the block was killed for want of memory, which its task had too little of: --slurm mem=SIZE asks for more",
        )));
    }
    Store::create(&lab.database).and_then(Store::into_one_file).map_err(Failure::failed)?;
    let report = BlockReport {
        schema_version: SCHEMA_VERSION,
        block,
        node: node.to_owned(),
        facts,
        used,
        restarts: std::env::var("SLURM_RESTART_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0),
        failed_services: outcome.failed_services,
        work_read: outcome.work_read,
    };
    deliver(&lab, &report, folder).map_err(NoResult::CannotWrite)
}

impl KeptRun {
    pub(super) fn plan(&self) -> TrialPlan {
        TrialPlan {
            name: self.name.clone(),
            services: None,
            duration: self.duration,
            metric: Some(self.metric),
            looks: Vec::new(),
            pace: Pace::default(),
            about: About::default(),
            arms: self.arms.clone(),
        }
    }

    /// The arms with their allocators as they are seen here, each file as it was obtained. The host's own C library is that of
    /// this node.
    fn arms_here(&self, options: &LabOptions) -> Result<Vec<PreparedArm>, Failure> {
        let here = |build: &Obtained| -> Result<Obtained, Failure> {
            match build.is_intact() {
                Ok(Some(true)) => Ok(build.clone()),
                Ok(None) => {
                    let resolved = Catalog::builtin().resolve(&build.spec)?;
                    Ok(options.sources.obtainer(None)?.obtain(&resolved)?)
                }
                Ok(Some(false)) => Err(Failure::failed(format!(
                    "the copy of {} in the run's folder is not the file that was obtained (SHA-256 {}): start the run anew",
                    build.spec, build.sha256
                ))),
                Err(error) => {
                    Err(Failure::failed(format!("the copy of {} cannot be read: {error}", build.spec)))
                }
            }
        };
        self.arms
            .iter()
            .zip(&self.builds)
            .map(|(arm, build)| Ok(PreparedArm { arm: arm.clone(), obtained: here(build)? }))
            .collect()
    }
}

/// A folder on this node alone, which is gone with the task.
struct Scratch {
    path: PathBuf,
    /// By which another task of the same block sees that this one lives.
    _lock: File,
}

/// The file in it that is locked.
const SCRATCH_LOCK: &str = "lock";

impl Scratch {
    /// Where Slurm took a living task for dead, two of one block may be on one node. What an ended one left is of no use.
    fn create(parent: &Path, name: &str) -> Result<Self, Failure> {
        remove_leftovers(parent, name).map_err(|error| at(parent, error))?;
        let path = parent.join(format!("{name}.{}", std::process::id()));
        let make = || {
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            let lock = File::create(path.join(SCRATCH_LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        };
        let _lock = make().map_err(|error| at(&path, error))?;
        Ok(Self { path, _lock })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            say(&format!("{}: {error}", self.path.display()));
        }
    }
}

/// Removes scratch folders of that name whose task has ended.
fn remove_leftovers(parent: &Path, name: &str) -> io::Result<()> {
    for entry in fs::read_dir(parent)?.flatten() {
        let own = entry
            .file_name()
            .to_str()
            .and_then(|found| found.strip_prefix(name)?.strip_prefix('.'))
            .is_some();
        // One without the file is just being made, or empty.
        let Some(Ok(lock)) = own.then(|| File::open(entry.path().join(SCRATCH_LOCK))) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Kills for want of memory in the task's own control group, where a load is and a service that has no group of its own. An arm whose service is killed by the limit of its task would lose just
/// its largest readings.
struct OomKills(Option<(Cgroup, u64)>);

impl OomKills {
    fn since_now() -> Self {
        let own = Cgroup::of(&HostRoot::default(), std::process::id() as i32).ok().flatten();
        Self(own.and_then(|own| own.oom_kills().map(|kills| (own, kills))))
    }

    fn happened(&self) -> bool {
        self.0.as_ref().is_some_and(|(own, before)| own.oom_kills().is_some_and(|kills| kills > *before))
    }
}

/// Does something, and tells what this process and everything below it took meanwhile.
fn measured<E>(work: impl FnOnce() -> Result<RunOutcome, E>) -> Result<(RunOutcome, Used), E> {
    let started = Instant::now();
    let over = AtomicBool::new(false);
    let look = || {
        let mut most = FamilyUse::default();
        let mut due = Instant::now();
        while !over.load(Ordering::Relaxed) {
            if Instant::now() >= due {
                // A moment of which nothing is known changes nothing.
                if let Ok(now) = FamilyUse::read(&HostRoot::default(), std::process::id() as i32) {
                    most.rss_bytes = most.rss_bytes.max(now.rss_bytes);
                    most.cpu = most.cpu.max(now.cpu);
                }
                due = Instant::now() + LOOK_EVERY;
            }
            std::thread::sleep(LOOK_STEP);
        }
        most
    };
    let (result, most) = std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let result = work();
        over.store(true, Ordering::Relaxed);
        (result, looking.join().unwrap_or_default())
    });
    let seconds = started.elapsed().as_secs_f64();
    let used = Used {
        memory_bytes: most.rss_bytes,
        processors: most.cpu.as_secs_f64() / seconds.max(0.001),
        seconds,
    };
    result.map(|outcome| (outcome, used))
}

/// Puts what came of a block into the run's folder, all at once.
fn deliver(lab: &LabPlan, report: &BlockReport, folder: &RunFolder) -> Result<(), Failure> {
    let whole = folder.block(report.block);
    let own = format!("{}.{}.{}", block_name(report.block), report.node, std::process::id());
    let beside = folder.blocks().join(own);
    let copy = |from: &Path, to: &Path| -> Result<(), Failure> {
        fs::copy(from, to).and_then(|_| File::open(to)?.sync_all()).map_err(|error| at(to, error))
    };
    let put = || -> Result<(), Failure> {
        let logs = beside.join("logs");
        fs::create_dir_all(&logs).map_err(|error| at(&logs, error))?;
        copy(&lab.database, &beside.join("heaptrial.db"))?;
        let written = lab.folder.join("logs");
        for entry in fs::read_dir(&written).map_err(|error| at(&written, error))?.flatten() {
            copy(&entry.path(), &logs.join(entry.file_name()))?;
        }
        write(&beside.join("block.json"), report)?;
        fs::rename(&beside, &whole).map_err(|error| at(&whole, error))
    };
    let delivered = put();
    if delivered.is_err() {
        // What is only a part would stand in the way of the next attempt.
        let _ = fs::remove_dir_all(&beside);
    }
    // Slurm may have taken a node for dead that lives: another task was first, and one result is as good as the other.
    if whole.exists() { Ok(()) } else { delivered }
}

/// What is told goes into the task's log.
struct Told;

impl Progress for Told {
    fn message(&mut self, text: &str) {
        say(text);
    }
}
