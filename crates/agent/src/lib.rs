//! Samples the services of running trials on this host, keeps their ledger, and records what happened to them.
//!
//! One thread does everything about time and the database. At a tick it samples every main process, asks systemd about
//! services that have none any more, and reads from systemd's journal how their processes ended. Threads of their own
//! identify processes, ask relays and serve metrics. A tick of a trial is one transaction: a kill loses nothing that was
//! committed. After a restart the ledger is continued, and what was missed is recorded as a gap.

mod agent;
mod announced;
mod clock;
mod ends;
mod error;
mod examine;
mod host_trial;
mod ledger;
mod lives;
mod manager;
mod metrics;
mod proofs;
mod relays;
mod rollup;
mod systemd_journal;
#[cfg(test)]
mod testing;
mod tick;
mod trials;
mod unit_file;
mod unread;
mod watched;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use heaptrial_host::Scope;

pub use agent::Agent;
pub use error::AgentError;
pub use metrics::MetricsAddress;
pub use unit_file::{UNIT_FILE, UNIT_NAME, UnitOptions, unit_file};

use heaptrial_model::ServicePattern;

#[derive(Debug, Clone)]
pub struct Config {
    pub scope: Scope,
    pub database: PathBuf,
    pub journals: PathBuf,
    pub interval: Duration,
    /// Services of the host that are sampled too while they are in no trial, as patterns of unit names.
    pub host_patterns: Vec<ServicePattern>,
    pub metrics: Option<MetricsAddress>,
    /// Samples are kept one by one for this long, then as medians and maxima of 15 minutes.
    pub keep_raw: Duration,
}

impl Config {
    /// The usual: once a minute, 14 days raw, no services but those of trials, no metrics.
    pub fn new(database: PathBuf, journals: PathBuf) -> Self {
        Self {
            scope: Scope::System,
            database,
            journals,
            interval: Duration::from_secs(60),
            host_patterns: Vec::new(),
            metrics: None,
            keep_raw: Duration::from_secs(14 * 86_400),
        }
    }
}
