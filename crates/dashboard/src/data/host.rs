//! The host, what sampling it costs, and the database.

use std::path::Path;

use heaptrial_store::{AgentCostSummary, Store, TickRecord};
use serde_json::Value;

use super::{Stage, Trial};
use crate::DashboardError;

/// What is known of the host of the newest trial.
#[derive(Debug)]
pub(crate) struct Host {
    /// Facts by name, as the newest trial found them; where it is of several hosts, those of each with its name.
    pub(crate) facts: Vec<(Option<String>, Value)>,
    /// When that was, and the trial.
    pub(crate) facts_of: Option<(i64, String)>,
    pub(crate) samplers: Vec<Sampler>,
    pub(crate) database: Database,
}

/// What sampling a trial costs.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) trial_id: i64,
    pub(crate) trial: String,
    pub(crate) services: usize,
    pub(crate) interval_us: i64,
    pub(crate) last: TickRecord,
    /// Medians of the last ticks.
    pub(crate) cost_wall_us: u64,
    pub(crate) cost_cpu_us: u64,
    /// Of the agent's whole process, where an agent samples.
    pub(crate) agent: AgentCostSummary,
}

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) wal_bytes: u64,
    pub(crate) trials: usize,
}

impl Host {
    pub(crate) fn read(store: &Store, path: &Path, now_us: i64) -> Result<Self, DashboardError> {
        let records = store.trials()?;
        let trials = records.len();
        let newest = records.iter().rev().find(|record| !record.plan.kind.is_import());
        let newest = newest.or(records.last());
        let parts = newest.map(|record| store.parts(record.id)).transpose()?.unwrap_or_default();
        let mut facts: Vec<(Option<String>, Value)> =
            parts.into_iter().map(|part| (Some(part.host), part.facts)).collect();
        if facts.is_empty() {
            facts.extend(newest.map(|record| (None, record.plan.host_facts.clone())));
        }
        let facts_of = newest.map(|record| (record.plan.started_wall_us, record.plan.name.clone()));
        let mut samplers = Vec::new();
        for record in records.into_iter().rev().filter(|record| record.ended_wall_us.is_none()) {
            let trial = Trial::read(store, record, now_us)?;
            if let (Stage::Running, Some(last)) = (trial.stage, trial.ticks.first()) {
                samplers.push(Sampler {
                    trial_id: trial.record.id,
                    trial: trial.name().to_owned(),
                    services: trial.lines.len(),
                    interval_us: trial.interval_us,
                    last: *last,
                    cost_wall_us: middle(trial.ticks.iter().map(|tick| tick.cost_wall_us)),
                    cost_cpu_us: middle(trial.ticks.iter().map(|tick| tick.cost_cpu_us)),
                    agent: store.agent_cost(trial.record.id)?,
                });
            }
        }
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let database = Database {
            path: path.display().to_string(),
            bytes: size(path),
            wal_bytes: size(Path::new(&wal)),
            trials,
        };
        Ok(Self { facts, facts_of, samplers, database })
    }
}

fn middle(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
