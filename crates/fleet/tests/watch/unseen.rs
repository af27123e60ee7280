//! What cannot be seen is not over, and is alerted as no data.

use crate::simulation;

use heaptrial_evaluate::analysis::{DAY, Fleet};
use heaptrial_fleet::watch::{AlertChange, AlertKind, Finding, WatchPlan, WatchState, look};
use heaptrial_model::Reading;
use simulation::{BEGIN, Event, Month, Noise};

/// A plan, and what is seen on a day of a month in which `event` happened on day 8.
fn at(event: Event) -> (heaptrial_fleet::watch::WatchPlan, impl Fn(f64) -> heaptrial_fleet::watch::Seen) {
    let month = Month { noise: Noise { gaps: 0.0, ..Noise::default() }, ..Month::quiet(4) }.with(event, 8.0);
    let (plan, fleet) = month.begin(1);
    let seen_plan = plan.clone();
    (plan, move |day| month.seen(&seen_plan, &fleet, &[], day))
}

fn news(state: &mut WatchState) -> Vec<(AlertChange, AlertKind)> {
    state.pending.drain(..).map(|own| (own.change, own.alert.kind)).collect()
}

#[test]
fn an_alert_stands_while_nobody_can_look() {
    let (plan, seen) = at(Event::DropIn);
    let mut state = WatchState::default();
    state.check(&plan, &seen(7.0), None);
    assert_eq!(news(&mut state), []);
    state.check(&plan, &seen(8.0), None);
    assert_eq!(news(&mut state), [(AlertChange::Raised, AlertKind::DropIn)]);
    // systemd does not answer.
    let mut blind = seen(8.1);
    blind.services.iter_mut().for_each(|service| service.next_lacks = None);
    blind.unreadable.push("systemd does not answer".to_owned());
    state.check(&plan, &blind, None);
    assert_eq!(news(&mut state), [(AlertChange::Raised, AlertKind::NoData)]);
    assert!(state.standing.contains_key(&AlertKind::DropIn));
    state.check(&plan, &seen(7.5), None);
    let mut over = news(&mut state);
    over.sort_by_key(|news| news.1);
    assert_eq!(
        over,
        [(AlertChange::Resolved, AlertKind::DropIn), (AlertChange::Resolved, AlertKind::NoData)]
    );
}

#[test]
fn a_process_that_is_gone_may_still_run_the_wrong_build() {
    let (plan, seen) = at(Event::Library);
    let mut state = WatchState::default();
    state.check(&plan, &seen(8.0), None);
    assert_eq!(news(&mut state), [(AlertChange::Raised, AlertKind::Identity)]);
    let mut restarting = seen(8.1);
    restarting.services[0].runs = None;
    state.check(&plan, &restarting, None);
    assert_eq!(news(&mut state), [(AlertChange::Raised, AlertKind::NoData)]);
    assert!(state.standing.contains_key(&AlertKind::Identity));
}

#[test]
fn memory_near_a_limit_is_alerted_once_and_what_lies_in_swap_does_not_count() {
    let (plan, seen) = at(Event::Full(0.0, 1.0));
    let mut state = WatchState::default();
    for (in_memory, in_swap, expected) in [
        (0.4, 0.55, None),
        (0.89, 0.0, None),
        (0.91, 0.55, Some(AlertChange::Raised)),
        (0.89, 0.0, None),
        (0.91, 0.0, None),
        (0.84, 0.0, Some(AlertChange::Resolved)),
    ] {
        let mut seen = seen(9.0);
        seen.services.iter_mut().skip(1).for_each(|service| service.limit_bytes = None);
        let limit = seen.services[0].limit_bytes.unwrap();
        seen.services[0].bytes = Some((in_memory + in_swap) * limit);
        seen.services[0].swap_bytes = in_swap * limit;
        state.check(&plan, &seen, None);
        let expected: Vec<_> = expected.into_iter().map(|change| (change, AlertKind::Memory)).collect();
        assert_eq!(news(&mut state), expected, "{in_memory} {in_swap}");
    }
}

#[test]
fn a_relay_that_does_not_answer_is_alerted_while_its_agent_reads_on() {
    let (mut plan, seen) = at(Event::Level(1.0));
    plan.no_data_seconds = 900.0;
    let mut state = WatchState::default();
    let with = |minutes: f64| {
        let mut seen = seen(9.0);
        for service in &mut seen.services {
            service.last_reading_at = Some(seen.at);
        }
        seen.services[0].unanswered_since = Some(seen.at - minutes * 60.0);
        seen
    };
    state.check(&plan, &with(59.0), None);
    assert_eq!(news(&mut state), []);
    state.check(&plan, &with(61.0), None);
    assert_eq!(news(&mut state), [(AlertChange::Raised, AlertKind::NoData)]);
    let text = state.standing[&AlertKind::NoData].alert.text();
    assert!(text.contains("s0.service: work and flags"), "{text}");
    state.check(&plan, &with(1.0), None);
    assert_eq!(news(&mut state), [(AlertChange::Resolved, AlertKind::NoData)]);
}

#[test]
fn a_short_trial_does_not_judge_old_services() {
    let month = Month { restarted: false, ..Month::quiet(6) };
    let (mut plan, fleet) = month.begin(1);
    // As if the trial had ended before its second day; the services are 11 days old at the first look.
    let mut short = serde_json::to_value(&plan.strata).unwrap();
    let age = |knot: &serde_json::Value| knot["age_seconds"].as_f64().unwrap();
    short[0]["ratio"]["knots"].as_array_mut().unwrap().retain(|knot| age(knot) < 2.0 * 86_400.0);
    plan.strata = serde_json::from_value(short).unwrap();
    let mut state = WatchState::default();
    state.check(&plan, &month.seen(&plan, &fleet, &[], 1.0), Some(&fleet));
    assert_eq!(news(&mut state), [(AlertChange::Raised, AlertKind::NoData)]);
    assert!(state.looks[0].untested[0].contains("nothing is known of that age"), "{:?}", state.looks[0]);
}

/// A month without gaps and restarts.
fn even(services: usize, event: Event, day: f64) -> Month {
    let noise = Noise { gaps: 0.0, restarts: 0.0, ..Noise::default() };
    Month { noise, ..Month::quiet(services) }.with(event, day)
}

/// Changes the readings of the first services: each by its day, with whether it is kept.
fn change(fleet: &mut Fleet, services: usize, keep: impl Fn(f64, &mut Reading) -> bool) {
    for life in fleet.services.iter_mut().take(services).flat_map(|service| &mut service.lives) {
        let started_at = life.started_at;
        life.readings
            .retain_mut(|reading| keep((started_at + f64::from(reading.age_seconds) - BEGIN) / DAY, reading));
    }
}

/// The news of a check on each of these days.
fn lived(month: &Month, plan: &WatchPlan, fleet: &Fleet, days: &[f64]) -> Vec<(f64, AlertChange, AlertKind)> {
    let mut state = WatchState::default();
    let of = |day: &f64| {
        state.check(plan, &month.seen(plan, fleet, &[], *day), Some(fleet));
        news(&mut state).into_iter().map(|(news, kind)| (*day, news, kind)).collect::<Vec<_>>()
    };
    days.iter().flat_map(of).collect()
}

#[test]
fn a_level_of_a_service_stands_at_a_look_that_cannot_see_it_and_is_over_when_it_is_back() {
    let month = even(10, Event::OneLevel(3.0), 8.0);
    let (plan, mut fleet) = month.begin(1);
    change(&mut fleet, 1, |day, reading| {
        if day >= 15.0 {
            reading.kib /= 3;
        }
        !(12.5..14.5).contains(&day)
    });
    let reported = lived(&month, &plan, &fleet, &[7.0, 10.0, 14.0, 18.0]);
    let levels: Vec<_> = reported.iter().filter(|(_, _, kind)| *kind == AlertKind::Level).collect();
    let level = |day: f64, change: AlertChange| (day, change, AlertKind::Level);
    assert_eq!(
        levels,
        [&level(10.0, AlertChange::Raised), &level(18.0, AlertChange::Resolved)],
        "{reported:?}"
    );
}

#[test]
fn growth_is_alerted_with_what_it_comes_to_and_is_over_when_it_is_back() {
    let month = even(10, Event::Growth(0.03), 0.0);
    let (plan, mut fleet) = month.begin(1);
    let grows = |findings: &[Finding]| findings.iter().filter(|own| own.kind == AlertKind::Growth).count();
    let found = look(&plan, &fleet, 11, &[]).unwrap();
    assert_eq!(grows(&found.findings), 10, "{found:?}");
    let quiet = even(10, Event::Level(1.0), 0.0);
    let (plan, whole) = quiet.begin(1);
    assert_eq!(grows(&look(&plan, &whole, 11, &found.findings).unwrap().findings), 0);
    // Of too little nothing is known, and what stood stands.
    change(&mut fleet, 10, |day, _| day < 1.0);
    assert_eq!(grows(&look(&plan, &fleet, 9, &found.findings).unwrap().findings), 10);
}

#[test]
fn a_clock_that_is_ahead_for_a_while_takes_no_look_of_the_days_to_come() {
    let month = even(10, Event::Level(3.0), 6.0);
    let (plan, fleet) = month.begin(1);
    let mut by_then = fleet.clone();
    change(&mut by_then, 10, |day, _| day <= 5.0);
    let mut state = WatchState::default();
    state.check(&plan, &month.seen(&plan, &by_then, &[], 35.0), Some(&by_then));
    assert_eq!(state.looks.len(), 4, "{:?}", state.looks);
    state.pending.clear();
    state.check(&plan, &month.seen(&plan, &fleet, &[], 10.2), Some(&fleet));
    assert!(news(&mut state).contains(&(AlertChange::Raised, AlertKind::Level)));
}
