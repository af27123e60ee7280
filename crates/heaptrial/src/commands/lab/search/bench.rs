//! A block: a lab run of a few arms once each, with the same seed and load.

use std::path::Path;
use std::time::Instant;

use heaptrial_evaluate::judgement::{Judgement, RunFigures};
use heaptrial_lab::{Accounting, Interrupt, LabPlan, PreparedArm, Workload};
use heaptrial_model::{HumanDuration, Metric, TrialPlan};
use heaptrial_report::Options;
use heaptrial_store::Store;

use super::plan_of;
use crate::commands::lab::repeat_command::RepeatCommand;
use crate::commands::lab::slurm::Slurm;
use crate::commands::lab::{LabOptions, accounting, carry_out, check, describe, heeding_signals};
use crate::exit::Failure;

/// Figures of an arm, or why there are none.
pub(in super::super) type Figures = Result<RunFigures, String>;

/// A block that was carried out.
pub(in super::super) struct Block {
    pub(in super::super) number: usize,
    pub(in super::super) seconds: f64,
    /// In the order in which they were asked for.
    pub(in super::super) arms: Vec<Figures>,
    pub(in super::super) builds: Vec<String>,
}

/// What all blocks of a search have in common.
pub(super) struct Bench<'a> {
    pub(super) options: &'a LabOptions,
    pub(super) interrupt: Interrupt,
    pub(super) metric: Metric,
    workload: &'a dyn Workload,
    /// How long services live at most.
    duration: Option<HumanDuration>,
    accounting: Accounting,
    cluster: Option<Slurm>,
    command: &'a RepeatCommand,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        options: &'a LabOptions,
        workload: &'a dyn Workload,
        duration: Option<HumanDuration>,
        plan: &TrialPlan,
        command: &'a RepeatCommand,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let metric = check(options, plan, workload, duration)?;
        Ok(Self {
            options,
            interrupt: heeding_signals(options.executor.on)?,
            metric,
            workload,
            duration,
            accounting: accounting(options, metric, options.executor.on)?,
            cluster: options.executor.cluster(folder.to_owned())?,
            command,
        })
    }

    /// Carries out a block of these arms in its folder; its seed is `first` and its number. Returns the control's figures, which is the
    /// first of the arms, and the rest; `None` if it was interrupted.
    pub(super) fn run(
        &self,
        (number, folder): (usize, &Path),
        first: u64,
        arms: &[PreparedArm],
    ) -> Result<Option<(Figures, Block)>, Failure> {
        let name = format!("block-{number}");
        let plan = plan_of(&name, arms.iter().map(|prepared| prepared.arm.clone()).collect());
        let accounting = self.accounting.clone();
        let lab = self.options.plan_in(folder, self.command, self.duration, self.metric, accounting);
        let seed = first.wrapping_add(number as u64);
        let lab = LabPlan { name, arms: arms.to_vec(), seed, ..lab };
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        describe(&lab, &plan)?;
        let started = Instant::now();
        let cluster = self.cluster.as_ref();
        let outcome = carry_out(cluster, &lab, &plan, self.command, self.workload, &self.interrupt).map_err(
            |failure| {
                let names: Vec<&str> = arms.iter().map(|prepared| prepared.arm.name.as_str()).collect();
                failure.about(format!("block-{number} of {}", names.join(", ")))
            },
        )?;
        if outcome.interrupted {
            return Ok(None);
        }
        let seconds = started.elapsed().as_secs_f64();
        let store = Store::open(&lab.database)?;
        let judgement = Judgement::of(&store, outcome.trial_id, &Options::default())?;
        let builds = arms[1..].iter().map(|prepared| prepared.obtained.sha256.clone()).collect();
        let figures = (1..arms.len()).map(|arm| judgement.run_figures(arm, 0)).collect();
        Ok(Some((judgement.run_figures(0, 0), Block { number, seconds, arms: figures, builds })))
    }
}
