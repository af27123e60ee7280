//! Which candidates the next block has.

use std::collections::BTreeSet;

use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Compared, Search, Standing};
use crate::model::{Model, noises};
use crate::proposal::{Bound, Choice};
use crate::space::Candidate;

/// Noise of a run's log where nothing tells it yet.
const USUAL_NOISE: f64 = 0.05;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Measure these candidates, by their positions, beside the control in a block.
    Measure(Vec<usize>),
    /// The same in a block of short runs.
    Short(Vec<usize>),
    /// Nothing is left that could be better.
    Exhausted,
}

impl Search {
    /// What to measure next. The same seed and the same blocks give the same answer.
    pub fn next_step(&mut self) -> Next {
        self.next_within(f64::INFINITY)
    }

    /// The same where the budget holds so many whole blocks more: short runs are of no use without a whole one after them.
    pub fn next_within(&mut self, left: f64) -> Next {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.blocks.len() as u64 + 1);
        let arms = self.rules.arms.max(2);
        let mut out: BTreeSet<Candidate> = self.control.iter().cloned().collect();
        out.extend(self.dropped.keys().map(|at| self.candidates[*at].clone()));
        let mut chosen: Vec<Candidate> = Vec::new();
        let front = self.front();
        let leader = match self.rules.goals.len() {
            1 => front.first(),
            _ if front.is_empty() => None,
            _ => front.get(random.random_range(0..front.len())),
        };
        chosen.extend(leader.map(|leader| self.candidates[leader.candidate].clone()));
        // Every allocator as it comes, before anything is set.
        let measured = self.arms();
        let known =
            |candidate: &Candidate| self.positions.get(candidate).is_some_and(|at| measured.contains(at));
        let plain = self.space.defaults().filter(|candidate| !out.contains(candidate) && !known(candidate));
        let plain: Vec<Candidate> = plain.collect();
        let all_known = plain.is_empty();
        chosen.extend(plain.into_iter().take(arms.saturating_sub(chosen.len())));
        if chosen.len() < arms {
            let mut not = out.clone();
            not.extend(chosen.iter().cloned());
            let near = front.iter().take(3).map(|standing| self.candidates[standing.candidate].clone());
            let near: Vec<Candidate> = near.collect();
            if all_known && self.holds_short_runs(left) {
                if let Some(unseen) = self.for_short_runs(&not, &near, random.clone()) {
                    return Next::Short(unseen.iter().map(|candidate| self.position(candidate)).collect());
                }
            }
            // Whole runs after short ones are of those that were in them, or in whole ones.
            if self.short_since_whole() > 0 {
                let seen = self.seen();
                let choice = self.choice(&not, near.clone(), Some(&seen), &mut random);
                chosen.extend(choice.choose(arms - chosen.len(), &mut random));
                not.extend(chosen.iter().cloned());
            }
            let choice = self.choice(&not, near, None, &mut random);
            chosen.extend(choice.choose(arms - chosen.len(), &mut random));
        }
        // A leader alone has nothing to be compared with.
        if chosen.is_empty() || (chosen.len() == 1 && leader.is_some()) {
            return Next::Exhausted;
        }
        Next::Measure(chosen.iter().map(|candidate| self.position(candidate)).collect())
    }

    pub(super) fn choice<'a>(
        &'a self,
        out: &'a BTreeSet<Candidate>,
        near: Vec<Candidate>,
        among: Option<&'a BTreeSet<Candidate>>,
        random: &mut ChaCha8Rng,
    ) -> Choice<'a> {
        let goals: Vec<Compared> =
            self.rules.goals.iter().filter_map(|goal| self.compared(goal.figure())).collect();
        // Of several goals a weighted mean, of weights that are drawn for each block (J. Knowles, "ParEGO", IEEE
        // Transactions on Evolutionary Computation 10 (2006)).
        let weights: Vec<f64> = goals.iter().map(|_| random.random::<f64>() + 1e-3).collect();
        let model = match goals.as_slice() {
            [] => None,
            [_] => self.rules.goals.iter().find_map(|goal| self.model(*goal)),
            _ => self.weighted(&goals, &weights),
        };
        let bounds = self
            .rules
            .limits
            .given()
            .filter_map(|(figure, most)| Some(Bound { model: self.model_of(figure)?, most }));
        let best = model.as_ref().and_then(|model| {
            let running = self.standings().into_iter().filter(Standing::is_running);
            running
                .map(|one| model.believed(&self.space, &self.candidates[one.candidate]).0)
                .min_by(f64::total_cmp)
        });
        let noise = self.usual_noise();
        Choice { space: &self.space, bounds: bounds.collect(), model, best, near, out, among, noise }
    }

    /// Noise of a run's log, known or not.
    pub(super) fn usual_noise(&self) -> f64 {
        self.noise().map_or(USUAL_NOISE, |(noise, _)| noise)
    }

    fn weighted(&self, goals: &[Compared], weights: &[f64]) -> Option<Model> {
        let spread = |compared: &Compared| {
            let values = (0..compared.arms.len()).map(|place| compared.comparison.to_control(place));
            let (low, high) =
                values.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
            (high - low).max(1e-6)
        };
        let total: f64 = weights.iter().sum();
        let first = goals.first()?;
        let known = self.known(first, |place| {
            let values = goals.iter().zip(weights).map(|(compared, weight)| {
                let value = compared.comparison.to_control(compared.place(first.arms[place])?);
                Some(weight / total * value / spread(compared))
            });
            Some(values.collect::<Option<Vec<f64>>>()?.into_iter().sum())
        });
        Model::of(&self.space, &known, &noises(None))
    }
}
