//! When a watch looks, and how much of its error each look may make.

/// Days of the looks of a watch of 30 days; those of another length are in proportion.
const LOOK_DAYS: [f64; 11] = [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 18.0, 22.0, 26.0, 30.0];
const OF_DAYS: f64 = 30.0;
/// No look is earlier: before half of a day has been read no level of services that go on from the trial is known.
const FIRST_DAY: f64 = 0.6;
/// A whole day that is over counts as over.
const ROUNDING: f64 = 1e-9;

/// Days after the start at which a watch of `days` looks.
pub fn look_days(days: f64) -> Vec<f64> {
    LOOK_DAYS.iter().map(|day| day * days / OF_DAYS).filter(|day| *day >= FIRST_DAY).collect()
}

/// The error that each look may make, of `error` in all: in proportion to the time since the look before.
///
/// The spending function `error · t` (K. Kim, D. L. DeMets, "Design and Analysis of Group Sequential Tests Based on the
/// Type I Error Spending Rate Function", Biometrika 74, 1987, with rho = 1). A trial keeps nearly all of its error for
/// the end, because it decides once; a watch must find at once what goes wrong on any day, so every day may err alike.
pub fn look_errors(days: f64, error: f64) -> Vec<f64> {
    let looks = look_days(days);
    let before = std::iter::once(0.0).chain(looks.iter().copied());
    before.zip(&looks).map(|(before, at)| error * (at - before) / days).collect()
}

/// Days in which failures are counted: so many that are over after `elapsed` days, of `days`.
pub fn days_over(elapsed: f64, days: f64) -> u32 {
    (elapsed.min(days) + ROUNDING).max(0.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_in_proportion_and_spend_the_error_and_no_more() {
        assert_eq!(look_days(30.0)[..4], [1.0, 2.0, 3.0, 5.0]);
        assert_eq!(look_days(15.0).last(), Some(&15.0));
        assert_eq!(look_days(7.0)[..2], [0.7, 5.0 * 7.0 / 30.0]);
        for days in [1.0, 3.0, 7.0, 30.0] {
            assert!(look_days(days)[0] > 0.5);
            let errors = look_errors(days, 0.01);
            assert!((errors.iter().sum::<f64>() - 0.01).abs() < 1e-12);
            assert!(errors.iter().all(|error| *error > 0.0));
        }
    }
}
