//! Lab runs on a cluster: their blocks are tasks of one array of Slurm.
//!
//! The folder of the run is all that this process and the tasks share. The same command looks there for what is missing, waits
//! for tasks of it that are in the queue, and submits the others.

mod collect;
mod folder;
mod task;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_lab::slurm::{Cluster, Request, SubmitOption};
use heaptrial_lab::{Interrupt, LabPlan, Progress, RunOutcome, Workload};
use heaptrial_model::{HumanDuration, TrialPlan, units};
use rustix::fs::{FlockOperation, flock};

use self::collect::Collector;
use self::folder::{KeptRun, RunFolder, at};
pub use self::task::{BLOCK_COMMAND, run_task};
use super::OWN_PROGRAM;
use super::repeat_command::RepeatCommand;
use crate::exit::Failure;

/// How often results are looked for, and how often the controller is asked, which all users of a cluster share.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const ASK_EVERY: Duration = Duration::from_secs(5);
/// A network file system may show the results of a task so much later.
const LATE: Duration = Duration::from_secs(75);
/// Cancelled tasks are killed after KillWait, usually 30 s.
const CANCELLED_FOR: Duration = Duration::from_secs(40);
/// What the dynamic loader, `sbatch` and a shell read otherwise in a path.
const UNUSABLE: [char; 9] = [' ', ':', ';', '%', '\t', '\n', '\\', '\'', '"'];

/// A cluster, and what is asked of it.
#[derive(Debug)]
pub(super) struct Slurm {
    pub(super) cluster: Cluster,
    pub(super) options: Vec<SubmitOption>,
    /// Holds the program that tasks run.
    pub(super) home: PathBuf,
}

/// The seed of the run that a folder holds.
pub(super) fn seed_in(folder: &Path) -> Option<u64> {
    RunFolder(folder.to_owned()).read_run().ok().flatten().map(|run| run.seed)
}

/// Whether the run's folder holds this very run.
pub(super) fn is_in(lab: &LabPlan, plan: &TrialPlan, command: &RepeatCommand) -> bool {
    let found = RunFolder(lab.folder.clone()).read_run().ok().flatten();
    found.is_some_and(|run| same(run, lab, plan, command).is_ok())
}

impl Slurm {
    /// Carries out what the run's folder has no results of.
    pub(super) fn run(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        command: &RepeatCommand,
        workload: &dyn Workload,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<RunOutcome, Failure> {
        let folder = RunFolder(lab.folder.clone());
        folder.create()?;
        let _lock = lock(&folder)?;
        let run = match folder.read_run()? {
            Some(run) => same(run, lab, plan, command)?,
            None => self.write_down(lab, plan, command, workload, &folder)?,
        };
        let mut collector = Collector::new(&folder, &run, &lab.database);
        let missing = self.wait(&folder, &run, &mut collector, interrupt, progress)?;
        let interrupted = interrupt.requested() && !missing.is_empty();
        let reasons: Vec<(u32, String)> =
            missing.into_iter().map(|block| (block, folder.why_failed(block))).collect();
        collector.end(interrupted, &reasons)?;
        match reasons.first() {
            Some((first, why)) if !interrupted => Err(Failure::failed(format!(
                "no results of {} of {}; block {}: {why}",
                reasons.len(),
                units::counted(run.blocks.len(), "block"),
                first + 1
            ))
            .hint(format!(
                "what has results is kept; the same command with --out {} runs the others again",
                folder.0.display()
            ))),
            _ => collector.outcome(interrupted),
        }
    }

    /// Submits, and waits until all blocks have results or their tasks are gone; returns the blocks without results.
    fn wait(
        &self,
        folder: &RunFolder,
        run: &KeptRun,
        collector: &mut Collector,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Vec<u32>, Failure> {
        let name = format!("heaptrial-{}", run.token);
        let mut submitted = false;
        let mut last_line = String::new();
        let mut asked: Option<Instant> = None;
        let mut seen = Instant::now();
        loop {
            collector.take_arrived(progress)?;
            let missing = collector.missing();
            if missing.is_empty() {
                return Ok(missing);
            }
            if interrupt.requested() {
                progress.message("interrupted: tasks are cancelled; blocks that have results are kept");
                self.cancel(&name)?;
                collector.take_arrived(progress)?;
                return Ok(collector.missing());
            }
            if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
                asked = Some(Instant::now());
                let line = match self.cluster.tasks(&name) {
                    Ok(tasks) if !tasks.is_empty() => {
                        seen = Instant::now();
                        let waiting = tasks.iter().filter(|task| task.node.is_empty()).count();
                        format!("{} of its tasks run, {waiting} wait", tasks.len() - waiting)
                    }
                    Ok(_) if !submitted => {
                        submitted = true;
                        seen = Instant::now();
                        self.submit(folder, &name, &missing)?
                    }
                    Ok(_) => {
                        let failed = |block: &u32| folder.failure(*block).is_some();
                        if missing.iter().all(failed) || seen.elapsed() > LATE {
                            return Ok(missing);
                        }
                        continue;
                    }
                    // Its controller may be restarted at this moment.
                    Err(error) => format!("{error}; it is asked again"),
                };
                if line != last_line {
                    progress.message(&line);
                    last_line = line;
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn submit(&self, folder: &RunFolder, name: &str, blocks: &[u32]) -> Result<String, Failure> {
        blocks.iter().for_each(|block| folder.forget_failure(*block));
        let tasks: Vec<u32> = blocks.iter().map(|block| block + 1).collect();
        let (script, logs) = (folder.script(), folder.task_logs());
        let request = Request { name, tasks: &tasks, script: &script, logs: &logs, options: &self.options };
        let job = self.cluster.submit(&request)?;
        Ok(format!("{} submitted as job {job}", units::counted(blocks.len(), "block")))
    }

    /// Waits until the tasks have ended: a task that is delivering its results still does.
    fn cancel(&self, name: &str) -> Result<(), Failure> {
        self.cluster.cancel(name)?;
        let until = Instant::now() + CANCELLED_FOR;
        while Instant::now() < until && !self.cluster.tasks(name)?.is_empty() {
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    /// Writes down all that tasks need.
    fn write_down(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        command: &RepeatCommand,
        workload: &dyn Workload,
        folder: &RunFolder,
    ) -> Result<KeptRun, Failure> {
        let shown = folder.0.to_str().filter(|path| !path.contains(UNUSABLE)).ok_or_else(|| {
            Failure::refused(format!(
                "{}: libraries are preloaded from the run's folder, whose path can have no blanks, quotes, colons, semicolons, \
                 backslashes and percent signs; name another with --out",
                folder.0.display()
            ))
        })?;
        let program = self.program()?;
        let script = format!(
            "#!/bin/sh\nexec {} {BLOCK_COMMAND} {shown} \"$SLURM_ARRAY_TASK_ID\"\n",
            program.display()
        );
        fs::write(folder.script(), script).map_err(|error| at(&folder.script(), error))?;
        let copied = lab.arms.iter().map(|arm| {
            let copied = arm.obtained.copied_below(&folder.allocators());
            copied.map_err(|error| {
                Failure::failed(format!(
                    "the allocator of arm `{}` cannot be copied to {shown}: {error}",
                    arm.arm.name
                ))
            })
        });
        let run = KeptRun {
            token: format!("{:016x}", rand::random::<u64>()),
            name: lab.name.clone(),
            command: command.clone(),
            directory: std::env::current_dir().map_err(Failure::failed)?,
            arms: plan.arms.clone(),
            duration: plan.duration.or(lab.duration.map(HumanDuration)),
            metric: lab.metric,
            builds: copied.collect::<Result<_, _>>()?,
            repeats: lab.repeats,
            seed: lab.seed,
            blocks: lab.schedule(workload).blocks(),
        };
        folder.write_run(&run)?;
        Ok(run)
    }

    /// This very program at a place that nodes see.
    fn program(&self) -> Result<PathBuf, Failure> {
        let program = self.home.join("slurm").join("heaptrial");
        if program.is_file() {
            return Ok(program);
        }
        let copy = program.with_extension("new");
        let copied = fs::create_dir_all(self.home.join("slurm"))
            .and_then(|()| fs::copy(OWN_PROGRAM, &copy))
            .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::rename(&copy, &program));
        copied.map_err(|error| at(&program, error))?;
        Ok(program)
    }
}

/// Refuses to complete a run by another one.
fn same(run: KeptRun, lab: &LabPlan, plan: &TrialPlan, command: &RepeatCommand) -> Result<KeptRun, Failure> {
    let refuse = |what: &str| {
        Err(Failure::refused(format!(
            "{} holds a run of {what}; name another folder with --out",
            lab.folder.display()
        )))
    };
    let builds = lab.arms.iter().map(|arm| &arm.obtained.sha256);
    if !run.command.runs_as(command) || run.arms != plan.arms || run.seed != lab.seed {
        return refuse(&format!("another command, `{}`", run.command));
    }
    if !run.builds.iter().map(|build| &build.sha256).eq(builds) {
        return refuse("other builds of its allocators");
    }
    Ok(run)
}

/// Two processes would submit twice.
fn lock(folder: &RunFolder) -> Result<File, Failure> {
    let path = folder.lock();
    let file = File::create(&path).map_err(|error| at(&path, error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Failure::refused(format!("another process waits for the run in {}", folder.0.display())))
        }
        Err(error) => Err(at(&path, error.into())),
    }
}
