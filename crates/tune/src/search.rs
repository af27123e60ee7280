//! The search: which candidates the next block has, who is out, and who wins.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng as _;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;
use crate::figures::{ArmFigures, Block, Figure, Goal, Limits};
use crate::model::{Known, Model};
use crate::proposal::{Bound, Choice};
use crate::race::{Drop, DropReason, least, share};
use crate::space::{Candidate, Space};

/// Noise of a run's log where nothing tells it yet.
const USUAL_NOISE: f64 = 0.05;

/// How it is searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// What is to be small; at least one.
    pub goals: Vec<Goal>,
    /// What may not be exceeded.
    pub limits: Limits,
    /// Candidates of a block, beside the control.
    pub arms: usize,
    /// Log ratio within which two candidates are as good as each other.
    pub margin: f64,
    /// Probability with which the race may drop the best of the measured candidates.
    pub error: f64,
    /// Candidates that are verified at most.
    pub winners: usize,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Measure these candidates, by their positions, beside the control in a block.
    Measure(Vec<usize>),
    /// Nothing is left that could be better.
    Exhausted,
}

/// What is known of a candidate that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its position in [`Search::candidates`].
    pub candidate: usize,
    /// Blocks with it.
    pub blocks: usize,
    /// By each goal: what is believed of the log ratio to the control, and the belief's standard deviation.
    pub believed: Vec<(f64, f64)>,
    /// Of each figure that a limit is of: log ratio to the control as measured.
    pub limited: Vec<(Figure, f64)>,
    /// Whether what was measured keeps the limits.
    pub within: bool,
    /// Why it is out, if it is.
    pub dropped: Option<DropReason>,
}

/// A search over a space.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    rules: Rules,
    seed: u64,
    control: Option<Candidate>,
    candidates: Vec<Candidate>,
    positions: BTreeMap<Candidate, usize>,
    blocks: Vec<Block>,
    dropped: BTreeMap<usize, Drop>,
}

/// The figures that were measured of one kind: which candidates have any, and how they compare.
struct Compared {
    arms: Vec<usize>,
    comparison: Comparison,
}

impl Compared {
    fn place(&self, candidate: usize) -> Option<usize> {
        self.arms.iter().position(|arm| *arm == candidate)
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
            positions: BTreeMap::new(),
            blocks: Vec::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// What is searched.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// How.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The candidates that were chosen so far; positions are in this list.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Blocks so far.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Those that are out, in the order in which they were dropped.
    pub fn dropped(&self) -> Vec<&Drop> {
        let mut dropped: Vec<&Drop> = self.dropped.values().collect();
        dropped.sort_by_key(|drop| (drop.after, drop.candidate));
        dropped
    }

    /// The position of a candidate, which gets one if it has none.
    pub fn position(&mut self, candidate: &Candidate) -> usize {
        *self.positions.entry(candidate.clone()).or_insert_with(|| {
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
        let after = self.blocks.len();
        self.dropped.entry(candidate).or_insert(Drop { candidate, after, reason });
    }

    fn figures(&self, of: impl Fn(&ArmFigures) -> Option<f64>) -> Option<Compared> {
        let readings = |block: &Block| -> Option<(f64, Vec<(usize, f64)>)> {
            let arms = block.arms.iter().filter_map(|(arm, figures)| Some((*arm, of(figures)?)));
            Some((of(&block.control)?, arms.collect()))
        };
        let blocks: Vec<(f64, Vec<(usize, f64)>)> = self.blocks.iter().filter_map(readings).collect();
        let arms: BTreeSet<usize> = blocks.iter().flat_map(|(_, arms)| arms).map(|(arm, _)| *arm).collect();
        let arms: Vec<usize> = arms.into_iter().collect();
        let place = |arm: usize| arms.binary_search(&arm).unwrap_or(0);
        let placed: Vec<(f64, Vec<(usize, f64)>)> = blocks
            .into_iter()
            .map(|(control, of)| (control, of.into_iter().map(|(arm, value)| (place(arm), value)).collect()))
            .collect();
        let comparison = Comparison::of(arms.len(), &placed)?;
        (!arms.is_empty()).then_some(Compared { arms, comparison })
    }

    fn compared(&self, figure: Figure) -> Option<Compared> {
        self.figures(|figures| figures.get(figure))
    }

    /// What each candidate would have been in a shorter run, and in a whole one: log ratios to the control.
    pub(crate) fn early_and_whole(&self) -> Vec<(f64, f64)> {
        let (Some(early), Some(whole)) =
            (self.figures(|figures| figures.early), self.compared(Figure::Level))
        else {
            return Vec::new();
        };
        let both = whole.arms.iter().enumerate().filter_map(|(at, arm)| {
            Some((early.comparison.to_control(early.place(*arm)?), whole.comparison.to_control(at)))
        });
        both.collect()
    }

    /// Standard deviation of one run's log level within a block, with its degrees of freedom; `None` where nothing was
    /// measured twice.
    pub fn noise(&self) -> Option<(f64, usize)> {
        self.compared(Figure::Level)?.comparison.noise()
    }

    /// Of each candidate that has the figure: log ratio to the control.
    pub fn ratios(&self, figure: Figure) -> Vec<(usize, f64)> {
        self.compared(figure).map_or_else(Vec::new, |compared| {
            let ratio = |(place, arm): (usize, &usize)| (*arm, compared.comparison.to_control(place));
            compared.arms.iter().enumerate().map(ratio).collect()
        })
    }

    fn race(&mut self) {
        let block = self.blocks.len();
        let goals: Vec<Compared> =
            self.rules.goals.iter().filter_map(|goal| self.compared(goal.figure())).collect();
        let limits: Vec<(Figure, f64, Compared)> = self
            .rules
            .limits
            .given()
            .filter_map(|(figure, most)| Some((figure, most, self.compared(figure)?)))
            .collect();
        let alive = |search: &Self| -> Vec<usize> {
            let of_goal = goals.first().map_or(&[][..], |compared| compared.arms.as_slice());
            of_goal.iter().copied().filter(|arm| !search.dropped.contains_key(arm)).collect()
        };
        let running = alive(self);
        // Each against every other and the control by each goal, and against each limit.
        let decisions = running.len() * goals.len() + limits.len();
        let share = share(self.rules.error, block, decisions);
        for arm in &running {
            for (figure, most, compared) in &limits {
                let Some(place) = compared.place(*arm) else { continue };
                if least(&compared.comparison, place, None, share).is_some_and(|least| least > *most) {
                    let log_ratio = compared.comparison.to_control(place);
                    self.drop_out(*arm, DropReason::Limit { figure: *figure, log_ratio });
                }
            }
        }
        if goals.len() < self.rules.goals.len() {
            return;
        }
        let within: Vec<usize> = self
            .standings_of(&alive(self))
            .into_iter()
            .filter(|standing| standing.within)
            .map(|standing| standing.candidate)
            .collect();
        for arm in alive(self) {
            let others = within.iter().filter(|other| **other != arm).map(|other| Some(*other));
            let beaten = others.chain([None]).find(|other| {
                // Nobody is dropped for one that is out itself.
                let out = other.is_some_and(|other| self.dropped.contains_key(&other));
                !out && goals.iter().all(|compared| {
                    let place = compared.place(arm);
                    let other_place = other.map(|other| compared.place(other));
                    let (Some(place), false) = (place, other_place == Some(None)) else { return false };
                    // Something as good as the control is not a finding, whatever the margin.
                    let margin = if other.is_none() { 0.0 } else { self.rules.margin };
                    least(&compared.comparison, place, other_place.flatten(), share)
                        .is_some_and(|least| least > -margin)
                })
            });
            let Some(than) = beaten else { continue };
            let compared = &goals[0];
            let other = than.and_then(|than| compared.place(than));
            let log_ratio =
                compared.place(arm).map_or(0.0, |place| compared.comparison.difference(place, other).0);
            // Of two that are alike, the one that is believed better stays.
            if than.is_some() && log_ratio < 0.0 {
                continue;
            }
            self.drop_out(arm, DropReason::Worse { than, log_ratio });
        }
    }

    fn model_of(&self, compared: &Compared) -> Option<Model> {
        let known: Vec<Known> = compared
            .arms
            .iter()
            .enumerate()
            .map(|(place, arm)| Known {
                candidate: self.candidates[*arm].clone(),
                value: compared.comparison.to_control(place),
                blocks: compared.comparison.measured(place),
            })
            .collect();
        let noise = compared.comparison.noise().filter(|(_, freedom)| *freedom >= 3).map(|(noise, _)| noise);
        Model::of(&self.space, &known, noise)
    }

    /// What is believed of how settings act on a goal; `None` before anything is measured.
    pub fn model(&self, goal: Goal) -> Option<Model> {
        self.model_of(&self.compared(goal.figure())?)
    }

    /// Candidates that were measured or are out, best first by the first goal; those that are out last.
    pub fn standings(&self) -> Vec<Standing> {
        let measured = self.blocks.iter().flat_map(|block| &block.arms).map(|(arm, _)| *arm);
        let all: BTreeSet<usize> = measured.chain(self.dropped.keys().copied()).collect();
        let mut standings = self.standings_of(&all.into_iter().collect::<Vec<_>>());
        let order =
            |standing: &Standing| standing.believed.first().map_or(f64::INFINITY, |believed| believed.0);
        standings.sort_by(|a, b| {
            (a.dropped.is_some(), !a.within)
                .cmp(&(b.dropped.is_some(), !b.within))
                .then(order(a).total_cmp(&order(b)))
        });
        standings
    }

    fn standings_of(&self, candidates: &[usize]) -> Vec<Standing> {
        let models: Vec<Option<Model>> = self.rules.goals.iter().map(|goal| self.model(*goal)).collect();
        let limits: Vec<(Figure, f64, Option<Compared>)> =
            self.rules.limits.given().map(|(figure, most)| (figure, most, self.compared(figure))).collect();
        let of = |candidate: usize| {
            let measured = |block: &&Block| block.arms.iter().any(|(arm, _)| *arm == candidate);
            let limited: Vec<(Figure, f64, f64)> = limits
                .iter()
                .filter_map(|(figure, most, compared)| {
                    let compared = compared.as_ref()?;
                    Some((*figure, *most, compared.comparison.to_control(compared.place(candidate)?)))
                })
                .collect();
            let believed = models.iter().flatten();
            Standing {
                candidate,
                blocks: self.blocks.iter().filter(measured).count(),
                believed: believed
                    .map(|model| model.believed(&self.space, &self.candidates[candidate]))
                    .collect(),
                within: limited.iter().all(|(_, most, ratio)| ratio <= most),
                limited: limited.into_iter().map(|(figure, _, ratio)| (figure, ratio)).collect(),
                dropped: self.dropped.get(&candidate).map(|drop| drop.reason.clone()),
            }
        };
        candidates.iter().map(|candidate| of(*candidate)).collect()
    }

    /// Those that still run and keep the limits, and than which none is better by all goals; best first by the first goal.
    pub fn front(&self) -> Vec<Standing> {
        let standings = self.standings();
        let running: Vec<&Standing> =
            standings.iter().filter(|standing| standing.dropped.is_none() && standing.within).collect();
        let better = |a: &Standing, b: &Standing| {
            let mut pairs = a.believed.iter().zip(&b.believed).map(|(a, b)| (a.0, b.0));
            pairs.clone().all(|(a, b)| a <= b) && pairs.any(|(a, b)| a < b)
        };
        let single = self.rules.goals.len() == 1;
        let beats_control = |standing: &Standing| standing.believed.iter().any(|believed| believed.0 < 0.0);
        let front = running.iter().filter(|standing| {
            beats_control(standing) && (single || !running.iter().any(|other| better(other, standing)))
        });
        front.map(|standing| (*standing).clone()).collect()
    }

    /// Positions of those to verify, best first: of the front the ends and what lies between.
    pub fn winners(&self) -> Vec<usize> {
        let front = self.front();
        let most = self.rules.winners.max(1);
        if front.len() <= most || self.rules.goals.len() == 1 {
            return front.into_iter().take(most).map(|standing| standing.candidate).collect();
        }
        let last = front.len() - 1;
        let spread: BTreeSet<usize> = (0..most).map(|at| at * last / (most - 1).max(1)).collect();
        spread.into_iter().map(|at| front[at].candidate).collect()
    }

    /// What to measure next. The same seed and the same blocks give the same answer.
    pub fn next(&mut self) -> Next {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.blocks.len() as u64 + 1);
        let arms = self.rules.arms.max(1);
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
        let measured: BTreeSet<usize> =
            self.blocks.iter().flat_map(|block| &block.arms).map(|(arm, _)| *arm).collect();
        let known =
            |candidate: &Candidate| self.positions.get(candidate).is_some_and(|at| measured.contains(at));
        let plain = self.space.defaults().filter(|candidate| !out.contains(candidate) && !known(candidate));
        let plain: Vec<Candidate> = plain.collect();
        chosen.extend(plain.into_iter().take(arms.saturating_sub(chosen.len())));
        if chosen.len() < arms {
            let mut not = out.clone();
            not.extend(chosen.iter().cloned());
            let near = front.iter().take(3).map(|standing| self.candidates[standing.candidate].clone());
            let choice = self.choice(&not, near.collect(), &mut random);
            chosen.extend(choice.choose(arms - chosen.len(), &mut random));
        }
        // A leader alone has nothing to be compared with.
        if chosen.is_empty() || (chosen.len() == 1 && leader.is_some()) {
            return Next::Exhausted;
        }
        Next::Measure(chosen.iter().map(|candidate| self.position(candidate)).collect())
    }

    fn choice<'a>(
        &'a self,
        out: &'a BTreeSet<Candidate>,
        near: Vec<Candidate>,
        random: &mut ChaCha8Rng,
    ) -> Choice<'a> {
        let goals: Vec<Compared> =
            self.rules.goals.iter().filter_map(|goal| self.compared(goal.figure())).collect();
        // Of several goals a weighted mean, of weights that are drawn for each block (J. Knowles, "ParEGO", IEEE
        // Transactions on Evolutionary Computation 10 (2006)).
        let weights: Vec<f64> = goals.iter().map(|_| random.random::<f64>() + 1e-3).collect();
        let model = match goals.as_slice() {
            [] => None,
            [compared] => self.model_of(compared),
            _ => self.weighted(&goals, &weights),
        };
        let bounds = self.rules.limits.given().filter_map(|(figure, most)| {
            Some(Bound { model: self.model_of(&self.compared(figure)?)?, most })
        });
        let best = model.as_ref().and_then(|model| {
            let running = self.standings().into_iter().filter(|one| one.dropped.is_none() && one.within);
            running
                .map(|one| model.believed(&self.space, &self.candidates[one.candidate]).0)
                .min_by(f64::total_cmp)
        });
        let noise = self.noise().map_or(USUAL_NOISE, |(noise, _)| noise);
        Choice { space: &self.space, bounds: bounds.collect(), model, best, near, out, noise }
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
        let known: Vec<Known> = first
            .arms
            .iter()
            .enumerate()
            .filter_map(|(at, arm)| {
                let values = goals.iter().zip(weights).map(|(compared, weight)| {
                    let value = compared.comparison.to_control(compared.place(*arm)?);
                    Some(weight / total * value / spread(compared))
                });
                let value = values.collect::<Option<Vec<f64>>>()?.into_iter().sum();
                Some(Known {
                    candidate: self.candidates[*arm].clone(),
                    value,
                    blocks: first.comparison.measured(at),
                })
            })
            .collect();
        Model::of(&self.space, &known, None)
    }
}
