//! What long trials and those over several servers have beside the others: weeks, outliers and sums by server.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{
    BeforeAfter, FindingKind, Fleet, FleetEvent, ServerSum, Settings, analyse, outliers, sums_by_server,
};

#[test]
fn long_trials_have_weeks_of_which_only_whole_ones_count() {
    let mut fleet = fleet(&[(6, &|_| 1.0)]);
    // 31 days are 4 whole weeks; two services end within the fourth.
    for (seed, service) in fleet.services.iter_mut().enumerate() {
        let end = if seed < 2 { 26.0 } else { 31.0 };
        service.lives = vec![life(seed, 0.0, end, |age| 1.0 + (age / 7.0).floor())];
    }
    let weeks = &run(&fleet).arms[0].by_week;
    let told: Vec<(u32, u32)> = weeks.iter().map(|week| (week.week, week.services)).collect();
    assert_eq!(told, [(1, 6), (2, 6), (3, 6), (4, 4)]);
    for week in weeks {
        let gib = week.median_bytes / GIB;
        assert!((gib / f64::from(week.week) - 1.0).abs() < 0.01, "{week:?}");
    }
}

#[test]
fn short_trials_have_days_alone() {
    let mut fleet = fleet(&[(6, &|_| 1.0)]);
    for (seed, service) in fleet.services.iter_mut().enumerate() {
        service.lives = vec![life(seed, 0.0, 20.75, |_| 1.0)];
    }
    let analysis = run(&fleet);
    assert!(analysis.arms[0].by_week.is_empty());
    assert_eq!(analysis.arms[0].by_day.len(), 21);
}

#[test]
fn the_last_day_is_as_old_as_its_readings() {
    let mut fleet = fleet(&[(6, &|_| 1.0)]);
    for (seed, service) in fleet.services.iter_mut().enumerate() {
        service.lives = vec![life(seed, 0.0, 2.0, |age| 1.0 + age)];
        service.lives[0].readings.retain(|reading| reading.age_seconds % 43_200.0 == 0.0);
    }
    let days = run(&fleet).arms[0].by_day.clone();
    let ages: Vec<f64> = days.iter().filter_map(|day| day.age_days).collect();
    assert_eq!(ages, [0.25, 1.25, 2.0], "{days:?}");
}

#[test]
fn a_service_far_from_its_arm_is_named() {
    let mut fleet = fleet(&[(9, &|_| 1.0), (9, &|_| 4.0), (4, &|_| 2.0)]);
    // What ran is proved: nobody is off treatment for its memory.
    fleet.identities_proved = true;
    for life in fleet.services.iter_mut().flat_map(|service| &mut service.lives) {
        life.proved = true;
    }
    assert_eq!(outliers(&run(&fleet)), []);
    fleet.services[3].lives = vec![life(3, 0.0, 8.0, |_| 2.5)];
    fleet.services[12].lives = vec![life(12, 0.0, 8.0, |_| 1.0)];
    // Of four services nobody stands out.
    fleet.services[20].lives = vec![life(20, 0.0, 8.0, |_| 9.0)];
    let analysis = run(&fleet);
    let found = outliers(&analysis);
    let told: Vec<(usize, usize)> = found.iter().map(|outlier| (outlier.service, outlier.arm)).collect();
    assert_eq!(told, [(12, 1), (3, 0)], "farthest first: {found:?}");
    assert!((found[0].factor - 0.25).abs() < 0.02 && (found[1].factor - 2.5).abs() < 0.1, "{found:?}");
    assert!((found[1].median_bytes / GIB - 1.0).abs() < 0.06);
}

fn sums_of(fleet: &Fleet, labels: &[Option<String>]) -> Vec<ServerSum> {
    sums_by_server(fleet, &analyse(fleet, &Settings::default()).services, labels)
}

#[test]
fn sums_are_by_server_and_arm_and_count_a_service_once() {
    let mut fleet = fleet(&[(4, &|_| 1.0), (4, &|_| 3.0)]);
    for (index, service) in fleet.services.iter_mut().enumerate() {
        let gib = if index < 4 { 1.0 } else { 3.0 };
        service.lives = vec![life(0, 0.0, 8.0, |_| gib)];
    }
    fleet.services[0].arms.push(1);
    fleet.services[7].lives[0].readings.clear();
    let labels: Vec<Option<String>> =
        (0..8).map(|index| Some(if index % 2 == 0 { "east" } else { "west" }.to_owned())).collect();
    let sums = sums_of(&fleet, &labels);
    let told: Vec<(&str, usize, u32, f64)> = sums
        .iter()
        .map(|sum| {
            let gib = (sum.last_bytes / GIB * 10.0).round() / 10.0;
            (sum.server.as_deref().unwrap(), sum.arm, sum.services, gib)
        })
        .collect();
    assert_eq!(told, [("east", 0, 2, 2.0), ("east", 1, 2, 6.0), ("west", 0, 2, 2.0), ("west", 1, 1, 3.0)]);
    assert!(sums.iter().all(|sum| sum.compared.is_none()), "nothing changed");
    assert!(sums_of(&fleet, &[]).iter().all(|sum| sum.server.is_none()));
}

#[test]
fn before_and_after_are_of_the_same_services() {
    let mut fleet = fleet(&[(0, &|_| 1.0), (4, &|_| 1.0)]);
    for (index, service) in fleet.services.iter_mut().enumerate() {
        service.lives =
            vec![life(0, 0.0, 4.0, |_| 6.0), life(0, 5.0, 9.0, |_| 2.0), life(0, 10.0, 12.0, |_| 1.0)];
        if index == 3 {
            // It came with the change: nothing was read before.
            service.lives.drain(..2);
        }
    }
    let gib = |sum: &BeforeAfter| {
        let round = |bytes: f64| (bytes / GIB * 10.0).round() / 10.0;
        (sum.services, sum.dated, round(sum.before_bytes), round(sum.after_bytes))
    };
    // A restart alone is no change of treatment.
    let sums = sums_of(&fleet, &[]);
    assert_eq!((sums.len(), sums[0].services, sums[0].gone), (1, 4, 0));
    assert_eq!(sums[0].compared, None);
    // An event tells that it was the second that changed what runs.
    fleet.events = vec![FleetEvent {
        host: None,
        at: BEGIN + 9.5 * DAY,
        arm: Some(1),
        service: None,
        kind: heaptrial_model::KnownEvent::Migration.into(),
        changes_treatment: true,
        text: String::new(),
    }];
    assert_eq!(sums_of(&fleet, &[])[0].compared.as_ref().map(gib), Some((3, 3, 6.0, 3.0)));
    // One of before anything was read has no before; the next one counts.
    let early = FleetEvent { at: BEGIN - 10.0 * DAY, arm: None, ..fleet.events[0].clone() };
    fleet.events.insert(0, early);
    assert_eq!(sums_of(&fleet, &[])[0].compared.as_ref().map(gib), Some((3, 3, 6.0, 3.0)));
    fleet.events.remove(0);
    // One of another arm tells nothing.
    fleet.events[0].arm = Some(0);
    assert_eq!(sums_of(&fleet, &[])[0].compared, None);
    // One of a service dates it; of the others it is the first restart.
    (fleet.events[0].arm, fleet.events[0].service) = (None, Some(0));
    assert_eq!(sums_of(&fleet, &[])[0].compared.as_ref().map(gib), Some((3, 1, 14.0, 3.0)));
}

#[test]
fn who_is_gone_is_told_and_in_no_sum() {
    let mut fleet = fleet(&[(4, &|_| 1.0)]);
    for (index, service) in fleet.services.iter_mut().enumerate() {
        let end = if index == 1 { 4.0 } else { 6.0 };
        service.lives = vec![life(index, 0.0, end, |_| 2.0)];
    }
    let sums = sums_of(&fleet, &[]);
    assert_eq!((sums[0].services, sums[0].gone), (3, 1));
    assert_eq!((sums[0].last_bytes / GIB).round(), 6.0);
}

#[test]
fn a_service_that_was_silent_for_days_is_told() {
    let silent = |fleet: &Fleet| {
        let findings = run(fleet).findings.into_iter();
        let found = findings.filter(|finding| finding.evidence.contains("not read for long in between"));
        found.flat_map(|finding| finding.services).collect::<Vec<_>>()
    };
    let mut fleet = fleet(&[(4, &|_| 1.0)]);
    for (index, service) in fleet.services.iter_mut().enumerate() {
        service.lives = vec![life(index, 0.0, 6.0, |_| 2.0)];
        // One reading in half a day.
        let mut number = 0;
        service.lives[0].readings.retain(|reading| {
            let half_days = f64::from(reading.age_seconds) / (DAY / 2.0);
            let due = half_days >= f64::from(number);
            number += i32::from(due);
            due
        });
    }
    assert_eq!(silent(&fleet), Vec::<String>::new());
    let gap = |age: f32| (2.2..4.2).contains(&(f64::from(age) / DAY));
    fleet.services[2].lives[0].readings.retain(|reading| !gap(reading.age_seconds));
    assert_eq!(silent(&fleet), [fleet.services[2].name.clone()]);
    // Who is gone is told beside one that was silent.
    let mut with_gone = fleet.clone();
    with_gone.services[1].lives[0].readings.retain(|reading| f64::from(reading.age_seconds) < 4.0 * DAY);
    let findings = run(&with_gone).findings;
    let vanished = findings.iter().find(|finding| finding.kind == FindingKind::Vanished);
    assert_eq!(vanished.map(|finding| &finding.services[..]), Some(&[fleet.services[1].name.clone()][..]));
    // Where nobody was read the arm has a gap, and no service lacks anything.
    for service in &mut fleet.services {
        service.lives[0].readings.retain(|reading| !gap(reading.age_seconds));
    }
    assert_eq!(silent(&fleet), Vec::<String>::new());
}
