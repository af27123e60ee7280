//! A treatment that a trial measured, brought to the services of a host in waves.
//!
//! Before a wave comes a gate: [`judge`] says go, stop or not enough data, and cannot change anything. [`Rollout`] changes
//! services through the transactions of `heaptrial-change`, whose journal also says how far the rollout has come, so that
//! it goes on at the exact wave after a crash or a reboot.

mod cut_short;
mod expected;
mod gate;
mod hours;
mod marker;
mod measured;
mod of_trial;
mod plan;
mod progress;
mod run;
mod savings;
mod step;
mod verdict;
mod waves;

pub use cut_short::cut_short;
pub(crate) use expected::median_from;
pub use expected::{Expected, Kind, Ratio, RatioError, Stratum, kinds, level, strata, usual_level};
pub use gate::{
    Above, Gate, Grounds, Judged, LEAST_WORK, Level, Observed, Outcome, Subject, Together, judge,
    judge_memory, pool,
};
pub use hours::QuietHours;
pub use marker::{pause, paused};
pub use measured::{MeasuredTreatment, settings_of};
pub use plan::{Before, Forced, Reports, RolloutPlan, freeze, is_rollout, read_plan};
pub use progress::{Course, Progress, WaveStage};
pub use run::{Ending, Observer, Rollout, judge_now};
pub use savings::{Savings, savings};
pub use step::{Reason, RolloutStep};
pub use verdict::{MeasuredHost, MeasuredRatio, Verdict};
pub use waves::{WaveSizes, split};

use heaptrial_model::{Classified, ErrorClass};

/// Why a file is no verdict, a folder holds no rollout that can be read, or hosts cannot be judged together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Classified for Refused {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}
