//! What a command asks of a lab run, read from its words anew on a node.

use heaptrial_lab::Workload;
use heaptrial_model::{HumanDuration, TrialPlan};

use crate::commands::Command;
use crate::commands::lab::search::Load;
use crate::commands::lab::{LabCommand, LabOptions};
use crate::exit::Failure;

/// What a command asks of a lab run.
pub(super) struct Asked<'a> {
    pub(super) options: &'a LabOptions,
    pub(super) workload: Box<dyn Workload>,
    pub(super) duration: Option<HumanDuration>,
}

impl<'a> Asked<'a> {
    /// Of any command that carries out lab runs, over the arms of `plan`.
    pub(super) fn of(command: &'a Command, plan: &TrialPlan) -> Result<Self, Failure> {
        match command {
            Command::Lab(LabCommand::Run(run)) => {
                let (workload, duration, _) = run.workload(plan)?;
                Ok(Self { options: &run.lab, workload: Box::new(workload), duration })
            }
            Command::Lab(LabCommand::Tor(tor)) => {
                let (workload, duration, _) = tor.workload(plan)?;
                Ok(Self { options: &tor.lab, workload: Box::new(workload), duration })
            }
            Command::Lab(LabCommand::Bisect(bisect)) => Self::of_search(bisect.load()?, plan),
            Command::Lab(LabCommand::Tune(tune)) => Self::of_search(tune.load()?, plan),
            _ => Err(Failure::failed("the run's command carries out no lab run")),
        }
    }

    fn of_search(load: &'a Load, plan: &TrialPlan) -> Result<Self, Failure> {
        let (workload, duration) = load.workload(plan)?;
        Ok(Self { options: load.options(), workload, duration })
    }
}
