//! What takes long to compute: done off the threads that answer, one at a time, not again and again, and kept.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heaptrial_exchange::{ReadingsRequest, read_readings};
use heaptrial_model::RemoteReadings;
use heaptrial_report::{Options, Report, embedded};
use heaptrial_store::Store;
use tokio::sync::Semaphore;

use crate::DashboardError;
use crate::data::{Data, Source, Trial, now_us};
use crate::live::Live;

const KEPT: usize = 6;
/// The same is computed again after this time at the earliest.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// And after this many times what it took.
const AGAIN_AFTER_TIMES: u32 = 10;
/// A page waits this long for its first result, then is shown without.
pub(crate) const WAIT: Duration = Duration::from_secs(8);
/// What a store of series told counts for so long at least: more may have come into it late.
const SERIES_COUNT_FOR: Duration = Duration::from_secs(600);
/// Trials of which readings from a store are kept.
const SERIES_KEPT: usize = 2;

/// What is computed of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// The chart of what was read so far.
    Running,
    /// The sections of the report.
    Sections,
    /// The whole report as a page of its own.
    Page,
    /// Nothing but what a store of series has to tell; its markup is empty.
    Series,
}

#[derive(Debug, Clone)]
pub(crate) struct Computed {
    /// The markup, or what went wrong.
    pub(crate) markup: Result<Arc<str>, Arc<str>>,
    /// When what it is made from was read, in microseconds since 1970.
    pub(crate) at_wall_us: i64,
}

type Key = (i64, What);

#[derive(Debug)]
struct Kept {
    computed: Computed,
    /// State of the trial that it is made from.
    state: State,
    /// When it counts no more though nothing changed: at once where it failed; `None` is never.
    until: Option<Instant>,
    done: Instant,
    took: Duration,
    used: Instant,
}

/// What tells a state of a trial from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    last_tick: Option<i64>,
    /// Time of the newest, and their number.
    events: (Option<i64>, usize),
    /// Number and time of the last.
    looks: (usize, Option<i64>),
    ended_wall_us: Option<i64>,
    digest: u64,
}

/// Computes, and keeps what was computed.
#[derive(Debug)]
pub(crate) struct Computer {
    path: PathBuf,
    /// The store that has the readings of trials of which the database has the ledger alone.
    series: Option<ReadingsRequest>,
    told: Mutex<Vec<Told>>,
    kept: Mutex<HashMap<Key, Kept>>,
    /// What is to be computed once it is due.
    waiting: Mutex<HashSet<Key>>,
    one: Arc<Semaphore>,
    live: Arc<Live>,
}

/// What a store told of a trial.
#[derive(Debug)]
struct Told {
    trial_id: i64,
    /// State of the trial's ledger then.
    state: State,
    readings: Arc<RemoteReadings>,
    warnings: Vec<String>,
    until: Instant,
}

impl What {
    /// What the page of a trial shows.
    pub(crate) fn of(trial: &Trial) -> Self {
        if trial.may_conclude() { Self::Sections } else { Self::Running }
    }
}

/// The state of a trial as it was read.
pub(crate) fn state_of(trial: &Trial) -> State {
    State {
        last_tick: trial.ticks.first().map(|tick| tick.sequence),
        events: (trial.events.first().map(|event| event.wall_us), trial.event_counts.0),
        looks: (trial.looks.len(), trial.looks.last().map(|look| look.taken_wall_us)),
        ended_wall_us: trial.record.ended_wall_us,
        digest: trial.digest,
    }
}

impl Computer {
    pub(crate) fn new(path: &Path, series: Option<ReadingsRequest>, live: Arc<Live>) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            series,
            told: Mutex::default(),
            kept: Mutex::default(),
            waiting: Mutex::default(),
            one: Arc::new(Semaphore::new(1)),
            live,
        })
    }

    /// Whether the readings of a trial are asked for in a store.
    pub(crate) fn asks_for(&self, trial: &Trial) -> bool {
        self.series.is_some() && trial.has_ledger_alone()
    }

    /// Puts what the store has told of a trial to its services, where it is asked for any. `computed` is what came of asking.
    pub(crate) fn tell(
        &self,
        trial: &mut Trial,
        computed: Option<&Computed>,
        now_us: i64,
    ) -> Option<Arc<RemoteReadings>> {
        if !self.asks_for(trial) {
            return None;
        }
        let all = self.told();
        let told = all.iter().find(|told| told.trial_id == trial.record.id);
        let failed = computed.and_then(|computed| computed.markup.as_ref().err());
        match (told, failed) {
            (Some(told), failed) => {
                let warned = told.warnings.iter().map(|warning| format!("The store warns: {warning}"));
                let failed = failed.map(|why| format!("It told nothing when it was asked again: {why}"));
                trial.take_readings(&told.readings, warned.chain(failed).collect(), now_us);
            }
            (None, Some(why)) => trial.source = Source::Failed(Arc::clone(why)),
            (None, None) => trial.source = Source::Asked,
        }
        told.map(|told| Arc::clone(&told.readings))
    }

    /// The result for a trial in `state`; an older one where the newer is not due, and `None` where there is none within `wait`.
    pub(crate) async fn get(
        self: &Arc<Self>,
        trial_id: i64,
        what: What,
        state: State,
        wait: Duration,
    ) -> Option<Computed> {
        let key = (trial_id, what);
        match self.look_up(key, state) {
            Found::Good(computed) => Some(computed),
            Found::Older(computed, due_in) => {
                self.start_later(key, state, due_in);
                Some(computed)
            }
            Found::Nothing => {
                let done = self.start(key, state);
                let _ = tokio::time::timeout(wait, done).await;
                match self.look_up(key, state) {
                    Found::Good(computed) | Found::Older(computed, _) => Some(computed),
                    Found::Nothing => None,
                }
            }
        }
    }

    fn look_up(&self, key: Key, state: State) -> Found {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = kept.get_mut(&key) else { return Found::Nothing };
        found.used = Instant::now();
        if found.state == state && found.until.is_none_or(|until| Instant::now() < until) {
            return Found::Good(found.computed.clone());
        }
        let apart = AGAIN_AFTER.max(found.took * AGAIN_AFTER_TIMES);
        Found::Older(found.computed.clone(), apart.saturating_sub(found.done.elapsed()))
    }

    /// Starts computing when it is due, once for all who ask until then.
    fn start_later(self: &Arc<Self>, key: Key, state: State, due_in: Duration) {
        let waiting = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting().insert(key) {
            return;
        }
        let own = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(due_in).await;
            let _ = own.start(key, state).await;
            own.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        });
    }

    /// Starts computing where nothing else is being computed; otherwise waits its turn and sees whether it still must.
    fn start(self: &Arc<Self>, key: Key, state: State) -> tokio::task::JoinHandle<()> {
        let own = Arc::clone(self);
        tokio::spawn(async move {
            let Ok(turn) = Arc::clone(&own.one).acquire_owned().await else { return };
            match own.look_up(key, state) {
                Found::Good(_) => return,
                // Somebody else who waited had it computed just now.
                Found::Older(_, due_in) if !due_in.is_zero() => return,
                Found::Older(..) | Found::Nothing => {}
            }
            let computer = Arc::clone(&own);
            // The turn ends with the computation, not with whoever waits for it.
            let computed = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                computer.compute(key, state);
            });
            if computed.await.is_ok() {
                own.live.computed();
            }
        })
    }

    fn compute(&self, key: Key, state: State) {
        let begun = Instant::now();
        let at_wall_us = now_us();
        let (markup, until) = match self.markup(key, state) {
            Ok((markup, until)) => (Ok(Arc::from(markup)), until),
            Err(error) => (Err(Arc::from(error.to_string())), Some(begun)),
        };
        let kept = Kept {
            computed: Computed { markup, at_wall_us },
            state,
            until,
            done: Instant::now(),
            took: begun.elapsed(),
            used: Instant::now(),
        };
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key, kept);
        while all.len() > KEPT {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            oldest.map(|key| all.remove(&key));
        }
    }

    /// With a time from which on it is to be made anew. On a connection of its own, so that pages are answered meanwhile.
    fn markup(
        &self,
        (trial_id, what): Key,
        state: State,
    ) -> Result<(String, Option<Instant>), DashboardError> {
        let mut data = Data::new(&self.path);
        let (store, _) = data.current()?;
        let Some(record) = store.trials()?.into_iter().find(|trial| trial.id == trial_id) else {
            return Ok((String::new(), None));
        };
        let trial = Trial::read(store, record, now_us())?;
        let (remote, until) = self.series_of(store, &trial, state)?.unzip();
        let options = Options { remote, ..Options::default() };
        let markup = match what {
            What::Running => {
                let fleet = heaptrial_judgement::read_fleet(store, trial_id, &options)?;
                let figure = embedded::running(&fleet, &trial.looks(), trial.record.plan.metric);
                figure.map_or_else(String::new, |figure| figure.into_string())
            }
            What::Sections => {
                let (report, trajectories) = Report::with_trajectories(store, trial_id, &options)?;
                embedded::sections(&report, &trajectories)?.into_string()
            }
            What::Page => {
                let (report, trajectories) = Report::with_trajectories(store, trial_id, &options)?;
                report.html(&trajectories)?
            }
            What::Series => String::new(),
        };
        Ok((markup, until))
    }

    /// What the store tells of a trial, and until when that counts: it is asked again when the ledger is another, or by then.
    fn series_of(
        &self,
        store: &Store,
        trial: &Trial,
        state: State,
    ) -> Result<Option<(Arc<RemoteReadings>, Instant)>, DashboardError> {
        let Some(request) = self.series.as_ref().filter(|_| self.asks_for(trial)) else { return Ok(None) };
        let begun = Instant::now();
        let trial_id = trial.record.id;
        let of_state = |told: &&Told| told.trial_id == trial_id && told.state == state && begun < told.until;
        if let Some(told) = self.told().iter().find(of_state) {
            return Ok(Some((Arc::clone(&told.readings), told.until)));
        }
        let (readings, warnings) = read_readings(store, &trial.record, request)?;
        let readings = Arc::new(readings);
        let until = Instant::now() + SERIES_COUNT_FOR.max(begun.elapsed() * AGAIN_AFTER_TIMES);
        let mut all = self.told();
        all.retain(|told| told.trial_id != trial_id);
        all.truncate(SERIES_KEPT - 1);
        all.insert(0, Told { trial_id, state, readings: Arc::clone(&readings), warnings, until });
        Ok(Some((readings, until)))
    }

    fn told(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    Good(Computed),
    /// Of another state, or one that counts no more; and how long until it may be computed again.
    Older(Computed, Duration),
    Nothing,
}

#[cfg(test)]
mod tests {
    use heaptrial_model::{KnownEvent, Metric, TrialKind, TrialPlan};
    use heaptrial_store::{LookRecord, NewTrial, Store};

    use super::*;

    #[test]
    fn whatever_a_page_shows_makes_another_state() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
        let specs = ["glibc".parse().unwrap(), "mimalloc@2.0.9".parse().unwrap()];
        let plan = NewTrial {
            name: "t".to_owned(),
            kind: TrialKind::Field,
            boot_id: "boot".to_owned(),
            host_facts: serde_json::Value::Null,
            metric: Metric::Rss,
            seed: 1,
            repeats: 1,
            planned_us: 1,
            arms: TrialPlan::from_specs("t", &specs).unwrap().arms,
            parameters: serde_json::Value::Null,
            command: String::new(),
            tool_version: String::new(),
            started_wall_us: 0,
        };
        let (id, _) = store.begin_trial(&plan).unwrap();
        let state = |store: &Store| {
            state_of(&Trial::read(store, store.trials().unwrap().pop().unwrap(), now_us()).unwrap())
        };
        let mut states = vec![state(&store)];
        assert_eq!(state(&store), states[0]);
        store.add_event(id, None, 1, KnownEvent::Note, "").unwrap();
        states.push(state(&store));
        store.end_trial(id, 2, "completed").unwrap();
        states.push(state(&store));
        let outcome = serde_json::json!({});
        store
            .add_look(id, &LookRecord { number: 1, planned_us: 1, taken_wall_us: 3, alpha: 0.05, outcome })
            .unwrap();
        states.push(state(&store));
        // An import of more files leaves the same ticks.
        let connection = rusqlite::Connection::open(folder.path().join("heaptrial.db")).unwrap();
        connection.execute("UPDATE trial SET command = 'import once more'", []).unwrap();
        states.push(state(&store));
        for (place, state) in states.iter().enumerate() {
            assert!(!states[..place].contains(state), "{place}: {state:?}");
        }
    }
}
