//! How jobs ended, from the signals of systemd.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::select;
use zbus::zvariant::ObjectPath;
use zbus::{Connection, MatchRule, MessageStream, Task, block_on, message};

use super::{Job, JobResult, SystemdError};

/// The results of so many jobs are kept; numbers of jobs only grow, so that the oldest goes first.
const KEPT_RESULTS: usize = 4096;

/// All jobs of the manager that ended since the watch began. The signal may come before the reply that names the job.
#[derive(Debug)]
pub(super) struct JobWatch {
    seen: Arc<Seen>,
    _task: Task<()>,
}

#[derive(Debug, Default)]
struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    results: BTreeMap<u32, JobResult>,
    /// Whether the connection is gone, or systemd left it, so that nothing more will come.
    ended: bool,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobWatch {
    /// Listens; the manager must have been asked to emit signals (Subscribe) afterwards.
    pub(super) fn begin(connection: &Connection) -> zbus::Result<Self> {
        let rule = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender("org.freedesktop.systemd1")?
            .path("/org/freedesktop/systemd1")?
            .interface("org.freedesktop.systemd1.Manager")?
            .member("JobRemoved")?
            .build();
        // systemd gives its name up when it executes itself again, and its signals of that time are lost.
        let owner = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender("org.freedesktop.DBus")?
            .interface("org.freedesktop.DBus")?
            .member("NameOwnerChanged")?
            .arg(0, "org.freedesktop.systemd1")?
            .build();
        let results = block_on(MessageStream::for_match_rule(rule, connection, None))?;
        let owners = block_on(MessageStream::for_match_rule(owner, connection, None))?;
        let mut signals = select(results, owners);
        let seen = Arc::new(Seen::default());
        let watcher = Arc::clone(&seen);
        let watch = async move {
            while let Some(signal) = signals.next().await {
                let Ok(signal) = signal else { break };
                if signal.header().member().is_some_and(|member| member == "NameOwnerChanged") {
                    break;
                }
                let body = signal.body();
                let Ok((id, _path, _unit, result)) = body.deserialize::<(u32, ObjectPath<'_>, &str, &str)>()
                else {
                    continue;
                };
                let mut state = watcher.state();
                state.results.insert(id, JobResult(result.to_owned()));
                if state.results.len() > KEPT_RESULTS {
                    state.results.pop_first();
                }
                drop(state);
                watcher.changed.notify_all();
            }
            watcher.state().ended = true;
            watcher.changed.notify_all();
        };
        let task = connection.executor().spawn(watch, "results of jobs");
        Ok(Self { seen, _task: task })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.seen.state().ended
    }

    /// How a job ended, waiting as long as `limit`; `None` if it has not.
    pub(super) fn result(&self, job: &Job, limit: Duration) -> Result<Option<JobResult>, SystemdError> {
        let nothing = |state: &mut State| !state.ended && !state.results.contains_key(&job.id);
        let waited = self.seen.changed.wait_timeout_while(self.seen.state(), limit, nothing);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.results.get(&job.id) {
            None if state.ended => Err(disconnected(job)),
            result => Ok(result.cloned()),
        }
    }
}

/// Nothing is heard of a job any more.
pub(super) fn disconnected(job: &Job) -> SystemdError {
    SystemdError::Lost {
        doing: format!("waiting for the job of {}", job.unit),
        said: "the connection ended".to_owned(),
    }
}
