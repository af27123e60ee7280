//! What cannot be seen is not over, and is told as no data.

use crate::simulation;

use heaptrial_analysis::{DAY, Fleet};
use heaptrial_model::Reading;
use heaptrial_watch::{Alert, AlertKind, News, WatchPlan, WatchState, look};
use simulation::{BEGIN, Event, Month, Noise};

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

/// A month without gaps and restarts.
fn even(services: usize, event: Event, day: f64) -> Month {
    let noise = Noise { gaps: 0.0, restarts: 0.0, ..Noise::default() };
    Month { noise, ..Month::quiet(services) }.with(event, day)
}

/// Changes the readings of the first services: each is told its day, and whether it is kept.
fn change(fleet: &mut Fleet, services: usize, keep: impl Fn(f64, &mut Reading) -> bool) {
    for life in fleet.services.iter_mut().take(services).flat_map(|service| &mut service.lives) {
        let started_at = life.started_at;
        life.readings
            .retain_mut(|reading| keep((started_at + f64::from(reading.age_seconds) - BEGIN) / DAY, reading));
    }
}

/// The news of a check on each of these days.
fn lived(month: &Month, plan: &WatchPlan, fleet: &Fleet, days: &[f64]) -> Vec<(f64, News, AlertKind)> {
    let mut state = WatchState::default();
    let of = |day: &f64| {
        state.check(plan, &month.seen(plan, fleet, &[], *day), Some(fleet));
        news(&mut state).into_iter().map(|(news, kind)| (*day, news, kind)).collect::<Vec<_>>()
    };
    days.iter().flat_map(of).collect()
}

#[test]
fn a_level_of_a_service_stands_at_a_look_that_cannot_see_it() {
    let month = even(10, Event::OneLevel(3.0), 8.0);
    let (plan, mut fleet) = month.begin(1);
    change(&mut fleet, 1, |day, _| !(12.5..14.5).contains(&day));
    let told = lived(&month, &plan, &fleet, &[7.0, 10.0, 14.0, 18.0]);
    let levels: Vec<_> = told.iter().filter(|(_, _, kind)| *kind == AlertKind::Level).collect();
    assert_eq!(levels, [&(10.0, News::Raised, AlertKind::Level)], "{told:?}");
}

#[test]
fn a_level_is_over_when_it_is_back_and_not_when_a_look_fails_to_show_it() {
    // One look shows it, and a later one does not.
    let month = |factor: f64| Month { before: 10, restarted: true, ..even(1, Event::OneLevel(factor), 8.0) };
    let mut months =
        (130..160).map(|percent| f64::from(percent) / 100.0).map(|factor| (factor, month(factor).begin(1)));
    let looks = |(factor, (plan, fleet)): &(f64, (WatchPlan, Fleet)), number: u32, before: &[Alert]| {
        look(plan, fleet, &month(*factor).seen(plan, fleet, &[], 30.0), number, before).unwrap()
    };
    let is_level = |alert: &Alert| alert.kind == AlertKind::Level;
    let shown = |month: &(f64, (WatchPlan, Fleet)), number: u32| {
        looks(month, number, &[]).alerts.into_iter().find(is_level)
    };
    let (month, raised, number) = months
        .find_map(|month| {
            let raised = shown(&month, 6)?;
            let number = (7..=11).find(|number| shown(&month, *number).is_none())?;
            Some((month, raised, number))
        })
        .expect("a month with such a look");
    let found = looks(&month, number, std::slice::from_ref(&raised));
    assert!(found.level_ratio.unwrap() > 1.15 && found.alerts.iter().any(is_level), "{found:?}");
    // It comes back.
    let (factor, (plan, mut fleet)) = month;
    change(&mut fleet, 1, |_, reading| {
        reading.kib = (f64::from(reading.kib) / factor) as u32;
        true
    });
    assert!(!looks(&(factor, (plan, fleet)), number, &[raised]).alerts.iter().any(is_level));
}

#[test]
fn growth_is_over_when_it_is_back_and_not_when_a_look_fails_to_show_it() {
    let month = even(5, Event::Growth(0.02), 0.0);
    let (plan, fleet) = month.begin(1);
    let at = |number: u32, day: f64, before: &[Alert]| {
        look(&plan, &fleet, &month.seen(&plan, &fleet, &[], day), number, before).unwrap()
    };
    let grows = |alerts: &[Alert]| alerts.iter().any(|own| own.kind == AlertKind::Growth);
    let last = at(11, 30.0, &[]);
    assert!(grows(&last.alerts), "{last:?}");
    let early = (4..11_u32)
        .map(|number| at(number, 30.0, &[]))
        .find(|look| look.growth_per_day.is_some_and(|(value, ..)| value > 0.006) && !grows(&look.alerts));
    let number = early.unwrap().number;
    assert!(grows(&at(number, 30.0, &last.alerts).alerts));
    let (quiet, none) = (even(5, Event::Level(1.0), 0.0), &last.alerts);
    let (plan, fleet) = quiet.begin(1);
    let over = look(&plan, &fleet, &quiet.seen(&plan, &fleet, &[], 30.0), 11, none).unwrap();
    assert!(!grows(&over.alerts), "{over:?}");
}

#[test]
fn memory_runs_out_as_soon_where_services_have_no_level() {
    let month = even(10, Event::Growth(0.03), 0.0);
    let (plan, fleet) = month.begin(1);
    let days = |silent: usize, available: f64| {
        let mut fleet = fleet.clone();
        change(&mut fleet, silent, |day, _| !(21.6..22.5).contains(&day));
        let mut seen = month.seen(&plan, &fleet, &[], 22.0);
        seen.host_available_bytes =
            Some(available * seen.services.iter().filter_map(|service| service.bytes).sum::<f64>());
        let found = look(&plan, &fleet, &seen, 9, &[]).unwrap();
        assert_eq!(found.levels as usize, 10 - silent);
        let alert = found.alerts.into_iter().find(|alert| alert.key == "memory:growth")?;
        let (_, days) = alert.text.rsplit_once(" in ").unwrap();
        Some(days.trim_end_matches(" days").parse::<f64>().unwrap())
    };
    let of_all = days(0, 0.4).unwrap();
    assert!((5.0..25.0).contains(&of_all), "{of_all}");
    for silent in [4, 10] {
        let found = days(silent, 0.4).unwrap();
        assert!((found - of_all).abs() <= 2.0, "{silent} silent: {found} for {of_all}");
        assert_eq!(days(silent, 40.0), None);
    }
}

#[test]
fn what_is_stopped_or_unread_uses_up_no_memory() {
    let (mut plan, seen) = at(Event::Full(0.0, 1.0));
    plan.limits.no_data_seconds = 3.0 * 3600.0;
    let with = |change: &dyn Fn(&mut heaptrial_watch::ServiceSeen)| {
        let mut seen = seen(9.0);
        seen.services.iter_mut().for_each(|service| service.limit_bytes = None);
        let first = &mut seen.services[0];
        first.limit_bytes = first.bytes;
        change(first);
        seen
    };
    let mut state = WatchState::default();
    state.check(&plan, &with(&|service| service.stopped = Some("failed".to_owned())), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::Stopped)]);
    let mut state = WatchState::default();
    let unread = with(&|service| service.last_reading_at = Some(BEGIN));
    state.check(&plan, &unread, None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
    // What stood before that cannot be seen to be over.
    let mut state = WatchState::default();
    state.check(&plan, &with(&|_| {}), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::Memory)]);
    state.check(&plan, &unread, None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
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
    assert!(
        state.standing["no_data:look"].alert.text.contains("look of day 30 waits"),
        "{:?}",
        state.standing
    );
    state.outbox.clear();
    state.check(&plan, &month.seen(&plan, &fleet, &[], 10.2), Some(&fleet));
    assert!(news(&mut state).contains(&(News::Raised, AlertKind::Level)));
    assert!(!state.standing.contains_key("no_data:look"));
}

#[test]
fn of_several_things_that_cannot_be_looked_at_all_are_told() {
    let (plan, seen) = at(Event::Level(1.0));
    let with = |what: &[&str]| {
        let mut seen = seen(9.0);
        seen.unreadable = what.iter().map(|what| (*what).to_owned()).collect();
        seen
    };
    let mut state = WatchState::default();
    state.check(&plan, &with(&["no bus", "no database"]), None);
    assert_eq!(news(&mut state), [(News::Raised, AlertKind::NoData)]);
    let text = &state.standing["no_data:unreadable"].alert.text;
    assert!(text.contains("no bus") && text.contains("no database"), "{text}");
    state.check(&plan, &with(&["no database"]), None);
    assert_eq!(news(&mut state), [(News::Changed, AlertKind::NoData)]);
}

#[test]
fn growth_that_the_trial_told_and_did_not_show_is_told_beside_that_of_the_watch() {
    let month = even(10, Event::Growth(0.02), 0.0);
    let (mut plan, fleet) = month.begin(1);
    let with = |plan: &WatchPlan| {
        let found = look(plan, &fleet, &month.seen(plan, &fleet, &[], 30.0), 11, &[]).unwrap();
        found.alerts.into_iter().find(|alert| alert.kind == AlertKind::Growth).unwrap().text
    };
    let mut forecast = serde_json::to_value(&plan.forecast).unwrap();
    forecast["growth"]["value"] = 0.02.into();
    forecast["growth"]["low"] = (-0.006).into();
    forecast["growth"]["high"] = 0.045.into();
    plan.forecast = serde_json::from_value(forecast).unwrap();
    let text = with(&plan);
    assert!(text.contains("the trial told 2% a day"), "{text}");
}

#[test]
fn a_service_that_was_as_large_in_the_trial_is_not_alerted() {
    let month = even(40, Event::OneLevel(3.0), 0.0);
    let (mut plan, fleet) = month.begin(1);
    let is_alerted = |plan: &WatchPlan, fleet: &Fleet| {
        let found = look(plan, fleet, &month.seen(plan, fleet, &[], 10.0), 6, &[]).unwrap();
        found.alerts.iter().any(|alert| alert.service.as_deref() == Some("s0.service"))
    };
    assert!(is_alerted(&plan, &fleet));
    plan.services[0].usual_excess = Some(3.0_f64.ln());
    assert!(!is_alerted(&plan, &fleet));
    let mut larger = fleet.clone();
    change(&mut larger, 1, |_, reading| {
        reading.kib *= 2;
        true
    });
    assert!(is_alerted(&plan, &larger));
}
