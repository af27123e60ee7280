//! A block: a lab run of a few arms once each, with the same seed and load.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use heaptrial_judgement::Judgement;
use heaptrial_lab::{Accounting, Inside, Interrupt, LabPlan, PreparedArm, RunOutcome, Workload};
use heaptrial_model::{Metric, TrialPlan};
use heaptrial_report::Options;
use heaptrial_store::Store;

use super::plan_of;
use super::record::{Numbered, Record};
use crate::commands::lab::place::Place;
use crate::commands::lab::{LabOptions, OWN_PROGRAM, describe};
use crate::exit::Failure;
use crate::progress::LiveProgress;

/// What is the same in all blocks of a search.
pub(in super::super) struct Bench<'a> {
    pub(in super::super) options: &'a LabOptions,
    pub(in super::super) workload: &'a dyn Workload,
    /// How long services live at most.
    pub(in super::super) duration: Option<Duration>,
    pub(in super::super) metric: Metric,
    pub(in super::super) accounting: Accounting,
    pub(in super::super) place: Place,
    pub(in super::super) interrupt: Interrupt,
    pub(in super::super) command: String,
}

/// A block that was carried out.
pub(in super::super) struct Carried {
    /// Its number, which is that of its folder.
    pub(in super::super) number: usize,
    pub(in super::super) judgement: Judgement,
    pub(in super::super) seconds: f64,
}

impl Bench<'_> {
    /// Carries out the next block of these arms, the control first; `None` where it was interrupted. A seed is that of a number.
    /// A block that was left behind by a process that ended is taken up, if it is of the same arms and has results.
    pub(in super::super) fn run<S: Numbered>(
        &self,
        record: &Record<S>,
        seed: impl Fn(usize) -> u64,
        arms: &[PreparedArm],
    ) -> Result<Option<Carried>, Failure> {
        let mut progress = LiveProgress::new();
        let plan_of = |number: usize| self.plan(number, record.block_folder(number), seed(number), arms);
        let names: Vec<&str> = arms.iter().map(|prepared| prepared.arm.name.as_str()).collect();
        let about = |number: usize| format!("block-{number} of {}", names.join(", "));
        if let Some(number) = record.left_behind() {
            let (lab, plan) = plan_of(number);
            let taken_up = self.place.take_up(&lab, &plan, &self.interrupt, &mut progress);
            if let Some((outcome, seconds)) = taken_up.map_err(|failure| failure.about(about(number)))? {
                return judged(number, &lab, &outcome, seconds);
            }
        }
        let number = record.next_block();
        let (lab, plan) = plan_of(number);
        std::fs::create_dir_all(&lab.folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", lab.folder.display())))?;
        describe(&lab, &plan)?;
        let started = Instant::now();
        let outcome = self
            .place
            .run(&lab, &plan, self.workload, &self.interrupt, &mut progress)
            .map_err(|failure| failure.about(about(number)))?;
        judged(number, &lab, &outcome, started.elapsed().as_secs_f64())
    }

    fn plan(&self, number: usize, folder: PathBuf, seed: u64, arms: &[PreparedArm]) -> (LabPlan, TrialPlan) {
        let name = format!("block-{number}");
        let plan = plan_of(&name, arms.iter().map(|prepared| prepared.arm.clone()).collect());
        let lab = LabPlan {
            name,
            arms: arms.to_vec(),
            repeats: 1,
            duration: self.duration,
            tick: self.options.tick.0,
            metric: self.metric,
            accounting: self.accounting.clone(),
            memory_limit_bytes: self.options.memory_limit,
            seed,
            processors: self.options.processors,
            command: self.command.clone(),
            database: folder.join("heaptrial.db"),
            folder,
            supervisor: PathBuf::from(OWN_PROGRAM),
            userland: Inside::current(),
        };
        (lab, plan)
    }
}

fn judged(
    number: usize,
    lab: &LabPlan,
    outcome: &RunOutcome,
    seconds: f64,
) -> Result<Option<Carried>, Failure> {
    if outcome.interrupted {
        return Ok(None);
    }
    let store = Store::open(&lab.database).map_err(Failure::failed)?;
    let judgement = Judgement::of(&store, outcome.trial_id, &Options::default()).map_err(Failure::failed)?;
    Ok(Some(Carried { number, judgement, seconds }))
}
