//! Reports of trials: a [`Report`] document made from the rows of a database, and its forms for the
//! terminal, as Markdown, as HTML, as JSON and as charts.
//!
//! Nothing here reads a clock: the same rows give the same report, byte for byte.

mod arm;
mod bug;
mod build;
mod chart;
mod comparison;
mod document;
mod error;
mod escape;
mod factorial;
mod field;
mod figures;
mod findings;
mod fleet;
mod html;
mod ledger;
mod look;
mod looks;
mod markdown;
mod png;
mod summary;
mod table;
mod terminal;
mod trajectory;
mod treatment;
mod verdict;
mod work;
mod write;

pub use bug::{
    ArmEvidence, BUG_SCHEMA_VERSION, Bug, BugFiles, BugParts, BugRun, Bundle, ChartFile, Evidence,
    OddFinding, Ran, Reproduction, Secrets, SettingDefault, WithoutDefaults, write_bug,
};
pub use build::{Options, Settings};
pub use chart::Chart;
pub use chart::running::LifeSeries;
pub use comparison::{
    ArmInTrial, COMPARISON_SCHEMA_VERSION, ComparedTreatment, ComparedTrial, Comparison, compare,
};
pub use document::*;
pub use error::ReportError;
pub use factorial::{
    Cell, FACTORIAL_SCHEMA_VERSION, FactorialReport, LevelEffect, Parts, SettingEffect, SettingShare,
};
pub use fleet::read_fleet;
pub use heaptrial_model::units;
pub use html::embedded;
pub use look::{
    Gaps, LOOK_SCHEMA_VERSION, LookReport, LookState, LookedArm, look_state, peek, stored_look, take_look,
};
pub use terminal::terminal;
pub use trajectory::{Point, Trajectories, Trajectory};
pub use write::{Written, write, write_comparison};
