//! Fleets by scenario.

use heaptrial_evaluate::analysis::{Clock, Fleet, FleetArm, FleetLife, FleetService, MemoryLimit};
use heaptrial_model::Reading;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::random::{Wandering, standard};
use super::scenario::{Scenario, Starts};

const DAY: f64 = 86_400.0;
/// The level of an arm of ratio 1 in KiB.
const LEVEL_KIB: f64 = 1_048_576.0;
/// When the first service starts: some day in seconds since 1970.
const BEGIN: f64 = 1_760_000_000.0;

/// A simulated fleet.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The fleet.
    pub fleet: Fleet,
    /// The services with which something is wrong.
    pub odd: Vec<usize>,
    /// What each arm does beside its ratio on the hosts, on the log scale: mean over them.
    pub effects: Vec<f64>,
}

/// Simulates a fleet. The same scenario and seed give the same fleet.
pub fn simulate(scenario: &Scenario, seed: u64) -> Simulated {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (arms, blocks) = assign(scenario, &mut random);
    let hours = scenario.every_hours;
    let collections = (scenario.days * 24.0 / hours) as usize;
    let mut shared = Wandering::start(&mut random, scenario.load.correlation, hours, false);
    let load: Vec<f64> = (0..=collections).map(|_| scenario.load.sd * shared.step(&mut random)).collect();
    let mut shift = vec![0.0; blocks.iter().max().map_or(0, |last| *last as usize + 1)];
    shift.fill_with(|| scenario.blocks.map_or(0.0, |blocks| blocks.sd * standard(&mut random, false)));
    let on_hosts = OnHosts::draw(scenario, &mut random);
    let count = shift.len();
    let host_of = |index: usize| scenario.hosts.map(|hosts| blocks[index] as usize * hosts.count / count);
    let in_arm = places_in_arms(&arms, scenario.arms.len());
    let odd: Vec<usize> = scenario.oddity.iter().flat_map(|oddity| oddity.services(&arms, &in_arm)).collect();
    let services = (0..arms.len())
        .map(|index| {
            let runs = match (&scenario.oddity, odd.contains(&index)) {
                (Some(oddity), true) => oddity.runs(arms[index]),
                _ => arms[index],
            };
            let life = Life {
                scenario,
                runs,
                own: shift[blocks[index] as usize]
                    + host_of(index).map_or(0.0, |host| on_hosts.shift(host, runs))
                    + scenario.spread
                        * host_of(index).map_or(1.0, |host| on_hosts.spread(host))
                        * scenario.arms[arms[index]].spread_factor
                        * standard(&mut random, scenario.spread_tails),
                start: start(scenario, arms[index], in_arm[index], &mut random),
            };
            FleetService {
                host: host_of(index).map(|host| format!("host{host}")),
                name: format!("s{index:03}"),
                arms: vec![arms[index]],
                block: blocks[index],
                limit_bytes: None,
                lives: life.lives(&load, &mut random),
            }
        })
        .collect();
    let mut fleet = Fleet {
        arms: (0..scenario.arms.len()).map(arm).collect(),
        services,
        events: Vec::new(),
        limit: MemoryLimit::default(),
        randomised: true,
        identities_proved: false,
        clock: Clock::Calendar,
        seed,
    };
    if let Some(oddity) = &scenario.oddity {
        oddity.spoil(&mut fleet, &odd, &mut random);
    }
    Simulated { fleet, odd, effects: on_hosts.means(scenario.arms.len()) }
}

/// What is drawn for hosts.
struct OnHosts {
    shifts: Vec<f64>,
    /// By host and arm; the control has none.
    effects: Vec<Vec<f64>>,
    spread_factor: f64,
}

impl OnHosts {
    fn draw(scenario: &Scenario, random: &mut ChaCha8Rng) -> Self {
        let Some(hosts) = scenario.hosts else {
            return Self { shifts: Vec::new(), effects: Vec::new(), spread_factor: 1.0 };
        };
        let shifts = (0..hosts.count).map(|_| hosts.sd * standard(random, false)).collect();
        let mut effect = |arm: usize| {
            let drawn = hosts.effect_sd * standard(random, false);
            if arm == 0 { 0.0 } else { drawn }
        };
        let effects = (0..hosts.count).map(|_| (0..scenario.arms.len()).map(&mut effect).collect()).collect();
        Self { shifts, effects, spread_factor: hosts.spread_factor }
    }

    fn shift(&self, host: usize, arm: usize) -> f64 {
        self.shifts[host] + self.effects[host][arm]
    }

    fn spread(&self, host: usize) -> f64 {
        let last = self.shifts.len().saturating_sub(1).max(1);
        1.0 + (self.spread_factor - 1.0) * host as f64 / last as f64
    }

    fn means(&self, arms: usize) -> Vec<f64> {
        let hosts = self.effects.len().max(1) as f64;
        (0..arms).map(|arm| self.effects.iter().map(|own| own[arm]).sum::<f64>() / hosts).collect()
    }
}

fn arm(index: usize) -> FleetArm {
    FleetArm { name: format!("arm {index}"), control: index == 0, ..FleetArm::default() }
}

/// Arm and block of each service.
fn assign(scenario: &Scenario, random: &mut ChaCha8Rng) -> (Vec<usize>, Vec<u32>) {
    let mut arms: Vec<usize> =
        scenario.arms.iter().enumerate().flat_map(|(arm, of)| vec![arm; of.services]).collect();
    let Some(blocks) = scenario.blocks else {
        arms.shuffle(random);
        let none = vec![0; arms.len()];
        return (arms, none);
    };
    // Each block holds every arm equally often.
    let mut assigned = Vec::with_capacity(arms.len());
    for _ in 0..arms.len() / blocks.services {
        let mut block: Vec<usize> = (0..blocks.services).map(|place| place % scenario.arms.len()).collect();
        block.shuffle(random);
        assigned.extend(block);
    }
    let numbers = (0..assigned.len()).map(|index| (index / blocks.services) as u32).collect();
    (assigned, numbers)
}

/// Of each service, how many of its arm come before it.
fn places_in_arms(arms: &[usize], count: usize) -> Vec<usize> {
    let mut seen = vec![0; count];
    arms.iter()
        .map(|arm| {
            seen[*arm] += 1;
            seen[*arm] - 1
        })
        .collect()
}

/// When a service starts, in days from the first.
fn start(scenario: &Scenario, arm: usize, place: usize, random: &mut ChaCha8Rng) -> f64 {
    match scenario.starts {
        Starts::Together => 0.0,
        Starts::Staggered(days) => random.random_range(0.0..days),
        Starts::Batches(days) => days * (place % 2) as f64,
        Starts::ByArm(days) => days * arm as f64,
    }
}

/// What the lives of a service are drawn from.
struct Life<'s> {
    scenario: &'s Scenario,
    /// The arm whose treatment it runs.
    runs: usize,
    /// Its own distance from the level of its arm.
    own: f64,
    /// First start in days.
    start: f64,
}

impl Life<'_> {
    fn lives(&self, load: &[f64], random: &mut ChaCha8Rng) -> Vec<FleetLife> {
        let scenario = self.scenario;
        let arm = &scenario.arms[self.runs];
        let step = scenario.every_hours / 24.0;
        let mut wandering =
            Wandering::start(random, scenario.correlation, scenario.every_hours, scenario.wander_tails);
        let mut lives = vec![life(self.start)];
        let mut since = self.start;
        for (place, load) in load.iter().enumerate() {
            let now = place as f64 * step;
            let wander = scenario.wander * wandering.step(random);
            if now < self.start {
                continue;
            }
            if scenario.restarts_per_day > 0.0
                && now > since
                && random.random_bool(-(-scenario.restarts_per_day * step).exp_m1())
            {
                since = now - step * random.random_range(0.0..1.0);
                since = since.max(self.start);
                lives.push(life(since));
            }
            if scenario.missing > 0.0 && random.random_bool(scenario.missing) {
                continue;
            }
            let age = now - since;
            let settled = (1.0 - scenario.settling * (-age / scenario.settling_days).exp()).ln();
            let log = arm.ratio.ln()
                + self.own
                + settled
                + arm.course.log_at(age)
                + wander
                + load
                + scenario.noise * standard(random, false);
            let reading =
                Reading { age_seconds: (age * DAY) as f32, kib: (LEVEL_KIB * log.exp()).round() as u32 };
            if let Some(life) = lives.last_mut() {
                life.readings.push(reading);
            }
        }
        lives
    }
}

fn life(start_days: f64) -> FleetLife {
    FleetLife { started_at: BEGIN + start_days * DAY, ..FleetLife::default() }
}
