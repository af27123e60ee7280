//! Estimators and tests. Pure functions: no I/O, no clock, and no randomness but a seed passed in.
//!
//! The unit of analysis is the service: one number per service goes in, never its time points.
//! Memory is compared on the log scale, so that effects are ratios.

#![warn(missing_docs)]

mod aa;
mod alpha_spending;
mod counts;
mod equivalence;
mod first_passage;
mod holm;
mod interaction;
mod inverse;
mod kendall;
mod last_part;
mod levels_off;
mod line;
mod median_interval;
mod moments;
mod permutation;
mod power;
mod quantile;
mod quotient;
mod ratio;
mod slope_error;
mod student_interval;
mod theil_sen;
mod time_average;
mod time_needed;
mod trajectory_distance;

pub use aa::{AaCheck, aa_check};
pub use alpha_spending::{ALPHA, look_alphas, spent};
pub use counts::{fisher_fewer, share_interval};
pub use equivalence::{Standing, standing};
pub use first_passage::{FirstPassage, first_passage};
pub use holm::holm;
pub use interaction::interaction_p_value;
pub use inverse::{beta_quantile, normal_quantile, student_quantile};
pub use kendall::{Kendall, kendall};
pub use last_part::{LastPart, last_part};
pub use levels_off::{levels_off, most_level_off};
pub use median_interval::{MedianEstimate, median_interval};
pub use moments::{mean, variance};
pub use permutation::ENUMERATED_AT_MOST;
pub use power::{Power, SimulatedTrials, power_of_ratio, services_needed};
pub use quantile::{median, quantile};
pub use quotient::{Bounded, quotient};
pub use ratio::{Block, IntervalMethod, RatioEstimate, geometric_mean, ratio_to_control, student_p_value};
pub use slope_error::{Bend, Trend, bend, slope_half_width, without_bend};
pub use student_interval::{student_interval, student_interval_at_least};
pub use theil_sen::theil_sen_slope;
pub use time_average::time_average;
pub use time_needed::days_needed;
pub use trajectory_distance::trajectory_distance;
