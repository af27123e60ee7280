//! Process lifetimes: main processes that are found, entered into the ledger, and end.

use heaptrial_host::HostError;
use heaptrial_host::systemd::Manager as _;
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_store::LifeRecord;

use crate::announced::Announced;
use crate::ending::{Verdict, judge};
use crate::ledger::Write;
use crate::session::Session;
use crate::systemd_journal::{End, Ends};
use crate::watched::{Main, Proof, Watched};

/// After this long without a main process it is recorded that a service is down.
const DOWN_AFTER_US: i64 = 10_000_000;
/// What was proved of a lifetime is checked again this soon after a start of the agent.
const CHECK_AGAIN_US: i64 = 10_000_000;
/// The start of a process is known in hundredths of a second, rounded down, and the end of the run before it may be written
/// as late: an end within this time belongs to that.
const START_US: i64 = 20_000;
const OLDER: &str = "it was started before the trial began, so not under its arm's treatment";

impl Session {
    /// Asks systemd about services without a main process, records how earlier ones ended, and enters new ones into the
    /// ledger. Gives the services whose main process is new.
    pub(crate) fn look_for_mains(&mut self) -> Vec<ServiceName> {
        let missing: Vec<ServiceName> = self
            .watched
            .values()
            .filter(|watched| watched.main.is_none())
            .map(|it| it.name.clone())
            .collect();
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
        let unwritten: Vec<ServiceName> = self
            .watched
            .values()
            .filter(|it| it.main.is_some() && it.seats.iter().any(|seat| seat.life_id.is_none()))
            .map(|it| it.name.clone())
            .collect();
        unwritten.iter().for_each(|name| self.enter_lives(name));
        found
    }

    /// Whether a service has this main process now.
    pub(crate) fn open_main(&mut self, name: &ServiceName, pid: Option<i32>, control_group: &str) -> bool {
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

    /// Reads how lifetimes ended that the ledger still holds as alive, where there are such.
    fn explain_ends(&mut self) {
        self.ledger.flush();
        // What waits to be written may be about them.
        if !self.ledger.is_clear() {
            return;
        }
        let mut names = Vec::new();
        for watched in self.watched.values_mut().filter(|it| it.known && it.unexplained) {
            let has_open = watched.seats.iter().any(|seat| {
                let open = self.ledger.store.open_lives(seat.service_id).unwrap_or_default();
                open.iter().any(|life| watched.is_past(life))
            });
            match has_open || watched.explained_until_us.is_some() {
                true => names.push(watched.name.clone()),
                false => watched.unexplained = false,
            }
        }
        if names.is_empty() {
            return;
        }
        let ends = self.systemd_journal.ends(&names);
        let announced = Announced::read(&self.config.journals);
        names.iter().for_each(|name| self.explain(name, ends.as_ref(), &announced));
    }

    /// Records how earlier lifetimes of a service ended. One whose end is not in systemd's journal yet is looked for once
    /// more.
    pub(crate) fn explain(&mut self, name: &ServiceName, ends: Option<&Ends>, announced: &Announced) {
        let now = self.clock.now();
        let Some(watched) = self.watched.get(name) else { return };
        let next = watched.main.as_ref().map(|main| (main.key.clone(), main.started));
        let until_us = next.as_ref().map_or(i64::MAX, |(_, started)| started.boottime_us + START_US);
        let from_us = watched.explained_until_us;
        let new = ends.map_or(&[][..], |ends| ends.of(name)).iter().filter(|end| {
            from_us.is_none_or(|from_us| end.at.boottime_us > from_us) && end.at.boottime_us <= until_us
        });
        let new: Vec<&End> = new.collect();
        let (mut writes, mut first_us, mut waits) = (Vec::new(), from_us, false);
        for seat in &watched.seats {
            let open = self.ledger.store.open_lives(seat.service_id).unwrap_or_default();
            for life in open.iter().filter(|life| watched.is_past(life)) {
                let end = new.iter().find(|end| end.at.boottime_us > life.started_boottime_us + START_US);
                if end.is_none() && ends.is_some() && !watched.waited {
                    waits = true;
                    continue;
                }
                let (at, seen_us) = match end {
                    Some(end) => ((end.at.wall_us, end.at.boottime_us), end.at.wall_us),
                    None => (self.last_seen(life), next.as_ref().map_or(now.wall_us, |(_, at)| at.wall_us)),
                };
                let older = life.contamination.as_deref() == Some(OLDER);
                let by_heaptrial = older || announced.has(name, seen_us, next.as_ref().map(|(key, _)| key));
                let Verdict { ending, event } = judge(end.copied(), by_heaptrial);
                writes.push(Write::EndLife { life_id: life.id, at, ending });
                writes.extend(event.map(|(kind, text)| Write::event(seat, seen_us, kind, text)));
                first_us = first_us.max(end.map(|end| end.at.boottime_us));
            }
        }
        if !waits {
            // Lifetimes that began and ended between two ticks have no row, and their crashes count all the same.
            let unseen = new.iter().filter(|end| first_us.is_some_and(|us| end.at.boottime_us > us));
            let failures: Vec<(&End, (KnownEvent, String))> = unseen
                .filter_map(|end| Some((*end, judge(Some(end), true).event?)))
                .filter(|(_, (kind, _))| matches!(kind, KnownEvent::Crash | KnownEvent::OomKill))
                .collect();
            if let Some((end, (kind, text))) = failures.last() {
                let text =
                    format!("{} lifetimes ended before they were sampled; the last: {text}", failures.len());
                let of_seat = |seat| Write::event(seat, end.at.wall_us, *kind, text.clone());
                writes.extend(watched.seats.iter().map(of_seat));
            }
        }
        let last_us = new.last().map(|end| end.at.boottime_us);
        if let Some(watched) = self.watched.get_mut(name) {
            (watched.unexplained, watched.waited) = (waits, waits);
            if !waits {
                watched.explained_until_us = from_us.max(last_us).or(Some(now.boottime_us));
            }
        }
        writes.into_iter().for_each(|write| self.ledger.submit(write));
    }

    /// Enters the main process of a service into the ledgers of its trials, where it is not there yet.
    pub(crate) fn enter_lives(&mut self, name: &ServiceName) {
        self.ledger.flush();
        if !self.ledger.is_clear() {
            // The next tick tries again.
            return;
        }
        let now = self.clock.now();
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(main) = &mut watched.main else { return };
        for seat in watched.seats.iter_mut().filter(|seat| seat.life_id.is_none()) {
            let older = seat
                .begins_after
                .as_ref()
                .is_some_and(|trial| trial.is_after(&main.key.boot_id, main.started));
            let started = (main.started.wall_us, main.started.boottime_us);
            let contamination = older.then_some(OLDER);
            let entered = self.ledger.store.enter_life(seat.service_id, &main.key, started, contamination);
            let (life_id, known) = match entered {
                Ok(entered) => entered,
                // The next tick tries again.
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
            // The agent was started again, or the trial was: what is proved stays so while the same files are mapped.
            let Some(row) = self.ledger.store.life(life_id).ok().flatten() else { continue };
            // Readings that are stored elsewhere are found again by the start that metrics have.
            main.started.wall_us = row.started_wall_us;
            if row.ending.is_some()
                && let Err(error) = self.ledger.store.resume_life(life_id)
            {
                self.ledger.say_unwritable(&error);
            }
            // A counter goes on where it was.
            if let Some((_, cpu_seconds)) = self.ledger.store.last_cpu(&row).ok().flatten() {
                main.cpu.was((cpu_seconds * 1e6).round() as u64);
            }
            let LifeRecord { identity: Some(identity), contamination, .. } = row else { continue };
            seat.contamination = contamination;
            seat.earlier = Some(identity.clone());
            seat.settled = true;
            if let Proof::Due { .. } = &main.proof {
                main.proof = Proof::Done(Box::new(identity));
                main.next_check_us = now.boottime_us + CHECK_AGAIN_US;
            }
        }
        self.settle(name);
    }
}

impl Watched {
    /// Whether a lifetime of the ledger is not the present one.
    fn is_past(&self, life: &LifeRecord) -> bool {
        self.main.as_ref().is_none_or(|main| life.key.as_ref() != Some(&main.key))
    }

    /// Its main process ended: systemd's journal says how, and systemd whether there is another.
    pub(crate) fn main_ended(&mut self, now_us: i64) {
        self.main = None;
        self.missed_us = now_us;
        self.is_down = false;
        self.unexplained = true;
        self.seats.iter_mut().for_each(|seat| seat.life_id = None);
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_host::Instant;
    use heaptrial_model::{Ending, EventKind, TrialKind};

    use super::*;
    use crate::systemd_journal::tests::end;
    use crate::testing::{Fixture, HOUR_US, UNIT, hours_ago};

    fn name() -> ServiceName {
        UNIT.parse().unwrap()
    }

    fn later(at: Instant, by_us: i64) -> Instant {
        Instant { wall_us: at.wall_us + by_us, boottime_us: at.boottime_us + by_us }
    }

    fn crash(code: i32, at: Instant) -> End {
        end("exit-code", Some(Ending::Exited(code)), at)
    }

    fn kinds(fixture: &Fixture, trial: i64) -> Vec<EventKind> {
        fixture.events(trial).into_iter().map(|event| event.kind).collect()
    }

    fn explain(fixture: &mut Fixture, ends: Vec<End>) {
        let announced = Announced::read(&fixture.session.config.journals);
        fixture.session.explain(&name(), Some(&Ends::with(&name(), ends)), &announced);
    }

    /// A transaction's journal, with this record about the service three minutes after it was opened.
    fn announce(fixture: &Fixture, opened: Instant, what: &str) {
        let folder = fixture.session.config.journals.join("five-way");
        std::fs::create_dir_all(&folder).unwrap();
        let (opened_us, at_us) = (opened.wall_us, opened.wall_us + 180_000_000);
        let journal = format!(
            "{{\"wall_us\":{opened_us},\"what\":\"opened\"}}\n{{\"wall_us\":{at_us},\"what\":\"{what}\",\"service\":\"{UNIT}\"}}\n"
        );
        std::fs::write(folder.join("journal.jsonl"), journal).unwrap();
    }

    #[test]
    fn the_end_of_a_lifetime_is_that_of_its_run_also_while_no_agent_ran() {
        for present in [true, false] {
            let mut fixture = Fixture::new();
            let (trial, service) = fixture.begin(TrialKind::Field, None, hours_ago(10));
            let started = hours_ago(5);
            fixture.earlier_life(service, started, None);
            fixture.session.refresh_trials();
            if present {
                fixture.find_main(hours_ago(1));
            }
            // The run before it may have been written a moment after its start.
            let ends = vec![crash(1, later(started, 5_000)), crash(3, hours_ago(2))];
            explain(&mut fixture, ends);
            let life = &fixture.lives(trial)[0];
            assert_eq!(life.ending, Some(Ending::Exited(3)), "{present}");
            assert!(life.ended_boottime_us.unwrap() > life.started_boottime_us + HOUR_US);
            assert_eq!(kinds(&fixture, trial), [KnownEvent::Crash]);
        }
    }

    #[test]
    fn lifetimes_that_nobody_saw_are_counted() {
        let mut fixture = Fixture::new();
        let (trial, service) = fixture.begin(TrialKind::Field, None, hours_ago(10));
        fixture.earlier_life(service, hours_ago(9), None);
        fixture.session.refresh_trials();
        fixture.find_main(hours_ago(1));
        let ends: Vec<End> = [8, 7, 6].map(|hours| crash(hours, hours_ago(hours.into()))).into();
        explain(&mut fixture, ends.clone());
        assert_eq!(fixture.lives(trial)[0].ending, Some(Ending::Exited(8)));
        let events = fixture.events(trial);
        assert_eq!(kinds(&fixture, trial), [KnownEvent::Crash, KnownEvent::Crash]);
        assert!(
            events[1].text.starts_with("2 lifetimes ended") && events[1].text.contains("code 6"),
            "{events:?}"
        );
        // Once.
        fixture.session.watched.get_mut(&name()).unwrap().unexplained = true;
        explain(&mut fixture, ends);
        assert_eq!(fixture.events(trial).len(), 2);
    }

    #[test]
    fn an_end_that_is_not_written_yet_is_waited_for_and_then_unknown() {
        let mut fixture = Fixture::new();
        let (trial, service) = fixture.begin(TrialKind::Field, None, hours_ago(10));
        fixture.earlier_life(service, hours_ago(9), None);
        fixture.session.refresh_trials();
        explain(&mut fixture, Vec::new());
        assert_eq!(fixture.lives(trial)[0].ending, None);
        assert!(fixture.session.watched[&name()].unexplained);
        explain(&mut fixture, Vec::new());
        let life = &fixture.lives(trial)[0];
        assert_eq!(life.ending, Some(Ending::Stopped));
        assert_eq!(life.ended_boottime_us, Some(life.started_boottime_us), "it was never sampled");
        assert_eq!(kinds(&fixture, trial), [KnownEvent::RestartUnplanned]);
        assert!(!fixture.session.watched[&name()].unexplained);
    }

    #[test]
    fn restarts_of_a_transaction_are_planned_in_every_trial_of_the_service() {
        let opened = hours_ago(2);
        for (what, minutes, planned) in
            [("intent", 2, true), ("committed", 2, true), ("committed", 5, false), ("reverted", 2, true)]
        {
            let mut fixture = Fixture::new();
            let (field, of_field) = fixture.begin(TrialKind::Field, None, hours_ago(3));
            let (watch, of_watch) = fixture.begin(TrialKind::Watch, None, hours_ago(3));
            for service in [of_field, of_watch] {
                fixture.earlier_life(service, hours_ago(3), None);
            }
            fixture.session.refresh_trials();
            announce(&fixture, opened, what);
            let stop = End { by_job: true, ..end("success", None, later(opened, minutes * 60_000_000)) };
            explain(&mut fixture, vec![stop]);
            for trial in [field, watch] {
                let expected = if planned { Ending::Planned } else { Ending::Stopped };
                assert_eq!(fixture.lives(trial)[0].ending, Some(expected), "{what} {minutes}");
                assert_eq!(kinds(&fixture, trial).is_empty(), planned, "{what} {minutes}");
            }
        }
    }

    #[test]
    fn a_restart_of_a_lifetime_older_than_the_trial_is_planned() {
        let mut fixture = Fixture::new();
        let (trial, service) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.earlier_life(service, hours_ago(5), Some(OLDER));
        fixture.session.refresh_trials();
        fixture.find_main(hours_ago(2));
        explain(&mut fixture, vec![End { by_job: true, ..end("success", None, hours_ago(2)) }]);
        assert_eq!(fixture.lives(trial)[0].ending, Some(Ending::Planned));
        assert!(fixture.events(trial).is_empty());
    }

    #[test]
    fn a_life_is_no_older_than_its_trial_because_the_clock_was_set() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        let mut started = hours_ago(2);
        // As it looks after the clock was set back by six hours.
        started.wall_us -= 6 * HOUR_US;
        fixture.find_main(started);
        assert_eq!(fixture.lives(trial)[0].contamination, None);
    }

    #[test]
    fn a_life_that_began_before_a_watch_is_its_own() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        let (watch, _) = fixture.begin(TrialKind::Watch, None, hours_ago(3));
        fixture.session.refresh_trials();
        fixture.find_main(hours_ago(5));
        assert_eq!(fixture.lives(trial)[0].contamination.as_deref(), Some(OLDER));
        assert_eq!(fixture.lives(watch)[0].contamination, None);
    }

    #[test]
    fn a_service_goes_to_a_trial_and_comes_back_without_a_false_restart() {
        let mut fixture = Fixture::new();
        fixture.session.config.host_patterns = vec!["heaptrial-test-*".parse().unwrap()];
        let (of_host, _) = fixture.begin(TrialKind::Host, None, hours_ago(5));
        fixture.session.refresh_trials();
        let started = hours_ago(4);
        fixture.find_main(started);
        assert_eq!(fixture.lives(of_host)[0].ending, None);

        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        let life = &fixture.lives(of_host)[0];
        assert_eq!(life.ending, Some(Ending::Planned));
        assert!(life.ended_boottime_us.is_some());
        assert_eq!(fixture.lives(trial).len(), 1);

        let store = &mut fixture.session.ledger.store;
        store.end_trial(trial, Instant::now().wall_us, "completed").unwrap();
        fixture.session.trials.clear();
        fixture.session.watched.clear();
        fixture.session.refresh_trials();
        fixture.find_main(started);
        let lives = fixture.lives(of_host);
        assert_eq!((lives.len(), lives[0].ending.clone()), (1, None), "it is resumed");
        assert!(fixture.events(of_host).is_empty(), "{:?}", fixture.events(of_host));
    }

    #[test]
    fn cpu_time_of_a_life_goes_on_with_another_agent() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        let started = hours_ago(2);
        fixture.find_main(started);
        // An hour of children that are gone.
        let main = fixture.session.watched.values_mut().next().unwrap().main.as_mut().unwrap();
        main.cpu.was(HOUR_US as u64);
        fixture.session.tick();
        fixture.restart_agent();
        fixture.session.refresh_trials();
        fixture.find_main(started);
        fixture.session.tick();
        let lives = fixture.lives(trial);
        assert_eq!(lives.len(), 1);
        let spent = fixture.session.ledger.store.spent(&lives[0]).unwrap();
        let seconds: Vec<f64> = spent.iter().map(|point| point.cpu_seconds).collect();
        assert!(seconds.len() == 2 && seconds[0] >= 3600.0 && seconds[1] >= seconds[0], "{seconds:?}");
    }

    #[test]
    fn the_start_in_metrics_is_that_of_the_ledger_whatever_the_clock_was_set_to_since() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        let started = hours_ago(2);
        fixture.find_main(started);
        // As of an agent that was started after the clock had been set by five seconds.
        fixture.session.watched.get_mut(&name()).unwrap().seats[0].life_id = None;
        fixture.find_main(Instant { wall_us: started.wall_us + 5_000_000, ..started });
        let shown = fixture.session.watched[&name()].main.as_ref().unwrap().started.wall_us;
        assert_eq!((shown, fixture.lives(trial)[0].started_wall_us), (started.wall_us, started.wall_us));
    }

    #[test]
    fn a_service_is_down_after_a_while_and_once() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        for (known, hours, expected) in [(false, 1, 0), (true, 0, 0), (true, 1, 1), (true, 1, 1)] {
            let watched = fixture.session.watched.get_mut(&name()).unwrap();
            (watched.known, watched.missed_us) = (known, hours_ago(hours).boottime_us);
            fixture.session.note_down(&name(), "inactive", "dead");
            assert_eq!(fixture.events(trial).len(), expected, "{known} {hours}");
        }
        assert_eq!(kinds(&fixture, trial), [KnownEvent::ServiceDown]);
    }
}
