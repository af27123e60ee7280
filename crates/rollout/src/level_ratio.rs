//! What an arm's services use over those of the control, bytes to bytes.

use std::collections::BTreeMap;

use heaptrial_stats::{mean, student_quantile, variance};

use crate::strata::alike_blocks;

/// An interval of 95% needs so many assignments: of fewer, the one that was drawn is no rare one.
const FEWEST_ASSIGNMENTS: f64 = 40.0;
/// Differences of fewer blocks do not tell a variance.
const FEWEST_BLOCKS: usize = 6;
/// Services whose interval reaches so far on the log scale are too unlike to tell anything.
const WIDEST: f64 = 1.0;
/// Services agree to the byte, but for rounding.
const ROUNDING: f64 = 1e-9;

/// A ratio to the control, with its interval.
pub(crate) type ArmRatio = (f64, Option<(f64, f64)>);

/// A service's memory at the end of a trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    pub(crate) arm: usize,
    pub(crate) block: u32,
    pub(crate) bytes: f64,
}

/// The control's levels of a block, and those of the arm.
type Cell = (Vec<f64>, Vec<f64>);

/// Ratios of all `arms` by kind and block; `None` where one is not known. Those of a kind whose blocks are alike in size have the same.
///
/// Where one has no interval, blocks are put together with others of that sort, however unlike these are: then the interval tells how
/// unlike.
pub(crate) fn ratios(
    kinds: &BTreeMap<usize, Vec<Level>>,
    control: usize,
    arm: usize,
    arms: usize,
) -> BTreeMap<(usize, u32), Vec<Option<ArmRatio>>> {
    let strata: Vec<(usize, Vec<Level>)> = kinds
        .iter()
        .flat_map(|(kind, levels)| alike(levels, control).into_iter().map(|own| (*kind, own)))
        .collect();
    let of = |own: &[Level], whole: bool| -> Vec<Option<ArmRatio>> {
        (0..arms).map(|arm| level_ratio(own, control, arm, whole)).collect()
    };
    let is_known = |own: &[Level], ratios: &[Option<ArmRatio>]| {
        let mut needed = own.iter().map(|level| level.arm).chain([arm]);
        needed.all(|arm| ratios[arm].is_some_and(|(_, interval)| interval.is_some()))
    };
    let mut found: Vec<Vec<Option<ArmRatio>>> = strata.iter().map(|(_, own)| of(own, true)).collect();
    let is_open = |index: &usize| !is_known(&strata[*index].1, &found[*index]);
    let open: Vec<usize> = (0..strata.len()).filter(is_open).collect();
    let rest: Vec<Level> = open.iter().flat_map(|index| strata[*index].1.iter().copied()).collect();
    let together = of(&rest, false);
    if is_known(&rest, &together) {
        open.into_iter().for_each(|index| found[index].clone_from(&together));
    }
    let by_block = strata.into_iter().zip(found).flat_map(|((kind, own), ratios)| {
        own.into_iter().map(move |level| ((kind, level.block), ratios.clone()))
    });
    by_block.collect()
}

/// The services of one kind, in parts whose blocks are alike in size and tell of each arm by themselves.
fn alike(levels: &[Level], control: usize) -> Vec<Vec<Level>> {
    let of = |blocks: &[u32]| -> Vec<Level> {
        levels.iter().filter(|level| blocks.contains(&level.block)).copied().collect()
    };
    let tells = |blocks: &[u32]| {
        let (own, mut arms) = (of(blocks), levels.iter().map(|level| level.arm));
        arms.all(|arm| arm == control || assignments(&cells(&own, control, arm)) >= FEWEST_ASSIGNMENTS)
    };
    let logs: Vec<(usize, u32, f64)> =
        levels.iter().map(|level| (level.arm, level.block, level.bytes.ln())).collect();
    alike_blocks(&logs, &tells).iter().map(|blocks| of(blocks)).collect()
}

fn cells(levels: &[Level], control: usize, arm: usize) -> Vec<Cell> {
    let mut blocks: BTreeMap<u32, Cell> = BTreeMap::new();
    for level in levels {
        let cell = blocks.entry(level.block).or_default();
        if level.arm == control {
            cell.0.push(level.bytes);
        } else if level.arm == arm {
            cell.1.push(level.bytes);
        }
    }
    blocks.retain(|_, (control, arm)| !control.is_empty() && !arm.is_empty());
    blocks.into_values().collect()
}

/// The sum of an arm's levels over that of the control, each block by its services, with the interval by Student's t on the log scale. The
/// error is that within blocks, or between them where one has a single service of an arm (the residuals of a ratio estimator: W. G.
/// Cochran, "Sampling Techniques", 3rd edition 1977, chapter 6); where blocks are too few, that of all services. Only services that are
/// alike (`whole`) may be taken so, or where blocks are not whole.
fn level_ratio(levels: &[Level], control: usize, arm: usize, whole: bool) -> Option<ArmRatio> {
    if arm == control {
        return Some((1.0, Some((1.0, 1.0))));
    }
    let mut cells = cells(levels, control, arm);
    let enough = assignments(&cells) >= FEWEST_ASSIGNMENTS;
    let mut within =
        !cells.is_empty() && cells.iter().all(|(control, arm)| control.len() >= 2 && arm.len() >= 2);
    if !within && cells.len() < FEWEST_BLOCKS {
        if !whole {
            return None;
        }
        let of =
            |arm: usize| levels.iter().filter(|level| level.arm == arm).map(|level| level.bytes).collect();
        cells = vec![(of(control), of(arm))];
        within = true;
    }
    let weight = |(control, arm): &Cell| (control.len() + arm.len()) as f64;
    let sum = |of: fn(&Cell) -> &[f64]| cells.iter().map(|cell| weight(cell) * mean(of(cell))).sum::<f64>();
    let (under, over) = (sum(|cell| &cell.0), sum(|cell| &cell.1));
    let ratio = over / under;
    if !(ratio.is_finite() && ratio > 0.0) {
        return None;
    }
    let spread = match within {
        true => within_cells(&cells, ratio, &weight),
        false => between_cells(&cells, ratio, &weight),
    };
    let reach = spread.filter(|_| enough).and_then(|(variance, freedom)| {
        Some(student_quantile(freedom, 0.975)? * variance.sqrt() / over).filter(|reach| *reach > ROUNDING)
    });
    match reach {
        Some(reach) if reach > WIDEST => None,
        reach => Some((ratio, reach.map(|reach| (ratio * (-reach).exp(), ratio * reach.exp())))),
    }
}

/// The variance of the arm's sum beside that of the control times the ratio, with Student's degrees of freedom (F. E. Satterthwaite,
/// Biometrics Bulletin 2 (1946)).
fn within_cells(cells: &[Cell], ratio: f64, weight: &dyn Fn(&Cell) -> f64) -> Option<(f64, f64)> {
    let (mut sum, mut squares) = (0.0, 0.0);
    for cell in cells {
        for (values, factor) in [(&cell.0, ratio), (&cell.1, 1.0)] {
            let freedom = values.len() as f64 - 1.0;
            let own = (factor * weight(cell)).powi(2) * variance(values)? / (freedom + 1.0);
            sum += own;
            squares += own * own / freedom;
        }
    }
    (squares > 0.0).then(|| (sum, sum * sum / squares))
}

/// The same by the differences between blocks.
fn between_cells(cells: &[Cell], ratio: f64, weight: &dyn Fn(&Cell) -> f64) -> Option<(f64, f64)> {
    let freedom = cells.len() as f64 - 1.0;
    let left = cells.iter().map(|cell| weight(cell) * (mean(&cell.1) - ratio * mean(&cell.0)));
    Some((left.map(|left| left * left).sum::<f64>() * (freedom + 1.0) / freedom, freedom))
}

/// In how many ways two arms can be dealt within blocks.
fn assignments(cells: &[Cell]) -> f64 {
    let ways = |(control, arm): &Cell| -> f64 {
        (1..=arm.len()).map(|place| (control.len() + place) as f64 / place as f64).product()
    };
    if cells.is_empty() { 0.0 } else { cells.iter().map(ways).product() }
}

#[cfg(test)]
mod tests {
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const CONTROL: usize = 0;
    const ARM: usize = 1;

    fn level(block: usize, arm: usize, bytes: f64) -> Level {
        Level { arm, block: block as u32, bytes }
    }

    fn of_two(levels: &[Level], whole: bool) -> Option<ArmRatio> {
        level_ratio(levels, CONTROL, ARM, whole)
    }

    /// Services of which each has a ratio of its own, drawn within blocks of so many; large ones have another ratio.
    #[test]
    fn nineteen_of_twenty_intervals_hold_the_ratio_of_sums() {
        for (in_block, blocks, whole, together) in [
            (2, 8, true, false),
            (2, 30, true, false),
            (4, 5, true, false),
            (12, 1, true, false),
            (2, 20, false, true),
        ] {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let (mut held, rounds) = (0, 600);
            for _ in 0..rounds {
                let (mut levels, mut sums) = (Vec::new(), (0.0, 0.0));
                for block in 0..blocks {
                    let large = together && block % 2 == 0;
                    let mut arms: Vec<usize> = (0..in_block).map(|index| index % 2).collect();
                    arms.shuffle(&mut random);
                    for arm in arms {
                        let bytes = if large { 5.0 } else { 1.0 } * random.random_range(0.7..1.4);
                        let ratio = if large { 0.9 } else { 0.4 } * random.random_range(0.7..1.3);
                        sums = (sums.0 + bytes, sums.1 + bytes * ratio);
                        levels.push(level(block, arm, if arm == ARM { bytes * ratio } else { bytes }));
                    }
                }
                let (_, interval) = of_two(&levels, whole).unwrap();
                let (low, high) = interval.unwrap();
                held += u32::from(low < sums.1 / sums.0 && sums.1 / sums.0 < high);
            }
            let share = f64::from(held) / f64::from(rounds);
            assert!(share > 0.93, "{share} of {blocks} blocks of {in_block}");
        }
    }

    #[test]
    fn few_services_have_no_interval_and_unlike_ones_no_ratio() {
        let pairs = |count: usize, bytes: &dyn Fn(usize) -> (f64, f64)| -> Vec<Level> {
            let of = |block: usize| {
                let (control, arm) = bytes(block);
                [level(block, CONTROL, control), level(block, ARM, arm)]
            };
            (0..count).flat_map(of).collect()
        };
        let alike = |block: usize| (1.0 + 0.01 * block as f64, 0.5 - 0.02 * (block % 3) as f64);
        let five = of_two(&pairs(5, &alike), true).unwrap();
        assert!(five.1.is_none() && (five.0 - 0.47).abs() < 0.02, "{five:?}");
        assert!(of_two(&pairs(6, &alike), true).unwrap().1.is_some());
        // Of services that may be unlike blocks alone tell.
        assert!(of_two(&pairs(5, &alike), false).is_none());
        let unlike = |block: usize| if block % 2 == 0 { (8.0, 0.1) } else { (0.1, 8.0) };
        assert!(of_two(&pairs(12, &unlike), true).is_none());
        assert!(of_two(&[level(0, ARM, 1.0)], true).is_none());
    }

    #[test]
    fn strata_without_an_interval_are_taken_together() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        // Twelve kinds of two services, each pair drawn within a block.
        let mut kinds: BTreeMap<usize, Vec<Level>> = (0..12)
            .map(|block| {
                let bytes = 1.0 + 0.1 * block as f64;
                let of = |(arm, ratio): (usize, f64)| {
                    level(block, arm, bytes * ratio * random.random_range(0.95..1.05))
                };
                (block, [(CONTROL, 1.0), (ARM, 0.5)].map(of).into())
            })
            .collect();
        let found = ratios(&kinds, CONTROL, ARM, 2);
        let (ratio, interval) = found[&(0, 0)][ARM].unwrap();
        assert!(
            found.len() == 12 && found.values().all(|own| own[ARM] == Some((ratio, interval))),
            "{found:?}"
        );
        let (low, high) = interval.unwrap();
        assert!(low < 0.5 && 0.5 < high && (ratio - 0.5).abs() < 0.02, "{found:?}");
        // One alone is left as it is, and nothing is known of a kind that the arm did not run.
        kinds.retain(|kind, _| *kind == 0);
        kinds.insert(1, vec![level(1, CONTROL, 100.0)]);
        let found = ratios(&kinds, CONTROL, ARM, 2);
        assert!(found[&(0, 0)][ARM].unwrap().1.is_none() && found[&(1, 1)][ARM].is_none());
    }
}
