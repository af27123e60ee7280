//! Figures of the arms of a block, and limits of them.

use serde::{Deserialize, Serialize};

const PAGE_BYTES: f64 = 4096.0;
/// CPU time is read in steps of so many seconds.
const CPU_STEP_SECONDS: f64 = 1e-6;

/// A figure of an arm. The level is what is to be small; the others may have a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    Level,
    Cpu,
    /// What of the work is missing.
    Work,
}

/// Figures of one arm in one block: natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ArmFigures {
    /// Of the level of memory in bytes.
    pub level: f64,
    pub cpu: Option<f64>,
    /// Of the control's work over that of the arm, by the measure in which the arm is worst: 0.1 is a tenth less work, or a
    /// latency a tenth longer. `None` where the control did none, and where the arm did none.
    pub work: Option<f64>,
}

/// The standard deviation that readings of these steps have at least: that of numbers that are spread evenly over a step.
pub(crate) fn least_sd(steps: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = steps.fold((0.0, 0.0), |(sum, count), step| (sum + step * step / 12.0, count + 1.0));
    if count > 0.0 { (sum / count).sqrt() } else { 0.0 }
}

/// A block: the same seed and load for all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Block {
    pub control: ArmFigures,
    /// Of candidates, by their position in [`crate::tune::Search::candidates`].
    pub arms: Vec<(usize, ArmFigures)>,
}

/// The most that a candidate may take: natural logarithms of ratios to the control.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Limits {
    pub cpu: Option<f64>,
    /// Of what of the work is missing.
    pub work: Option<f64>,
}

impl ArmFigures {
    pub fn get(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Level => Some(self.level),
            Figure::Cpu => self.cpu,
            Figure::Work => self.work,
        }
        .filter(|value| value.is_finite())
    }

    /// The step at which the reading of a figure is cut off, as a log: runs that agree to that are no more alike than it.
    /// Memory is read in pages, CPU time in microseconds; of work that is not known.
    pub(crate) fn step(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Level => (PAGE_BYTES / self.level.exp()).ln_1p(),
            Figure::Cpu => self.cpu.map_or(0.0, |cpu| (CPU_STEP_SECONDS / cpu.exp()).ln_1p()),
            Figure::Work => 0.0,
        }
    }
}

impl Limits {
    pub fn given(&self) -> impl Iterator<Item = (Figure, f64)> {
        let all = [(Figure::Cpu, self.cpu), (Figure::Work, self.work)];
        all.into_iter().filter_map(|(figure, limit)| Some((figure, limit?)))
    }
}
