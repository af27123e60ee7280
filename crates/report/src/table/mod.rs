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

pub(crate) const NOTHING: &str = "–";

/// A table whose rows are about arms or services.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
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

pub(crate) fn emphasis(report: &Report, arm: usize) -> (Option<usize>, Emphasis) {
    (Some(arm), if report.arms[arm].control { Emphasis::Control } else { Emphasis::None })
}

/// What each row shows in a column.
type Cell<'c, T> = Box<dyn Fn(&T) -> Option<String> + 'c>;

/// The columns of a table as data. Those that no row fills are left out, but for the first.
pub(crate) struct Columns<'c, T>(Vec<(Column, Cell<'c, T>)>);

impl<'c, T> Columns<'c, T> {
    /// With the names of the rows.
    pub(crate) fn of(title: &str, cell: impl Fn(&T) -> String + 'c) -> Self {
        Self(Vec::new()).text(title, move |row| Some(cell(row)))
    }

    pub(crate) fn text(mut self, title: &str, cell: impl Fn(&T) -> Option<String> + 'c) -> Self {
        self.0.push((Column { title: title.to_owned(), figures: false }, Box::new(cell)));
        self
    }

    pub(crate) fn figure(mut self, title: &str, cell: impl Fn(&T) -> Option<String> + 'c) -> Self {
        self.0.push((Column { title: title.to_owned(), figures: true }, Box::new(cell)));
        self
    }

    /// A table whose rows are of no arm; `None` without rows.
    pub(crate) fn table(self, rows: impl IntoIterator<Item = T>) -> Option<Table> {
        self.table_of_arms(rows, |_| (None, Emphasis::None))
    }

    /// The same of rows about arms: position of the arm, and how the row stands out.
    pub(crate) fn table_of_arms(
        self,
        rows: impl IntoIterator<Item = T>,
        about: impl Fn(&T) -> (Option<usize>, Emphasis),
    ) -> Option<Table> {
        let rows: Vec<T> = rows.into_iter().collect();
        let cells = |row: &T| self.0.iter().map(|(_, cell)| cell(row)).collect::<Vec<_>>();
        let filled: Vec<Vec<Option<String>>> = rows.iter().map(cells).collect();
        let shown: Vec<usize> = (0..self.0.len())
            .filter(|column| *column == 0 || filled.iter().any(|cells| cells[*column].is_some()))
            .collect();
        let row = |(row, cells): (&T, &Vec<Option<String>>)| {
            let (arm, emphasis) = about(row);
            let cells = shown.iter().map(|column| optional(cells[*column].clone(), |cell| cell)).collect();
            Row { arm, emphasis, cells }
        };
        (!rows.is_empty()).then(|| Table {
            rows: rows.iter().zip(&filled).map(row).collect(),
            columns: shown.iter().map(|column| self.0[*column].0.clone()).collect(),
        })
    }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    None,
    Control,
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
    optional(ratio_or_control(arm.control, arm.ratio()), |ratio| ratio)
}

pub(crate) fn ratio_or_control(control: bool, ratio: Option<&RatioToControl>) -> Option<String> {
    match control {
        true => Some("control".to_owned()),
        false => ratio.map(|ratio| estimate(&ratio.estimate, units::ratio)),
    }
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

pub(crate) fn whole(bytes: Option<u64>) -> Option<String> {
    bytes.map(|bytes| units::memory(bytes as f64))
}

/// The reading that is shown alongside the one that is compared.
fn other_reading(report: &Report) -> &'static str {
    if report.analysis.metric == Metric::Rss { "RssAnon at end" } else { "RSS at end" }
}

/// Its value, of an arm or a service.
fn of_other_reading(report: &Report, rss: Option<u64>, anon: Option<u64>) -> Option<String> {
    whole(if report.analysis.metric == Metric::Rss { anon } else { rss })
}

/// The time over which growth in bytes is shown.
fn pace(report: &Report) -> Pace {
    if report.has_days() { Pace::Day } else { Pace::for_length(report.planned_seconds) }
}
