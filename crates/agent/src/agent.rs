//! The loop: what is due, and waiting for what comes next.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_host::{HostFacts, HostRoot, Instant, SlowBudget};
use heaptrial_model::ServiceName;
use heaptrial_store::Store;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};

use crate::clock::{Clock, micros};
use crate::examine::{Examiner, examiner};
use crate::ledger::Ledger;
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::relays::Relays;
use crate::systemd_journal::SystemdJournal;
use crate::tick::Ticking;
use crate::trials::Trial;
use crate::watched::Watched;
use crate::{AgentError, Config};

/// Commands write trials at any time, and other threads have answers; noticing costs some microseconds.
const CHANGES_EVERY_US: i64 = 1_000_000;
const CACHE_KIB: u32 = 1024;
/// `smaps_rollup` stalls the process that it reads, and costs as much here: it may take this share of the time.
const SLOW_SHARE: f64 = 0.0003;
const SLOW_LEAST_GAP: Duration = Duration::from_secs(10);

/// The agent: its database, its connection to systemd, and what it knows of the services that it samples.
#[derive(Debug)]
pub struct Agent {
    pub(crate) config: Config,
    pub(crate) root: HostRoot,
    pub(crate) boot_id: String,
    pub(crate) host_id: i64,
    pub(crate) host_facts: serde_json::Value,
    pub(crate) manager: Manager,
    pub(crate) systemd_journal: SystemdJournal,
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
    /// Keeps a second agent from writing the same ticks.
    _lock: File,
}

#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) changes_us: i64,
    pub(crate) tick_us: i64,
    pub(crate) host_us: i64,
    pub(crate) relays_us: i64,
    pub(crate) rollup_us: i64,
}

impl Agent {
    /// Opens the database, and listens for metrics where asked. Refuses where another agent writes into the same database.
    /// Where systemd cannot be reached, that is tried again while it runs.
    pub fn new(config: Config) -> Result<Self, AgentError> {
        let root = HostRoot::default();
        let lock = lock(&config)?;
        let store = Store::create(&config.database)?;
        store.limit_cache(CACHE_KIB)?;
        let mut ledger = Ledger::new(store);
        let facts = HostFacts::read(&root).map_err(|error| AgentError::Failed(error.to_string()))?;
        let boot_id = facts.boot_id.clone();
        let host_facts = serde_json::to_value(&facts).unwrap_or_default();
        let host_id = ledger.store.add_host(&boot_id, &host_facts)?;
        let metrics = config.metrics.as_ref().map(Metrics::serve).transpose()?;
        let now = Instant::now();
        Ok(Self {
            examiner: examiner(root.clone())?,
            relays: Relays::start(root.clone())?,
            ticking: Ticking::new(SlowBudget::new(SLOW_SHARE, SLOW_LEAST_GAP), micros(config.interval)),
            due: Due { rollup_us: now.boottime_us + 60_000_000, ..Due::default() },
            manager: Manager::new(config.scope),
            systemd_journal: SystemdJournal::new(config.scope, &boot_id),
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
            _lock: lock,
        })
    }

    fn sample(&mut self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        self.refresh_trials();
        self.due.tick_us = self.clock.now().boottime_us;
        let watchdog = sd_notify::watchdog_enabled().is_some();
        self.work()?;
        // Who starts it knows then that every service was looked at. Nothing waits for this where it was started by hand.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        while !self.wait(stop)? {
            self.work()?;
            if watchdog {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        self.ledger.flush();
        self.check_database()
    }

    /// What is written into a database that was deleted or replaced nobody else sees.
    fn check_database(&self) -> Result<(), AgentError> {
        match self.ledger.store.is_in_place() {
            true => Ok(()),
            false => Err(AgentError::DatabaseGone { path: self.config.database.clone() }),
        }
    }

    /// Samples until `stop` can be read from, then ends with everything written.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        let ended = self.sample(stop);
        if let Err(AgentError::DatabaseGone { .. }) = ended
            && let Err(error) = self.ledger.store.abandon()
        {
            eprintln!("the log of the database that is gone cannot be removed: {error}");
        }
        ended
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

    /// Waits until something is due or happens; whether it is to stop.
    fn wait(&mut self, stop: BorrowedFd<'_>) -> Result<bool, AgentError> {
        let now_us = self.clock.now().boottime_us;
        let examined = self.watched.values().filter_map(|watched| watched.main.as_ref()?.examine_at_us());
        // What else is due can wait until changes are looked for.
        let due = examined.chain([self.due.changes_us, self.due.tick_us, self.due.rollup_us]);
        let next_us = due.min().unwrap_or(now_us);
        let left = (next_us - now_us).clamp(0, CHANGES_EVERY_US);
        let timeout = Timespec { tv_sec: left / 1_000_000, tv_nsec: left % 1_000_000 * 1000 };
        let mut waiting = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!waiting[0].revents().is_empty()),
            Err(error) => Err(AgentError::system("wait")(error.into())),
        }
    }
}

/// Takes the lock beside the database.
fn lock(config: &Config) -> Result<File, AgentError> {
    let mut path = config.database.clone().into_os_string();
    path.push(".agent-lock");
    let path = PathBuf::from(path);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = fs::create_dir_all(folder);
        made.map_err(AgentError::system(format!("make the folder {}", folder.display())))?;
    }
    let file = File::create(&path).map_err(AgentError::system(format!("make {}", path.display())))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(AgentError::Refused(format!(
            "another agent samples into {} already (it holds {}); stop it first",
            config.database.display(),
            path.display()
        ))),
        Err(error) => Err(AgentError::system(format!("lock {}", path.display()))(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn a_database_that_was_replaced_ends_the_agent() {
        let fixture = Fixture::new();
        fixture.agent.check_database().unwrap();
        let path = &fixture.agent.config.database;
        std::fs::remove_file(path).unwrap();
        drop(Store::create(path).unwrap());
        let ended = fixture.agent.check_database();
        assert!(matches!(ended, Err(AgentError::DatabaseGone { .. })), "{ended:?}");
    }
}
