//! Whether the growth of services levels off.

use crate::counts::sign_test;
use crate::line::{Line, fit_line};

/// Fewest points for the two fits: with 4 parameters (the variance is one) AICc needs 6.
const FEWEST_POINTS: usize = 6;
/// Time constants looked at, as shares of the time observed. A curve with a longer one than the whole time could not be
/// distinguished from a straight line, and its asymptote would lie outside of what was seen.
const SHORTEST: f64 = 0.01;
const GRID: usize = 64;
/// A difference of AICc from which on one model is preferred.
const CLEAR_DIFFERENCE: f64 = 2.0;

/// Whether `points` (age, memory), sorted by age, are better described by a curve that levels off than by a straight line, both
/// fitted by least squares: `y = a + c (1 - exp(-t / tau))` and `y = a + b t`.
///
/// For a given tau the curve is linear in a and c, so only tau is searched (separable least squares: G. H. Golub, V. Pereyra,
/// SIAM Journal on Numerical Analysis 10 (1973)): on a grid of logarithms from 1/100 of the time observed to all of it, then by
/// golden section. The models are compared by AICc (C. M. Hurvich, C.-L. Tsai, Biometrika 76 (1989)), with 3 and 4 parameters,
/// the variance among them. The curve is better if it rises, its tau is shorter than the time observed and its AICc is
/// lower by 2 or more.
///
/// AICc assumes independent errors. Successive readings are not, so one series proves little: see [`most_level_off`]. `None`
/// with fewer than 6 points, fewer than 3 ages, ages out of order, or a value that is not finite.
pub fn levels_off(points: &[(f64, f64)]) -> Option<bool> {
    let in_order = points.windows(2).all(|pair| pair[0].0 <= pair[1].0);
    let finite = points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    let mut ages: Vec<f64> = points.iter().map(|point| point.0).collect();
    ages.dedup();
    if points.len() < FEWEST_POINTS || ages.len() < 3 || !in_order || !finite {
        return None;
    }
    let (first, span) = (ages[0], ages[ages.len() - 1] - ages[0]);
    let line = fit_line(points)?;
    let (tau, curve) = fit_curve(points, first, span)?;
    // Data that lie on a model to the last digit have no error to take the logarithm of.
    let highest = points.iter().map(|point| point.1.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let least_square = (1e-12 * highest).powi(2).max(f64::MIN_POSITIVE);
    let aicc = |fit: &Line, parameters: f64| {
        let n = points.len() as f64;
        n * (fit.squares / n).max(least_square).ln()
            + 2.0 * parameters
            + 2.0 * parameters * (parameters + 1.0) / (n - parameters - 1.0)
    };
    let bends = curve.slope > 0.0 && tau < span * (1.0 - 1e-6);
    Some(bends && aicc(&line, 3.0) - aicc(&curve, 4.0) >= CLEAR_DIFFERENCE)
}

/// Whether the growth of an arm levels off, from [`levels_off`] of each of its services: more of them do than not, by the
/// two-sided exact sign test at `alpha`. Fewer than 6 services never do at 0.05.
pub fn most_level_off(services: &[bool], alpha: f64) -> bool {
    let curves = services.iter().filter(|curve| **curve).count();
    let others = services.len() - curves;
    curves > others && sign_test(curves, others) <= alpha
}

/// The best tau and the line over `1 - exp(-(t - first) / tau)`.
fn fit_curve(points: &[(f64, f64)], first: f64, span: f64) -> Option<(f64, Line)> {
    let mut bent = points.to_vec();
    let mut at = |log_tau: f64| {
        for (place, (age, _)) in bent.iter_mut().zip(points) {
            place.0 = -(-(age - first) / log_tau.exp()).exp_m1();
        }
        fit_line(&bent)
    };
    let (low, high) = ((SHORTEST * span).ln(), span.ln());
    let step = (high - low) / (GRID - 1) as f64;
    let mut best: Option<(usize, f64)> = None;
    for index in 0..GRID {
        if let Some(fit) = at(low + step * index as f64) {
            if best.is_none_or(|(_, squares)| fit.squares < squares) {
                best = Some((index, fit.squares));
            }
        }
    }
    let middle = low + step * best?.0 as f64;
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = ((middle - step).max(low), (middle + step).min(high));
    while right - left > 1e-10 {
        let (a, b) = (right - golden * (right - left), left + golden * (right - left));
        if at(a)?.squares <= at(b)?.squares {
            right = b;
        } else {
            left = a;
        }
    }
    // A limit of the range is reached exactly, not almost.
    let found = left.midpoint(right);
    let found = if high - found < 1e-9 { high } else { found };
    Some((found.exp(), at(found)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..60).map(f64::from).map(|t| (t, value(t) + 0.01 * (t * 12.9898).sin())).collect()
    }

    #[test]
    fn a_curve_levels_off_and_lines_and_falls_do_not() {
        assert_eq!(levels_off(&series(|t| 2.0 + 3.0 * (1.0 - (-t / 12.0).exp()))), Some(true));
        assert_eq!(levels_off(&series(|t| 2.0 + 0.1 * t)), Some(false));
        assert_eq!(levels_off(&series(|t| (t / 20.0).exp())), Some(false));
        assert_eq!(levels_off(&series(|t| 5.0 - 3.0 * (1.0 - (-t / 12.0).exp()))), Some(false));
        assert_eq!(levels_off(&series(|t| t)[..5]), None);
        assert_eq!(levels_off(&[(1.0, 1.0); 10]), None);
    }

    #[test]
    fn few_services_and_halves_decide_nothing() {
        assert!(most_level_off(&[true; 6], 0.05) && !most_level_off(&[true; 5], 0.05));
        assert!(!most_level_off(&[true, false, true, false, true, false, true, true], 0.05));
    }
}
