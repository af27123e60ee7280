//! The tables of a report as texts: terminal, Markdown and HTML show the same ones.

pub(crate) mod arms;
pub(crate) mod data;
pub(crate) mod hosts;
pub(crate) mod over_time;
pub(crate) mod services;
pub(crate) mod work;

use heaptrial_model::Metric;

use crate::document::{Arm, RatioToControl, Report};
use crate::page::{Block, Section};
use crate::text::estimate;
use crate::units::{self, Pace};

/// Shown where there is no figure.
pub(crate) const NOTHING: &str = "–";

/// A table whose rows are about arms or services.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
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
pub struct Column {
    pub title: String,
    /// Whether its cells are figures, which are aligned right.
    pub figures: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Position of the arm that it is about.
    pub arm: Option<usize>,
    pub emphasis: Emphasis,
    pub cells: Vec<String>,
}

impl Row {
    /// A row about the arm at `arm`, which stands out where it is the control.
    pub(crate) fn of_arm(report: &Report, arm: usize, cells: Vec<String>) -> Self {
        let emphasis = if report.arms[arm].control { Emphasis::Control } else { Emphasis::None };
        Self { arm: Some(arm), emphasis, cells }
    }
}

/// A row of no arm.
pub(crate) fn row(cells: Vec<String>) -> Row {
    Row { arm: None, emphasis: Emphasis::None, cells }
}

/// A section of one table, if there is one, below a legend.
pub(crate) fn table_section(
    id: &'static str,
    title: &'static str,
    legend: Option<String>,
    table: Option<Table>,
) -> Option<Section> {
    let table = Block::Table(title.to_owned(), table?);
    Some(Section { id, title, blocks: legend.map(Block::Legend).into_iter().chain([table]).collect() })
}

/// How a row stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    None,
    Control,
    /// As one without a figure.
    Lost,
}

/// How much a table of results shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Brief,
    Full,
}

/// An arm's ratio with its interval: `0.47 (0.44 to 0.51)`.
pub(crate) fn ratio(arm: &Arm) -> String {
    match arm.control {
        true => "control".to_owned(),
        false => ratio_with_interval(arm.ratio()),
    }
}

pub(crate) fn ratio_with_interval(ratio: Option<&RatioToControl>) -> String {
    optional(ratio, |ratio| estimate(&ratio.estimate, units::ratio))
}

/// Whether any arm was tested against the control.
fn p_values(report: &Report) -> bool {
    report.arms.iter().any(|arm| arm.ratio().is_some_and(|ratio| ratio.p_value_adjusted.is_some()))
}

fn p_value(ratio: Option<&RatioToControl>) -> String {
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

/// Memory, or that there is none.
pub(crate) fn bytes(bytes: Option<f64>) -> String {
    optional(bytes, units::memory)
}

/// The same of whole bytes.
pub(crate) fn whole(bytes: Option<u64>) -> String {
    self::bytes(bytes.map(|bytes| bytes as f64))
}

/// The reading that is shown alongside the one that is compared.
fn other_reading(report: &Report) -> &'static str {
    if report.analysis.metric == Metric::Rss { "RssAnon at end" } else { "RSS at end" }
}

/// Its value, of an arm or a service.
fn of_other_reading(report: &Report, rss: Option<u64>, anon: Option<u64>) -> Option<u64> {
    if report.analysis.metric == Metric::Rss { anon } else { rss }
}

/// The time over which growth in bytes is shown.
fn pace(report: &Report) -> Pace {
    if report.has_days() { Pace::Day } else { Pace::for_length(report.planned_seconds) }
}
