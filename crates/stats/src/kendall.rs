//! How alike two orders are.

use std::cmp::Ordering;

/// How two lists of figures order the same things.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kendall {
    /// Kendall's tau-b, from -1 (one order is the other turned round) to 1 (the same order); `None` where
    /// one list has only ties.
    pub tau_b: Option<f64>,
    /// Pairs that both order alike.
    pub concordant: usize,
    /// Pairs that they order otherwise.
    pub discordant: usize,
    /// Pairs that are tied in one of the lists or in both.
    pub tied: usize,
}

/// Kendall's tau-b of two lists of the same length, which takes account of ties (M. G. Kendall, "The Treatment of Ties in
/// Ranking Problems", Biometrika 33 (1945)). `None` for lists of different lengths, fewer than two figures, or one
/// that is not a number.
pub fn kendall(a: &[f64], b: &[f64]) -> Option<Kendall> {
    if a.len() != b.len() || a.len() < 2 || a.iter().chain(b).any(|value| value.is_nan()) {
        return None;
    }
    let (mut concordant, mut discordant, mut tied_a, mut tied_b, mut tied) = (0, 0, 0, 0, 0);
    for i in 0..a.len() {
        for j in 0..i {
            let orders = (a[i].partial_cmp(&a[j])?, b[i].partial_cmp(&b[j])?);
            tied_a += usize::from(orders.0 == Ordering::Equal);
            tied_b += usize::from(orders.1 == Ordering::Equal);
            match orders {
                (Ordering::Equal, _) | (_, Ordering::Equal) => tied += 1,
                (a, b) if a == b => concordant += 1,
                _ => discordant += 1,
            }
        }
    }
    let pairs = concordant + discordant + tied;
    let (ordered_a, ordered_b) = ((pairs - tied_a) as f64, (pairs - tied_b) as f64);
    let tau = (concordant as f64 - discordant as f64) / (ordered_a * ordered_b).sqrt();
    Some(Kendall { tau_b: Some(tau).filter(|tau| tau.is_finite()), concordant, discordant, tied })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_few_things() {
        let tau = |a: &[f64], b: &[f64]| kendall(a, b).unwrap().tau_b;
        assert_eq!(tau(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
        assert_eq!(tau(&[1.0, 2.0, 3.0], &[30.0, 20.0, 10.0]), Some(-1.0));
        assert_eq!(tau(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(kendall(&[1.0], &[1.0]), None);
        assert_eq!(kendall(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(kendall(&[1.0, f64::NAN], &[1.0, 2.0]), None);
    }
}
