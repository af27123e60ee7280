use super::*;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

const TRIALS: usize = if cfg!(debug_assertions) { 15 } else { 2_000 };

/// What a service's log memory does between its steps.
#[derive(Debug, Clone, Copy)]
enum Course {
    /// Independent errors of this SD.
    Noise(f64),
    /// A random walk with this SD per day.
    Walk(f64),
    /// Autoregressive errors of this SD that halve in half a day.
    Autoregressive(f64),
}

/// Ten days of readings every half hour to two hours, with gaps of half a day, in days; the level
/// grows by 2% a day and steps by `size` at day `at`.
fn service(random: &mut ChaCha8Rng, course: Course, (at, size): (f64, f64)) -> Vec<(f64, f64)> {
    let normal = Normal::new(0.0, 1.0).unwrap();
    let (mut time, mut error, mut series) = (random.random_range(0.0..0.1), 0.0, Vec::new());
    while time < 10.0 {
        let step: f64 = if random.random_bool(0.01) { 0.5 } else { random.random_range(0.02..0.08) };
        let shock: f64 = normal.sample(random);
        error = match course {
            Course::Noise(sd) => sd * shock,
            Course::Walk(sd) => error + sd * step.sqrt() * shock,
            Course::Autoregressive(sd) => {
                let memory = 0.5_f64.powf(step / 0.5);
                memory * error + sd * (1.0 - memory * memory).sqrt() * shock
            }
        };
        series.push((time, 22.0 + 0.02 * time + error + if time >= at { size } else { 0.0 }));
        time += step;
    }
    series
}

fn arm(random: &mut ChaCha8Rng, services: usize, course: Course, change: (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    (0..services).map(|_| service(random, course, change)).collect()
}

/// Shares of arms without a common step in which one is found: of any size, and of 10% or more.
fn alarms(services: usize, course: Course) -> (f64, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let settings = LevelChangeSettings { least_step: 0.0, ..LevelChangeSettings::new(1.0) };
    let (mut any, mut large) = (0, 0);
    for _ in 0..TRIALS {
        let changes = level_changes(&arm(&mut random, services, course, (0.0, 0.0)), &settings);
        any += u32::from(!changes.is_empty());
        large += u32::from(changes.iter().any(|change| change.step.abs() >= 1.1_f64.ln()));
    }
    let shares = (f64::from(any) / TRIALS as f64, f64::from(large) / TRIALS as f64);
    println!("{services} services, {course:?}: any {}, 10% or more {}", shares.0, shares.1);
    shares
}

/// 5% and four Monte Carlo errors, also if steps of any size count.
#[test]
fn services_on_their_own_walks_rarely_step_together() {
    let bound = 0.05 + 4.0 * (0.05 * 0.95 / TRIALS as f64).sqrt();
    for services in [10, 20] {
        for course in [Course::Noise(0.03), Course::Walk(0.1), Course::Walk(0.5), Course::Autoregressive(0.2)]
        {
            let (any, large) = alarms(services, course);
            assert!(any <= bound && large <= bound);
        }
    }
}

/// Shares of arms with a step of 18% at day 6.3 in which it is found within a window of its time and with
/// its size, and in which anything is found further away.
fn detections(services: usize, course: Course) -> (f64, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(23);
    let size = 1.18_f64.ln();
    let (mut found, mut other) = (0, 0);
    for _ in 0..TRIALS {
        let changes =
            level_changes(&arm(&mut random, services, course, (6.3, size)), &LevelChangeSettings::new(1.0));
        let is_it =
            |change: &LevelChange| (change.time - 6.3).abs() <= 1.0 && (change.step - size).abs() < 0.06;
        found += u32::from(changes.iter().any(is_it));
        other += u32::from(!changes.iter().all(is_it));
    }
    let shares = (f64::from(found) / TRIALS as f64, f64::from(other) / TRIALS as f64);
    println!("{services} services, {course:?}: found {}, anything else {}", shares.0, shares.1);
    shares
}

#[test]
fn a_common_step_is_found_and_dated() {
    for (services, course, least) in [
        (20, Course::Noise(0.03), 0.99),
        (10, Course::Noise(0.03), 0.6),
        (20, Course::Walk(0.05), 0.9),
        (20, Course::Autoregressive(0.1), 0.0),
    ] {
        let (found, other) = detections(services, course);
        let bound = 0.1 + 4.0 * (0.1 * 0.9 / TRIALS as f64).sqrt();
        assert!(found >= least && other <= bound, "{services} services, {course:?}");
    }
}

#[test]
fn a_step_of_a_few_or_against_each_other_is_none_of_the_arm() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut services = arm(&mut random, 14, Course::Noise(0.03), (0.0, 0.0));
    services.extend(arm(&mut random, 6, Course::Noise(0.03), (5.0, 0.5)));
    assert_eq!(level_changes(&services, &LevelChangeSettings::new(1.0)), vec![]);
    let mut opposed = arm(&mut random, 10, Course::Noise(0.03), (5.0, 0.3));
    opposed.extend(arm(&mut random, 10, Course::Noise(0.03), (5.0, -0.3)));
    assert_eq!(level_changes(&opposed, &LevelChangeSettings::new(1.0)), vec![]);
}

/// Growth, also one that bends, is not a step.
#[test]
fn steady_growth_and_a_kink_are_not_steps() {
    for slope_after in [0.3, 0.0] {
        let services: Vec<Vec<(f64, f64)>> = (0..20)
            .map(|i| {
                let offset = f64::from(i) * 0.002;
                (0..200)
                    .map(|j| offset + f64::from(j) * 0.05)
                    .map(|t| (t, 22.0 + 0.3 * t.min(5.0) + slope_after * (t - 5.0).max(0.0)))
                    .collect()
            })
            .collect();
        assert_eq!(level_changes(&services, &LevelChangeSettings::new(1.0)), vec![]);
    }
}

#[test]
fn services_without_readings_around_it_have_no_vote() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut services = arm(&mut random, 16, Course::Noise(0.03), (5.0, 0.3));
    for series in &mut services[..4] {
        series.retain(|(time, _)| !(4.0..7.0).contains(time));
    }
    let changes = level_changes(&services, &LevelChangeSettings::new(1.0));
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].agree, changes[0].voted), (12, 12));
    assert_eq!(level_changes(&[], &LevelChangeSettings::new(1.0)), vec![]);
    assert_eq!(level_changes(&services[..5], &LevelChangeSettings::new(1.0)), vec![]);
    assert_eq!(level_changes(&services, &LevelChangeSettings::new(0.0)), vec![]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_change_upside_down_is_the_opposite_change(seed in 0u64..1_000, size in 0.2f64..1.0) {
        let services = arm(&mut ChaCha8Rng::seed_from_u64(seed), 12, Course::Noise(0.02), (5.0, size));
        let turned: Vec<Vec<(f64, f64)>> =
            services.iter().map(|series| series.iter().map(|(x, y)| (*x, -y)).collect()).collect();
        let settings = LevelChangeSettings::new(1.0);
        let (up, down) = (level_changes(&services, &settings), level_changes(&turned, &settings));
        prop_assert_eq!(up.len(), 1);
        prop_assert!((up[0].step + down[0].step).abs() < 1e-12);
        prop_assert_eq!((up[0].time, up[0].agree), (down[0].time, down[0].agree));
    }
}
