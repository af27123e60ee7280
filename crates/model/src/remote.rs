//! Readings that are not in the database, but in a store of time series.

use std::collections::{BTreeMap, HashMap};

use crate::Reading;

/// Readings of a trial, as a store of time series has them. The database has the ledger: which lives there were, and what they ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteReadings {
    /// The store's address.
    pub source: String,
    /// Readings are medians of so many seconds.
    pub step_seconds: f64,
    /// By row id of the life.
    pub lives: HashMap<i64, RemoteLife>,
    /// Hosts of the ledger of which the store has no series, in order of their names.
    pub hosts_without: Vec<String>,
    /// Readings of lives that the ledger does not have, by service: they are in no figure.
    pub of_unknown_lives: BTreeMap<String, u64>,
}

/// What a store has of one life.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteLife {
    /// In order of age: medians, and the last reading as it is.
    pub readings: Vec<Reading>,
    /// The highest single reading of each span, in order of age.
    pub peaks: Vec<Reading>,
    /// The last reading of resident anonymous memory, in bytes.
    pub anon_bytes: Option<u64>,
}
