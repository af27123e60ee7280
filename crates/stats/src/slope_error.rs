//! How far off a slope through a course of which the errors hang together may be.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::moments::ROUNDING;

/// Memories that are looked at: from half the usual distance of points to so many times the whole time, which cannot be
/// distinguished from a random walk.
const LONGEST: f64 = 10.0;
const MEMORIES: usize = 12;
/// Variances of noise of each point, in proportion to that of a step of the process.
const NOISES: [f64; 4] = [0.0, 0.25, 1.0, 4.0];
/// Fewer points show nothing about how one depends on the one before.
const FEWEST: usize = 8;

/// What one memory and one share of noise would have.
struct Candidate {
    log_likelihood: f64,
    /// Standard error of the coefficient.
    error: f64,
}

/// What a course does beside an AR(1) process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// A straight line and nothing else.
    Straight,
    /// A line and a parabola: the error of its slope is that of what the parabola leaves.
    Bent,
}

/// How much a course bends, with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bend {
    /// Coefficient of the square of time, of least squares: below 0 the course slows down.
    pub value: f64,
    /// Half-width of the interval of `value`.
    pub half_width: f64,
}

impl Bend {
    /// Whether it is more than what an AR(1) process does by chance.
    pub fn is_shown(&self) -> bool {
        self.value.abs() > self.half_width
    }
}

/// Half-width of the interval of confidence `level` of a slope through `points` (time, value): a line, with a parabola if it
/// is `trend`, and an AR(1) process in continuous time with noise of each point.
///
/// How long the process remembers is not known, and points that span a few of its memories hardly show it: an estimate is too
/// short more often than not, and an interval by it too narrow. So all memories are taken, from half a distance of points to
/// ten times the whole, evenly on the log scale, each weighed by its restricted likelihood (H. D. Patterson, R. Thompson,
/// Biometrika 58 (1971)), and the error is the mixture of Student's t of each (D. A. Harville, Journal of the American
/// Statistical Association 69 (1974)). `None` of fewer than 8 points, of points out of
/// order, and of values that are all the same.
pub fn slope_half_width(points: &[(f64, f64)], level: f64, trend: Trend) -> Option<f64> {
    let [one, time, square] = columns(points);
    match trend {
        Trend::Straight => half_width(points, level, &[&one, &time], &time),
        Trend::Bent => half_width(points, level, &[&one, &time, &square], &time),
    }
}

/// The bend of a course with the half-width of its interval, found as [`slope_half_width`]'s.
pub fn bend(points: &[(f64, f64)], level: f64) -> Option<Bend> {
    let [one, time, square] = columns(points);
    let half_width = half_width(points, level, &[&one, &time, &square], &square)?;
    Some(Bend { value: coefficient(points, &square), half_width })
}

/// The values of a course less the parabola that fits it best: what is left has the same mean and the
/// same line of least squares.
pub fn without_bend(points: &[(f64, f64)]) -> Vec<f64> {
    let [_, _, square] = columns(points);
    // Three points lie on a parabola whatever they are.
    let bend = if points.len() > 3 { coefficient(points, &square) } else { 0.0 };
    points.iter().zip(&square).map(|(point, square)| point.1 - bend * square).collect()
}

/// 1, time and its square, each less what the ones before it say of it.
fn columns(points: &[(f64, f64)]) -> [Vec<f64>; 3] {
    let n = points.len() as f64;
    let centre = points.iter().map(|point| point.0).sum::<f64>() / n;
    let time: Vec<f64> = points.iter().map(|point| point.0 - centre).collect();
    let squares: f64 = time.iter().map(|time| time * time).sum();
    let along = time.iter().map(|time| time.powi(3)).sum::<f64>() / squares.max(f64::MIN_POSITIVE);
    let square = time.iter().map(|time| time * time - squares / n - along * time).collect();
    [vec![1.0; points.len()], time, square]
}

/// Of least squares, for a column that is apart from the others.
fn coefficient(points: &[(f64, f64)], column: &[f64]) -> f64 {
    let with: f64 = points.iter().zip(column).map(|(point, of)| point.1 * of).sum();
    let lever: f64 = column.iter().map(|of| of * of).sum();
    if lever > 0.0 { with / lever } else { 0.0 }
}

/// Half-width of the interval of the least squares coefficient of the column `of`, beside all `columns`.
fn half_width(points: &[(f64, f64)], level: f64, columns: &[&Vec<f64>], of: &[f64]) -> Option<f64> {
    let n = points.len();
    let (first, last) = (points.first()?.0, points.last()?.0);
    let span = last - first;
    let in_order = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if n < FEWEST || !in_order || !span.is_finite() {
        return None;
    }
    let usual = span / (n - 1) as f64;
    let (low, high) = ((usual / 2.0).ln(), (LONGEST * span).ln());
    let memories =
        (0..MEMORIES).map(|place| (low + (high - low) * place as f64 / (MEMORIES - 1) as f64).exp());
    let candidates: Vec<Candidate> = memories
        .flat_map(|memory| NOISES.map(|noise| (memory, noise)))
        .filter_map(|(memory, noise)| candidate(points, memory, noise, usual, columns, of))
        .collect();
    let best = candidates.iter().map(|of| of.log_likelihood).max_by(f64::total_cmp)?;
    let weights: Vec<f64> = candidates.iter().map(|of| (of.log_likelihood - best).exp()).collect();
    let all: f64 = weights.iter().sum();
    let student = StudentsT::new(0.0, 1.0, (n - columns.len()) as f64).ok()?;
    let outside = |half: f64| -> f64 {
        let tails =
            candidates.iter().zip(&weights).map(|(of, weight)| weight * student.cdf(-half / of.error));
        2.0 * tails.sum::<f64>() / all
    };
    let (mut low, mut high) = (0.0, candidates.iter().map(|of| of.error).fold(0.0, f64::max));
    while outside(high) > 1.0 - level {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if outside(middle) > 1.0 - level { low = middle } else { high = middle }
    }
    Some(high)
}

fn candidate(
    points: &[(f64, f64)],
    memory: f64,
    noise: f64,
    usual: f64,
    columns: &[&Vec<f64>],
    of: &[f64],
) -> Option<Candidate> {
    let n = points.len();
    // The process takes steps of variance 1 over the usual distance.
    let variance = 0.5 / -(-usual / memory).exp_m1();
    let covariance = |i: usize, j: usize| {
        let distance = (points[i].0 - points[j].0).abs();
        variance * (-distance / memory).exp() + if i == j { noise } else { 0.0 }
    };
    let mut root = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let before: f64 = (0..j).map(|k| root[i][k] * root[j][k]).sum();
            let left = covariance(i, j) - before;
            root[i][j] =
                if i == j { Some(left).filter(|left| *left > 0.0)?.sqrt() } else { left / root[j][j] };
        }
    }
    let whiten = |value: &dyn Fn(usize) -> f64| {
        let mut white = vec![0.0; n];
        for i in 0..n {
            let before: f64 = (0..i).map(|k| root[i][k] * white[k]).sum();
            white[i] = (value(i) - before) / root[i][i];
        }
        white
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let less = |value: &mut [f64], unit: &[f64]| {
        let along = dot(value, unit);
        value.iter_mut().zip(unit).for_each(|(value, unit)| *value -= along * unit);
    };
    let middle = points.iter().map(|point| point.1).sum::<f64>() / n as f64;
    let mut left = whiten(&|i| points[i].1 - middle);
    let mut units: Vec<Vec<f64>> = Vec::new();
    let mut log_lengths = 0.0;
    for column in columns {
        let mut white = whiten(&|i| column[i]);
        units.iter().for_each(|unit| less(&mut white, unit));
        let length = dot(&white, &white).sqrt();
        white.iter_mut().for_each(|value| *value /= length);
        log_lengths += length.ln();
        less(&mut left, &white);
        units.push(white);
    }
    let squares = dot(&left, &left);
    let spread = points.iter().map(|point| (point.1 - middle).abs()).fold(0.0, f64::max);
    if spread <= ROUNDING || squares.is_nan() || squares <= 0.0 {
        return None;
    }
    let free = (n - columns.len()) as f64;
    let logs: f64 = (0..n).map(|i| root[i][i].ln()).sum();
    let lever: f64 = of.iter().map(|of| of * of).sum();
    let together: f64 =
        (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| of[i] * of[j] * covariance(i, j)).sum();
    Some(Candidate {
        log_likelihood: -logs - log_lengths - 0.5 * free * squares.ln(),
        error: (squares / free * together).sqrt() / lever,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::least_squares_slope;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    const POINTS: usize = 40;

    fn course(keep: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || -> f64 { StandardNormal.sample(&mut random) };
        let mut now = draw();
        (0..POINTS)
            .map(|place| {
                now = keep * now + (1.0 - keep * keep).sqrt() * draw();
                (place as f64, now)
            })
            .collect()
    }

    /// Share of 200 courses without a slope of which the interval of the least squares slope holds 0.
    fn held(keep: f64) -> f64 {
        let held = (0..200).filter(|seed| {
            let points = course(keep, *seed);
            least_squares_slope(&points).unwrap().abs()
                <= slope_half_width(&points, 0.95, Trend::Straight).unwrap()
        });
        held.count() as f64 / 200.0
    }

    #[test]
    fn courses_that_remember_long_are_held_as_often_as_independent_ones() {
        // Of a promise of 95% fewer than 90% come once in 1,000 times; 0.94 remembers two fifths of the time.
        for keep in [0.0, 0.5, 0.8, 0.94] {
            assert!(held(keep) >= 0.9, "{keep}: {}", held(keep));
        }
    }

    #[test]
    fn independent_points_have_about_the_interval_of_least_squares() {
        let points = course(0.0, 7);
        let slope = least_squares_slope(&points).unwrap();
        let middle = points.iter().map(|point| point.1).sum::<f64>() / 40.0;
        let squares: f64 = points.iter().map(|(x, y)| (y - middle - slope * (x - 19.5)).powi(2)).sum();
        let lever: f64 = points.iter().map(|point| (point.0 - 19.5).powi(2)).sum();
        let usual = 2.024 * (squares / 38.0 / lever).sqrt();
        let half = slope_half_width(&points, 0.95, Trend::Straight).unwrap();
        assert!(half > 0.8 * usual && half < 2.0 * usual, "{half} {usual}");
        // Units do not matter, and a line that is added does not.
        let other: Vec<(f64, f64)> = points.iter().map(|(x, y)| (3.0 * x, 6.0 * (y + x))).collect();
        assert!((slope_half_width(&other, 0.95, Trend::Straight).unwrap() / (2.0 * half) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn too_few_points_and_points_on_a_line_have_none() {
        assert_eq!(slope_half_width(&course(0.5, 1)[..7], 0.95, Trend::Straight), None);
        assert_eq!(slope_half_width(&[(0.0, 1.0); 10], 0.95, Trend::Straight), None);
        let flat: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 2.0)).collect();
        assert_eq!(slope_half_width(&flat, 0.95, Trend::Straight), None);
    }

    /// Of 100 courses those of which it is so.
    fn count(keep: f64, is_so: impl Fn(&[(f64, f64)]) -> bool) -> usize {
        (0..100).filter(|seed| is_so(&course(keep, 1000 + *seed))).count()
    }

    #[test]
    fn courses_without_a_bend_are_rarely_shown_to_bend_and_those_with_one_are() {
        // Of a promise of 5% more than 13 of 100 come once in 2,000 times.
        for keep in [0.0, 0.5, 0.94] {
            let shown = count(keep, |points| bend(points, 0.95).unwrap().is_shown());
            assert!(shown <= 13, "{keep}: {shown}");
        }
        // A parabola of 8 between its ends and its middle, beside a process of 1.
        let shown = count(0.5, |points| {
            let bent: Vec<(f64, f64)> =
                points.iter().map(|(x, y)| (*x, y - 8.0 * ((x - 19.5) / 19.5).powi(2))).collect();
            let found = bend(&bent, 0.95).unwrap();
            found.is_shown() && found.value < 0.0
        });
        assert!(shown >= 90, "{shown}");
    }

    #[test]
    fn a_parabola_goes_and_nothing_else_does() {
        let points = course(0.5, 3);
        let bent: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, y + 0.3 * x * x)).collect();
        // The interval of a slope beside a bend is that of what the bend leaves.
        let halves = [&points, &bent].map(|points| slope_half_width(points, 0.95, Trend::Bent).unwrap());
        assert!((halves[0] / halves[1] - 1.0).abs() < 1e-6, "{halves:?}");
        let straight: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), 2.0 + 3.0 * f64::from(x))).collect();
        let with: Vec<(f64, f64)> = straight.iter().map(|(x, y)| (*x, y - 0.5 * x * x)).collect();
        let left = without_bend(&with);
        let slope = least_squares_slope(&with).unwrap();
        for (value, (x, _)) in left.iter().zip(&with) {
            assert!((value - left[0] - slope * x).abs() < 1e-9, "{left:?}");
        }
        // Three points have no bend that could be distinguished from errors.
        assert_eq!(without_bend(&with[..3]), [2.0, 4.5, 6.0]);
    }
}
