//! Tables with a row for each service.

use super::{Emphasis, Row, Table, figure, optional, text, whole};
use heaptrial_model::{Ending, SlowSample};

use crate::document::{Report, Service};
use crate::units;

/// Services beyond these are only in `report.json`.
const SERVICES_SHOWN: usize = 300;

const RESTARTS: &str = "Restarts";

/// A column of which services have a value.
struct Column {
    column: super::Column,
    cell: fn(&Report, &Service) -> Option<String>,
}

/// The services, those that do not count first, and how many there is no room for. Columns that nobody fills are left out.
pub(crate) fn every(report: &Report) -> (Table, usize) {
    let mut order: Vec<&Service> = report.services.iter().collect();
    order.sort_by_key(|service| service.counts);
    order.truncate(SERVICES_SHOWN);
    let mut columns = columns(report);
    let restarted = order.iter().any(|service| service.restarts.is_some_and(|restarts| restarts > 0));
    columns.retain(|column| {
        let known = order.iter().any(|service| (column.cell)(report, service).is_some());
        known && (restarted || column.column.title != RESTARTS)
    });
    let rows = order.iter().map(|service| Row {
        arm: report.arms.iter().position(|arm| arm.name == service.arm),
        emphasis: if service.counts { Emphasis::None } else { Emphasis::Lost },
        cells: columns.iter().map(|column| optional((column.cell)(report, service), |cell| cell)).collect(),
    });
    let rows = rows.collect();
    let table = Table { columns: columns.into_iter().map(|column| column.column).collect(), rows };
    (table, report.services.len().saturating_sub(SERVICES_SHOWN))
}

fn columns(report: &Report) -> Vec<Column> {
    let named = |title, cell| Column { column: text(title), cell };
    let number = |title, cell| Column { column: figure(title), cell };
    vec![
        named("Service", |_, service| Some(service.name.clone())),
        named("Arm", |_, service| Some(service.arm.clone())),
        named("Counts", belongs),
        number("Repeat", |report, service| (report.repeats > 1).then(|| (service.block + 1).to_string())),
        named("Runs", |report, service| {
            let unproved = (!report.kind.is_import() && !report.kind.is_lab()).then_some("not proved");
            service.ran.as_deref().or(unproved).map(str::to_owned)
        }),
        // Ends as planned need no column.
        named("End", |_, service| {
            service.ending.as_ref().filter(|ending| **ending != Ending::Planned).map(ToString::to_string)
        }),
        number("Age", |_, service| service.age_seconds.map(units::duration)),
        number("Level", |_, service| {
            let level = service.memory.as_ref().and_then(|memory| memory.median_bytes);
            level.map(|level| units::memory(level as f64)).or_else(|| service.no_level.clone())
        }),
        number("At end", |_, service| Some(whole(Some(service.memory.as_ref()?.final_bytes)))),
        number("Peak", |_, service| Some(whole(Some(service.memory.as_ref()?.peak_bytes)))),
        number(super::other_reading(report), |report, service| {
            let value = super::of_other_reading(report, service.rss_bytes_final, service.anon_bytes_final);
            value.map(|value| whole(Some(value)))
        }),
        number("Growth", |report, service| {
            Some(units::growth(service.slope_bytes_per_hour?, super::pace(report)))
        }),
        number("CPU", |_, service| service.cpu_seconds.map(units::cpu)),
        number(RESTARTS, |_, service| service.restarts.map(|restarts| restarts.to_string())),
        number("PSS", |report, service| Some(whole(Some(smaps(report, service)?.pss_bytes)))),
        number("Private dirty", |report, service| {
            Some(whole(Some(smaps(report, service)?.private_dirty_bytes)))
        }),
        number("Lazily freed", |report, service| Some(whole(Some(smaps(report, service)?.lazyfree_bytes)))),
        number("Huge pages", |report, service| Some(whole(Some(smaps(report, service)?.anon_huge_bytes)))),
    ]
}

/// Of a lab, which reads all at its end: on a host it may be days older than the rest of the row.
fn smaps(report: &Report, service: &Service) -> Option<SlowSample> {
    service.smaps.filter(|_| report.kind.is_lab())
}

/// Whether it counts, where some do not.
fn belongs(report: &Report, service: &Service) -> Option<String> {
    report.services.iter().any(|service| !service.counts).then(|| match (&service.excluded, &service.like) {
        (None, _) => "yes".to_owned(),
        (Some(_), Some(like)) => format!("no: like {like}"),
        (Some(why), None) => format!("no: {why}"),
    })
}

/// Services far from their arm.
pub(crate) fn outliers(report: &Report) -> Option<Table> {
    let columns = [text("Service"), text("Arm")].into_iter();
    let columns = columns.chain(["Level", "Median of the arm", "Level over median"].map(figure));
    let rows = report.outliers.iter().take(SERVICES_SHOWN).map(|outlier| Row {
        arm: Some(outlier.found.arm),
        emphasis: Emphasis::None,
        cells: vec![
            outlier.name.clone(),
            report.arms[outlier.found.arm].name.clone(),
            units::memory(outlier.found.level_bytes),
            units::memory(outlier.found.median_bytes),
            units::ratio(outlier.found.factor),
        ],
    });
    Table::of(columns, rows)
}
