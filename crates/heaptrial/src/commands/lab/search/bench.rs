//! A block: a lab run of a few arms once each, with the same seed and load.

use std::path::PathBuf;
use std::time::Duration;

use heaptrial_judgement::Judgement;
use heaptrial_lab::{Accounting, Inside, Interrupt, LabPlan, PreparedArm, Workload};
use heaptrial_model::Metric;
use heaptrial_report::Options;
use heaptrial_store::Store;

use super::plan_of;
use crate::commands::lab::place::Place;
use crate::commands::lab::{LabOptions, OWN_PROGRAM, describe};
use crate::exit::Failure;
use crate::progress::LiveProgress;

/// What is the same in all blocks of a search.
pub(in super::super) struct Bench<'a> {
    pub(in super::super) options: &'a LabOptions,
    pub(in super::super) workload: &'a dyn Workload,
    pub(in super::super) duration: Option<Duration>,
    pub(in super::super) metric: Metric,
    pub(in super::super) accounting: Accounting,
    pub(in super::super) place: Place,
    pub(in super::super) interrupt: Interrupt,
    pub(in super::super) command: String,
}

/// A block to run.
pub(in super::super) struct LabRun {
    pub(in super::super) name: String,
    pub(in super::super) folder: PathBuf,
    pub(in super::super) seed: u64,
    /// The control first.
    pub(in super::super) arms: Vec<PreparedArm>,
}

impl Bench<'_> {
    /// Runs a block; `None` where it was interrupted.
    pub(in super::super) fn run(&self, run: LabRun) -> Result<Option<Judgement>, Failure> {
        let LabRun { name, folder, seed, arms } = run;
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        let plan = plan_of(&name, arms.iter().map(|prepared| prepared.arm.clone()).collect());
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        let about = format!("{name} of {}", names.join(", "));
        let database = folder.join("heaptrial.db");
        let lab = LabPlan {
            name,
            arms,
            repeats: 1,
            duration: self.duration,
            tick: self.options.tick.0,
            metric: self.metric,
            accounting: self.accounting.clone(),
            memory_limit_bytes: self.options.memory_limit,
            seed,
            processors: self.options.processors,
            command: self.command.clone(),
            database: database.clone(),
            folder,
            supervisor: PathBuf::from(OWN_PROGRAM),
            userland: Inside::current(),
            exchanged: Vec::new(),
        };
        describe(&lab, &plan)?;
        let outcome = self
            .place
            .run(&lab, &plan, self.workload, &self.interrupt, &mut LiveProgress::new())
            .map_err(|failure| failure.about(about))?;
        if outcome.interrupted {
            return Ok(None);
        }
        let store = Store::open(&database).map_err(Failure::failed)?;
        Judgement::of(&store, outcome.trial_id, &Options::default()).map(Some).map_err(Failure::failed)
    }
}
