//! What a budget holds.

use heaptrial_lab::Arrangement;
use heaptrial_model::HumanDuration;
use heaptrial_report::units;
use heaptrial_tune::Rules;

use super::Budget;
use super::options::TuneOptions;
use crate::exit::Failure;

/// A budget as blocks, and how long they take.
pub(super) struct Cost {
    /// Blocks of the search: so many, or at most so many where a time is given; `None` where nobody knows how long a block
    /// takes before the first was run.
    pub(super) blocks: Option<usize>,
    pub(super) verify: usize,
    pub(super) arms: usize,
    pub(super) winners: usize,
    /// Seconds of a block of the search and one of the verification, without what comes before and after services.
    seconds: Option<(f64, f64)>,
    budget: Budget,
}

impl Cost {
    pub(super) fn of(
        options: &TuneOptions,
        rules: &Rules,
        budget: Budget,
        arrangement: Arrangement,
        duration: Option<HumanDuration>,
    ) -> Self {
        let in_turn = |arms: usize| if arrangement == Arrangement::OneByOne { arms + 1 } else { 1 };
        let verified = rules.winners + options.others().len();
        let seconds = duration.map(|duration| {
            let each = duration.0.as_secs_f64();
            (each * in_turn(rules.arms) as f64, each * in_turn(verified) as f64)
        });
        let verify = options.verify as usize;
        let blocks = match (budget, seconds) {
            (Budget::Blocks(blocks), _) => Some(blocks),
            (Budget::Seconds(time), Some((block, of_verification))) => {
                Some(((time - verify as f64 * of_verification) / block).max(0.0) as usize)
            }
            (Budget::Seconds(_), None) => None,
        };
        Self { blocks, verify, arms: rules.arms, winners: rules.winners, seconds, budget }
    }

    /// Different candidates that can be measured. Where one is better than the control, it is in each further block.
    pub(super) fn reach(&self) -> Option<usize> {
        Some(self.blocks? * self.arms)
    }

    /// Blocks in which every allocator was measured as it comes, and one more.
    pub(super) fn least(&self, bases: usize, size: Option<usize>) -> usize {
        bases.min(size.unwrap_or(bases)).div_ceil(self.arms.saturating_sub(1).max(1)) + 1
    }

    /// The time that is the budget.
    pub(super) fn time(&self) -> Option<f64> {
        match self.budget {
            Budget::Seconds(time) => Some(time),
            Budget::Blocks(_) => None,
        }
    }

    /// Refuses a budget that ends before every allocator was measured as it comes.
    pub(super) fn check(&self, bases: usize, size: Option<usize>) -> Result<(), Failure> {
        let least = self.least(bases, size);
        let Some(blocks) = self.blocks.filter(|blocks| *blocks < least) else { return Ok(()) };
        let (given, ask) = match (self.budget, self.seconds) {
            (Budget::Seconds(time), Some((block, of_verification))) => {
                let needed = least as f64 * block + self.verify as f64 * of_verification;
                let told = format!("--time {}", units::duration(time));
                (told, format!("--time {} at least", units::duration(needed)))
            }
            _ => (format!("--blocks {blocks}"), format!("--blocks {least} at least")),
        };
        Err(Failure::usage(format!(
            "{given} is too little: {bases} allocators as they come and one block more need {ask}, or more --candidates to a \
             block"
        )))
    }

    pub(super) fn seconds_in_all(&self) -> Option<f64> {
        let (block, of_verification) = self.seconds?;
        Some(self.blocks? as f64 * block + self.verify as f64 * of_verification)
    }
}
