//! Trials that others measured.

mod read;
mod write;

pub use write::SamplesOf;

use heaptrial_model::{Arm, EventKind, LifeStart};
use serde_json::Value;

use crate::NewTrial;

/// A trial as imported: everything that is known of it.
#[derive(Debug, Clone)]
pub struct ImportedTrial {
    /// What stands for its plan. `arms` is ignored: they are in `lists`.
    pub plan: NewTrial,
    /// Which services are in which arm.
    pub lists: Vec<ImportedList>,
    pub services: Vec<ImportedService>,
    pub events: Vec<ImportedEvent>,
    /// The files it came from.
    pub sources: Vec<ImportSource>,
}

/// An arm and the services that a list puts into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedList {
    pub arm: Arm,
    /// Positions of its services. A service may be in several lists.
    pub members: Vec<usize>,
    /// The file that it was read from.
    pub source: String,
}

/// A service with its lives.
#[derive(Debug, Clone)]
pub struct ImportedService {
    pub name: String,
    /// The block within which it is compared.
    pub block: u32,
    /// What else is known of it, as a JSON object.
    pub attributes: Value,
    pub lives: Vec<ImportedLife>,
}

/// A life with its samples.
#[derive(Debug, Clone)]
pub struct ImportedLife {
    /// Start in microseconds since 1970; for [`LifeStart::Unknown`] the first reading.
    pub started_wall_us: i64,
    /// How the start is known.
    pub start: LifeStart,
    /// Why it did not run its arm's treatment; `None` where nothing tells that.
    pub contamination: Option<String>,
    /// Its samples in order of time.
    pub samples: Vec<ImportedSample>,
}

/// A reading as others take it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportedSample {
    pub wall_us: i64,
    /// Resident set size; 0 where it was not measured.
    pub rss_bytes: u64,
    pub vsize_bytes: Option<u64>,
    pub hwm_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// Memory of the control group.
    pub cgroup_current_bytes: Option<u64>,
    /// CPU time since the start, in microseconds.
    pub cpu_us: Option<u64>,
}

/// An event of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedEvent {
    pub wall_us: i64,
    /// Position of the service that it is about.
    pub service: Option<usize>,
    /// Position of the list that it is about.
    pub arm: Option<usize>,
    /// What kind of thing happened.
    pub kind: EventKind,
    pub text: String,
}

/// A file that data was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSource {
    pub file: String,
    /// `memory`, `groups`, `config`, `events` or `diagnostics`.
    pub role: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    pub rows: u64,
    /// Malformed rows that were left out.
    pub skipped: u64,
}
