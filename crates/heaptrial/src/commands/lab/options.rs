//! What every lab run can be asked for.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use heaptrial_allocator::Catalog;
use heaptrial_lab::Userland;
use heaptrial_lab::slurm::{Cluster, SubmitOption};
use heaptrial_model::{AllocatorSpec, HumanDuration, Metric, TrialName, TrialPlan};

use super::slurm::Slurm;
use crate::commands::allocators::SourceOptions;
use crate::commands::value::{ValueError, size};
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

/// Options of every lab run.
#[derive(Debug, Args)]
pub(super) struct LabOptions {
    /// An arm: an allocator such as glibc, jemalloc@5.3.0 or mimalloc@3.0.1?purge_delay=0; repeat it,
    /// the first is the control [default: several that are worth a trial, see docs/examples]
    #[arg(short, long = "allocator", value_name = "SPEC", conflicts_with = "arms")]
    pub(super) allocators: Vec<AllocatorSpec>,
    /// Arms from a trial plan in TOML
    #[arg(long, value_name = "FILE")]
    pub(super) arms: Option<PathBuf>,
    /// The run's name [default: of the plan, or of the program]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<TrialName>,
    /// How often each arm is repeated
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// Seed of order, directory and load [default: drawn, and printed]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Time from one sample to the next
    #[arg(long, default_value = "1s", value_name = "DURATION", hide_short_help = true)]
    pub(super) tick: HumanDuration,
    /// Which reading is compared: anon (anonymous memory and swap of all processes, each page once), rss (sum over the
    /// processes), or cgroup (with page cache) [default: the plan's, or anon]
    #[arg(long, value_name = "METRIC", value_parser = lab_metric, hide_short_help = true)]
    pub(super) metric: Option<Metric>,
    /// Run the arms' allocators as on a machine with N processors, by their own settings (glibc makes 8 arenas for each,
    /// jemalloc 4) [default: as on those of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(hide_short_help = true)]
    pub(super) processors: Option<u32>,
    /// Take processors, userland and what else bears on memory from a service that runs on this host; each value is printed with
    /// its source, and options that are given go before it
    #[arg(long, value_name = "UNIT|PID", hide_short_help = true)]
    pub(super) like: Option<String>,
    /// Memory and swap that each service may have at most, such as 512M: shows which arms live under it; needs control groups
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) memory_limit: Option<u64>,
    /// Take the allocator of arms with this SPEC from a library or source folder of yours; may be repeated
    #[arg(long, value_name = "SPEC=PATH", value_parser = spec_and_path, hide_short_help = true)]
    pub(super) from: Vec<(AllocatorSpec, PathBuf)>,
    /// Run everything in a root of this suite (bookworm, trixie, noble, ...), made once and cached
    #[arg(long, value_name = "SUITE", hide_short_help = true)]
    pub(super) userland: Option<Userland>,
    /// Where blocks (repeats of a group of arms) are carried out: here, or on a cluster by Slurm; the folder of the run has to
    /// be on a file system that its nodes share. The same command with the same --out runs what has no results again
    #[arg(long, value_enum, default_value_t = On::Here, value_name = "WHERE", hide_short_help = true)]
    pub(super) on: On,
    /// An option of sbatch in its long form, such as partition=short, account=lab, mem=4G, time=60 or exclusive; repeat it
    #[arg(long, value_name = "OPTION", hide_short_help = true)]
    slurm: Vec<SubmitOption>,
    /// Show what would be run, and run nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) sources: SourceOptions,
}

/// Those that a lab run can compare, and those that it explains why not.
fn lab_metric(text: &str) -> Result<Metric, ValueError> {
    text.parse().map_err(|_| ValueError::Expected("a metric of a lab run: anon, rss or cgroup"))
}

/// Splits at the last `=`, since settings hold some as well.
fn spec_and_path(text: &str) -> Result<(AllocatorSpec, PathBuf), ValueError> {
    let (spec, path) = text.rsplit_once('=').ok_or(ValueError::Expected("SPEC=PATH"))?;
    Ok((spec.parse()?, PathBuf::from(path)))
}

impl LabOptions {
    /// Refuses options of a cluster here, and a userland there.
    pub(super) fn check_place(&self) -> Result<(), Failure> {
        if let (On::Here, Some(option)) = (self.on, self.slurm.first()) {
            return Err(Failure::usage(format!(
                "--slurm {option} is asked of a cluster, and this runs here: add --on slurm, or leave it out"
            )));
        }
        if self.userland.is_some() && self.on == On::Slurm {
            return Err(Failure::usage(
                "--userland makes files on this machine that nodes of a cluster do not see; leave it or --on slurm out",
            ));
        }
        Ok(())
    }

    /// The cluster, where it is to be one; refuses a host without. `home` is a folder that all runs of a command
    /// share, for the program itself.
    pub(super) fn cluster(&self, home: PathBuf) -> Result<Option<Slurm>, Failure> {
        match self.on {
            On::Here => Ok(None),
            On::Slurm => Ok(Some(Slurm { cluster: Cluster::find()?, options: self.slurm.clone(), home })),
        }
    }

    /// What runs in an arm of this spec: with the settings that make it size itself for --processors.
    pub(super) fn as_run(&self, spec: &AllocatorSpec) -> AllocatorSpec {
        match self.processors {
            Some(processors) => Catalog::builtin().as_on(spec, processors).spec,
            None => spec.clone(),
        }
    }

    /// The arms: those named, those of a file, or `usual`. The run is called as asked for, as its file says, or by `name`.
    pub(super) fn plan(&self, name: &str, usual: &str) -> Result<TrialPlan, Failure> {
        let mut plan = match &self.arms {
            _ if !self.allocators.is_empty() => {
                TrialPlan::from_specs(name, &self.allocators).map_err(Failure::usage)?
            }
            Some(path) => {
                let unread = |why: String| Failure::usage(format!("{}: {why}", path.display()));
                let text = std::fs::read_to_string(path)
                    .map_err(|error| unread(format!("the arms cannot be read: {error}")))?;
                TrialPlan::from_toml(&text).map_err(|error| unread(error.to_string()))?
            }
            None => {
                let usual = TrialPlan::from_toml(usual).map_err(Failure::failed)?;
                TrialPlan { name: name.to_owned(), ..usual }
            }
        };
        if let Some(name) = &self.name {
            plan.name = name.to_string();
        }
        Ok(plan)
    }
}
