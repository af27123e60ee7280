//! The best split of sorted values into two or three groups, and what it is worth where there are none.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::moments::mean;

/// Fewest values on each side: a single outlier is another check's business.
pub(crate) const SIDE: usize = 2;
/// Samples of each null distribution.
const DRAWS: usize = 2_000;
/// What the ratio of a split of very many uniform values into three equal parts is; it is higher for few.
const UNIFORM_THREE: f64 = 8.0;

/// A split of sorted values: the first places of the second (and third) group, and the ratio of the sum
/// of squares between groups to that within.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BestSplit {
    pub(crate) places: Vec<usize>,
    pub(crate) ratio: f64,
}

/// Sums of the values up to each place, and the sum of squares, both around the mean.
fn sums(sorted: &[f64]) -> (Vec<f64>, f64) {
    let mean = mean(sorted);
    let mut sum = 0.0;
    let mut sums = vec![0.0];
    sums.extend(sorted.iter().map(|value| {
        sum += value - mean;
        sum
    }));
    (sums, sorted.iter().map(|value| (value - mean).powi(2)).sum())
}

fn ratio(between: f64, total: f64) -> f64 {
    let within = total - between;
    if total <= 0.0 {
        0.0
    } else if within <= 1e-12 * total {
        f64::INFINITY
    } else {
        between / within
    }
}

/// The best of all splits into two; `None` below 4 values.
pub(crate) fn best_two(sorted: &[f64]) -> Option<BestSplit> {
    let n = sorted.len();
    let (sums, total) = sums(sorted);
    let between = |i: usize| sums[i] * sums[i] * n as f64 / (i * (n - i)) as f64;
    let place = (SIDE..(n + 1).saturating_sub(SIDE)).max_by(|a, b| between(*a).total_cmp(&between(*b)))?;
    Some(BestSplit { places: vec![place], ratio: ratio(between(place), total) })
}

/// The best of all splits into three; `None` below 6 values.
///
/// The best first cut moves up with the second one, so the search halves both ranges in turn (A. Grønlund
/// et al., "Fast Exact k-Means, k-Medians and Bregman Divergence Clustering in 1D", arXiv 1701.07204 (2017)).
pub(crate) fn best_three(sorted: &[f64]) -> Option<BestSplit> {
    let n = sorted.len();
    if n < 3 * SIDE {
        return None;
    }
    let (sums, total) = sums(sorted);
    let part = |start: usize, end: usize| (sums[end] - sums[start]).powi(2) / (end - start) as f64;
    let mut best = (f64::NEG_INFINITY, [0, 0]);
    // Ranges, ends included, of the second cut and of the first one that goes with it.
    let mut open = vec![((2 * SIDE, n - SIDE), (SIDE, n - 2 * SIDE))];
    while let Some(((low, high), (first, last))) = open.pop() {
        let second = low.midpoint(high);
        let mut here = (f64::NEG_INFINITY, first);
        for cut in first..=last.min(second - SIDE) {
            let between = part(0, cut) + part(cut, second);
            if between > here.0 {
                here = (between, cut);
            }
        }
        let between = here.0 + part(second, n);
        if between > best.0 {
            best = (between, [here.1, second]);
        }
        if second > low {
            open.push(((low, second - 1), (first, here.1)));
        }
        if second < high {
            open.push(((second + 1, high), (here.1, last)));
        }
    }
    Some(BestSplit { places: best.1.to_vec(), ratio: ratio(best.0, total) })
}

/// Ratios of the best splits of samples without groups: uniform ones and Student's t with 5 degrees of
/// freedom, each sorted.
type Null = [Vec<f64>; 2];

/// The null distributions by number of values, made when they are first needed.
pub(crate) struct Nulls {
    seed: u64,
    two: BTreeMap<usize, Null>,
    three: BTreeMap<usize, Null>,
}

impl Nulls {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, two: BTreeMap::new(), three: BTreeMap::new() }
    }

    /// p-value of a split of `count` values into two.
    pub(crate) fn p_of_two(&mut self, count: usize, ratio: f64) -> f64 {
        let null = self.two.entry(count).or_insert_with(|| null(count, self.seed, best_two));
        p_value(null, ratio)
    }

    /// p-value of a split of `count` values into three; 1 where it is plainly no better than that of
    /// uniform values.
    pub(crate) fn p_of_three(&mut self, count: usize, ratio: f64) -> f64 {
        if ratio <= UNIFORM_THREE {
            return 1.0;
        }
        let null = self.three.entry(count).or_insert_with(|| null(count, self.seed, best_three));
        p_value(null, ratio)
    }
}

/// The larger of the p-values under the two null distributions.
fn p_value(null: &Null, ratio: f64) -> f64 {
    let above = |ratios: &Vec<f64>| ratios.len() - ratios.partition_point(|other| *other < ratio);
    let most = null.iter().map(above).max().unwrap_or(DRAWS);
    (most + 1) as f64 / (DRAWS + 1) as f64
}

fn null(count: usize, seed: u64, best: fn(&[f64]) -> Option<BestSplit>) -> Null {
    [uniform, student_5].map(|draw: fn(&mut ChaCha8Rng) -> f64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(count as u64);
        let mut values = vec![0.0; count];
        let mut ratios: Vec<f64> = (0..DRAWS)
            .filter_map(|_| {
                values.fill_with(|| draw(&mut random));
                values.sort_unstable_by(f64::total_cmp);
                Some(best(&values)?.ratio)
            })
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios
    })
}

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    random.random()
}

/// R. W. Bailey, "Polar Generation of Random Variates with the t-Distribution", Mathematics of
/// Computation 62 (1994), in its form with an angle.
fn student_5(random: &mut ChaCha8Rng) -> f64 {
    // 1 - [0, 1) is never 0.
    let radius: f64 = 1.0 - random.random::<f64>();
    let angle = 2.0 * PI * random.random::<f64>();
    (5.0 * (radius.powf(-0.4) - 1.0)).sqrt() * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_best_split_is_at_the_gaps() {
        let sorted = [1.0, 1.1, 1.2, 5.0, 5.1, 9.0, 9.2];
        assert_eq!(best_two(&sorted).unwrap().places, [3]);
        assert_eq!(best_three(&sorted).unwrap().places, [3, 5]);
        assert_eq!(best_two(&sorted[..3]), None);
        assert_eq!(best_three(&sorted[..5]), None);
        assert_eq!(best_two(&[1.0; 6]).unwrap().ratio, 0.0);
        assert_eq!(best_two(&[1.0, 1.0, 2.0, 2.0]).unwrap().ratio, f64::INFINITY);
    }

    proptest! {
        #[test]
        fn the_search_finds_what_trying_all_finds(values in prop::collection::vec(-9i32..9, 6..30)) {
            let mut sorted: Vec<f64> = values.into_iter().map(f64::from).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let squares = |part: &[f64]| {
                let mean = part.iter().sum::<f64>() / part.len() as f64;
                part.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
            };
            let total = squares(&sorted);
            let within = (2..=sorted.len() - 4).flat_map(|i| (i + 2..=sorted.len() - 2).map(move |j| (i, j)))
                .map(|(i, j)| squares(&sorted[..i]) + squares(&sorted[i..j]) + squares(&sorted[j..]))
                .fold(f64::INFINITY, f64::min);
            let found = best_three(&sorted).unwrap().ratio;
            let expected = ratio(total - within, total);
            let close = found == expected || (found - expected).abs() <= 1e-9 * expected;
            prop_assert!(close, "{} {}", found, expected);
        }
    }

    /// The outlier alone would be the best split.
    #[test]
    fn a_single_value_is_never_a_side() {
        assert_eq!(best_two(&[1.0, 1.1, 1.2, 1.3, 9.0]).unwrap().places, [3]);
    }

    #[test]
    fn students_t_has_its_variance_and_tails() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let values: Vec<f64> = (0..100_000).map(|_| student_5(&mut random)).collect();
        let beyond = values.iter().filter(|value| value.abs() > 2.570_581_835_636_314).count();
        assert!((0.047..0.053).contains(&(beyond as f64 / 1e5)), "{beyond}");
    }
}
