//! Trials in variety: every seed another kind, as real ones are.

use heaptrial_evaluate::analysis::{
    Fleet, FleetArm, FleetEvent, FleetLife, FleetService, Measure, MemoryLimit,
};
use heaptrial_model::{LifeStart, Reading};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::random::{Wandering, standard};
use super::scenario::{Course, Starts};

const DAY: f64 = 86_400.0;
const BEGIN: f64 = 1_760_000_000.0;
const KIB_OF_GIB: f64 = 1_048_576.0;
/// Readings of a fleet at most: more tell nothing new and take their time.
const READINGS_AT_MOST: f64 = 30_000.0;

/// A trial with what is true of it.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What kinds of things were drawn, for a message.
    pub kind: String,
    /// The fleet.
    pub fleet: Fleet,
    /// Of each arm.
    pub truth: Vec<Truth>,
}

/// What is true of an arm.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    /// Expected logarithm of its services' levels, where they do not depend on age and nothing is wrong with them.
    pub log_level: Option<f64>,
    /// Slope of the logarithm of memory a day, where it is the same at all ages and for all services.
    pub slope: Option<f64>,
    /// Expected work a second, where it was measured of all services.
    pub work: Option<f64>,
}

/// What the services of an arm are like.
#[derive(Debug, Clone, Copy)]
struct Kind {
    services: usize,
    level: f64,
    spread: f64,
    tails: bool,
    /// Share of services at 0.4 of the level: half of them have a cache.
    bimodal: bool,
    course: Course,
    /// Of the services a quarter leaks.
    leaks: bool,
    memory: Memory,
    restart_every: Option<f64>,
    work: Option<f64>,
    start: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Memory {
    Wandering,
    Constant,
    Zero,
    Unread,
}

/// When and how services are read.
#[derive(Debug, Clone, Copy)]
struct Reads {
    every: f64,
    days: f64,
    /// Readings of a service that are kept.
    at_most: Option<usize>,
    missing: f64,
    gap: bool,
    /// Memory is rounded to so many KiB: ties.
    grain: f64,
    load: f64,
    starts: Starts,
    unknown_starts: f64,
    contaminated: f64,
    blocks: u32,
    /// Noise and settling are left out, as in a trial where truths are looked at.
    plain: bool,
}

/// Draws a trial. The same seed gives the same one; `plain` ones have truths by which intervals can be counted.
pub fn draw(seed: u64, plain: bool) -> Trial {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let count = if plain { random.random_range(2..=4) } else { random.random_range(2..=9) };
    let sizes: &[usize] = if plain { &[6, 8, 10, 14, 20] } else { &[1, 1, 2, 3, 4, 6, 9, 14] };
    let one_size = sizes.choose(random).copied().filter(|_| random.random_bool(0.5));
    let work = random.random_bool(0.5);
    let reads = reads(random, plain);
    let kinds: Vec<Kind> = (0..count)
        .map(|arm| {
            let services = one_size.unwrap_or_else(|| sizes.choose(random).copied().unwrap_or(2));
            kind(random, arm, services, work, &reads)
        })
        .collect();
    let total: usize = kinds.iter().map(|kind| kind.services).sum();
    let kept = (READINGS_AT_MOST / total as f64 / (reads.days / reads.every)).min(1.0);
    let reads = Reads { missing: reads.missing.max(1.0 - kept), ..reads };
    let steps = (reads.days / reads.every) as usize;
    let mut shared = Wandering::start(random, 0.98, reads.every * 24.0, false);
    let load: Vec<f64> = (0..=steps).map(|_| reads.load * shared.step(random)).collect();
    let mut services = Vec::new();
    for (arm, kind) in kinds.iter().enumerate() {
        for place in 0..kind.services {
            services.push(service(random, (arm, kind), place, services.len(), &reads, &load));
        }
    }
    let fleet = Fleet {
        arms: kinds.iter().enumerate().map(|(arm, kind)| arm_of(arm, kind)).collect(),
        services,
        events: if !plain && random.random_bool(0.2) {
            vec![change(random, count, reads.days)]
        } else {
            Vec::new()
        },
        limit: MemoryLimit {
            host_available_bytes: random.random_bool(0.3).then(|| random.random_range(1e9..1e12)),
            ..MemoryLimit::default()
        },
        randomised: random.random_bool(0.7),
        identities_proved: plain || random.random_bool(0.3),
        seed,
        ..Fleet::default()
    };
    let truth = kinds.iter().map(|kind| truth(kind, &reads)).collect();
    Trial { kind: format!("seed {seed}: {reads:?} {kinds:?}"), fleet, truth }
}

fn reads(random: &mut ChaCha8Rng, plain: bool) -> Reads {
    let (every, days) = *[
        (10.0 / 1440.0, 1.0),
        (10.0 / 1440.0, 3.0),
        (1.0 / 24.0, 4.0),
        (1.0 / 24.0, 8.0),
        (0.25, 12.0),
        (1.0, 14.0),
        (1.0, 30.0),
    ]
    .choose(random)
    .unwrap_or(&(0.25, 8.0));
    let seldom = |random: &mut ChaCha8Rng, share: f64| !plain && random.random_bool(share);
    let starts = [Starts::Together, Starts::Staggered(days / 3.0), Starts::ByArm(days / 12.0)];
    Reads {
        every,
        days,
        at_most: seldom(random, 0.25).then(|| random.random_range(1..=4)),
        missing: if seldom(random, 0.3) { 0.2 } else { 0.0 },
        gap: seldom(random, 0.2),
        grain: if seldom(random, 0.3) { 65_536.0 } else { 1.0 },
        load: if seldom(random, 0.3) { 0.1 } else { 0.0 },
        starts: if plain { Starts::Together } else { *starts.choose(random).unwrap_or(&Starts::Together) },
        unknown_starts: if seldom(random, 0.2) { random.random_range(0.0..1.0) } else { 0.0 },
        contaminated: if seldom(random, 0.2) { 0.1 } else { 0.0 },
        blocks: if random.random_bool(0.3) { random.random_range(2..5) } else { 1 },
        plain,
    }
}

fn kind(random: &mut ChaCha8Rng, arm: usize, services: usize, work: bool, reads: &Reads) -> Kind {
    let seldom = |random: &mut ChaCha8Rng, share: f64| !reads.plain && random.random_bool(share);
    let courses = [
        Course::Steady(0.0),
        Course::Steady(0.0),
        Course::Steady(0.03),
        Course::Straight(0.1),
        Course::Saturating(1.0, reads.days / 5.0),
    ];
    let memory = if seldom(random, 0.06) {
        *[Memory::Constant, Memory::Zero, Memory::Unread].choose(random).unwrap_or(&Memory::Constant)
    } else {
        Memory::Wandering
    };
    let starts = match reads.starts {
        Starts::ByArm(days) => days * arm as f64,
        _ => 0.0,
    };
    Kind {
        services,
        level: (random.random_range(-1.5..1.5_f64)).exp(),
        spread: *[0.01, 0.06, 0.06, 0.2].choose(random).unwrap_or(&0.06),
        tails: random.random_bool(0.2),
        bimodal: random.random_bool(if reads.plain { 0.1 } else { 0.15 }),
        course: if reads.plain {
            Course::Steady(*[0.0, 0.0, 0.02].choose(random).unwrap_or(&0.0))
        } else {
            *courses.choose(random).unwrap_or(&Course::Steady(0.0))
        },
        leaks: seldom(random, 0.15),
        memory,
        restart_every: seldom(random, 0.08).then_some(reads.days / 6.0),
        work: (work && !seldom(random, 0.15)).then(|| {
            if seldom(random, 0.15) {
                0.0
            } else {
                *[100.0, 100.0, 95.0, 40.0].choose(random).unwrap_or(&100.0)
            }
        }),
        start: starts.min(0.8 * reads.days),
    }
}

fn truth(kind: &Kind, reads: &Reads) -> Truth {
    let steady = match kind.course {
        Course::Steady(slope) => Some(slope),
        _ => None,
    };
    let usual =
        reads.plain && kind.memory == Memory::Wandering && !kind.leaks && kind.restart_every.is_none();
    // Of heavy tails and of two levels the median service's slope is that of all.
    Truth {
        log_level: steady
            .filter(|slope| usual && *slope == 0.0)
            .map(|_| kind.level.ln() + if kind.bimodal { 0.5 * 0.4_f64.ln() } else { 0.0 }),
        slope: steady.filter(|_| usual),
        work: kind.work.filter(|_| reads.plain),
    }
}

fn arm_of(arm: usize, kind: &Kind) -> FleetArm {
    FleetArm { name: format!("arm {arm}"), control: arm == 0, restarted: kind.restart_every.is_some() }
}

fn change(random: &mut ChaCha8Rng, arms: usize, days: f64) -> FleetEvent {
    FleetEvent {
        host: None,
        at: BEGIN + DAY * random.random_range(0.0..days),
        arm: Some(random.random_range(0..arms)),
        service: None,
        kind: heaptrial_model::KnownEvent::Experiment.into(),
        changes_treatment: true,
        text: "experiment: another allocator".to_owned(),
    }
}

fn service(
    random: &mut ChaCha8Rng,
    (arm, kind): (usize, &Kind),
    place: usize,
    index: usize,
    reads: &Reads,
    load: &[f64],
) -> FleetService {
    let start = match reads.starts {
        Starts::Staggered(days) => random.random_range(0.0..days),
        _ => kind.start,
    };
    // Which half has a cache is drawn, as a trial would.
    let half = if kind.bimodal && random.random_bool(0.5) { 0.4 } else { 1.0 };
    let own = kind.level.ln() + half_log(half) + kind.spread * standard(random, kind.tails);
    let leak = if kind.leaks && place % 4 == 0 { Course::Straight(0.3) } else { Course::Steady(0.0) };
    let mut wandering = Wandering::start(random, 0.9, reads.every * 24.0, false);
    let mut lives = vec![life(start, kind)];
    let unread = kind.memory == Memory::Unread;
    let gap = reads.days * random.random_range(0.2..0.7);
    for (step, load) in load.iter().enumerate() {
        let now = step as f64 * reads.every;
        let wander = 0.02 * wandering.step(random);
        let since = lives.last().map_or(start, |life| (life.started_at - BEGIN) / DAY);
        if now < start || unread {
            continue;
        }
        if kind.restart_every.is_some_and(|every| now - since >= every) {
            lives.push(life(now, kind));
        }
        let in_gap = reads.gap && (gap..gap + 0.15 * reads.days).contains(&now);
        if in_gap || (reads.missing > 0.0 && random.random_bool(reads.missing)) {
            continue;
        }
        let Some(life) = lives.last_mut() else { continue };
        let age = now - (life.started_at - BEGIN) / DAY;
        let settled = if reads.plain { 0.0 } else { (1.0 - 0.5 * (-age / 0.3).exp()).ln() };
        let log = own + settled + kind.course.log_at(age) + leak.log_at(age) + load;
        let kib = match kind.memory {
            Memory::Constant => KIB_OF_GIB,
            Memory::Zero | Memory::Unread => 0.0,
            Memory::Wandering => KIB_OF_GIB * (log + wander + 0.005 * standard(random, false)).exp(),
        };
        let kib = (kib / reads.grain).round() * reads.grain;
        life.readings.push(Reading { age_seconds: (age * DAY) as f32, kib: kib as u32 });
    }
    finish(random, &mut lives, kind, reads);
    FleetService {
        host: None,
        name: format!("s{index:03}"),
        arms: vec![arm],
        block: place as u32 % reads.blocks,
        limit_bytes: None,
        lives,
    }
}

fn half_log(half: f64) -> f64 {
    half.ln()
}

fn life(start_days: f64, kind: &Kind) -> FleetLife {
    FleetLife {
        started_at: BEGIN + start_days * DAY,
        proved: kind.memory != Memory::Unread,
        ..FleetLife::default()
    }
}

/// Leaves readings out, forgets starts, adds what a life did.
fn finish(random: &mut ChaCha8Rng, lives: &mut [FleetLife], kind: &Kind, reads: &Reads) {
    let rate = kind.work.map(|work| work * (0.05 * standard(random, false)).exp());
    for life in lives {
        if let Some(keep) = reads.at_most {
            while life.readings.len() > keep {
                life.readings.remove(random.random_range(0..life.readings.len()));
            }
        }
        if let (Some(rate), Some(last)) = (rate, life.readings.last()) {
            let end = last.age_seconds;
            let counter = (0..=20).map(|part| end * part as f32 / 20.0);
            let counter = counter.map(|age| (age, rate * f64::from(age))).collect();
            life.work.measures.push(Measure::done("documents", counter));
        }
        if reads.contaminated > 0.0 && random.random_bool(reads.contaminated) {
            life.contamination = Some("something else was mapped".to_owned());
        }
        if reads.unknown_starts > 0.0 && random.random_bool(reads.unknown_starts) {
            life.start = LifeStart::Unknown;
        }
    }
}
