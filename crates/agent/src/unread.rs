//! What happened since the tick before, which may be one of an earlier agent, or since the trial's start: the host was
//! rebooted, nothing was read, or the wall clock was set.

use heaptrial_host::Instant;
use heaptrial_model::KnownEvent;

use crate::clock::human;
use crate::trials::{Lost, Trial};

/// From the beginning of a trial to its first tick, at most.
const TAKEN_UP_US: i64 = 10_000_000;

/// Kind and text of each. A boot is reported however short it was, with how long nothing was read: there is no gap as well.
pub(crate) fn events(
    trial: &Trial,
    boot_id: &str,
    now: Instant,
    interval_us: i64,
) -> Vec<(KnownEvent, String)> {
    let mut events = Vec::new();
    let unread_us = trial.last.elapsed_us(boot_id, now);
    if let Some(by_us) = trial.last.clock_set_by(boot_id, now) {
        let (direction, by) = (if by_us > 0 { "forward" } else { "back" }, human(by_us.abs()));
        let text = format!("the wall clock was set {direction} by {by}; ages are not touched");
        events.push((KnownEvent::ClockJump, text));
    }
    if trial.last.boot_id != boot_id {
        // The boot clock of another boot says nothing, and the wall clock may have been set meanwhile.
        let unread = match unread_us {
            0.. => format!("no sample was taken for {}", human(unread_us)),
            _ => "no sample was taken for a time that is not known: the wall clock was set back".to_owned(),
        };
        // So much of an id distinguishes it.
        let short = |id: &str| id.get(..8).unwrap_or(id).to_owned();
        let (boot, earlier) = (short(boot_id), short(&trial.last.boot_id));
        let text = format!("the host was rebooted as boot {boot} after {earlier}; {unread}");
        events.push((KnownEvent::Reboot, text));
        events.extend(trial.lost.as_ref().map(|lost| (KnownEvent::Gap, unwritten(lost))));
        return events;
    }
    // A trial that begins is taken up within some seconds.
    let least_us = if trial.next_sequence == 0 { TAKEN_UP_US } else { 0 };
    let usual_us = least_us.max(interval_us * 5 / 2);
    let why = match &trial.lost {
        Some(lost) => unwritten(lost),
        None if unread_us < usual_us => return events,
        None if trial.begun => "the host was suspended, or too busy for the agent to run".to_owned(),
        None => "the agent did not run".to_owned(),
    };
    events.push((KnownEvent::Gap, format!("no sample was taken for {}: {why}", human(unread_us))));
    events
}

fn unwritten(lost: &Lost) -> String {
    format!("{} ticks could not be written: {}", lost.ticks, lost.why)
}

#[cfg(test)]
mod tests {
    use heaptrial_model::TrialKind;

    use super::KnownEvent;
    use crate::testing::{Fixture, HOUR_US, hours_ago};

    fn texts(fixture: &Fixture, trial: i64, kind: KnownEvent) -> Vec<String> {
        let events = fixture.events(trial).into_iter();
        events.filter(|event| event.kind.known() == Some(kind)).map(|event| event.text).collect()
    }

    #[test]
    fn a_boot_is_recorded_once_however_short_it_was() {
        for unread_ms in [0, 1, 300, 86_400_000] {
            let mut fixture = Fixture::new();
            let (trial, _) = fixture.begin(TrialKind::Field, hours_ago(48));
            fixture.tick_of_other_boot(trial, "0f1e2d3c-0000-4000-8000-000000000000", unread_ms);
            // The agent is started twice on the new boot, and no life was open.
            for _ in 0..2 {
                fixture.agent.trials.clear();
                fixture.agent.refresh_trials();
                fixture.agent.tick();
                fixture.agent.tick();
            }
            let boots = texts(&fixture, trial, KnownEvent::Reboot);
            assert_eq!(boots.len(), 1, "after {unread_ms} ms: {boots:?}");
            let ids = format!("boot {} after 0f1e2d3c;", &fixture.agent.boot_id[..8]);
            assert!(boots[0].contains(&ids), "{}", boots[0]);
            assert_eq!(texts(&fixture, trial, KnownEvent::Gap), Vec::<String>::new());
        }
    }

    #[test]
    fn a_clock_that_is_set_is_recorded_once_between_ticks_and_while_no_agent_runs() {
        for (by_us, said) in [(24 * HOUR_US, "forward by 1d"), (-24 * HOUR_US, "back by 1d")] {
            for away in [false, true] {
                let mut fixture = Fixture::new();
                let (trial, _) = fixture.begin(TrialKind::Field, hours_ago(1));
                fixture.agent.refresh_trials();
                fixture.agent.tick();
                fixture.agent.clock.set_by_us += by_us;
                if away {
                    fixture.restart_agent();
                }
                for _ in 0..2 {
                    fixture.agent.refresh_trials();
                    fixture.agent.tick();
                }
                let jumps = texts(&fixture, trial, KnownEvent::ClockJump);
                assert!(jumps.len() == 1 && jumps[0].contains(said), "{away}: {jumps:?}");
                let gaps = texts(&fixture, trial, KnownEvent::Gap);
                assert!(gaps.iter().all(|gap| gap.contains("for 1h")), "{away}: {gaps:?}");
            }
        }
    }

    #[test]
    fn a_boot_after_a_clock_that_was_set_back_or_before_the_first_tick_is_recorded() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, hours_ago(48));
        fixture.tick_of_other_boot(trial, "0f1e2d3c", -3_600_000);
        fixture.agent.refresh_trials();
        fixture.agent.tick();
        let boots = texts(&fixture, trial, KnownEvent::Reboot);
        assert!(boots[0].contains("not known"), "{boots:?}");

        let mut fixture = Fixture::new();
        let boot = std::mem::replace(&mut fixture.agent.boot_id, "0f1e2d3c".into());
        let (trial, _) = fixture.begin(TrialKind::Field, hours_ago(1));
        fixture.agent.boot_id = boot;
        fixture.agent.refresh_trials();
        fixture.agent.tick();
        let boots = texts(&fixture, trial, KnownEvent::Reboot);
        assert!(boots[0].contains("after 0f1e2d3c; no sample was taken for 1h"), "{boots:?}");
        assert_eq!(texts(&fixture, trial, KnownEvent::Gap), Vec::<String>::new());
    }
}
