//! Alerts of one cause are one alert, and what trials and rollouts of the host do is a cause.

use crate::simulation;

use heaptrial_analysis::{UsualWork, Worked};
use heaptrial_model::TorFlag;
use heaptrial_watch::{AlertKind, News, Seen, TransactionSeen, WatchPlan, WatchState};
use simulation::{Event, Month, Noise};

const SERVICES: usize = 40;
const AGENT: &str = "/etc/systemd/system/heaptrial-agent.service";

/// A plan, and what is seen on a day of a month in which `event` happened on day 8.
fn at(event: Event) -> (WatchPlan, impl Fn(f64) -> Seen) {
    let month =
        Month { noise: Noise { gaps: 0.0, ..Noise::default() }, ..Month::quiet(SERVICES) }.with(event, 8.0);
    let (plan, fleet) = month.begin(1);
    let seen_plan = plan.clone();
    (plan, move |day| month.seen(&seen_plan, &fleet, &[], day))
}

/// All of them run something else without a drop-in, and the library is gone.
fn put_back(mut seen: Seen) -> Seen {
    for service in &mut seen.services {
        service.runs.as_mut().unwrap().allocator = "glibc 2.36".to_owned();
        service.drop_in.as_mut().unwrap().sha256 = None;
    }
    seen.files.values_mut().for_each(|file| *file = None);
    seen
}

fn reverted(seen: &Seen, did: &str) -> TransactionSeen {
    TransactionSeen {
        kind: "trial".to_owned(),
        name: "five-way".to_owned(),
        did: did.to_owned(),
        services: seen.services.iter().map(|service| service.service.clone()).collect(),
        in_flight: Vec::new(),
        put_back: Vec::new(),
        files: seen.files.keys().cloned().chain([AGENT.into()]).collect(),
    }
}

fn news(state: &mut WatchState) -> Vec<(News, String)> {
    state.outbox.drain(..).map(|letter| (letter.news, letter.alert.key)).collect()
}

fn raised(key: &str) -> (News, String) {
    (News::Raised, key.to_owned())
}

#[test]
fn a_revert_of_forty_services_is_one_alert_from_its_first_service_to_the_last_reading() {
    let (plan, seen) = at(Event::Level(1.0));
    let mut state = WatchState::default();
    // In the middle: a few are done, one is being restarted.
    let whole = put_back(seen(8.0));
    let mut part = seen(8.0);
    part.services[..3].clone_from_slice(&whole.services[..3]);
    part.services[3].runs = None;
    let mut transaction = reverted(&part, "is being put back");
    transaction.services.truncate(4);
    transaction.in_flight = vec![part.services[3].service.clone()];
    part.transactions = vec![transaction];
    state.check(&plan, &part, None);
    assert_eq!(news(&mut state), [raised("trial:five-way")]);

    let mut all = whole.clone();
    all.transactions = vec![reverted(&all, "was put back")];
    state.check(&plan, &all, None);
    assert_eq!(news(&mut state), [(News::Changed, "trial:five-way".to_owned())]);
    // The agent went with it: nobody reads any more.
    all.at += 10.0 * 86_400.0;
    state.check(&plan, &all, None);
    assert_eq!(news(&mut state), []);
    let alert = &state.standing["trial:five-way"].alert;
    assert_eq!((state.standing.len(), alert.kind), (1, AlertKind::Transaction));
    for told in ["40 of 40 services", "1 file", "heaptrial-agent.service"] {
        assert!(alert.text.contains(told), "{}", alert.text);
    }
    // Nobody can look: it is not over.
    let mut blind = all.clone();
    blind.services.iter_mut().for_each(|service| (service.runs, service.drop_in) = (None, None));
    blind.transactions.clear();
    state.check(&plan, &blind, None);
    assert!(state.standing.contains_key("trial:five-way"));
}

#[test]
fn what_a_transaction_did_not_do_is_told_beside_it() {
    let (plan, seen) = at(Event::Level(1.0));
    let mut state = WatchState::default();
    let mut other = put_back(seen(8.0));
    let mut transaction = reverted(&other, "was put back");
    let spared = transaction.services.remove(0);
    other.transactions = vec![transaction];
    state.check(&plan, &other, None);
    let expected = [
        raised("trial:five-way"),
        raised(&format!("identity:{spared}")),
        raised(&format!("drop_in:{spared}")),
    ];
    assert_eq!(news(&mut state), expected);
}

#[test]
fn an_upgrade_is_one_alert_and_a_service_alone_is_told_by_its_name() {
    let (plan, seen) = at(Event::Libc);
    let mut state = WatchState::default();
    state.check(&plan, &seen(8.0), None);
    let raised_keys = news(&mut state);
    assert_eq!(raised_keys.len(), 1, "{raised_keys:?}");
    let alert = &state.standing.values().next().unwrap().alert;
    assert_eq!(
        (alert.kind, alert.services.len(), alert.service.as_ref()),
        (AlertKind::Identity, SERVICES, None)
    );

    // One after the other: the first by itself, then all of them, and it is said where the first has gone.
    let mut state = WatchState::default();
    let mut one = seen(7.0);
    one.services[0] = seen(8.0).services[0].clone();
    state.check(&plan, &one, None);
    assert_eq!(news(&mut state), [raised("identity:s0.service")]);
    state.check(&plan, &seen(8.0), None);
    let resolved = state.outbox.iter().find(|letter| letter.news == News::Resolved).unwrap();
    assert!(resolved.alert.text.starts_with("identity:s0.service is told as identity:"), "{resolved:?}");
    assert_eq!(news(&mut state).len(), 2);
}

#[test]
fn a_drop_in_that_a_rollout_wrote_anew_is_no_change() {
    let (plan, seen) = at(Event::Level(1.0));
    let mut state = WatchState::default();
    let mut mended = seen(8.0);
    let drop_in = mended.services[0].drop_in.as_mut().unwrap();
    (drop_in.sha256, drop_in.written_by_transaction) = (Some("of the rollout".to_owned()), true);
    state.check(&plan, &mended, None);
    assert_eq!(news(&mut state), []);
    // Another treatment is not the same.
    mended.services[0].drop_in.as_mut().unwrap().overridden = vec!["LD_PRELOAD".to_owned()];
    state.check(&plan, &mended, None);
    assert_eq!(news(&mut state), [raised("drop_in:s0.service")]);
}

#[test]
fn a_wave_that_a_rollout_took_back_is_told_as_such() {
    let (plan, seen) = at(Event::Level(1.0));
    let mut state = WatchState::default();
    let mut part = seen(8.0);
    part.services[..3].clone_from_slice(&put_back(seen(8.0)).services[..3]);
    let mut transaction =
        TransactionSeen { kind: "rollout".to_owned(), ..reverted(&part, "changed services") };
    transaction.put_back = transaction.services[..3].to_vec();
    transaction.files.clear();
    part.transactions = vec![transaction];
    state.check(&plan, &part, None);
    assert_eq!(news(&mut state), [raised("rollout:five-way")]);
    let text = &state.standing["rollout:five-way"].alert.text;
    assert!(text.starts_with("rollout `five-way` has put services back: 3 of 40 services"), "{text}");
}

#[test]
fn less_work_and_lost_flags_are_told_whatever_somebody_did_to_the_services() {
    let (mut plan, seen) = at(Event::Level(1.0));
    let usual = UsualWork { bytes_per_second: 5.5, by_hour: Vec::new() };
    plan.services.iter_mut().for_each(|service| service.usual_work = Some(usual.clone()));
    let mut state = WatchState::default();
    // A rollout brought the same treatment anew.
    let mut less = seen(8.0);
    less.services[0].worked = Some(worked(0.3, 0..24));
    less.services[1].lost_flags = vec![TorFlag::Guard];
    less.transactions =
        vec![TransactionSeen { kind: "rollout".to_owned(), ..reverted(&less, "changed services") }];
    state.check(&plan, &less, None);
    assert_eq!(news(&mut state), [raised("work:s0.service"), raised("flags:s1.service")]);
}

#[test]
fn a_flag_that_several_lost_is_one_alert_and_over_when_it_is_back() {
    let (plan, seen) = at(Event::Level(1.0));
    let mut state = WatchState::default();
    let mut lost = seen(8.0);
    for service in &mut lost.services[..3] {
        service.lost_flags = vec![TorFlag::Guard];
    }
    lost.services[3].lost_flags = vec![TorFlag::Guard, TorFlag::V2Dir];
    state.check(&plan, &lost, None);
    let letters = news(&mut state);
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.contains(&raised("flags:Guard")), "{letters:?}");
    // While the database cannot be read nothing is over.
    let mut unread = seen(8.1);
    unread.unreadable = vec!["no database".to_owned()];
    state.check(&plan, &unread, None);
    assert!(news(&mut state).iter().all(|(_, key)| !key.starts_with("flags:")));
    state.check(&plan, &seen(8.2), None);
    let over = news(&mut state)
        .into_iter()
        .filter(|(news, key)| *news == News::Resolved && key.starts_with("flags:"));
    assert_eq!(over.count(), 2);
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
fn work_below_half_of_before_is_told_until_it_has_come_back() {
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
        news(&mut state)
    };
    // A night alone is quiet, and so it was before; of three hours nothing is said.
    assert_eq!(check(&[worked(1.0, 0..6), worked(0.55, 0..24), worked(0.1, 20..23)]), []);
    let one = "work:s0.service".to_owned();
    assert_eq!(check(&[worked(0.4, 0..24)]), [(News::Raised, one.clone())]);
    // It does not go to and fro at the limit.
    assert_eq!(check(&[worked(0.55, 0..24)]), []);
    assert_eq!(check(&[worked(0.65, 0..24)]), [(News::Resolved, one)]);
    let several = [worked(0.4, 0..24), worked(0.3, 6..18)];
    assert_eq!(check(&several), [raised("work:below")]);
    assert_eq!(check(&several), []);
    // What stands of two services makes no third one less than it does; of those it is still the same.
    let with = |third: f64| [worked(0.55, 0..24), worked(0.3, 6..18), worked(third, 0..24)];
    assert_eq!(check(&with(0.55)), []);
    assert_eq!(check(&with(0.45)), [(News::Changed, "work:below".to_owned())]);
}
