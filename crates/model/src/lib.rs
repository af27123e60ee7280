//! The words of Heaptrial as types: allocator specs, identities, treatments, arms, trials,
//! lives and samples. No I/O, no clock, no randomness.
//!
//! Sizes are bytes, times are seconds or microseconds, and the unit is in the name.

mod duration;
mod factorial;
mod identity;
mod life;
mod sample;
mod spec;
mod trial;
mod trial_name;
pub mod units;

pub use duration::{DurationError, HumanDuration};
pub use factorial::{FactorialDesign, SettingLevel, Side};
pub use identity::{Identity, Linkage};
pub use life::{Ending, LifeKey, LifeStart};
pub use sample::{Metric, Reading, Sample, SlowSample};
pub use spec::{AllocatorSpec, Setting, SpecError, Version};
pub use trial::{Arm, ArmError, Pace, ServiceName, ServiceNameError, Treatment, TrialPlan, TrialPlanError};
pub use trial_name::{ServicePattern, ServicePatternError, TrialName, TrialNameError};
