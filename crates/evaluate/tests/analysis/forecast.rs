//! The forecast of an arm: what counts for it, and how often its limits hold a further service.

use crate::build;
use crate::simulation;

use build::{DAY, GIB, add_arm, fleet, life, own};
use heaptrial_evaluate::analysis::{Forecast, ForecastError, Settings};
use simulation::{Arm, Course, Load, Scenario, simulate};

fn of_arm(fleet: &heaptrial_evaluate::analysis::Fleet, arm: &str) -> Result<Forecast, ForecastError> {
    Forecast::of_arm(fleet, &Settings::default(), arm)
}

#[test]
fn a_forecast_tells_levels_by_age_and_stops_where_nothing_is_known() {
    let fleet = fleet(&[(4, &|_| 9.0), (6, &|age| 2.0 + 0.1 * age)]);
    let forecast = of_arm(&fleet, "arm 1").unwrap();
    assert_eq!((forecast.arm(), forecast.services()), ("arm 1", 6));
    assert_eq!((forecast.last_age(), forecast.window_seconds()), (8.0 * DAY, DAY));
    for (days, gib) in [(4.0, 2.35), (8.0, 2.75)] {
        let level = forecast.at(days * DAY, 0.95).unwrap();
        assert!((level.median_bytes / GIB / gib - 1.0).abs() < 0.03, "{days} d: {level:?}");
        assert!(level.low_bytes < level.median_bytes && level.median_bytes < level.high_bytes);
        let wider = forecast.at(days * DAY, 0.99).unwrap();
        assert!(wider.low_bytes < level.low_bytes && wider.high_bytes > level.high_bytes);
    }
    let (last, later) = (forecast.at(8.0 * DAY, 0.95).unwrap(), forecast.at(15.0 * DAY, 0.95).unwrap());
    assert!((later.median_bytes / GIB / 3.5 - 1.0).abs() < 0.06, "{later:?}");
    assert!(later.high_bytes / later.low_bytes > last.high_bytes / last.low_bytes, "{last:?} {later:?}");
    for (age, confidence) in
        [(1.0, 0.95), (16.5 * DAY, 0.95), (f64::NAN, 0.95), (4.0 * DAY, 0.0), (4.0 * DAY, 1.0)]
    {
        assert_eq!(forecast.at(age, confidence), None, "{age} {confidence}");
    }
    let growth = forecast.growth().unwrap();
    assert!((0.03..0.045).contains(&growth.value), "{growth:?}");
}

#[test]
fn the_last_age_is_one_that_half_of_the_services_reached() {
    let mut fleet = fleet(&[(1, &|_| 9.0)]);
    let arm = add_arm(&mut fleet, 5, |seed| vec![life(seed, 0.0, 2.0 * seed as f64, |_| own(seed))]);
    let forecast = of_arm(&fleet, &format!("arm {arm}")).unwrap();
    assert_eq!(forecast.last_age(), 6.0 * DAY);
}

#[test]
fn only_lives_that_count_are_in_a_forecast() {
    let mut fleet = fleet(&[(4, &|_| 1.0), (4, &|_| 2.0)]);
    fleet.identities_proved = true;
    assert!(matches!(of_arm(&fleet, "arm 1"), Err(ForecastError::NoReadings { .. })));
    for service in &mut fleet.services {
        service.lives[0].proved = true;
    }
    // A service that ran the control's allocator would pull the mean and widen the limits.
    fleet.services[4].lives = vec![life(4, 0.0, 8.0, |_| 1.0)];
    fleet.services[4].lives[0].contamination = Some("glibc".to_owned());
    let forecast = of_arm(&fleet, "arm 1").unwrap();
    assert_eq!(forecast.services(), 3);
    assert!(forecast.at(5.0 * DAY, 0.9).unwrap().low_bytes > 1.7 * GIB);
    fleet.services[5].lives[0].contamination = Some("glibc".to_owned());
    fleet.services[6].lives[0].contamination = Some("glibc".to_owned());
    assert!(matches!(of_arm(&fleet, "arm 1"), Err(ForecastError::TooFewServices { services: 1, .. })));
    let error = of_arm(&fleet, "arm 7").unwrap_err().to_string();
    assert!(error.contains("arm 7") && error.contains("arm 0, arm 1"), "{error}");
}

#[test]
fn a_forecast_survives_being_stored() {
    let forecast = of_arm(&fleet(&[(3, &|_| 1.0)]), "arm 0").unwrap();
    let text = serde_json::to_string(&forecast).unwrap();
    let read: Forecast = serde_json::from_str(&text).unwrap();
    assert_eq!(read.last_age(), forecast.last_age());
    for days in [1.0, 8.0, 12.0] {
        let level = |of: &Forecast| of.at(days * DAY, 0.95).unwrap().high_bytes;
        assert!((level(&read) / level(&forecast) - 1.0).abs() < 1e-9);
    }
}

/// Of services of further fleets with a load of their own, the share whose level lies within the limits.
fn held(scenario: &Scenario, ages: &[f64], confidence: f64, fleets: u64) -> (u32, u32) {
    let mut held = (0, 0);
    for seed in 0..fleets {
        let Ok(forecast) = of_arm(&simulate(scenario, seed).fleet, "arm 0") else { continue };
        let further =
            Scenario { arms: vec![Arm { services: 1, ..scenario.arms[0].clone() }], ..scenario.clone() };
        let further = Scenario { days: 2.0 * scenario.days, ..further };
        let life = &simulate(&further, 1_000_000 + seed).fleet.services[0].lives[0];
        for days in ages {
            let limits = forecast.at(days * DAY, confidence).unwrap_or_else(|| panic!("{days} d"));
            let level = forecast.level_of(life, days * DAY).unwrap();
            held.0 += u32::from((limits.low_bytes..=limits.high_bytes).contains(&level));
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
        for age in [2.0, 6.0, 8.0, 14.0] {
            let (inside, of) = held(&scenario, &[age], confidence, FLEETS);
            let share = f64::from(inside) / f64::from(of);
            println!("{name}, {age} d: {:.1}% of {of} (promised {:.0}%)", 100.0 * share, 100.0 * confidence);
            let error = (confidence * (1.0 - confidence) / f64::from(of)).sqrt();
            assert!(share > confidence - 3.1 * error, "{name}, {age} d: {share}");
            // Limits that hold everything say nothing; what is carried on may be wide.
            assert!(
                age > 8.0 || confidence > 0.9 || share < confidence + 3.1 * error,
                "{name}, {age} d: {share}"
            );
        }
    }
}
