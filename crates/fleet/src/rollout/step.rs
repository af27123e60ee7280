//! How far a rollout has come, as it stands in the transaction's journal.

use std::fmt;

use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};

/// A moment of a boot of the host, which no clock that is set moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    pub id: String,
    /// Microseconds since it, suspends included.
    pub boottime_us: i64,
}

/// A step of a rollout. Waves are counted from 0, which is the canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RolloutStep {
    /// The first canary had the treatment, was put back, and ran what it had run.
    RollbackProved {
        service: ServiceName,
    },
    WaveBegun {
        wave: u32,
    },
    /// Every service of a wave has the treatment.
    WaveApplied {
        wave: u32,
        boot: Boot,
    },
    /// The gate after a wave let it pass.
    WavePassed {
        wave: u32,
        evidence: Vec<String>,
    },
    /// The rollout stopped within a wave, which was put back.
    Stopped {
        wave: u32,
        reasons: Vec<Reason>,
    },
    Paused,
    Interrupted,
    /// A wave was rolled back by command.
    WaveRolledBack {
        wave: u32,
    },
}

/// What speaks against going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Of which service; `None` of all of them, or of the rollout itself.
    pub service: Option<ServiceName>,
    pub what: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Some(service) => write!(f, "{service}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
