//! Welch's t test.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::moments::{mean, variance};

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

/// Two-sided p-value of equal means; 1 where the test is impossible or nothing varies and the means are
/// equal, 0 where nothing varies and they are not.
pub(crate) fn welch_p_value(control: &[f64], treated: &[f64]) -> f64 {
    let difference = (mean(treated) - mean(control)).abs();
    match welch_error(control, treated) {
        Some((0.0, _)) => f64::from(u8::from(difference == 0.0)),
        Some((error, freedom)) => match StudentsT::new(0.0, 1.0, freedom) {
            Ok(student) => 2.0 * student.cdf(-difference / error),
            Err(_) => 1.0,
        },
        None => 1.0,
    }
}
