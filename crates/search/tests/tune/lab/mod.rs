//! A lab on paper: a level for every candidate of a space and every seed, searched as the lab is.

#![allow(dead_code)] // each that uses it uses a part

use std::collections::BTreeSet;

use heaptrial_search::tune::{
    ArmFigures, Base, Block, Candidate, Figure, Level, Limits, Rules, Search, Setting, Space, doubt, verified,
};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

/// What a run of an arm with a seed gives. The control is `None`.
pub trait Lab {
    fn space(&self) -> &Space;
    /// Natural logarithm of the level.
    fn run(&self, candidate: Option<&Candidate>, seed: u64) -> f64;
    /// Logarithm of the true ratio to the control.
    fn truth(&self, candidate: &Candidate) -> f64;
}

/// The log of what a control needs, in bytes: 100 MB.
const CONTROL: f64 = 18.4;

/// Standard deviation of what a candidate is off by itself.
const OWN: f64 = 0.03;

/// Blocks of a search that is verified, and of the verification.
const SEARCHED: usize = 4;
const VERIFIED: usize = 5;

pub fn rules(arms: usize) -> Rules {
    Rules { limits: Limits::default(), arms, margin: 1.01_f64.ln(), error: 0.05, winners: 1 }
}

pub fn block(lab: &dyn Lab, search: &Search, arms: &[usize], seed: u64) -> Block {
    let figures =
        |candidate| ArmFigures { level: CONTROL + lab.run(candidate, seed), ..ArmFigures::default() };
    Block {
        control: figures(None),
        arms: arms.iter().map(|arm| (*arm, figures(Some(&search.candidates()[*arm])))).collect(),
    }
}

/// Searches with at most so many runs, the control's among them; gives the winner.
pub fn searched(lab: &dyn Lab, rules: Rules, runs: usize, seed: u64) -> (Search, Option<Candidate>) {
    let mut search = Search::new(lab.space().clone(), rules, None, seed);
    let mut left = runs;
    for number in 0.. {
        let Some(mut arms) = search.next_step() else { break };
        arms.truncate(left.saturating_sub(1));
        if arms.is_empty() {
            break;
        }
        left -= arms.len() + 1;
        let block = block(lab, &search, &arms, seed.wrapping_mul(1000) + number);
        search.take(block);
    }
    let winner = search.winners().first().map(|at| search.candidates()[*at].clone());
    (search, winner)
}

/// The best of as many candidates as so many runs allow, drawn without looking, each once beside the control of its block.
pub fn drawn(lab: &dyn Lab, arms: usize, runs: usize, seed: u64) -> Candidate {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let all = lab.space().all(100_000).unwrap();
    let blocks = runs / (arms + 1);
    let chosen: Vec<&Candidate> = all.choose_multiple(&mut random, blocks * arms).collect();
    let ratio = |(number, candidate): (usize, &&Candidate)| {
        let seed = seed.wrapping_mul(1000) + (number / arms) as u64;
        lab.run(Some(candidate), seed) - lab.run(None, seed)
    };
    let best = chosen.iter().enumerate().min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
    (*best.unwrap().1).clone()
}

/// A landscape as lab runs have them: each setting acts by itself, some act otherwise together; seeds differ, and a seed
/// changes how candidates differ.
pub struct Landscape {
    space: Space,
    /// By base and setting: each level's part. By base: pairs of levels that act otherwise together.
    bases: Vec<(f64, Vec<Vec<f64>>)>,
    noise: f64,
    /// One run in so many is in another mode and twice as large.
    other_mode: Option<f64>,
    number: u64,
}

impl Landscape {
    pub fn new(number: u64, noise: f64, other_mode: Option<f64>) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(number);
        let mut draw = |sd: f64| Normal::new(0.0, sd).unwrap().sample(&mut random);
        let level = |at: usize, of: usize| Level {
            value: (at > 0).then(|| at.to_string()),
            position: Some(at as f64 / (of - 1) as f64),
        };
        let mut bases = Vec::new();
        let mut parts = Vec::new();
        for (name, counts) in
            [("a@1", vec![5, 4, 3]), ("a@2", vec![5, 4, 3]), ("b@1", vec![4, 3, 3]), ("c@1", vec![6])]
        {
            let settings = counts.iter().enumerate().map(|(at, count)| Setting {
                name: format!("s{at}"),
                levels: (0..*count).map(|at| level(at, *count)).collect(),
                needs: Vec::new(),
                excludes: Vec::new(),
            });
            bases.push(Base {
                name: name.to_owned(),
                family: name[..1].to_owned(),
                settings: settings.collect(),
            });
            let of_settings = counts.iter().map(|count| {
                // Along the scale, with a bend and something of each level.
                let (slope, bend) = (draw(0.25), draw(0.15));
                (0..*count)
                    .map(|at| {
                        let x = at as f64 / (*count - 1) as f64;
                        if at == 0 { 0.0 } else { slope * x + bend * x * (1.0 - x) * 4.0 + draw(0.02) }
                    })
                    .collect::<Vec<f64>>()
            });
            let of_settings = of_settings.collect();
            parts.push((draw(0.3) - 0.2, of_settings));
        }
        Self { space: Space { bases }, bases: parts, noise, other_mode, number }
    }

    /// Of one allocator with one setting of six levels.
    pub fn small(number: u64, noise: f64) -> Self {
        let mut whole = Self::new(number, noise, None);
        whole.space.bases.drain(..3);
        whole.bases.drain(..3);
        whole
    }

    /// By how much a candidate is off by itself, whatever its settings.
    fn own(&self, candidate: &Candidate) -> f64 {
        let text = format!("{}{candidate:?}", self.number);
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Normal::new(0.0, OWN).unwrap().sample(&mut ChaCha8Rng::seed_from_u64(seed))
    }
}

impl Lab for Landscape {
    fn space(&self) -> &Space {
        &self.space
    }

    fn truth(&self, candidate: &Candidate) -> f64 {
        let (base, settings) = &self.bases[candidate.base];
        let parts = settings.iter().zip(&candidate.levels).map(|(levels, level)| levels[*level]);
        base + parts.sum::<f64>() + self.own(candidate)
    }

    fn run(&self, candidate: Option<&Candidate>, seed: u64) -> f64 {
        let mut of_seed = ChaCha8Rng::seed_from_u64(seed ^ self.number.rotate_left(32));
        let normal = |sd: f64, random: &mut ChaCha8Rng| Normal::new(0.0, sd).unwrap().sample(random);
        let whole = normal(0.26, &mut of_seed);
        let stretched = 1.0 + normal(0.15, &mut of_seed);
        let arm = candidate.map_or(u64::MAX, |one| {
            one.levels.iter().fold(one.base as u64, |sum, level| sum * 31 + *level as u64)
        });
        let mut of_run = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(7919) ^ arm.wrapping_mul(104_729));
        let noise = normal(self.noise, &mut of_run);
        let mode = match self.other_mode {
            Some(share) if of_run.random_bool(share) => 1.9_f64.ln(),
            _ => 0.0,
        };
        whole + candidate.map_or(0.0, |one| self.truth(one)) * stretched + noise + mode
    }
}

/// How far the best of `lab` lies below a candidate: a log ratio.
pub fn regret(lab: &dyn Lab, candidate: &Candidate) -> f64 {
    let all: BTreeSet<Candidate> = lab.space().all(100_000).unwrap().into_iter().collect();
    let best = all.iter().map(|one| lab.truth(one)).fold(0.0, f64::min);
    lab.truth(candidate) - best
}

/// A lab in which all candidates of a landscape are as good as the control.
pub struct Alike {
    space: Space,
    noise: f64,
    other_mode: Option<f64>,
}

impl Alike {
    pub fn new(noise: f64, other_mode: Option<f64>) -> Self {
        Self { space: Landscape::new(1, noise, None).space, noise, other_mode }
    }

    fn figures(&self, random: &mut ChaCha8Rng, of_seed: f64) -> ArmFigures {
        let noise = Normal::new(0.0, self.noise).unwrap();
        let mode = match self.other_mode {
            Some(share) if random.random_bool(share) => 1.9_f64.ln(),
            _ => 0.0,
        };
        ArmFigures { level: CONTROL + of_seed + noise.sample(random) + mode, ..ArmFigures::default() }
    }

    fn block(&self, arms: &[usize], random: &mut ChaCha8Rng) -> Block {
        let of_seed = Normal::new(0.0, 0.26).unwrap().sample(random);
        let control = self.figures(random, of_seed);
        let arms = arms.iter().map(|arm| (*arm, self.figures(random, of_seed))).collect();
        Block { control, arms }
    }

    /// Searches, verifies, and gives whether a winner is named.
    pub fn is_named(&self, rules: &Rules, seed: u64) -> bool {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut search = Search::new(self.space.clone(), rules.clone(), None, seed);
        for _ in 0..SEARCHED {
            let Some(arms) = search.next_step() else { break };
            let block = self.block(&arms, &mut random);
            search.take(block);
        }
        let winners = search.winners().len();
        let arms: Vec<usize> = (0..winners).collect();
        let blocks: Vec<Block> = (0..VERIFIED).map(|_| self.block(&arms, &mut random)).collect();
        let found = verified(&blocks, winners, &[], &[Figure::Level], 0.95);
        found.iter().any(|winner| {
            let against = |figure| winner.iter().find(|against| against.figure == figure);
            doubt(rules.margin, &rules.limits, VERIFIED, against).is_none()
        })
    }
}
