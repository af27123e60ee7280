//! Metrics of the last tick, served on a unix socket or a loopback port.

mod server;
mod text;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use heaptrial_host::listen::Listen;
use heaptrial_model::Sample;

use crate::AgentError;

/// Where metrics are served: a Unix socket, or a port of a loopback address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress(Listen);

/// Why metrics cannot be served there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricsAddressError {
    #[error("`{0}` is no address for metrics; expected unix:/PATH, 127.0.0.1:PORT or [::1]:PORT")]
    Syntax(String),
    /// An address that others can reach.
    #[error(
        "metrics are served without any access control, so only at a loopback address or a unix socket, not at {0}"
    )]
    NotLoopback(Listen),
}

impl FromStr for MetricsAddress {
    type Err = MetricsAddressError;

    fn from_str(text: &str) -> Result<Self, MetricsAddressError> {
        let listen = text.parse().map_err(|_| MetricsAddressError::Syntax(text.to_owned()))?;
        match &listen {
            // The agent's unit has a folder of its own to start in.
            Listen::Unix(path) if !path.is_absolute() => Err(MetricsAddressError::Syntax(text.to_owned())),
            _ if listen.is_local() => Ok(Self(listen)),
            _ => Err(MetricsAddressError::NotLoopback(listen)),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The last tick, for the metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) services: Vec<ServiceLine>,
    pub(crate) trials: usize,
    pub(crate) cpu_us: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) tick_seconds: f64,
    pub(crate) ticks: u64,
    pub(crate) lost_ticks: u64,
    pub(crate) taken_wall_us: i64,
}

/// A service in a trial; `None` where it has no main process.
#[derive(Debug, Clone)]
pub(crate) struct ServiceLine {
    pub(crate) service: String,
    pub(crate) arm: String,
    pub(crate) trial: String,
    pub(crate) contaminated: Option<bool>,
    /// Start of the main process, in microseconds since 1970.
    pub(crate) started_wall_us: Option<i64>,
    pub(crate) sample: Option<Sample>,
    /// Whether it is known to have a main process or none: systemd was asked.
    pub(crate) known: bool,
}

/// The server, and what it shows.
#[derive(Debug)]
pub(crate) struct Metrics {
    shown: Arc<Mutex<Snapshot>>,
}

impl Metrics {
    /// Listens, and answers from a thread of its own.
    pub(crate) fn serve(address: &MetricsAddress) -> Result<Self, AgentError> {
        let shown = Arc::new(Mutex::new(Snapshot::default()));
        server::start(&address.0, shown.clone())
            .map_err(AgentError::system(format!("serve metrics at {address}")))?;
        Ok(Self { shown })
    }

    pub(crate) fn show(&self, snapshot: Snapshot) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_cannot_reach_is_an_address() {
        for good in ["unix:/run/heaptrial/metrics.sock", "127.0.0.1:9779", "[::1]:9779"] {
            assert_eq!(good.parse::<MetricsAddress>().unwrap().to_string(), good);
        }
        for bad in ["0.0.0.0:9779", "[::]:9779", "192.0.2.1:80", "unix:relative", "example.org:80", "9779"] {
            assert!(bad.parse::<MetricsAddress>().is_err(), "{bad}");
        }
    }
}
