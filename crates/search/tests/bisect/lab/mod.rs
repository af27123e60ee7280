//! Histories and noise as in the lab, for simulations.
#![allow(dead_code)]

use heaptrial_search::bisect::{Answer, Rules, Search};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Noise of runs. Log units; standard deviations.
#[derive(Debug, Clone, Copy)]
pub struct Lab {
    /// Of a run beside another of the same seed.
    pub run: f64,
    /// Of a seed, common to a block.
    pub seed: f64,
    /// How much a seed changes a difference, as a share of it.
    pub difference: f64,
    /// Of a commit's own level.
    pub commit: f64,
    /// How often a run is in another mode, and how far off it is there.
    pub jumps: f64,
    pub jump: f64,
}

impl Lab {
    /// As measured: repeats of a seed 1%, seeds 30%, a run in a hundred in another mode.
    pub const USUAL: Self =
        Self { run: 0.01, seed: 0.26, difference: 0.15, commit: 0.01, jumps: 0.01, jump: 0.65 };

    /// Names, noise and the difference of the ends (log).
    pub fn all() -> Vec<(&'static str, Self, f64)> {
        let usual = Self::USUAL;
        vec![
            ("difference 1.5, runs 1%", usual, 1.5_f64.ln()),
            ("difference 1.1, runs 1%", usual, 1.1_f64.ln()),
            ("difference 1.5, runs 5%", Self { run: 0.05, ..usual }, 1.5_f64.ln()),
            (
                "difference 1.5, runs 1%, every tenth in another mode",
                Self { jumps: 0.1, ..usual },
                1.5_f64.ln(),
            ),
            (
                "difference 1.3, runs 5%, every twentieth in another mode",
                Self { run: 0.05, jumps: 0.05, ..usual },
                1.3_f64.ln(),
            ),
            (
                "difference 1.3, runs 10%, every twentieth in another mode",
                Self { run: 0.1, jumps: 0.05, ..usual },
                1.3_f64.ln(),
            ),
            (
                "difference 2, runs 20%, every tenth in another mode",
                Self { run: 0.2, jumps: 0.1, ..usual },
                2.0_f64.ln(),
            ),
        ]
    }
}

/// What is true.
#[derive(Debug, Clone)]
pub struct History {
    pub last: usize,
    /// First position with a new level, and the change of the log level.
    pub changes: Vec<(usize, f64)>,
    pub untestable: Vec<usize>,
}

impl History {
    pub fn with_change(last: usize, difference: f64, seed: u64) -> Self {
        let at = generator(seed, 1).random_range(1..=last);
        Self { last, changes: vec![(at, difference)], untestable: Vec::new() }
    }

    pub fn level(&self, position: usize) -> f64 {
        self.changes.iter().filter(|(at, _)| *at <= position).map(|(_, change)| change).sum()
    }
}

pub fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(stream);
    generator
}

fn normal(generator: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(generator)
}

impl Lab {
    /// The log ratio of a position to position 0 in one block.
    pub fn block(&self, history: &History, position: usize, seed: u64, number: usize) -> f64 {
        let own = |at: usize| self.commit * normal(&mut generator(seed, 1_000_000 + at as u64));
        let mut generator = generator(seed, 100 + number as u64);
        let common = self.seed * normal(&mut generator);
        let varied = 1.0 + self.difference * normal(&mut generator);
        let mut run = |at: usize| {
            let jumped = generator.random_bool(self.jumps);
            let jump = if jumped { self.jump } else { 0.0 };
            common + history.level(at) * varied + own(at) + self.run * normal(&mut generator) + jump
        };
        let reference = run(0);
        run(position) - reference
    }
}

/// A whole search; gives the answer and the number of runs, two a block. A position that cannot be measured costs a block.
pub fn searched(history: &History, lab: Lab, seed: u64) -> (Answer, usize) {
    let mut search = Search::new(history.last, [], Rules::for_history(history.last));
    let mut blocks = 0;
    loop {
        match search.next() {
            None => return (search.answer(), 2 * blocks),
            Some(position) if history.untestable.contains(&position) => search.skip(position),
            Some(position) => {
                search.take(position, lab.block(history, position, seed, blocks));
                blocks += 1;
            }
        }
    }
}

/// Plain bisection with paired blocks: each step goes by the median of `repeats` against half of the ends' difference.
pub fn plain(history: &History, lab: Lab, seed: u64, repeats: usize) -> (usize, usize) {
    let mut blocks = 0;
    let mut median = |position: usize| {
        let mut ratios: Vec<f64> = (0..repeats)
            .map(|_| {
                blocks += 1;
                lab.block(history, position, seed, blocks - 1)
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios[repeats / 2]
    };
    let half = median(history.last) / 2.0;
    let (mut good, mut bad) = (0, history.last);
    while bad - good > 1 {
        let middle = (good + bad) / 2;
        if (median(middle) > half) == (half > 0.0) { bad = middle } else { good = middle }
    }
    (bad, 2 * blocks)
}
