//! The workload of real Tor relays on a private network.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heaptrial_host::Process;
use heaptrial_model::{Arm, KnownEvent, TrialKind};
use heaptrial_network::{
    Authority, AuthorityKeys, DirectoryParameters, Door, LoadDriver, LoadParameters, RelayInstance,
    RelayParameters, Stamps, Traffic, TrafficParameters,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;

use heaptrial_relay::TorError;

use crate::clock::{Clock, GivenUp, Seen, Step};
use crate::placeholders::Ports;
use crate::program::find_program;
use crate::relay_traffic::{make_room, observed, shortfall};
use crate::workload::{
    Arrangement, Course, Event, Launch, NO_RESTARTS, Round, RoundContext, SlotState, Workload,
};
use crate::{EndRequest, Interrupt, LabError};

/// Observation of a relay: how many consensuses it has taken and worked off since its start.
const CONSENSUSES: &str = "consensuses";
/// Observation of a relay in the one tick at the end of each rest: the same number.
const RESTED_CONSENSUSES: &str = "rested_consensuses";
/// Observation of a relay in the same tick: from how many older consensuses it has made diffs.
const DIFFS_FROM: &str = "diffs_from";
/// Options of a torrc by which a relay makes other diffs than the lab means it to.
const DIFF_OPTIONS: [&str; 2] = ["DirCache", "MaxConsensusAgeForDiffs"];

/// Load starts without relays that do not have the directory by then.
const READY_PATIENCE: Duration = Duration::from_secs(180);
/// Threads of the load generator and the authority's server.
const LOAD_THREADS: usize = 2;
/// The pace is that of so many consensuses.
const PACE_OF: usize = 5;

/// A private network and the load on its relays.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TorParameters {
    /// Entries of the synthetic directory, whose seed is drawn anew for each repeat.
    pub entries: usize,
    /// How long relays rest when all have taken a consensus and worked it off, before the next one.
    pub rest_seconds: f64,
    /// After how many of them a round ends, where that was asked for.
    pub consensuses: Option<u32>,
    /// Older consensuses that relays retain and make diffs from, from their start on.
    pub retained: u32,
    /// Relays that may live at the same time, 2 or more; more arms run in groups, each with the control.
    pub together: usize,
    pub relays: RelayParameters,
    pub load: LoadParameters,
    /// Held connections, circuits and cells.
    pub traffic: TrafficParameters,
}

/// Runs one real relay per arm, all at once, under the same load.
#[derive(Debug)]
pub struct TorWorkload {
    parameters: TorParameters,
    tor: PathBuf,
    version: String,
    runtime: Runtime,
    ports: RefCell<Ports>,
}

impl TorWorkload {
    /// A workload with the `tor` that is found in `PATH`.
    pub fn new(parameters: TorParameters) -> Result<Self, LabError> {
        let find = |name: &str| {
            find_program(name).map_err(|problem| {
                LabError::Refused(format!("{problem}; the Debian package `tor` has it: apt-get install tor"))
            })
        };
        let tor = find("tor")?;
        find("tor-gencert")?;
        let version = std::process::Command::new(&tor).arg("--version").output();
        let version =
            version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(LOAD_THREADS)
            .enable_all()
            .build()
            .map_err(LabError::file("the load generator's threads"))?;
        let version = version.lines().next().unwrap_or("").to_owned();
        Ok(Self { parameters, tor, version, runtime, ports: RefCell::default() })
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
        Arrangement::Together { at_most: self.parameters.together }
    }

    fn check(&self, arms: &[Arm]) -> Result<(), LabError> {
        // A relay serves thousands of connections, each with an end here.
        make_room(arms.len(), &self.parameters.traffic)?;
        // A new folder of nobody else's, removed with its owner here.
        let folder = tempfile::tempdir().map_err(LabError::file(std::env::temp_dir()))?;
        let none = "F".repeat(40);
        let line = format!("DirAuthority lab orport=1 no-v2 v3ident={none} 127.0.0.1:9 {none}");
        let of_all = &self.parameters.relays;
        for (index, Arm { name, treatment, .. }) in arms.iter().enumerate() {
            if treatment.restart_every.is_some() {
                return Err(LabError::treatment(name, NO_RESTARTS));
            }
            let mut set = treatment.torrc.keys().chain(of_all.torrc.keys());
            if let Some(option) = set.find(|option| RelayInstance::owns(option)) {
                let problem =
                    format!("the torrc option {option} belongs to the lab and cannot be a treatment");
                return Err(LabError::treatment(name, problem));
            }
            let place = folder.path().join(index.to_string());
            let relay = RelayInstance::create(&place, "check", of_all, &line, &treatment.torrc)?;
            relay.verify(&self.tor).map_err(|error| LabError::treatment(name, error))?;
        }
        Ok(())
    }

    fn begin(&self, context: &RoundContext<'_>) -> Result<Box<dyn Round>, LabError> {
        let begun = Instant::now();
        let _inside = self.runtime.enter();
        let folder = context.folder.join("network").join(context.name);
        std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
        let TorParameters { entries, rest_seconds, consensuses, retained, .. } = self.parameters;
        let most = Stamps::STRETCHED_AT_MOST.saturating_sub(retained);
        let stamps = Stamps::Stretched { consensuses: consensuses.unwrap_or(most).min(most), retained };
        let directory = DirectoryParameters { entries, stamps, seed: context.seed };
        let authority = Authority::start(&directory, AuthorityKeys::generate(&folder)?, 0)?;
        let mut relays = Vec::new();
        let mut doors = Vec::new();
        let mut addresses = Vec::new();
        let mut makes_all_diffs = Vec::new();
        for slot in context.slots {
            let nickname = slot.service.replace('-', "");
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.borrow_mut().give()?));
            let mut torrc = slot.arm.arm.treatment.torrc.clone();
            torrc.insert("ORPort".to_owned(), address.to_string());
            let place = folder.join(&slot.service);
            let door = authority.open_door()?;
            let line = door.torrc_line();
            let relay = RelayInstance::create(&place, &nickname, &self.parameters.relays, &line, &torrc)?;
            relay.retain(authority.past())?;
            relays.push(relay);
            doors.push(door);
            addresses.push(address);
            let mut set = torrc.keys().chain(self.parameters.relays.torrc.keys());
            let bears = |option: &String| DIFF_OPTIONS.iter().any(|diffs| option.eq_ignore_ascii_case(diffs));
            makes_all_diffs.push(!set.any(bears));
        }
        Ok(Box::new(TorRound {
            parameters: self.parameters.clone(),
            seed: context.seed,
            clock: Clock::new(Duration::from_secs_f64(rest_seconds), relays.len()),
            published_at: vec![Duration::ZERO],
            served: 0,
            prepared: false,
            rested: false,
            ordered: false,
            over: false,
            living: vec![false; relays.len()],
            interrupt: context.interrupt.clone(),
            tor: self.tor.clone(),
            runtime: self.runtime.handle().clone(),
            driver: None,
            traffic: None,
            loaded: Vec::new(),
            started: Instant::now(),
            prepared_in: begun.elapsed(),
            authority,
            doors,
            relays,
            makes_all_diffs,
            addresses,
            folder,
        }))
    }
}

struct TorRound {
    parameters: TorParameters,
    seed: u64,
    clock: Clock,
    /// When each consensus was published, since the start.
    published_at: Vec<Duration>,
    /// The last consensus whose clients were let come.
    served: u64,
    /// Whether the next consensus is being made.
    prepared: bool,
    /// Whether this is the tick at the end of a rest.
    rested: bool,
    /// Whether the next consensus is on its way.
    ordered: bool,
    over: bool,
    /// Which relays lived at the last tick.
    living: Vec<bool>,
    interrupt: Interrupt,
    tor: PathBuf,
    runtime: tokio::runtime::Handle,
    authority: Authority,
    /// Where each relay finds the authority.
    doors: Vec<Door>,
    relays: Vec<RelayInstance>,
    /// Whether a relay's arm leaves it to the lab which diffs it makes.
    makes_all_diffs: Vec<bool>,
    /// Where each relay listens for clients.
    addresses: Vec<SocketAddr>,
    driver: Option<LoadDriver>,
    traffic: Option<Traffic>,
    /// Slots of the relays that get load, in the driver's order.
    loaded: Vec<usize>,
    started: Instant,
    prepared_in: Duration,
    folder: PathBuf,
}

impl TorRound {
    fn taken(&self, slot: usize) -> u64 {
        self.doors[slot].taken().unwrap_or(0)
    }

    /// Starts the load once every living relay has the directory, or patience ends.
    fn start_load(&mut self, slots: &[SlotState<'_>]) -> Result<Vec<Event>, LabError> {
        let ready = |slot: usize| self.taken(slot) > 0;
        let living = || (0..slots.len()).filter(|slot| slots[*slot].process.is_some());
        let waiting: Vec<usize> = living().filter(|slot| !ready(*slot)).collect();
        let waited = self.started.elapsed();
        if !waiting.is_empty() && waited < READY_PATIENCE {
            return Ok(Vec::new());
        }
        self.loaded = living().filter(|slot| ready(*slot)).collect();
        let addresses: Vec<SocketAddr> = self.loaded.iter().map(|slot| self.addresses[*slot]).collect();
        self.driver = Some(LoadDriver::new(&addresses, &self.authority)?);
        let asked = &self.parameters.traffic;
        if asked.held() > 0 {
            let _inside = self.runtime.enter();
            self.traffic = Some(Traffic::start(asked, self.seed, &addresses, &self.authority)?);
        }
        let mut events = vec![Event {
            slot: None,
            kind: KnownEvent::Note,
            text: format!(
                "the network was prepared in {:.1} s; {} relays had the directory {:.1} s after the first was started, \
                 and each gets {} clients when it has worked a consensus off",
                self.prepared_in.as_secs_f64(),
                addresses.len(),
                waited.as_secs_f64(),
                self.parameters.load.clients
            ),
        }];
        events.extend(waiting.into_iter().map(|slot| self.without_directory(slot, waited)));
        Ok(events)
    }

    /// Such a relay did nothing: it is no measure of its arm.
    fn without_directory(&self, slot: usize, waited: Duration) -> Event {
        let text = format!(
            "had no directory after {:.0} s and got no load; its log ends: {}",
            waited.as_secs_f64(),
            last_line(&self.relays[slot].log())
        );
        Event { slot: Some(slot), kind: KnownEvent::ArmFailed, text }
    }

    /// Relays that did not take up what was put into their caches: they do less than one of the field.
    fn without_past(&self) -> Vec<Event> {
        let retained = self.parameters.retained as usize;
        let resting = (0..self.relays.len())
            .filter(|slot| self.makes_all_diffs[*slot] && self.clock.is_at_rest(*slot))
            .map(|slot| (slot, self.relays[slot].diffs_from()));
        resting
            .filter(|(_, from)| *from < retained)
            .map(|(slot, from)| {
                let text = format!(
                    "it made diffs from {from} older consensuses to the first one, of {retained} that were in its cache"
                );
                Event { slot: Some(slot), kind: KnownEvent::Warning, text }
            })
            .collect()
    }

    /// Lets the clients of the last consensus come.
    fn begin_load(&mut self) {
        let consensus = self.clock.consensus();
        self.served = consensus;
        let _inside = self.runtime.enter();
        if let Some(driver) = &mut self.driver {
            driver.begin(consensus, &self.parameters.load, self.seed);
        }
    }

    /// Follows the publication that was ordered, and decides about the next one.
    fn follow_clock(&mut self, slots: &[SlotState<'_>]) -> Vec<Event> {
        let at = self.started.elapsed();
        if self.authority.published() > self.clock.consensus() {
            self.clock.published(at);
            self.published_at.push(at);
            self.prepared = false;
            self.ordered = false;
        }
        let seen = |(slot, state): (usize, &SlotState)| Seen {
            alive: state.process.is_some(),
            taken: self.taken(slot),
            wanted: state
                .cpu
                .map(|cpu| cpu + state.process.and_then(Process::waited_for_processors).unwrap_or_default()),
        };
        let seen: Vec<Seen> = slots.iter().enumerate().map(seen).collect();
        let is_served = self.served == self.clock.consensus();
        let load_done = is_served && self.driver.as_ref().is_some_and(LoadDriver::is_done);
        let (step, given_up) = self.clock.look(at, &seen, load_done);
        // A relay of the field, with a processor for each worker thread, has made its diffs when all but the first of its clients come.
        if !is_served && self.driver.is_some() && self.clock.all_idle(&seen) {
            self.begin_load();
        }
        // Made while nobody works, so that it takes no processor from the relays.
        if step != Step::Work && !self.prepared {
            self.prepared = true;
            self.authority.prepare();
        }
        self.rested = step == Step::Publish && !self.ordered;
        given_up.into_iter().map(|(slot, why)| self.given_up(slot, why)).collect()
    }

    /// How fast the run was, for the report.
    fn pace(&self) -> Option<Event> {
        let whole = self.published_at.last()?.as_secs_f64();
        let steps = self.published_at.len() - 1;
        let each = whole / steps as f64;
        let text = format!(
            "{} consensuses, each one an hour of a relay, one every {each:.0} s: {:.0} times life; relays rested for {} s \
             after each",
            self.clock.consensus(),
            3600.0 / each,
            self.parameters.rest_seconds
        );
        (steps > 0).then_some(Event { slot: None, kind: KnownEvent::Note, text })
    }

    fn given_up(&self, slot: usize, why: GivenUp) -> Event {
        let consensus = self.clock.consensus();
        let waited = self.started.elapsed() - self.published_at.last().copied().unwrap_or_default();
        let what = match why {
            GivenUp::NotTaken => format!(
                "did not take consensus {consensus} (it has {}); its log ends: {}",
                self.taken(slot),
                last_line(&self.relays[slot].log())
            ),
            GivenUp::NeverIdle => format!("is not done with consensus {consensus}"),
        };
        let text = format!(
            "after {:.0} s the relay {what}; from now on the clock does not wait for it",
            waited.as_secs_f64()
        );
        Event { slot: Some(slot), kind: KnownEvent::Warning, text }
    }
}

impl Round for TorRound {
    fn launch(&self, slot: usize) -> Launch {
        Launch {
            program: self.tor.clone(),
            arguments: self.relays[slot].arguments(),
            environment: BTreeMap::new(),
            end: EndRequest::default(),
        }
    }

    fn tick(&mut self, slots: &[SlotState<'_>]) -> Result<Vec<Event>, LabError> {
        self.living = slots.iter().map(|state| state.process.is_some()).collect();
        let mut events = if self.driver.is_none() { self.start_load(slots)? } else { Vec::new() };
        events.extend(self.follow_clock(slots));
        if self.rested && self.clock.consensus() == 1 {
            events.extend(self.without_past());
        }
        if let Some(why) = self.authority.failure() {
            return Err(LabError::Tor(TorError::Failed(why)));
        }
        Ok(events)
    }

    fn sampled(&mut self) {
        if !std::mem::take(&mut self.rested) {
            return;
        }
        let last = self.parameters.consensuses.map_or(u64::MAX, u64::from).min(self.authority.most());
        self.over = self.clock.consensus() >= last;
        if !self.over {
            self.ordered = true;
            self.authority.publish();
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn course(&self) -> Option<Course> {
        let last = &self.published_at[self.published_at.len().saturating_sub(PACE_OF + 1)..];
        let span = last.last().zip(last.first()).map(|(last, first)| (*last - *first).as_secs_f64());
        let steps = last.len().saturating_sub(1);
        Some(Course {
            consensus: self.clock.consensus(),
            of: self.parameters.consensuses.map(u64::from),
            seconds_each: span.filter(|_| steps > 0).map(|span| span / steps as f64),
        })
    }

    fn observe(&self, slot: usize) -> Vec<(&'static str, f64)> {
        let consensuses = self.clock.worked_off(slot) as f64;
        let mut measured = vec![(CONSENSUSES, consensuses)];
        if self.rested && self.clock.is_at_rest(slot) {
            measured.push((RESTED_CONSENSUSES, consensuses));
            measured.push((DIFFS_FROM, self.relays[slot].diffs_from() as f64));
        }
        let position = self.loaded.iter().position(|loaded| *loaded == slot);
        if let (Some(position), Some(driver)) = (position, &self.driver) {
            let totals = driver.totals()[position];
            measured.extend([
                ("load_clients", totals.connected as f64),
                ("load_clients_attempted", totals.attempted as f64),
                ("load_clients_connected", totals.connected_now as f64),
                ("load_clients_failed", (totals.failed + totals.turned_away) as f64),
                ("load_documents", totals.documents as f64),
                ("load_requests_refused", totals.refused as f64),
                ("load_bytes", totals.bytes as f64),
            ]);
        }
        if let (Some(position), Some(traffic)) = (position, &self.traffic) {
            measured.extend(observed(&traffic.totals()[position]));
        }
        measured
    }

    fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
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
        } else {
            let text = "no relay got any load: the run ended before the relays had the directory".to_owned();
            events.push(Event { slot: None, kind: KnownEvent::Warning, text });
            if !self.interrupt.requested() {
                let without =
                    (0..self.living.len()).filter(|slot| self.living[*slot] && self.taken(*slot) == 0);
                events.extend(without.map(|slot| self.without_directory(slot, self.started.elapsed())));
            }
        }
        for (slot, totals) in self.loaded.iter().zip(self.traffic.take().iter().flat_map(Traffic::totals)) {
            let text = shortfall(&self.parameters.traffic, &totals);
            let event = |text| Event { slot: Some(*slot), kind: KnownEvent::Warning, text };
            events.extend(text.map(event));
        }
        events.extend(self.pace());
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

fn last_line(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().last().unwrap_or("(empty)").to_owned()
}
