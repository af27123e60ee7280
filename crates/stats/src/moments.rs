//! Mean and variance of a sample.

/// Values, or their logarithms, that agree so far agree but for rounding.
pub(crate) const ROUNDING: f64 = 1e-12;

/// The arithmetic mean; not a number for no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample variance; `None` below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| squares / (values.len() - 1) as f64)
}
