//! Lab runs of one command: what they have in common, and how one is carried out.

use std::path::{Path, PathBuf};

use heaptrial_lab::{Accounting, Interrupt, LabPlan, PreparedArm, RunOutcome, Userland};
use heaptrial_model::{Metric, TrialPlan};

use super::options::On;
use super::repeat_command::RepeatCommand;
use super::search::Timed;
use super::slurm::Slurm;
use super::{LabOptions, OWN_PROGRAM, accounting, check, heeding_signals};
use crate::exit::Failure;
use crate::progress::LiveProgress;

pub(super) struct Bench<'a> {
    pub(super) options: &'a LabOptions,
    pub(super) timed: &'a Timed,
    pub(super) metric: Metric,
    pub(super) interrupt: Interrupt,
    command: &'a RepeatCommand,
    accounting: Accounting,
    cluster: Option<Slurm>,
}

impl<'a> Bench<'a> {
    /// Refuses what no run of these arms could do. `home` is a folder that all runs of the command share.
    pub(super) fn new(
        options: &'a LabOptions,
        timed: &'a Timed,
        arms: &TrialPlan,
        command: &'a RepeatCommand,
        home: &Path,
    ) -> Result<Self, Failure> {
        let bench = Self::of_task(options, timed, arms, command, options.on)?;
        Ok(Self { cluster: options.cluster(home.to_owned())?, ..bench })
    }

    /// The same for blocks that are carried out here.
    pub(super) fn of_task(
        options: &'a LabOptions,
        timed: &'a Timed,
        arms: &TrialPlan,
        command: &'a RepeatCommand,
        on: On,
    ) -> Result<Self, Failure> {
        let metric = check(options, arms, timed)?;
        let accounting = accounting(options, metric, on)?;
        let interrupt = heeding_signals(on)?;
        Ok(Self { options, timed, metric, interrupt, command, accounting, cluster: None })
    }

    /// A run in its folder, which exists.
    pub(super) fn run_in(
        &self,
        folder: &Path,
        name: &str,
        arms: Vec<PreparedArm>,
        repeats: u32,
        seed: u64,
    ) -> LabPlan {
        LabPlan {
            name: name.to_owned(),
            arms,
            repeats,
            duration: self.timed.1.map(|duration| duration.0),
            tick: self.options.tick.0,
            metric: self.metric,
            accounting: self.accounting.clone(),
            memory_limit_bytes: self.options.memory_limit,
            seed,
            processors: self.options.processors,
            command: self.command.to_string(),
            database: folder.join("heaptrial.db"),
            folder: folder.to_owned(),
            supervisor: PathBuf::from(OWN_PROGRAM),
            userland: Userland::current(),
        }
    }

    /// Carries out all blocks of a run, here or on the cluster.
    pub(super) fn carry_out(&self, run: &LabPlan, plan: &TrialPlan) -> Result<RunOutcome, Failure> {
        describe(run, plan)?;
        let (workload, mut progress) = (self.timed.0.as_ref(), LiveProgress::new());
        match &self.cluster {
            Some(slurm) => slurm.run(run, plan, self.command, workload, &self.interrupt, &mut progress),
            None => Ok(heaptrial_lab::run(run, workload, None, &self.interrupt, &mut progress)?),
        }
    }
}

/// Writes the plan and the command into the run's folder, so that it explains itself.
fn describe(run: &LabPlan, plan: &TrialPlan) -> Result<(), Failure> {
    let write = |name: &str, text: String| {
        let path = run.folder.join(name);
        std::fs::write(&path, text).map_err(Failure::file(&path))
    };
    let plan = serde_json::to_string_pretty(plan).map_err(Failure::failed)?;
    write("plan.json", format!("{plan}\n"))?;
    let folder = std::env::current_dir().unwrap_or_default();
    write("command.txt", format!("cd {}\n{}\n", shell_words::quote(&folder.to_string_lossy()), run.command))?;
    let builds: Vec<_> = run.arms.iter().map(|arm| &arm.obtained).collect();
    let builds = serde_json::to_string_pretty(&builds).map_err(Failure::failed)?;
    write("allocators.json", format!("{builds}\n"))
}
