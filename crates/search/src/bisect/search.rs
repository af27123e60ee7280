//! Which position is measured next, and when it is enough.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bisect::answer::{Answer, Ends};
use crate::bisect::posterior::Posterior;

/// Of the largest uncertainty of all positions, so much at a release is enough to ask that first.
const RELEASE_FIRST: f64 = 0.5;
/// So many positions away from one that cannot be measured, a position is half as good as one far from it: commits that do not
/// build, or crash, come in stretches.
const NEAR_UNTESTABLE: f64 = 3.0;
/// Blocks in which the last position is measured at least before anything else is.
const LEAST_OF_ENDS: usize = 3;
/// The difference of the ends is sure from this probability on.
const ENDS_DIFFER: f64 = 0.95;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Probability from which a change is found.
    pub confidence: f64,
    /// Most blocks (measurements) in all.
    pub most_blocks: usize,
    /// Most blocks in which only the ends are measured; where they do not differ by then, there is nothing to find.
    pub most_of_ends: usize,
}

impl Rules {
    /// Six blocks for each halving of the history; 12 at least.
    pub fn for_history(positions: usize) -> Self {
        let halvings = (positions.max(2) as f64).log2();
        Self { confidence: 0.95, most_blocks: ((6.0 * halvings) as usize).max(12), most_of_ends: 12 }
    }
}

/// A search in a history of positions `0..=last`. Position 0 is the one that all others are measured against.
#[derive(Debug, Clone)]
pub struct Search {
    last: usize,
    releases: BTreeSet<usize>,
    rules: Rules,
    untestable: BTreeSet<usize>,
    same: Vec<(usize, usize)>,
    measured: BTreeMap<usize, Vec<f64>>,
    blocks: usize,
}

impl Search {
    /// Of a history with this last position (1 or more), some of which are releases, which are asked first.
    pub fn new(last: usize, releases: impl IntoIterator<Item = usize>, rules: Rules) -> Self {
        let releases = releases.into_iter().filter(|at| *at <= last).collect();
        Self {
            last: last.max(1),
            releases,
            rules,
            untestable: BTreeSet::new(),
            same: Vec::new(),
            measured: BTreeMap::new(),
            blocks: 0,
        }
    }

    /// Takes in the log ratio of a position's level to that of position 0, in one block.
    pub fn take(&mut self, position: usize, log_ratio: f64) {
        if log_ratio.is_finite() && (1..=self.last).contains(&position) {
            self.measured.entry(position).or_default().push(log_ratio);
            self.blocks += 1;
        }
    }

    /// This position cannot be measured: it does not build, or it crashes.
    pub fn skip(&mut self, position: usize) {
        self.untestable.insert(position);
    }

    /// The builds at two positions are the same, so nothing changed between them.
    pub fn same(&mut self, a: usize, b: usize) {
        self.same.push((a.min(b), a.max(b)));
    }

    /// What is believed now; `None` before the first measurement of the last position.
    pub fn posterior(&self) -> Option<Posterior> {
        self.measured.contains_key(&self.last).then(|| Posterior::of(&self.measured, &self.same, self.last))
    }

    /// The position to measure next, against position 0 in a block of its own; `None` at the end.
    pub fn next(&self) -> Option<usize> {
        if self.same.contains(&(0, self.last)) {
            return None;
        }
        let of_last = self.measured.get(&self.last).map_or(0, Vec::len);
        if of_last < LEAST_OF_ENDS && !self.untestable.contains(&self.last) {
            return Some(self.last);
        }
        let posterior = self.posterior()?;
        if self.undecided_ends().is_some() {
            return (of_last < self.rules.most_of_ends).then_some(self.last);
        }
        let is_over = self.blocks >= self.rules.most_blocks || self.answer_by(&posterior).found;
        if is_over { None } else { self.least_certain(&posterior) }
    }

    /// The answer, as far as it is known now.
    pub fn answer(&self) -> Answer {
        if self.same.contains(&(0, self.last)) {
            return Answer { same_ends: true, ..Answer::default() };
        }
        let Some(posterior) = self.posterior() else { return Answer::default() };
        match self.undecided_ends() {
            Some(ends) if ends.measured >= self.rules.most_of_ends => {
                Answer { ends, blocks: self.blocks, ..Answer::default() }
            }
            _ => self.answer_by(&posterior),
        }
    }

    /// The ends where nothing else is known, and it is not sure that they differ.
    fn undecided_ends(&self) -> Option<Ends> {
        let of_last = self.measured.get(&self.last).filter(|_| self.measured.len() == 1)?;
        Some(Ends::of(of_last)).filter(|ends| ends.differ < ENDS_DIFFER)
    }

    fn answer_by(&self, posterior: &Posterior) -> Answer {
        let of_last = &self.measured[&self.last];
        Answer::of(posterior, of_last, self.rules.confidence, self.blocks, |at| self.testable(at))
    }

    /// Whether a measurement of this position could show something new. Of builds that are the same, that one is measured which
    /// was measured already; what is the same as position 0 is known.
    fn testable(&self, position: usize) -> bool {
        let known_by_another = |(a, b): &(usize, usize)| match self.measured.range(*a..=*b).next() {
            _ if !(*a..=*b).contains(&position) => false,
            _ if *a == 0 => true,
            Some(_) => !self.measured.contains_key(&position),
            None => position != *b,
        };
        !self.untestable.contains(&position) && !self.same.iter().any(known_by_another)
    }

    /// How much a measurement of a position is worth, by what is near it.
    fn away_from_untestable(&self, position: usize) -> f64 {
        let before = self.untestable.range(..position).next_back().map(|at| position - at);
        let after = self.untestable.range(position..).next().map(|at| at - position);
        match before.into_iter().chain(after).min() {
            Some(distance) => distance as f64 / (distance as f64 + NEAR_UNTESTABLE),
            None => 1.0,
        }
    }

    /// The position whose level is least certain, away from those that cannot be measured; a release where that is about as good.
    fn least_certain(&self, posterior: &Posterior) -> Option<usize> {
        let worth = |at: usize| (at, posterior.moments(at).1 * self.away_from_untestable(at));
        let certainty: Vec<(usize, f64)> =
            (1..=self.last).filter(|at| self.testable(*at)).map(worth).collect();
        let most = |of: &mut dyn Iterator<Item = (usize, f64)>| of.max_by(|a, b| a.1.total_cmp(&b.1));
        let of_all = most(&mut certainty.iter().copied())?;
        let of_releases = most(&mut certainty.iter().copied().filter(|(at, _)| self.releases.contains(at)));
        match of_releases {
            Some((release, variance)) if variance >= RELEASE_FIRST * of_all.1 => Some(release),
            _ => Some(of_all.0),
        }
    }
}
