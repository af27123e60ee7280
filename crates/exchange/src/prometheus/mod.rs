//! Importing from a Prometheus, or a store that answers as one does (VictoriaMetrics, Thanos, Mimir).

mod arms;
mod assemble;
mod client;
mod lives;
mod notes;
mod query;
mod series;

use std::path::PathBuf;

use heaptrial_model::{About, Metric, TrialKind};
use heaptrial_store::Store;
use serde::Serialize;

pub use client::Access;
pub use query::Exporter;

use crate::import::{check_free, check_name};
use crate::{ImportError, ImportSummary};
use client::{Client, time};
use series::Fetched;

#[derive(Debug, Clone, Serialize)]
pub struct Queries {
    pub url: String,
    /// Bytes of memory, one series for each service: a selector, or an expression.
    pub memory: String,
    /// Bytes in swap, to be added to anonymous memory: series with the labels of those of `memory`.
    pub swap: Option<String>,
    /// When the service was started, in seconds since 1970.
    pub start: Option<String>,
    /// 1 while the service does not run its arm's treatment: what it did then is excluded.
    pub contaminated: Option<String>,
    pub service_labels: Vec<String>,
    pub arm_label: Option<String>,
    /// The label that names its server; a port behind the last colon is no part of it.
    pub server_label: String,
    /// The label that names which of several servers scraped it: series that differ in it alone are one thing, scraped twice.
    pub replica_label: Option<String>,
}

impl Queries {
    /// Memory with what is in swap, where there is something.
    fn with_swap(&self) -> String {
        let Self { memory, swap, .. } = self;
        // Without the names of metrics, both sides of `or` are the same series.
        swap.as_ref()
            .map_or_else(|| memory.clone(), |swap| format!("({memory}) + ({swap}) or ({memory}) * 1"))
    }
}

/// What to import, and how.
#[derive(Debug, Clone)]
pub struct PrometheusImport {
    pub queries: Queries,
    pub metric: Metric,
    pub access: Access,
    pub groups: Vec<PathBuf>,
    pub from_us: i64,
    pub to_us: i64,
    /// A reading is the median of so long a time, with its maximum.
    pub step_us: i64,
    pub about: Option<About>,
    pub name: String,
    pub control: Option<String>,
    pub tool_version: String,
    pub command: String,
}

impl PrometheusImport {
    fn no_readings(&self) -> ImportError {
        ImportError::Refused(format!(
            "no readings of {} from {} to {}; try the query in the store's own page",
            self.queries.memory,
            time(self.from_us),
            time(self.to_us)
        ))
    }
}

/// Reads series and makes a trial of them, instead of one that was imported under this name before. One transaction; a failure leaves
/// the database as it was.
pub fn import_prometheus(
    store: &mut Store,
    request: &PrometheusImport,
) -> Result<ImportSummary, ImportError> {
    check_name(&request.name)?;
    let replaced = check_free(store, &request.name, TrialKind::ImportPrometheus)?;
    let (from_us, to_us) = (request.from_us, request.to_us);
    if from_us >= to_us {
        return Err(ImportError::Refused(format!(
            "nothing to ask for: {} is not before {}",
            time(from_us),
            time(to_us)
        )));
    }
    let client = Client::new(&request.queries.url, &request.access)?;
    let fetched = Fetched::fetch(&client, &request.queries, &(from_us..to_us), request.step_us)?;
    if fetched.services.is_empty() {
        return Err(request.no_readings());
    }
    let (trial, mut summary) = assemble::assemble(fetched, request)?;
    summary.trial_id = store.write_imported(&trial)?;
    summary.replaced = replaced;
    Ok(summary)
}
