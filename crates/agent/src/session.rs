//! The loop: what is due, and waiting for what comes next.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use heaptrial_host::systemd::{Systemd, SystemdError};
use heaptrial_host::{HostFacts, HostRoot, Instant, SlowBudget};
use heaptrial_model::ServiceName;
use heaptrial_store::Store;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clock::{Clock, micros};
use crate::examine::Examiner;
use crate::ledger::Ledger;
use crate::lock::AgentLock;
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::own::OwnCost;
use crate::relays::Relays;
use crate::tick::Ticking;
use crate::trials::Trial;
use crate::watched::{Watched, pidfd_of};
use crate::{AgentError, Config};

/// Commands write trials at any time; noticing costs some microseconds.
const CHANGES_EVERY_US: i64 = 2_000_000;
/// The agent's own share of SQLite's page cache.
const CACHE_KIB: u32 = 1024;
/// `smaps_rollup` stalls the process that it reads, and costs as much here: it may take this share of the time.
const SLOW_SHARE: f64 = 0.0003;
const SLOW_LEAST_GAP: Duration = Duration::from_secs(10);
/// Until then the connection to systemd is waited for, so that the first tick finds main processes.
const FIRST_CONNECTION: Duration = Duration::from_secs(2);
/// Open files: two of each process, and of each service one for its end and six of its control group.
const OPEN_FILES: u64 = 65_536;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) config: Config,
    pub(crate) root: HostRoot,
    pub(crate) boot_id: String,
    /// Row id of this boot.
    pub(crate) host_id: i64,
    pub(crate) host_facts: serde_json::Value,
    pub(crate) manager: Manager,
    pub(crate) ledger: Ledger,
    pub(crate) trials: Vec<Trial>,
    pub(crate) watched: BTreeMap<ServiceName, Watched>,
    pub(crate) examiner: Examiner,
    pub(crate) relays: Relays,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) ticking: Ticking,
    pub(crate) clock: Clock,
    pub(crate) due: Due,
    pub(crate) data_version: Option<i64>,
    wake: Arc<Wake>,
    _lock: AgentLock,
}

/// When things are due, on the boot clock.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) changes_us: i64,
    pub(crate) tick_us: i64,
    pub(crate) host_us: i64,
    pub(crate) relays_us: i64,
    pub(crate) rollup_us: i64,
}

/// Ends the waiting of the loop, from other threads.
#[derive(Debug)]
pub(crate) struct Wake {
    fd: OwnedFd,
}

impl Wake {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    pub(crate) fn wake(&self) {
        // Fails only when the counter is at its end, and then the loop is awake.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
    }
}

impl Session {
    pub(crate) fn open(config: Config) -> Result<Self, AgentError> {
        let root = HostRoot::default();
        // Without it no service can be sampled, and none of them would be told to be down.
        pidfd_of(rustix::process::getpid())?;
        let lock = AgentLock::take(&config)?;
        raise_open_files();
        let store = Store::create(&config.database)?;
        store.limit_cache(CACHE_KIB)?;
        let mut ledger = Ledger::new(store);
        let facts = HostFacts::read(&root)?;
        let boot_id = facts.boot_id.clone();
        let host_facts = serde_json::to_value(&facts).unwrap_or_default();
        let host_id = ledger.store.add_host(&boot_id, &host_facts)?;
        let system = |doing| move |source| AgentError::System { doing, source };
        let wake = Arc::new(Wake::new().map_err(|error| system("make an eventfd")(error.into()))?);
        let metrics = config.metrics.as_ref().map(Metrics::serve).transpose()?;
        let now = Instant::now();
        Ok(Self {
            examiner: Examiner::start(root.clone(), wake.clone()).map_err(system("start a thread"))?,
            relays: Relays::start(root.clone(), wake.clone()).map_err(system("start a thread"))?,
            ticking: Ticking::new(
                OwnCost::begin(&root),
                SlowBudget::new(SLOW_SHARE, SLOW_LEAST_GAP),
                micros(config.interval),
            ),
            due: Due { rollup_us: now.boottime_us + 60_000_000, ..Due::default() },
            manager: Manager::connect(config.scope, wake.clone(), FIRST_CONNECTION),
            config,
            root,
            boot_id,
            host_id,
            host_facts,
            ledger,
            trials: Vec::new(),
            watched: BTreeMap::new(),
            metrics,
            clock: Clock::default(),
            data_version: None,
            wake,
            _lock: lock,
        })
    }

    fn sample(&mut self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        self.refresh_trials();
        self.due.tick_us = self.clock.now().boottime_us;
        // Nothing waits for this where the agent was started by hand.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let watchdog = sd_notify::watchdog_enabled().is_some();
        loop {
            self.work()?;
            if watchdog {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
            if self.wait(stop)? {
                break;
            }
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        self.ledger.flush();
        self.check_database()?;
        self.all_written()
    }

    fn check_database(&self) -> Result<(), AgentError> {
        match self.ledger.store.is_in_place() {
            true => Ok(()),
            false => Err(AgentError::DatabaseGone { path: self.config.database.clone() }),
        }
    }

    /// Samples until told to stop.
    pub(crate) fn run(mut self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        let ended = self.sample(stop);
        if let Err(AgentError::DatabaseGone { .. }) = ended
            && let Err(error) = self.ledger.store.abandon()
        {
            eprintln!("what is beside the database cannot be removed: {error}");
        }
        ended
    }

    /// What waits for a database that cannot be written to is lost with this process.
    fn all_written(&self) -> Result<(), AgentError> {
        let writes = self.ledger.tell_unwritten();
        let ticks: u64 = self.trials.iter().filter_map(|trial| Some(trial.lost.as_ref()?.ticks)).sum();
        match writes + ticks {
            0 => Ok(()),
            _ => Err(AgentError::Unwritten { database: self.config.database.clone(), writes, ticks }),
        }
    }

    /// Does all that is due.
    fn work(&mut self) -> Result<(), AgentError> {
        let now = self.clock.now();
        if now.boottime_us >= self.due.changes_us {
            self.due.changes_us = now.boottime_us + CHANGES_EVERY_US;
            self.check_database()?;
            self.follow_changes();
        }
        if !self.config.host_patterns.is_empty() && now.boottime_us >= self.due.host_us {
            self.refresh_host();
        }
        self.look_for_mains();
        self.take_answers();
        self.examine_due();
        if now.boottime_us >= self.due.relays_us {
            self.ask_relays();
        }
        if now.boottime_us >= self.due.tick_us {
            self.tick();
        }
        if now.boottime_us >= self.due.rollup_us {
            self.roll_up();
        }
        Ok(())
    }

    /// Takes note of what commands have written. What could not be read is read again the next time.
    fn follow_changes(&mut self) {
        let Ok(version) = self.ledger.store.data_version() else { return };
        if self.data_version != Some(version) && self.refresh_trials() {
            self.data_version = Some(version);
        }
    }

    /// Waits until something is due or happens; whether it was told to stop.
    fn wait(&mut self, stop: BorrowedFd<'_>) -> Result<bool, AgentError> {
        let now_us = self.clock.now().boottime_us;
        let host_us = if self.config.host_patterns.is_empty() { i64::MAX } else { self.due.host_us };
        let looking =
            self.watched.values().filter(|watched| watched.main.is_none() || watched.ended.is_some());
        let next_us = looking
            .map(|watched| watched.look_at_us)
            .chain(self.watched.values().filter_map(Watched::examine_at_us))
            .chain([self.due.changes_us, self.due.tick_us, self.due.relays_us, self.due.rollup_us, host_us])
            .min()
            .unwrap_or(now_us);
        let left = (next_us - now_us).clamp(0, CHANGES_EVERY_US);
        let timeout = Timespec { tv_sec: left / 1_000_000, tv_nsec: left % 1_000_000 * 1000 };
        let mains: Vec<(&ServiceName, &OwnedFd)> = self
            .watched
            .iter()
            .filter_map(|(name, watched)| Some((name, &watched.main.as_ref()?.pidfd)))
            .collect();
        let wake = self.wake.fd.as_fd();
        let mut waiting: Vec<PollFd<'_>> = [stop, wake]
            .into_iter()
            .chain(mains.iter().map(|(_, fd)| fd.as_fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(AgentError::System { doing: "wait", source: error.into() }),
        }
        let ready: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
        let ended: Vec<ServiceName> = mains
            .iter()
            .zip(&ready[2..])
            .filter(|(_, ready)| **ready)
            .map(|((name, _), _)| (*name).clone())
            .collect();
        drop(waiting);
        self.wake.clear();
        for name in ended {
            self.main_ended(&name);
        }
        Ok(ready[0])
    }

    /// Asks systemd, over a new connection where the old one broke. What fails is asked again later.
    pub(crate) fn ask<T>(&mut self, question: impl FnOnce(&Systemd) -> Result<T, SystemdError>) -> Option<T> {
        self.manager.ask(question)
    }
}

/// Two hundred services need more open files than the usual soft limit allows.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        // Where it is refused, services beyond the limit are not sampled, and each of them is told.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_model::TrialKind;

    use super::*;
    use crate::testing::{Fixture, hours_ago};

    #[test]
    fn an_agent_that_ends_with_ticks_unwritten_says_so() {
        let mut fixture = Fixture::new();
        fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        fixture.session.tick();
        assert!(fixture.session.all_written().is_ok());
        // A number that is taken cannot be written again.
        let next = std::mem::replace(&mut fixture.session.trials[0].next_sequence, 0);
        fixture.session.tick();
        let ended = fixture.session.all_written();
        assert!(matches!(ended, Err(AgentError::Unwritten { writes: 0, ticks: 1, .. })), "{ended:?}");
        fixture.session.trials[0].next_sequence = next;
        fixture.session.tick();
        assert!(fixture.session.all_written().is_ok());
    }

    #[test]
    fn a_database_that_was_replaced_ends_the_agent() {
        let fixture = Fixture::new();
        fixture.session.check_database().unwrap();
        let path = &fixture.session.config.database;
        std::fs::remove_file(path).unwrap();
        drop(Store::create(path).unwrap());
        let ended = fixture.session.check_database();
        assert!(matches!(ended, Err(AgentError::DatabaseGone { .. })), "{ended:?}");
    }
}
