//! Where the blocks of a lab run are carried out: on this machine, or as tasks of a cluster.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use heaptrial_lab::slurm::{Cluster, SubmitOption};
use heaptrial_lab::{Interrupt, LabPlan, Progress, RunOutcome, Workload};
use heaptrial_model::TrialPlan;

use super::repeat_command::RepeatCommand;
use super::slurm::Slurm;
use crate::exit::Failure;

/// Where blocks are carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// One after the other on this machine
    #[default]
    Here,
    /// Each as a task of a job array of Slurm
    Slurm,
}

/// Options that say where.
#[derive(Debug, Args)]
pub(super) struct ExecutorOptions {
    /// Where blocks (repeats of a group of arms) are carried out: here, or on a cluster by Slurm; the folder of the run has to
    /// be on a file system that its nodes share. The same command with the same --out runs what has no results again
    #[arg(long, value_enum, default_value_t = On::Here, value_name = "WHERE")]
    pub(super) on: On,
    /// An option of sbatch in its long form, such as partition=short, account=lab, mem=4G, time=60 or exclusive; repeat it
    #[arg(long, value_name = "OPTION")]
    slurm: Vec<SubmitOption>,
}

impl ExecutorOptions {
    /// Refuses options of a cluster here, and a userland there.
    pub(super) fn check(&self, userland: bool) -> Result<(), Failure> {
        if let (On::Here, Some(option)) = (self.on, self.slurm.first()) {
            return Err(Failure::usage(format!(
                "--slurm {option} is asked of a cluster, and this runs here: add --on slurm, or leave it out"
            )));
        }
        if userland && self.on == On::Slurm {
            return Err(Failure::usage(
                "--userland makes files on this machine that nodes of a cluster do not see; leave it or --on slurm out",
            ));
        }
        Ok(())
    }

    /// Refuses a host without a cluster. `home` is a folder that all runs of a command share, for the program itself.
    pub(super) fn executor(&self, home: PathBuf) -> Result<Executor, Failure> {
        match self.on {
            On::Here => Ok(Executor::Local),
            On::Slurm => {
                Ok(Executor::Slurm(Slurm { cluster: Cluster::find()?, options: self.slurm.clone(), home }))
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum Executor {
    Local,
    Slurm(Slurm),
}

impl Executor {
    /// Carries out all blocks of a run, whose folder exists.
    ///
    /// Tasks of a cluster parse `command` again: options and workload come from there; arms, seed and builds from the plan.
    pub(super) fn run(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        command: &RepeatCommand,
        workload: &dyn Workload,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<RunOutcome, Failure> {
        match self {
            Self::Local => Ok(heaptrial_lab::run(lab, workload, interrupt, progress)?),
            Self::Slurm(slurm) => slurm.run(lab, plan, command, workload, interrupt, progress),
        }
    }

    /// Whether the run's folder holds this very run, to be completed: one on this machine ended with its process.
    pub(super) fn can_complete(&self, lab: &LabPlan, plan: &TrialPlan, command: &RepeatCommand) -> bool {
        matches!(self, Self::Slurm(_)) && super::slurm::is_in(lab, plan, command)
    }
}
