//! How far off a slope through a course of which the errors hang together may be.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Memories that are looked at: from half the usual distance of points to so many times the whole time, which cannot be told
/// from a random walk.
const LONGEST: f64 = 10.0;
const MEMORIES: usize = 12;
/// Variances of noise of each point, in proportion to that of a step of the process.
const NOISES: [f64; 4] = [0.0, 0.25, 1.0, 4.0];
/// Fewer points tell nothing about how one depends on the one before.
const FEWEST: usize = 8;
/// Values closer together than this have no error.
const ROUNDING: f64 = 1e-12;

/// What one memory and one share of noise would have.
struct Candidate {
    log_likelihood: f64,
    /// Standard error of the least squares slope.
    error: f64,
}

/// Half-width of the interval of confidence `level` of a slope through `points` (time, value): a line and an AR(1) process
/// in continuous time with noise of each point.
///
/// How long the process remembers is not known, and points that span a few of its memories hardly tell: an estimate is too
/// short more often than not, and an interval by it too narrow. So all memories are taken, from half a distance of points to
/// ten times the whole, evenly on the log scale, each weighed by its restricted likelihood (H. D. Patterson, R. Thompson,
/// Biometrika 58 (1971)), and the error is the mixture of Student's t of each (D. A. Harville, Journal of the American
/// Statistical Association 69 (1974)). `None` of fewer than 8 points, of points out of
/// order, and of values that are all the same.
pub fn slope_half_width(points: &[(f64, f64)], level: f64) -> Option<f64> {
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
        .filter_map(|(memory, noise)| candidate(points, memory, noise, usual))
        .collect();
    let best = candidates.iter().map(|of| of.log_likelihood).max_by(f64::total_cmp)?;
    let weights: Vec<f64> = candidates.iter().map(|of| (of.log_likelihood - best).exp()).collect();
    let all: f64 = weights.iter().sum();
    let student = StudentsT::new(0.0, 1.0, (n - 2) as f64).ok()?;
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

fn candidate(points: &[(f64, f64)], memory: f64, noise: f64, usual: f64) -> Option<Candidate> {
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
    let centre = points.iter().map(|point| point.0).sum::<f64>() / n as f64;
    let middle = points.iter().map(|point| point.1).sum::<f64>() / n as f64;
    let (one, time) = (whiten(&|_| 1.0), whiten(&|i| points[i].0 - centre));
    let value = whiten(&|i| points[i].1 - middle);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (ones, both, times) = (dot(&one, &one), dot(&one, &time), dot(&time, &time));
    let determinant = ones * times - both * both;
    let (of_one, of_time) = (dot(&one, &value), dot(&time, &value));
    let explained =
        (times * of_one * of_one - 2.0 * both * of_one * of_time + ones * of_time * of_time) / determinant;
    let squares = dot(&value, &value) - explained;
    let spread = points.iter().map(|point| (point.1 - middle).abs()).fold(0.0, f64::max);
    if spread <= ROUNDING || squares.is_nan() || squares <= 0.0 {
        return None;
    }
    let free = (n - 2) as f64;
    let logs: f64 = (0..n).map(|i| root[i][i].ln()).sum();
    let lever: f64 = points.iter().map(|point| (point.0 - centre).powi(2)).sum();
    let together: f64 = (0..n)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .map(|(i, j)| (points[i].0 - centre) * (points[j].0 - centre) * covariance(i, j))
        .sum();
    Some(Candidate {
        log_likelihood: -logs - 0.5 * determinant.ln() - 0.5 * free * squares.ln(),
        error: (squares / free * together).sqrt() / lever,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
            crate::line::fit_line(&points).unwrap().slope.abs() <= slope_half_width(&points, 0.95).unwrap()
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
        let line = crate::line::fit_line(&points).unwrap();
        let lever: f64 = points.iter().map(|point| (point.0 - 19.5).powi(2)).sum();
        let usual = 2.024 * (line.squares / 38.0 / lever).sqrt();
        let half = slope_half_width(&points, 0.95).unwrap();
        assert!(half > 0.8 * usual && half < 2.0 * usual, "{half} {usual}");
        // Units do not matter, and a line that is added does not.
        let other: Vec<(f64, f64)> = points.iter().map(|(x, y)| (3.0 * x, 6.0 * (y + x))).collect();
        assert!((slope_half_width(&other, 0.95).unwrap() / (2.0 * half) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn too_few_points_and_points_on_a_line_have_none() {
        assert_eq!(slope_half_width(&course(0.5, 1)[..7], 0.95), None);
        assert_eq!(slope_half_width(&[(0.0, 1.0); 10], 0.95), None);
        let flat: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 2.0)).collect();
        assert_eq!(slope_half_width(&flat, 0.95), None);
    }
}
