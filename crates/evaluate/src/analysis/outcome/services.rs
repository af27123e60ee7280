//! An arm's services by their own verdicts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, LimitKind};

/// How many services of an arm have which verdict. The median service may be stable while some bloat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceVerdicts {
    /// Services with readings.
    pub services: u32,
    /// Growth is shown to be within the margin.
    pub stable: u32,
    /// They are shown to grow: the interval of their growth, or of their growth away from the arm's median, lies above 0.
    pub growing: u32,
    /// They are shown to grow, faster than the arm's median service, without levelling off, and memory runs out within the
    /// horizon.
    pub bloating: u32,
    /// The readings of a service do not tell.
    pub inconclusive: u32,
    /// Share that bloats, with its exact interval (Clopper and Pearson): of all services like these, not of these.
    pub bloating_share: Estimate,
    /// Each service that is shown to grow, fastest first.
    pub growing_services: Vec<ServiceGrowth>,
}

/// A service that is shown to grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceGrowth {
    /// Its name.
    pub name: String,
    /// `growing` or `bloating`.
    pub verdict: ServiceVerdict,
    /// Growth of the logarithm of memory a day. The interval holds for all services of the arm at once (error 1%), and may hold
    /// 0 where a load that all services share moves them: then its growth away from the arm's median is what is shown.
    pub share_per_day: Estimate,
    /// Growth in bytes a day.
    pub bytes_per_day: f64,
    /// Days until memory runs out by that part of its growth that it does not share with its arm.
    pub days_until_full: Option<f64>,
    /// Which memory.
    pub limit: Option<LimitKind>,
}

/// What follows for one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceVerdict {
    /// The 95% interval of its growth lies inside the margin.
    Stable,
    /// It grows.
    Growing,
    /// It grows faster than its arm and does not level off, and memory runs out within the horizon.
    Bloating,
    /// Its readings do not tell.
    Inconclusive,
}

impl ServiceVerdicts {
    /// The services that bloat, fastest first.
    pub fn bloating_services(&self) -> impl Iterator<Item = &ServiceGrowth> {
        self.growing_services.iter().filter(|service| service.verdict == ServiceVerdict::Bloating)
    }
}
