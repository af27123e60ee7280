//! Readings of a trial that are in a store of time series.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use heaptrial_exchange::{Access, ReadingsRequest, read_readings};
use heaptrial_model::{HumanDuration, RemoteReadings};
use heaptrial_store::{Store, TrialRecord};

use crate::exit::Failure;

/// Shorter spans are none to take a median of, and longer ones hide what levels and growth are about.
const ROLLUPS_SECONDS: std::ops::RangeInclusive<u64> = 1..=21_600;

/// How a store is reached.
#[derive(Debug, Args)]
pub struct AccessOptions {
    /// File with one line, USER:PASSWORD
    #[arg(long, value_name = "FILE", conflicts_with = "bearer_file")]
    basic_file: Option<PathBuf>,
    /// File with one line, a token
    #[arg(long, value_name = "FILE")]
    bearer_file: Option<PathBuf>,
    /// File with headers of each request, NAME: VALUE in a line, such as X-Scope-OrgID: TENANT
    #[arg(long, value_name = "FILE")]
    headers_file: Vec<PathBuf>,
    /// Certificate of the client (PEM)
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Certificates to trust in place of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Take answers of which the store says that they are not whole; what it says is told
    #[arg(long)]
    accept_partial: bool,
}

impl AccessOptions {
    /// For the library; warns where a secret would be read on the way.
    pub fn access(&self, url: &str) -> Access {
        let own = ["http://localhost", "http://127.", "http://[::1]"];
        let has_secret =
            self.basic_file.is_some() || self.bearer_file.is_some() || !self.headers_file.is_empty();
        if has_secret && url.starts_with("http://") && !own.iter().any(|own| url.starts_with(own)) {
            eprintln!("warning: {url} is not encrypted: the credentials can be read on the way");
        }
        Access {
            basic: self.basic_file.clone(),
            bearer: self.bearer_file.clone(),
            headers: self.headers_file.clone(),
            client: self.cert_file.clone().zip(self.key_file.clone()),
            authority: self.ca_file.clone(),
            accept_partial: self.accept_partial,
        }
    }

    fn is_given(&self) -> bool {
        let files = [&self.basic_file, &self.bearer_file, &self.cert_file, &self.ca_file];
        self.accept_partial || !self.headers_file.is_empty() || files.iter().any(|file| file.is_some())
    }
}

/// Where the readings of a trial are.
#[derive(Debug, Args)]
pub struct SeriesOptions {
    /// The trial's readings are in this store, a Prometheus or what answers as one, which scrapes its agents; the database has the
    /// ledger (`heaptrial export --format heaptrial --ledger`)
    #[arg(long, value_name = "URL")]
    series: Option<String>,
    /// With --series: a reading within a life is the median of so long a time
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    rollup: HumanDuration,
    #[command(flatten)]
    access: AccessOptions,
}

impl SeriesOptions {
    /// What to ask of the store, if readings are in one, until then (microseconds since 1970).
    pub fn request(&self, until_us: Option<i64>) -> Result<Option<ReadingsRequest>, Failure> {
        let Some(url) = &self.series else {
            return match self.access.is_given() {
                true => Err(Failure::usage("files of credentials and --accept-partial go with --series URL")),
                false => Ok(None),
            };
        };
        if !ROLLUPS_SECONDS.contains(&self.rollup.0.as_secs()) {
            return Err(Failure::usage(format!("--rollup {}: expected between 1s and 6h", self.rollup)));
        }
        Ok(Some(ReadingsRequest {
            url: url.clone(),
            access: self.access.access(url),
            step_us: i64::try_from(self.rollup.0.as_micros()).unwrap_or(i64::MAX),
            until_us,
        }))
    }

    /// The readings until then, if they are in a store.
    pub fn read(
        &self,
        store: &Store,
        trial: &TrialRecord,
        until_us: Option<i64>,
    ) -> Result<Option<Arc<RemoteReadings>>, Failure> {
        let Some(request) = self.request(until_us)? else { return Ok(None) };
        if !trial.plan.kind.is_on_services() {
            return Err(Failure::usage(format!(
                "--series: no agent samples `{}`; its readings are in the database",
                trial.plan.name
            )));
        }
        let (readings, warnings) = read_readings(store, trial, &request)?;
        for warning in warnings {
            eprintln!("the store warns: {warning}");
        }
        Ok(Some(Arc::new(readings)))
    }
}
