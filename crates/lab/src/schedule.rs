//! Which arm runs when.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::workload::Arrangement;

/// A part of the run whose services live at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPlan {
    /// Which repeat it belongs to, counted from 0: the block of its services.
    pub repeat: u32,
    /// Indices of arms, in the order of starting.
    pub arms: Vec<usize>,
}

/// All rounds of a run in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The rounds.
    pub rounds: Vec<RoundPlan>,
}

impl Schedule {
    /// Each repeat holds every arm once, in an order drawn from `seed`, so that arms are interleaved
    /// and none is always first.
    pub fn draw(arms: usize, repeats: u32, arrangement: Arrangement, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut rounds = Vec::new();
        for repeat in 0..repeats {
            let mut order: Vec<usize> = (0..arms).collect();
            order.shuffle(&mut random);
            match arrangement {
                Arrangement::Together => rounds.push(RoundPlan { repeat, arms: order }),
                Arrangement::OneByOne => {
                    rounds.extend(order.into_iter().map(|arm| RoundPlan { repeat, arms: vec![arm] }));
                }
            }
        }
        Self { rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repeat_holds_every_arm_once_in_a_seeded_order() {
        let schedule = Schedule::draw(4, 30, Arrangement::OneByOne, 9);
        assert_eq!(schedule, Schedule::draw(4, 30, Arrangement::OneByOne, 9));
        assert_ne!(schedule, Schedule::draw(4, 30, Arrangement::OneByOne, 10));
        let mut first = [0; 4];
        for (repeat, rounds) in schedule.rounds.chunks(4).enumerate() {
            let mut arms: Vec<usize> = rounds.iter().map(|round| round.arms[0]).collect();
            assert!(rounds.iter().all(|round| round.repeat == repeat as u32));
            first[arms[0]] += 1;
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2, 3]);
        }
        assert!(first.iter().all(|count| *count > 0), "some arm is never first: {first:?}");
    }

    #[test]
    fn services_that_run_together_share_a_round() {
        let schedule = Schedule::draw(3, 2, Arrangement::Together, 1);
        assert_eq!(schedule.rounds.iter().map(|round| round.arms.len()).collect::<Vec<_>>(), [3, 3]);
    }
}
