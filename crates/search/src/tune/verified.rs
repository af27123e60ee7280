//! What is left of the winners on seeds that the search never saw.

use heaptrial_stats::{mean, student_interval_at_least};
use serde::{Deserialize, Serialize};

use crate::tune::figures::{Block, Figure, Limits, least_sd};

/// A winner against another arm, by fresh blocks alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Name of the other arm; `None` is the control.
    pub other: Option<String>,
    pub figure: Figure,
    pub blocks: usize,
    /// Log ratio: mean over blocks.
    pub log_ratio: f64,
    /// Its interval; `None` of fewer than two blocks, and of blocks that agree though
    /// nothing is known of how coarse their readings are.
    pub interval: Option<(f64, f64)>,
}

impl Against {
    /// Whether a limit is shown to be kept (`Some(true)`), to be broken, or neither. Without an interval what is
    /// measured beyond it breaks it.
    pub fn keeps(&self, most: f64) -> Option<bool> {
        let Some((low, high)) = self.interval else {
            return if self.log_ratio > most { Some(false) } else { None };
        };
        if high <= most {
            Some(true)
        } else if low > most {
            Some(false)
        } else {
            None
        }
    }
}

/// Why fresh blocks do not confirm a winner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubt {
    /// A figure that a limit is of was not measured in all blocks.
    Missing {
        figure: Figure,
        /// Blocks in which the arm and the control have it.
        blocks: usize,
    },
    /// A limit is shown to be broken.
    BreaksLimit { figure: Figure, most: f64 },
    /// It is shown to need more than the control.
    Worse,
    /// It is shown to need less than the control, and not by so much that it matters.
    WithinMargin,
    /// It is not shown to need less than the control.
    NotBetter,
}

/// Why so many fresh blocks do not confirm a winner; `None` where they do: its level is shown to be below the control's, by
/// `margin` (of logs) or more as measured, and it was measured by every limit in all blocks and is not shown to break one.
/// `against` is how it compares with the control.
pub fn doubt<'a>(
    margin: f64,
    limits: &Limits,
    blocks: usize,
    against: impl Fn(Figure) -> Option<&'a Against>,
) -> Option<Doubt> {
    let of_limits = limits.given().find_map(|(figure, most)| {
        let found = against(figure);
        let measured = found.map_or(0, |against| against.blocks);
        if measured < blocks {
            return Some(Doubt::Missing { figure, blocks: measured });
        }
        found.and_then(|against| against.keeps(most)).filter(|kept| !kept)?;
        Some(Doubt::BreaksLimit { figure, most })
    });
    of_limits.or_else(|| {
        let level = against(Figure::Level);
        match level.and_then(|level| Some((level.log_ratio, level.interval?))) {
            Some((ratio, (_, high))) if high < 0.0 => (ratio > -margin).then_some(Doubt::WithinMargin),
            Some((_, (low, _))) if low > 0.0 => Some(Doubt::Worse),
            _ => Some(Doubt::NotBetter),
        }
    })
}

/// A figure of an arm in a block.
struct Reading {
    log: f64,
    step: f64,
}

/// Compares the first `winners` arms of fresh blocks with the control and with the arms after them, which have these names: of each
/// winner, by each figure. Intervals are Student's over the blocks, at `level` for all winners together (Bonferroni), so that
/// any winner may be chosen afterwards.
pub fn verified(
    blocks: &[Block],
    winners: usize,
    others: &[String],
    figures: &[Figure],
    level: f64,
) -> Vec<Vec<Against>> {
    let each = 1.0 - (1.0 - level) / winners.max(1) as f64;
    let reading = |block: &Block, arm: Option<usize>, figure: Figure| {
        let figures = match arm {
            None => &block.control,
            Some(arm) => &block.arms.iter().find(|(at, _)| *at == arm)?.1,
        };
        Some(Reading { log: figures.get(figure)?, step: figures.step(figure) })
    };
    let against = |arm: usize, other: Option<usize>, figure: Figure| {
        let both = blocks
            .iter()
            .filter_map(|block| Some((reading(block, Some(arm), figure)?, reading(block, other, figure)?)));
        let both: Vec<(Reading, Reading)> = both.collect();
        let ratios: Vec<f64> = both.iter().map(|(own, other)| own.log - other.log).collect();
        // A ratio has the steps of two readings.
        let steps = both.iter().map(|(own, other)| own.step.hypot(other.step));
        (!ratios.is_empty()).then(|| Against {
            other: other.map(|other| others[other - winners].clone()),
            figure,
            blocks: ratios.len(),
            log_ratio: mean(&ratios),
            interval: student_interval_at_least(&ratios, each, least_sd(steps)),
        })
    };
    let of = |arm: usize| {
        let all = std::iter::once(None).chain((winners..winners + others.len()).map(Some));
        all.flat_map(|other| figures.iter().filter_map(move |figure| against(arm, other, *figure))).collect()
    };
    (0..winners).map(of).collect()
}
