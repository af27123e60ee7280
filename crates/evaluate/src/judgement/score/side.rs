//! One side of a score: the lab, or the field.

use heaptrial_model::{Arm, Metric};
use heaptrial_store::Store;
use serde::{Deserialize, Serialize};

use super::ScoreError;
use crate::analysis::{Analysis, Finding, Fleet, Severity, analyse};
use crate::judgement::lab::LabRun;
use crate::judgement::{Kind, Options, Rows};

/// A trial that a score is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    pub name: String,
    pub kind: Kind,
    pub seed: Option<u64>,
    pub consensuses: Option<u32>,
    pub metric: Metric,
    /// The command that repeats it; empty of an import.
    pub command: String,
}

/// A lab run or a trial in the field, judged.
#[derive(Debug)]
pub struct Side {
    pub(super) trial: Scored,
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
        if rows.kind != Kind::LabTor {
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
        Ok(Self::judged(&rows, Some(clock.consensuses), run.fleet(&rows, options), options))
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
        Ok(Self::judged(&rows, None, fleet, options))
    }

    fn judged(rows: &Rows, consensuses: Option<u32>, fleet: Fleet, options: &Options) -> Self {
        let plan = &rows.trial.plan;
        Self {
            analysis: analyse(&fleet, &options.settings),
            trial: Scored {
                name: plan.name.clone(),
                kind: rows.kind,
                seed: consensuses.map(|_| plan.seed),
                consensuses,
                metric: plan.metric,
                command: plan.command.clone(),
            },
            arms: rows.arms.iter().map(|record| record.arm.clone()).collect(),
            fleet,
        }
    }

    /// The position of its control.
    pub(super) fn control(&self) -> Option<usize> {
        self.arms.iter().position(|arm| arm.control)
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
