//! Estimators and tests. Pure functions: no I/O, no clock, and no randomness but a seed passed in.
//!
//! The unit of analysis is the service: one number per service goes in, never its time points.
//! Memory is compared on the log scale, so that effects are ratios.

mod permutation;
mod quantile;
mod ratio;
mod theil_sen;

pub use quantile::{median, quantile};
pub use ratio::{Block, IntervalMethod, RatioEstimate, geometric_mean, ratio_to_control};
pub use theil_sen::{TheilSen, theil_sen, thin};
