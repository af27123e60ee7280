use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};

/// A service that may take part, and what is known of it before the trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub service: ServiceName,
    /// The host it runs on, by its host name.
    pub host: String,
    /// The host's system, release and architecture, where services of several hosts are known: what builds may differ by.
    #[serde(skip)]
    pub system: String,
    /// What it does: `exit`, `relay`, ... of a Tor instance, else such as its unit's template.
    pub role: String,
    /// Services of one family are never restarted together; `None` has no family.
    pub family: Option<String>,
    /// Memory before the trial: the past median where there is one, else what it has now.
    pub baseline_bytes: Option<u64>,
    pub age_seconds: Option<f64>,
    pub restart_seconds: f64,
}
