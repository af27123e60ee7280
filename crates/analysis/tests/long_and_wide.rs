//! What long trials and those over several servers have beside the others: weeks, outliers and sums by server.

mod build;

use build::*;
use heaptrial_analysis::{
    BeforeAfter, Fleet, FleetEvent, ServerSum, Settings, analyse, outliers, sums_by_server,
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
    // Before the first restart.
    let sums = sums_of(&fleet, &[]);
    assert_eq!((sums.len(), sums[0].services), (1, 4));
    assert_eq!(sums[0].compared.as_ref().map(gib), Some((3, 0, 18.0, 3.0)));
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
    assert_eq!(sums_of(&fleet, &[])[0].compared.as_ref().map(gib), Some((3, 0, 18.0, 3.0)));
}
