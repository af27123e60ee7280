//! The words of Heaptrial as types: allocator specs, identities, treatments, arms, trials,
//! lives and samples. No I/O, no clock, no randomness.
//!
//! Sizes are bytes, times are seconds or microseconds, and the unit is in the name.

mod about;
mod drawn;
mod drawn_file;
mod duration;
mod error_class;
mod event_kind;
mod family;
mod identity;
mod life;
mod memory_split;
mod plan_id;
mod sample;
mod schema;
mod spec;
mod tor_flag;
mod trial;
mod trial_kind;
mod trial_name;
pub mod units;
mod word;
mod work;

pub use about::About;
pub use drawn::{Assignment, Build, BuildOfHosts, DrawnPlan, builds_of_hosts};
pub use drawn_file::PlanFileError;
pub use duration::HumanDuration;
pub use error_class::{Classified, ErrorClass};
pub use event_kind::{EventKind, KnownEvent};
pub use family::{FAMILIES, family_in};
pub use identity::{BUILD_ID_DIGITS, Identity, Linkage, MappedLibrary};
pub use life::{Ending, LifeKey, LifeStart, with_reason};
pub use memory_split::MemorySplit;
pub use plan_id::PlanId;
pub use sample::{MemoryReading, Metric, Reading, Sample, SlowSample};
pub use spec::{AllocatorSpec, Setting, Version};
pub use tor_flag::TorFlag;
pub use trial::{Arm, Pace, ServiceName, Treatment, TrialPlan};
pub use trial_kind::TrialKind;
pub use trial_name::{ServicePattern, TrialName};
pub use word::InvalidText;
pub use work::{REQUESTS_FAILED_AND_TRIED, WorkKind, WorkMeasure};
