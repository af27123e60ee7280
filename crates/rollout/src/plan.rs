//! What is fixed when a rollout begins.

use std::collections::BTreeMap;

use heaptrial_analysis::Forecast;
use heaptrial_field::Prepared;
use heaptrial_model::{HumanDuration, ServiceName};
use serde::{Deserialize, Serialize};

use crate::{QuietHours, WaveSizes};

/// A rollout, frozen beside the transaction's own plan so that a resume depends on nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolloutPlan {
    /// The trial that measured the treatment.
    pub trial: Option<String>,
    /// Name of the arm.
    pub arm: String,
    /// Whether this very build was measured in a trial of this host.
    pub measured: bool,
    /// The services of each wave, in the order in which they are changed.
    pub waves: Vec<Vec<ServiceName>>,
    /// Sizes that the waves were made by.
    pub sizes: WaveSizes,
    /// Decides the order.
    pub seed: u64,
    /// Services that were as wanted before, and are left alone.
    pub already: Vec<ServiceName>,
    /// How long a wave is watched before the next one; of waves after the last of these, the last.
    pub soak: Vec<HumanDuration>,
    /// How long is waited, after that, for data that a gate misses.
    pub patience: HumanDuration,
    /// Whether the first canary is put back and changed again before anything else.
    pub prove_rollback: bool,
    /// When nothing is restarted.
    pub quiet_hours: Option<QuietHours>,
    /// What stops it.
    pub limits: Limits,
    /// What the arm's services are expected to use; `None` where no trial measured them.
    pub forecast: Option<Forecast>,
    /// What is known of services before.
    pub before: BTreeMap<ServiceName, Before>,
}

/// What stops a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Restarts that one start or resume may cause, those of putting back among them.
    pub restarts: u32,
}

/// A service before the rollout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// Memory that it used, in bytes.
    pub bytes: Option<f64>,
    /// Bytes read and written a second.
    pub work_bytes_per_second: Option<f64>,
    /// Flags of its network, such as `Guard`.
    pub flags: Vec<String>,
}

/// Why a folder's rollout cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloutPlanError {
    /// It is a trial.
    #[error("`{0}` is a trial and no rollout; `heaptrial trial` deals with it")]
    Trial(String),
    /// It is damaged.
    #[error("the frozen plan of rollout `{name}` is damaged: {problem}")]
    Damaged {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// The rollout that was frozen.
pub fn read_plan(prepared: &Prepared) -> Result<RolloutPlan, RolloutPlanError> {
    let name = prepared.plan.name.clone();
    let Some(value) = prepared.rollout.clone() else { return Err(RolloutPlanError::Trial(name)) };
    serde_json::from_value(value)
        .map_err(|error| RolloutPlanError::Damaged { name, problem: error.to_string() })
}

impl RolloutPlan {
    /// How long a wave is watched.
    pub fn soak_of(&self, wave: usize) -> HumanDuration {
        let found = self.soak.get(wave).or(self.soak.last());
        found.copied().unwrap_or(HumanDuration(std::time::Duration::ZERO))
    }

    /// The services of all waves up to one, that one included.
    pub fn up_to(&self, wave: usize) -> Vec<ServiceName> {
        self.waves.iter().take(wave + 1).flatten().cloned().collect()
    }
}
