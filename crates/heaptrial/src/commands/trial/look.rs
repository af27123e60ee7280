//! `heaptrial trial look`: an analysis of a running trial at a time fixed in advance.

use std::process::ExitCode;

use clap::Args;
use heaptrial_analysis::Decision;
use heaptrial_host::Instant;
use heaptrial_host::Paths;
use heaptrial_judgement::Options;
use heaptrial_judgement::look::{self, Gaps, LookState};
use heaptrial_model::{ErrorClass, TrialKind, units};
use heaptrial_report::LookReport;
use heaptrial_store::{Store, TrialRecord};

use super::{in_database, on_host};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Which trial.
///
/// Takes every planned look that is due and was not taken yet, on the data up to its planned time, and records it.
/// Without one that is due it prints the last one that was taken again.
///
/// An arm differs from the control where its p-value, adjusted for the number of arms (Holm), is at most the error
/// that this look may make; the errors of all looks add up to 5% (Lan and DeMets).
///
/// Exit codes: 0 decided: some arm is shown to differ from the control, at this look or an earlier one, or at the last
/// look all are shown to be within 10% of it. 4 inconclusive: neither. 3 refused: no look is due yet, the readings end
/// long before its time, or the trial ended before it; then nothing is recorded.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LookOptions {
    /// The trial's name
    #[arg(value_name = "NAME")]
    trial: String,
    /// Show levels of memory now, without anything that decides: no ratios, intervals, tests or verdicts
    #[arg(long)]
    peek: bool,
    /// Take a look though the last reading is long before its time or the trial ended before it; the look says so
    #[arg(long, conflicts_with = "peek")]
    accept_gap: bool,
}

/// Takes the looks that are due, or prints what there is.
pub fn run(options: &LookOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    on_host::require_readable(&paths, global)?;
    let database = on_host::database(&paths, global);
    if let Some(lost) = in_database::lost_of(&paths, &options.trial, &database) {
        return Err(lost.into());
    }
