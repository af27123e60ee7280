//! A block: a lab run of a few arms once each, with the same seed and load.

use std::path::{Path, PathBuf};
use std::time::Instant;

use heaptrial_evaluate::judgement::{Judgement, RunFigures};
use heaptrial_lab::{Accounting, Interrupt, LabPlan, PreparedArm, Workload};
use heaptrial_model::{AllocatorSpec, HumanDuration, Metric, TrialPlan};
use heaptrial_report::Options;
use heaptrial_store::Store;

use super::plan_of;
use super::record::{Record, Step};
use crate::commands::lab::executor::Executor;
use crate::commands::lab::repeat_command::RepeatCommand;
use crate::commands::lab::{LabOptions, accounting, check, describe, heeding_signals};
use crate::exit::Failure;
use crate::progress::LiveProgress;

/// An arm that a search asks for.
#[derive(Debug, Clone)]
pub(in super::super) struct Wanted {
    /// Its position in the search.
    pub(in super::super) at: usize,
    pub(in super::super) name: String,
    pub(in super::super) spec: AllocatorSpec,
}

/// Figures of an arm, or why there are none.
type Figures = Result<RunFigures, String>;

/// A block whose control has figures.
pub(in super::super) struct Block {
    /// That of its folder.
    pub(in super::super) number: usize,
    pub(in super::super) seconds: f64,
    pub(in super::super) control: RunFigures,
    /// In the order in which they were asked for.
    pub(in super::super) arms: Vec<Figures>,
    /// Digests of their builds.
    pub(in super::super) builds: Vec<String>,
}

/// A block that was carried out.
pub(super) struct Carried {
    pub(super) number: usize,
    pub(super) seconds: f64,
    /// Of the control, then of the other arms.
    pub(super) figures: Vec<Figures>,
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
    executor: Executor,
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
            accounting: accounting(options, metric)?,
            executor: options.executor.executor(folder.to_owned())?,
            command,
        })
    }

    /// Carries out the next block of these arms, the control first; its seed is `first` and its number. `None` if it was
    /// interrupted. A block on a cluster that an earlier process left behind is completed.
    pub(super) fn run<S: Step>(
        &self,
        record: &Record<S>,
        first: u64,
        arms: &[PreparedArm],
    ) -> Result<Option<Carried>, Failure> {
        let plan_of = |number: usize| {
            self.plan(number, record.block_folder(number), first.wrapping_add(number as u64), arms)
        };
        let left_behind = record.left_behind().filter(|number| {
            let (lab, plan) = plan_of(*number);
            self.executor.can_complete(&lab, &plan, self.command)
        });
        let number = left_behind.unwrap_or_else(|| record.next_block());
        let (lab, plan) = plan_of(number);
        std::fs::create_dir_all(&lab.folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", lab.folder.display())))?;
        describe(&lab, &plan)?;
        let started = Instant::now();
        let outcome = self
            .executor
            .run(&lab, &plan, self.command, self.workload, &self.interrupt, &mut LiveProgress::new())
            .map_err(|failure| {
                let names: Vec<&str> = arms.iter().map(|prepared| prepared.arm.name.as_str()).collect();
                failure.about(format!("block-{number} of {}", names.join(", ")))
            })?;
        if outcome.interrupted {
            return Ok(None);
        }
        let seconds = started.elapsed().as_secs_f64();
        let store = Store::open(&lab.database).map_err(Failure::failed)?;
        let judgement =
            Judgement::of(&store, outcome.trial_id, &Options::default()).map_err(Failure::failed)?;
        let figures = (0..arms.len()).map(|arm| judgement.run_figures(arm, 0)).collect();
        Ok(Some(Carried { number, seconds, figures }))
    }

    fn plan(&self, number: usize, folder: PathBuf, seed: u64, arms: &[PreparedArm]) -> (LabPlan, TrialPlan) {
        let name = format!("block-{number}");
        let plan = plan_of(&name, arms.iter().map(|prepared| prepared.arm.clone()).collect());
        let duration = self.duration;
        let lab = self.options.plan_in(&folder, self.command, duration, self.metric, self.accounting.clone());
        let lab = LabPlan { name, arms: arms.to_vec(), seed, ..lab };
        (lab, plan)
    }
}
