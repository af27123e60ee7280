//! From the rows of a database to what is known of a trial: the one way for lab runs,
//! imports, field trials, rollouts and watches.
//!
//! [`Rows`] are what is stored of a trial; [`Rows::fleet`] makes the [`Fleet`](crate::analysis::Fleet) that
//! [`analysis`](crate::analysis) judges; a [`Judgement`] has both with what no analysis needs and every reader asks for. A look
//! is a judgement at a time fixed in advance, which spends error probability and is recorded ([`look`]).
//!
//! Nothing is changed but the record of a look.

mod arms;
mod bins;
mod calendar;
mod consensuses;
mod error;
mod facts;
mod fleet;
mod gate;
mod hosts;
mod lab;
pub mod look;
mod nodes;
mod of_trial;
mod pair;
mod rows;
pub mod score;
mod swap;
mod trajectory;
mod treatment;
mod work;

pub use arms::ArmFacts;
pub use bins::Point;
pub use calendar::{Calendar, Happened, Mark, Moment};
pub use consensuses::{ConsensusClock, RESTED, Rest};
pub use error::JudgementError;
pub use facts::{Observed, ServiceFacts};
pub use fleet::cut;
pub use heaptrial_stats::median as middle;
pub use of_trial::{Judgement, Options};
pub use pair::RunFigures;
pub use rows::{Rows, dated_lives, find_trial, read_fleet};
pub use trajectory::{Trajectories, Trajectory, extremes, split_at_gaps};
pub use work::{TRAFFIC, traffic_since};
