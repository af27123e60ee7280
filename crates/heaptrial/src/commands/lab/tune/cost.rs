//! What a search of so many blocks can measure, and how long it takes.

use heaptrial_lab::Arrangement;
use heaptrial_model::HumanDuration;
use heaptrial_search::tune::Rules;

use super::options::TuneOptions;
use crate::exit::Failure;

/// A search in blocks.
pub(super) struct Cost {
    /// Of the search, without those of the verification.
    pub(super) blocks: usize,
    pub(super) verify: usize,
    pub(super) arms: usize,
    pub(super) winners: usize,
    /// Seconds of all services, without what comes before and after them; `None` where their load decides.
    pub(super) seconds: Option<f64>,
}

impl Cost {
    pub(super) fn of(
        options: &TuneOptions,
        rules: &Rules,
        arrangement: Arrangement,
        duration: Option<HumanDuration>,
    ) -> Self {
        let (blocks, verify) = (options.search_blocks(), options.verify as usize);
        let in_a_row = |arms: usize| if arrangement == Arrangement::OneByOne { arms + 1 } else { 1 };
        let runs = blocks * in_a_row(rules.arms) + verify * in_a_row(rules.winners + options.others().len());
        let seconds = duration.map(|duration| duration.0.as_secs_f64() * runs as f64);
        Self { blocks, verify, arms: rules.arms, winners: rules.winners, seconds }
    }

    /// Different candidates that can be measured at most: where one is better than the control, it is in each further block.
    pub(super) fn reach(&self) -> usize {
        self.blocks * self.arms
    }

    /// Refuses a search that ends before every allocator was measured with its default settings.
    pub(super) fn check(&self, bases: usize, size: Option<usize>) -> Result<(), Failure> {
        let least = bases.min(size.unwrap_or(bases)).div_ceil(self.arms.saturating_sub(1).max(1)) + 1;
        if self.blocks >= least {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--blocks {} is too little: {bases} allocators with their default settings and one block more need --blocks {least}, \
             or more --candidates to a block",
            self.blocks
        )))
    }
}
