//! Readings of a trial whose ledger is in a database and whose series are in a store, as its agents were scraped.

mod ledger;
mod lives;
mod target;

use heaptrial_model::RemoteReadings;
use heaptrial_store::{Store, TrialRecord};

use super::client::{Access, Client, Labels};
use super::error::PrometheusError;
use crate::ImportError;
use ledger::Ledger;
use lives::Collected;
use target::Target;

/// Clocks of hosts and store may be so far apart: the ledger is by those of hosts. Series are found by their trial, so that asking
/// for more brings nothing that is not its own.
const APART_US: i64 = 86_400_000_000;

/// What is asked for, and where.
#[derive(Debug, Clone)]
pub struct ReadingsRequest {
    /// The store's address, without credentials.
    pub url: String,
    pub access: Access,
    /// Within a life a reading is the median of so long, in microseconds.
    pub step_us: i64,
    /// Nothing later, in microseconds since 1970 by each host's clock; `None` is all that the ledger covers.
    pub until_us: Option<i64>,
}

impl ReadingsRequest {
    /// Whether address and files of credentials can be used at all; nothing is asked.
    pub fn check(&self) -> Result<(), PrometheusError> {
        Client::new(&self.url, &self.access).map(drop)
    }
}

/// Reads the series of a trial's lives, host by host. Gives warnings of the store, too.
pub fn read_readings(
    store: &Store,
    trial: &TrialRecord,
    request: &ReadingsRequest,
) -> Result<(RemoteReadings, Vec<String>), ImportError> {
    let ledger = Ledger::read(store, trial, request.until_us)?;
    let client = Client::new(&request.url, &request.access)?;
    let mut warnings = Vec::new();
    let step_us = request.step_us;
    let last_us = ledger.hosts.iter().map(|host| host.until_us).max().unwrap_or(ledger.started_us);
    let span = (ledger.started_us - APART_US, last_us + APART_US);
    let known = client.labels(&ledger.info_selector(), span, &mut warnings)?;
    let mut readings = RemoteReadings {
        source: client.url().to_owned(),
        step_seconds: step_us as f64 / 1e6,
        ..RemoteReadings::default()
    };
    for host in &ledger.hosts {
        let of_host = |labels: &&Labels| host.name.is_none() || labels.get("host") == host.name.as_ref();
        let mut targets: Vec<Target> =
            known.iter().filter(of_host).map(|labels| Target::of(labels, &ledger.trial)).collect();
        targets.sort();
        targets.dedup();
        let mut collected = Collected::new(host);
        for target in &targets {
            target.collect(&client, span, step_us, &mut collected, &mut warnings)?;
        }
        if collected.is_empty() {
            readings.hosts_without.push(host.name.clone().unwrap_or_else(|| "this host".to_owned()));
        }
        collected.finish(&mut readings);
    }
    if readings.lives.is_empty() {
        return Err(
            PrometheusError::NoSeries { url: readings.source, selector: ledger.info_selector() }.into()
        );
    }
    Ok((readings, warnings))
}
