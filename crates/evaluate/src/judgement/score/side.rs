//! One side of a score: the lab, or the field.

use heaptrial_model::{Arm, Metric, TrialKind};
use heaptrial_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ScoreError;
use crate::analysis::{Analysis, Finding, Fleet, FleetService, Severity, analyse};
use crate::judgement::lab::LabRun;
use crate::judgement::{Options, Rows};

/// Parameters in which runs of one set-up may differ.
const OWN_PARAMETERS: [&str; 3] = ["consensuses", "together", "memory_accounting"];
/// Facts of the host that change what a relay needs.
const HOST_FACTS: [&str; 5] = ["userland", "os", "architecture", "page_size_bytes", "thp_mode"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    pub name: String,
    pub kind: TrialKind,
    pub seed: Option<u64>,
    pub consensuses: Option<u32>,
    pub metric: Metric,
    /// The command that repeats it; empty of an import.
    pub command: String,
}

/// A trial in the field, or lab runs of one set-up, judged.
#[derive(Debug)]
pub struct Side {
    pub(super) trials: Vec<Scored>,
    /// What changes the memory of its services, by name.
    set_up: Map<String, Value>,
    pub(super) arms: Vec<Arm>,
    pub(super) fleet: Fleet,
    pub(super) analysis: Analysis,
}

impl Side {
    /// A lab run of relays. `metric` replaces the one that it was planned with.
    pub fn of_lab(
        store: &Store,
        trial_id: i64,
        metric: Option<Metric>,
        options: &Options,
    ) -> Result<Self, ScoreError> {
        let mut rows = Rows::read(store, trial_id)?;
        rows.trial.plan.metric = metric.unwrap_or(rows.trial.plan.metric);
        let name = &rows.trial.plan.name;
        if rows.kind != TrialKind::LabTor {
            return Err(ScoreError::Refused(format!(
                "`{name}` is a {}; a score is of a lab run of relays (`heaptrial lab tor`)",
                rows.kind.describe()
            )));
        }
        let run = LabRun::read(store, &rows)?;
        let clock = run.consensuses().ok_or_else(|| {
            ScoreError::Refused(format!(
                "no relay of `{name}` got a consensus, so it has no age to compare at"
            ))
        })?;
        Ok(Self::judged(&rows, Some(clock.taken), run.fleet(&rows, options), options))
    }

    /// Takes in a further lab run as repeats of this one, from which it differs in nothing but the seed.
    pub fn join(&mut self, other: Self, options: &Options) -> Result<(), ScoreError> {
        let mut keys = self.set_up.keys().chain(other.set_up.keys());
        let differing = keys.find(|key| self.set_up.get(*key) != other.set_up.get(*key));
        let why = match differing {
            Some(key) => format!("they differ in `{key}`; score each by itself"),
            None if self.trials.contains(&other.trials[0]) => {
                "they are the same run, which repeats nothing".to_owned()
            }
            None => {
                let next = self.fleet.services.iter().map(|service| service.block + 1).max().unwrap_or(0);
                let services = other.fleet.services.into_iter();
                let moved = |service: FleetService| FleetService { block: service.block + next, ..service };
                self.fleet.services.extend(services.map(moved));
                self.trials.extend(other.trials);
                self.analysis = analyse(&self.fleet, &options.settings);
                return Ok(());
            }
        };
        let [first, second] = [&self.trials[0].name, &other.trials[0].name];
        Err(ScoreError::Refused(format!("`{first}` and `{second}` cannot be scored as one: {why}")))
    }

    /// An import or a field trial.
    pub fn of_field(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ScoreError> {
        let rows = Rows::read(store, trial_id)?;
        if rows.kind != TrialKind::Field && !rows.kind.is_import() {
            return Err(ScoreError::Refused(format!(
                "`{}` is a {}; a score is against an import or a field trial",
                rows.trial.plan.name,
                rows.kind.describe()
            )));
        }
        let fleet = rows.fleet(store, options)?;
        Ok(Self::judged(&rows, None, fleet, options))
    }

    fn judged(rows: &Rows, consensuses: Option<u32>, fleet: Fleet, options: &Options) -> Self {
        let plan = &rows.trial.plan;
        Self {
            analysis: analyse(&fleet, &options.settings),
            set_up: set_up(rows),
            trials: vec![Scored {
                name: plan.name.clone(),
                kind: rows.kind,
                seed: consensuses.map(|_| plan.seed),
                consensuses,
                metric: plan.metric,
                command: plan.command.clone(),
            }],
            arms: rows.arms.iter().map(|record| record.arm.clone()).collect(),
            fleet,
        }
    }

    /// Grave findings on an arm of `arms` or on all, in words.
    pub(super) fn grave(&self, side: &str, arms: &[usize]) -> Vec<String> {
        let is_grave = |finding: &&Finding| {
            finding.severity == Severity::Grave
                && (finding.arms.is_empty() || finding.arms.iter().any(|arm| arms.contains(arm)))
        };
        let text = |finding: &Finding| {
            let names: Vec<&str> = finding.arms.iter().map(|arm| self.arms[*arm].name.as_str()).collect();
            let of = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            format!("In the {side}'s data{of}: {}.", finding.evidence)
        };
        self.analysis.findings.iter().filter(is_grave).map(text).collect()
    }
}

fn set_up(rows: &Rows) -> Map<String, Value> {
    let plan = &rows.trial.plan;
    let mut set_up = plan.parameters.as_object().cloned().unwrap_or_default();
    set_up.retain(|name, _| !OWN_PARAMETERS.contains(&name.as_str()));
    set_up.extend(HOST_FACTS.map(|name| (name.to_owned(), plan.host_facts[name].clone())));
    set_up.insert("metric".to_owned(), json!(plan.metric));
    for record in &rows.arms {
        let version = record.obtained.as_ref().map(|obtained| &obtained["version"]);
        set_up.insert(format!("arm {}", record.arm.name), json!([record.arm, version]));
    }
    set_up
}
