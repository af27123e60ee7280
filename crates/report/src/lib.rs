//! Reports of trials: a [`Report`] document made from a [`Judgement`](heaptrial_evaluate::judgement::Judgement), and its forms for
//! the terminal, as Markdown, as HTML, as JSON and as charts. Looks, comparisons and searches are [`Document`]s as well.
//!
//! Nothing here estimates, reads a clock or writes to a database: the same judgement gives the same report, byte for byte.

mod bisect;
mod build;
mod caveats;
mod chart;
mod comparison;
mod document;
mod error;
mod escape;
mod finding_text;
mod forms;
mod html;
mod libraries;
mod look;
mod markdown;
mod method;
mod page;
mod pseudonym;
mod score;
mod search;
mod setup;
mod summary;
mod table;
mod terminal;
mod terms;
mod text;
mod tune;
mod verdict;

pub use bisect::{
    BISECT_SCHEMA_VERSION, BisectReport, ChangeReport, CommitReport, MeasuredPosition, SkippedPosition,
};
pub use chart::Chart;
pub use chart::lives::LifeSeries;
pub use comparison::{
    ArmInTrial, COMPARISON_SCHEMA_VERSION, ComparedTreatment, ComparedTrial, Comparison, compare,
};
pub use document::*;
pub use error::ReportError;
pub use finding_text::objection as objection_text;
pub use forms::{Document, Written};
pub use heaptrial_evaluate::analysis::Settings;
pub use heaptrial_evaluate::judgement::{Options, Trajectories};
pub use heaptrial_model::units;
pub use html::embedded;
pub use look::{LOOK_SCHEMA_VERSION, LookReport, LookedArm};
pub use pseudonym::rename as pseudonymise;
pub use score::{SCORE_SCHEMA_VERSION, ScoreReport};
pub use search::SearchRun;
pub use terminal::Screen;
pub use tune::{TUNE_SCHEMA_VERSION, TuneReport, VerifiedArm, VerifiedReport};
