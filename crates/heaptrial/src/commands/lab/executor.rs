//! Where the blocks of a lab run are carried out: on this machine, or as tasks of a cluster.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use heaptrial_lab::slurm::{Cluster, SubmitOption};

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

    /// The cluster, where it is to be one; refuses a host without. `home` is a folder that all runs of a command share, for the
    /// program itself.
    pub(super) fn cluster(&self, home: PathBuf) -> Result<Option<Slurm>, Failure> {
        match self.on {
            On::Here => Ok(None),
            On::Slurm => Ok(Some(Slurm { cluster: Cluster::find()?, options: self.slurm.clone(), home })),
        }
    }
}
