//! Simulation: what arms of 20 services are decided to be, for known shapes of growth.

use heaptrial_stats::{Shape, arm_shape, growth_shape};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

const ARMS: usize = if cfg!(debug_assertions) { 10 } else { 500 };
const READINGS: usize = 60;

/// Shares of arms (saturating, linear, unclear) and the mean share of saturating services. `mean` is the
/// course over 0..1, with independent errors of SD `noise` and a walk with SD `walk` over the whole time.
fn decisions(name: &str, mean: fn(f64) -> f64, noise: f64, walk: f64) -> [f64; 4] {
    let mut random = ChaCha8Rng::seed_from_u64(31);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let mut service = || {
        let mut walked = 0.0;
        let points: Vec<(f64, f64)> = (0..READINGS)
            .map(|i| {
                let age = i as f64 / (READINGS - 1) as f64;
                walked += walk * normal.sample(&mut random) / (READINGS as f64).sqrt();
                (age, mean(age) + walked + noise * normal.sample(&mut random))
            })
            .collect();
        growth_shape(&points).unwrap()
    };
    let mut shares = [0.0; 4];
    for _ in 0..ARMS {
        let arm = arm_shape(&(0..20).map(|_| service()).collect::<Vec<_>>(), 0.05);
        let decided = [Shape::Saturating, Shape::Linear, Shape::Unclear].iter().position(|s| *s == arm.shape);
        shares[decided.unwrap()] += 1.0 / ARMS as f64;
        shares[3] += arm.saturating as f64 / 20.0 / ARMS as f64;
    }
    println!(
        "{name}: saturating {:.3}, linear {:.3}, unclear {:.3}; services {:.3}",
        shares[0], shares[1], shares[2], shares[3]
    );
    shares
}

/// Growth by 0.3 over the time observed, with errors of 0.03.
#[test]
fn shapes_are_told_apart_where_errors_are_independent() {
    let straight = decisions("straight", |t| 0.3 * t, 0.03, 0.0);
    assert!(straight[0] <= 0.01 && straight[1] >= 0.99, "{straight:?}");
    let fast = decisions("tau 0.2", |t| 0.3 * (1.0 - (-t / 0.2).exp()), 0.03, 0.0);
    assert!(fast[0] >= 0.99, "{fast:?}");
    let slow = decisions("tau 0.5", |t| 0.3 * (1.0 - (-t / 0.5).exp()), 0.03, 0.0);
    assert!(slow[1] <= 0.05, "{slow:?}");
    decisions("tau 2", |t| 0.3 * (1.0 - (-t / 2.0).exp()), 0.03, 0.0);
}

/// A walk bends by chance, as often down as up: half of the services at most look saturating, so the arm
/// is not decided to be.
#[test]
fn walks_do_not_make_an_arm_saturate() {
    for walk in [0.05, 0.2, 1.0] {
        let shares = decisions(&format!("straight, walk {walk}"), |t| 0.3 * t, 0.005, walk);
        assert!(shares[0] <= 0.02, "{shares:?}");
    }
    decisions("tau 0.2, walk 0.1", |t| 0.3 * (1.0 - (-t / 0.2).exp()), 0.005, 0.1);
}
