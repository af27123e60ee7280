//! How earlier lifetimes of services ended, by systemd's journal, and what that means.

use heaptrial_model::{Ending, KnownEvent, ServiceName};
use heaptrial_store::LifeRecord;

use crate::agent::Agent;
use crate::announced::Announced;
use crate::ledger::Write;
use crate::lives::OLDER;
use crate::systemd_journal::{End, Ends};
use crate::watched::Watched;

/// Starts are known in hundredths of a second, rounded down: an end within this time is that of the run before.
const START_US: i64 = 20_000;
/// systemd may write an end so long after the process was missed.
const WRITTEN_WITHIN_US: i64 = 1_000_000;

impl Agent {
    /// Reads how lifetimes ended that the ledger still holds as alive.
    pub(crate) fn explain_ends(&mut self) {
        self.ledger.flush();
        // What waits to be written may be about them.
        if !self.ledger.is_clear() {
            return;
        }
        let names = self.names(|watched| watched.known && watched.unexplained);
        if names.is_empty() {
            return;
        }
        let ends = self.systemd_journal.ends(&names);
        let announced = Announced::read(&self.config.journals);
        names.iter().for_each(|name| self.explain(name, ends.as_ref(), &announced));
    }

    /// Records how earlier lifetimes of a service ended; the next tick looks again where systemd may not have written it yet.
    fn explain(&mut self, name: &ServiceName, ends: Option<&Ends>, announced: &Announced) {
        let now = self.clock.now();
        let Some(watched) = self.watched.get(name) else { return };
        let next = watched.main.as_ref();
        let from_us = watched.explained_until_us;
        let until_us = next.map_or(i64::MAX, |main| main.started.boottime_us + START_US);
        let new = ends.and_then(|ends| ends.get(name)).into_iter().flatten().filter(|end| {
            from_us.is_none_or(|from_us| end.at.boottime_us > from_us) && end.at.boottime_us <= until_us
        });
        let new: Vec<&End> = new.collect();
        let may_come = ends.is_some() && now.boottime_us - watched.missed_us < WRITTEN_WITHIN_US;
        let (mut writes, mut recorded_us) = (Vec::new(), from_us);
        for seat in &watched.seats {
            let open = self.ledger.store.open_lives(seat.service_id).unwrap_or_default();
            for life in open.iter().filter(|life| watched.is_past(life)) {
                let end = new.iter().find(|end| end.at.boottime_us > life.started_boottime_us + START_US);
                if end.is_none() && may_come {
                    return;
                }
                let (at, seen_us) = match end {
                    Some(end) => ((end.at.wall_us, end.at.boottime_us), end.at.wall_us),
                    None => (self.last_seen(life), next.map_or(now.wall_us, |main| main.started.wall_us)),
                };
                let older = life.contamination.as_deref() == Some(OLDER);
                let by_heaptrial = older || announced.has(name, seen_us);
                let (ending, event) = meaning(end.copied(), by_heaptrial);
                writes.push(Write::EndLife { life_id: life.id, at, ending });
                writes.extend(event.map(|(kind, text)| Write::event(seat, seen_us, kind, text)));
                recorded_us = recorded_us.max(end.map(|end| end.at.boottime_us));
            }
        }
        // Lifetimes that began and ended between two ticks have no row, and their crashes count all the same.
        let unseen = new.iter().filter(|end| recorded_us.is_some_and(|us| end.at.boottime_us > us));
        let failures: Vec<(&End, (KnownEvent, String))> = unseen
            .filter_map(|end| Some((*end, meaning(Some(end), true).1?)))
            .filter(|(_, (kind, _))| matches!(kind, KnownEvent::Crash | KnownEvent::OomKill))
            .collect();
        if let Some((end, (kind, text))) = failures.last() {
            let text =
                format!("{} lifetimes ended before they were sampled; the last: {text}", failures.len());
            let of_seat = |seat| Write::event(seat, end.at.wall_us, *kind, text.clone());
            writes.extend(watched.seats.iter().map(of_seat));
        }
        let last_us = new.last().map(|end| end.at.boottime_us);
        if let Some(watched) = self.watched.get_mut(name) {
            watched.unexplained = false;
            watched.explained_until_us = from_us.max(last_us).or(Some(now.boottime_us));
        }
        writes.into_iter().for_each(|write| self.ledger.submit(write));
    }
}

impl Watched {
    /// Whether a lifetime of the ledger is not the present one.
    fn is_past(&self, life: &LifeRecord) -> bool {
        self.main.as_ref().is_none_or(|main| life.key.as_ref() != Some(&main.key))
    }
}

/// How a lifetime ended by systemd's journal, and the event that reports it, unless a command of Heaptrial has recorded it.
/// `by_heaptrial`: such a command restarted the service, or is about to because the lifetime is older than its trial.
fn meaning(end: Option<&End>, by_heaptrial: bool) -> (Ending, Option<(KnownEvent, String)>) {
    let stopped = |text: &str| (Ending::Stopped, Some((KnownEvent::RestartUnplanned, text.to_owned())));
    let Some(end) = end else {
        return match by_heaptrial {
            true => (Ending::Planned, None),
            false => stopped("its main process is another one or gone, and why is unknown"),
        };
    };
    let how = end.how.clone();
    if end.oom {
        let text = format!("OOM-killed by the kernel ({})", how.unwrap_or(Ending::Signaled(9)));
        return (Ending::Signaled(9), Some((KnownEvent::OomKill, text)));
    }
    if end.by_job && by_heaptrial {
        return (Ending::Planned, None);
    }
    if end.by_timer {
        let text = "restarted by the trial's timer".to_owned();
        return (Ending::Planned, Some((KnownEvent::RestartPlanned, text)));
    }
    if end.by_job {
        return stopped("stopped or restarted through systemd, and not by Heaptrial");
    }
    if how.is_none() && end.result == "success" {
        return stopped("its main process ended by itself with success");
    }
    let ending = how.unwrap_or(Ending::Exited(-1));
    let text = format!("{ending}; systemd's result is `{}`", end.result);
    (ending, Some((KnownEvent::Crash, text)))
}

#[cfg(test)]
mod tests {
    use heaptrial_host::Instant;
    use heaptrial_model::{EventKind, TrialKind};

    use super::*;
    use crate::systemd_journal::tests::end;
    use crate::testing::{Fixture, HOUR_US, UNIT, hours_ago};

    #[test]
    fn every_kind_of_end_is_distinguished() {
        let at = Instant { wall_us: 0, boottime_us: 0 };
        let of = |result, how| end(result, how, at);
        let stopped = |end: End| End { by_job: true, ..end };
        let by_timer = |end: End| End { by_timer: true, by_job: true, ..end };
        let signal = |number| Some(Ending::Signaled(number));
        for (end, by_heaptrial, ending, kind) in [
            (of("exit-code", Some(Ending::Exited(3))), false, Ending::Exited(3), Some(KnownEvent::Crash)),
            (of("core-dump", signal(11)), false, Ending::Signaled(11), Some(KnownEvent::Crash)),
            (of("oom-kill", signal(9)), false, Ending::Signaled(9), Some(KnownEvent::OomKill)),
            (of("success", None), false, Ending::Stopped, Some(KnownEvent::RestartUnplanned)),
            (stopped(of("success", None)), false, Ending::Stopped, Some(KnownEvent::RestartUnplanned)),
            (stopped(of("success", None)), true, Ending::Planned, None),
            (stopped(of("timeout", signal(9))), true, Ending::Planned, None),
            (by_timer(of("success", None)), false, Ending::Planned, Some(KnownEvent::RestartPlanned)),
            // A crash is one, whoever was about to restart the service.
            (of("signal", signal(6)), true, Ending::Signaled(6), Some(KnownEvent::Crash)),
        ] {
            let (found, event) = meaning(Some(&end), by_heaptrial);
            assert_eq!((found, event.map(|event| event.0)), (ending, kind), "{end:?}");
        }
        assert_eq!(meaning(None, true), (Ending::Planned, None));
        assert_eq!(meaning(None, false).0, Ending::Stopped);
    }

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
        fixture.agent.explain(&name(), Some(&Ends::from([(name(), ends)])), &Announced::default());
    }

    #[test]
    fn the_end_of_a_lifetime_is_that_of_its_run_also_while_no_agent_ran() {
        for present in [true, false] {
            let mut fixture = Fixture::new();
            let (trial, service) = fixture.begin(TrialKind::Field, hours_ago(10));
            let started = hours_ago(5);
            fixture.earlier_life(service, started);
            fixture.agent.refresh_trials();
            if present {
                fixture.find_main(hours_ago(1));
            }
            // The run before it may have been written a moment after its start.
            explain(&mut fixture, vec![crash(1, later(started, 5_000)), crash(3, hours_ago(2))]);
            let life = &fixture.lives(trial)[0];
            assert_eq!(life.ending, Some(Ending::Exited(3)), "{present}");
            assert!(life.ended_boottime_us.unwrap() > life.started_boottime_us + HOUR_US);
            assert_eq!(kinds(&fixture, trial), [KnownEvent::Crash]);
        }
    }

    #[test]
    fn lifetimes_that_nobody_saw_are_counted_once() {
        let mut fixture = Fixture::new();
        let (trial, service) = fixture.begin(TrialKind::Field, hours_ago(10));
        fixture.earlier_life(service, hours_ago(9));
        fixture.agent.refresh_trials();
        fixture.find_main(hours_ago(1));
        let ends: Vec<End> = [8, 7, 6].map(|hours| crash(hours, hours_ago(hours.into()))).into();
        for _ in 0..2 {
            explain(&mut fixture, ends.clone());
            assert_eq!(fixture.lives(trial)[0].ending, Some(Ending::Exited(8)));
            let events = fixture.events(trial);
            assert_eq!(kinds(&fixture, trial), [KnownEvent::Crash, KnownEvent::Crash]);
            let text = &events[1].text;
            assert!(text.starts_with("2 lifetimes ended") && text.contains("code 6"), "{text}");
        }
    }

    #[test]
    fn an_end_that_is_not_written_yet_is_waited_for_and_then_unknown() {
        let mut fixture = Fixture::new();
        let (trial, service) = fixture.begin(TrialKind::Field, hours_ago(10));
        fixture.earlier_life(service, hours_ago(9));
        fixture.agent.refresh_trials();
        explain(&mut fixture, Vec::new());
        assert_eq!(fixture.lives(trial)[0].ending, None);
        let watched = fixture.agent.watched.get_mut(&name()).unwrap();
        assert!(watched.unexplained);
        watched.missed_us -= 2 * WRITTEN_WITHIN_US;
        explain(&mut fixture, Vec::new());
        let life = &fixture.lives(trial)[0];
        assert_eq!(life.ending, Some(Ending::Stopped));
        assert_eq!(life.ended_boottime_us, Some(life.started_boottime_us), "it was never sampled");
        assert_eq!(kinds(&fixture, trial), [KnownEvent::RestartUnplanned]);
    }
}
