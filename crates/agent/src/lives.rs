//! Process lifetimes: main processes that are found and entered into the ledger.

use heaptrial_host::HostError;
use heaptrial_host::systemd::Manager as _;
use heaptrial_model::{KnownEvent, ServiceName};

use crate::agent::Agent;
use crate::ledger::Write;
use crate::watched::{Main, Watched};

/// After this long without a main process it is recorded that a service is down.
const DOWN_AFTER_US: i64 = 10_000_000;
pub(crate) const OLDER: &str = "it was started before the trial began, so not under its arm's treatment";

impl Agent {
    /// Finds main processes, records how earlier ones ended, and enters new ones. Returns the services that have a new one.
    pub(crate) fn look_for_mains(&mut self) -> Vec<ServiceName> {
        let missing = self.names(|watched| watched.main.is_none());
        let mut found = Vec::new();
        if !missing.is_empty() {
            let statuses = self.manager.ask(|systemd| {
                let statuses = systemd.statuses(&missing);
                // All fail together where the connection broke.
                match statuses.iter().all(Result::is_err) {
                    true => statuses.into_iter().collect::<Result<Vec<_>, _>>().map(|_| Vec::new()),
                    false => Ok(statuses),
                }
            });
            for (name, status) in missing.iter().zip(statuses.into_iter().flatten()) {
                let Ok(status) = status else { continue };
                match self.open_main(name, status.main_pid, &status.control_group) {
                    true => found.push(name.clone()),
                    false => self.note_down(name, &status.active_state, &status.sub_state),
                }
            }
        }
        self.explain_ends();
        let is_unwritten = |watched: &Watched| watched.seats.iter().any(|seat| seat.life_id.is_none());
        let unwritten = self.names(|watched| watched.main.is_some() && is_unwritten(watched));
        unwritten.iter().for_each(|name| self.enter_lives(name));
        found
    }

    pub(crate) fn names(&self, wanted: impl Fn(&Watched) -> bool) -> Vec<ServiceName> {
        let found = self.watched.iter().filter(|(_, watched)| wanted(watched));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a service has this main process now.
    fn open_main(&mut self, name: &ServiceName, pid: Option<i32>, control_group: &str) -> bool {
        let now = self.clock.now();
        let Some(watched) = self.watched.get_mut(name) else { return false };
        watched.known = true;
        let Some(pid) = pid else { return false };
        match Main::open(&self.root, pid, control_group, now) {
            Ok(main) => {
                watched.main = Some(main);
                watched.is_down = false;
                watched.unexplained = true;
                true
            }
            Err(error) => {
                if !error.is_gone() {
                    // It runs, and that is all that is known.
                    watched.known = false;
                    self.note_unread(name, &error);
                }
                false
            }
        }
    }

    fn note_down(&mut self, name: &ServiceName, active_state: &str, sub_state: &str) {
        let now = self.clock.now();
        let Some(watched) = self.watched.get_mut(name) else { return };
        if watched.is_down || !watched.known || now.boottime_us - watched.missed_us < DOWN_AFTER_US {
            return;
        }
        watched.is_down = true;
        let text = format!("has no main process; systemd says {active_state} ({sub_state})");
        self.record(name, now.wall_us, KnownEvent::ServiceDown, &text);
    }

    /// Records once that a service runs and is not sampled, until it is again.
    pub(crate) fn note_unread(&mut self, name: &ServiceName, why: &HostError) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        if std::mem::replace(&mut watched.is_unread, true) {
            return;
        }
        eprintln!("{name} runs and cannot be sampled, which is tried again: {why}");
        let text = format!("no sample is taken though it runs: {why}");
        self.record(name, self.clock.now().wall_us, KnownEvent::Gap, &text);
    }

    /// An event of a service, in each of its trials.
    pub(crate) fn record(&mut self, name: &ServiceName, wall_us: i64, kind: KnownEvent, text: &str) {
        let Some(watched) = self.watched.get(name) else { return };
        for seat in &watched.seats {
            self.ledger.submit(Write::event(seat, wall_us, kind, text.to_owned()));
        }
    }

    /// Enters the main process of a service into the ledgers of its trials; the next tick tries again what failed.
    pub(crate) fn enter_lives(&mut self, name: &ServiceName) {
        self.ledger.flush();
        if !self.ledger.is_clear() {
            return;
        }
        let now_us = self.clock.now().boottime_us;
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(main) = &mut watched.main else { return };
        for seat in watched.seats.iter_mut().filter(|seat| seat.life_id.is_none()) {
            let begins_after = seat.begins_after.as_ref();
            let older = begins_after.is_some_and(|trial| trial.is_after(&main.key.boot_id, main.started));
            let started = (main.started.wall_us, main.started.boottime_us);
            let contamination = older.then_some(OLDER);
            let entered = self.ledger.store.enter_life(seat.service_id, &main.key, started, contamination);
            let (life_id, known) = match entered {
                Ok(entered) => entered,
                Err(error) => return self.ledger.say_unwritable(&error),
            };
            seat.life_id = Some(life_id);
            seat.older_than_trial = older;
            seat.contamination = contamination.map(str::to_owned);
            seat.settled = false;
            if !older {
                seat.begins_after = None;
            }
            if !known {
                continue;
            }
            // The agent or the trial was started again.
            let Some(row) = self.ledger.store.life(life_id).ok().flatten() else { continue };
            if row.ending.is_some()
                && let Err(error) = self.ledger.store.resume_life(life_id)
            {
                self.ledger.say_unwritable(&error);
            }
            // Readings that are stored elsewhere are found again by the start that metrics have.
            main.started.wall_us = row.started_wall_us;
            if let Some(identity) = row.identity {
                seat.contamination = row.contamination;
                seat.earlier = Some(identity.clone());
                seat.settled = true;
                main.resume_proof(identity, now_us);
            }
        }
        self.settle(name);
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_host::Instant;
    use heaptrial_model::TrialKind;

    use crate::testing::{Fixture, HOUR_US, hours_ago};

    #[test]
    fn a_life_is_older_than_its_trial_by_the_boot_clock_and_none_is_older_than_its_watch() {
        for (hours, set_by_us, kind, older) in [
            (2, 0, TrialKind::Field, false),
            // As it looks after the clock was set back by six hours.
            (2, -6 * HOUR_US, TrialKind::Field, false),
            (5, 0, TrialKind::Field, true),
            (5, 0, TrialKind::Watch, false),
        ] {
            let mut fixture = Fixture::new();
            let (trial, _) = fixture.begin(kind, hours_ago(3));
            fixture.agent.refresh_trials();
            let started = hours_ago(hours);
            fixture.find_main(Instant { wall_us: started.wall_us + set_by_us, ..started });
            assert_eq!(fixture.lives(trial)[0].contamination.is_some(), older, "{hours} {set_by_us} {kind}");
        }
    }
}
