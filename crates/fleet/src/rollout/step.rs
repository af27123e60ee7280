//! How far a rollout has come, as it stands in the transaction's journal.

use std::fmt;
use std::time::Duration;

use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};

/// A moment of a boot of the host, which no clock that is set moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    pub id: String,
    /// Microseconds since it, suspends included.
    pub boottime_us: i64,
}

impl Boot {
    /// How long ago that was on the boot `boot_id`, which has run for so long; since that boot, where it was on an earlier one.
    pub fn passed(&self, boot_id: &str, boottime_us: i64) -> Duration {
        let since_us = if self.id == boot_id { self.boottime_us } else { 0 };
        Duration::from_micros((boottime_us - since_us).try_into().unwrap_or(0))
    }
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
    WaveApplied {
        wave: u32,
        boot: Boot,
    },
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
