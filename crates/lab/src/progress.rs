//! How far a run is, while it goes on.

use std::time::Duration;

use crate::workload::Course;

/// Receives what happens during a run. All methods do nothing unless implemented.
pub trait Progress {
    /// A round starts: its number from 1, of how many.
    fn round(&mut self, number: usize, of: usize, repeat: u32) {
        let _ = (number, of, repeat);
    }

    fn tick(&mut self, view: &RoundView<'_>) {
        let _ = view;
    }

    fn message(&mut self, text: &str) {
        let _ = text;
    }

    fn round_ended(&mut self) {}
}

/// A round at one tick.
#[derive(Debug)]
pub struct RoundView<'a> {
    /// Since its services were started.
    pub elapsed: Duration,
    /// How long it lasts at most, where that was asked for.
    pub duration: Option<Duration>,
    /// How far its work is, where that has an end of its own.
    pub course: Option<Course>,
    /// Its services, in the order of starting.
    pub services: &'a [ServiceView],
}

/// A service at one tick.
#[derive(Debug, Clone, Default)]
pub struct ServiceView {
    pub arm: String,
    pub age_seconds: f64,
    /// The metric in bytes; `None` while it has no sample.
    pub metric_bytes: Option<u64>,
    /// CPU time since its start.
    pub cpu: Option<Duration>,
    /// Why it does not run any more.
    pub ended: Option<String>,
}
