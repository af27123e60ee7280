//! Reports of trials: a [`Report`] document made from a [`Judgement`](heaptrial_judgement::Judgement), and its forms for
//! the terminal, as Markdown, as HTML, as JSON and as charts.
//!
//! Nothing here estimates, reads a clock or writes to a database: the same judgement gives the same report, byte for byte.

mod bisect;
mod bug;
mod build;
mod chart;
mod comparison;
mod document;
mod error;
mod escape;
mod findings;
mod html;
mod libraries;
mod look;
mod markdown;
mod page;
mod paper;
mod schema;
mod score;
mod summary;
mod table;
mod terminal;
mod tune;
mod verdict;
mod write;

pub use bisect::{
    BISECT_SCHEMA_VERSION, BisectReport, BlockReport, ChangeReport, CommitReport, MeasuredPosition,
    SkippedPosition,
};
pub use bug::{
    ArmEvidence, BUG_SCHEMA_VERSION, Bug, BugFiles, BugParts, BugRun, Bundle, ChartFile, Evidence,
    OddFinding, Ran, Reproduction, SettingDefault, WithoutDefaults, pseudonymise, write_bug,
};
pub use chart::Chart;
pub use chart::running::LifeSeries;
pub use comparison::{
    ArmInTrial, COMPARISON_SCHEMA_VERSION, ComparedTreatment, ComparedTrial, Comparison, compare,
};
pub use document::*;
pub use error::ReportError;
pub use heaptrial_analysis::Settings;
pub use heaptrial_judgement::{Options, Trajectories};
pub use heaptrial_model::units;
pub use html::embedded;
pub use look::{LOOK_SCHEMA_VERSION, LookReport, LookedArm};
pub use paper::Paper;
pub use schema::report_schema;
pub use score::{SCORE_SCHEMA_VERSION, ScoreReport};
pub use terminal::terminal;
pub use tune::{
    BlockOfTune, CandidateReport, EffectReport, Ground, TUNE_SCHEMA_VERSION, TuneReport, VerifiedArm,
    VerifiedReport,
};
pub use write::{Written, write, write_comparison};
