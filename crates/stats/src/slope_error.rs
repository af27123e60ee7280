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
/// Residuals closer together than this have no error.
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
/// Statistical Association 69 (1974)). `None` of fewer than 8 points, or of points on a line.
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
