//! Which arm needs least and which most, over all arms that have any figure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkStanding;

/// The figure by which arms are put into order. It is the same of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "figure", rename_all = "snake_case")]
pub enum Basis {
    /// Levels at one age: geometric mean over services.
    LevelAtEqualAge { age_seconds: f64 },
    /// Averages over the time in which all arms ran, where some arm is restarted on purpose: geometric mean over services.
    AverageOverTime,
    /// Last readings, at whatever age: median over services. Some arm that was read has no level at the matched age.
    LastReadings,
}

/// The order of the arms.
///
/// Off-treatment services and readings of 0 bytes are excluded. An arm that is shown to do less than the control's work is in
/// `order`, but is no extreme and has no rank ([`ArmPlace::ranked`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extremes {
    /// The figure of the order.
    pub basis: Basis,
    /// Arms that were read and of which less than half of the services have a level at the matched age. Where there are
    /// any, `basis` is the last readings.
    pub without_level: Vec<usize>,
    /// Arms that have no reading.
    pub without_reading: Vec<usize>,
    /// Every other arm, from the least figure to the highest.
    pub order: Vec<ArmPlace>,
    /// The arm of the least figure, of those that have a rank; `None` with fewer than two of them.
    pub least: Option<usize>,
    /// The arm of the highest figure, of those that have a rank.
    pub most: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmPlace {
    pub arm: usize,
    pub bytes: f64,
    pub services: u32,
    /// Services with a last reading.
    pub of: u32,
    /// Whether it may be called least or most, be ranked or recommended.
    pub ranked: bool,
    /// Whether it does its work; `None` where no arm's work was read.
    pub work: Option<WorkStanding>,
}

impl Extremes {
    /// The place of an arm, where it has a figure.
    pub fn place(&self, arm: usize) -> Option<&ArmPlace> {
        self.order.iter().find(|place| place.arm == arm)
    }
}
