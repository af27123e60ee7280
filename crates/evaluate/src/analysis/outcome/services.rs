//! An arm's services that bloat.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, LimitKind};

/// How many services of an arm bloat. The median service may be stable while some do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceVerdicts {
    pub services: u32,
    /// Services that grow faster than the others by more than is usual, without levelling off, and whose
    /// memory runs out within the horizon.
    pub bloating: u32,
    /// Share that bloats, with its exact interval (Clopper and Pearson): of all services like these, not of these.
    pub bloating_share: Estimate,
    /// The services that bloat, fastest first.
    pub bloating_services: Vec<ServiceGrowth>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceGrowth {
    pub name: String,
    /// Growth of the logarithm of memory a day.
    pub share_per_day: f64,
    /// Growth in bytes a day.
    pub bytes_per_day: f64,
    /// Days until memory runs out by that part of its growth that it does not share with its arm.
    pub days_until_full: f64,
    /// The limit that is reached first.
    pub limit: LimitKind,
}
