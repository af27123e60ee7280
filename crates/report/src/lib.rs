//! Reports of trials: a [`Report`] document made from the rows of a database, and its forms for the
//! terminal, as Markdown, as HTML, as JSON and as charts.
//!
//! Nothing here reads a clock: the same rows give the same report, byte for byte.

mod arm;
mod build;
mod chart;
mod document;
mod error;
mod escape;
mod figures;
mod findings;
mod html;
mod ledger;
mod markdown;
mod png;
mod summary;
mod table;
mod terminal;
mod trajectory;
pub mod units;
mod write;

pub use build::Options;
pub use chart::Chart;
pub use document::*;
pub use error::ReportError;
pub use terminal::terminal;
pub use trajectory::{Point, Trajectories, Trajectory};
pub use write::{Written, write};
