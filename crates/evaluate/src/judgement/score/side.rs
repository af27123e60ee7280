//! One side of a score: the lab, or the field.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Fleet, FleetArm, Severity, analyse};
use heaptrial_model::{Arm, Metric};
use heaptrial_store::{ArmRecord, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ScoreError;
use crate::judgement::lab::LabRun;
use crate::judgement::{Kind, Options, Rows};

/// Parameters in which runs that are joined may differ: their length, their groups, and what each arm makes of a number of
/// processors.
const OWN_PARAMETERS: [&str; 3] = ["consensuses", "together", "memory_accounting"];
/// Facts of the host that change what a relay needs.
const HOST_FACTS: [&str; 5] = ["userland", "os", "architecture", "page_size_bytes", "thp_mode"];

/// A trial that a score is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    pub name: String,
    pub kind: Kind,
    /// Of a lab run.
    pub seed: Option<u64>,
    /// Consensuses that the relays of a lab run got.
    pub consensuses: Option<u32>,
    pub metric: Metric,
    /// The command that repeats it; empty of an import.
    pub command: String,
}

/// A lab's runs or a trial in the field, judged.
#[derive(Debug)]
pub struct Side {
    pub(super) trials: Vec<Scored>,
    /// In the order of the fleet's.
    pub(super) arms: Vec<Arm>,
    /// That were obtained for the arms.
    versions: Vec<Option<String>>,
    pub(super) fleet: Fleet,
    pub(super) analysis: Analysis,
}

impl Side {
    /// Lab runs of relays as one fleet: arms of one name are one arm, and each repeat of each run is a block of its own.
    /// `metric` replaces the one that they were planned with.
    pub fn of_lab(
        runs: &[(&Store, i64)],
        metric: Option<Metric>,
        options: &Options,
    ) -> Result<Self, ScoreError> {
        let mut joined: Option<(Self, BTreeMap<String, Value>)> = None;
        for (store, trial_id) in runs {
            let mut rows = Rows::read(store, *trial_id)?;
            rows.trial.plan.metric = metric.unwrap_or(rows.trial.plan.metric);
            let name = rows.trial.plan.name.clone();
            if rows.kind != Kind::LabTor {
                return Err(ScoreError::Refused(format!(
                    "`{name}` is a {}; a score is of lab runs of relays (`heaptrial lab tor`)",
                    rows.kind.describe()
                )));
            }
            let run = LabRun::read(store, &rows)?;
            let clock = run.consensuses().ok_or_else(|| {
                ScoreError::Refused(format!(
                    "no relay of `{name}` got a consensus, so it has no age to compare at"
                ))
            })?;
            let fleet = run.fleet(&rows, options);
            let scored = scored(&rows, Some(clock.consensuses));
            let conditions = conditions(&rows);
            match &mut joined {
                None => joined = Some((Self::judged(scored, fleet, &rows, options), conditions)),
                Some((side, known)) => {
                    side.can_join(&scored, &rows, known, &conditions).map_err(|why| {
                        let first = &side.trials[0].name;
                        ScoreError::Refused(format!("`{first}` and `{name}` cannot be scored as one: {why}"))
                    })?;
                    side.join(scored, fleet, &rows);
                }
            }
        }
        let (mut side, _) = joined.ok_or_else(|| ScoreError::Refused("no lab run was named".to_owned()))?;
        if runs.len() > 1 {
            side.analysis = analyse(&side.fleet, &options.settings);
        }
        Ok(side)
    }

    /// An import or a field trial.
    pub fn of_field(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ScoreError> {
        let rows = Rows::read(store, trial_id)?;
        if rows.kind != Kind::Field && !rows.kind.is_import() {
            return Err(ScoreError::Refused(format!(
                "`{}` is a {}; a score is against an import or a field trial",
                rows.trial.plan.name,
                rows.kind.describe()
            )));
        }
        let fleet = rows.fleet(store, options)?;
        Ok(Self::judged(scored(&rows, None), fleet, &rows, options))
    }

    fn judged(scored: Scored, fleet: Fleet, rows: &Rows, options: &Options) -> Self {
        Self {
            analysis: analyse(&fleet, &options.settings),
            trials: vec![scored],
            arms: rows.arms.iter().map(|record| record.arm.clone()).collect(),
            versions: rows.arms.iter().map(version).collect(),
            fleet,
        }
    }

    /// The position of its control.
    pub(super) fn control(&self) -> Option<usize> {
        self.arms.iter().position(|arm| arm.control)
    }

    /// Grave findings on an arm of `arms` or on all, in words.
    pub(super) fn grave(&self, side: &str, arms: &[usize]) -> Vec<String> {
        let is_grave = |finding: &&crate::analysis::Finding| {
            finding.severity == Severity::Grave
                && (finding.arms.is_empty() || finding.arms.iter().any(|arm| arms.contains(arm)))
        };
        let text = |finding: &crate::analysis::Finding| {
            let names: Vec<&str> = finding.arms.iter().map(|arm| self.arms[*arm].name.as_str()).collect();
            let of = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            format!("In the {side}'s data{of}: {}.", finding.evidence)
        };
        self.analysis.findings.iter().filter(is_grave).map(text).collect()
    }

    /// Why a run cannot be joined, if it cannot.
    fn can_join(
        &self,
        scored: &Scored,
        rows: &Rows,
        known: &BTreeMap<String, Value>,
        conditions: &BTreeMap<String, Value>,
    ) -> Result<(), String> {
        if self.trials.iter().any(|known| known == scored) {
            return Err("they are the same run, which repeats nothing".to_owned());
        }
        if scored.metric != self.trials[0].metric {
            return Err("they compare different metrics; add --metric rss".to_owned());
        }
        if known != conditions {
            let mut names = known.keys().chain(conditions.keys());
            let name =
                names.find(|name| known.get(*name) != conditions.get(*name)).map_or("", String::as_str);
            return Err(format!("they differ in `{name}`; score each by itself"));
        }
        for record in &rows.arms {
            let known = self.arms.iter().zip(&self.versions).find(|(known, _)| known.name == record.arm.name);
            if known
                .is_some_and(|(known, of)| known.treatment != record.arm.treatment || *of != version(record))
            {
                return Err(format!("`{}` is another treatment or version in the second", record.arm.name));
            }
        }
        let control = self.control().map(|control| &self.arms[control].name);
        match control.filter(|control| rows.arms.iter().all(|record| record.arm.name != **control)) {
            Some(control) => Err(format!("the second has no arm {control}, the control of the first")),
            None => Ok(()),
        }
    }

    /// Adds the services of one more run.
    fn join(&mut self, scored: Scored, fleet: Fleet, rows: &Rows) {
        let places: Vec<usize> = rows
            .arms
            .iter()
            .zip(&fleet.arms)
            .map(|(record, of_fleet)| {
                self.arms.iter().position(|known| known.name == record.arm.name).unwrap_or_else(|| {
                    self.arms.push(Arm { control: false, ..record.arm.clone() });
                    self.versions.push(version(record));
                    self.fleet.arms.push(FleetArm { control: false, ..of_fleet.clone() });
                    self.arms.len() - 1
                })
            })
            .collect();
        let next = self.fleet.services.iter().map(|service| service.block + 1).max().unwrap_or(0);
        for mut service in fleet.services {
            service.block += next;
            service.arms = service.arms.iter().map(|arm| places[*arm]).collect();
            self.fleet.services.push(service);
        }
        self.trials.push(scored);
    }
}

/// What changes the memory of a relay in a run.
fn conditions(rows: &Rows) -> BTreeMap<String, Value> {
    let plan = &rows.trial.plan;
    let parameters = plan.parameters.as_object().into_iter().flatten();
    let mut conditions: BTreeMap<String, Value> = parameters
        .filter(|(name, _)| !OWN_PARAMETERS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(processors) = conditions.get_mut("processors").and_then(Value::as_object_mut) {
        processors.remove("arms");
    }
    let facts =
        HOST_FACTS.iter().filter_map(|name| Some(((*name).to_owned(), plan.host_facts.get(name)?.clone())));
    conditions.extend(facts.filter(|(_, value)| !value.is_null()));
    conditions
}

fn version(record: &ArmRecord) -> Option<String> {
    Some(record.obtained.as_ref()?.get("version")?.as_str()?.to_owned())
}

fn scored(rows: &Rows, consensuses: Option<u32>) -> Scored {
    let plan = &rows.trial.plan;
    Scored {
        name: plan.name.clone(),
        kind: rows.kind,
        seed: consensuses.map(|_| plan.seed),
        consensuses,
        metric: plan.metric,
        command: plan.command.clone(),
    }
}
