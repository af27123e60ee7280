use std::collections::BTreeSet;
use std::time::Duration;

use heaptrial_model::TorFlag;

use super::{Control, Relay, metrics};
use crate::TorError;

/// The work of a running relay; `None` where it does not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RelayReadings {
    /// Bootstrap progress in percent (`status/bootstrap-phase`).
    pub bootstrap_percent: Option<u8>,
    /// Bytes read since its start (`traffic/read`).
    pub read_bytes: Option<u64>,
    /// Bytes written since its start (`traffic/written`).
    pub written_bytes: Option<u64>,
    pub connections: Option<u64>,
    /// Circuit handshakes that it answered since its start, and that it dropped because its worker threads did not keep up
    /// (`tor_relay_load_onionskins_total`). Only the MetricsPort has them: the control port's begin at 0 with each heartbeat.
    pub handshakes_answered: Option<u64>,
    pub handshakes_dropped: Option<u64>,
    /// Bytes that the out-of-memory handler gave up since its start (`tor_relay_load_oom_bytes_total`).
    pub oom_bytes: Option<u64>,
    /// Its flags in the consensus that it holds; `None` where it does not know.
    pub flags: Option<BTreeSet<TorFlag>>,
    /// It says that it has no flag, also while it has no consensus: it has lost those that it had, and of one that
    /// never had any nothing is known.
    pub without_flags: bool,
}

/// The flags among these words; those that decide nothing are left out.
pub(crate) fn flags<'w>(words: impl Iterator<Item = &'w str>) -> BTreeSet<TorFlag> {
    words.filter_map(|word| word.parse().ok()).collect()
}

impl RelayReadings {
    /// What is here, and the rest from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            bootstrap_percent: self.bootstrap_percent.or(other.bootstrap_percent),
            read_bytes: self.read_bytes.or(other.read_bytes),
            written_bytes: self.written_bytes.or(other.written_bytes),
            connections: self.connections.or(other.connections),
            handshakes_answered: self.handshakes_answered.or(other.handshakes_answered),
            handshakes_dropped: self.handshakes_dropped.or(other.handshakes_dropped),
            oom_bytes: self.oom_bytes.or(other.oom_bytes),
            without_flags: (self.without_flags || other.without_flags) && self.flags.is_none(),
            flags: self.flags.or(other.flags),
        }
    }
}

impl Relay {
    /// Asks the relay by its control socket, and by its MetricsPort for what that does not have; each within
    /// `timeout`. An error only where neither answers. Asking is traffic of the relay too, some 30 KB with metrics.
    pub fn readings(&self, timeout: Duration) -> Result<RelayReadings, TorError> {
        let control =
            Control::of(self, timeout).and_then(|mut control| control.readings(self.fingerprint.as_deref()));
        let Some(metrics) = &self.metrics_port else { return control };
        match (control, metrics::scrape(metrics, timeout)) {
            (Ok(control), Ok(metrics)) => Ok(control.or(metrics)),
            (Ok(readings), Err(_)) | (Err(_), Ok(readings)) => Ok(readings),
            (Err(error), Err(_)) => Err(error),
        }
    }
}
