use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_model::TorFlag;

use super::{Relay, RelayReadings};
use crate::{Control, Endpoint, TorError};

/// An authenticated connection to a running relay's control socket or port.
#[derive(Debug)]
pub struct RelayControl {
    control: Control,
    torrc: PathBuf,
    fingerprint: Option<String>,
}

impl RelayControl {
    /// Connects to the relay's control socket, or to its control port where it has no socket, and authenticates by
    /// its cookie. Neither connecting nor an answer takes longer than `timeout`.
    pub fn connect(relay: &Relay, timeout: Duration) -> Result<Self, TorError> {
        let socket = relay.control_socket.clone().map(Endpoint::Unix);
        let address = socket.or(relay.control_port.map(Endpoint::Tcp)).ok_or_else(|| {
            TorError::Unreachable { torrc: relay.torrc.clone(), missing: "ControlSocket or ControlPort" }
        })?;
        let control = Control::open(address, relay.cookie_file.as_deref(), timeout)?;
        Ok(Self { control, torrc: relay.torrc.clone(), fingerprint: relay.fingerprint.clone() })
    }

    /// The value of one `GETINFO` key.
    pub fn info(&mut self, key: &str) -> Result<String, TorError> {
        self.control.info(key)
    }

    /// The values of an option that are in force, in tor's own writing (`MaxMemInQueues 1 GB` is `1073741824`): one
    /// of an option that may be given once, also where it is the default. Compare with
    /// [`Relay::effective_options`], which has the same writing.
    pub fn conf(&mut self, option: &str) -> Result<Vec<String>, TorError> {
        self.control.conf(option)
    }

    /// Whether a torrc's `option`, which may be given once and is written there as `value`, is in force; `effective` are
    /// that torrc's [`Relay::effective_options`].
    pub fn is_in_force(
        &mut self,
        option: &str,
        value: &str,
        effective: &BTreeMap<String, Vec<String>>,
    ) -> Result<bool, TorError> {
        let found = self.conf(option)?;
        let expected = effective.iter().find(|(name, _)| name.eq_ignore_ascii_case(option));
        Ok(match expected {
            Some((_, values)) => found == *values,
            // The value is tor's default, which is not among those that differ from it.
            None => found.last().is_none_or(|found| found.eq_ignore_ascii_case(value)),
        })
    }

    /// How far the relay's start is, in percent; at 100 it does its work.
    pub fn bootstrap_percent(&mut self) -> Result<u8, TorError> {
        let phase = self.control.info("status/bootstrap-phase")?;
        phase.split(' ').find_map(|word| word.strip_prefix("PROGRESS=")?.parse().ok()).ok_or_else(|| {
            let problem = format!("has a bootstrap phase without PROGRESS: {phase}");
            TorError::Content { path: self.torrc.clone(), problem }
        })
    }

    /// When the consensus that the relay uses became valid, in seconds since 1970; `None` before it has one. A relay
    /// whose network has no guards, as that of the lab, has a consensus and stays at 0 percent.
    pub fn consensus_valid_after(&mut self) -> Result<Option<i64>, TorError> {
        self.control.consensus_valid_after()
    }

    /// All of the relay's work that the control connection has. What it does not have is `None`; an error
    /// is one of the connection.
    pub fn readings(&mut self) -> Result<RelayReadings, TorError> {
        let mut readings = RelayReadings {
            bootstrap_percent: optional(self.bootstrap_percent())?,
            read_bytes: optional(self.number("traffic/read"))?.flatten(),
            written_bytes: optional(self.number("traffic/written"))?.flatten(),
            connections: optional(self.connections())?,
            ..RelayReadings::default()
        };
        readings.flags = optional(self.flags())?.flatten();
        Ok(readings)
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, TorError> {
        Ok(self.control.info(key)?.trim().parse().ok())
    }

    fn connections(&mut self) -> Result<u64, TorError> {
        let status = self.control.info("orconn-status")?;
        Ok(status.lines().filter(|line| line.ends_with(" CONNECTED")).count() as u64)
    }

    /// The flags of the relay in its consensus: none where that does not list it, `None` where it has no consensus.
    fn flags(&mut self) -> Result<Option<BTreeSet<TorFlag>>, TorError> {
        let Some(fingerprint) = self.fingerprint.clone() else { return Ok(None) };
        if self.control.consensus_valid_after()?.is_none() {
            return Ok(None);
        }
        let status = match self.control.info(&format!("ns/id/{fingerprint}")) {
            // 552: the consensus does not list it.
            Err(TorError::Refused { answer, .. }) if answer.starts_with("552") => String::new(),
            status => status?,
        };
        let flags = status.lines().find_map(|line| line.strip_prefix("s ")).unwrap_or("");
        Ok(Some(super::readings::flags(flags.split_whitespace())))
    }
}

/// `None` where the relay answers that it does not know.
fn optional<T>(answer: Result<T, TorError>) -> Result<Option<T>, TorError> {
    match answer {
        Err(TorError::Refused { .. } | TorError::Content { .. }) => Ok(None),
        answer => answer.map(Some),
    }
}
