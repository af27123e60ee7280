//! A treatment that a trial measured, brought to the services of a host in waves.
//!
//! Before a wave comes a gate: [`judge`] says go, stop or not enough data, and cannot change anything. [`Rollout`] changes
//! services through the transactions of `heaptrial-change`, whose journal also tells how far the rollout has come, so that
//! it goes on at the exact wave after a crash or a reboot.

mod capacity;
mod cut_short;
mod gate;
mod hours;
mod level_ratio;
mod marker;
mod measured;
mod plan;
mod progress;
mod rollout;
mod step;
mod strata;
mod verdict;
mod waves;

pub use capacity::{Compared, Worth, Worths, worths};
pub use cut_short::cut_short;
pub use gate::{Course, Gate, Grounds, Judged, Observed, Outcome, PoolError, Subject, Tally, judge, pool};
pub use hours::{QuietHours, QuietHoursError};
pub use marker::{pause, paused};
pub use measured::{Evidence, Whole, settings_of};
pub use plan::{Before, RolloutPlan, RolloutPlanError, Tells, freeze, is_rollout, read_plan};
pub use progress::{Progress, WaveStage};
pub use rollout::{Ending, Observer, Rollout, judge_now};
pub use step::{Reason, RolloutStep};
pub use strata::{Kind, Stratum, kinds, strata, strata_of};
pub use verdict::{HostNow, MeasuredHost, MeasuredRatio, Verdict, VerdictError, against, warnings};
pub use waves::{WaveError, WaveSizes, split};
