//! Readings that lie unevenly in time, and services that are in no level.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{FindingKind, Fleet, FleetLife};
use heaptrial_model::Reading;

/// A life that is read at these ages in days, with memory in GiB by age.
fn read_at(seed: usize, ages: impl Iterator<Item = f64>, gib: impl Fn(f64) -> f64) -> FleetLife {
    let reading = |age: f64| Reading {
        age_seconds: (age * DAY) as f32,
        kib: (own(seed) * gib(age) * GIB / 1024.0) as u32,
    };
    FleetLife { readings: ages.map(reading).collect(), ..life(seed, 0.0, 0.0, |_| 1.0) }
}

/// Readings of three hours are no level of a day, however many they are: load has a rhythm.
#[test]
fn a_window_of_which_most_was_not_read_has_no_level() {
    let daily = |age: f64| 2.0 * (1.0 + 0.4 * (age * std::f64::consts::TAU).sin());
    let often = |seed: usize, gap: (f64, f64)| {
        let minutes = (0..5 * 720).map(|place| f64::from(place) / 720.0);
        vec![read_at(seed, minutes.filter(|age| !(gap.0..gap.1).contains(age)), daily)]
    };
    let mut fleet = Fleet { randomised: true, ..Fleet::default() };
    add_arm(&mut fleet, 6, |seed| often(seed, (9.0, 9.0)));
    add_arm(&mut fleet, 6, |seed| often(seed, (4.0, 4.875)));
    let analysis = run(&fleet);
    assert_eq!(analysis.arms[0].as_assigned.services_compared, 6);
    assert_eq!(analysis.arms[1].as_assigned.services_compared, 0);
    // A third of it is enough missing to be told, and not to be left out.
    let mut fleet = Fleet { randomised: true, ..Fleet::default() };
    add_arm(&mut fleet, 6, |seed| often(seed, (4.0, 4.3)));
    assert_eq!(run(&fleet).arms[0].as_assigned.services_compared, 6);
}

/// Somebody looked closely for some hours: their part of the day weighs no more than that.
#[test]
fn hours_that_were_read_more_often_decide_neither_level_nor_growth() {
    let daily = |age: f64| 2.0 * (1.0 + 0.06 * (age * std::f64::consts::TAU).sin());
    let read = |seed: usize, often: bool| {
        let hours = (0..9 * 24).map(|hour| f64::from(hour) / 24.0);
        let then = if often { 2880 } else { 24 };
        let rest = (0..).map(|place| 9.0 + f64::from(place) / f64::from(then)).take_while(|age| *age <= 9.4);
        vec![read_at(seed, hours.chain(rest), daily)]
    };
    let mut fleet = Fleet { randomised: true, ..Fleet::default() };
    add_arm(&mut fleet, 8, |seed| read(seed, false));
    add_arm(&mut fleet, 8, |seed| read(seed, true));
    let analysis = run(&fleet);
    let ratio = analysis.arms[1].as_assigned.ratio.as_ref().unwrap().estimate;
    assert!((ratio.value - 1.0).abs() < 0.01, "{ratio:?}");
    let growth = |arm: usize| analysis.arms[arm].growth.as_ref().unwrap().share_per_day.value;
    assert!((growth(1) - growth(0)).abs() < 0.01, "{} {}", growth(1), growth(0));
}

/// Large services that were killed a day before the end are young: what is left of their arm is small, and that is told.
#[test]
fn services_in_no_level_are_told() {
    let mut fleet = fleet(&[(10, &|_| 2.0)]);
    add_arm(&mut fleet, 10, |seed| match seed % 5 {
        0 | 1 => [(0.0, 6.7), (6.8, 8.0)].map(|(from, to)| life(seed, from, to, |_| 6.0)).into(),
        _ => vec![life(seed, 0.0, 8.0, |_| 1.6)],
    });
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::NotCompared).unwrap();
    assert_eq!((found.arms.as_slice(), found.services.len()), (&[1][..], 4));
    assert!(found.evidence.contains("4 of 10 services of arm 1 (last readings: 6.0"), "{}", found.evidence);
    assert!(find(&run(&build::fleet(&[(6, &|_| 2.0), (6, &|_| 1.0)])), FindingKind::NotCompared).is_none());
}

/// Older readings are kept as medians of 15 minutes: a service that was restarted since has none of those.
#[test]
fn a_service_lacks_no_readings_for_having_been_rolled_up() {
    let read = |seed: usize, rolled_up_days: u32| {
        let old = (0..rolled_up_days * 96).map(|quarter| f64::from(quarter) / 96.0);
        let every = if seed == 3 { 4 } else { 1 };
        let raw = (0..5 * 1440 / every)
            .map(|minute| f64::from(rolled_up_days) + f64::from(minute * every) / 1440.0);
        let rolled_up_seconds = if rolled_up_days > 0 { 900.0 } else { 0.0 };
        vec![FleetLife { rolled_up_seconds, ..read_at(seed, old.chain(raw), |_| 2.0) }]
    };
    let mut fleet = Fleet { randomised: true, ..Fleet::default() };
    add_arm(&mut fleet, 8, |seed| read(seed, if seed < 5 { 0 } else { 25 }));
    let analysis = run(&fleet);
    assert_eq!(names(find(&analysis, FindingKind::LacksSamples).unwrap()), ["s3"]);
}

/// 30 days of a line, read each minute, of which the first days are kept as medians of 15 minutes.
#[test]
fn rolled_up_readings_have_the_same_level_average_and_growth() {
    let figures_of = |rolled_up: f64| {
        let minutes =
            (0..30 * 1440).filter(|minute| f64::from(*minute) >= 1440.0 * rolled_up || minute % 15 == 7);
        let ages = minutes.map(|minute| f64::from(minute) / 1440.0);
        let mut fleet = Fleet::default();
        let read = read_at(0, ages, |age| 1.0 + age / 30.0);
        add_arm(&mut fleet, 1, |_| vec![FleetLife { rolled_up_seconds: 900.0, ..read.clone() }]);
        let of = run(&fleet).services.remove(0);
        [of.level_bytes, of.time_average_bytes, of.growth_log_per_day].map(Option::unwrap)
    };
    let raw = figures_of(0.0);
    for days in [16.0, 29.5, 30.0] {
        let partly = figures_of(days);
        for (figure, share) in [0.01, 0.01, 0.02].into_iter().enumerate() {
            let ratio = partly[figure] / raw[figure];
            assert!((ratio - 1.0).abs() < share, "{days} {figure}: {ratio}");
        }
    }
}

#[test]
fn the_peak_is_of_all_lives_that_ran_the_treatment() {
    let life = |contamination: Option<&str>, peak: f64| FleetLife {
        contamination: contamination.map(str::to_owned),
        ..read_at(0, [0.1, 0.2].into_iter(), |age| if age < 0.15 { peak } else { 0.1 })
    };
    let mut fleet = Fleet::default();
    add_arm(&mut fleet, 1, |_| vec![life(None, 5.0), life(Some("it ran another one"), 9.0), life(None, 0.7)]);
    let peak = run(&fleet).services[0].peak_bytes.unwrap();
    assert!((peak / (own(0) * 5.0 * GIB) - 1.0).abs() < 1e-6, "{peak}");
}
