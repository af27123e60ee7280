//! The report as Markdown, as GitHub shows it.

mod field;
mod lab;

use crate::chart::Chart;
use crate::escape::markdown as escaped;
use crate::table::{Emphasis, Table};
use crate::{Report, units};

/// Events beyond these are only in `report.json`.
pub(crate) const EVENTS_SHOWN: usize = 50;

/// The page. `report` must be printable; `charts` are referred to as `charts/NAME.svg`.
pub(crate) fn page(report: &Report, charts: &[Chart]) -> String {
    if report.kind().is_lab() { lab::page(report, charts) } else { field::page(report, charts) }
}

fn chart_block(chart: &Chart) -> String {
    let title = escaped(&chart.title);
    format!("![{title}](charts/{}.svg)\n\n*{title}:* {}", chart.name, escaped(&chart.caption))
}

pub(crate) fn table_block(table: &Table) -> String {
    let mut rows = Vec::with_capacity(table.rows.len() + 2);
    let titles: Vec<String> = table.columns.iter().map(|column| escaped(&column.title)).collect();
    rows.push(format!("| {} |", titles.join(" | ")));
    let rules: Vec<&str> =
        table.columns.iter().map(|column| if column.figures { "---:" } else { "---" }).collect();
    rows.push(format!("| {} |", rules.join(" | ")));
    for row in &table.rows {
        let cells = row.cells.iter().enumerate().map(|(index, cell)| match row.emphasis {
            Emphasis::Control if index == 0 => format!("**{}**", escaped(cell)),
            _ => escaped(cell),
        });
        rows.push(format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
    }
    rows.join("\n")
}

pub(crate) fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("- {}", escaped(item))).collect::<Vec<_>>().join("\n")
}

pub(crate) fn pairs(items: impl Iterator<Item = (String, String)>) -> String {
    let rows = items.map(|(name, value)| format!("| {} | {} |", escaped(&name), escaped(&value)));
    std::iter::once("| | |\n| --- | --- |".to_owned()).chain(rows).collect::<Vec<_>>().join("\n")
}

fn events(report: &Report) -> String {
    let line = |event: &crate::document::Event| {
        let service =
            event.service.as_ref().map_or(String::new(), |service| format!(" {}:", escaped(service)));
        format!("- {} {}:{service} {}", escaped(&event.at), escaped(&event.kind), escaped(&event.text))
    };
    let mut lines: Vec<String> = report.events.iter().take(EVENTS_SHOWN).map(line).collect();
    if report.events.len() > EVENTS_SHOWN {
        let more = units::count((report.events.len() - EVENTS_SHOWN) as u64);
        lines.push(format!("- and {more} more in report.json"));
    }
    lines.join("\n")
}
