//! What a block of a search measured.

use serde::{Deserialize, Serialize};

use crate::tune::ArmFigures;

/// A block as it was carried out: the control and some arms, with the same seed and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredBlock {
    pub number: usize,
    pub seconds: f64,
    /// Whether on a seed that the search never saw.
    pub fresh: bool,
    pub control: ArmFigures,
    pub arms: Vec<MeasuredArm>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredArm {
    /// Its position in a history; of a search over settings, among the arms of the block.
    pub at: usize,
    pub name: String,
    pub sha256: String,
    /// Or why there are none.
    pub figures: Result<ArmFigures, String>,
}

impl MeasuredArm {
    /// Log ratio of its level to the control's.
    pub fn log_ratio(&self, control: &ArmFigures) -> Option<f64> {
        self.figures.as_ref().ok().map(|figures| figures.level - control.level)
    }
}
