//! What a watch is: frozen when it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::rollout::Stratum;
use heaptrial_allocator::Expected;
use heaptrial_evaluate::analysis::{DAY, UsualWork};
use heaptrial_model::{Identity, Metric, ServiceName, ServicePattern};
use serde::{Deserialize, Serialize};

use crate::watch::install::UnitFile;
use crate::watch::observe::c_library;

/// Probability that the tests of levels and of failures alert at all over a whole watch where nothing is wrong.
pub(crate) const ERROR: f64 = 0.01;

/// A watch, as it was started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchPlan {
    pub schema_version: u32,
    pub name: String,
    pub trial: Option<String>,
    pub arms: Vec<String>,
    pub trial_id: i64,
    /// Start, in seconds since 1970.
    pub started_at: f64,
    pub days: f64,
    pub metric: Metric,
    pub strata: Vec<Stratum>,
    /// Without a reading for so long a service has no data.
    pub no_data_seconds: f64,
    pub failures_before: FailuresBefore,
    pub patterns: Vec<ServicePattern>,
    /// Services of the trial that are under another treatment, or none.
    pub others: Vec<ServiceName>,
    pub services: Vec<WatchedService>,
    /// SHA-256 of the files of code that they run, as they were on disk.
    pub files: BTreeMap<PathBuf, String>,
    pub channels: Channels,
    pub installed: Vec<UnitFile>,
    pub database: Option<PathBuf>,
}

/// Failures of the arm before the watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FailuresBefore {
    pub failures: u32,
    pub service_days: f64,
    /// Whether nothing is known, and this is taken in its place.
    pub assumed: bool,
}

impl FailuresBefore {
    /// With less than this, what was before says nothing of a rate.
    const LEAST_SERVICE_DAYS: f64 = 30.0;

    /// Where too little was seen to go by, one failure in 30 service days is taken.
    pub fn of(failures: u32, service_days: f64) -> Self {
        match service_days < Self::LEAST_SERVICE_DAYS {
            true => Self { failures: 1, service_days: Self::LEAST_SERVICE_DAYS, assumed: true },
            false => Self { failures, service_days, assumed: false },
        }
    }
}

/// A service as it was when the watch started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedService {
    pub service: ServiceName,
    /// What its process must run, where the trial recorded it.
    pub expected: Option<Expected>,
    /// Of its libraries the C library alone.
    pub runs: Option<Identity>,
    pub usual_work: Option<UsualWork>,
    pub bytes: Option<f64>,
}

/// Where alerts go besides the journal and the exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// A command, split into words: gets an alert as JSON on its standard input.
    pub hook: Option<Vec<String>>,
    pub metrics: Option<PathBuf>,
}

impl WatchedService {
    /// The files of code that it runs: that of the treatment, and the C library.
    pub(crate) fn code(&self) -> impl Iterator<Item = &PathBuf> {
        let object = self.expected.as_ref().and_then(|expected| expected.object.as_ref());
        let libc = self.runs.as_ref().and_then(c_library).map(|library| &library.path);
        object.into_iter().chain(libc)
    }
}

impl WatchPlan {
    /// Days since the start at a time.
    pub fn elapsed_days(&self, at: f64) -> f64 {
        (at - self.started_at) / DAY
    }

    /// When it ends, in seconds since 1970.
    pub fn ends_at(&self) -> f64 {
        self.started_at + self.days * DAY
    }
}
