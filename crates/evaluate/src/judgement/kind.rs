//! How a trial is reported.

use heaptrial_model::TrialKind;
use heaptrial_store::TrialRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A command, started once per arm and repeat.
    LabCommand,
    /// Relays in a private Tor network.
    LabTor,
    /// Services of a fleet, as the scripts of Tor operators measured them.
    ImportTorutils,
    /// Services of a fleet, as a Prometheus has them.
    ImportPrometheus,
    /// A randomised trial on the services of a fleet.
    Field,
    /// Services of a host as they are found, without a trial.
    Host,
}

impl Kind {
    /// That of a stored trial.
    pub(crate) fn of(trial: &TrialRecord) -> Self {
        match trial.plan.kind {
            TrialKind::LabCommand => Self::LabCommand,
            TrialKind::LabTor => Self::LabTor,
            TrialKind::ImportTorutils => Self::ImportTorutils,
            TrialKind::ImportPrometheus => Self::ImportPrometheus,
            // A rollout has one arm, over services that get its treatment one after the other.
            TrialKind::Field | TrialKind::Rollout => Self::Field,
            // A watch compares with no other arm: services as they are found.
            TrialKind::Host | TrialKind::Watch => Self::Host,
        }
    }

    /// What it is, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LabCommand => "lab run of a command",
            Self::LabTor => "lab run of Tor relays in a private network",
            Self::ImportTorutils => "field data imported from CSV files",
            Self::ImportPrometheus => "field data imported from a Prometheus",
            Self::Field => "field trial",
            Self::Host => "services of a host as found",
        }
    }

    /// Whether others measured: then nothing is proved of what ran.
    pub fn is_import(self) -> bool {
        matches!(self, Self::ImportTorutils | Self::ImportPrometheus)
    }

    /// Whether Heaptrial started the services itself.
    pub fn is_lab(self) -> bool {
        matches!(self, Self::LabCommand | Self::LabTor)
    }
}
