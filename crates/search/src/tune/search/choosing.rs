//! Which candidates the next block has.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Search, Standing};
use crate::tune::proposal::Choice;
use crate::tune::space::Candidate;

/// Noise of a run's log where it is not known yet.
const USUAL_NOISE: f64 = 0.05;

impl Search {
    /// Candidates to measure next, by their positions, alongside the control in a block; none where nothing is left that could
    /// be better. The same seed and the same blocks give the same answer.
    pub fn next_step(&mut self) -> Option<Vec<usize>> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.blocks.len() as u64 + 1);
        let arms = self.rules.arms.max(2);
        let mut out: BTreeSet<Candidate> = self.control.iter().cloned().collect();
        out.extend(self.dropped.keys().map(|at| self.candidates[*at].clone()));
        let mut chosen: Vec<Candidate> = Vec::new();
        let better = self.better();
        let leader = better.first();
        chosen.extend(leader.map(|leader| self.candidates[leader.candidate].clone()));
        // Every allocator with default settings, before anything is set.
        let measured = self.arms();
        let known = |candidate: &Candidate| measured.iter().any(|at| self.candidates[*at] == *candidate);
        let plain = self.space.defaults().filter(|candidate| !out.contains(candidate) && !known(candidate));
        let plain: Vec<Candidate> = plain.take(arms.saturating_sub(chosen.len())).collect();
        chosen.extend(plain);
        if chosen.len() < arms {
            let mut not = out.clone();
            not.extend(chosen.iter().cloned());
            let near = better.iter().take(3).map(|standing| self.candidates[standing.candidate].clone());
            let choice = self.choice(&not, near.collect());
            chosen.extend(choice.choose(arms - chosen.len(), &mut random));
        }
        // A leader alone has nothing to be compared with.
        if chosen.is_empty() || (chosen.len() == 1 && leader.is_some()) {
            return None;
        }
        Some(chosen.iter().map(|candidate| self.position(candidate)).collect())
    }

    fn choice<'a>(&'a self, out: &'a BTreeSet<Candidate>, near: Vec<Candidate>) -> Choice<'a> {
        let model = self.model();
        let bounds =
            self.rules.limits.given().filter_map(|(figure, most)| Some((self.model_of(figure)?, most)));
        let best = model.as_ref().and_then(|model| {
            let running = self.standings().into_iter().filter(Standing::is_running);
            running
                .map(|one| model.believed(&self.space, &self.candidates[one.candidate]).0)
                .min_by(f64::total_cmp)
        });
        let noise = self.noise().map_or(USUAL_NOISE, |(noise, _)| noise);
        Choice { space: &self.space, bounds: bounds.collect(), model, best, near, out, noise }
    }
}
