//! Quantiles of distributions, from their distribution functions.
//!
//! statrs 0.18 has quantiles of Student's t and of the beta distribution by a Newton iteration without a limit, which does not
//! end for some arguments (its issue 435). Here a bracket is halved, which always ends.

use statrs::distribution::{Beta, ContinuousCDF, Normal, StudentsT};

/// Halvings and doublings at most: so many that a double has no further digit.
const STEPS: usize = 2200;

/// The value below which Student's t with `freedom` degrees of freedom falls with `probability`. `None` where the first is not
/// positive, the second is not between 0 and 1, or the value is beyond what a double holds.
pub fn student_quantile(freedom: f64, probability: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom.is_finite())?;
    // The lower tail is known to more digits than the upper one.
    let tail = checked(probability)?.min(1.0 - probability);
    if tail == 0.5 {
        return Some(0.0);
    }
    let is_within = |reach: f64| student.cdf(-reach) > tail;
    let mut high = 1.0;
    for _ in 0..STEPS {
        if !is_within(high) {
            break;
        }
        high *= 2.0;
    }
    let reach = halve(0.0, high, is_within);
    reach.is_finite().then_some(if probability < 0.5 { -reach } else { reach })
}

/// The value below which the beta distribution of shapes `a` and `b` falls with `probability`. `None` where a shape is not
/// positive, or the probability is not between 0 and 1.
pub fn beta_quantile(a: f64, b: f64, probability: f64) -> Option<f64> {
    let beta = Beta::new(a, b).ok()?;
    checked(probability)?;
    Some(halve(0.0, 1.0, |x| beta.cdf(x) < probability))
}

/// The value below which the standard normal distribution falls with `probability`. `None` where that is not between 0 and 1.
pub fn normal_quantile(probability: f64) -> Option<f64> {
    // Of the normal distribution there is a closed form.
    #[allow(clippy::disallowed_methods, reason = "it has no iteration")]
    Some(Normal::standard().inverse_cdf(checked(probability)?))
}

fn checked(probability: f64) -> Option<f64> {
    (probability > 0.0 && probability < 1.0).then_some(probability)
}

/// Where `is_below` turns from true to false, to the last digit.
fn halve(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if is_below(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Critical values of the usual tables, and of SciPy 1.17 where those have none.
    #[test]
    fn agrees_with_tables() {
        for (freedom, probability, wanted) in [
            (1.0, 0.975, 12.706_204_736),
            (2.0, 0.975, 4.302_652_730),
            (4.0, 0.025, -2.776_445_105),
            (10.0, 0.95, 1.812_461_123),
            (30.0, 0.995, 2.749_995_654),
            (1000.0, 0.975, 1.962_339_081),
        ] {
            let found = student_quantile(freedom, probability).unwrap();
            assert!((found - wanted).abs() < 1e-8, "{freedom} {probability}: {found}");
        }
        // Of 1 service out of 10 the exact interval (Clopper and Pearson) is 0.0025286 to 0.4450161.
        let ends = [beta_quantile(1.0, 10.0, 0.025), beta_quantile(2.0, 9.0, 0.975)].map(Option::unwrap);
        assert!((ends[0] - 0.002_528_579).abs() < 1e-8 && (ends[1] - 0.445_016_117).abs() < 1e-8, "{ends:?}");
        assert!((normal_quantile(0.975).unwrap() - 1.959_963_985).abs() < 1e-8);
    }

    #[test]
    fn what_has_no_quantile_has_none() {
        for probability in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
            assert_eq!(student_quantile(3.0, probability), None);
            assert_eq!(beta_quantile(3.0, 2.0, probability), None);
            assert_eq!(normal_quantile(probability), None);
        }
        for freedom in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(student_quantile(freedom, 0.975), None);
        }
        assert_eq!(beta_quantile(0.0, 2.0, 0.5), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Whatever the degrees of freedom, whole or not: it ends, and the distribution function gives the probability back.
        #[test]
        fn the_distribution_function_gives_the_probability_back(
            freedom in prop_oneof![1.0_f64..5.0, 1.0_f64..200.0, (1_u32..2000).prop_map(f64::from)],
            tail in prop_oneof![1e-6_f64..0.5, Just(0.025), Just(0.05), Just(0.005)],
            shapes in (0.5_f64..300.0, 0.5_f64..300.0),
        ) {
            let student = StudentsT::new(0.0, 1.0, freedom).unwrap();
            let low = student_quantile(freedom, tail).unwrap();
            prop_assert!((student.cdf(low) / tail - 1.0).abs() < 1e-9, "{freedom} {tail}: {low}");
            let high = student_quantile(freedom, 1.0 - tail).unwrap();
            prop_assert!((low + high).abs() <= 1e-6 * high, "{low} {high}");
            let beta = Beta::new(shapes.0, shapes.1).unwrap();
            let found = beta_quantile(shapes.0, shapes.1, tail).unwrap();
            prop_assert!((beta.cdf(found) / tail - 1.0).abs() < 1e-6, "{shapes:?} {tail}: {found}");
        }
    }
}
