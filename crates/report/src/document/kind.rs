//! What only one kind of trial has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, PlannedLook, Report, Sampler, SelfCheck, Source};

/// What was run, with what only that has. In JSON `kind` names it, beside the other members of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReportOf {
    /// A command, started once per arm and repeat.
    LabCommand(LabRun),
    /// Relays in a private Tor network.
    LabTor(LabRun),
    /// Services of a fleet, as the scripts of Tor operators measured them.
    ImportTorutils(Imported),
    /// Services of a fleet, as a Prometheus has them.
    ImportPrometheus(Imported),
    /// A randomised trial on the services of a fleet.
    Field(Trial),
    /// Services of a host as they are found, without a trial.
    Host(AsFound),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRun {
    pub repeats: u32,
    pub sampler: Sampler,
    /// The services' CPU time over the duration, as a share of all CPUs (1 is all of them); `None` where their number is
    /// not known.
    pub cpu_share: Option<f64>,
    /// Of relays, the consensuses that they took; `None` where nothing tells of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensuses: Option<Consensuses>,
}

/// How far through the life of a relay a lab run went. A relay in life gets one consensus an hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consensuses {
    /// Whether each came when all relays had worked off the last one and rested: then ages are hours of a relay's life, and
    /// levels are of the ends of rests.
    pub rested: bool,
    /// How many the relays took.
    pub taken: u32,
    /// How many times faster than life that was.
    pub pace: Option<f64>,
    /// When the relays reached an hour of life, ascending.
    pub reached: Vec<ReachedHour>,
}

/// An hour of a relay's life in a lab.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReachedHour {
    /// Hours of life: consensuses that it has taken and worked off.
    pub hours: f64,
    /// Seconds of the lab since the relays were started: median over them.
    pub seconds: f64,
}

impl Consensuses {
    /// Seconds of the lab at an age in seconds of life; `None` before the first hour and after the last.
    pub(crate) fn seconds_at(&self, life_seconds: f64) -> Option<f64> {
        let of = |reached: &ReachedHour| (3600.0 * reached.hours, reached.seconds);
        between(&self.reached.iter().map(of).collect::<Vec<_>>(), life_seconds)
    }

    /// Hours of life after so many seconds of the lab.
    pub(crate) fn hours_at(&self, seconds: f64) -> Option<f64> {
        let of = |reached: &ReachedHour| (reached.seconds, reached.hours);
        between(&self.reached.iter().map(of).collect::<Vec<_>>(), seconds)
    }
}

fn between(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let next = points.partition_point(|point| point.0 < at);
    let right = points.get(next)?;
    if right.0 == at {
        return Some(right.1);
    }
    let left = points.get(next.checked_sub(1)?)?;
    Some(left.1 + (right.1 - left.1) * (at - left.0) / (right.0 - left.0))
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// How services came into arms: `as listed, not drawn at random`.
    pub assignment: String,
    /// Usual time between two readings of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_interval_seconds: Option<f64>,
    /// The procedure applied to the control alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
    /// The files that the data were imported from.
    pub sources: Vec<Source>,
}

/// Of a trial on services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// How services came into arms: `random within blocks`, or that they did not.
    pub assignment: String,
    pub sampler: Sampler,
    /// Usual time between two readings of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_interval_seconds: Option<f64>,
    /// The procedure applied to the control alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
    /// The looks that the plan fixed in advance.
    pub looks: Vec<PlannedLook>,
}

/// Of services as they are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AsFound {
    /// How services came into arms, where there are several: `as found, not drawn at random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<String>,
    pub sampler: Sampler,
    /// Usual time between two readings of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_interval_seconds: Option<f64>,
}

impl Report {
    pub fn kind(&self) -> Kind {
        match &self.of {
            ReportOf::LabCommand(_) => Kind::LabCommand,
            ReportOf::LabTor(_) => Kind::LabTor,
            ReportOf::ImportTorutils(_) => Kind::ImportTorutils,
            ReportOf::ImportPrometheus(_) => Kind::ImportPrometheus,
            ReportOf::Field(_) => Kind::Field,
            ReportOf::Host(_) => Kind::Host,
        }
    }

    /// Repeats of each arm; 1 outside a lab.
    pub fn repeats(&self) -> u32 {
        match &self.of {
            ReportOf::LabCommand(run) | ReportOf::LabTor(run) => run.repeats,
            _ => 1,
        }
    }

    fn imported(&self) -> Option<&Imported> {
        match &self.of {
            ReportOf::ImportTorutils(import) | ReportOf::ImportPrometheus(import) => Some(import),
            ReportOf::LabCommand(_) | ReportOf::LabTor(_) | ReportOf::Field(_) | ReportOf::Host(_) => None,
        }
    }

    /// How services came into arms; `None` where nobody put them there, and of a lab, which draws.
    pub fn assignment(&self) -> Option<&str> {
        match &self.of {
            // A rollout assigns nothing.
            ReportOf::Field(trial) => Some(trial.assignment.as_str()).filter(|_| self.arms.len() > 1),
            ReportOf::Host(found) => found.assignment.as_deref(),
            _ => self.imported().map(|import| import.assignment.as_str()),
        }
    }

    /// What sampling cost; `None` where others sampled.
    pub fn sampler(&self) -> Option<Sampler> {
        match &self.of {
            ReportOf::LabCommand(run) | ReportOf::LabTor(run) => Some(run.sampler),
            ReportOf::Field(trial) => Some(trial.sampler),
            ReportOf::Host(found) => Some(found.sampler),
            ReportOf::ImportTorutils(_) | ReportOf::ImportPrometheus(_) => None,
        }
    }

    /// The services' CPU time in a lab as a share of all CPUs.
    pub fn cpu_share(&self) -> Option<f64> {
        match &self.of {
            ReportOf::LabCommand(run) | ReportOf::LabTor(run) => run.cpu_share,
            _ => None,
        }
    }

    /// The consensuses that a lab's relays took.
    pub fn consensuses(&self) -> Option<&Consensuses> {
        match &self.of {
            ReportOf::LabTor(run) => run.consensuses.as_ref(),
            _ => None,
        }
    }

    /// Whether ages are those of services in life: on hosts, and of a lab's relays that rested after each consensus.
    pub fn has_days(&self) -> bool {
        !self.kind().is_lab() || self.consensuses().is_some_and(|consensuses| consensuses.rested)
    }

    /// Usual time between two readings of a service on a host.
    pub fn sampling_interval_seconds(&self) -> Option<f64> {
        match &self.of {
            ReportOf::Field(trial) => trial.sampling_interval_seconds,
            ReportOf::Host(found) => found.sampling_interval_seconds,
            _ => self.imported()?.sampling_interval_seconds,
        }
    }

    /// The procedure applied to the control alone.
    pub fn self_check(&self) -> Option<SelfCheck> {
        match &self.of {
            ReportOf::Field(trial) => trial.self_check,
            _ => self.imported()?.self_check,
        }
    }

    /// The looks that a trial's plan fixed in advance.
    pub fn looks(&self) -> &[PlannedLook] {
        match &self.of {
            ReportOf::Field(trial) => &trial.looks,
            _ => &[],
        }
    }

    /// The files that an import read.
    pub fn sources(&self) -> &[Source] {
        self.imported().map_or(&[], |import| &import.sources)
    }
}
