//! What takes long to compute: done off the threads that answer, one at a time, and kept for a while.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heaptrial_report::{Document, Options, Report, embedded};
use tokio::sync::Semaphore;

use crate::DashboardError;
use crate::data::{Data, Trial, now_us};
use crate::live::Live;

/// Results that are kept.
const CACHED: usize = 6;
/// The same is computed again after this time at the earliest,
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// and after this many times what it took.
const AGAIN_AFTER_TIMES: u32 = 10;
/// A page waits this long for a result, then is shown without.
const WAIT: Duration = Duration::from_secs(8);

/// What is computed of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PageKind {
    /// The chart of what was read so far.
    Running,
    /// The sections of the report.
    Sections,
    /// The whole report as a page of its own.
    Report,
}

#[derive(Debug, Clone)]
pub(crate) struct Computed {
    /// The markup, or what went wrong.
    pub(crate) markup: Result<Arc<str>, Arc<str>>,
    /// When what it is made from was read, in microseconds since 1970.
    pub(crate) at_wall_us: i64,
}

type Key = (i64, PageKind);

#[derive(Debug, Clone)]
struct Cached {
    computed: Computed,
    /// Version of the database that it is made from.
    version: u64,
    due: Instant,
    used: Instant,
}

/// Computes, and keeps what was computed.
#[derive(Debug)]
pub(crate) struct Computer {
    path: PathBuf,
    cache: Mutex<HashMap<Key, Cached>>,
    one: Semaphore,
    live: Arc<Live>,
}

impl PageKind {
    /// What the page of a trial shows.
    pub(crate) fn of(trial: &Trial) -> Self {
        if trial.may_conclude() { Self::Sections } else { Self::Running }
    }
}

impl Computer {
    pub(crate) fn new(path: &Path, live: Arc<Live>) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), cache: Mutex::default(), one: Semaphore::new(1), live })
    }

    /// The result for a trial at a version of the database; an older one until the newer is due, and `None` where it takes too long.
    pub(crate) async fn get(
        self: &Arc<Self>,
        trial_id: i64,
        kind: PageKind,
        version: u64,
    ) -> Option<Computed> {
        let key = (trial_id, kind);
        if let Some(due) = self.due(key, version) {
            let own = Arc::clone(self);
            let computing = tokio::spawn(async move {
                tokio::time::sleep_until(due.into()).await;
                own.compute(key, version).await;
            });
            // What is due later is shown by the page when it is there.
            if due <= Instant::now() {
                let _ = tokio::time::timeout(WAIT, computing).await;
            }
        }
        self.cached(key).map(|cached| cached.computed)
    }

    fn cached(&self, key: Key) -> Option<Cached> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.get_mut(&key)?;
        found.used = Instant::now();
        Some(found.clone())
    }

    /// When the result for a version is to be computed; `None` where it is there.
    fn due(&self, key: Key, version: u64) -> Option<Instant> {
        match self.cached(key) {
            Some(found) if found.version == version && found.computed.markup.is_ok() => None,
            Some(found) => Some(found.due),
            None => Some(Instant::now()),
        }
    }

    async fn compute(self: Arc<Self>, key: Key, version: u64) {
        let Ok(_turn) = self.one.acquire().await else { return };
        // Somebody else who waited may have had it computed.
        if self.due(key, version).is_none_or(|due| due > Instant::now()) {
            return;
        }
        let own = Arc::clone(&self);
        let computed = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let at_wall_us = now_us();
            let markup = own.markup(key).map(Arc::from).map_err(|error| Arc::from(error.to_string()));
            let done = Instant::now();
            let due = done + AGAIN_AFTER.max(AGAIN_AFTER_TIMES * (done - begun));
            Cached { computed: Computed { markup, at_wall_us }, version, due, used: done }
        });
        let Ok(computed) = computed.await else { return };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(key, computed);
        while cache.len() > CACHED {
            let oldest = cache.iter().min_by_key(|(_, cached)| cached.used).map(|(key, _)| *key);
            oldest.map(|key| cache.remove(&key));
        }
        drop(cache);
        self.live.computed();
    }

    /// On a connection of its own, so that pages are answered meanwhile.
    fn markup(&self, (trial_id, kind): Key) -> Result<String, DashboardError> {
        let mut data = Data::new(&self.path);
        let (store, _) = data.current()?;
        let Some(record) = store.trials()?.into_iter().find(|trial| trial.id == trial_id) else {
            return Ok(String::new());
        };
        let options = Options::default();
        Ok(match kind {
            PageKind::Running => {
                let trial = Trial::read(store, record, now_us())?;
                let fleet = heaptrial_evaluate::judgement::read_fleet(store, trial_id, &options)?;
                let figure = embedded::running(&fleet, &trial.styles(), trial.record.plan.metric);
                figure.map_or_else(String::new, |figure| figure.into_string())
            }
            PageKind::Sections => {
                embedded::sections(&Report::with_charts(store, trial_id, &options)?).into_string()
            }
            PageKind::Report => Report::with_charts(store, trial_id, &options)?.html(),
        })
    }
}
