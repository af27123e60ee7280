//! What the control port of a relay answers about its start, its options and its work.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::TorFlag;

use super::RelayReadings;
use crate::{Control, TorError};

impl Control {
    /// Whether a torrc's `option`, which may be given once and is written there as `value`, is in force;
    /// `effective` are that torrc's [`Relay::effective_options`].
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
        let phase = self.info("status/bootstrap-phase")?;
        let percent = phase.split(' ').find_map(|word| word.strip_prefix("PROGRESS=")?.parse().ok());
        percent.ok_or_else(|| self.unexpected(format!("has a bootstrap phase without PROGRESS: {phase}")))
    }

    /// All of the relay's work that the control connection has. What it does not have is `None`; an error
    /// is one of the connection.
    pub fn readings(&mut self, fingerprint: Option<&str>) -> Result<RelayReadings, TorError> {
        Ok(RelayReadings {
            bootstrap_percent: optional(self.bootstrap_percent())?,
            read_bytes: optional(self.number("traffic/read"))?.flatten(),
            written_bytes: optional(self.number("traffic/written"))?.flatten(),
            connections: optional(self.connections())?,
            flags: optional(self.flags(fingerprint))?.flatten(),
            ..RelayReadings::default()
        })
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, TorError> {
        Ok(self.info(key)?.trim().parse().ok())
    }

    fn connections(&mut self) -> Result<u64, TorError> {
        let status = self.info("orconn-status")?;
        Ok(status.lines().filter(|line| line.ends_with(" CONNECTED")).count() as u64)
    }

    /// The flags of the relay in its consensus: none where that does not list it, `None` where it has no consensus.
    fn flags(&mut self, fingerprint: Option<&str>) -> Result<Option<BTreeSet<TorFlag>>, TorError> {
        let Some(fingerprint) = fingerprint else { return Ok(None) };
        if self.consensus_valid_after()?.is_none() {
            return Ok(None);
        }
        let status = match self.info(&format!("ns/id/{fingerprint}")) {
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
        Err(TorError::Refused { .. }) => Ok(None),
        answer => answer.map(Some),
    }
}
