//! One alert a kind, with the services that it is about.

use crate::simulation;

use heaptrial_evaluate::analysis::{UsualWork, Worked};
use heaptrial_fleet::watch::{AlertChange, AlertKind, Seen, WatchPlan, WatchState};
use simulation::{Event, Month, Noise};

const SERVICES: usize = 40;

/// A plan, and what is seen on a day of a month in which `event` happened on day 8.
fn at(event: Event) -> (WatchPlan, impl Fn(f64) -> Seen) {
    let month =
        Month { noise: Noise { gaps: 0.0, ..Noise::default() }, ..Month::quiet(SERVICES) }.with(event, 8.0);
    let (plan, fleet) = month.begin(1);
    let seen_plan = plan.clone();
    (plan, move |day| month.seen(&seen_plan, &fleet, &[], day))
}

/// What was reported, by kind.
fn reported(state: &mut WatchState) -> Vec<(AlertChange, AlertKind)> {
    state.pending.drain(..).map(|own| (own.change, own.alert.kind)).collect()
}

fn services(state: &WatchState, kind: AlertKind) -> Vec<&str> {
    state.standing.get(&kind).map(|standing| standing.alert.services()).unwrap_or_default()
}

#[test]
fn an_alert_is_of_all_services_and_is_reported_again_when_its_list_changes() {
    let (plan, seen) = at(Event::Libc);
    let mut state = WatchState::default();
    let mut one = seen(7.0);
    one.services[0] = seen(8.0).services[0].clone();
    state.check(&plan, &one, None);
    assert_eq!(reported(&mut state), [(AlertChange::Raised, AlertKind::Identity)]);
    assert_eq!(services(&state, AlertKind::Identity), ["s0.service"]);
    state.check(&plan, &seen(8.0), None);
    assert_eq!(reported(&mut state), [(AlertChange::Changed, AlertKind::Identity)]);
    let alert = &state.standing[&AlertKind::Identity].alert;
    assert_eq!(alert.services().len(), SERVICES);
    // What is true of all of them is said once.
    assert_eq!(alert.text().matches("does not run what was proved").count(), 1);
    state.check(&plan, &seen(8.1), None);
    assert_eq!(reported(&mut state), []);
}

/// Work whose rate follows the hour of the day, times a factor: hours since a midnight, read every ten minutes.
fn worked(factor: f64, hours: std::ops::Range<u32>) -> Worked {
    let rate = |hour: f64| factor * (1.0 + 9.0 * (hour % 24.0) / 24.0);
    let mut bytes = 0.0;
    let points = (hours.start * 6..=hours.end * 6).map(|number| {
        let hour = f64::from(number) / 6.0;
        bytes += 600.0 * rate(hour);
        (20_000.0 * 86_400.0 + hour * 3600.0, bytes)
    });
    Worked::of_counter(&points.collect::<Vec<_>>()).unwrap()
}

#[test]
fn work_below_half_of_before_is_alerted_until_it_has_come_back() {
    let (mut plan, seen) = at(Event::Level(1.0));
    // Known of each hour of the day.
    let usual = |hour: usize| Some(1.0 + 9.0 * (hour as f64 + 0.5) / 24.0);
    let by_hour: Vec<Option<f64>> = (0..24).map(usual).collect();
    let mean = by_hour.iter().flatten().sum::<f64>() / 24.0;
    let usual = UsualWork { bytes_per_second: mean, by_hour };
    plan.services.iter_mut().for_each(|service| service.usual_work = Some(usual.clone()));
    let mut state = WatchState::default();
    let mut check = |works: &[Worked]| {
        let mut seen = seen(3.0);
        for (service, work) in seen.services.iter_mut().zip(works) {
            service.worked = Some(work.clone());
        }
        state.check(&plan, &seen, None);
        reported(&mut state)
    };
    // A night alone is quiet, and so it was before; of three hours nothing is said.
    assert_eq!(check(&[worked(1.0, 0..6), worked(0.55, 0..24), worked(0.1, 20..23)]), []);
    let news = |change: AlertChange| vec![(change, AlertKind::Work)];
    assert_eq!(check(&[worked(0.4, 0..24)]), news(AlertChange::Raised));
    // It does not go to and fro at the limit.
    assert_eq!(check(&[worked(0.55, 0..24)]), []);
    assert_eq!(check(&[worked(0.65, 0..24)]), news(AlertChange::Resolved));
    let several = [worked(0.4, 0..24), worked(0.3, 6..18)];
    assert_eq!(check(&several), news(AlertChange::Raised));
    assert_eq!(check(&several), []);
    // What stands of two services makes no third one less than it does; of those it is still the same.
    let with = |third: f64| [worked(0.55, 0..24), worked(0.3, 6..18), worked(third, 0..24)];
    assert_eq!(check(&with(0.55)), []);
    assert_eq!(check(&with(0.45)), news(AlertChange::Changed));
}
