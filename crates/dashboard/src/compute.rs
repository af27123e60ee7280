//! What takes long to compute: done off the threads that answer, one at a time, not again and again, and kept.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heaptrial_report::{Options, Report, embedded};
use tokio::sync::Semaphore;

use crate::DashboardError;
use crate::data::{Data, Trial, now_us};
use crate::live::Live;

const KEPT: usize = 6;
/// The same is computed again after this time at the earliest.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// And after this many times what it took.
const AGAIN_AFTER_TIMES: u32 = 10;
/// A page waits this long for its first result, then is shown without.
pub(crate) const WAIT: Duration = Duration::from_secs(8);

/// What is computed of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// The chart of what was read so far.
    Running,
    /// The sections of the report.
    Sections,
    /// The whole report as a page of its own.
    Page,
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
    kept: Mutex<HashMap<Key, Kept>>,
    /// What is to be computed once it is due.
    waiting: Mutex<HashSet<Key>>,
    one: Arc<Semaphore>,
    live: Arc<Live>,
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
    pub(crate) fn new(path: &Path, live: Arc<Live>) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            kept: Mutex::default(),
            waiting: Mutex::default(),
            one: Arc::new(Semaphore::new(1)),
            live,
        })
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
        if found.state == state && found.computed.markup.is_ok() {
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
        let markup = self.markup(key).map(Arc::from).map_err(|error| Arc::from(error.to_string()));
        let kept = Kept {
            computed: Computed { markup, at_wall_us },
            state,
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

    /// On a connection of its own, so that pages are answered meanwhile.
    fn markup(&self, (trial_id, what): Key) -> Result<String, DashboardError> {
        let mut data = Data::new(&self.path);
        let (store, _) = data.current()?;
        let Some(record) = store.trials()?.into_iter().find(|trial| trial.id == trial_id) else {
            return Ok(String::new());
        };
        let trial = Trial::read(store, record, now_us())?;
        let options = Options::default();
        Ok(match what {
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
        })
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
