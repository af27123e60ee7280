//! Tables of what a report was made from.

use super::{Columns, Table};
use crate::document::{Event, Report, Source};
use crate::units;

/// Events beyond these are only in `report.json`.
const EVENTS_SHOWN: usize = 50;

pub(crate) fn sources(report: &Report) -> Option<Table> {
    Columns::of("File", |source: &&Source| source.file.clone())
        .text("Holds", |source| Some(source.role.clone()))
        .figure("Rows", |source| Some(units::count(source.rows)))
        .figure("Excluded", |source| Some(units::count(source.skipped)))
        .text("SHA-256", |source| Some(source.sha256.clone()))
        .table(&report.sources)
}

/// What happened, and how many events there is no room for.
pub(crate) fn events(report: &Report) -> (Option<Table>, usize) {
    let table = Columns::of("When", |event: &&Event| event.at.clone())
        .text("Kind", |event| Some(event.kind.clone()))
        .text("Service", |event| event.service.clone())
        .text("What", |event| Some(event.text.clone()))
        .table(report.events.iter().take(EVENTS_SHOWN));
    (table, report.events.len().saturating_sub(EVENTS_SHOWN))
}
