//! Systems with a symmetric positive definite matrix.

/// The lower triangle of a Cholesky factor, row after row.
#[derive(Debug, Clone)]
pub(crate) struct Factor {
    rows: Vec<Vec<f64>>,
}

impl Factor {
    /// Of the matrix with these elements (`at(i, j)` for `j <= i`). `None` where it is not positive definite.
    pub(crate) fn of(size: usize, at: impl Fn(usize, usize) -> f64) -> Option<Self> {
        let mut factor = Self { rows: Vec::with_capacity(size) };
        for i in 0..size {
            factor.extend((0..=i).map(|j| at(i, j)).collect())?;
        }
        Some(factor)
    }

    /// With one more row of the matrix, its diagonal element last.
    pub(crate) fn extend(&mut self, row: Vec<f64>) -> Option<()> {
        let (last, rest) = row.split_last()?;
        let mut new = self.forward(rest);
        let pivot = last - new.iter().map(|value| value * value).sum::<f64>();
        if !(pivot.is_finite() && pivot > 1e-12 * last.abs()) {
            return None;
        }
        new.push(pivot.sqrt());
        self.rows.push(new);
        Some(())
    }

    /// Solves `L x = b`.
    pub(crate) fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (row, value) in self.rows.iter().zip(b) {
            let sum: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            x.push((value - sum) / row[x.len()]);
        }
        x
    }

    /// Solves `L Lᵀ x = b`.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.forward(b);
        for i in (0..x.len()).rev() {
            let sum: f64 = (i + 1..x.len()).map(|j| self.rows[j][i] * x[j]).sum();
            x[i] = (x[i] - sum) / self.rows[i][i];
        }
        x
    }

    /// Logarithm of the matrix' determinant.
    pub(crate) fn log_determinant(&self) -> f64 {
        self.rows.iter().enumerate().map(|(i, row)| 2.0 * row[i].ln()).sum()
    }
}
