//! Superlatives are over all arms that have any figure.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{Basis, Fleet};

/// Services of an arm, each with one life of so many readings, 2 days apart, up to an age in days.
fn few_readings(
    fleet: &mut Fleet,
    services: usize,
    end: f64,
    readings: usize,
    gib: impl Fn(f64) -> f64,
) -> usize {
    add_arm(fleet, services, |seed| {
        let mut life = life(seed, 9.0 - end, 9.0, |age| own(seed) * gib(age));
        let every: Vec<usize> = (0..readings).map(|back| life.readings.len() - 1 - 8 * back).collect();
        life.readings = every.into_iter().rev().map(|place| life.readings[place]).collect();
        vec![life]
    })
}

/// As a trial of 13 services with few readings: one small arm has levels at the matched age, three large ones have none.
fn thirteen() -> Fleet {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    few_readings(&mut fleet, 3, 8.0, 2, |_| 4.2);
    few_readings(&mut fleet, 3, 7.9, 2, |_| 0.35);
    few_readings(&mut fleet, 4, 8.1, 2, |_| 4.6);
    few_readings(&mut fleet, 3, 8.2, 2, |_| 4.9);
    // Of three arms single readings only.
    for service in fleet.services.iter_mut().filter(|service| service.arms != [1]) {
        service.lives[0].readings.drain(..1);
    }
    fleet
}

#[test]
fn an_arm_without_a_level_is_not_passed_over() {
    let analysis = run(&thirteen());
    // What the headline was made of: the arm with a level is the smallest, and there is no ratio.
    assert!(analysis.arms[1].as_assigned.level_bytes.is_some_and(|bytes| bytes < 0.4 * GIB), "{analysis:?}");
    assert!([0, 2, 3].iter().all(|arm| analysis.arms[*arm].as_assigned.level_bytes.is_none()));
    assert!(analysis.arms[1].as_assigned.ratio.is_none());
    let extremes = &analysis.extremes;
    assert_eq!(extremes.basis, Basis::LastReadings);
    assert_eq!(extremes.without_level, [0, 2, 3]);
    assert_eq!((extremes.least, extremes.most), (Some(1), Some(3)));
    let order: Vec<usize> = extremes.order.iter().map(|place| place.arm).collect();
    assert_eq!(order, [1, 0, 2, 3]);
}

#[test]
fn with_levels_of_all_arms_levels_decide() {
    let analysis = run(&fleet(&[(6, &|_| 2.0), (6, &|_| 1.0), (6, &|_| 3.0)]));
    let extremes = &analysis.extremes;
    assert_eq!(extremes.basis, Basis::LevelAtEqualAge { age_seconds: 8.0 * DAY });
    assert_eq!((extremes.least, extremes.most), (Some(1), Some(2)));
    assert!(extremes.without_level.is_empty() && extremes.without_reading.is_empty());
}

#[test]
fn an_arm_with_more_services_on_the_large_server_does_not_need_the_most() {
    let mut fleet = fleet(&[(10, &|_| 2.0), (10, &|_| 1.6), (10, &|_| 1.0)]);
    for (place, service) in fleet.services.iter_mut().enumerate() {
        let (arm, number) = (place / 10, place % 10);
        service.block = u32::from(if arm == 1 { number < 7 } else { number < 2 });
        for reading in service.lives.iter_mut().flat_map(|life| &mut life.readings) {
            reading.kib *= if service.block == 1 { 3 } else { 1 };
        }
    }
    let analysis = run(&fleet);
    let level = |arm: usize| analysis.arms[arm].as_assigned.level_bytes.unwrap();
    assert!(level(1) > level(0), "what levels alone would tell");
    assert_eq!((analysis.extremes.least, analysis.extremes.most), (Some(2), Some(0)));
}

#[test]
fn arms_without_a_reading_and_readings_of_nothing_are_no_extremes() {
    let mut fleet = fleet(&[(4, &|_| 2.0), (4, &|_| 1.0), (4, &|_| 0.0)]);
    add_arm(&mut fleet, 2, |_| Vec::new());
    let extremes = run(&fleet).extremes;
    assert_eq!((extremes.least, extremes.most), (Some(1), Some(0)));
    assert_eq!(extremes.without_reading, [2, 3]);
    assert_eq!(extremes.order.len(), 2);
    // One arm alone is neither least nor most.
    fleet.services.retain(|service| service.arms == [0]);
    let extremes = run(&fleet).extremes;
    assert_eq!((extremes.least, extremes.most, extremes.order.len()), (None, None, 1));
}

#[test]
fn where_an_arm_is_restarted_averages_over_time_decide() {
    let mut fleet = fleet(&[(6, &|_| 2.0)]);
    let arm = add_arm(&mut fleet, 6, |seed| {
        (0..8)
            .map(|day| life(seed, f64::from(day), f64::from(day) + 0.75, |age| own(seed) * (1.0 + age)))
            .collect()
    });
    fleet.arms[arm].restarted = true;
    let extremes = run(&fleet).extremes;
    assert_eq!((extremes.basis, extremes.least), (Basis::AverageOverTime, Some(1)));
    assert!((extremes.order[0].bytes / GIB - 1.375).abs() < 0.1, "{:?}", extremes.order[0]);
}
