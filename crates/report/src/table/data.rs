//! Tables of what a report was made from.

use super::{Emphasis, NOTHING, Row, Table, figure, text};
use crate::document::{Event, Report};
use crate::units;

/// Events beyond these are only in `report.json`.
const EVENTS_SHOWN: usize = 50;

/// The files that data came from.
pub(crate) fn sources(report: &Report) -> Option<Table> {
    let columns = [text("File"), text("Holds"), figure("Rows"), figure("Excluded"), text("SHA-256")];
    let rows = report.sources.iter().map(|source| {
        let counts = [source.rows, source.skipped].map(units::count);
        let cells = [source.file.clone(), source.role.clone()].into_iter().chain(counts);
        row(cells.chain([source.sha256.clone()]))
    });
    Table::of(columns, rows)
}

/// What happened, and how many events there is no room for.
pub(crate) fn events(report: &Report) -> (Option<Table>, usize) {
    let rows = report.events.iter().take(EVENTS_SHOWN).map(|event| {
        let Event { at, service, kind, text } = event;
        let service = service.clone().unwrap_or_else(|| NOTHING.to_owned());
        row([at.clone(), kind.clone(), service, text.clone()].into_iter())
    });
    let table = Table::of(["When", "Kind", "Service", "What"].map(text), rows);
    (table, report.events.len().saturating_sub(EVENTS_SHOWN))
}

fn row(cells: impl Iterator<Item = String>) -> Row {
    Row { arm: None, emphasis: Emphasis::None, cells: cells.collect() }
}
