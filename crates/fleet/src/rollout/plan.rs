//! What is fixed when a rollout begins.

use std::collections::BTreeMap;

use heaptrial_change::{Owner, Prepared};
use heaptrial_evaluate::analysis::{LEAST_WORK_SECONDS, UsualWork};
use heaptrial_model::{HumanDuration, ServiceName, TorFlag};
use serde::{Deserialize, Serialize};

use crate::rollout::expected::Stratum;
use crate::rollout::{QuietHours, Refused};

/// So much of a service's work is enough to go by.
const MOST_WORK_SECONDS: f64 = 3600.0;

/// A rollout, frozen beside the transaction's own plan so that a resume depends on nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolloutPlan {
    pub trial: Option<String>,
    /// Where that trial was elsewhere, the digest of its verdict.
    pub verdict: Option<String>,
    /// What spoke against it, where it was started all the same.
    pub forced: Option<Forced>,
    pub arm: String,
    pub waves: Vec<Vec<ServiceName>>,
    pub seed: u64,
    /// Services that were as wanted before, and are left alone.
    pub already: Vec<ServiceName>,
    /// How long a wave is watched before the next one; of waves after the last of these, the last.
    pub soak: Vec<HumanDuration>,
    pub quiet_hours: Option<QuietHours>,
    pub judges_work: bool,
    /// What services are expected to use. Each service is in one.
    pub strata: Vec<Stratum>,
    pub before: BTreeMap<ServiceName, Before>,
}

/// A start against objections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    pub reason: String,
    pub objections: Vec<String>,
}

/// A service before the rollout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    pub bytes: Option<f64>,
    /// What it read and wrote a second; `None` where that is not known.
    pub work: Option<UsualWork>,
    /// Flags of its network, such as `Guard`; `None` where they are not known.
    pub flags: Option<Vec<TorFlag>>,
    /// What it can report beside memory, and has to report before a gate lets it pass.
    pub reports: Reports,
}

/// What a service can report of its use to others. A relay reports both; of any other service nothing is known but its
/// memory, which no waiting changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    pub work: bool,
    pub flags: bool,
}

/// What a transaction that brings a rollout out is called.
const KIND: &str = "rollout";

/// A rollout as a transaction freezes it.
pub fn freeze(plan: &RolloutPlan) -> Result<Owner, serde_json::Error> {
    Ok(Owner { kind: KIND.to_owned(), takes_over: true, frozen: serde_json::to_value(plan)? })
}

/// Whether a transaction brings a rollout out.
pub fn is_rollout(prepared: &Prepared) -> bool {
    prepared.owner.kind == KIND
}

/// The rollout that was frozen.
pub fn read_plan(prepared: &Prepared) -> Result<RolloutPlan, Refused> {
    let name = &prepared.plan.name;
    if !is_rollout(prepared) {
        return Err(Refused(format!("`{name}` is a trial and no rollout")));
    }
    RolloutPlan::deserialize(&prepared.owner.frozen)
        .map_err(|error| Refused(format!("the frozen plan of rollout `{name}` is damaged: {error}")))
}

impl RolloutPlan {
    /// How long a wave is watched.
    pub fn soak_of(&self, wave: usize) -> HumanDuration {
        let found = self.soak.get(wave).or(self.soak.last());
        found.copied().unwrap_or(HumanDuration(std::time::Duration::ZERO))
    }

    /// Readings of work must cover so many seconds before a gate goes by them: the time in which a relay finds back to
    /// its work after a restart is no work. Of a service that is restarted at intervals no life gets older than these.
    pub fn work_seconds(&self, wave: usize, restart_every: Option<HumanDuration>) -> f64 {
        let of_wave = (self.soak_of(wave).0.as_secs_f64() / 3.0).min(MOST_WORK_SECONDS);
        let of_life = restart_every.map_or(f64::INFINITY, |every| every.0.as_secs_f64() / 4.0);
        of_wave.min(of_life).max(LEAST_WORK_SECONDS)
    }

    /// The stratum of a service; every one of the rollout is in one.
    pub fn stratum(&self, service: &ServiceName) -> &Stratum {
        static NONE: Stratum = Stratum { name: String::new(), services: Vec::new(), ratio: None };
        self.strata.iter().find(|stratum| stratum.services.contains(service)).unwrap_or(&NONE)
    }

    /// The services of all waves up to one, that one included.
    pub fn up_to(&self, wave: usize) -> Vec<ServiceName> {
        self.waves.iter().take(wave + 1).flatten().cloned().collect()
    }
}
