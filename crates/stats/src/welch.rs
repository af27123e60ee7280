//! Welch's standard error.

use crate::moments::variance;

/// Standard error of the difference of means and its degrees of freedom.
///
/// B. L. Welch, "The Generalization of 'Student's' Problem when Several Different Population Variances
/// are Involved", Biometrika 34 (1947). `None` below two values a side.
pub(crate) fn welch_error(control: &[f64], treated: &[f64]) -> Option<(f64, f64)> {
    let parts = [variance(control)? / control.len() as f64, variance(treated)? / treated.len() as f64];
    let error = parts[0] + parts[1];
    // Welch-Satterthwaite.
    let freedom = error * error
        / (parts[0] * parts[0] / (control.len() - 1) as f64
            + parts[1] * parts[1] / (treated.len() - 1) as f64);
    Some((error.sqrt(), freedom))
}
