//! One side of a score: the lab, or the field.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_analysis::{Analysis, Fleet, FleetArm, analyse};
use heaptrial_model::{Arm, Metric};
use heaptrial_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ScoreError;
use crate::consensuses::ConsensusClock;
use crate::lab::LabRun;
use crate::{Kind, Options, Rows};

/// A trial that a score is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Its name.
    pub name: String,
    /// What was run.
    pub kind: Kind,
    /// Seed of a lab run.
    pub seed: Option<u64>,
    /// Repeats of each arm of a lab run.
    pub repeats: Option<u32>,
    /// Consensuses that its relays took: hours of life that it went through.
    pub consensuses: Option<u32>,
    /// Whether its relays rested after each.
    pub rested: Option<bool>,
    /// How many times faster than life it went.
    pub pace: Option<f64>,
    /// The reading that stands for memory.
    pub metric: Metric,
    /// The command that repeats it; empty of an import.
    pub command: String,
    /// Version of Heaptrial that made it.
    pub tool_version: String,
}

/// A lab's runs or a trial in the field, judged.
#[derive(Debug)]
pub struct Side {
    pub(super) trials: Vec<Scored>,
    pub(super) metric: Metric,
    /// What a lab's runs have in common.
    conditions: BTreeMap<String, Value>,
    /// In the order of the fleet's.
    pub(super) arms: Vec<Arm>,
    pub(super) fleet: Fleet,
    pub(super) analysis: Analysis,
}

impl Side {
    /// Lab runs of relays as one fleet: arms of one treatment are one arm, and each repeat of each run is a block of its own,
    /// with its own control. `metric` stands in place of the one that they were planned with, where it was read too.
    pub fn of_lab(
        runs: &[(&Store, i64)],
        metric: Option<Metric>,
        options: &Options,
    ) -> Result<Self, ScoreError> {
        let mut joined: Option<Self> = None;
        let place =
            |store: &Store| std::fs::canonicalize(store.path()).unwrap_or_else(|_| store.path().to_owned());
        for (index, (store, trial_id)) in runs.iter().enumerate() {
            let mut rows = Rows::read(store, *trial_id)?;
            rows.trial.plan.metric = metric.unwrap_or(rows.trial.plan.metric);
            let name = rows.trial.plan.name.clone();
            let same = |(other, id): &(&Store, i64)| id == trial_id && place(other) == place(store);
            if runs[..index].iter().any(same) {
                let why = "they are the same run, which repeats nothing".to_owned();
                return Err(ScoreError::Apart { first: name.clone(), second: name, why });
            }
            if rows.kind != Kind::LabTor {
                return Err(ScoreError::NotALab { name, kind: rows.kind.describe() });
            }
            let run = LabRun::read(store, &rows)?;
            let clock = run.consensuses();
            let fleet = run.fleet_by_consensuses(&rows, options).zip(clock);
            let Some((fleet, clock)) = fleet else { return Err(ScoreError::NoConsensuses { name }) };
            let scored = scored(&rows, Some(&clock));
            let conditions = conditions(&rows);
            match &mut joined {
                Some(side) => side.join(scored, fleet, &arms(&rows), &conditions)?,
                None => {
                    let side = Self::judged(scored, fleet, arms(&rows), options);
                    joined = Some(Self { conditions, ..side });
                }
            }
        }
        let Some(mut side) = joined else {
            return Err(ScoreError::NoAge { left_out: vec!["no lab run was named".to_owned()] });
        };
        if runs.len() > 1 {
            side.analysis = analyse(&side.fleet, &options.settings);
        }
        Ok(side)
    }

    /// An import or a field trial.
    pub fn of_field(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ScoreError> {
        let rows = Rows::read(store, trial_id)?;
        if rows.kind != Kind::Field && !rows.kind.is_import() {
            let name = rows.trial.plan.name.clone();
            return Err(ScoreError::NotTheField { name, kind: rows.kind.describe() });
        }
        let fleet = rows.fleet(store, options)?;
        Ok(Self::judged(scored(&rows, None), fleet, arms(&rows), options))
    }

    /// The position of its control.
    pub(super) fn control(&self) -> Option<usize> {
        self.arms.iter().position(|arm| arm.control)
    }

    fn judged(scored: Scored, fleet: Fleet, arms: Vec<Arm>, options: &Options) -> Self {
        let analysis = analyse(&fleet, &options.settings);
        let conditions = BTreeMap::new();
        Self { metric: scored.metric, trials: vec![scored], conditions, arms, fleet, analysis }
    }

    /// Adds the services of one more run.
    fn join(
        &mut self,
        scored: Scored,
        fleet: Fleet,
        arms: &[Arm],
        conditions: &BTreeMap<String, Value>,
    ) -> Result<(), ScoreError> {
        let apart = |why: String| {
            let told = |trial: &Scored| match trial.seed {
                Some(seed) => format!("{}, seed {seed}", trial.name),
                None => trial.name.clone(),
            };
            let first = self.trials.first().map_or_else(String::new, told);
            ScoreError::Apart { first, second: told(&scored), why }
        };
        if scored.metric != self.metric {
            let metrics = [self.metric, scored.metric].map(Metric::describe);
            return Err(apart(format!("they compare {} and {}; say --metric rss", metrics[0], metrics[1])));
        }
        if self.trials.iter().any(|trial| trial.rested != scored.rested) {
            return Err(apart(
                "the relays of one rested after each consensus, those of the other did not".to_owned(),
            ));
        }
        let names: BTreeSet<&String> = self.conditions.keys().chain(conditions.keys()).collect();
        if let Some(name) = names.into_iter().find(|name| self.conditions.get(*name) != conditions.get(*name))
        {
            let told = |conditions: &BTreeMap<String, Value>| {
                conditions.get(name).map_or_else(|| "not told".to_owned(), Value::to_string)
            };
            let (one, other) = (told(&self.conditions), told(conditions));
            return Err(apart(format!("their `{name}` differs: {one} and {other}; score each by itself")));
        }
        if let Some(control) = self.control().map(|control| &self.arms[control])
            && !arms.iter().any(|arm| arm.treatment == control.treatment)
        {
            return Err(apart(format!(
                "the second has no arm of {}, the control of the first",
                control.name
            )));
        }
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, arm) in arms.iter().enumerate() {
            let own = self.arms.iter().position(|known| known.treatment == arm.treatment);
            let own = own.unwrap_or_else(|| {
                self.arms.push(Arm { control: false, ..arm.clone() });
                let FleetArm { name, restarted, .. } = fleet.arms[place].clone();
                self.fleet.arms.push(FleetArm { name, control: false, restarted, earlier_list_of: None });
                self.arms.len() - 1
            });
            places.insert(place, own);
        }
        let next = self.fleet.services.iter().map(|service| service.block + 1).max().unwrap_or(0);
        for mut service in fleet.services {
            service.block += next;
            service.arms = service.arms.iter().filter_map(|arm| places.get(arm).copied()).collect();
            self.fleet.services.push(service);
        }
        self.trials.push(scored);
        Ok(())
    }
}

/// Parameters of a run that change what a relay needs.
fn conditions(rows: &Rows) -> BTreeMap<String, Value> {
    /// How long it was, in which groups, and how memory was read.
    const OTHERS: [&str; 3] = ["consensuses", "together", "memory_accounting"];
    let plan = &rows.trial.plan;
    let parameters = plan.parameters.as_object().into_iter().flatten();
    let mut conditions: BTreeMap<String, Value> = parameters
        .filter(|(name, _)| !OTHERS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // What it means for each arm follows from the number, and runs need not have the same arms.
    conditions
        .get_mut("processors")
        .and_then(Value::as_object_mut)
        .map(|processors| processors.remove("arms"));
    for name in ["userland", "os"] {
        let told = plan.host_facts.get(name).filter(|value| !value.is_null());
        conditions.extend(told.map(|value| (name.to_owned(), value.clone())));
    }
    conditions
}

fn arms(rows: &Rows) -> Vec<Arm> {
    rows.arms.iter().map(|record| record.arm.clone()).collect()
}

fn scored(rows: &Rows, clock: Option<&ConsensusClock>) -> Scored {
    let plan = &rows.trial.plan;
    Scored {
        name: plan.name.clone(),
        kind: rows.kind,
        seed: clock.map(|_| plan.seed),
        repeats: clock.map(|_| plan.repeats),
        consensuses: clock.map(|clock| clock.consensuses),
        rested: clock.map(|clock| clock.rested),
        pace: clock.and_then(ConsensusClock::pace),
        metric: plan.metric,
        command: plan.command.clone(),
        tool_version: plan.tool_version.clone(),
    }
}
