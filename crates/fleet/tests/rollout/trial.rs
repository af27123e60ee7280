//! A trial whose ratio is known.

use heaptrial_evaluate::analysis::{Fleet, FleetArm, FleetLife, FleetService};
use heaptrial_model::Reading;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const HOUR: f64 = 3600.0;
pub const CONTROL: usize = 0;
pub const ARM: usize = 1;

/// A trial of two arms in blocks of two services of one size; `ratio` is what the arm makes of a service's memory.
pub fn trial(sizes: &[f64], ratio: f64, spread: f64, seed: u64) -> Fleet {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut services = Vec::new();
    for (block, size) in sizes.iter().enumerate() {
        for (arm, factor) in [(CONTROL, 1.0), (ARM, ratio)] {
            let noise: f64 = random.random_range(-spread..=spread);
            services.push(FleetService {
                name: format!("web@{block}{arm}.service"),
                arms: vec![arm],
                block: block as u32,
                lives: vec![life(size * factor * noise.exp())],
                ..FleetService::default()
            });
        }
    }
    let arm = |(name, control): (&str, bool)| FleetArm { name: name.into(), control, ..FleetArm::default() };
    Fleet {
        arms: [("glibc", true), ("mimalloc", false)].map(arm).into(),
        services,
        identities_proved: true,
        ..Fleet::default()
    }
}

fn life(bytes: f64) -> FleetLife {
    let reading = |number: i32| Reading {
        age_seconds: (f64::from(number) * HOUR) as f32,
        kib: (bytes / 1024.0) as u32,
    };
    FleetLife { proved: true, readings: (0..=72).map(reading).collect(), ..FleetLife::default() }
}
