//! Importing from a Prometheus, or a store that answers as one does (VictoriaMetrics, Thanos, Mimir).

mod arms;
mod assemble;
mod client;
mod error;
#[cfg(test)]
mod in_parts;
mod lives;
mod names;
mod notes;
mod query;
mod samples;
mod series;
mod service;
mod spool;

use std::ops::Range;
use std::path::PathBuf;

use heaptrial_model::{About, Metric, TrialKind};
use heaptrial_store::Store;
use serde::{Deserialize, Serialize};

pub use client::Access;
pub use error::PrometheusError;
pub use query::Exporter;

use crate::ImportError;
use crate::import::ArmSummary;
use assemble::Stored;
use client::Client;
use series::Fetched;

/// What is asked for. A trial that was imported is extended only by the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queries {
    /// The store's address, without credentials.
    pub url: String,
    /// Bytes of memory, one series for each service: a selector, or an expression.
    pub memory: String,
    /// Bytes in swap, to be added to anonymous memory.
    pub swap: Option<String>,
    /// When the service was started, in seconds since 1970.
    pub start: Option<String>,
    /// A counter that begins at nothing when the service is started, such as its CPU time.
    pub counter: Option<String>,
    /// 1 while the service does not run its arm's treatment: what it did then is left out.
    #[serde(default)]
    pub contaminated: Option<String>,
    /// The labels that name a service.
    pub service_labels: Vec<String>,
    /// The label that names its arm.
    pub arm_label: Option<String>,
    /// The label that names its server, what follows the last colon left out.
    #[serde(default = "instance")]
    pub server_label: String,
    /// The label that names which of several servers scraped it: series that differ in it alone are one thing, scraped twice.
    #[serde(default)]
    pub replica_label: Option<String>,
}

/// Prometheus' own label of what it scraped: the host and a port.
fn instance() -> String {
    "instance".to_owned()
}

/// What to import, and how.
#[derive(Debug, Clone)]
pub struct PrometheusImport {
    pub queries: Queries,
    pub metric: Metric,
    /// How the store is reached.
    pub access: Access,
    /// Lists of services, one file an arm; the file's stem names the arm.
    pub groups: Vec<PathBuf>,
    /// From when on, in microseconds since 1970; `None` goes on where the stored trial ends.
    pub from_us: Option<i64>,
    /// Where it goes on, so many microseconds before that end are asked for again: readings may come late into the store.
    pub late_us: i64,
    /// Until when, in microseconds since 1970.
    pub to_us: i64,
    /// At most one reading of a service in so many microseconds is kept; expressions are evaluated so often.
    pub step_us: i64,
    /// What the trial is about; `None` leaves what is stored.
    pub about: Option<About>,
    pub name: String,
    /// The name of the control arm; `None` takes the one that is called so, else that of glibc, else the first.
    pub control: Option<String>,
    pub tool_version: String,
    /// The command that repeats the import.
    pub command: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct PrometheusSummary {
    pub trial: String,
    pub trial_id: i64,
    /// Whether a trial of this name was there and was added to.
    pub updated: bool,
    pub arms: Vec<ArmSummary>,
    pub services: usize,
    pub new_samples: u64,
    /// Lives whose start the store tells.
    pub lives_told: u64,
    /// Lives whose start was inferred.
    pub lives_inferred: u64,
    /// Lives that began before the first reading.
    pub lives_unknown: u64,
    /// What was decided or left out, in sentences.
    pub notes: Vec<String>,
}

/// How far back is asked where nothing tells.
const BACK_US: i64 = 30 * 86_400_000_000;

/// Reads series and makes a trial of them, or extends the one that was made of the same before: then only what came
/// since is asked for, and lives go on. One transaction; a failure leaves the database as it was. `asks` is told which time is asked for,
/// in microseconds since 1970, before anything is.
pub fn import_prometheus(
    store: &mut Store,
    request: &PrometheusImport,
    asks: &dyn Fn(Range<i64>),
) -> Result<PrometheusSummary, ImportError> {
    crate::import::check_name(&request.name)?;
    let of_other_kind = |kind: TrialKind| kind != TrialKind::ImportPrometheus;
    let trials = store.trials()?;
    if trials.iter().any(|trial| trial.plan.name == request.name && of_other_kind(trial.plan.kind)) {
        return Err(ImportError::NameTaken(request.name.clone()));
    }
    let stored = Stored::find(store, &request.name)?;
    if let Some(stored) = &stored {
        assemble::same_queries(&stored.trial, request)?;
    }
    let stored_span = stored.as_ref().map(Stored::span);
    let goes_on = stored_span.map(|(first, last)| last.saturating_sub(request.late_us).max(first));
    let from_us = request.from_us.or(goes_on).unwrap_or(request.to_us - BACK_US);
    if from_us >= request.to_us {
        return Err(PrometheusError::NoTime { from_us, to_us: request.to_us }.into());
    }
    let client = Client::new(&request.queries.url, &request.access)?;
    let database = store.path().to_owned();
    let asked = from_us..request.to_us;
    asks(asked.clone());
    let fetched = Fetched::fetch(&client, &request.queries, asked, request.step_us, &database)?;
    if stored.is_none() && fetched.services.is_empty() {
        let query = request.queries.memory.clone();
        return Err(PrometheusError::Nothing { query, from_us, to_us: request.to_us }.into());
    }
    let mut assembled = assemble::assemble(fetched, stored.as_ref(), request, &database)?;
    let unchanged = |stored: &Stored| {
        assembled.summary.new_samples == 0 && !arms::differ(&stored.trial, &assembled.trial)
    };
    assembled.summary.trial_id = match stored.filter(unchanged) {
        Some(stored) => stored.id,
        _ => store
            .write_imported_by_life(&assembled.trial, &|service, life| assembled.samples(service, life))?,
    };
    Ok(assembled.summary)
}
