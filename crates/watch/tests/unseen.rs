//! What cannot be seen is not over, and is told as no data.

mod simulation;

use heaptrial_watch::{AlertKind, News, WatchState};
use simulation::{Event, Month, Noise};

/// A plan, and what is seen on a day of a month in which `event` happened on day 8.
fn at(event: Event) -> (heaptrial_watch::WatchPlan, impl Fn(f64) -> heaptrial_watch::Seen) {
    let month = Month { noise: Noise { gaps: 0.0, ..Noise::default() }, ..Month::quiet(4) }.with(event, 8.0);
    let (plan, fleet) = month.begin(1);
    let seen_plan = plan.clone();
    (plan, move |day| month.seen(&seen_plan, &fleet, &[], day))
}

fn news(state: &mut WatchState) -> Vec<(News, AlertKind)> {
    state.outbox.drain(..).map(|letter| (letter.news, letter.alert.kind)).collect()
}

#[test]
fn an_alert_stands_while_nobody_can_look() {
    let (plan, seen) = at(Event::DropIn);
    let mut state = WatchState::default();
    state.check(&plan, &seen(7.0), None);
    assert_eq!(news(&mut state), []);
    state.check(&plan, &seen(8.0), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::DropIn)]);
    // systemd does not answer.
    let mut blind = seen(8.1);
    blind.services.iter_mut().for_each(|service| service.drop_in = None);
    blind.unreadable.push("systemd does not answer".to_owned());
    state.check(&plan, &blind, None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
    assert!(state.standing.values().any(|standing| standing.alert.kind == AlertKind::DropIn));
    state.check(&plan, &seen(7.5), None);
    let mut over = news(&mut state);
    over.sort_by_key(|news| news.1);
    assert_eq!(over, [(News::Resolved, AlertKind::DropIn), (News::Resolved, AlertKind::NoData)]);
}

#[test]
fn a_process_that_is_gone_may_still_run_the_wrong_build() {
    let (plan, seen) = at(Event::Library);
    let mut state = WatchState::default();
    state.check(&plan, &seen(8.0), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::Identity)]);
    let mut restarting = seen(8.1);
    restarting.services[0].runs = None;
    state.check(&plan, &restarting, None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
    assert!(state.standing.contains_key("identity:s0.service"));
}

#[test]
fn another_build_again_is_told_again() {
    let (plan, seen) = at(Event::Library);
    let mut state = WatchState::default();
    state.check(&plan, &seen(8.0), None);
    state.outbox.clear();
    let mut third = seen(8.1);
    third.services[0].runs.as_mut().unwrap().build = Some("a third one".to_owned());
    state.check(&plan, &third, None);
    assert_eq!(news(&mut state), [(News::Changed, AlertKind::Identity)]);
}

#[test]
fn a_service_that_hovers_below_its_limit_is_told_once() {
    let (plan, seen) = at(Event::Full(0.0, 1.0));
    let mut state = WatchState::default();
    let with = |share: f64| {
        let mut seen = seen(9.0);
        seen.services.iter_mut().skip(1).for_each(|service| service.limit_bytes = None);
        seen.services[0].bytes = seen.services[0].limit_bytes.map(|limit| share * limit);
        seen
    };
    for (share, expected) in [
        (0.89, vec![]),
        (0.91, vec![(News::Raised, AlertKind::Memory)]),
        (0.89, vec![]),
        (0.91, vec![]),
        (0.84, vec![(News::Resolved, AlertKind::Memory)]),
        (0.89, vec![]),
    ] {
        state.check(&plan, &with(share), None);
        assert_eq!(news(&mut state), expected, "{share}");
    }
}

#[test]
fn what_lies_in_swap_is_not_held_against_a_limit_that_does_not_count_it() {
    let (plan, seen) = at(Event::Full(0.0, 1.0));
    let mut state = WatchState::default();
    let with = |in_memory: f64, in_swap: f64| {
        let mut seen = seen(9.0);
        seen.services.iter_mut().skip(1).for_each(|service| service.limit_bytes = None);
        let limit = seen.services[0].limit_bytes.unwrap();
        seen.services[0].bytes = Some((in_memory + in_swap) * limit);
        seen.services[0].swap_bytes = in_swap * limit;
        seen
    };
    state.check(&plan, &with(0.4, 0.55), None);
    assert_eq!(news(&mut state), []);
    state.check(&plan, &with(0.91, 0.55), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::Memory)]);
    let text = &state.standing["memory:s0.service"].alert.text;
    let limit = with(0.0, 0.0).services[0].limit_bytes.unwrap();
    assert!(text.contains(&heaptrial_model::units::memory(0.91 * limit)), "{text}");
}

#[test]
fn a_relay_that_does_not_answer_is_told_while_its_agent_reads_on() {
    let (mut plan, seen) = at(Event::Level(1.0));
    plan.limits.no_data_seconds = 900.0;
    let mut state = WatchState::default();
    let with = |minutes: f64| {
        let mut seen = seen(9.0);
        for service in &mut seen.services {
            service.last_reading_at = Some(seen.at);
        }
        seen.services[0].untold_since = Some(seen.at - minutes * 60.0);
        seen
    };
    state.check(&plan, &with(59.0), None);
    assert_eq!(news(&mut state), []);
    state.check(&plan, &with(61.0), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
    let text = &state.standing["no_data:relay:s0.service"].alert.text;
    assert!(text.contains("work and flags of s0.service"), "{text}");
    state.check(&plan, &with(1.0), None);
    assert_eq!(news(&mut state), [(News::Resolved, AlertKind::NoData)]);
    // Nobody reads it at all: that is told, and not its silence beside it.
    let mut unread = with(61.0);
    unread.services[0].last_reading_at = Some(unread.at - 3600.0);
    state.check(&plan, &unread, None);
    assert_eq!(state.standing.keys().collect::<Vec<_>>(), ["no_data:s0.service"]);
}

#[test]
fn a_forecast_from_a_short_trial_does_not_judge_old_services() {
    let month = Month { restarted: false, ..Month::quiet(6) };
    let (mut plan, fleet) = month.begin(1);
    // As if the trial had ended before its second day; the services are 11 days old at the first look.
    let mut short = serde_json::to_value(&plan.forecast).unwrap();
    let age = |knot: &serde_json::Value| knot["age_seconds"].as_f64().unwrap();
    short["knots"].as_array_mut().unwrap().retain(|knot| age(knot) < 2.0 * 86_400.0);
    plan.forecast = serde_json::from_value(short).unwrap();
    let mut state = WatchState::default();
    state.check(&plan, &month.seen(&plan, &fleet, &[], 1.0), Some(&fleet));
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
    assert!(state.looks[0].untested[0].contains("too old for the forecast"), "{:?}", state.looks[0]);
}
