//! The search: which candidates the next block has, who is out, and who wins.

mod choosing;
mod racing;
mod standing;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::racing::{DropReason, LEAST_FREEDOM};
pub use self::standing::Standing;
use crate::tune::comparison::Comparison;
use crate::tune::effects::{Effect, effects};
use crate::tune::figures::{Block, Figure, Limits, least_sd};
use crate::tune::model::{Known, Model, noises};
use crate::tune::space::{Candidate, Space};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// What may not be exceeded.
    pub limits: Limits,
    /// Candidates of a block, beside the control: two at least, the best so far and another.
    pub arms: usize,
    /// Log ratio within which two candidates are as good as each other.
    pub margin: f64,
    /// Probability with which the race may drop the best of the measured candidates.
    pub error: f64,
    /// Candidates that are verified at most.
    pub winners: usize,
}

/// A search over a space.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    rules: Rules,
    seed: u64,
    control: Option<Candidate>,
    candidates: Vec<Candidate>,
    blocks: Vec<Block>,
    dropped: BTreeMap<usize, DropReason>,
}

/// The figures that were measured of one kind: which candidates have any, and how they compare.
struct Compared {
    arms: Vec<usize>,
    /// Blocks whose control has it.
    blocks: usize,
    comparison: Comparison,
}

impl Compared {
    fn place(&self, candidate: usize) -> Option<usize> {
        self.arms.iter().position(|arm| *arm == candidate)
    }

    /// Log ratio of a candidate to the control.
    fn ratio(&self, candidate: usize) -> Option<f64> {
        self.place(candidate).map(|place| self.comparison.to_control(place))
    }
}

impl Search {
    /// Of a space. `control` is the candidate that the control is, if it is one: it is in every block anyway.
    pub fn new(space: Space, rules: Rules, control: Option<Candidate>, seed: u64) -> Self {
        Self {
            space,
            rules,
            seed,
            control,
            candidates: Vec::new(),
            blocks: Vec::new(),
            dropped: BTreeMap::new(),
        }
    }

    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The candidates that were chosen so far; positions are in this list.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Those that are out, by position.
    pub fn dropped(&self) -> &BTreeMap<usize, DropReason> {
        &self.dropped
    }

    /// The position of a candidate, which gets one if it has none.
    pub fn position(&mut self, candidate: &Candidate) -> usize {
        let known = self.candidates.iter().position(|known| known == candidate);
        known.unwrap_or_else(|| {
            self.candidates.push(candidate.clone());
            self.candidates.len() - 1
        })
    }

    /// Takes a block in, and drops who is shown to be worse.
    pub fn take(&mut self, block: Block) {
        self.blocks.push(block);
        self.race();
    }

    /// This candidate did not live to the end: it is out.
    pub fn fail(&mut self, candidate: usize, message: &str) {
        let reason = DropReason::Failed { message: message.to_owned() };
        self.drop_out(candidate, reason);
    }

    fn drop_out(&mut self, candidate: usize, reason: DropReason) {
        self.dropped.entry(candidate).or_insert(reason);
    }

    fn compared(&self, figure: Figure) -> Option<Compared> {
        let readings = |block: &Block| {
            let arms = block.arms.iter().map(|(_, figures)| figures).chain([&block.control]);
            let read = arms.filter(|figures| figures.get(figure).is_some());
            read.map(|figures| figures.step(figure)).collect::<Vec<_>>()
        };
        let least = least_sd(self.blocks.iter().flat_map(readings));
        let readings = |block: &Block| -> Option<(f64, Vec<(usize, f64)>)> {
            let arms = block.arms.iter().filter_map(|(arm, figures)| Some((*arm, figures.get(figure)?)));
            Some((block.control.get(figure)?, arms.collect()))
        };
        let blocks: Vec<(f64, Vec<(usize, f64)>)> = self.blocks.iter().filter_map(readings).collect();
        let arms: BTreeSet<usize> = blocks.iter().flat_map(|(_, arms)| arms).map(|(arm, _)| *arm).collect();
        let arms: Vec<usize> = arms.into_iter().collect();
        let place = |arm: usize| arms.binary_search(&arm).unwrap_or(0);
        let count = blocks.len();
        let placed: Vec<(f64, Vec<(usize, f64)>)> = blocks
            .into_iter()
            .map(|(control, of)| (control, of.into_iter().map(|(arm, value)| (place(arm), value)).collect()))
            .collect();
        let comparison = Comparison::of(arms.len(), &placed)?.at_least(least);
        (!arms.is_empty()).then_some(Compared { arms, blocks: count, comparison })
    }

    /// Standard deviation of one run's log level within a block, with its degrees of freedom; `None`
    /// where nothing was measured twice.
    pub fn noise(&self) -> Option<(f64, usize)> {
        self.compared(Figure::Level)?.comparison.noise()
    }

    /// What a model knows: the log ratio of each place, and that of the control where it is a candidate.
    fn known(&self, compared: &Compared) -> Vec<Known> {
        let of_arm = |(place, arm): (usize, &usize)| {
            let blocks = compared.comparison.measured(place);
            let candidate = self.candidates[*arm].clone();
            Known { candidate, value: compared.comparison.to_control(place), blocks }
        };
        let of_control =
            |control: &Candidate| Known { candidate: control.clone(), value: 0.0, blocks: compared.blocks };
        let control = self.control.iter().map(of_control);
        compared.arms.iter().enumerate().map(of_arm).chain(control).collect()
    }

    fn model_of(&self, figure: Figure) -> Option<Model> {
        let compared = self.compared(figure)?;
        Model::of(&self.space, &self.known(&compared), &noises(compared.comparison.noise()))
    }

    fn arms(&self) -> BTreeSet<usize> {
        self.blocks.iter().flat_map(|block| &block.arms).map(|(arm, _)| *arm).collect()
    }

    /// What each setting does over the candidates that were measured, and the control where it is one.
    pub fn effects(&self) -> Vec<Effect> {
        let Some(model) = self.model() else { return Vec::new() };
        let arms = self.arms().into_iter().map(|arm| self.candidates[arm].clone());
        effects(&self.space, &model, &self.control.iter().cloned().chain(arms).collect::<Vec<_>>())
    }

    /// The spec of a candidate by its position.
    pub fn name(&self, at: usize) -> String {
        self.space.name(&self.candidates[at])
    }

    /// What is believed of how settings act on the level; `None` before anything is measured.
    pub fn model(&self) -> Option<Model> {
        self.model_of(Figure::Level)
    }
}
