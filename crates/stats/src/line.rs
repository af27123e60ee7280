//! The straight line of least squares.

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// Change of y per unit of x.
    pub(crate) slope: f64,
    /// Sum of the squares of what remains.
    pub(crate) squares: f64,
}

/// The line of least squares; `None` without two distinct x.
pub(crate) fn fit_line(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x / n, sum.1 + y / n));
    let (mut xx, mut xy) = (0.0, 0.0);
    for (x, y) in points {
        xx += (x - mean_x) * (x - mean_x);
        xy += (x - mean_x) * (y - mean_y);
    }
    if xx.is_nan() || xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let rest = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
    Some(Line { slope, squares: points.iter().map(rest).sum() })
}

/// Change of y per unit of x; `None` without two distinct x.
pub(crate) fn least_squares_slope(points: &[(f64, f64)]) -> Option<f64> {
    fit_line(points).map(|line| line.slope)
}
