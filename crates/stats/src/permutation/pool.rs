//! The services of a block, to be assigned anew.

use rand::RngCore;
use rand_chacha::ChaCha8Rng;

use super::reassignment::{Between, Quadratic, Reassignment};
use super::{LogBlock, Scale};

/// The services of one block, to draw its smaller arm from again and again. The order that a draw
/// leaves behind is as good as any other for the next one.
pub(crate) struct Pool {
    /// Distance from the block's mean, so that sums stay exact; and 1 for a service of the arm
    /// that is drawn, else 0.
    services: Vec<(f64, f64)>,
    /// Services in the arm that is drawn, the smaller one, and in the other.
    drawn: usize,
    rest: usize,
    /// The block's weight; negative where the arm that is drawn is the control.
    weight: f64,
    scale: Scale,
    /// Of the whole block: squares, and sum over the arm that is drawn.
    squares: f64,
    marked: f64,
}

/// Sums over the services that are in an arm.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    values: f64,
    squares: f64,
    /// How many of them were in the arm that is drawn, and the sum of their values.
    marks: f64,
    marked: f64,
}

impl Pool {
    pub(crate) fn of(block: &LogBlock, weight: f64, scale: Scale) -> Self {
        let (control, treated) = block;
        let all = control.len() + treated.len();
        let middle = (control.iter().sum::<f64>() + treated.iter().sum::<f64>()) / all as f64;
        let (small, large, sign) =
            if treated.len() <= control.len() { (treated, control, 1.0) } else { (control, treated, -1.0) };
        let marked = |values: &[f64], mark: f64| values.iter().map(move |v| (v - middle, mark)).collect();
        let mut services: Vec<(f64, f64)> = marked(small, 1.0);
        services.extend::<Vec<_>>(marked(large, 0.0));
        Self {
            squares: services.iter().map(|(value, _)| value * value).sum(),
            marked: services.iter().map(|(value, mark)| value * mark).sum(),
            services,
            drawn: small.len(),
            rest: large.len(),
            weight: sign * weight,
            scale,
        }
    }

    /// A random choice by the first steps of the shuffle of Fisher and Yates (D. E. Knuth, "The Art of
    /// Computer Programming", volume 2, algorithm 3.4.2P).
    pub(crate) fn draw(&mut self, random: &mut ChaCha8Rng) -> Reassignment {
        let mut bits = 0;
        let mut sums = Sums::default();
        for place in 0..self.drawn {
            if place % 2 == 0 {
                bits = random.next_u64();
            }
            let chosen = place + below(self.services.len() - place, &mut bits);
            self.services.swap(place, chosen);
            sums.add(self.services[place]);
        }
        self.reassignment(sums)
    }

    /// The assignment that was observed: the arm that is drawn comes first.
    pub(super) fn as_it_is(&self) -> Reassignment {
        let mut sums = Sums::default();
        self.services[..self.drawn].iter().for_each(|service| sums.add(*service));
        self.reassignment(sums)
    }

    pub(super) fn all(&mut self) -> Vec<Reassignment> {
        let mut chosen: Vec<usize> = (0..self.drawn).collect();
        let mut found = Vec::new();
        loop {
            let mut sums = Sums::default();
            chosen.iter().for_each(|index| sums.add(self.services[*index]));
            found.push(self.reassignment(sums));
            // The next combination in lexicographic order.
            let Some(place) = (0..self.drawn).rev().find(|i| chosen[*i] < self.rest + i) else {
                return found;
            };
            chosen[place] += 1;
            for i in place + 1..self.drawn {
                chosen[i] = chosen[i - 1] + 1;
            }
        }
    }

    /// What it is to have those services in the arm that is drawn.
    fn reassignment(&self, sums: Sums) -> Reassignment {
        let (drawn, rest) = (self.drawn as f64, self.rest as f64);
        // The sum over the block is 0, so the other arm's sum is the opposite.
        let difference = sums.values / drawn + sums.values / rest;
        // Of the arm that is drawn `stayed` are in it; as many left it as came from the other arm.
        let kept = sums.marks / drawn - (drawn - sums.marks) / rest;
        let (difference, kept) = (self.weight * difference, self.weight.abs() * kept);
        let mut found = Reassignment { difference, kept, ..Reassignment::default() };
        match self.scale {
            Scale::Plain => {}
            Scale::Within => found.variance = self.within(sums).times(self.weight * self.weight),
            Scale::Between => found.between = Between::of(difference, kept, self.weight.abs()),
        }
        found
    }

    /// The variance of the difference of means: of each arm, over its size.
    fn within(&self, sums: Sums) -> Quadratic {
        let rest = Sums {
            values: -sums.values,
            squares: self.squares - sums.squares,
            marks: self.drawn as f64 - sums.marks,
            marked: self.marked - sums.marked,
        };
        // Where the arm that is drawn is the control, the shift is taken from the others.
        let sign = self.weight.signum();
        sums.variance(self.drawn as f64, sign).plus(rest.variance(self.rest as f64, sign))
    }
}

impl Sums {
    fn add(&mut self, (value, mark): (f64, f64)) {
        self.values += value;
        self.squares += value * value;
        self.marks += mark;
        self.marked += value * mark;
    }

    /// The variance of the mean of `n` services, as it depends on the shift.
    fn variance(self, n: f64, sign: f64) -> Quadratic {
        let Self { values, squares, marks, marked } = self;
        let moments = Quadratic {
            square: squares - values * values / n,
            mixed: sign * (marked - values * marks / n),
            shift: marks - marks * marks / n,
        };
        moments.times(1.0 / (n * (n - 1.0)))
    }
}

/// A number below `range` by multiplication; what remains of the random `bits` serves for the next one.
///
/// N. Brackett-Rozinsky, D. Lemire, "Batched Ranged Random Integer Generation", Software: Practice and
/// Experience 55 (2025). Their rejection step is left out: with two numbers per 64 bits the odds of a
/// number are off by at most the product of the ranges over 2^64, 1e-12 for 4,000 services.
fn below(range: usize, bits: &mut u64) -> usize {
    let product = u128::from(*bits) * range as u128;
    *bits = product as u64;
    (product >> 64) as usize
}
