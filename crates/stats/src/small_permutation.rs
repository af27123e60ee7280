//! The permutation test of two small arms of equal size, made to be repeated thousands of times.

use rand::Rng;

/// Assignments looked at: all, if there are no more, else as many are drawn.
const ASSIGNMENTS: usize = 499;

/// The test for one size of arms.
pub(crate) struct SmallPermutation {
    services: usize,
    /// All assignments, a bit for each service of the first arm; none where they are drawn.
    assignments: Vec<u32>,
}

impl SmallPermutation {
    /// For arms of `services` each.
    pub(crate) fn of(services: usize) -> Self {
        // C(12, 6) = 924 is more than are looked at.
        let all = if services <= 5 { 0..1_u32 << (2 * services) } else { 0..0 };
        let assignments: Vec<u32> = all.filter(|bits| bits.count_ones() as usize == services).collect();
        debug_assert!(assignments.len() <= ASSIGNMENTS);
        Self { services, assignments }
    }

    /// Two-sided p-value of the difference of means (M. D. Ernst, "Permutation Methods: A Basis for Exact
    /// Inference", Statistical Science 19 (2004)): the share of assignments at least as far apart as the
    /// observed one, which counts as one of those that are drawn.
    pub(crate) fn p_value(&self, control: &[f64], treated: &[f64], random: &mut impl Rng) -> f64 {
        let mut values: Vec<f64> = control.iter().chain(treated).copied().collect();
        // Arms are of equal size: how far a sum is from half of all tells as much as the means.
        let half = values.iter().sum::<f64>() / 2.0;
        let far = |sum: f64| (sum - half).abs();
        let observed = far(control.iter().sum()) * (1.0 - 1e-12);
        let (at_least, all) = if self.assignments.is_empty() {
            let drawn = (0..ASSIGNMENTS).filter(|_| {
                for place in 0..self.services {
                    values.swap(place, random.random_range(place..2 * self.services));
                }
                far(values[..self.services].iter().sum()) >= observed
            });
            (drawn.count() + 1, ASSIGNMENTS + 1)
        } else {
            let sum = |bits: u32| {
                values.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, v)| v).sum()
            };
            let extreme = self.assignments.iter().filter(|bits| far(sum(**bits)) >= observed).count();
            (extreme, self.assignments.len())
        };
        at_least as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn separate_arms_have_the_smallest_p_value_there_is() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut p_value = |services: u32| {
            let control: Vec<f64> = (0..services).map(f64::from).collect();
            let treated: Vec<f64> = control.iter().map(|value| value + 100.0).collect();
            SmallPermutation::of(services as usize).p_value(&control, &treated, &mut random)
        };
        assert_eq!((p_value(3), p_value(4), p_value(9)), (2.0 / 20.0, 2.0 / 70.0, 1.0 / 500.0));
    }
}
