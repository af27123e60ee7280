//! A treatment that a trial measured, brought to the services of a host in waves.
//!
//! Before a wave comes a gate: [`judge`] says go, stop or not enough data, and cannot change anything. [`Rollout`] changes
//! services through the transactions of `heaptrial-field`, whose journal also tells how far the rollout has come, so that
//! it goes on at the exact wave after a crash or a reboot.

mod gate;
mod hours;
mod marker;
mod plan;
mod progress;
mod rollout;
mod waves;

pub use gate::{Gate, Grounds, Observed, Outcome, Subject, judge};
pub use hours::{QuietHours, QuietHoursError};
pub use marker::{pause, paused};
pub use plan::{Before, Limits, RolloutPlan, RolloutPlanError, read_plan};
pub use progress::{Progress, WaveStage};
pub use rollout::{Ending, Observer, Rollout};
pub use waves::{WaveError, WaveSizes, split};
