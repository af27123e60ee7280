//! What takes long to compute: done off the threads that answer, one at a time, and cached.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heaptrial_report::{Document, Options, Report, embedded};
use heaptrial_store::Store;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::DashboardError;
use crate::data::{Trial, now_us};

const CACHED: usize = 6;
/// The same is computed again after this time at the earliest,
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// and after this many times what it took.
const AGAIN_AFTER_TIMES: u32 = 10;
/// A page waits this long for a result, then is shown without.
const WAIT: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PageKind {
    /// The chart of what was read so far.
    Running,
    Sections,
    /// The whole report as a page of its own.
    Report,
}

#[derive(Debug, Clone)]
pub(crate) struct Computed {
    pub(crate) markup: Result<Arc<str>, Arc<str>>,
    /// When what it is made from was read, in microseconds since 1970.
    pub(crate) at_wall_us: i64,
    /// Version of the database that it is made from.
    version: u64,
    due: Instant,
}

type Key = (i64, PageKind);

#[derive(Debug)]
pub(crate) struct Computer {
    path: PathBuf,
    cache: Mutex<HashMap<Key, Computed>>,
    turn: Semaphore,
    computed: AtomicU64,
}

impl Computer {
    pub(crate) fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            cache: Mutex::default(),
            turn: Semaphore::new(1),
            computed: AtomicU64::new(0),
        })
    }

    /// How often something was computed that pages wait for.
    pub(crate) fn computed(&self) -> u64 {
        self.computed.load(Ordering::Relaxed)
    }

    /// The result for a trial at a version of the database; an older one until the newer is due, and `None` where it takes too long.
    pub(crate) async fn get(
        self: &Arc<Self>,
        trial_id: i64,
        kind: PageKind,
        version: u64,
    ) -> Option<Computed> {
        let key = (trial_id, kind);
        if self.is_due(key, version) {
            let _ = timeout(WAIT, tokio::spawn(Arc::clone(self).compute(key, version))).await;
        }
        self.cache().get(&key).cloned()
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<Key, Computed>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self, key: Key, version: u64) -> bool {
        self.cache().get(&key).is_none_or(|found| {
            (found.version != version || found.markup.is_err()) && found.due <= Instant::now()
        })
    }

    async fn compute(self: Arc<Self>, key: Key, version: u64) {
        let Ok(_turn) = self.turn.acquire().await else { return };
        // Another page that waited may have had it computed.
        if !self.is_due(key, version) {
            return;
        }
        let own = Arc::clone(&self);
        let computed = tokio::task::spawn_blocking(move || {
            let (begun, at_wall_us) = (Instant::now(), now_us());
            let markup = own.markup(key).map(Arc::from).map_err(|error| Arc::from(error.to_string()));
            let took = begun.elapsed();
            let due = Instant::now() + AGAIN_AFTER.max(AGAIN_AFTER_TIMES * took);
            Computed { markup, at_wall_us, version, due }
        });
        let Ok(computed) = computed.await else { return };
        let mut cache = self.cache();
        if cache.len() >= CACHED {
            cache.clear();
        }
        cache.insert(key, computed);
        self.computed.fetch_add(1, Ordering::Relaxed);
    }

    /// On a connection of its own, so that pages are answered meanwhile.
    fn markup(&self, (trial_id, kind): Key) -> Result<String, DashboardError> {
        let store = &Store::open_to_stay(&self.path)?;
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
                let report = Report::with_charts(store, trial_id, &options)?;
                embedded::sections(&report, report.styles()).into_string()
            }
            PageKind::Report => Report::with_charts(store, trial_id, &options)?.html(),
        })
    }
}
