//! The workload of real Tor relays on a private network.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_model::{Arm, KnownEvent, TrialKind};
use heaptrial_network::{
    Authority, AuthorityKeys, DirectoryParameters, LoadDriver, LoadParameters, LoadPlan, RelayInstance,
    RelayParameters, TrafficParameters,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::LabError;
use crate::program::find_program;
use crate::relay_traffic::{RelayTraffic, make_room};
use crate::relay_watch::{RelayState, RelayWatch};
use crate::workload::{Arrangement, Event, Launch, Round, RoundContext, Workload};

/// Observation of a relay: the age of the consensus it uses, in seconds.
pub(crate) const CONSENSUS_AGE: &str = "consensus_age_seconds";

/// Load starts without relays that do not have the directory by then.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// A relay lags when its consensus is older than this many intervals; it fetches each one at a random
/// moment of the interval after it appeared.
const LAG_INTERVALS: f64 = 3.5;
/// Consensus ages before this age of the relay are part of starting up.
const STARTING: Duration = Duration::from_secs(40);
/// Threads of the load generator and the authority's server.
const LOAD_THREADS: usize = 2;

/// A private network and the load on its relays.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TorParameters {
    /// The synthetic directory; its seed is drawn anew for each repeat.
    pub directory: DirectoryParameters,
    /// The relays.
    pub relays: RelayParameters,
    /// Directory clients.
    pub load: LoadParameters,
    /// Held connections, circuits and cells.
    #[serde(default)]
    pub traffic: TrafficParameters,
}

/// Runs one real relay per arm, all at once, under the same load.
#[derive(Debug)]
pub struct TorWorkload {
    parameters: TorParameters,
    tor: PathBuf,
    version: String,
    runtime: Runtime,
}

impl TorWorkload {
    /// A workload with the `tor` that is found in `PATH`.
    pub fn new(parameters: TorParameters) -> Result<Self, LabError> {
        let hint = "; it comes with the Debian package `tor`: apt-get install tor";
        let missing = |name: &str| LabError::ProgramMissing { program: name.to_owned(), hint };
        let tor = find_program(OsStr::new("tor")).ok_or_else(|| missing("tor"))?;
        find_program(OsStr::new("tor-gencert")).ok_or_else(|| missing("tor-gencert"))?;
        let version = std::process::Command::new(&tor).arg("--version").output();
        let version =
            version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(LOAD_THREADS)
            .enable_all()
            .build()
            .map_err(LabError::file("the load generator's threads"))?;
        let version = version.lines().next().unwrap_or("").to_owned();
        Ok(Self { parameters, tor, version, runtime })
    }
}

impl Workload for TorWorkload {
    fn kind(&self) -> TrialKind {
        TrialKind::LabTor
    }

    fn parameters(&self) -> Value {
        let mut value = serde_json::to_value(&self.parameters).unwrap_or_default();
        value["tor_version"] = self.version.as_str().into();
        value
    }

    fn arrangement(&self) -> Arrangement {
        Arrangement::Together
    }

    fn check(&self, arms: &[Arm]) -> Result<(), LabError> {
        // A relay serves thousands of connections, each with an end here.
        make_room(arms.len(), &self.parameters.traffic)?;
        // A new folder of nobody else's, removed with its owner here.
        let folder = tempfile::tempdir().map_err(LabError::file(std::env::temp_dir()))?;
        arms.iter().enumerate().try_for_each(|(index, arm)| {
            if arm.treatment.restart_every.is_some() {
                let problem =
                    "restart_every is for trials on a fleet; a lab run does not restart services".to_owned();
                return Err(LabError::Treatment { arm: arm.name.clone(), problem });
            }
            if let Some(option) = arm.treatment.torrc.keys().find(|option| RelayInstance::owns(option)) {
                let problem =
                    format!("the torrc option {option} belongs to the lab and cannot be a treatment");
                return Err(LabError::Treatment { arm: arm.name.clone(), problem });
            }
            let none = "F".repeat(40);
            let line = format!("DirAuthority lab orport=1 no-v2 v3ident={none} 127.0.0.1:9 {none}");
            let place = folder.path().join(index.to_string());
            let relay =
                RelayInstance::create(&place, "check", &self.parameters.relays, &line, &arm.treatment.torrc)?;
            relay
                .verify(&self.tor)
                .map_err(|error| LabError::Treatment { arm: arm.name.clone(), problem: error.to_string() })
        })
    }

    fn begin(&self, context: &RoundContext<'_>) -> Result<Box<dyn Round>, LabError> {
        let begun = Instant::now();
        let _inside = self.runtime.enter();
        let folder = context.folder.join("network").join(format!("repeat{}", context.repeat + 1));
        std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
        let directory = DirectoryParameters { seed: context.seed, ..self.parameters.directory.clone() };
        let authority = Authority::start(&directory, AuthorityKeys::generate(&folder)?)?;
        let line = authority.torrc_line();
        let mut relays = Vec::new();
        for slot in context.slots {
            let nickname = slot.service.replace('-', "");
            let torrc = &slot.arm.arm.treatment.torrc;
            let place = folder.join(&slot.service);
            relays.push(RelayInstance::create(&place, &nickname, &self.parameters.relays, &line, torrc)?);
        }
        let watches = relays.iter().map(|relay| RelayWatch::start(relay.clone())).collect();
        Ok(Box::new(TorRound {
            plan: Some(LoadPlan::new(&self.parameters.load, context.duration, context.seed)),
            interval: f64::from(self.parameters.directory.interval_seconds),
            tor: self.tor.clone(),
            runtime: self.runtime.handle().clone(),
            consensus_ages: vec![Vec::new(); relays.len()],
            caches: context.slots.iter().map(|slot| is_cache(&slot.arm.arm)).collect(),
            first_document: None,
            traffic_parameters: (self.parameters.traffic.clone(), context.seed),
            driver: None,
            traffic: None,
            loaded: Vec::new(),
            started: Instant::now(),
            prepared_in: begun.elapsed(),
            authority,
            relays,
            watches,
            folder,
        }))
    }
}

struct TorRound {
    plan: Option<LoadPlan>,
    interval: f64,
    tor: PathBuf,
    runtime: tokio::runtime::Handle,
    authority: Authority,
    relays: Vec<RelayInstance>,
    watches: Vec<RelayWatch>,
    driver: Option<LoadDriver>,
    /// With its seed.
    traffic_parameters: (TrafficParameters, u64),
    traffic: Option<RelayTraffic>,
    /// Slots of the relays that get load, in the driver's order.
    loaded: Vec<usize>,
    consensus_ages: Vec<Vec<f64>>,
    /// Whether each relay is a directory cache: one that is not fetches consensuses as a client does,
    /// about an interval later, and does not lag by that.
    caches: Vec<bool>,
    first_document: Option<Duration>,
    started: Instant,
    prepared_in: Duration,
    folder: PathBuf,
}

impl TorRound {
    /// Starts the load once every living relay has the directory, or patience ends.
    fn start_load(&mut self, alive: &[bool]) -> Result<Vec<Event>, LabError> {
        let states: Vec<RelayState> = self.watches.iter().map(RelayWatch::state).collect();
        let ready = |slot: usize| states[slot].address.is_some() && states[slot].valid_after.is_some();
        let waiting: Vec<usize> = (0..alive.len()).filter(|slot| alive[*slot] && !ready(*slot)).collect();
        let waited = self.started.elapsed();
        if !waiting.is_empty() && waited < READY_PATIENCE {
            return Ok(Vec::new());
        }
        let Some(plan) = self.plan.take() else { return Ok(Vec::new()) };
        self.loaded = (0..alive.len()).filter(|slot| alive[*slot] && ready(*slot)).collect();
        let addresses: Vec<SocketAddr> =
            self.loaded.iter().filter_map(|slot| states[*slot].address).collect();
        let clients = plan.clients();
        let _inside = self.runtime.enter();
        self.driver = Some(LoadDriver::start(plan, &addresses, &self.authority)?);
        let (traffic, seed) = &self.traffic_parameters;
        self.traffic = RelayTraffic::start(traffic, *seed, &self.loaded, &addresses, &self.authority)?;
        let mut events = vec![Event {
            slot: None,
            kind: KnownEvent::Note,
            text: format!(
                "the network was prepared in {:.1} s; {} relays had the directory {:.1} s after the first was started, \
                 and the load of {clients} clients for each began",
                self.prepared_in.as_secs_f64(),
                addresses.len(),
                waited.as_secs_f64()
            ),
        }];
        events.extend(waiting.into_iter().map(|slot| Event {
            slot: Some(slot),
            kind: KnownEvent::Warning,
            text: format!(
                "the relay had no directory after {:.0} s and got no load; its log ends: {}",
                waited.as_secs_f64(),
                last_line(&self.relays[slot].log())
            ),
        }));
        Ok(events)
    }
}

impl Round for TorRound {
    fn launch(&self, slot: usize) -> Launch {
        Launch {
            program: self.tor.clone(),
            arguments: self.relays[slot].arguments(),
            environment: BTreeMap::new(),
            working_directory: None,
        }
    }

    fn tick(&mut self, alive: &[bool]) -> Result<Vec<Event>, LabError> {
        let mut events = if self.plan.is_some() { self.start_load(alive)? } else { Vec::new() };
        for (slot, ages) in self.consensus_ages.iter_mut().enumerate() {
            if alive[slot] && self.started.elapsed() > STARTING {
                ages.extend(self.watches[slot].state().consensus_age());
            }
        }
        if self.first_document.is_none() {
            let served =
                self.driver.as_ref().is_some_and(|driver| driver.totals().iter().any(|t| t.documents > 0));
            if served {
                let after = self.prepared_in + self.started.elapsed();
                self.first_document = Some(after);
                let text = format!(
                    "the first directory document was served {:.1} s after the start",
                    after.as_secs_f64()
                );
                events.push(Event { slot: None, kind: KnownEvent::Note, text });
            }
        }
        Ok(events)
    }

    fn observe(&self, slot: usize) -> Vec<(&'static str, f64)> {
        let mut observed = Vec::new();
        observed.extend(self.watches[slot].state().consensus_age().map(|age| (CONSENSUS_AGE, age)));
        let position = self.loaded.iter().position(|loaded| *loaded == slot);
        if let (Some(position), Some(driver)) = (position, &self.driver) {
            let totals = driver.totals()[position];
            observed.extend([
                ("load_clients", totals.connected as f64),
                ("load_clients_attempted", totals.attempted as f64),
                ("load_clients_connected", totals.connected_now as f64),
                ("load_clients_failed", (totals.failed + totals.turned_away) as f64),
                ("load_documents", totals.documents as f64),
                ("load_requests_refused", totals.refused as f64),
                ("load_bytes", totals.bytes as f64),
            ]);
        }
        observed.extend(self.traffic.iter().flat_map(|traffic| traffic.observe(slot)));
        observed
    }

    fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for (slot, ages) in self.consensus_ages.iter_mut().enumerate().filter(|(slot, _)| self.caches[*slot])
        {
            events.extend(lag_of(ages, self.interval).map(|text| Event {
                slot: Some(slot),
                kind: KnownEvent::Lag,
                text,
            }));
        }
        if let Some(driver) = self.driver.take() {
            let late = driver.latest();
            if late > Duration::from_secs(1) {
                let text = format!(
                    "the load generator itself was late by up to {:.1} s: the machine is saturated",
                    late.as_secs_f64()
                );
                events.push(Event { slot: None, kind: KnownEvent::Warning, text });
            }
            for (slot, totals) in self.loaded.iter().zip(driver.totals()) {
                if totals.documents == 0 && totals.refused > 0 {
                    let text =
                        format!("it answered none of {} requests for directory documents", totals.refused);
                    events.push(Event { slot: Some(*slot), kind: KnownEvent::Note, text });
                }
                if totals.failed + totals.turned_away > totals.attempted / 20 {
                    let text = format!(
                        "{} of {} clients failed and {} were turned away",
                        totals.failed, totals.attempted, totals.turned_away
                    );
                    events.push(Event { slot: Some(*slot), kind: KnownEvent::Warning, text });
                }
            }
        } else if self.plan.is_some() {
            let text = "no relay got any load: the run ended before the relays had the directory".to_owned();
            events.push(Event { slot: None, kind: KnownEvent::Warning, text });
        }
        events.extend(self.traffic.take().into_iter().flat_map(RelayTraffic::finish));
        let slowest = self.authority.slowest_round().as_secs_f64();
        if slowest > self.interval / 2.0 {
            let text = format!(
                "making a consensus took up to {slowest:.1} s of an interval of {:.0} s",
                self.interval
            );
            events.push(Event { slot: None, kind: KnownEvent::Warning, text });
        }
        events.extend(self.authority.failure().map(|why| Event {
            slot: None,
            kind: KnownEvent::Warning,
            text: format!("a consensus could not be published: {why}"),
        }));
        events
    }
}

impl Drop for TorRound {
    fn drop(&mut self) {
        // Keys and cached directories are of no use to anyone who reads the run; torrc and log stay.
        for relay in &self.relays {
            relay.remove_data();
        }
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("authority_") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn is_cache(arm: &Arm) -> bool {
    let set = arm.treatment.torrc.iter().find(|(option, _)| option.eq_ignore_ascii_case("DirCache"));
    set.is_none_or(|(_, value)| value.trim() != "0")
}

/// What to say of a relay whose consensus is older than it should be.
fn lag_of(ages: &mut [f64], interval: f64) -> Option<String> {
    ages.sort_unstable_by(f64::total_cmp);
    let median = *ages.get(ages.len() / 2)?;
    let oldest = *ages.last()?;
    let late = ages.iter().filter(|age| **age > LAG_INTERVALS * interval).count() as f64 / ages.len() as f64;
    (late > 0.05).then(|| {
        format!(
            "the relay lagged: its consensus was {median:.0} s old in the median and {oldest:.0} s at most, at one \
             consensus each {interval:.0} s; it was older than {:.0} s for {:.0}% of the time",
            LAG_INTERVALS * interval,
            late * 100.0
        )
    })
}

fn last_line(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().last().unwrap_or("(empty)").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_lags_when_it_keeps_old_consensuses() {
        let mut fresh: Vec<f64> = (0..100).map(|i| f64::from(i % 20)).collect();
        assert_eq!(lag_of(&mut fresh, 10.0), None);
        let mut late: Vec<f64> = (0..100).map(f64::from).collect();
        let text = lag_of(&mut late, 10.0).unwrap();
        assert!(text.contains("50 s old in the median and 99 s at most"), "{text}");
        assert_eq!(lag_of(&mut [], 10.0), None);
    }
}
