//! Where the blocks of a lab run are carried out: here, or as tasks of a cluster.
//!
//! A command that has a [`LabPlan`] and its workload hands both to a [`Place`], and gets back what a lab run on this machine
//! gives: the outcome, with all blocks in the plan's database.

mod asked;
mod attach;
mod collect;
mod course;
mod kept;
mod submissions;
mod submit;
mod task;
mod watch;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use heaptrial_lab::{Interrupt, LabPlan, Progress, RunOutcome, Workload};
use heaptrial_model::TrialPlan;
use heaptrial_slurm::SubmitOption;

pub use self::attach::AttachOptions;
pub(super) use self::attach::attach;
pub use self::task::{BLOCK_COMMAND, run_task};
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
pub(super) struct PlaceOptions {
    /// Where blocks (repeats of a group of arms) are carried out: here, or on a cluster by Slurm; the folder of the run has to
    /// be on a file system that its nodes share
    #[arg(long, value_enum, default_value_t = On::Here, value_name = "WHERE")]
    pub(super) on: On,
    /// An option of sbatch in its long form, such as partition=short, account=lab, mem=4G or exclusive; repeat it. What is not
    /// asked for of memory, processors and time is what the first block used, with a margin
    #[arg(long, value_name = "OPTION")]
    slurm: Vec<SubmitOption>,
}

impl PlaceOptions {
    /// The options as words of a command line that repeats the run.
    pub(super) fn words(&self) -> Vec<String> {
        match self.on {
            On::Here => Vec::new(),
            On::Slurm => std::iter::once("--on slurm".to_owned())
                .chain(
                    self.slurm
                        .iter()
                        .map(|option| format!("--slurm {}", shell_words::quote(&option.to_string()))),
                )
                .collect(),
        }
    }

    /// Refuses what is on this machine alone, and what is of a cluster alone.
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

    /// Refuses a cluster that is none, before anything is written.
    pub(super) fn reach(&self) -> Result<(), Failure> {
        match self.on {
            On::Here => Ok(()),
            On::Slurm => Ok(heaptrial_slurm::Cluster::find().map(drop)?),
        }
    }

    /// The place; refuses a cluster that is none. `home` is a folder that all runs of a command share, for the program itself.
    pub(super) fn place(&self, home: PathBuf) -> Result<Place, Failure> {
        match self.on {
            On::Here => Ok(Place::Here),
            On::Slurm => {
                let cluster = heaptrial_slurm::Cluster::find()?;
                Ok(Place::Slurm(Slurm { cluster, options: self.slurm.clone(), home }))
            }
        }
    }
}

/// Where blocks are carried out.
#[derive(Debug)]
pub(super) enum Place {
    /// One after the other on this machine.
    Here,
    /// Each as a task of a job array.
    Slurm(Slurm),
}

/// A cluster, and what is asked of it.
#[derive(Debug)]
pub(super) struct Slurm {
    cluster: heaptrial_slurm::Cluster,
    options: Vec<SubmitOption>,
    home: PathBuf,
}

impl Place {
    /// Carries out all blocks of a run, whose folder exists.
    ///
    /// On a cluster each block is found again by the run's command, which must therefore be one that this program reads: its
    /// options and its workload are taken from there, arms, seed and builds from the plan.
    pub(super) fn run(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        workload: &dyn Workload,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<RunOutcome, Failure> {
        match self {
            Self::Here => Ok(heaptrial_lab::run(lab, workload, interrupt, progress)?),
            Self::Slurm(slurm) => slurm.run(lab, plan, workload, interrupt, progress),
        }
    }

    /// Takes up a run that a process before this one began in its folder and did not see the end of: waits for what is under way,
    /// and takes in what came of it. `None` where nothing of this very run will come. With the seconds that it took.
    pub(super) fn take_up(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Option<(RunOutcome, f64)>, Failure> {
        match self {
            // What runs here ends with its process.
            Self::Here => Ok(None),
            Self::Slurm(slurm) => slurm.take_up(lab, plan, interrupt, progress),
        }
    }
}
