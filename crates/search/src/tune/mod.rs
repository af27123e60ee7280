//! Which settings of which allocators need the least memory, when every run is noisy.
//!
//! A [`Space`] is a list of allocators with settings, each with a few levels; a [`Candidate`] is one choice of all. A [`Block`]
//! has the figures of the control and of a few candidates, measured with the same seed and load. [`Search`] takes blocks in and
//! says which candidates the next one has; at last it names winners, which are verified in blocks of their own ([`verified`]).
//!
//! Three things are distinguished. What is *compared* is within blocks ([`Comparison`], least squares over candidates and
//! blocks). Who is *dropped* is decided by that alone, with an error probability that is spent over all blocks. What
//! is measured *next* comes from a [`Model`] of how settings act, which may be wrong and costs only blocks when it is.
//!
//! Pure: no I/O, no clock; randomness comes from a seed passed in.

mod comparison;
mod effects;
mod features;
mod figures;
mod matrix;
mod model;
mod proposal;
mod search;
mod space;
mod verified;

pub use comparison::Comparison;
pub use effects::Effect;
pub use figures::{ArmFigures, Block, Figure, Limits};
pub use model::Model;
pub use search::{DropReason, LEAST_FREEDOM, Rules, Search, Standing};
pub use space::{Base, Candidate, Level, Needs, Setting, Space};
pub use verified::{Against, Doubt, doubt, verified};
