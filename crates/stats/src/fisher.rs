//! Counts in two groups.

use statrs::function::gamma::ln_gamma;

/// One-sided p-value of Fisher's exact test: how likely a random assignment of `a.1` and `b.1` services, of which
/// `a.0 + b.0` in all have a property, puts `a.0` or fewer of them into the first group.
///
/// R. A. Fisher, "The Logic of Inductive Inference", Journal of the Royal Statistical Society 98 (1935). 1 where a
/// group is empty.
pub fn fisher_fewer(a: (usize, usize), b: (usize, usize)) -> f64 {
    let ((few, of), (other_few, other_of)) = (a, b);
    let with = few.min(of) + other_few.min(other_of);
    if of == 0 || other_of == 0 {
        return 1.0;
    }
    let all = log_choose(of + other_of, with);
    let least = with.saturating_sub(other_of);
    let probability = |count: usize| (log_choose(of, count) + log_choose(other_of, with - count) - all).exp();
    (least..=few.min(of)).map(probability).sum::<f64>().min(1.0)
}

fn log_choose(n: usize, k: usize) -> f64 {
    ln_gamma((n + 1) as f64) - ln_gamma((k + 1) as f64) - ln_gamma((n - k + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tables_are_counted_by_hand() {
        assert!((fisher_fewer((0, 6), (5, 6)) - 6.0 / 792.0).abs() < 1e-12);
        assert!((fisher_fewer((0, 2), (2, 2)) - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(fisher_fewer((0, 0), (5, 6)), 1.0);
        assert!((fisher_fewer((6, 6), (0, 6)) - 1.0).abs() < 1e-12);
    }
}
