//! Work after a change, compared with that of the same hours of the day before.

use heaptrial_evaluate::analysis::{FleetLife, Measure, UsualWork, Work, Worked};

use crate::build::DAY;

const HOUR: f64 = 3600.0;

/// A life read every ten minutes whose rate follows the time of the day.
fn life(started_at: f64, hours: f64, rate: impl Fn(f64) -> f64) -> FleetLife {
    let mut bytes = 0.0;
    let readings = (0..=(hours * 6.0) as usize).map(|number| {
        let age = number as f64 * 600.0;
        if number > 0 {
            bytes += 600.0 * rate(started_at + age - 300.0);
        }
        (age as f32, bytes)
    });
    let work = Work { measures: vec![Measure::traffic(readings.collect())], ..Work::default() };
    FleetLife { started_at, work, ..FleetLife::default() }
}

fn worked(started_at: f64, hours: f64, rate: impl Fn(f64) -> f64) -> Worked {
    Worked::of_life(&life(started_at, hours, rate)).unwrap()
}

/// Four times as much by day (from 8 to 20 o'clock) as by night.
fn daily(at: f64) -> f64 {
    if (8.0..20.0).contains(&(at / HOUR).rem_euclid(24.0)) { 4e6 } else { 1e6 }
}

#[test]
fn work_by_night_is_compared_with_that_of_nights_before() {
    let usual = UsualWork::of_life(&life(0.0, 72.0, daily)).unwrap();
    for share in [1.0, 0.4] {
        let night = worked(100.0 * DAY + 22.0 * HOUR, 6.0, |at| share * daily(at));
        let ratio = night.over(&usual).unwrap();
        assert!(ratio.same_hours && (ratio.value() - share).abs() < 0.01, "{ratio:?}");
    }
}

#[test]
fn where_no_hour_is_shared_the_whole_is_compared() {
    let night = worked(22.0 * HOUR, 6.0, daily);
    let by_day = UsualWork::of_life(&life(9.0 * HOUR, 6.0, daily)).unwrap();
    let since_start = UsualWork::since_start(1e6 * 5000.0, 5000.0).unwrap();
    for (usual, expected) in [(by_day, 0.25), (since_start, 1.0)] {
        let ratio = night.over(&usual).unwrap();
        assert!(!ratio.same_hours && (ratio.value() - expected).abs() < 0.01, "{ratio:?}");
    }
}

#[test]
fn the_hour_after_a_start_and_days_before_the_last_do_not_count() {
    let begun = worked(0.0, 4.0, |at| if at < HOUR { 0.0 } else { 1e6 });
    assert_eq!((begun.seconds, begun.bytes), (3.0 * HOUR, 3.0 * HOUR * 1e6));
    let stopped = worked(0.0, 6.0 * 24.0, |at| if at < 5.0 * DAY { 1e6 } else { 0.0 });
    assert!(stopped.seconds <= DAY + 600.0 && stopped.bytes <= 600.0 * 1e6, "{stopped:?}");
}

#[test]
fn little_time_and_no_work_before_give_no_ratio() {
    assert_eq!(UsualWork::of_life(&life(0.0, 0.1, daily)), None);
    assert_eq!(UsualWork::since_start(1e9, 60.0), None);
    assert_eq!(worked(0.0, 0.1, daily).seconds, 0.0);
    let idle = UsualWork::of_life(&life(0.0, 48.0, |_| 0.0)).unwrap();
    assert_eq!(worked(0.0, 48.0, daily).over(&idle), None);
}
