//! The load of a search.

use clap::Subcommand;
use heaptrial_lab::Workload;
use heaptrial_model::{HumanDuration, TrialPlan};

use crate::commands::lab::{LabOptions, RunOptions, TorOptions};
use crate::exit::Failure;

/// What is run, and for how long at most.
pub(in super::super) type Timed = (Box<dyn Workload>, Option<HumanDuration>);

/// Under which load a search runs its arms; with the options of that command, but for its arms.
#[derive(Debug, Subcommand)]
pub enum Load {
    /// A program, as `lab run` runs it
    Run(Box<RunOptions>),
    /// Real Tor relays, as `lab tor` runs them
    Tor(Box<TorOptions>),
}

impl Load {
    /// The one that was asked for.
    pub(in super::super) fn asked(load: Option<&Self>) -> Result<&Self, Failure> {
        load.ok_or_else(|| {
            Failure::usage(
                "under what load? End with `run [OPTIONS] -- CMD` or `tor [OPTIONS]`, as of `lab run` and `lab tor`",
            )
        })
    }

    /// The options of the lab.
    pub(in super::super) fn options(&self) -> &LabOptions {
        match self {
            Self::Run(run) => &run.lab,
            Self::Tor(tor) => &tor.lab,
        }
    }

    /// The options of the lab, without those that a search decides itself: it chooses `what`.
    pub(in super::super) fn lab(&self, what: &str) -> Result<&LabOptions, Failure> {
        let lab = self.options();
        let decided = [
            ("--allocator", !lab.allocators.is_empty()),
            ("--arms", lab.arms.is_some()),
            ("--repeat", lab.repeat != 1),
            ("--from", !lab.from.is_empty()),
            ("--like", lab.like.is_some()),
        ];
        match decided.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::usage(format!(
                "{option} is not for a search of {what}; `lab run` and `lab tor` take it"
            ))),
            None => Ok(lab),
        }
    }

    /// A program; `None` of relays, whose work is what their clients get, and of which a seed decides all.
    pub(in super::super) fn program(&self) -> Option<&RunOptions> {
        match self {
            Self::Run(run) => Some(run),
            Self::Tor(_) => None,
        }
    }

    /// The workload of these arms, and how long they live at most.
    pub(in super::super) fn workload(&self, plan: &TrialPlan) -> Result<Timed, Failure> {
        match self {
            Self::Tor(tor) => tor.workload(plan),
            Self::Run(run) => run.workload(plan),
        }
    }
}
