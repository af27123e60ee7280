//! Measurements of many services, from one or several files.

use std::collections::HashMap;

use heaptrial_store::ImportedSample;

/// Readings of one nickname, under one label of a server and with one fingerprint. A service may be made of several of these.
#[derive(Debug, Clone, Default)]
pub struct MeasuredService {
    pub nickname: String,
    /// The label of the server that it runs on; empty where the file does not have it.
    pub server: String,
    /// The relay's fingerprint; empty where the file does not have it.
    pub fingerprint: String,
    pub samples: Vec<ImportedSample>,
    /// Groups that the files themselves name: since when, and which.
    pub groups: Vec<(i64, String)>,
    pub file: String,
}

impl MeasuredService {
    pub fn span(&self) -> (i64, i64) {
        let times = || self.samples.iter().map(|sample| sample.wall_us);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// Adds a reading; `group` is what its row names, or nothing.
    pub(crate) fn push(&mut self, sample: ImportedSample, group: &[u8]) {
        let last = self.groups.last().map_or("", |(_, group)| group);
        if group != last.as_bytes() {
            self.groups.push((sample.wall_us, String::from_utf8_lossy(group).into_owned()));
        }
        self.samples.push(sample);
    }
}

#[derive(Debug, Clone, Default)]
pub struct Measurements {
    pub services: Vec<MeasuredService>,
    /// Their positions by nickname, server and fingerprint.
    pub(crate) places: HashMap<Vec<u8>, usize>,
}

/// Why a nickname cannot name a service.
pub(crate) const NOT_A_NICKNAME: &str = "expected a nickname of 1 to 255 of the characters a-z A-Z 0-9 : - _ . @ \\, not starting with `-` or `.`";
