//! Lives: main processes that are found, proved, and end.

use heaptrial_host::systemd::UnitStatus;
use heaptrial_host::{HostError, Instant};
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_store::Store;

use crate::ending::{Circumstances, Verdict, is_after, judge, judge_missed};
use crate::ledger::Write;
use crate::session::Session;
use crate::watched::{
    Ended, LOOK_AT_ONCE_US, LOOK_CLOSELY_US, LOOK_EVERY_US, Main, Proof, Seat, VERDICT_PATIENCE_US, Watched,
};

/// A restart belongs to a command's announcement of at most this age.
const ANNOUNCED_US: i64 = 600_000_000;
/// Starts of processes are told in hundredths of a second, rounded down.
const START_US: i64 = 10_000;
/// After this long without a main process it is told that a service is down.
const DOWN_AFTER_US: i64 = LOOK_CLOSELY_US;
const OLDER: &str = "it was started before the trial began, so not under its arm's treatment";

impl Session {
    /// A main process ended: systemd will tell why, and start another or not.
    pub(crate) fn main_ended(&mut self, name: &ServiceName) {
        let now = self.clock.now();
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(main) = watched.main.take() else { return };
        // The control group is removed in a moment.
        let oom = main.has_new_oom_kills();
        watched.ended = Some(Ended { key: main.key, started: main.started, at: now, oom });
        watched.missed_us = now.boottime_us;
        watched.look_at_us = now.boottime_us;
        watched.told_down = false;
        self.look_for_mains();
    }

    /// Asks systemd about services whose main process is missing, those that are due.
    pub(crate) fn look_for_mains(&mut self) {
        let now = self.clock.now();
        let names: Vec<ServiceName> = self
            .watched
            .values()
            .filter(|watched| watched.main.is_none() || watched.ended.is_some())
            .filter(|watched| now.boottime_us >= watched.look_at_us)
            .map(|watched| watched.name.clone())
            .collect();
        if names.is_empty() {
            return;
        }
        let statuses = self.ask(|systemd| {
            let statuses = systemd.statuses(&names);
            // All fail together where the connection broke.
            match statuses.iter().all(Result::is_err) {
                true => statuses.into_iter().collect::<Result<Vec<_>, _>>().map(|_| Vec::new()),
                false => Ok(statuses),
            }
        });
        let statuses = statuses.unwrap_or_default();
        for (index, name) in names.iter().enumerate() {
            match statuses.get(index) {
                Some(Ok(status)) => self.found(name, status),
                _ => self.look_again(name, None),
            }
        }
    }

    /// Takes note of what systemd says of a service without a known main process.
    fn found(&mut self, name: &ServiceName, status: &UnitStatus) {
        let now = self.clock.now();
        let Some(watched) = self.watched.get_mut(name) else { return };
        watched.known = true;
        if let Some(ended) = &watched.ended {
            let waited = now.boottime_us - ended.at.boottime_us;
            if !is_after(status, ended.key.pid) && waited < VERDICT_PATIENCE_US {
                watched.look_at_us = now.boottime_us + LOOK_AT_ONCE_US;
                return;
            }
            self.conclude(name, status);
        }
        let Some(watched) = self.watched.get_mut(name) else { return };
        if let (None, Some(pid)) = (&watched.main, status.main_pid) {
            match Main::open(&self.root, pid, &status.control_group, now) {
                Ok(main) => {
                    watched.main = Some(main);
                    watched.restarts = status.restarts;
                    watched.told_down = false;
                    watched.closed = false;
                    self.enter_lives(name);
                    return;
                }
                Err(error) if !error.is_gone() => {
                    // It runs, and that is all that is known.
                    watched.known = false;
                    self.tell_unread(name, &error);
                    return self.look_again(name, None);
                }
                Err(_) => {}
            }
        }
        self.close_lives(name, status);
        self.look_again(name, Some(status));
    }

    fn look_again(&mut self, name: &ServiceName, status: Option<&UnitStatus>) {
        let now = self.clock.now();
        let Some(watched) = self.watched.get_mut(name) else { return };
        let missing = now.boottime_us - watched.missed_us;
        watched.look_at_us = match missing < LOOK_CLOSELY_US {
            true => now.boottime_us + LOOK_EVERY_US,
            false => self.due.tick_us.max(now.boottime_us + LOOK_EVERY_US),
        };
        if let (Some(status), false) = (status, watched.told_down || missing < DOWN_AFTER_US) {
            watched.told_down = true;
            let text =
                format!("has no main process; systemd says {} ({})", status.active_state, status.sub_state);
            self.tell(name, now.wall_us, KnownEvent::ServiceDown, &text);
        }
    }

    /// Tells once that a service runs and is not sampled, until it is again.
    pub(crate) fn tell_unread(&mut self, name: &ServiceName, why: &HostError) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        if std::mem::replace(&mut watched.told_unread, true) {
            return;
        }
        eprintln!("{name} runs and cannot be sampled, which is tried again: {why}");
        let text = format!("no sample is taken though it runs: {why}");
        self.tell(name, self.clock.now().wall_us, KnownEvent::Gap, &text);
    }

    /// An event of a service, in each of its trials.
    pub(crate) fn tell(&mut self, name: &ServiceName, wall_us: i64, kind: KnownEvent, text: &str) {
        let Some(watched) = self.watched.get(name) else { return };
        for seat in &watched.seats {
            self.ledger.submit(Write::Event {
                trial_id: seat.trial_id,
                service_id: Some(seat.service_id),
                wall_us,
                kind,
                text: text.to_owned(),
            });
        }
    }

    /// Records how the life that ended did so.
    fn conclude(&mut self, name: &ServiceName, status: &UnitStatus) {
        let by_timer = self.restarted_by_timer(name);
        let Some(watched) = self.watched.get_mut(name) else { return };
        let Some(ended) = watched.ended.take() else { return };
        let announced = announced(&self.ledger.store, &watched.seats);
        for seat in &mut watched.seats {
            let trial = self.trials.iter().find(|trial| trial.id == seat.trial_id);
            let set_by_us = trial.and_then(|trial| trial.clock_set_by(&self.boot_id, ended.at));
            let known = Circumstances {
                oom: ended.oom,
                announced: is_announced(
                    announced,
                    set_by_us,
                    (wall_us_at(ended.started.boottime_us, ended.at), ended.at.wall_us),
                ),
                by_timer,
                older_than_trial: seat.older_than_trial,
                restarts_before: watched.restarts,
            };
            let Verdict { ending, event } = judge(status, known);
            if let Some(life_id) = seat.life_id.take() {
                let at = (ended.at.wall_us, ended.at.boottime_us);
                self.ledger.submit(Write::EndLife { life_id, at, ending });
            }
            if let Some((kind, text)) = event {
                self.ledger.submit(Write::Event {
                    trial_id: seat.trial_id,
                    service_id: Some(seat.service_id),
                    wall_us: ended.at.wall_us,
                    kind,
                    text,
                });
            }
        }
    }

    /// Whether the unit that restarts a service by its arm's timer runs now, or has run since it was seen last.
    fn restarted_by_timer(&mut self, name: &ServiceName) -> bool {
        let Some(restarter) = self.watched.get(name).and_then(|watched| watched.restarter()) else {
            return false;
        };
        let Some(status) = self.ask(|systemd| systemd.status(&restarter)) else { return false };
        let Some(watched) = self.watched.get_mut(name) else { return false };
        let before = watched.restarter_run.replace(status.invocation_id.clone());
        status.active_state == "activating" || before.is_some_and(|before| before != status.invocation_id)
    }

    /// Enters the main process of a service into the ledgers of its trials, where it does not stand there yet.
    pub(crate) fn enter_lives(&mut self, name: &ServiceName) {
        // The end of the life before must not come after, where it would be taken for one that was missed.
        self.ledger.flush();
        if !self.ledger.is_clear() {
            // The next tick tries again.
            return;
        }
        let restarter = self.watched.get(name).filter(|watched| watched.restarter_run.is_none());
        if let Some(restarter) = restarter.and_then(|watched| watched.restarter()) {
            let run = self.ask(|systemd| systemd.status(&restarter)).map(|status| status.invocation_id);
            if let Some(watched) = self.watched.get_mut(name) {
                watched.restarter_run = run;
            }
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
                Err(error) => return self.ledger.tell(&error),
            };
            seat.life_id = Some(life_id);
            seat.older_than_trial = older;
            seat.contamination = contamination.map(str::to_owned);
            seat.settled = false;
            if !older {
                seat.begins_after = None;
            }
            if known {
                // The agent was started anew, or the trial was: what is proved stays so while the same files are mapped.
                let row = self.ledger.store.life(life_id).ok().flatten();
                // Readings that are stored elsewhere are found again by the start that metrics tell.
                if let Some(row) = &row {
                    main.started.wall_us = row.started_wall_us;
                }
                if row.as_ref().is_some_and(|row| row.ending.is_some()) {
                    if let Err(error) = self.ledger.store.resume_life(life_id) {
                        self.ledger.tell(&error);
                    }
                }
                // A counter goes on where it was.
                let told = row.as_ref().and_then(|row| self.ledger.store.last_cpu(row).ok().flatten());
                if let Some((_, cpu_seconds)) = told {
                    main.cpu.was((cpu_seconds * 1e6).round() as u64);
                }
                if let Some(row) = row.filter(|row| row.identity.is_some()) {
                    seat.contamination = row.contamination;
                    seat.earlier = row.identity.clone();
                    seat.settled = true;
                    if let (Proof::Due { .. }, Some(identity)) = (&main.proof, row.identity) {
                        main.proof = Proof::Done(Box::new(identity));
                        main.next_check_us = now.boottime_us + LOOK_CLOSELY_US;
                    }
                }
            }
        }
        self.end_missed_lives(name);
        self.settle(name);
    }

    /// A service that stays down has no later life with which the end of one could be noticed that ended while no agent ran.
    fn close_lives(&mut self, name: &ServiceName, status: &UnitStatus) {
        // The next main process is about to come, or is there.
        let comes = status.main_pid.is_some() || status.active_state == "activating";
        let closed = |watched: &Watched| watched.closed || watched.main.is_some() || watched.ended.is_some();
        if comes || self.watched.get(name).is_none_or(closed) {
            return;
        }
        self.ledger.flush();
        if !self.ledger.is_clear() {
            return;
        }
        self.end_missed_lives(name);
        self.watched.get_mut(name).into_iter().for_each(|watched| watched.closed = true);
    }

    /// Lives of this boot that ended while no agent ran: before the present main process began, or, where there is none, before now.
    fn end_missed_lives(&mut self, name: &ServiceName) {
        let Some(watched) = self.watched.get(name) else { return };
        let now = self.clock.now();
        let next = watched.main.as_ref().map(|main| main.started);
        let next_us = next.map_or(now.wall_us, |started| wall_us_at(started.boottime_us, now));
        // A restart that was asked for, as by the timer, makes systemd count from nought.
        let by_itself = watched.restarts > 0;
        let mut missed = Vec::new();
        let announced = announced(&self.ledger.store, &watched.seats);
        for seat in &watched.seats {
            let Ok(open) = self.ledger.store.open_lives(seat.service_id) else { continue };
            for life in open.into_iter().filter(|life| Some(life.id) != seat.life_id) {
                let trial = self.trials.iter().find(|trial| trial.id == seat.trial_id);
                let set_by_us = trial.and_then(|trial| trial.clock_set_by(&self.boot_id, now));
                let started_us = wall_us_at(life.started_boottime_us, now);
                let known = Circumstances {
                    announced: is_announced(announced, set_by_us, (started_us, next_us + START_US)),
                    by_timer: next.is_some() && seat.has_restart_timer && !by_itself,
                    older_than_trial: seat.older_than_trial || life.contamination.as_deref() == Some(OLDER),
                    ..Circumstances::default()
                };
                let verdict = judge_missed(known, next.is_some());
                missed.push((seat.trial_id, seat.service_id, life, verdict));
            }
        }
        for (trial_id, service_id, life, Verdict { ending, event }) in missed {
            let at = self.last_seen(&life);
            self.ledger.submit(Write::EndLife { life_id: life.id, at, ending });
            if let Some((kind, text)) = event {
                // Clearly before the next life, whose end it does not announce.
                let wall_us = (next_us - 2 * START_US).max(life.started_wall_us);
                let service_id = Some(service_id);
                self.ledger.submit(Write::Event { trial_id, service_id, wall_us, kind, text });
            }
        }
    }
}

/// When the last restart of a service was announced: a command tells the trial that it is about, and the service may be in others
/// too, as under watch.
fn announced(store: &Store, seats: &[Seat]) -> Option<i64> {
    let last = |seat: &Seat| store.last_event(seat.service_id, KnownEvent::RestartPlanned).ok().flatten();
    seats.iter().filter_map(last).max()
}

/// Whether the end of a life was announced; its start and end are as the wall clock is now. Since the last tick it may
/// have been set, before or after the announcement.
fn is_announced(
    announced_us: Option<i64>,
    set_by_us: Option<i64>,
    (started_us, ended_us): (i64, i64),
) -> bool {
    let as_now = |at| [at, at + set_by_us.unwrap_or(0)];
    announced_us.is_some_and(|at| as_now(at).iter().any(|at| is_of_life(*at, started_us, ended_us)))
}

/// What a moment of this boot is by the wall clock as it is now.
fn wall_us_at(boottime_us: i64, now: Instant) -> i64 {
    now.wall_us - (now.boottime_us - boottime_us)
}

/// Whether an announcement is about the end of this life: made while it lived, shortly before its end. The process may
/// have started up to [`START_US`] after `started_us`, and what was announced before that is about the life before.
fn is_of_life(announced_us: i64, started_us: i64, ended_us: i64) -> bool {
    (started_us + START_US..=ended_us).contains(&announced_us) && ended_us - announced_us <= ANNOUNCED_US
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heaptrial_model::{Ending, EventKind, TrialKind};

    use super::*;
    use crate::testing::{Fixture, HOUR_US, hours_ago};

    /// The ending of a life that another one took the place of, an hour ago while no agent ran, and the events.
    fn missed(timer: bool, announced: bool, contamination: Option<&str>) -> (Ending, Vec<EventKind>) {
        let mut fixture = Fixture::new();
        let timer = timer.then_some(Duration::from_secs(48 * 3600));
        let (trial, service) = fixture.begin(TrialKind::Field, timer, hours_ago(10));
        fixture.earlier_life(service, hours_ago(9), contamination);
        let next = hours_ago(1);
        let mut told = 0;
        if announced {
            // Minutes before the restart, and more than an hour before the agent is back.
            let at = next.wall_us - HOUR_US / 20;
            let store = &mut fixture.session.ledger.store;
            store.add_event(trial, Some(service), at, KnownEvent::RestartPlanned, "for a test").unwrap();
            told = 1;
        }
        fixture.session.refresh_trials();
        fixture.find_main(next);
        let lives = fixture.lives(trial);
        assert_eq!((lives.len(), lives[1].ending.clone()), (2, None));
        let events = fixture.events(trial);
        for event in &events {
            assert!(!is_of_life(event.wall_us, next.wall_us, next.wall_us + 1_000_000), "{event:?}");
        }
        let kinds = events.into_iter().skip(told).map(|event| event.kind).collect();
        (lives[0].ending.clone().unwrap(), kinds)
    }

    #[test]
    fn a_restart_that_was_missed_is_told_as_what_it_was() {
        assert_eq!(missed(false, false, None), (Ending::Stopped, vec![KnownEvent::RestartUnplanned.into()]));
        assert_eq!(missed(true, false, None), (Ending::Planned, vec![KnownEvent::RestartPlanned.into()]));
        assert_eq!(missed(false, true, None), (Ending::Planned, vec![]));
        assert_eq!(missed(false, false, Some(OLDER)), (Ending::Planned, vec![]));
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
        let (of_host, host_service) = fixture.begin(TrialKind::Host, None, hours_ago(5));
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

        // An earlier agent left it open, and this one finds both trials.
        let open = fixture.earlier_life(host_service, hours_ago(5), None);
        fixture.session.trials.clear();
        fixture.session.watched.clear();
        fixture.session.refresh_trials();
        fixture.find_main(started);
        let lives = fixture.lives(of_host);
        assert_eq!(lives.iter().find(|life| life.id == open).unwrap().ending, Some(Ending::Planned));

        let store = &mut fixture.session.ledger.store;
        store.end_trial(trial, Instant::now().wall_us, "completed").unwrap();
        fixture.session.trials.clear();
        fixture.session.watched.clear();
        fixture.session.refresh_trials();
        fixture.find_main(started);
        let lives = fixture.lives(of_host);
        assert_eq!((lives.len(), lives[0].ending.clone()), (2, None), "it is resumed");
        assert!(fixture.events(of_host).is_empty(), "{:?}", fixture.events(of_host));
    }

    /// How a life ended that a command had announced, and what was told, where the clock was set before or after that.
    fn announced_and_set(by_us: i64, set_first: bool, missed: bool) -> (Option<Ending>, Vec<EventKind>) {
        let mut fixture = Fixture::new();
        let name: ServiceName = crate::testing::UNIT.parse().unwrap();
        let (trial, service) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        if missed {
            fixture.earlier_life(service, hours_ago(2), None);
        } else {
            fixture.find_main(hours_ago(2));
        }
        fixture.session.tick();
        let told = fixture.events(trial).len() + 1;
        let announce = |fixture: &mut Fixture| {
            let wall_us = fixture.session.clock.now().wall_us;
            let store = &mut fixture.session.ledger.store;
            store.add_event(trial, Some(service), wall_us, KnownEvent::RestartPlanned, "for a test").unwrap();
        };
        if !set_first {
            announce(&mut fixture);
        }
        fixture.session.clock.set_by_us += by_us;
        if set_first {
            announce(&mut fixture);
        }
        if missed {
            fixture.find_main(fixture.session.clock.now());
        } else {
            fixture.session.main_ended(&name);
            fixture.session.conclude(&name, &crate::ending::tests::status("success", 1, 0));
        }
        let kinds = fixture.events(trial).into_iter().skip(told).map(|event| event.kind).collect();
        (fixture.lives(trial)[0].ending.clone(), kinds)
    }

    #[test]
    fn a_restart_that_was_announced_is_planned_though_the_clock_was_set() {
        for by_us in [24 * HOUR_US, -24 * HOUR_US] {
            for set_first in [true, false] {
                for missed in [true, false] {
                    let (ending, told) = announced_and_set(by_us, set_first, missed);
                    assert_eq!(ending, Some(Ending::Planned), "{by_us} {set_first} {missed}");
                    assert_eq!(told, Vec::<EventKind>::new());
                }
            }
        }
    }

    #[test]
    fn a_restart_that_one_trial_announced_is_planned_in_the_others() {
        for missed in [false, true] {
            let mut fixture = Fixture::new();
            let name: ServiceName = crate::testing::UNIT.parse().unwrap();
            let (rollout, told) = fixture.begin(TrialKind::Field, None, hours_ago(3));
            let (watch, watched) = fixture.begin(TrialKind::Watch, None, hours_ago(3));
            fixture.session.refresh_trials();
            if missed {
                for service in [told, watched] {
                    fixture.earlier_life(service, hours_ago(2), None);
                }
            } else {
                fixture.find_main(hours_ago(2));
            }
            let now = fixture.session.clock.now().wall_us;
            let store = &mut fixture.session.ledger.store;
            store.add_event(rollout, Some(told), now, KnownEvent::RestartPlanned, "for a test").unwrap();
            if missed {
                fixture.find_main(fixture.session.clock.now());
            } else {
                fixture.session.main_ended(&name);
                fixture.session.conclude(&name, &crate::ending::tests::status("success", 1, 0));
            }
            for trial in [rollout, watch] {
                assert_eq!(fixture.lives(trial)[0].ending, Some(Ending::Planned), "missed: {missed}");
            }
            let events = fixture.events(watch).into_iter().filter(|event| event.service_id.is_some());
            assert_eq!(events.map(|event| event.text).collect::<Vec<_>>(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_service_that_stopped_while_no_agent_ran_and_stays_down_has_no_life() {
        let mut fixture = Fixture::new();
        let name: ServiceName = crate::testing::UNIT.parse().unwrap();
        let (trial, service) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        let open = fixture.earlier_life(service, hours_ago(2), None);
        // Its successor is about to come, and will tell.
        let mut status = crate::ending::tests::status("success", 0, 0);
        fixture.session.found(&name, &status);
        assert_eq!(fixture.lives(trial)[0].ending, None);
        status.active_state = "inactive".into();
        fixture.session.found(&name, &status);
        fixture.session.found(&name, &status);
        let life = &fixture.lives(trial)[0];
        assert_eq!((life.id, life.ending.clone()), (open, Some(Ending::Stopped)));
        assert_eq!(life.ended_boottime_us, Some(life.started_boottime_us), "it was never sampled");
        let events = fixture.events(trial);
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].text.contains("did not run any more"), "{events:?}");
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
        fixture.start_anew();
        fixture.session.refresh_trials();
        fixture.find_main(started);
        fixture.session.tick();
        let lives = fixture.lives(trial);
        assert_eq!(lives.len(), 1);
        let spent = fixture.session.ledger.store.spent(&lives[0]).unwrap();
        let told: Vec<f64> = spent.iter().map(|point| point.cpu_seconds).collect();
        assert!(told.len() == 2 && told[0] >= 3600.0 && told[1] >= told[0], "{told:?}");
    }

    #[test]
    fn the_start_that_is_told_is_that_of_the_ledger_whatever_the_clock_was_set_to_since() {
        let mut fixture = Fixture::new();
        let name: ServiceName = crate::testing::UNIT.parse().unwrap();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        let started = hours_ago(2);
        fixture.find_main(started);
        // As of an agent that was started after the clock had been set by five seconds.
        fixture.session.watched.get_mut(&name).unwrap().seats[0].life_id = None;
        fixture.find_main(Instant { wall_us: started.wall_us + 5_000_000, ..started });
        let told = fixture.session.watched[&name].main.as_ref().unwrap().started.wall_us;
        assert_eq!((told, fixture.lives(trial)[0].started_wall_us), (started.wall_us, started.wall_us));
    }

    #[test]
    fn what_runs_and_cannot_be_watched_is_not_down() {
        let mut fixture = Fixture::new();
        let name: ServiceName = crate::testing::UNIT.parse().unwrap();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(3));
        fixture.session.refresh_trials();
        fixture.session.watched.get_mut(&name).unwrap().missed_us = hours_ago(1).boottime_us;
        let mut status = crate::ending::tests::status("success", 0, 0);
        let kinds =
            |fixture: &Fixture| fixture.events(trial).into_iter().map(|event| event.kind).collect::<Vec<_>>();
        // The kernel gives no pidfd of a thread that is not a process' first.
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(own.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            let _ = ended.recv();
        });
        status.main_pid = Some(told.recv().unwrap());
        for _ in 0..2 {
            fixture.session.found(&name, &status);
            assert!(!fixture.session.watched[&name].known, "it is not known to be down");
        }
        assert_eq!(kinds(&fixture), [EventKind::from(KnownEvent::Gap)]);
        drop(end);
        thread.join().unwrap();
        // A process that is gone is no such case.
        fixture.session.found(&name, &status);
        assert!(fixture.session.watched[&name].known);
        assert_eq!(kinds(&fixture)[1..], [EventKind::from(KnownEvent::ServiceDown)]);
    }

    #[test]
    fn an_announcement_is_used_up_by_the_life_that_it_ends() {
        let minute = 60_000_000;
        assert!(is_of_life(50 * minute, 10 * minute, 51 * minute));
        // The next life, which began after it, crashed.
        assert!(!is_of_life(50 * minute, 51 * minute, 52 * minute));
        // It was there within milliseconds, in the hundredth of a second in which its start is told to be.
        assert!(!is_of_life(50 * minute + 7_000, 50 * minute, 52 * minute));
        assert!(!is_of_life(50 * minute - 7_000, 50 * minute, 52 * minute));
        assert!(!is_of_life(50 * minute, 10 * minute, 61 * minute));
    }
}
