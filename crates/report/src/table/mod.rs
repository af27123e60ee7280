//! The tables of a report as texts: terminal, Markdown and HTML show the same ones.

pub(crate) mod arms;
pub(crate) mod data;
pub(crate) mod hosts;
pub(crate) mod over_time;
pub(crate) mod services;
pub(crate) mod work;

use heaptrial_model::Metric;

use crate::document::{Arm, Estimate, Ratio, Report};
use crate::units::{self, Pace};

/// Shown where there is no figure.
pub(crate) const NOTHING: &str = "–";

/// A table whose rows are about arms or services.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// `None` where there are no rows.
    pub(crate) fn of(
        columns: impl IntoIterator<Item = Column>,
        rows: impl IntoIterator<Item = Row>,
    ) -> Option<Self> {
        let rows: Vec<Row> = rows.into_iter().collect();
        (!rows.is_empty()).then(|| Self { columns: columns.into_iter().collect(), rows })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// Whether its cells are figures, which are aligned right.
    pub(crate) figures: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Position of the arm that it is about.
    pub(crate) arm: Option<usize>,
    pub(crate) emphasis: Emphasis,
    pub(crate) cells: Vec<String>,
}

impl Row {
    /// A row about the arm at `arm`, which stands out where it is the control.
    pub(crate) fn of_arm(report: &Report, arm: usize, cells: Vec<String>) -> Self {
        let emphasis = if report.arms[arm].control { Emphasis::Control } else { Emphasis::None };
        Self { arm: Some(arm), emphasis, cells }
    }
}

/// How a row stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emphasis {
    None,
    Control,
    /// As one without a figure.
    Lost,
}

/// How much a table of results shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Brief,
    Full,
}

/// An arm's ratio with its interval: `0.47 (0.44–0.51)`.
pub(crate) fn ratio(arm: &Arm) -> String {
    if arm.control {
        return "control".to_owned();
    }
    ratio_with_interval(arm.ratio_as_treated())
}

pub(crate) fn ratio_with_interval(ratio: Option<&Ratio>) -> String {
    optional(ratio, |ratio| match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            format!("{} ({}–{})", units::ratio(ratio.estimate), units::ratio(low), units::ratio(high))
        }
        _ => units::ratio(ratio.estimate),
    })
}

/// Whether any arm was tested against the control.
fn p_values(report: &Report) -> bool {
    report.arms.iter().any(|arm| arm.ratio_as_treated().is_some_and(|ratio| ratio.p_value_adjusted.is_some()))
}

fn p_value(ratio: Option<&Ratio>) -> String {
    optional(ratio.and_then(|ratio| ratio.p_value_adjusted), units::p_value)
}

/// An arm's treatment in a line: `glibc, DirCache 0`.
pub(crate) fn treatment(arm: &Arm) -> String {
    let allocator = Some(arm.allocator.clone()).filter(|allocator| !allocator.is_empty());
    let parts = allocator.into_iter().chain(arm.treatment.options());
    parts.collect::<Vec<_>>().join(", ")
}

pub(crate) fn optional<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

pub(crate) fn text(title: &str) -> Column {
    Column { title: title.to_owned(), figures: false }
}

pub(crate) fn figure(title: &str) -> Column {
    Column { title: title.to_owned(), figures: true }
}

/// The level of an arm at the matched age, without off-treatment services.
pub(crate) fn level(arm: &Arm) -> Option<u64> {
    match &arm.as_treated {
        Some(treated) => treated.level_bytes,
        None => arm.memory.as_ref()?.median_bytes,
    }
}

pub(crate) fn percent_with_interval(share: &Estimate) -> String {
    let value = units::signed_percent(share.value);
    match share.interval() {
        Some((low, high)) => {
            let end = |end: f64| units::signed_percent(end).trim_end_matches('%').to_owned();
            format!("{value} ({} to {})", end(low), end(high))
        }
        None => value,
    }
}

/// Memory, or that there is none.
pub(crate) fn bytes(bytes: Option<u64>) -> String {
    optional(bytes, |bytes| units::memory(bytes as f64))
}

/// The reading that stands beside the one that is compared.
fn other_reading(report: &Report) -> &'static str {
    if report.analysis.metric == Metric::Rss { "RssAnon at end" } else { "RSS at end" }
}

/// Its value, of an arm or a service.
fn of_other_reading(report: &Report, rss: Option<u64>, anon: Option<u64>) -> Option<u64> {
    if report.analysis.metric == Metric::Rss { anon } else { rss }
}

/// The time over which growth in bytes is told.
fn pace(report: &Report) -> Pace {
    if report.has_days() { Pace::Day } else { Pace::for_length(report.planned_seconds) }
}
