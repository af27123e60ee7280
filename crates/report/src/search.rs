//! What reports of searches have in common.

use heaptrial_search::MeasuredBlock;
use serde::{Deserialize, Serialize};

use crate::page::{Block, Section, section};
use crate::table::{Columns, table_section};
use crate::units;

/// How a search was carried out, as far as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRun {
    pub metric: String,
    pub seed: u64,
    pub command: String,
    /// Why it ended before its end, if it did.
    pub stopped: Option<String>,
    /// In the order of the runs.
    pub blocks: Vec<MeasuredBlock>,
}

impl SearchRun {
    /// What is said first of a search that is not whole.
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.stopped.iter().map(|why| format!("{why}: this is what there was until then.")).collect()
    }

    /// Its blocks, and the command that repeats it.
    pub(crate) fn sections(&self) -> [Option<Section>; 2] {
        let arms = |block: &&MeasuredBlock| {
            let arms = block.arms.iter().map(|arm| match arm.log_ratio(&block.control) {
                Some(log_ratio) => {
                    let bytes = (block.control.level + log_ratio).exp();
                    format!("{} {} ({})", arm.name, units::memory(bytes), units::ratio(log_ratio.exp()))
                }
                None => format!("{} failed", arm.name),
            });
            Some(arms.collect::<Vec<_>>().join(", "))
        };
        let blocks = Columns::of("Block", |block: &&MeasuredBlock| block.number.to_string())
            .text("Seeds", |block| block.fresh.then(|| "fresh".to_owned()))
            .figure("Control", |block| Some(units::memory(block.control.level.exp())))
            .text("Arms (ratio)", arms)
            .table(&self.blocks);
        let again = section("again", "Again", vec![Block::Command(self.command.clone())]);
        [table_section("blocks", "Blocks", None, blocks), Some(again)]
    }
}
