//! The order in which the arms of a run are started.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::workload::Arrangement;

/// A part of the run whose services live at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPlan {
    /// Which repeat it belongs to, counted from 0: rounds of a repeat have the same seed.
    pub repeat: u32,
    /// Within which its services are compared, counted from 0: the repeat, or its part where arms run in groups.
    pub block: u32,
    /// Which group of arms it is, counted from 0, where there are several.
    pub group: Option<u32>,
    /// Indices of arms, in the order of starting.
    pub arms: Vec<usize>,
}

impl RoundPlan {
    /// A name of it within its run, for files: two rounds with the same arm have different ones.
    pub(crate) fn name(&self) -> String {
        let group = self.group.map(|group| format!("-group{}", group + 1)).unwrap_or_default();
        format!("repeat{}{group}", self.repeat + 1)
    }
}

/// All rounds of a run in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pub rounds: Vec<RoundPlan>,
}

impl Schedule {
    /// Each repeat holds every arm once, in an order drawn from `seed`, so that arms are interleaved
    /// and none is always first. Where more arms are to live together than may, they form groups as large as each
    /// other, drawn anew for each repeat, with the control in every one.
    pub fn draw(arms: usize, control: usize, repeats: u32, arrangement: Arrangement, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut rounds = Vec::new();
        for repeat in 0..repeats {
            let mut order: Vec<usize> = (0..arms).collect();
            order.shuffle(&mut random);
            match arrangement {
                Arrangement::Together { at_most } if arms > at_most.max(2) => {
                    order.retain(|arm| *arm != control);
                    let groups = order.len().div_ceil(at_most.max(2) - 1);
                    for group in 0..groups {
                        let mut arms: Vec<usize> =
                            order.iter().skip(group).step_by(groups).copied().collect();
                        arms.push(control);
                        arms.shuffle(&mut random);
                        let block = repeat * groups as u32 + group as u32;
                        rounds.push(RoundPlan { repeat, block, group: Some(group as u32), arms });
                    }
                }
                Arrangement::Together { .. } => {
                    rounds.push(RoundPlan { repeat, block: repeat, group: None, arms: order });
                }
                Arrangement::OneByOne => {
                    let alone = |arm| RoundPlan { repeat, block: repeat, group: None, arms: vec![arm] };
                    rounds.extend(order.into_iter().map(alone));
                }
            }
        }
        Self { rounds }
    }

    /// Its blocks, in order: parts of a run that can be carried out each by itself.
    pub fn blocks(&self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.rounds.iter().map(|round| round.block).collect();
        blocks.dedup();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repeat_holds_every_arm_once_in_a_seeded_order() {
        let schedule = Schedule::draw(4, 0, 30, Arrangement::OneByOne, 9);
        assert_eq!(schedule, Schedule::draw(4, 0, 30, Arrangement::OneByOne, 9));
        assert_ne!(schedule, Schedule::draw(4, 0, 30, Arrangement::OneByOne, 10));
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
    fn groups_hold_every_arm_once_and_the_control_in_each() {
        let schedule = Schedule::draw(8, 5, 3, Arrangement::Together { at_most: 4 }, 1);
        assert_eq!(
            schedule.rounds.iter().map(|round| round.arms.len()).collect::<Vec<_>>(),
            [4, 3, 3, 4, 3, 3, 4, 3, 3]
        );
        for (index, repeat) in schedule.rounds.chunks(3).enumerate() {
            assert!(repeat.iter().all(|round| round.arms.contains(&5) && round.repeat == index as u32));
            let mut arms: Vec<usize> = repeat.iter().flat_map(|round| round.arms.clone()).collect();
            arms.retain(|arm| *arm != 5);
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2, 3, 4, 6, 7]);
        }
        assert_eq!(schedule.blocks(), (0..9).collect::<Vec<_>>());
        assert_eq!(Schedule::draw(3, 0, 2, Arrangement::OneByOne, 1).blocks(), [0, 1]);
    }
}
