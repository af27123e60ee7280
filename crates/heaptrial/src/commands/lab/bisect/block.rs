//! A block: a lab run of the older end and one build, with the same seed and load.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_allocator::Obtained;
use heaptrial_judgement::{By, Judgement};
use heaptrial_lab::{Accounting, Inside, Interrupt, LabPlan, PreparedArm, Workload};
use heaptrial_model::Metric;
use heaptrial_report::Options;
use heaptrial_store::Store;
use serde::{Deserialize, Serialize};

use super::record::block_folder;
use super::subject::Subject;
use super::{arm, pair};
use crate::commands::lab::place::Place;
use crate::commands::lab::{LabOptions, OWN_PROGRAM, describe};
use crate::exit::Failure;
use crate::progress::LiveProgress;

/// What is the same in all blocks.
pub(super) struct Bench<'a> {
    pub(super) options: &'a LabOptions,
    pub(super) workload: &'a dyn Workload,
    pub(super) duration: Option<Duration>,
    pub(super) metric: Metric,
    pub(super) accounting: Accounting,
    pub(super) place: Place,
    pub(super) interrupt: Interrupt,
    pub(super) by: By,
    pub(super) command: String,
    pub(super) seed: u64,
    pub(super) folder: PathBuf,
    pub(super) subject: &'a Subject,
}

/// Figures of a block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasuredBlock {
    pub(super) block: usize,
    /// Level of the older end.
    pub(super) older_bytes: f64,
    /// Level of the build.
    pub(super) bytes: f64,
    /// Of the build to the older end.
    pub(super) log_ratio: f64,
}

/// What came of a block.
pub(super) enum Measured {
    Ratio(MeasuredBlock),
    /// The build did not live to the end.
    Failed(usize, String),
    /// The older end did not.
    OlderFailed(usize, String),
    Interrupted,
}

impl fmt::Display for MeasuredBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.block)
    }
}

impl Bench<'_> {
    /// Runs a block.
    pub(super) fn measure(
        &self,
        number: usize,
        position: usize,
        older: &Obtained,
        build: &Obtained,
    ) -> Result<Measured, Failure> {
        let name = |at: usize| self.subject.positions[at].name.as_str();
        let folder = self.folder.join(block_folder(number));
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        let control = arm(name(0), self.subject.spec(0), true);
        let other = arm(name(position), self.subject.spec(position), false);
        let plan = pair(&format!("block-{number}"), control.clone(), other.clone());
        let database = folder.join("heaptrial.db");
        let lab = LabPlan {
            name: plan.name.clone(),
            arms: vec![
                PreparedArm { arm: control, obtained: older.clone() },
                PreparedArm { arm: other, obtained: build.clone() },
            ],
            repeats: 1,
            duration: self.duration,
            tick: self.options.tick.0,
            metric: self.metric,
            accounting: self.accounting.clone(),
            memory_limit_bytes: self.options.memory_limit,
            seed: self.seed.wrapping_add(number as u64),
            processors: self.options.processors,
            command: self.command.clone(),
            database: database.clone(),
            folder,
            supervisor: PathBuf::from(OWN_PROGRAM),
            userland: Inside::current(),
            exchanged: Vec::new(),
        };
        describe(&lab, &plan)?;
        let outcome =
            self.place.run(&lab, &plan, self.workload, &self.interrupt, &mut LiveProgress::new())?;
        if outcome.interrupted {
            return Ok(Measured::Interrupted);
        }
        let store = Store::open(&database).map_err(Failure::failed)?;
        let judgement =
            Judgement::of(&store, outcome.trial_id, &Options::default()).map_err(Failure::failed)?;
        let figures = [0, 1].map(|at| judgement.figure_of(at, self.by));
        Ok(match figures {
            [Err(why), _] => Measured::OlderFailed(number, why),
            [_, Err(why)] => Measured::Failed(number, why),
            [Ok(older), Ok(build)] => Measured::Ratio(MeasuredBlock {
                block: number,
                older_bytes: older.level_bytes,
                bytes: build.level_bytes,
                log_ratio: build.log - older.log,
            }),
        })
    }
}
