//! What is left of the winners on seeds that the search never saw.

use heaptrial_stats::{mean, student_interval_at_least, student_quantile};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::tune::figures::{Block, Figure, Limits, least_sd};

/// The probability with which a plan wants a difference to be shown.
pub const POWER: f64 = 0.8;

/// A winner against another arm, by fresh blocks alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Position of the other arm among the arms of these blocks; `None` is the control.
    pub other: Option<usize>,
    pub figure: Figure,
    pub blocks: usize,
    /// Log ratio: mean over blocks.
    pub log_ratio: f64,
    /// Its interval; `None` of fewer than two blocks, and of blocks that agree though
    /// nothing is known of how coarse their readings are.
    pub interval: Option<(f64, f64)>,
}

/// What fresh blocks say of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Less,
    More,
    NotTold,
}

impl Against {
    pub fn shown(&self) -> Shown {
        match self.interval {
            Some((_, high)) if high < 0.0 => Shown::Less,
            Some((low, _)) if low > 0.0 => Shown::More,
            _ => Shown::NotTold,
        }
    }

    /// Whether a limit is shown to be kept (`Some(true)`), to be broken, or neither. Without an interval what is measured beyond
    /// it breaks it.
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
        match level.map_or(Shown::NotTold, Against::shown) {
            Shown::More => Some(Doubt::Worse),
            Shown::NotTold => Some(Doubt::NotBetter),
            Shown::Less if level.is_some_and(|level| level.log_ratio <= -margin) => None,
            Shown::Less => Some(Doubt::WithinMargin),
        }
    })
}

/// What fresh blocks show of a winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Position among the arms of the blocks.
    pub arm: usize,
    /// Against the control and each arm that is no winner, by each figure.
    pub against: Vec<Against>,
}

/// A figure of an arm in a block.
struct Reading {
    log: f64,
    step: f64,
}

/// Compares the first `winners` arms of fresh blocks with the control and with the `arms - winners` after them. Intervals are
/// Student's over the blocks, at `level` for all winners together (Bonferroni), so that any winner may be chosen afterwards.
pub fn verified(
    blocks: &[Block],
    winners: usize,
    arms: usize,
    figures: &[Figure],
    level: f64,
) -> Vec<Verified> {
    let each = each(winners, level);
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
            other,
            figure,
            blocks: ratios.len(),
            log_ratio: mean(&ratios),
            interval: student_interval_at_least(&ratios, each, least_sd(steps)),
        })
    };
    let of = |arm: usize| {
        let others = std::iter::once(None).chain((winners..arms).map(Some));
        let all =
            others.flat_map(|other| figures.iter().filter_map(move |figure| against(arm, other, *figure)));
        Verified { arm, against: all.collect() }
    };
    (0..winners).map(of).collect()
}

fn each(winners: usize, level: f64) -> f64 {
    1.0 - (1.0 - level) / winners.max(1) as f64
}

/// The log ratio that so many blocks distinguish from none with a probability of [`POWER`], where a log ratio of one block has this
/// standard deviation. `None` of fewer than two blocks.
pub fn told_apart(blocks: usize, winners: usize, level: f64, sd: f64) -> Option<f64> {
    let freedom = blocks.checked_sub(1)? as f64;
    let reach = student_quantile(freedom, f64::midpoint(1.0, each(winners, level)))?;
    let (mut low, mut high) = (0.0, 20.0 * (reach + 1.0));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let enough = power(middle, reach, freedom) >= POWER;
        (low, high) = if enough { (low, middle) } else { (middle, high) };
    }
    Some(high * sd / (blocks as f64).sqrt())
}

/// The probability that Student's t of a mean that lies so many of its standard errors from 0 is beyond `reach`: the upper tail
/// of the noncentral t distribution, as the mean of a normal tail over what the standard deviation is found to be.
fn power(shift: f64, reach: f64, freedom: f64) -> f64 {
    const STEPS: u32 = 2000;
    let normal = Normal::standard();
    let most = 1.0 + 8.0 / freedom.sqrt();
    let found = (1..=STEPS).map(|step| most * f64::from(step) / f64::from(STEPS));
    let (sum, weights) = found.fold((0.0, 0.0), |(sum, weights), sd| {
        let weight = ((freedom - 1.0) * sd.ln() - freedom * (sd * sd - 1.0) / 2.0).exp();
        (sum + weight * normal.cdf(shift - reach * sd), weights + weight)
    });
    sum / weights
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::Distribution;

    use super::*;
    use crate::tune::figures::ArmFigures;

    #[test]
    fn blocks_that_agree_tell_no_less_noise_than_their_readings_have() {
        let at = |cpu: f64| ArmFigures { cpu: Some(cpu), ..ArmFigures::default() };
        let block = Block { control: at(0.1), arms: vec![(0, at(0.1))] };
        let against = &verified(&vec![block; 3], 1, 1, &[Figure::Cpu], 0.95)[0].against[0];
        let (low, high) = against.interval.unwrap();
        // t with 2 degrees of freedom is 4.302653.
        let step = (1e-6 / 0.1_f64.exp()).ln_1p();
        let half = 4.302_653 * step.hypot(step) / 12f64.sqrt() / 3f64.sqrt();
        assert!((low + half).abs() < 1e-9 && (high - half).abs() < 1e-9, "{against:?}");
    }

    #[test]
    fn a_limit_whose_figure_is_missing_in_a_block_is_not_kept() {
        let at = |level: f64, work: Option<f64>| ArmFigures { level, work, ..ArmFigures::default() };
        let found = |works: [(Option<f64>, Option<f64>); 3]| {
            let block = |(number, (control, own)): (usize, (Option<f64>, Option<f64>))| {
                let noise = [0.0, 0.01, -0.01][number];
                Block { control: at(18.0, control), arms: vec![(0, at(17.2 + noise, own))] }
            };
            let blocks: Vec<Block> = works.into_iter().enumerate().map(block).collect();
            let verified = verified(&blocks, 1, 1, &[Figure::Level, Figure::Work], 0.95).remove(0);
            let limits = Limits { work: Some(0.1), ..Limits::default() };
            let against = |figure| verified.against.iter().find(|against| against.figure == figure);
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
        let found = verified(&blocks, 1, 1, &[Figure::Level, Figure::Cpu, Figure::Work], 0.95).remove(0);
        for against in &found.against {
            match against.interval {
                Some((low, high)) => {
                    assert!(low < against.log_ratio && against.log_ratio < high, "{against:?}")
                }
                None => assert_eq!(against.figure, Figure::Work),
            }
        }
        // What has no interval is judged as measured: it is beyond a limit, or not shown to keep one.
        assert_eq!([0.1, 0.4].map(|most| found.against[2].keeps(most)), [Some(false), None]);
    }

    #[test]
    fn winners_share_the_error() {
        let at = |level: f64| ArmFigures { level, ..ArmFigures::default() };
        let blocks: Vec<Block> = [0.0, 0.01, -0.01]
            .map(|noise| Block {
                control: at(18.0),
                arms: (0..2).map(|arm| (arm, at(18.0 + noise))).collect(),
            })
            .into();
        let width = |winners, level| {
            let (low, high) =
                verified(&blocks, winners, 2, &[Figure::Level], level)[0].against[0].interval.unwrap();
            high - low
        };
        let two = width(2, 0.95);
        assert!((two - width(1, 1.0 - 0.05 / 2.0)).abs() < 1e-12 && two > 1.3 * width(1, 0.95));
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
    fn what_a_plan_says_is_told_apart_is_so_four_times_of_five() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for (blocks, winners) in [(3, 1), (5, 2), (12, 4)] {
            let difference = told_apart(blocks, winners, 0.95, 0.1).unwrap();
            let trials = 4000;
            let told = (0..trials).filter(|_| {
                let noise = rand_distr::Normal::new(-difference, 0.1).unwrap();
                let at = |level: f64| ArmFigures { level, ..ArmFigures::default() };
                let blocks: Vec<Block> = (0..blocks)
                    .map(|_| Block {
                        control: at(18.0),
                        arms: vec![(0, at(18.0 + noise.sample(&mut random)))],
                    })
                    .collect();
                // The others of the winners do not matter to this one.
                let level = each(winners, 0.95);
                verified(&blocks, 1, 1, &[Figure::Level], level)[0].against[0].shown() == Shown::Less
            });
            let share = told.count() as f64 / f64::from(trials);
            println!("{blocks} blocks, {winners} winners: {share}");
            assert!((0.78..0.82).contains(&share), "{blocks} blocks, {winners} winners: {share}");
        }
        assert_eq!(told_apart(1, 1, 0.95, 0.01), None);
    }

    #[test]
    fn a_winner_is_compared_with_the_control_and_the_best_known() {
        let at = |level: f64| ArmFigures { level, ..ArmFigures::default() };
        let block = |base: f64, gain: f64| Block {
            control: at(base),
            arms: vec![(0, at(base - 0.5 - gain)), (1, at(base - 0.4))],
        };
        let blocks = [block(18.0, 0.0), block(19.0, 0.01), block(18.5, -0.01)];
        let found = verified(&blocks, 1, 2, &[Figure::Level], 0.95);
        let [control, other] = found[0].against.as_slice() else { panic!("{found:?}") };
        assert!((control.log_ratio + 0.5).abs() < 1e-12 && control.other.is_none());
        assert!((other.log_ratio + 0.1).abs() < 1e-12 && other.other == Some(1));
        // Student's t with 2 degrees of freedom: 4.302653 · 0.01 / √3.
        let (low, high) = control.interval.unwrap();
        assert!((high - low - 2.0 * 4.302_653 * 0.01 / 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(verified(&blocks[..1], 1, 2, &[Figure::Level], 0.95)[0].against[0].interval, None);
    }
}
