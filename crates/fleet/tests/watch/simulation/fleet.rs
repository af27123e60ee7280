//! Services with realistic noise.

use heaptrial_evaluate::analysis::{DAY, Fleet, FleetArm, FleetLife, FleetService};
use heaptrial_model::Reading;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

pub const ARM: &str = "mimalloc-2.0.9";
/// When the watch begins, in seconds since 1970.
pub const BEGIN: f64 = 1_767_000_000.0;
pub const LEVEL_BYTES: f64 = 1_073_741_824.0;
const EVERY_HOURS: f64 = 2.0;

/// Factor of a service's memory on a day of the watch.
pub type Growing<'g> = &'g dyn Fn(usize, f64) -> f64;

/// Noise of memory on the log scale.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// SD between services.
    pub spread: f64,
    /// SD of the wandering of each service, an AR(1) process,
    pub wander: f64,
    /// and its correlation over an hour.
    pub correlation: f64,
    /// Amplitude of the daily load that all share.
    pub daily: f64,
    /// SD of load that all share from day to day, an AR(1) process with a correlation of 0.98 over an hour.
    pub load: f64,
    /// Restarts of a service a day.
    pub restarts: f64,
    /// Gaps of all readings a day, of 2 to 6 hours.
    pub gaps: f64,
    /// SD of each reading.
    pub reading: f64,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            spread: 0.05,
            wander: 0.02,
            correlation: 0.9,
            daily: 0.03,
            load: 0.01,
            restarts: 0.02,
            gaps: 0.1,
            reading: 0.005,
        }
    }
}

/// Services from day `from` to day `to` of the watch.
pub fn simulate(
    services: usize,
    from: f64,
    to: f64,
    noise: &Noise,
    growing: Growing<'_>,
    random: &mut ChaCha8Rng,
) -> Fleet {
    let steps = ((to - from) * 24.0 / EVERY_HOURS) as usize;
    let mut shared = Wandering::start(0.98, random);
    let load: Vec<f64> = (0..=steps).map(|_| noise.load * shared.step(random)).collect();
    let gaps: Vec<bool> = gaps(steps, noise.gaps, random);
    let services = (0..services)
        .map(|index| {
            let own = noise.spread * standard(random);
            let mut wandering = Wandering::start(noise.correlation, random);
            let mut lives = vec![life(from)];
            let mut since = from;
            for step in 0..=steps {
                let day = from + step as f64 * EVERY_HOURS / 24.0;
                let wander = noise.wander * wandering.step(random);
                if step > 0 && random.random_bool(noise.restarts * EVERY_HOURS / 24.0) {
                    since = day - random.random_range(0.0..EVERY_HOURS / 24.0);
                    lives.push(life(since));
                }
                if gaps[step] {
                    continue;
                }
                // Memory settles after a start.
                let settled = (1.0 - 0.5 * (-(day - since) / 0.3).exp()).ln();
                let daily = noise.daily * (day * std::f64::consts::TAU).sin();
                let log = own + settled + wander + daily + load[step] + noise.reading * standard(random);
                let bytes = LEVEL_BYTES * log.exp() * growing(index, day);
                if let Some(life) = lives.last_mut() {
                    life.readings.push(Reading {
                        age_seconds: ((day - since) * DAY) as f32,
                        kib: (bytes / 1024.0) as u32,
                    });
                }
            }
            lives.retain(|life| !life.readings.is_empty());
            FleetService {
                name: format!("s{index}.service"),
                arms: vec![0],
                lives,
                ..FleetService::default()
            }
        })
        .collect();
    Fleet {
        arms: vec![FleetArm { name: ARM.to_owned(), control: true, ..FleetArm::default() }],
        services,
        identities_proved: true,
        seed: 1,
        ..Fleet::default()
    }
}

fn life(start_day: f64) -> FleetLife {
    FleetLife { started_at: BEGIN + start_day * DAY, proved: true, ..FleetLife::default() }
}

fn gaps(steps: usize, a_day: f64, random: &mut ChaCha8Rng) -> Vec<bool> {
    let mut gaps = vec![false; steps + 1];
    let mut step = 0;
    while step <= steps {
        if random.random_bool(a_day * EVERY_HOURS / 24.0) {
            let length = random.random_range(1..=3);
            gaps.iter_mut().skip(step).take(length).for_each(|gap| *gap = true);
            // One gap does not go over into the next.
            step += length;
        }
        step += 1;
    }
    gaps
}

fn standard(random: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(random)
}

/// A stationary AR(1) process with variance 1.
struct Wandering {
    now: f64,
    keep: f64,
}

impl Wandering {
    fn start(correlation_per_hour: f64, random: &mut ChaCha8Rng) -> Self {
        Self { now: standard(random), keep: correlation_per_hour.powf(EVERY_HOURS) }
    }

    fn step(&mut self, random: &mut ChaCha8Rng) -> f64 {
        self.now = self.keep * self.now + (1.0 - self.keep * self.keep).sqrt() * standard(random);
        self.now
    }
}
