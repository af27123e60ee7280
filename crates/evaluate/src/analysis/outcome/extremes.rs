//! Which arm needs least and which most, over all arms that have any figure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkStanding;

/// What arms are put into order by. It is the same figure of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "figure", rename_all = "snake_case")]
pub enum Basis {
    /// Levels at one age: geometric mean over services.
    LevelAtEqualAge {
        /// The age in seconds.
        age_seconds: f64,
    },
    /// Averages over the time in which all arms ran, where some arm is restarted on purpose: geometric mean over services.
    AverageOverTime,
    /// Last readings, at whatever age: median over services. Some arm that was read has no level at the matched age.
    LastReadings,
}

/// The order of the arms.
///
/// Off-treatment services and readings of 0 bytes are left out. An arm that is shown to
/// do less than the control's work is in `order`, but is no extreme and has no rank ([`ArmPlace::ranked`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extremes {
    /// By which figure.
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
    /// Every other arm beside the control by ranks of services. Where intervals are missing this is what can be said.
    pub against_control: Vec<ArmPair>,
    /// All pairs of arms of which every service of one lies below every service of the other, widest gap first.
    pub separations: Vec<ArmPair>,
}

/// An arm in the order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmPlace {
    /// Its position.
    pub arm: usize,
    /// The figure in bytes.
    pub bytes: f64,
    /// Services that it is of,
    pub services: u32,
    /// of so many that have a last reading.
    pub of: u32,
    /// Ages at which it was read: all the same where `basis` is a level at one age.
    pub ages: AgeSpan,
    /// Whether it may be called least or most, be ranked or recommended.
    pub ranked: bool,
    /// Whether it does its work; `None` where no arm's work was read.
    pub work: Option<WorkStanding>,
}

/// Ages of the services of an arm at their last readings, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgeSpan {
    /// The youngest.
    pub youngest_seconds: f64,
    /// Half are younger.
    pub median_seconds: f64,
    /// The oldest.
    pub oldest_seconds: f64,
    /// Services whose start is not known: they are older than this says.
    pub starts_unknown: u32,
}

/// Two arms by ranks of their services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmPair {
    /// The arm whose services are lower, by pairs of services.
    pub lower: usize,
    /// The other one.
    pub higher: usize,
    /// Of which figure: levels at one age where both arms have them, else last readings.
    pub basis: Basis,
    /// What it shows.
    pub ranks: RankComparison,
    /// Whether the lower arm may be lower because it is younger.
    pub ages: AgeStanding,
    /// Where last readings are compared: the same at the age that half of both arms or more reached, where it can be told.
    pub at_common_age: Option<AtAge>,
}

/// A comparison at an age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtAge {
    /// The age in seconds.
    pub age_seconds: f64,
    /// `lower` and `higher` are those of the pair: where they changed places, `pairs_lower` is below half.
    pub ranks: RankComparison,
}

/// Whether ages could make the lower arm the lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgeStanding {
    /// Both are taken at one age, or over one time.
    Equal,
    /// The lower arm is as old as the other, or older: growth with age would make it the higher one.
    LowerNotYounger,
    /// The lower arm is younger: growth with age could explain it, unless it is so at a common age too.
    LowerYounger,
    /// Ages are not known.
    Unknown,
}

/// Services of two arms by rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankComparison {
    /// Services of the lower arm.
    pub lower_services: u32,
    /// Services of the higher arm.
    pub higher_services: u32,
    /// Share of the pairs of services (within blocks) of which that of the lower arm is lower; a tie counts half.
    pub pairs_lower: f64,
    /// Two-sided p-value of the exact rank test over services within blocks.
    pub p_value: f64,
    /// The same adjusted: against the control for the number of arms (Holm), else for the number of pairs of arms.
    pub p_value_adjusted: f64,
    /// Whether it is exact: of some hundreds of services it is of the normal approximation.
    pub exact: bool,
    /// Where every service of the lower arm lies below every one of the higher.
    pub gap: Option<Gap>,
}

/// The room between two arms that are completely apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Highest service of the lower arm.
    pub highest_of_lower_bytes: f64,
    /// Lowest service of the higher arm.
    pub lowest_of_higher_bytes: f64,
    /// The second over the first: above 1.
    pub factor: f64,
    /// How likely chance alone puts this arm apart below that one: 1 / C(n + m, n) without blocks. One-sided and of this
    /// pair alone.
    pub p_value: f64,
}

impl Extremes {
    /// The place of an arm, where it has a figure.
    pub fn place(&self, arm: usize) -> Option<&ArmPlace> {
        self.order.iter().find(|place| place.arm == arm)
    }
}

impl ArmPair {
    /// Whether the lower arm is shown to be lower at `alpha` (0.05), and not for its age.
    pub fn shows(&self, alpha: f64) -> bool {
        let below = |ranks: &RankComparison| ranks.pairs_lower > 0.5 && ranks.p_value_adjusted <= alpha;
        let at_one_age = matches!(self.ages, AgeStanding::Equal | AgeStanding::LowerNotYounger);
        below(&self.ranks) && (at_one_age || self.at_common_age.as_ref().is_some_and(|at| below(&at.ranks)))
    }
}
