//! Results of blocks, in the one database of their run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use heaptrial_host::Instant;
use heaptrial_lab::{Progress, RunOutcome};
use heaptrial_model::{KnownEvent, units};
use heaptrial_store::{BlockOf, Store};
use serde_json::Value;

use super::folder::{KeptRun, RunFolder};
use crate::exit::Failure;

/// The database of a run, and the blocks that it has.
pub(super) struct Collector<'a> {
    folder: &'a RunFolder,
    run: &'a KeptRun,
    database: PathBuf,
    trial_id: Option<i64>,
    taken: BTreeSet<u32>,
    failed_services: usize,
    work_read: BTreeMap<String, bool>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(folder: &'a RunFolder, run: &'a KeptRun, database: &Path) -> Self {
        Self {
            folder,
            run,
            database: database.to_owned(),
            trial_id: None,
            taken: BTreeSet::new(),
            failed_services: 0,
            work_read: BTreeMap::new(),
        }
    }

    /// Blocks without results.
    pub(super) fn missing(&self) -> Vec<u32> {
        self.run.blocks.iter().copied().filter(|block| !self.taken.contains(block)).collect()
    }

    pub(super) fn take_arrived(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        for block in self.folder.arrived()? {
            if !self.run.blocks.contains(&block) || self.taken.contains(&block) {
                continue;
            }
            let node = self.take(block)?;
            progress.message(&format!(
                "block {} from {node}: {} of {}",
                block + 1,
                self.taken.len(),
                units::counted(self.run.blocks.len(), "block")
            ));
        }
        Ok(())
    }

    /// The store takes a block once, whoever did so.
    fn take(&mut self, block: u32) -> Result<String, Failure> {
        let report = self.folder.read_block(block)?;
        let from = self.folder.block(block).join("heaptrial.db");
        let mut store = Store::create(&self.database)?;
        let facts = serde_json::to_value(&report.facts).map_err(Failure::failed)?;
        let of = BlockOf {
            run: &self.run.token,
            block,
            node: &report.node,
            facts: &facts,
            now_us: Instant::now().wall_us,
        };
        let trial_id = store.take_block(&from, &of)?;
        let (of_run, of_block) = (accounting(&store, trial_id)?, accounting(&Store::open(&from)?, 1)?);
        if of_run != of_block {
            let text = format!(
                "block {} on {}: memory is accounted by {of_block} there, and by {of_run} in the first block",
                block + 1,
                report.node
            );
            note(&mut store, trial_id, &text)?;
        }
        self.trial_id = Some(trial_id);
        self.taken.insert(block);
        self.failed_services += report.failed_services;
        for (name, read) in &report.work_read {
            *self.work_read.entry(name.clone()).or_default() |= read;
        }
        Ok(report.node)
    }

    /// Ends the run in its database.
    pub(super) fn end(&self, interrupted: bool, failed: &[(u32, String)]) -> Result<(), Failure> {
        let Some(trial_id) = self.trial_id else { return Ok(()) };
        let mut store = Store::create(&self.database)?;
        for (block, why) in failed {
            note(&mut store, trial_id, &format!("block {} has no results: {why}", block + 1))?;
        }
        let outcome = match (interrupted, failed.is_empty()) {
            (true, _) => "interrupted",
            (false, true) => "completed",
            (false, false) => "failed",
        };
        Ok(store.end_trial(trial_id, Instant::now().wall_us, outcome)?)
    }

    pub(super) fn outcome(self, interrupted: bool) -> Result<RunOutcome, Failure> {
        let trial_id = self
            .trial_id
            .ok_or_else(|| Failure::failed("it was interrupted before any block had results"))?;
        Ok(RunOutcome {
            trial_id,
            interrupted,
            failed_services: self.failed_services,
            // A block whose services were killed for lack of memory has no results.
            out_of_memory: 0,
            work_read: self.work_read,
        })
    }
}

/// Where figures of memory come from.
fn accounting(store: &Store, trial_id: i64) -> Result<Value, Failure> {
    let trial = store.trials()?.into_iter().find(|trial| trial.id == trial_id);
    Ok(trial.map_or(Value::Null, |trial| trial.plan.parameters["memory_accounting"]["from"].clone()))
}

/// A warning about the whole run, once.
fn note(store: &mut Store, trial_id: i64, text: &str) -> Result<(), Failure> {
    if store.events(trial_id)?.iter().any(|event| event.text == text) {
        return Ok(());
    }
    Ok(store.add_event(trial_id, None, Instant::now().wall_us, KnownEvent::Warning, text)?)
}
