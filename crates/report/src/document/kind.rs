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

/// How services came into arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Assignment {
    #[serde(rename = "random within blocks")]
    Random,
    #[serde(rename = "not at random: services have another arm or block than was drawn")]
    ByHand,
    #[serde(rename = "as listed, not drawn at random")]
    Listed,
    #[serde(rename = "as listed, compared within servers, not drawn at random")]
    ListedWithinServers,
    #[serde(rename = "as found, not drawn at random")]
    AsFound,
}

impl Assignment {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Random => "random within blocks",
            Self::ByHand => "not at random: services have another arm or block than was drawn",
            Self::Listed => "as listed, not drawn at random",
            Self::ListedWithinServers => "as listed, compared within servers, not drawn at random",
            Self::AsFound => "as found, not drawn at random",
        }
    }
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
    /// How many the relays took.
    pub taken: u32,
    /// How many times faster than life that was.
    pub pace: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    pub assignment: Assignment,
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
    pub assignment: Assignment,
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
    /// Where there are several arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
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
    pub fn assignment(&self) -> Option<Assignment> {
        match &self.of {
            // A rollout assigns nothing.
            ReportOf::Field(trial) => Some(trial.assignment).filter(|_| self.arms.len() > 1),
            ReportOf::Host(found) => found.assignment,
            _ => self.imported().map(|import| import.assignment),
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

    /// Whether ages are those of services in life: on hosts, and of a lab's relays.
    pub fn has_days(&self) -> bool {
        self.kind() != Kind::LabCommand
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
