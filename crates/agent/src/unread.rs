//! What a tick tells of the time since the one before: that the host was started anew, or that nothing was read.

use heaptrial_host::Instant;
use heaptrial_model::KnownEvent;

use crate::clock::human;
use crate::trials::Trial;

/// From the beginning of a trial to its first tick, at most.
const TAKEN_UP_US: i64 = 10_000_000;
/// So much of a boot id tells it from others.
const SHORT: usize = 8;

/// Kind and text of each. A boot is told however short it was; it says how long nothing was read, so that there is no
/// gap beside it.
pub(crate) fn events(
    trial: &Trial,
    boot_id: &str,
    now: Instant,
    interval_us: i64,
) -> Vec<(KnownEvent, String)> {
    let mut events = Vec::new();
    let before = trial.last;
    if let Some(earlier) = &trial.earlier_boot {
        // The boot clock of another boot tells nothing, and the wall clock may have been set meanwhile.
        let unread_us = now.wall_us - before.map_or(trial.started_wall_us, |tick| tick.wall_us);
        let unread = match unread_us {
            0.. => format!("no sample was taken for {}", human(unread_us)),
            _ => "no sample was taken for a time that is not known: the wall clock was set back".to_owned(),
        };
        let (boot, earlier) = (short(boot_id), short(earlier));
        events.push((
            KnownEvent::Reboot,
            format!("the host was started anew as boot {boot} after {earlier}; {unread}"),
        ));
    }
    let unread_us = match before {
        Some(before) => now.boottime_us - before.boottime_us,
        None => now.wall_us - trial.started_wall_us,
    };
    let usual_us = interval_us * 5 / 2;
    // A trial that begins is taken up within some seconds.
    let usual_us = if before.is_some() { usual_us } else { usual_us.max(TAKEN_UP_US) };
    let why = match (&trial.lost, trial.begun, before) {
        (Some(lost), ..) => format!("{} ticks could not be written: {}", lost.ticks, lost.why),
        _ if trial.earlier_boot.is_some() || unread_us < usual_us => return events,
        (None, true, _) => "the host was suspended, or too busy for the agent to run".to_owned(),
        (None, false, None) => "the agent did not run when the trial began".to_owned(),
        (None, false, Some(_)) => "the agent did not run".to_owned(),
    };
    // Ticks that are lost on a new boot: the reboot tells the time.
    let told = match trial.earlier_boot {
        Some(_) => why,
        None => format!("no sample was taken for {}: {why}", human(unread_us)),
    };
    events.push((KnownEvent::Gap, told));
    events
}

fn short(boot_id: &str) -> &str {
    boot_id.get(..SHORT).unwrap_or(boot_id)
}

#[cfg(test)]
mod tests {
    use heaptrial_model::TrialKind;

    use super::KnownEvent;
    use crate::testing::{Fixture, hours_ago};

    /// Events of one kind.
    fn told(fixture: &Fixture, trial: i64, kind: KnownEvent) -> Vec<String> {
        let events = fixture.events(trial).into_iter();
        events.filter(|event| event.kind.known() == Some(kind)).map(|event| event.text).collect()
    }

    #[test]
    fn a_boot_is_told_once_however_short_it_was() {
        for unread_ms in [0, 1, 300, 86_400_000] {
            let mut fixture = Fixture::new();
            let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(48));
            fixture.tick_of_other_boot(trial, "0f1e2d3c-0000-4000-8000-000000000000", unread_ms);
            // The agent is started twice on the new boot, and no life was open.
            for _ in 0..2 {
                fixture.session.trials.clear();
                fixture.session.refresh_trials();
                fixture.session.tick();
                fixture.session.tick();
            }
            let boots = told(&fixture, trial, KnownEvent::Reboot);
            assert_eq!(boots.len(), 1, "after {unread_ms} ms: {boots:?}");
            let ids = format!("boot {} after 0f1e2d3c;", &fixture.session.boot_id[..8]);
            assert!(boots[0].contains(&ids), "{}", boots[0]);
            assert_eq!(told(&fixture, trial, KnownEvent::Gap), Vec::<String>::new());
        }
    }

    #[test]
    fn a_wall_clock_that_was_set_back_tells_no_time() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(48));
        fixture.tick_of_other_boot(trial, "0f1e2d3c", -3_600_000);
        fixture.session.refresh_trials();
        fixture.session.tick();
        let boots = told(&fixture, trial, KnownEvent::Reboot);
        assert!(boots[0].contains("not known"), "{boots:?}");
    }

    #[test]
    fn a_boot_before_the_first_tick_is_told() {
        let mut fixture = Fixture::new();
        let boot = std::mem::replace(&mut fixture.session.boot_id, "0f1e2d3c".into());
        let (trial, _) = fixture.begin(TrialKind::Field, None, hours_ago(1));
        fixture.session.boot_id = boot;
        fixture.session.refresh_trials();
        fixture.session.tick();
        let boots = told(&fixture, trial, KnownEvent::Reboot);
        assert!(boots[0].contains("after 0f1e2d3c; no sample was taken for 1h"), "{boots:?}");
        assert_eq!(told(&fixture, trial, KnownEvent::Gap), Vec::<String>::new());
    }
}
