//! The series that charts show: thinned lines by age, medians over services, and the calendar.

use heaptrial_evaluate::analysis::{Clock, Fleet, FleetArm, FleetEvent, FleetLife, FleetService};
use heaptrial_evaluate::judgement::{Calendar, Happened, Point, Trajectories, split_at_gaps};
use heaptrial_model::{EventKind, LifeStart, Reading};
use proptest::prelude::*;

const HOUR: f64 = 3600.0;
const BEGIN: f64 = 1_760_000_000.0;
/// Readings of a service's line, at most.
const LINE: usize = 300;

fn service(lives: Vec<FleetLife>) -> FleetService {
    FleetService { arms: vec![0], lives, ..FleetService::default() }
}

fn thinned(services: Vec<FleetService>, clock: Clock, ages_are_lower_bounds: bool) -> Trajectories {
    let shown: Vec<_> = (0..services.len()).map(|index| (index, 0, false)).collect();
    let fleet = Fleet { arms: vec![FleetArm::default()], services, clock, ..Fleet::default() };
    Trajectories::of(&fleet, &shown, ages_are_lower_bounds)
}

/// By age in seconds.
fn by_age(values: &[(f64, u32)]) -> FleetLife {
    let reading = |(age, kib): &(f64, u32)| Reading { age_seconds: *age as f32, kib: *kib };
    FleetLife { readings: values.iter().map(reading).collect(), ..FleetLife::default() }
}

fn observed(all: &[&[(f64, u32)]]) -> Trajectories {
    let services = all.iter().map(|values| service(vec![by_age(values)])).collect();
    thinned(services, Clock::InTurn, false)
}

fn flat(kib: u32, count: u32) -> Vec<(f64, u32)> {
    (0..count).map(|i| (f64::from(i), kib)).collect()
}

/// A life that is read at these hours after the first reading of all.
fn by_hour(started: f64, hours: impl Iterator<Item = i32>, kib: u32) -> FleetLife {
    let values: Vec<(f64, u32)> = hours.map(|hour| ((f64::from(hour) - started) * HOUR, kib)).collect();
    FleetLife { started_at: BEGIN + started * HOUR, ..by_age(&values) }
}

fn calendar(fleet: &Fleet, shown: &[(usize, usize, bool)]) -> Calendar {
    Trajectories::of(fleet, shown, false).calendar.unwrap()
}

#[test]
fn rolled_up_readings_are_no_gap() {
    let ages = (0..20).map(|i| f64::from(i) * 900.0).chain((0..200).map(|i| 18_000.0 + f64::from(i) * 60.0));
    let points: Vec<Point> = ages.map(|age| (age, 1.0)).collect();
    assert_eq!(split_at_gaps(&points, 900.0).count(), 1);
    assert_eq!(split_at_gaps(&points, 0.0).count(), 21);
}

#[test]
fn the_median_line_is_taken_over_services_at_equal_age() {
    let thin = observed(&[&flat(10, 40), &flat(20, 40), &flat(90, 40)]);
    let line = thin.median_line(&[0, 1, 2]);
    assert_eq!(line.len(), 1);
    assert!(line[0].iter().all(|point| point.1 == 20.0 * 1024.0), "{line:?}");
    assert_eq!(thin.range(&[0, 1, 2])[0][7].1, 10.0 * 1024.0);
    assert!(thin.median_line(&[]).is_empty());
}

#[test]
fn every_reading_of_a_short_series_is_on_the_median_line() {
    for count in [1, 2, 7, 17, 83, 120] {
        // Hours of a relay's life, one for each consensus.
        let points: Vec<(f64, u32)> = (1..=count).map(|k| (HOUR * f64::from(k), k)).collect();
        let line = observed(&[&points]).median_line(&[0]).concat();
        let levels: Vec<f64> = line.iter().map(|point| point.1 / 1024.0).collect();
        assert_eq!(levels, (1..=count).map(f64::from).collect::<Vec<_>>(), "{count}");
    }
}

#[test]
fn a_median_line_ends_where_half_of_its_services_have_ended() {
    // Bins are wider than the distance of readings: their middles would lie beyond the last ones.
    let thin = observed(&[&flat(7, 1000), &flat(7, 501), &flat(7, 501)]);
    for services in [&[1][..], &[0, 1, 2]] {
        let line = thin.median_line(services);
        assert!(line[0].last().unwrap().0 <= 510.0, "{line:?}");
    }
}

#[test]
fn a_service_of_unknown_start_is_not_drawn_by_age() {
    let drawn = |bounds| {
        let life = |start, age| FleetLife { start, ..by_age(&[(age, 4)]) };
        let known = life(LifeStart::Inferred { uncertainty_us: 0 }, 100.0);
        let services = [known, life(LifeStart::Unknown, 900.0)].map(|life| service(vec![life]));
        let thin = thinned(services.into(), Clock::InTurn, bounds);
        thin.services.iter().map(|service| service.segments.len()).collect::<Vec<_>>()
    };
    assert_eq!((drawn(false), drawn(true)), (vec![1, 0], vec![1, 1]));
}

#[test]
fn a_gap_of_the_calendar_is_a_gap() {
    let until = |last: i32| (1..=20).chain(60..=last);
    let life = |last: i32, kib: u32| service(vec![by_hour(0.0, until(last), kib)]);
    let services = vec![life(80, 1024), life(80, 2048), life(70, 3072)];
    let calendar = thinned(services, Clock::Calendar, false).calendar.unwrap();
    assert_eq!(calendar.span, (BEGIN + HOUR, BEGIN + 80.0 * HOUR));
    let runs = &calendar.arms[0];
    assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [20, 21]);
    assert!(runs[0].iter().all(|moment| moment.median == 2.0 * 1_048_576.0));
    assert_eq!(runs[1].last().unwrap().median, 1.5 * 1_048_576.0, "the third is read no more");
}

#[test]
fn starts_restarts_and_events_of_the_calendar_are_grouped() {
    let mut services: Vec<FleetService> = (0..4)
        .map(|number| {
            let again = 48.0 + f64::from(number) * 0.1;
            service(vec![by_hour(10.0, 11..=48, 10), by_hour(again, 49..=200, 10)])
        })
        .collect();
    services.push(service(vec![FleetLife { start: LifeStart::Unknown, ..by_hour(0.0, 0..=200, 9) }]));
    let event = |(hour, kind): (f64, &str)| FleetEvent {
        host: None,
        at: BEGIN + hour * HOUR,
        arm: None,
        service: None,
        kind: EventKind::from(kind),
        changes_treatment: false,
        text: String::new(),
    };
    let events = [(-5.0, "before"), (100.0, "crash"), (100.5, "crash"), (150.0, "oom")].map(event).into();
    let fleet = Fleet { arms: vec![FleetArm::default()], services, events, ..Fleet::default() };
    let marks = calendar(&fleet, &[]).marks.into_iter();
    let found: Vec<(f64, Happened, u32)> =
        marks.map(|mark| (((mark.at - BEGIN) / HOUR).round(), mark.happened, mark.count)).collect();
    let kind = |kind: &str| Happened::Event(EventKind::from(kind));
    assert_eq!(
        found,
        [
            (10.0, Happened::Start, 4),
            (48.0, Happened::Restart, 4),
            (100.0, kind("crash"), 2),
            (150.0, kind("oom"), 1)
        ]
    );
}

#[test]
fn the_calendar_averages_no_excluded_services_and_no_contaminated_lives() {
    let contaminated = FleetLife { contamination: Some("other".to_owned()), ..by_hour(0.0, 0..=20, 1000) };
    let services = vec![
        service(vec![by_hour(0.0, 0..=50, 10)]),
        service(vec![by_hour(0.0, 0..=50, 1000)]),
        service(vec![contaminated, by_hour(20.5, 21..=50, 10)]),
    ];
    let fleet = Fleet { arms: vec![FleetArm::default()], services, ..Fleet::default() };
    let found = calendar(&fleet, &[(0, 0, false), (1, 0, true), (2, 0, false)]);
    assert!(found.arms[0].iter().flatten().all(|moment| moment.high == 10.0 * 1024.0));
}

proptest! {
    #[test]
    fn thinning_keeps_the_extremes_and_the_order(values in prop::collection::vec(1u32..1_000_000, 1..3000)) {
        let points: Vec<(f64, u32)> = values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
        let line: Vec<Point> = observed(&[&points]).services[0].segments.concat();
        prop_assert!(line.len() <= LINE);
        prop_assert!(line.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        prop_assert!(line.iter().any(|point| point.1 == f64::from(*low) * 1024.0));
        prop_assert!(line.iter().any(|point| point.1 == f64::from(*high) * 1024.0));
    }
}
