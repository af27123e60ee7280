//! The forecast of an arm: what counts for it, and how often its limits hold a further service.

use crate::build;

use build::{DAY, GIB, add_arm, fleet, life, own};
use heaptrial_evaluate::analysis::{Fleet, Forecast, LogLevel, Settings};
use heaptrial_stats::student_quantile;

use crate::simulation::{Arm, Course, Load, Scenario, simulate};

fn of_arm(fleet: &Fleet, arm: usize) -> Option<Forecast> {
    Forecast::of_arm(fleet, &Settings::default(), arm)
}

/// Lower limit, median and upper limit in bytes for one further service.
fn limits(level: &LogLevel, confidence: f64) -> [f64; 3] {
    let n = f64::from(level.services);
    let error = (level.spread.powi(2) * (1.0 + 1.0 / n) + level.shared.powi(2)).sqrt();
    let t = student_quantile(n - 1.0, (1.0 + confidence) / 2.0).unwrap();
    [level.mean - t * error, level.mean, level.mean + t * error].map(f64::exp)
}

#[test]
fn a_forecast_has_levels_by_age_and_stops_where_nothing_is_known() {
    let fleet = fleet(&[(4, &|_| 9.0), (6, &|age| 2.0 + 0.1 * age)]);
    let forecast = of_arm(&fleet, 1).unwrap();
    assert_eq!((forecast.services, forecast.last_age(), forecast.window_seconds), (6, 8.0 * DAY, DAY));
    for (days, gib) in [(4.0, 2.35), (8.0, 2.75)] {
        let [low, median, high] = limits(&forecast.log_level(days * DAY).unwrap(), 0.95);
        assert!((median / GIB / gib - 1.0).abs() < 0.03, "{days} d: {median}");
        assert!(low < median && median < high);
    }
    for age in [1.0, 8.5 * DAY, f64::NAN] {
        assert_eq!(forecast.log_level(age), None, "{age}");
    }
    let growth = forecast.growth.unwrap();
    assert!((0.03..0.045).contains(&growth.value), "{growth:?}");
}

#[test]
fn the_last_age_is_one_that_half_of_the_services_reached() {
    let mut fleet = fleet(&[(1, &|_| 9.0)]);
    let arm = add_arm(&mut fleet, 5, |seed| vec![life(seed, 0.0, 2.0 * seed as f64, |_| own(seed))]);
    let forecast = of_arm(&fleet, arm).unwrap();
    assert_eq!(forecast.last_age(), 6.0 * DAY);
}

#[test]
fn only_lives_that_count_are_in_a_forecast() {
    let mut fleet = fleet(&[(4, &|_| 1.0), (4, &|_| 2.0)]);
    fleet.identities_proved = true;
    assert_eq!(of_arm(&fleet, 1), None, "nothing is proved");
    for service in &mut fleet.services {
        service.lives[0].proved = true;
    }
    // A service that ran the control's allocator would pull the mean and widen the limits.
    fleet.services[4].lives = vec![life(4, 0.0, 8.0, |_| 1.0)];
    fleet.services[4].lives[0].contamination = Some("glibc".to_owned());
    let forecast = of_arm(&fleet, 1).unwrap();
    assert_eq!(forecast.services, 3);
    assert!(limits(&forecast.log_level(5.0 * DAY).unwrap(), 0.9)[0] > 1.7 * GIB);
    fleet.services[5].lives[0].contamination = Some("glibc".to_owned());
    fleet.services[6].lives[0].contamination = Some("glibc".to_owned());
    assert_eq!(of_arm(&fleet, 1), None, "one service says nothing about another");
}

/// Of services of further fleets with a load of their own, the share whose level lies within the limits.
fn held(scenario: &Scenario, ages: &[f64], confidence: f64, fleets: u64) -> (u32, u32) {
    let mut held = (0, 0);
    for seed in 0..fleets {
        let Some(forecast) = of_arm(&simulate(scenario, seed).fleet, 0) else { continue };
        let further =
            Scenario { arms: vec![Arm { services: 1, ..scenario.arms[0].clone() }], ..scenario.clone() };
        let life = &simulate(&further, 1_000_000 + seed).fleet.services[0].lives[0];
        for days in ages {
            let [low, _, high] = limits(&forecast.log_level(days * DAY).unwrap(), confidence);
            let level = forecast.level_of(life, days * DAY).unwrap();
            held.0 += u32::from((low..=high).contains(&level));
            held.1 += 1;
        }
    }
    held
}

#[test]
fn limits_hold_a_further_service_as_often_as_they_say() {
    let of = |services: usize| Scenario { every_hours: 6.0, ..Scenario::new(vec![Arm::new(services, 1.0)]) };
    const FLEETS: u64 = if cfg!(debug_assertions) { 40 } else { 150 };
    let load = Load { sd: 0.03, correlation: 0.9 };
    let grows = |services: usize| Scenario {
        arms: vec![Arm::new(services, 1.0).growing(Course::Steady(0.03))],
        ..of(services)
    };
    for (name, scenario, confidence) in [
        ("3 services", of(3), 0.95),
        ("10 services", of(10), 0.95),
        ("10 services, 80%", of(10), 0.8),
        ("20 services, common load", Scenario { load, ..of(20) }, 0.95),
        ("8 services that grow", grows(8), 0.95),
    ] {
        // Ages of one fleet depend on each other: fleets are what is counted.
        for age in [2.0, 6.0, 8.0] {
            let (inside, of) = held(&scenario, &[age], confidence, FLEETS);
            let share = f64::from(inside) / f64::from(of);
            println!("{name}, {age} d: {:.1}% of {of} (promised {:.0}%)", 100.0 * share, 100.0 * confidence);
            let error = (confidence * (1.0 - confidence) / f64::from(of)).sqrt();
            assert!(share > confidence - 3.1 * error, "{name}, {age} d: {share}");
            // Limits that hold everything say nothing.
            assert!(confidence > 0.9 || share < confidence + 3.1 * error, "{name}, {age} d: {share}");
        }
    }
}
