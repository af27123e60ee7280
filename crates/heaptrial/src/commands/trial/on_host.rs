//! What commands that change this host's services have in common.

use std::collections::{BTreeSet, HashMap};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heaptrial_change::{Notification, Outcome, Prepared, Stage, TrialState, Witness, taken_over_by};
use heaptrial_host::Instant as Moment;
use heaptrial_host::Paths;
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_rollout::is_rollout;
use heaptrial_store::{EventRecord, Store};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Name of the host's database in the folder of what must last.
const DATABASE: &str = "heaptrial.db";
/// While nothing happens, progress is told this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The host's database, or the one named.
pub fn database(paths: &Paths, global: &GlobalOptions) -> PathBuf {
    global.db.clone().unwrap_or_else(|| paths.state.join(DATABASE))
}

/// Refuses whoever is not root.
pub fn require_root(doing: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{doing} changes files of systemd and restarts services, which takes root; use sudo"
    )))
}

/// Whether somebody is there who can be asked, and sees what happens.
pub fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks whether to go on, unless that was answered by `--yes`. Without a terminal nobody can be asked.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !is_attended() {
        return Err(Failure::refused(format!(
            "{question} Nothing was changed: add --yes to go on, or --dry-run to see more"
        )));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::refused("nothing was changed"))
    }
}

/// Set by the first Ctrl-C; services that are being restarted are still brought to a known state. A second one ends
/// the program at once, which the recovery timer puts right.
pub fn interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())
            .map_err(Failure::failed)?;
        signal_hook::flag::register(signal, flag.clone()).map_err(Failure::failed)?;
    }
    Ok(flag)
}

/// Why nothing further is restarted, once a signal came.
pub fn interrupted(flag: &AtomicBool) -> Option<String> {
    flag.load(Ordering::Relaxed).then(|| "interrupted".to_owned())
}

/// Refuses to deal with a rollout as with a trial.
pub fn refuse_rollout(prepared: &Prepared, doing: &str) -> Result<(), Failure> {
    let name = &prepared.plan.name;
    if !is_rollout(prepared) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "`{name}` is a rollout and no trial; use `heaptrial rollout {doing} {name}`"
    )))
}

/// Refuses to put back, or to go on with, what a later rollout has replaced.
pub fn refuse_taken_over(paths: &Paths, name: &str) -> Result<(), Failure> {
    match taken_over_by(paths, name)? {
        None => Ok(()),
        Some(rollout) => Err(Failure::refused(format!(
            "rollout `{rollout}` has replaced what `{name}` left on services; `heaptrial rollout rollback {rollout}` first"
        ))),
    }
}

/// Ends a trial or a rollout in the database, so that the agent need not sample it any more. One that was reverted
/// before it was recorded has no row.
pub fn end_in_database(database: &Path, name: &str) {
    let ended = Store::create(database).and_then(|mut store| {
        let running = store.running_trials()?;
        match running.iter().find(|record| record.plan.name == name) {
            Some(record) => store.end_trial(record.id, Moment::now().wall_us, "completed"),
            None => Ok(()),
        }
    });
    if let Err(error) = ended {
        eprintln!("warning: {error}; `{name}` goes on in the database until the same command is repeated");
    }
}

/// Tells on standard error what happens, and tells the agent through the database which restarts are meant.
pub struct Teller {
    events: Option<Events>,
    /// Services that have their treatment, and those that were put back.
    committed: BTreeSet<ServiceName>,
    reverted: BTreeSet<ServiceName>,
    of: usize,
    quiet_since: Instant,
}

/// Where events of a trial go.
struct Events {
    store: Store,
    trial_id: i64,
    service_ids: HashMap<String, i64>,
}

impl Events {
    fn of_trial(database: &Path, trial: &str) -> Option<Self> {
        let store = Store::create(database).ok()?;
        let trial_id = store.running_trials().ok()?.iter().find(|record| record.plan.name == trial)?.id;
        let services = store.services(trial_id).ok()?;
        let service_ids = services.into_iter().map(|record| (record.name, record.id)).collect();
        Some(Self { store, trial_id, service_ids })
    }
}

impl Teller {
    /// Of a trial with so many services; without a database nothing is told to the agent.
    pub fn new(database: &Path, trial: &str, of: usize) -> Self {
        let events = Events::of_trial(database, trial);
        Self {
            events,
            committed: BTreeSet::new(),
            reverted: BTreeSet::new(),
            of,
            quiet_since: Instant::now(),
        }
    }

    /// Tells the database of services that were committed and of which an event was lost.
    pub fn tell_committed(&mut self, state: &TrialState) {
        let Some(Events { store, trial_id, service_ids }) = &mut self.events else { return };
        let Ok(events) = store.events(*trial_id) else { return };
        for (service, found) in &state.services {
            let id = service_ids.get(service.as_str()).copied();
            let at = found.committed_wall_us.filter(|_| found.stage == Stage::Committed);
            let (Some(id), Some(at)) = (id, at) else { continue };
            // The record in the journal comes a moment before the event.
            let told = |event: &EventRecord| {
                event.service_id == Some(id)
                    && event.kind == KnownEvent::TreatmentCommitted
                    && event.wall_us >= at
            };
            if !events.iter().any(told) {
                let _ = store.add_event(
                    *trial_id,
                    Some(id),
                    at,
                    KnownEvent::TreatmentCommitted,
                    "told by the journal",
                );
            }
        }
    }

    fn event(&mut self, service: &ServiceName, kind: KnownEvent, text: &str) {
        let Some(Events { store, trial_id, service_ids }) = &mut self.events else { return };
        let service_id = service_ids.get(service.as_str()).copied();
        // What the agent misses here, it finds out by itself as an unplanned restart.
        let _ = store.add_event(*trial_id, service_id, Moment::now().wall_us, kind, text);
    }
}

impl Witness for Teller {
    fn told(&mut self, prepared: &Prepared, notification: &Notification) {
        let found =
            |service: &ServiceName| prepared.services.iter().find(|treatment| treatment.service == *service);
        let arm =
            |service: &ServiceName| found(service).map(|treatment| treatment.arm.clone()).unwrap_or_default();
        if !matches!(notification, Notification::Waiting(..)) {
            self.quiet_since = Instant::now();
        }
        match notification {
            Notification::Restarting(service) => {
                self.event(service, KnownEvent::RestartPlanned, &format!("for arm {}", arm(service)));
            }
            Notification::Committed(service, life) => {
                let arm = arm(service);
                self.reverted.remove(service);
                self.committed.insert(service.clone());
                self.event(service, KnownEvent::TreatmentCommitted, &format!("runs what arm {arm} wants"));
                let runs = found(service).map(|treatment| treatment.expected.spec.to_string());
                let runs = runs.unwrap_or_default();
                let told = self.committed.len();
                eprintln!("{told}/{} {service}: {arm}, process {} runs {runs}", self.of, life.pid);
            }
            Notification::Failed(service, why) => {
                eprintln!("{service}: FAILED for arm {}: {why}", arm(service));
                eprintln!("{service}: putting it back");
                self.event(service, KnownEvent::TreatmentFailed, why);
            }
            Notification::Reverted(service) => {
                self.committed.remove(service);
                self.reverted.insert(service.clone());
                eprintln!("{}/{} {service}: as before", self.reverted.len(), self.of);
                self.event(service, KnownEvent::TreatmentReverted, "as before the trial");
            }
            Notification::RevertFailed(service, why) => {
                eprintln!("{service}: COULD NOT BE PUT BACK: {why}");
                self.event(service, KnownEvent::RevertFailed, why);
            }
            Notification::Waiting(done, of) => {
                if self.quiet_since.elapsed() >= PROGRESS_EVERY {
                    self.quiet_since = Instant::now();
                    eprintln!("{done} of {of}: waiting for the next restart");
                }
            }
            Notification::Warning(text) => self.warning(text),
        }
    }

    fn warning(&mut self, text: &str) {
        eprintln!("warning: {text}");
    }
}

/// An outcome as JSON.
pub fn outcome_json(trial: &str, action: &str, outcome: &Outcome) -> Value {
    let pairs = |list: &[(ServiceName, String)]| -> Vec<Value> {
        list.iter().map(|(service, why)| json!({ "service": service, "why": why })).collect()
    };
    json!({
        "schema_version": 1,
        "trial": trial,
        "action": action,
        "done": outcome.done,
        "failed": pairs(&outcome.failed),
        "not_put_back": pairs(&outcome.stuck),
        "remaining": outcome.remaining,
        "stopped": outcome.stopped,
    })
}
