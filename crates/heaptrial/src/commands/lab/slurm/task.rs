//! A block on a node: the internal command that a task of the array runs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_host::{Cgroup, HostFacts, HostRoot, host_name};
use heaptrial_lab::{LabPlan, PreparedArm, Progress};
use heaptrial_model::TrialPlan;
use heaptrial_store::Store;

use super::folder::{BlockReport, KeptRun, RunFolder, write};
use crate::commands::Command;
use crate::commands::lab::bench::Bench;
use crate::commands::lab::options::On;
use crate::commands::lab::search::Timed;
use crate::commands::lab::{LabCommand, LabOptions};
use crate::exit::Failure;

/// The internal command: the run's folder and the block's number, from 1, follow.
pub const BLOCK_COMMAND: &str = "lab-block";

/// Carries out a block and leaves its results in the run's folder.
pub fn run_task(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let folder = arguments.next().map(|folder| RunFolder(PathBuf::from(folder)));
    let number = arguments.next().and_then(|number| number.to_str()?.parse::<u32>().ok()?.checked_sub(1));
    let (Some(folder), Some(block)) = (folder, number) else {
        eprintln!("usage: heaptrial {BLOCK_COMMAND} FOLDER NUMBER");
        return ExitCode::from(2);
    };
    let node = node();
    say(&format!("block {} on {node}", block + 1));
    match carry_out(&folder, block, &node) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            say("interrupted; nothing of it is kept");
            ExitCode::FAILURE
        }
        Err(why) => {
            say(&why.to_string());
            if let Err(error) = fs::write(folder.failure(block), format!("on {node}: {why}")) {
                say(&format!("{}: {error}", folder.0.display()));
            }
            ExitCode::FAILURE
        }
    }
}

/// A line of the task's log; where that is full, the exit code has to do.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The node as Slurm calls it.
fn node() -> String {
    let named = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| host_name(&HostRoot::default()).unwrap_or_else(|_| "unknown".to_owned()))
}

/// False if it was interrupted, as when its task is cancelled.
fn carry_out(folder: &RunFolder, block: u32, node: &str) -> Result<bool, Failure> {
    let run = folder.read_run()?.ok_or_else(|| Failure::failed("the run's folder holds no run"))?;
    if folder.block(block).exists() {
        return Ok(true);
    }
    std::env::set_current_dir(&run.directory).map_err(Failure::file(&run.directory))?;
    let mut facts = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
    // A task sees all processors of its node and may use some: allocators size themselves by those.
    let given = std::thread::available_parallelism().map_or(facts.cpu_count, |count| count.get() as u32);
    facts.cpu_count = facts.cpu_count.min(given);
    let command = run.command.parse()?;
    let (options, timed) = asked(&command, &run.plan)?;
    let bench = Bench::of_task(options, &timed, &run.plan, &run.command, On::Here)?;
    // On this node alone: a database needs locks that a network file system may lack.
    let scratch = tempfile::Builder::new().prefix("heaptrial-block-").tempdir().map_err(Failure::failed)?;
    let arms = run.arms_here(options)?;
    let lab = bench.run_in(scratch.path(), &run.plan.name, arms, run.repeats, run.seed);
    let kills_before = oom_kills();
    let outcome = heaptrial_lab::run(&lab, timed.0.as_ref(), Some(block), &bench.interrupt, &mut ToLog);
    // Slurm ends services together with the task: what fails then is no failure of the block.
    if bench.interrupt.requested() {
        return Ok(false);
    }
    let outcome = outcome?;
    // An arm whose service was killed by the limit of the task would lose just its largest readings.
    if lab.memory_limit_bytes.is_none() && oom_kills() > kills_before {
        return Err(Failure::failed(
            "a process was OOM-killed in its task: --slurm mem=SIZE asks for more memory",
        ));
    }
    Store::create(&lab.database).and_then(Store::into_one_file)?;
    let report = BlockReport { node: node.to_owned(), facts, outcome };
    deliver(&lab, &report, folder, block)?;
    Ok(true)
}

/// Options and workload of a command that carries out lab runs, over the arms of `plan`.
fn asked<'a>(command: &'a Command, plan: &TrialPlan) -> Result<(&'a LabOptions, Timed), Failure> {
    let load = match command {
        Command::Lab(LabCommand::Run(run)) => return Ok((&run.lab, run.workload(plan)?)),
        Command::Lab(LabCommand::Tor(tor)) => return Ok((&tor.lab, tor.workload(plan)?)),
        Command::Lab(LabCommand::Bisect(bisect)) => bisect.load()?,
        Command::Lab(LabCommand::Tune(tune)) => tune.load()?,
        _ => return Err(Failure::failed("the run's command carries out no lab run")),
    };
    Ok((load.options(), load.workload(plan)?))
}

impl KeptRun {
    /// The arms with their allocators as they were obtained. The host's own C library is that of this node.
    fn arms_here(&self, options: &LabOptions) -> Result<Vec<PreparedArm>, Failure> {
        let here = |build: &Obtained| -> Result<Obtained, Failure> {
            match build.is_intact() {
                Ok(Some(true)) => Ok(build.clone()),
                Ok(None) => {
                    Ok(options.sources.obtainer(None)?.obtain(&Catalog::builtin().resolve(&build.spec)?)?)
                }
                Ok(Some(false)) => Err(Failure::failed(format!(
                    "the copy of {} in the run's folder has changed: begin again in another folder",
                    build.spec
                ))),
                Err(error) => {
                    Err(Failure::failed(format!("the copy of {} cannot be read: {error}", build.spec)))
                }
            }
        };
        let pairs = self.plan.arms.iter().zip(&self.builds);
        pairs.map(|(arm, build)| Ok(PreparedArm { arm: arm.clone(), obtained: here(build)? })).collect()
    }
}

/// OOM kills in the task's own control group.
fn oom_kills() -> Option<u64> {
    Cgroup::of(&HostRoot::default(), std::process::id() as i32).ok().flatten()?.oom_kills()
}

/// Puts the results of a block into the run's folder, all at once.
fn deliver(lab: &LabPlan, report: &BlockReport, folder: &RunFolder, block: u32) -> Result<(), Failure> {
    let copy = |from: &Path, to: &Path| -> Result<(), Failure> {
        fs::copy(from, to).and_then(|_| File::open(to)?.sync_all()).map_err(Failure::file(to))
    };
    let logs = lab.folder.join("logs");
    for entry in fs::read_dir(&logs).map_err(Failure::file(&logs))?.flatten() {
        copy(&entry.path(), &folder.service_logs().join(entry.file_name()))?;
    }
    let part = tempfile::Builder::new().prefix("part-").tempdir_in(folder.blocks());
    let part = part.map_err(Failure::file(&folder.blocks()))?;
    copy(&lab.database, &part.path().join("heaptrial.db"))?;
    write(&part.path().join("block.json"), report)?;
    let renamed = fs::rename(part.path(), folder.block(block));
    // Slurm may take a living node for dead: another task was first, and its results are as good.
    if folder.block(block).exists() { Ok(()) } else { renamed.map_err(Failure::file(&folder.block(block))) }
}

/// Messages go into the task's log.
struct ToLog;

impl Progress for ToLog {
    fn message(&mut self, text: &str) {
        say(text);
    }
}
