//! One side of a score: the lab, or the field.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_analysis::{Analysis, Finding, Fleet, FleetArm, Severity, analyse};
use heaptrial_model::{Arm, Metric, Version};
use heaptrial_store::{ArmRecord, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LeftOut, ScoreError};
use crate::consensuses::ConsensusClock;
use crate::lab::LabRun;
use crate::{Kind, Options, Rows};

/// A trial that a score is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    pub name: String,
    pub kind: Kind,
    /// Seed of a lab run.
    pub seed: Option<u64>,
    /// Repeats of each arm of a lab run.
    pub repeats: Option<u32>,
    /// Consensuses that its relays took: hours of life that it went through.
    pub consensuses: Option<u32>,
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
        let mut known: Vec<(String, i64, u64)> = Vec::new();
        for (store, trial_id) in runs {
            let mut rows = Rows::read(store, *trial_id)?;
            rows.trial.plan.metric = metric.unwrap_or(rows.trial.plan.metric);
            let name = rows.trial.plan.name.clone();
            // A copy of its database is the same run too.
            let plan = &rows.trial.plan;
            let own = (plan.boot_id.clone(), plan.started_wall_us, plan.seed);
            if known.contains(&own) {
                let why = "they are the same run, which repeats nothing".to_owned();
                return Err(ScoreError::Apart { first: name.clone(), second: name, why });
            }
            known.push(own);
            if rows.kind != Kind::LabTor {
                return Err(ScoreError::NotALab { name, kind: rows.kind.describe() });
            }
            let run = LabRun::read(store, &rows)?;
            let Some(clock) = run.consensuses() else { return Err(ScoreError::NoConsensuses { name }) };
            let fleet = run.fleet(&rows, options);
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

    /// Services that were put into an arm and are in none of its figures.
    pub(super) fn left_out(&self, arm: usize) -> LeftOut {
        let mut left_out = LeftOut::default();
        for (result, service) in self.analysis.services.iter().zip(&self.fleet.services) {
            if !service.arms.contains(&arm) {
                continue;
            }
            match result.off_treatment_in.iter().find(|other| other.arm == arm) {
                Some(other) if other.proved => left_out.proved.push(service.name.clone()),
                Some(other) => {
                    let like = other.like.map(|like| self.arms[like].name.clone());
                    left_out.inferred.push((service.name.clone(), like));
                }
                None if service.current().is_none() => left_out.not_read += 1,
                None => {}
            }
        }
        left_out
    }

    /// Its analysis with the services in their arms that an inference from memory leaves out; `None` where none is.
    pub(super) fn as_listed(&self) -> Option<Analysis> {
        let mut analysis = self.analysis.clone();
        let mut any = false;
        for service in &mut analysis.services {
            any |= service.off_treatment_in.iter().any(|other| !other.proved);
            service.off_treatment_in.retain(|other| other.proved);
        }
        any.then_some(analysis)
    }

    /// Grave findings on an arm of `arms` or on all, in words.
    pub(super) fn grave(&self, arms: &[usize]) -> Vec<String> {
        let findings = self.analysis.findings.iter().filter(|finding| {
            finding.severity == Severity::Grave
                && (finding.arms.is_empty() || finding.arms.iter().any(|arm| arms.contains(arm)))
        });
        let told = |finding: &Finding| {
            let names: Vec<&str> = finding.arms.iter().map(|arm| self.arms[*arm].name.as_str()).collect();
            match names[..] {
                [] => finding.evidence.clone(),
                _ => format!("{}: {}", names.join(", "), finding.evidence),
            }
        };
        findings.map(told).collect()
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
        let renamed = |arm: &&Arm| {
            self.arms.iter().any(|known| known.name == arm.name && known.treatment != arm.treatment)
        };
        if let Some(arm) = arms.iter().find(renamed) {
            return Err(apart(format!(
                "`{}` is one treatment in the first and another in the second",
                arm.name
            )));
        }
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, arm) in arms.iter().enumerate() {
            let of_treatment =
                |arms: &[Arm]| arms.iter().filter(|other| other.treatment == arm.treatment).count();
            // Builds of commits are of one version: then arms go by name.
            let one = of_treatment(arms) == 1 && of_treatment(&self.arms) == 1;
            let own = self
                .arms
                .iter()
                .position(|known| known.treatment == arm.treatment && (one || known.name == arm.name));
            let own = own.unwrap_or_else(|| {
                self.arms.push(Arm { control: false, ..arm.clone() });
                let FleetArm { name, restarted, .. } = fleet.arms[place].clone();
                self.fleet.arms.push(FleetArm { name, control: false, restarted });
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
    for name in ["userland", "os", "architecture", "page_size_bytes", "thp_mode"] {
        let told = plan.host_facts.get(name).filter(|value| !value.is_null());
        conditions.extend(told.map(|value| (name.to_owned(), value.clone())));
    }
    conditions
}

/// The arms, each with the version that was prepared for it where its spec tells none.
fn arms(rows: &Rows) -> Vec<Arm> {
    let with_version = |record: &ArmRecord| {
        let mut arm = record.arm.clone();
        let version = record.obtained.as_ref().and_then(|obtained| obtained.get("version")?.as_str());
        if let Some(allocator) = arm.treatment.allocator.as_mut().filter(|spec| spec.version.is_none()) {
            allocator.version = version.map(Version::new);
        }
        arm
    };
    rows.arms.iter().map(with_version).collect()
}

fn scored(rows: &Rows, clock: Option<&ConsensusClock>) -> Scored {
    let plan = &rows.trial.plan;
    Scored {
        name: plan.name.clone(),
        kind: rows.kind,
        seed: clock.map(|_| plan.seed),
        repeats: clock.map(|_| plan.repeats),
        consensuses: clock.map(|clock| clock.consensuses),
        pace: clock.and_then(|clock| clock.pace),
        metric: plan.metric,
        command: plan.command.clone(),
        tool_version: plan.tool_version.clone(),
    }
}
