//! Short runs first, where they are shown to foretell whole ones.

use std::collections::BTreeSet;

use heaptrial_stats::student_quantile;
use rand_chacha::ChaCha8Rng;

use super::{Compared, Foretold, Search};
use crate::figures::{Block, Figure, Goal, Length, SHORT};
use crate::race::{DropReason, LEAST_FREEDOM};
use crate::short::{Line, Prediction};
use crate::space::Candidate;

/// Candidates differ by so many times the noise of a run, or their order is not asked of short ones.
const SPREAD: f64 = 2.0;

impl Search {
    /// How short runs agree with whole ones; `None` of too few candidates.
    pub fn prediction(&self) -> Option<Prediction> {
        self.prediction
    }

    /// The line where short runs are acted on. Figures of a run early and at its end share what it was by chance, so that candidates
    /// that differ by no more than noise seem to keep their order.
    fn line(&self, prediction: Option<Prediction>) -> Option<Line> {
        let line = prediction?.acted_on().filter(|_| self.is_by_level_alone())?;
        let noise = self.noise().filter(|(_, freedom)| *freedom >= LEAST_FREEDOM);
        noise.is_none_or(|(noise, _)| line.spread() > SPREAD * noise).then_some(line)
    }

    /// Whether short runs are acted on now.
    pub fn acts_on_short_runs(&self) -> bool {
        self.line(self.prediction).is_some()
    }

    /// What short runs say is of the level.
    fn is_by_level_alone(&self) -> bool {
        self.rules.short && self.rules.goals == [Goal::Level]
    }

    /// From now on all runs are whole: of short ones the control has no figure.
    pub fn without_short_runs(&mut self) {
        self.rules.short = false;
        self.foretell();
    }

    /// Takes in what all blocks say of short runs. Where they are not shown any more to foretell whole ones, nobody is out by them.
    pub(super) fn foretell(&mut self) {
        (self.prediction, self.foretold) = self.told_by_short_runs().unwrap_or_default();
        if !self.acts_on_short_runs() {
            self.dropped.retain(|_, dropped| !matches!(dropped.reason, DropReason::Short { .. }));
        }
    }

    fn told_by_short_runs(&self) -> Option<(Option<Prediction>, Vec<Foretold>)> {
        let early = self.figures(Block::early, Figure::Level)?;
        let whole = self.compared(Figure::Level)?;
        let both = whole.arms.iter().enumerate().filter_map(|(at, arm)| {
            Some((early.comparison.to_control(early.place(*arm)?), whole.comparison.to_control(at)))
        });
        let prediction = Prediction::of(&both.collect::<Vec<_>>());
        let line = self.line(prediction);
        let foretold = line.map_or_else(Vec::new, |line| {
            let alone = early.arms.iter().enumerate().filter(|(_, arm)| whole.place(**arm).is_none());
            let tell = |(place, arm): (usize, &usize)| {
                let (ratio, own) = early.comparison.difference(place, None);
                let (whole, error) = line.foretells(ratio, own.unwrap_or(0.0));
                Foretold { candidate: *arm, whole, error }
            };
            alone.map(tell).collect()
        });
        Some((prediction, foretold))
    }

    /// Candidates with any figure, and those of which short runs have none.
    pub(super) fn seen(&self) -> BTreeSet<Candidate> {
        let arms = self.blocks.iter().flat_map(|block| &block.arms).map(|(arm, _)| arm);
        arms.chain(self.without_short.keys()).map(|arm| self.candidates[*arm].clone()).collect()
    }

    /// What a block of short runs costs of a whole one: as measured, or as its length where there was none yet.
    fn cost_of_short(&self) -> f64 {
        let mean = |length: Length| {
            let of = self.blocks.iter().filter(|block| block.length == length).map(|block| block.seconds);
            let seconds: Vec<f64> = of.collect();
            seconds.iter().sum::<f64>() / seconds.len() as f64
        };
        let cost = mean(Length::Short) / mean(Length::Whole);
        if cost.is_finite() && cost > 0.0 { cost } else { SHORT }
    }

    /// Candidates without any figure for a block of short runs; `None` where whole runs tell more for what they cost. What a run
    /// tells is the share of the variance of a belief that it takes away. Twice as much for its cost is asked of a short one, since as
    /// much is spent on whole runs of those that it tells well of.
    pub(super) fn for_short_runs(
        &self,
        out: &BTreeSet<Candidate>,
        near: &[Candidate],
        mut random: ChaCha8Rng,
    ) -> Option<Vec<Candidate>> {
        let line = self.line(self.prediction)?;
        let not: BTreeSet<Candidate> = out.iter().cloned().chain(self.seen()).collect();
        let model = self.model(Goal::Level)?;
        let arms = self.rules.arms.max(2);
        let choice = self.choice(&not, near.to_vec(), None, &mut random);
        let unseen = choice.choose(arms, &mut random);
        if unseen.len() < arms {
            return None;
        }
        let variance = |candidate: &Candidate| model.believed(&self.space, candidate).1.powi(2);
        let variance = unseen.iter().map(variance).sum::<f64>() / unseen.len() as f64;
        let told = |sd: f64| variance / (variance + sd * sd);
        (told(line.sd) > 2.0 * self.cost_of_short() * told(self.usual_noise())).then_some(unseen)
    }

    /// Whether a block of short runs is next, and not a whole one: as much is spent on the ones as on the others, and a whole one
    /// is left for after it.
    pub(super) fn holds_short_runs(&self, left: f64) -> bool {
        let cost = self.cost_of_short();
        (self.short_since_whole() + 1) as f64 * cost <= 1.0 && left >= cost + 1.0
    }

    /// Blocks of short runs after the last of whole ones.
    pub(super) fn short_since_whole(&self) -> usize {
        self.blocks.iter().rev().take_while(|block| block.length == Length::Short).count()
    }

    /// Drops whom short runs show not to beat another by more than the margin.
    pub(super) fn drop_foretold(&mut self, share: f64, within: &[usize], whole: &Compared) {
        let is_noise_known = whole.comparison.noise().is_some_and(|(_, freedom)| freedom >= LEAST_FREEDOM);
        let line = self.line(self.prediction).filter(|_| is_noise_known);
        let reach = line.and_then(|line| student_quantile(line.freedom() as f64, 1.0 - share));
        let Some(reach) = reach else { return };
        for told in self.foretold.clone() {
            let others = within.iter().filter(|other| !self.dropped.contains_key(other)).map(|at| Some(*at));
            let beaten = others.chain([None]).filter_map(|than| {
                let (other, error) = match than {
                    Some(at) => whole.comparison.difference(whole.place(at)?, None),
                    None => (0.0, Some(0.0)),
                };
                let log_ratio = told.whole - other;
                let least = log_ratio - reach * told.error.hypot(error?);
                let margin = if than.is_none() { 0.0 } else { self.rules.margin };
                (least > -margin).then_some((than, log_ratio, least))
            });
            if let Some((than, log_ratio, least)) = beaten.max_by(|a, b| a.2.total_cmp(&b.2)) {
                self.drop_out(told.candidate, DropReason::Short { than, log_ratio, least });
            }
        }
    }
}
