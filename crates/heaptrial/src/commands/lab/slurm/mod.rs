//! Lab runs on a cluster: their blocks are tasks of one array of Slurm.
//!
//! The folder of the run is all that this process and the tasks share. The same command looks there for what is missing, waits
//! for tasks of it that are in the queue, and submits the others.

mod folder;
mod task;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_lab::slurm::{Cluster, Request, SubmitOption};
use heaptrial_lab::{Interrupt, LabPlan, Progress, RunOutcome, Workload};
use heaptrial_model::{HumanDuration, TrialPlan, units};
use heaptrial_store::{BlockOf, Store};

use self::folder::{BlockReport, KeptRun, RunFolder, read, write};
pub use self::task::{BLOCK_COMMAND, run_task};
use super::OWN_PROGRAM;
use super::repeat_command::RepeatCommand;
use super::search::lock;
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

/// A run whose blocks are collected in one database.
struct Collection {
    folder: RunFolder,
    run: KeptRun,
    database: PathBuf,
    missing: Vec<u32>,
    outcome: Option<RunOutcome>,
}

/// The seed of the run that a folder holds.
pub(super) fn seed_in(folder: &Path) -> Option<u64> {
    RunFolder(folder.to_owned()).read_run().ok().flatten().map(|run| run.seed)
}

impl Slurm {
    /// Carries out the blocks of a run of which its folder has no results.
    ///
    /// Tasks parse `command` again: options and workload come from there; arms, seed and builds from the plan.
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
        // Two processes would submit twice.
        let _lock = lock(&folder.own("lock"), || {
            format!("another process waits for the run in {}", folder.0.display())
        })?;
        let run = match folder.read_run()? {
            Some(run) => same(run, lab, plan, command)?,
            None => self.write_down(lab, plan, command, workload, &folder)?,
        };
        let missing = run.blocks.clone();
        let mut collection =
            Collection { folder, run, database: lab.database.clone(), missing, outcome: None };
        self.wait(&mut collection, interrupt, progress)?;
        collection.end(interrupt.requested())
    }

    /// Submits, and waits until all blocks have results or their tasks are gone.
    fn wait(
        &self,
        collection: &mut Collection,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let name = format!("heaptrial-{}", collection.run.token);
        let mut submitted = false;
        let mut last_line = String::new();
        let mut asked: Option<Instant> = None;
        let mut seen = Instant::now();
        loop {
            collection.take_arrived(progress)?;
            if collection.missing.is_empty() {
                return Ok(());
            }
            if interrupt.requested() {
                progress.message("interrupted: tasks are cancelled; blocks that have results are kept");
                self.cancel(&name)?;
                return collection.take_arrived(progress);
            }
            if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
                asked = Some(Instant::now());
                let line = match self.cluster.tasks(&name) {
                    Ok((0, 0)) if !submitted => {
                        submitted = true;
                        seen = Instant::now();
                        self.submit(collection, &name)?
                    }
                    Ok((0, 0)) => {
                        if collection.all_failed() || seen.elapsed() > LATE {
                            return Ok(());
                        }
                        continue;
                    }
                    Ok((running, waiting)) => {
                        seen = Instant::now();
                        format!("{running} of its tasks run, {waiting} wait")
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

    fn submit(&self, collection: &Collection, name: &str) -> Result<String, Failure> {
        let Collection { folder, missing, .. } = collection;
        for block in missing {
            // Usually there is none.
            let _ = fs::remove_file(folder.failure(*block));
        }
        let tasks: Vec<u32> = missing.iter().map(|block| block + 1).collect();
        let (script, logs) = (folder.own("block.sh"), folder.own("log"));
        let request = Request { name, tasks: &tasks, script: &script, logs: &logs, options: &self.options };
        let job = self.cluster.submit(&request)?;
        Ok(format!("{} submitted as job {job}", units::counted(missing.len(), "block")))
    }

    /// Waits until the tasks have ended: a task that is delivering its results still does.
    fn cancel(&self, name: &str) -> Result<(), Failure> {
        self.cluster.cancel(name)?;
        let until = Instant::now() + CANCELLED_FOR;
        while Instant::now() < until && self.cluster.tasks(name)? != (0, 0) {
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
        let path = folder.own("block.sh");
        fs::write(&path, script).map_err(Failure::file(&path))?;
        let copied = lab.arms.iter().map(|arm| {
            let copied = arm.obtained.copied_below(&folder.own("allocators"));
            copied.map_err(|error| Failure::failed(error).about(format!("arm `{}`", arm.arm.name)))
        });
        let run = KeptRun {
            token: format!("{:016x}", rand::random::<u64>()),
            command: command.clone(),
            directory: std::env::current_dir().map_err(Failure::failed)?,
            plan: TrialPlan {
                duration: plan.duration.or(lab.duration.map(HumanDuration)),
                metric: Some(lab.metric),
                ..plan.clone()
            },
            builds: copied.collect::<Result<_, _>>()?,
            repeats: lab.repeats,
            seed: lab.seed,
            blocks: lab.schedule(workload).blocks(),
        };
        write(&folder.own("run.json"), &run)?;
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
        copied.map_err(Failure::file(&program))?;
        Ok(program)
    }
}

impl Collection {
    fn take_arrived(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        for block in self.missing.clone() {
            if self.folder.has_arrived(block)? {
                let node = self.take(block)?;
                self.missing.retain(|other| *other != block);
                let (left, of) = (self.missing.len(), units::counted(self.run.blocks.len(), "block"));
                progress.message(&format!("block {} from {node}: {left} of {of} left", block + 1));
            }
        }
        Ok(())
    }

    /// The store takes a block once, whoever did so.
    fn take(&mut self, block: u32) -> Result<String, Failure> {
        let from = self.folder.block(block);
        let report: BlockReport = read(&from.join("block.json"))?;
        let facts = serde_json::to_value(&report.facts).map_err(Failure::failed)?;
        let of = BlockOf {
            run: &self.run.token,
            block,
            node: &report.node,
            facts: &facts,
            now_us: heaptrial_host::Instant::now().wall_us,
        };
        let trial_id = Store::create(&self.database)?.take_block(&from.join("heaptrial.db"), &of)?;
        let whole = self.outcome.get_or_insert(RunOutcome { trial_id, ..RunOutcome::default() });
        whole.add(report.outcome);
        Ok(report.node)
    }

    fn all_failed(&self) -> bool {
        self.missing.iter().all(|block| self.folder.failure(*block).exists())
    }

    /// Ends the run in its database.
    fn end(self, interrupted: bool) -> Result<RunOutcome, Failure> {
        let word = match self.missing.first() {
            None => "completed",
            Some(_) if interrupted => "interrupted",
            Some(_) => "failed",
        };
        if let Some(outcome) = &self.outcome {
            let now_us = heaptrial_host::Instant::now().wall_us;
            Store::create(&self.database)?.end_trial(outcome.trial_id, now_us, word)?;
        }
        match self.missing.first() {
            Some(first) if !interrupted => Err(Failure::failed(format!(
                "no results of {} of {}; block {}: {}",
                self.missing.len(),
                units::counted(self.run.blocks.len(), "block"),
                first + 1,
                self.folder.why_failed(*first)
            ))
            .hint(format!(
                "what has results is kept; the same command with --out {} runs the others again",
                self.folder.0.display()
            ))),
            missing => {
                let outcome =
                    self.outcome.map(|outcome| RunOutcome { interrupted: missing.is_some(), ..outcome });
                outcome.ok_or_else(|| Failure::failed("it was interrupted before any block had results"))
            }
        }
    }
}

/// Refuses to complete a run by another one.
fn same(run: KeptRun, lab: &LabPlan, plan: &TrialPlan, command: &RepeatCommand) -> Result<KeptRun, Failure> {
    let builds = lab.arms.iter().map(|arm| &arm.obtained.sha256);
    let is_same = run.command.runs_as(command)
        && run.plan.arms == plan.arms
        && run.seed == lab.seed
        && run.builds.iter().map(|build| &build.sha256).eq(builds);
    match is_same {
        true => Ok(run),
        false => Err(Failure::refused(format!(
            "{} holds a run of another command, `{}`, or of other builds of its allocators; name another folder with --out",
            lab.folder.display(),
            run.command
        ))),
    }
}
