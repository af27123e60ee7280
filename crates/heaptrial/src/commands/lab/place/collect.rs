//! Taking what came of blocks into the one database of their run.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use heaptrial_host::Instant;
use heaptrial_model::KnownEvent;
use heaptrial_store::{BlockOf, Store};

use super::kept::{BlockReport, RunFolder, at};
use crate::exit::Failure;

/// The database of a run, and what it has.
pub(super) struct Collector {
    folder: RunFolder,
    token: String,
    database: PathBuf,
    trial_id: Option<i64>,
    failed_services: usize,
    work_read: BTreeMap<String, bool>,
}

impl Collector {
    pub(super) fn new(folder: RunFolder, token: String, database: PathBuf) -> Self {
        Self { folder, token, database, trial_id: None, failed_services: 0, work_read: BTreeMap::new() }
    }

    /// Row id of the run's trial; `None` before the first block.
    pub(super) fn trial_id(&self) -> Option<i64> {
        self.trial_id
    }

    /// Services of the blocks that are here whose treatment was not proved or that did not live to the end.
    pub(super) fn failed_services(&self) -> usize {
        self.failed_services
    }

    /// Measures of work, and whether a block that is here read anything of each.
    pub(super) fn work_read(&self) -> &BTreeMap<String, bool> {
        &self.work_read
    }

    /// Takes a block in that has arrived. What was taken in earlier, by a process that ended meanwhile, is not taken twice.
    pub(super) fn take(&mut self, block: u32) -> Result<BlockReport, Failure> {
        let report = self.folder.read_block(block)?;
        let arrived = self.folder.block(block);
        let from = arrived.join("heaptrial.db");
        let mut store = Store::create(&self.database)?;
        let trial_id = match (from.is_file(), store.trial_of_run(&self.token)?) {
            // It was taken in, and its file was removed.
            (false, Some(trial_id)) => trial_id,
            _ => {
                let facts = serde_json::to_value(&report.facts).map_err(Failure::failed)?;
                let now_us = Instant::now().wall_us;
                let of = BlockOf { run: &self.token, block, node: &report.node, facts: &facts, now_us };
                store.take_block(&from, &of)?
            }
        };
        self.tell_accounting(&mut store, trial_id, &report)?;
        self.trial_id = Some(trial_id);
        self.failed_services += report.failed_services;
        for (name, read) in &report.work_read {
            *self.work_read.entry(name.clone()).or_default() |= read;
        }
        drop(store);
        self.move_logs(block)?;
        for name in ["heaptrial.db", "heaptrial.db-wal", "heaptrial.db-shm"] {
            // It is committed; should a copy stay, it is not taken in again.
            let _ = fs::remove_file(arrived.join(name));
        }
        Ok(report)
    }

    /// Tells where memory is accounted for otherwise on a node than on that of the first block.
    fn tell_accounting(&self, store: &mut Store, trial_id: i64, report: &BlockReport) -> Result<(), Failure> {
        let from = self.folder.block(report.block).join("heaptrial.db");
        if !from.is_file() {
            return Ok(());
        }
        let accounting = |store: &Store, id: i64| -> Result<serde_json::Value, Failure> {
            let trials = store.trials()?;
            let own = trials.into_iter().find(|trial| trial.id == id);
            Ok(own.map_or_else(Default::default, |trial| {
                trial.plan.parameters["memory_accounting"]["from"].clone()
            }))
        };
        let of_run = accounting(store, trial_id)?;
        // A block's database has one trial.
        let of_block = accounting(&Store::open(&from)?, 1)?;
        if of_run != of_block {
            let text = format!(
                "block {} on {}: memory was accounted for otherwise there than in the first block ({}, not {})",
                report.block + 1,
                report.node,
                of_block,
                of_run
            );
            self.note(store, trial_id, &text)?;
        }
        Ok(())
    }

    /// A warning about the whole run, once.
    fn note(&self, store: &mut Store, trial_id: i64, text: &str) -> Result<(), Failure> {
        if store.events(trial_id)?.iter().any(|event| event.text == text) {
            return Ok(());
        }
        Ok(store.add_event(trial_id, None, Instant::now().wall_us, KnownEvent::Warning, text)?)
    }

    /// Ends the run in its database: what has no results is told there.
    pub(super) fn end(&self, outcome: &str, failed: &[(u32, &str)]) -> Result<(), Failure> {
        let Some(trial_id) = self.trial_id else { return Ok(()) };
        let mut store = Store::create(&self.database)?;
        for (block, why) in failed {
            self.note(&mut store, trial_id, &format!("block {} has no results: {why}", block + 1))?;
        }
        Ok(store.end_trial(trial_id, Instant::now().wall_us, outcome)?)
    }

    /// Logs of all services are in one folder, as those of a run here.
    fn move_logs(&self, block: u32) -> Result<(), Failure> {
        let (from, to) = (self.folder.block(block).join("logs"), self.folder.0.join("logs"));
        fs::create_dir_all(&to).map_err(|error| at(&to, error))?;
        let Ok(entries) = fs::read_dir(&from) else { return Ok(()) };
        for entry in entries.flatten() {
            let to = to.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(|error| at(&to, error))?;
        }
        // It is empty now.
        let _ = fs::remove_dir(&from);
        Ok(())
    }
}
