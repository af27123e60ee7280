//! Where in a linear history a level changed, when every measurement is noisy.
//!
//! A history is a row of positions (releases, commits). A measurement is the log ratio of one position's level to that
//! of position 0 in one block: same seed, same load. [`Search`] takes measurements in, says which position to measure
//! next, and ends with an [`Answer`]: where the level changed, with probabilities.
//!
//! The belief is the exact posterior of a piecewise constant level with an unknown number of changes
//! ([`Posterior`]; Fearnhead 2006, "Exact and efficient Bayesian inference for multiple changepoint problems", Statistics
//! and Computing 16), over noise of unknown size with outliers. The next measurement is of the position whose level is
//! least certain; with a single change that is the median of its posterior, which is probabilistic bisection (Burnashev and
//! Zigangirov 1974; Ben-Or and Hassidim 2008).
//!
//! Pure: no I/O, no clock, no randomness.

mod answer;
mod evidence;
mod noise;
mod posterior;
mod search;

pub use answer::{Answer, Change, Ends};
pub use posterior::{Gap, Level, Posterior};
pub use search::{Rules, Search};
