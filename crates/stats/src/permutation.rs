//! The permutation distribution of a blocked assignment.

mod pool;
mod reassignment;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ContinuousCDF, StudentsT};

pub(crate) use pool::Pool;
use reassignment::Reassignment;

use crate::inverse::student_quantile;
use crate::moments::{ROUNDING, variance as variance_of};

/// Logs of one block: `(control, treated)`.
pub(crate) type LogBlock = (Vec<f64>, Vec<f64>);

/// Assignments enumerated one by one; beyond that, as many are looked at: a draw, and the observed one.
pub const ENUMERATED_AT_MOST: u32 = 20_000;
const DRAWN: usize = ENUMERATED_AT_MOST as usize - 1;

/// By what a difference is divided before it is compared with those of other assignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Plain,
    /// By its standard error from the variances of both arms within each block.
    Within,
    /// By its standard error from the variance between blocks.
    Between,
}

/// Fewest blocks whose differences give a variance.
const FEWEST_BLOCKS: usize = 6;

impl Scale {
    /// What the blocks allow. Where studentising cannot change the order of the assignments (one block of two arms of
    /// equal size; pairs: the sum of squares is the same in all assignments, so that the error falls as the difference
    /// grows) it is left out.
    pub(crate) fn of(blocks: &[LogBlock]) -> Self {
        let sizes = || blocks.iter().map(|(control, treated)| (control.len(), treated.len()));
        let equal = blocks.len() == 1 && sizes().all(|(control, treated)| control == treated);
        if equal || sizes().all(|size| size == (1, 1)) {
            Self::Plain
        } else if sizes().all(|(control, treated)| control >= 2 && treated >= 2) {
            Self::Within
        } else if blocks.len() >= FEWEST_BLOCKS {
            Self::Between
        } else {
            Self::Plain
        }
    }
}

/// A standard error and Student's degrees of freedom of it.
#[derive(Debug, Clone, Copy)]
struct StandardError {
    size: f64,
    freedom: f64,
}

impl StandardError {
    /// Of blocks with these weights; `None` where services agree to the byte in all arms: nothing to divide by.
    fn of(
        variance: f64,
        blocks: &[LogBlock],
        weight: impl Fn(&LogBlock) -> f64,
        scale: Scale,
    ) -> Option<Self> {
        let size = Some(variance.sqrt()).filter(|size| *size > ROUNDING)?;
        let part = |values: &[f64], weight: f64| {
            let n = values.len() as f64;
            Some((weight * weight * variance_of(values)? / n).powi(2) / (n - 1.0))
        };
        let freedom = match scale {
            Scale::Between => blocks.len() as f64 - 1.0,
            // After F. E. Satterthwaite, Biometrics Bulletin 2 (1946).
            _ => {
                let squares = blocks
                    .iter()
                    .map(|block| Some(part(&block.0, weight(block))? + part(&block.1, weight(block))?));
                // Where services agree to the byte, what is left of the variance is rounding.
                let squares = squares.sum::<Option<f64>>().filter(|squares| *squares > 0.0)?;
                let most: usize =
                    blocks.iter().map(|(control, treated)| control.len() + treated.len() - 2).sum();
                (variance * variance / squares).min(most as f64)
            }
        };
        Some(Self { size, freedom })
    }

    fn student(self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }
}

/// The reassignments of an experiment, the observed one among them.
#[derive(Debug)]
pub(crate) struct PermutationDistribution {
    observed: f64,
    /// Of the observed difference; `None` where differences are compared as they are.
    error: Option<StandardError>,
    reassignments: Vec<Reassignment>,
}

/// Halvings of the way to an end of an interval, until it is a thousandth of the error, and to the last digit.
const COARSE: usize = 12;
const FINE: usize = 38;
/// Doublings of the way on which an end is looked for.
const DOUBLINGS: usize = 60;

impl PermutationDistribution {
    /// All assignments within the blocks, or a seeded draw of them. The weight of a block is its
    /// share of the treated services.
    ///
    /// Differences are studentised (A. Janssen, "Studentized Permutation Tests for Non-i.i.d. Hypotheses and the
    /// Generalized Behrens-Fisher Problem", Statistics and Probability Letters 36 (1997); E. Y. Chung, J. P. Romano,
    /// "Exact and Asymptotically Robust Permutation Tests", Annals of Statistics 41 (2013)): the test is still exact
    /// where services can be exchanged, and in the long run holds its level where arms differ in size and spread. Where a
    /// block has a single service of an arm the error is that between blocks (C. B. Fogarty, "On Mitigating the Analytical
    /// Limitations of Finely Stratified Experiments", Journal of the Royal Statistical Society B 80 (2018)). The long run
    /// is long: 10 services with 4 times the spread of 80 others are found to differ in 13% of trials in place of 5%. So
    /// Student's t (Welch's in one block) has to reject as well; it assumes normality of the logs, which is harmless where
    /// the other test does not.
    pub(crate) fn of(blocks: &[LogBlock], seed: u64) -> Self {
        Self::by(blocks, Scale::of(blocks), seed)
    }

    fn by(blocks: &[LogBlock], scale: Scale, seed: u64) -> Self {
        let treated_total: usize = blocks.iter().map(|(_, treated)| treated.len()).sum();
        let weight = |block: &LogBlock| block.1.len() as f64 / treated_total as f64;
        let pools = || blocks.iter().map(|block| Pool::of(block, weight(block), scale));
        let observed = pools().fold(Reassignment::default(), |sum, pool| sum.plus(pool.as_it_is()));
        let sizes = blocks.iter().map(|(control, treated)| (control.len(), treated.len()));
        let mut reassignments = if !are_drawn(sizes) {
            pools().fold(vec![Reassignment::default()], |partial, mut pool| {
                let own = pool.all();
                partial.iter().flat_map(|a| own.iter().map(|b| a.plus(*b))).collect()
            })
        } else {
            draw(pools().collect(), observed, seed)
        };
        let between = |own: &Reassignment| own.between(blocks.len());
        let error = match scale {
            Scale::Plain => None,
            Scale::Within => StandardError::of(observed.variance.at(0.0), blocks, weight, scale),
            Scale::Between => StandardError::of(between(&observed).at(0.0), blocks, weight, scale),
        };
        if scale == Scale::Between {
            reassignments.iter_mut().for_each(|own| own.variance = between(own));
        }
        Self { observed: observed.difference, error, reassignments }
    }

    /// Two-sided p-value of no effect.
    pub(crate) fn p_value(&self) -> f64 {
        let permuted = 2.0 * self.at_least(0.0).min(self.at_most(0.0));
        let by_student = self
            .error
            .and_then(|error| Some(2.0 * error.student()?.cdf(-(self.observed / error.size).abs())));
        permuted.max(by_student.unwrap_or(0.0)).min(1.0)
    }

    /// The interval of shifts that a two-sided test at `1 - level` does not reject; an end is `None`
    /// where no shift at all could be rejected because there are too few assignments.
    pub(crate) fn interval(&self, level: f64) -> (Option<f64>, Option<f64>) {
        let alpha = (1.0 - level) / 2.0;
        let Some(needed) = self.needed(alpha) else { return (None, None) };
        if let Some(error) = self.error {
            let student =
                student_quantile(error.freedom, 1.0 - alpha).map_or(0.0, |reach| reach * error.size);
            let low = self.end(-error.size, alpha).map(|end| end.min(self.observed - student));
            let high = self.end(error.size, alpha).map(|end| end.max(self.observed + student));
            return (low, high);
        }
        let mut limits: Vec<f64> = self.reassignments.iter().filter_map(|own| self.limit(own)).collect();
        limits.sort_unstable_by(f64::total_cmp);
        let index = needed.min(limits.len() - 1);
        (Some(limits[index]), Some(limits[limits.len() - 1 - index]))
    }

    /// Whether there are assignments enough for a two-sided test at `alpha` to reject anything.
    pub(crate) fn can_reject(&self, alpha: f64) -> bool {
        self.needed(alpha / 2.0).is_some()
    }

    /// How many other assignments may be at least as high as the observed one in a one-sided test at `alpha`; `None` where the
    /// observed one alone is too many.
    ///
    /// At shift d, the share of reassignments at least as high as observed is (same + #{limits <= d}) / total: the lower end
    /// of the interval is where it first exceeds alpha.
    fn needed(&self, alpha: f64) -> Option<usize> {
        let total = self.reassignments.len();
        let same = self.reassignments.iter().filter(|own| self.limit(own).is_none()).count();
        let needed = (alpha * total as f64 - same as f64 + 1e-9).floor();
        (needed >= 0.0 && same < total).then_some(needed as usize)
    }

    /// The end of the interval in the direction of `step`: between a shift that is rejected and one that is not, by
    /// bisection (P. H. Garthwaite, M. C. Jones, "A Stochastic Approximation Method and Its Application to Confidence
    /// Intervals", Journal of Computational and Graphical Statistics 18 (2009), has others).
    fn end(&self, step: f64, alpha: f64) -> Option<f64> {
        let error = step.abs();
        let extreme = |own: &Reassignment, shift: f64| {
            let above = self.above(own, shift, error);
            if step < 0.0 { above >= -ROUNDING_OF_RATIOS } else { above <= ROUNDING_OF_RATIOS }
        };
        let needed = alpha * self.reassignments.len() as f64 + 1e-9;
        let count = |of: &[Reassignment], shift: f64| of.iter().filter(|own| extreme(own, shift)).count();
        let rejected = |shift: f64| count(&self.reassignments, shift) as f64 <= needed;
        let far = |doubling: usize| self.observed + 4.0 * step * 2.0_f64.powi(doubling as i32);
        let mut outside = (0..DOUBLINGS).map(far).find(|shift| rejected(*shift))?;
        let mut inside = self.observed;
        for _ in 0..COARSE {
            let middle = f64::midpoint(inside, outside);
            if rejected(middle) { outside = middle } else { inside = middle }
        }
        // From here on only those matter that are extreme at one end and not at the other.
        let (mut always, mut open) = (0, Vec::new());
        for own in &self.reassignments {
            match (extreme(own, inside), extreme(own, outside)) {
                (true, true) => always += 1,
                (false, false) => {}
                _ => open.push(*own),
            }
        }
        for _ in 0..FINE {
            let middle = f64::midpoint(inside, outside);
            let rejected = (always + count(&open, middle)) as f64 <= needed;
            if rejected { outside = middle } else { inside = middle }
        }
        Some(f64::midpoint(inside, outside))
    }

    /// The shift from which on this reassignment is at least as high as the observed assignment, of plain differences.
    fn limit(&self, reassignment: &Reassignment) -> Option<f64> {
        let moved = 1.0 - reassignment.kept;
        (moved > ROUNDING).then(|| (self.observed - reassignment.difference) / moved)
    }

    fn at_least(&self, shift: f64) -> f64 {
        match self.error {
            Some(error) => self.share(|own| self.above(own, shift, error.size) >= -ROUNDING_OF_RATIOS),
            None => self.share(|own| self.limit(own).is_none_or(|limit| limit <= shift + ROUNDING)),
        }
    }

    fn at_most(&self, shift: f64) -> f64 {
        match self.error {
            Some(error) => self.share(|own| self.above(own, shift, error.size) <= ROUNDING_OF_RATIOS),
            None => self.share(|own| self.limit(own).is_none_or(|limit| limit >= shift - ROUNDING)),
        }
    }

    /// By how much a reassignment's studentised difference lies above the observed one after the shift is taken away.
    fn above(&self, own: &Reassignment, shift: f64, error: f64) -> f64 {
        let observed = (self.observed - shift) / error;
        let difference = own.difference - shift * own.kept;
        let own_error = own.variance.at(shift).sqrt();
        if own_error > ROUNDING {
            (difference / own_error - observed) / (1.0 + observed.abs())
        } else if difference.abs() > ROUNDING {
            difference.signum()
        } else {
            -observed.signum() * f64::from(u8::from(observed != 0.0))
        }
    }

    fn share(&self, extreme: impl Fn(&Reassignment) -> bool) -> f64 {
        let count = self.reassignments.iter().filter(|own| extreme(own)).count();
        count as f64 / self.reassignments.len() as f64
    }
}

/// Studentised differences that agree so far, in proportion to them, agree but for rounding.
const ROUNDING_OF_RATIOS: f64 = 1e-11;

fn draw(mut pools: Vec<Pool>, observed: Reassignment, seed: u64) -> Vec<Reassignment> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut found = Vec::with_capacity(DRAWN + 1);
    found.push(observed);
    for _ in 0..DRAWN {
        let none = Reassignment::default();
        found.push(pools.iter_mut().fold(none, |sum, pool| sum.plus(pool.draw(&mut random))));
    }
    found
}

/// Whether blocks of so many control and treated services have too many assignments to enumerate them.
pub(crate) fn are_drawn(blocks: impl Iterator<Item = (usize, usize)>) -> bool {
    let count: f64 = blocks.map(|(control, treated)| choose(control + treated, treated)).product();
    count > f64::from(ENUMERATED_AT_MOST)
}

fn choose(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval from all assignments of a block, and from a draw of them.
    fn intervals(block: LogBlock) -> [(f64, f64); 2] {
        let all = PermutationDistribution::of(std::slice::from_ref(&block), 1);
        let pool = || Pool::of(&block, 1.0, Scale::of(std::slice::from_ref(&block)));
        let drawn = PermutationDistribution {
            reassignments: draw(vec![pool()], pool().as_it_is(), 3),
            ..PermutationDistribution::of(std::slice::from_ref(&block), 1)
        };
        [all, drawn].map(|distribution| {
            let (low, high) = distribution.interval(0.9);
            (low.unwrap(), high.unwrap())
        })
    }

    /// Whichever arm is the smaller one and is drawn.
    #[test]
    fn drawn_assignments_give_the_interval_of_all_of_them() {
        let logs: Vec<f64> = (0..12).map(|i| (f64::from(i) * 0.618).fract()).collect();
        for treated in [5, 6, 7] {
            let [all, drawn] = intervals((logs[treated..].to_vec(), logs[..treated].to_vec()));
            assert!((all.0 - drawn.0).abs() < 0.03 && (all.1 - drawn.1).abs() < 0.03, "{all:?} {drawn:?}");
        }
    }

    /// What is a treated service and what a control decides nothing but the sign.
    #[test]
    fn exchanged_arms_have_the_mirrored_interval() {
        let logs: Vec<f64> = (0..11).map(|i| (f64::from(i) * 0.618).fract()).collect();
        let (a, b) = (logs[..4].to_vec(), logs[4..].to_vec());
        let [one, _] = intervals((a.clone(), b.clone()));
        let [other, _] = intervals((b, a));
        assert!((one.0 + other.1).abs() < 1e-9 && (one.1 + other.0).abs() < 1e-9, "{one:?} {other:?}");
    }

    /// Where the order of the assignments is that of plain differences, studentising changes nothing.
    #[test]
    fn equal_arms_and_pairs_need_no_studentising() {
        let value = |i: usize| (i as f64 * 0.618).fract();
        let block = vec![((0..6).map(value).collect(), (6..12).map(|i| value(i) + 0.4).collect())];
        let pairs: Vec<LogBlock> = (0..8).map(|i| (vec![value(i)], vec![value(i + 8) + 0.3])).collect();
        for (blocks, scale) in [(block, Scale::Within), (pairs, Scale::Between)] {
            let plain = PermutationDistribution::of(&blocks, 1);
            let studentised = PermutationDistribution::by(&blocks, scale, 1);
            assert!(plain.error.is_none());
            let size = studentised.error.unwrap().size;
            let (low, high) = plain.interval(0.95);
            let (a, b) = (studentised.end(-size, 0.025).unwrap(), studentised.end(size, 0.025).unwrap());
            assert!((low.unwrap() - a).abs() < 1e-9 && (high.unwrap() - b).abs() < 1e-9, "{a} {b} {plain:?}");
            assert_eq!(plain.at_least(0.1), studentised.at_least(0.1));
        }
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let block = ((0..40).map(f64::from).collect(), (0..30).map(f64::from).collect());
        let p_value = |seed| PermutationDistribution::of(std::slice::from_ref(&block), seed).p_value();
        assert_eq!(p_value(1), p_value(1));
        assert_ne!(p_value(1), p_value(2));
    }
}
