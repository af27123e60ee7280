//! What a watch is: frozen when it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use heaptrial_allocator::Expected;
use heaptrial_analysis::{DAY, Forecast, UsualWork};
use heaptrial_model::{Metric, ServiceName, ServicePattern};
use serde::{Deserialize, Serialize};

/// A watch, as it was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchPlan {
    pub schema_version: u32,
    /// The trial or rollout after which it watches.
    pub name: String,
    /// The arm whose treatment the services keep.
    pub arm: String,
    /// Row id in the database of the trial that holds its readings.
    pub trial_id: i64,
    /// Start, in seconds since 1970.
    pub started_at: f64,
    pub days: f64,
    pub metric: Metric,
    /// What the services are expected to use.
    pub forecast: Forecast,
    /// Where that is from, in words; `None` where it is from readings of the trial itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_from: Option<String>,
    /// Limits of what is tested.
    pub limits: Limits,
    /// Failures of the arm in the trial, with which those of the watch are compared.
    pub failures_before: FailuresBefore,
    /// Services of these patterns belong to the trial.
    pub patterns: Vec<ServicePattern>,
    /// Services of the trial that are under another treatment, or none.
    pub others: Vec<ServiceName>,
    pub services: Vec<WatchedService>,
    /// SHA-256 of the files of code that they run, as they were on disk.
    pub files: BTreeMap<PathBuf, String>,
    pub channels: Channels,
    /// Files that it brought to the host, with their SHA-256; of a symbolic link the target.
    pub installed: Vec<Installed>,
    /// Folders that it made for them.
    pub made_folders: Vec<PathBuf>,
    /// The database, where it is not the usual one.
    pub database: Option<PathBuf>,
}

/// Limits of what is tested.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Probability that tests alert at all over the whole watch where nothing is wrong.
    pub error: f64,
    /// Memory less than this share above the forecast is never alerted.
    pub level_share: f64,
    /// Growth below this share a day is never alerted.
    pub growth_per_day: f64,
    /// Memory that runs out within so many days is alerted.
    pub horizon_days: f64,
    /// Without a reading for so long a service has no data.
    pub no_data_seconds: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            error: 0.01,
            level_share: 0.05,
            growth_per_day: 0.005,
            horizon_days: 30.0,
            no_data_seconds: 900.0,
        }
    }
}

impl Limits {
    /// The error of tests of the level: half of all.
    pub fn level_error(&self) -> f64 {
        self.error / 2.0
    }

    /// The error of tests of growth.
    pub fn growth_error(&self) -> f64 {
        self.error / 4.0
    }

    /// The error of tests of failures.
    pub fn failures_error(&self) -> f64 {
        self.error / 4.0
    }
}

/// Failures of the arm before the watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FailuresBefore {
    /// Crashes and kills for want of memory.
    pub failures: u32,
    /// Days that its services were observed, added up.
    pub service_days: f64,
    /// Whether nothing is known, and this is taken in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

impl FailuresBefore {
    /// With less than this, what was before says nothing of a rate.
    const LEAST_SERVICE_DAYS: f64 = 30.0;

    /// What was seen in one place and in another; where that is too little to go by, one failure in 30 service days is taken.
    pub fn with(self, other: Self) -> Self {
        let (failures, service_days) =
            (self.failures + other.failures, self.service_days + other.service_days);
        if service_days < Self::LEAST_SERVICE_DAYS {
            return Self { failures: 1, service_days: Self::LEAST_SERVICE_DAYS, assumed: true };
        }
        Self { failures, service_days, assumed: false }
    }
}

/// A service as it was when the watch started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedService {
    pub service: ServiceName,
    /// What its process must run, where the trial recorded it.
    pub expected: Option<Expected>,
    pub runs: Option<Fingerprint>,
    /// SHA-256 of its drop-in; `None` where its treatment needs none, and where it was missing.
    pub drop_in: Option<String>,
    /// Whether its treatment needs a drop-in.
    pub needs_drop_in: bool,
    /// The drop-in, where somebody else wrote it; `None` is Heaptrial's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_in_path: Option<PathBuf>,
    /// What it read and wrote before the watch, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_work: Option<UsualWork>,
    /// How far above the forecast it was in the trial itself, on the log scale; `None` where the forecast is of other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_excess: Option<f64>,
    /// Variables of its treatment that its unit did not set, as where a wrapper sets them: of those systemd can tell nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_of_unit: Vec<String>,
}

/// What a process runs, as far as an upgrade may change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Family and version of the allocator.
    pub allocator: String,
    /// SHA-256 or build id of the file that holds it.
    pub build: Option<String>,
    pub settings: BTreeMap<String, String>,
    /// File and SHA-256 of the C library; `None` where that file is no longer the one on disk.
    pub libc: Option<(PathBuf, String)>,
}

/// How alerts are told, beside the journal and the exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// A command, split into words: gets an alert as JSON on its standard input.
    pub hook: Option<Vec<String>>,
    /// A file for OpenMetrics text.
    pub metrics: Option<PathBuf>,
}

/// A file that a watch brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    pub path: PathBuf,
    /// SHA-256 of its bytes; of a symbolic link its target.
    pub content: String,
    /// Whether it is a symbolic link.
    pub link: bool,
}

impl WatchPlan {
    /// Days since the start at a time.
    pub fn elapsed_days(&self, at: f64) -> f64 {
        (at - self.started_at) / DAY
    }

    /// Levels of services older than this, in seconds, cannot be compared with the forecast.
    pub fn compared_up_to(&self) -> f64 {
        crate::judge::COMPARED_UP_TO * self.forecast.last_age()
    }

    /// When it ends, in seconds since 1970.
    pub fn ends_at(&self) -> f64 {
        self.started_at + self.days * DAY
    }
}
