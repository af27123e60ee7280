//! Straight growth or growth that levels off.

use crate::binomial::sign_test;
use crate::line::{Line, fit_line};
use crate::{theil_sen_slope, thin};

/// Fewest points for the two fits: with 4 parameters (the variance is one) AICc needs 6.
const FEWEST_POINTS: usize = 6;
/// Time constants looked at, as shares of the time observed. A longer one than the whole time could
/// not be told from a straight line, and its asymptote would lie outside of what was seen.
const SHORTEST: f64 = 0.01;
const LONGEST: f64 = 1.0;
const GRID: usize = 64;
/// A difference of AICc from which on one model is preferred.
const CLEAR_DIFFERENCE: f64 = 2.0;
/// Points per half for the ratio of slopes.
const HALF_AT_MOST: usize = 100;

/// The shape of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// No levelling off is seen: growth goes on as far as the data show.
    Linear,
    /// Growth levels off within the time observed.
    Saturating,
    /// The data do not tell.
    Unclear,
}

impl Shape {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Saturating => "saturating",
            Self::Unclear => "unclear",
        }
    }
}

/// The two fits of one series, `y = a + b t` and `y = a + c (1 - exp(-t / tau))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthShape {
    /// b: units of y per unit of time.
    pub slope: f64,
    /// Where the curve goes to, a + c.
    pub asymptote: f64,
    /// c, from the first reading on: the whole rise; negative for a fall.
    pub rise: f64,
    /// Time constant, in the unit of time.
    pub tau: f64,
    /// Corrected Akaike criterion of the straight line.
    pub linear_aicc: f64,
    /// Corrected Akaike criterion of the curve.
    pub saturating_aicc: f64,
    /// Which of the two is better, see [`growth_shape`].
    pub shape: Shape,
    /// Slope of the later half of the time over that of the earlier half; `None` where the earlier half
    /// does not grow or a half has fewer than 3 points.
    pub late_to_early: Option<f64>,
    /// How it went in the end; `None` where a third of the time has fewer than 3 points.
    pub end: Option<End>,
}

/// Growth in the last third of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct End {
    /// What the slope of that third comes to over it.
    pub rise: f64,
    /// Its share of the rise of the third before; `None` where that does not rise.
    pub share: Option<f64>,
}

/// Fits a straight line and a saturating curve to `points` (age, memory), sorted by age, by least
/// squares and compares them.
///
/// For a given tau the curve is linear in a and c, so only tau is searched (separable least squares: G.
/// H. Golub, V. Pereyra, SIAM Journal on Numerical Analysis 10 (1973)): on a grid of logarithms from
/// 1/100 of the time observed to all of it, then by golden section. The models are compared by AICc (C.
/// M. Hurvich, C.-L. Tsai, Biometrika 76 (1989)), `n ln(RSS / n) + 2k + 2k(k + 1) / (n - k - 1)` with k =
/// 3 and 4 parameters, the variance among them. The shape is `Saturating` if the curve rises, its tau
/// is shorter than the time observed and its AICc is lower by 2 or more; `Linear` if the curve does not
/// rise, its tau is at its upper limit, or its AICc is higher by 2 or more; else `Unclear`.
///
/// AICc assumes independent errors. Successive readings are not, so one series proves little: see
/// [`arm_shape`]. The ratio of slopes is Theil-Sen's of the halves of the time. `None` with fewer than 6
/// points, fewer than 3 ages, ages out of order, or a value that is not finite.
pub fn growth_shape(points: &[(f64, f64)]) -> Option<GrowthShape> {
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
    let (linear_aicc, saturating_aicc) = (aicc(&line, 3.0), aicc(&curve, 4.0));
    let levels_off = curve.slope > 0.0 && tau < LONGEST * span * (1.0 - 1e-6);
    let shape = if !levels_off || saturating_aicc - linear_aicc >= CLEAR_DIFFERENCE {
        Shape::Linear
    } else if linear_aicc - saturating_aicc >= CLEAR_DIFFERENCE {
        Shape::Saturating
    } else {
        Shape::Unclear
    };
    let halves = slopes_beside(points, first + span / 2.0);
    Some(GrowthShape {
        slope: line.slope,
        asymptote: curve.intercept + curve.slope,
        rise: curve.slope,
        tau,
        linear_aicc,
        saturating_aicc,
        shape,
        late_to_early: halves.and_then(|(early, late)| (early > 0.0).then_some(late / early)),
        end: end(points, first, span),
    })
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
    let (low, high) = ((SHORTEST * span).ln(), (LONGEST * span).ln());
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

fn end(points: &[(f64, f64)], first: f64, span: f64) -> Option<End> {
    let later = points.partition_point(|point| point.0 < first + span / 3.0);
    let (middle, last) = slopes_beside(&points[later..], first + 2.0 * span / 3.0)?;
    Some(End { rise: last * span / 3.0, share: (middle > 0.0).then_some(last / middle) })
}

/// Slopes before and after an age.
fn slopes_beside(points: &[(f64, f64)], middle: f64) -> Option<(f64, f64)> {
    let (early, late) = points.split_at(points.partition_point(|point| point.0 < middle));
    if early.len() < 3 || late.len() < 3 {
        return None;
    }
    Some((theil_sen_slope(&thin(early, HALF_AT_MOST))?, theil_sen_slope(&thin(late, HALF_AT_MOST))?))
}

/// What the services of an arm show together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmShape {
    /// The decision.
    pub shape: Shape,
    /// Services whose own shape is `Saturating`.
    pub saturating: usize,
    /// All services that were fitted.
    pub services: usize,
    /// Two-sided p-value of as many saturating services as others.
    pub p_value: f64,
}

/// Decides for an arm from the shapes of its services, one per service.
///
/// The rule: a service counts as saturating if its curve is better by an AICc of 2 or more
/// ([`growth_shape`]). The exact binomial test compares their share with one half: `Saturating` if it
/// is above with p <= `alpha` (0.05), `Linear` if it is below with p <= `alpha`, else `Unclear`; so
/// fewer than 6 services never decide.
pub fn arm_shape(services: &[GrowthShape], alpha: f64) -> ArmShape {
    let saturating = services.iter().filter(|service| service.shape == Shape::Saturating).count();
    let others = services.len() - saturating;
    let p_value = sign_test(saturating, others);
    let shape = match saturating.cmp(&others) {
        _ if p_value > alpha => Shape::Unclear,
        std::cmp::Ordering::Greater => Shape::Saturating,
        std::cmp::Ordering::Less => Shape::Linear,
        std::cmp::Ordering::Equal => Shape::Unclear,
    };
    ArmShape { shape, saturating, services: services.len(), p_value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(n: usize, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..n).map(|i| i as f64).map(|t| (t, value(t) + 0.01 * (t * 12.9898).sin())).collect()
    }

    #[test]
    fn a_curve_and_a_line_are_told_apart() {
        let curve = growth_shape(&series(60, |t| 2.0 + 3.0 * (1.0 - (-t / 12.0).exp()))).unwrap();
        assert_eq!(curve.shape, Shape::Saturating);
        assert!((curve.asymptote - 5.0).abs() < 0.05 && (curve.tau - 12.0).abs() < 0.5, "{curve:?}");
        assert!(curve.late_to_early.unwrap() < 0.3);
        let line = growth_shape(&series(60, |t| 2.0 + 0.1 * t)).unwrap();
        assert_eq!(line.shape, Shape::Linear);
        assert!((line.late_to_early.unwrap() - 1.0).abs() < 0.1);
    }

    #[test]
    fn slow_curves_falls_and_flat_series_are_not_saturating() {
        for value in [
            (|t: f64| 3.0 * (1.0 - (-t / 600.0).exp())) as fn(f64) -> f64,
            |t| 1.0 + (-t / 12.0).exp(),
            |t| (t / 20.0).exp(),
        ] {
            assert_eq!(growth_shape(&series(60, value)).unwrap().shape, Shape::Linear);
        }
        let flat: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), 5.0)).collect();
        let flat = growth_shape(&flat).unwrap();
        assert_eq!((flat.shape, flat.slope, flat.late_to_early), (Shape::Linear, 0.0, None));
    }

    #[test]
    fn too_little_data_has_no_shape() {
        assert_eq!(growth_shape(&series(5, |t| t)), None);
        assert_eq!(growth_shape(&[(1.0, 1.0); 10]), None);
        let mut unsorted = series(10, |t| t);
        unsorted.swap(2, 3);
        assert_eq!(growth_shape(&unsorted), None);
    }

    #[test]
    fn an_arm_decides_by_the_share_of_its_services() {
        let curve = growth_shape(&series(60, |t| 2.0 + 3.0 * (1.0 - (-t / 12.0).exp()))).unwrap();
        let line = growth_shape(&series(60, |t| 2.0 + 0.1 * t)).unwrap();
        let arm = |curves: usize, lines: usize| {
            let mut services = vec![curve; curves];
            services.extend(vec![line; lines]);
            arm_shape(&services, 0.05).shape
        };
        assert_eq!((arm(6, 0), arm(5, 0)), (Shape::Saturating, Shape::Unclear));
        assert_eq!((arm(1, 8), arm(8, 1), arm(5, 5)), (Shape::Linear, Shape::Saturating, Shape::Unclear));
        assert_eq!(arm(0, 0), Shape::Unclear);
    }

    proptest! {
        #[test]
        fn the_shape_does_not_depend_on_units(
            noise in prop::collection::vec(-1.0f64..1.0, 20..40), scale in 0.01f64..100.0, late in 0.0f64..1e4
        ) {
            let points: Vec<(f64, f64)> = noise.iter().enumerate()
                .map(|(i, e)| (i as f64, (1.0 + i as f64).ln() + e * 0.3)).collect();
            let scaled: Vec<(f64, f64)> = points.iter().map(|(x, y)| (late + x * scale, y * scale)).collect();
            let (a, b) = (growth_shape(&points).unwrap(), growth_shape(&scaled).unwrap());
            let differences = (a.linear_aicc - a.saturating_aicc, b.linear_aicc - b.saturating_aicc);
            prop_assert!((differences.0 - differences.1).abs() < 1e-5, "{:?} {:?}", a, b);
            prop_assert!((a.slope - b.slope).abs() < 1e-9 * a.slope.abs().max(1.0));
        }
    }
}
