//! What a check sees of the host, before anything is judged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use heaptrial_evaluate::analysis::Worked;
use heaptrial_model::{Identity, KnownEvent};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// When, in seconds since 1970.
    pub at: f64,
    pub services: Vec<ServiceSeen>,
    /// Services that match the trial's pattern, are none of its own and have no treatment.
    pub newcomers: Vec<String>,
    /// SHA-256 of the plan's files as they are on disk; `None` where one is gone.
    pub files: BTreeMap<PathBuf, Option<String>>,
    pub host_bytes: Option<f64>,
    pub host_available_bytes: Option<f64>,
    pub failures: Vec<FailureSeen>,
    pub unreadable: Vec<String>,
}

/// A service as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceSeen {
    pub service: String,
    /// Its last reading, in seconds since 1970.
    pub last_reading_at: Option<f64>,
    pub bytes: Option<f64>,
    /// Of that, what lies in swap, which MemoryMax does not count.
    pub swap_bytes: f64,
    /// Since when a relay has reported neither work nor flags, in seconds since 1970: its last answer, or the start of its present life;
    /// `None` of what has never reported any.
    pub unanswered_since: Option<f64>,
    /// What it read and wrote in its last day, where its life is two days old.
    pub worked: Option<Worked>,
    pub limit_bytes: Option<f64>,
    /// How it is, where it does not run and nothing is about to start it.
    pub stopped: Option<String>,
    /// What its process runs; `None` where that is not known now.
    pub runs: Option<Identity>,
    /// Why the ledger says that it does not run its treatment.
    pub contamination: Option<String>,
    /// What its next start will be without; `None` where systemd could not be asked.
    pub next_lacks: Option<Vec<String>>,
}

impl ServiceSeen {
    /// Of its memory, what counts against MemoryMax.
    pub(crate) fn limited_bytes(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes - self.swap_bytes)
    }
}

/// A crash or a kill.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureSeen {
    /// When, in seconds since 1970.
    pub at: f64,
    pub service: String,
    pub kind: KnownEvent,
}
