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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::figures::ArmFigures;

    #[test]
    fn a_limit_whose_figure_is_missing_in_a_block_is_not_kept() {
        let at = |level: f64, work: Option<f64>| ArmFigures { level, work, ..ArmFigures::default() };
        let found = |works: [(Option<f64>, Option<f64>); 3]| {
            let block = |(number, (control, own)): (usize, (Option<f64>, Option<f64>))| {
                let noise = [0.0, 0.01, -0.01][number];
                Block { control: at(18.0, control), arms: vec![(0, at(17.2 + noise, own))] }
            };
            let blocks: Vec<Block> = works.into_iter().enumerate().map(block).collect();
            let verified = verified(&blocks, 1, &[], &[Figure::Level, Figure::Work], 0.95).remove(0);
            let limits = Limits { work: Some(0.1), ..Limits::default() };
            let against = |figure| verified.iter().find(|against| against.figure == figure);
            doubt(0.01, &limits, 3, against)
        };
        let did = (Some(0.0), Some(0.01));
        let missing = |blocks| Some(Doubt::Missing { figure: Figure::Work, blocks });
        assert_eq!(found([did, (Some(0.0), Some(0.0)), did]), None);
        assert_eq!(found([did, (Some(0.0), None), did]), missing(2));
        assert_eq!(found([(None, None); 3]), missing(0));
        let half = |own| (Some(0.0), Some(own));
        assert_eq!(
            found([half(0.7), half(0.69), half(0.71)]),
            Some(Doubt::BreaksLimit { figure: Figure::Work, most: 0.1 })
        );
    }

    #[test]
    fn blocks_that_agree_give_no_interval_of_no_width() {
        let at =
            |level: f64, cpu: f64, work: f64| ArmFigures { level, cpu: Some(cpu.ln()), work: Some(work) };
        let blocks: Vec<Block> = [17.0, 18.1, 19.3]
            .map(|base| Block { control: at(base, 0.1, 0.0), arms: vec![(0, at(base - 0.5, 0.2, 0.3))] })
            .into();
        let found = verified(&blocks, 1, &[], &[Figure::Level, Figure::Cpu, Figure::Work], 0.95).remove(0);
        for against in &found {
            match against.interval {
                Some((low, high)) => {
                    assert!(low < against.log_ratio && against.log_ratio < high, "{against:?}")
                }
                None => assert_eq!(against.figure, Figure::Work),
            }
        }
        // What has no interval is judged as measured: it is beyond a limit, or not shown to keep one.
        assert_eq!([0.1, 0.4].map(|most| found[2].keeps(most)), [Some(false), None]);
    }

    #[test]
    fn who_is_not_shown_to_be_better_by_the_margin_is_no_winner() {
        let found = |low: f64, high: f64| {
            let level = Against {
                other: None,
                figure: Figure::Level,
                blocks: 5,
                log_ratio: f64::midpoint(low, high),
                interval: Some((low, high)),
            };
            doubt(0.01, &Limits::default(), 5, |_| Some(&level))
        };
        assert_eq!(found(-0.5, -0.4), None);
        assert_eq!(found(0.1, 0.2), Some(Doubt::Worse));
        assert_eq!(found(-0.5, 0.4), Some(Doubt::NotBetter));
        // As sure as can be, and nothing that anybody would change a service for.
        assert_eq!(found(-0.009, -0.007), Some(Doubt::WithinMargin));
    }

    #[test]
    fn a_winner_is_compared_with_the_control_and_the_best_known() {
        let at = |level: f64| ArmFigures { level, ..ArmFigures::default() };
        let block = |base: f64, gain: f64| Block {
            control: at(base),
            arms: vec![(0, at(base - 0.5 - gain)), (1, at(base - 0.4))],
        };
        let blocks = [block(18.0, 0.0), block(19.0, 0.01), block(18.5, -0.01)];
        let best = ["best".to_owned()];
        let found = verified(&blocks, 1, &best, &[Figure::Level], 0.95);
        let [control, other] = found[0].as_slice() else { panic!("{found:?}") };
        assert!((control.log_ratio + 0.5).abs() < 1e-12 && control.other.is_none());
        assert!((other.log_ratio + 0.1).abs() < 1e-12 && other.other.as_deref() == Some("best"));
        // Student's t with 2 degrees of freedom: 4.302653 · 0.01 / √3.
        let (low, high) = control.interval.unwrap();
        assert!((high - low - 2.0 * 4.302_653 * 0.01 / 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(verified(&blocks[..1], 1, &best, &[Figure::Level], 0.95)[0][0].interval, None);
    }
}
