//! What happens to services while they are changed: printed, and recorded for the agent as restarts that were meant.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use heaptrial_change::journal::Event;
use heaptrial_change::{Notification, Prepared, Stage, TrialState, Witness};
use heaptrial_host::Instant as Moment;
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_store::{EventRecord, Store};

use super::record::running;

/// While nothing happens, progress is printed this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Prints on standard error what happens, and records it in the database.
pub struct EventLog {
    recorder: Option<Recorder>,
    /// Services that have their treatment, and those that were put back.
    committed: BTreeSet<ServiceName>,
    reverted: BTreeSet<ServiceName>,
    of: usize,
    quiet_since: Instant,
}

/// Where events of a trial go.
struct Recorder {
    store: Store,
    trial_id: i64,
    service_ids: HashMap<String, i64>,
}

impl Recorder {
    fn of_trial(database: &Path, prepared: &Prepared) -> Option<Self> {
        let store = Store::open_for_writing(database).ok()?;
        let trial_id = running(&store, prepared).ok()??.id;
        let services = store.services(trial_id).ok()?;
        let service_ids = services.into_iter().map(|record| (record.name, record.id)).collect();
        Some(Self { store, trial_id, service_ids })
    }

    fn add(&mut self, service: &ServiceName, at_us: i64, kind: KnownEvent, text: &str) {
        let service_id = self.service_ids.get(service.as_str()).copied();
        // What the agent misses here, it finds out by itself as an unplanned restart.
        let _ = self.store.add_event(self.trial_id, service_id, at_us, kind, text);
    }
}

impl EventLog {
    /// Of a run over so many services; without a database nothing is recorded for the agent.
    pub fn new(database: &Path, prepared: &Prepared, of: usize) -> Self {
        Self {
            recorder: Recorder::of_trial(database, prepared),
            committed: BTreeSet::new(),
            reverted: BTreeSet::new(),
            of,
            quiet_since: Instant::now(),
        }
    }

    /// Records services that were committed by a process that was killed before it recorded that.
    pub fn record_committed(&mut self, state: &TrialState) {
        let Some(recorder) = &mut self.recorder else { return };
        let Ok(events) = recorder.store.events(recorder.trial_id) else { return };
        for (service, found) in &state.services {
            let id = recorder.service_ids.get(service.as_str()).copied();
            let at = found.committed_wall_us.filter(|_| found.stage == Stage::Committed);
            let (Some(_), Some(at)) = (id, at) else { continue };
            // The record in the journal comes a moment before the event.
            let is_it = |event: &EventRecord| {
                event.service_id == id && event.kind == KnownEvent::TreatmentCommitted && event.wall_us >= at
            };
            if !events.iter().any(is_it) {
                recorder.add(service, at, KnownEvent::TreatmentCommitted, "by the journal");
            }
        }
    }

    fn record(&mut self, service: &ServiceName, kind: KnownEvent, text: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.add(service, Moment::now().wall_us, kind, text);
        }
    }
}

impl Witness for EventLog {
    fn notify(&mut self, prepared: &Prepared, notification: &Notification<'_>) {
        let arm = |service| prepared.treatment(service).map_or("", |found| found.arm.as_str());
        if !matches!(notification, Notification::Waiting(..)) {
            self.quiet_since = Instant::now();
        }
        match notification {
            Notification::Restarting(service) => {
                self.record(service, KnownEvent::RestartPlanned, &format!("for arm {}", arm(service)));
            }
            Notification::Recorded(Event::Committed { service, life, .. }) => {
                let arm = arm(service);
                self.reverted.remove(service);
                self.committed.insert(service.clone());
                self.record(service, KnownEvent::TreatmentCommitted, &format!("runs what arm {arm} wants"));
                let runs = prepared.treatment(service).map(|found| found.expected.spec.to_string());
                let (done, runs) = (self.committed.len(), runs.unwrap_or_default());
                eprintln!("{done}/{} {service}: {arm}, process {} runs {runs}", self.of, life.pid);
            }
            Notification::Recorded(Event::Revert { service, stage: Stage::Reverted, .. }) => {
                self.committed.remove(service);
                self.reverted.insert(service.clone());
                eprintln!("{}/{} {service}: as before", self.reverted.len(), self.of);
                self.record(service, KnownEvent::TreatmentReverted, "as before the trial");
            }
            Notification::Recorded(Event::Revert { service, stage: Stage::RevertFailed, why: Some(why) }) => {
                eprintln!("{service}: COULD NOT BE PUT BACK: {why}");
                self.record(service, KnownEvent::RevertFailed, why);
            }
            Notification::Recorded(Event::Revert { service, why: Some(why), .. }) => {
                eprintln!("{service}: FAILED for arm {}: {why}", arm(service));
                eprintln!("{service}: putting it back");
                self.record(service, KnownEvent::TreatmentFailed, why);
            }
            Notification::Recorded(_) => {}
            Notification::Waiting(done, of) => {
                if self.quiet_since.elapsed() >= PROGRESS_EVERY {
                    self.quiet_since = Instant::now();
                    eprintln!("{done} of {of}: waiting for the next restart");
                }
            }
        }
    }

    fn warning(&mut self, text: &str) {
        eprintln!("warning: {text}");
    }
}
