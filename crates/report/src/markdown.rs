//! The report as Markdown, as GitHub shows it.

use std::fmt::Write;

use crate::chart::Chart;
use crate::escape::{markdown as escaped, markdown_block};
use crate::table::{self, Detail, Emphasis, Table};
use crate::{Report, summary, units};

/// Events beyond these are only in `report.json`.
pub(crate) const EVENTS_SHOWN: usize = 50;

/// The page. `report` must be printable; `charts` are referred to as `charts/NAME.svg`.
pub(crate) fn page(report: &Report, charts: &[Chart]) -> String {
    let mut out = String::new();
    let mut put = |block: &str| {
        let _ = write!(out, "{block}\n\n");
    };
    put(&format!("# {}", escaped(&report.name)));
    put(&format!(
        "{}, {}, {}.",
        summary::capitalised(report.kind.describe()),
        report.outcome.as_str(),
        escaped(report.started_at.get(..10).unwrap_or_default())
    ));
    put("## Result");
    put(&escaped(&summary::result(report).join(" ")));
    put(&escaped(&summary::figures_in_brief(report)));
    put(&table_block(&table::results(report, Detail::Full)));
    let warnings = summary::warnings(report);
    if !warnings.is_empty() {
        put("### Warnings");
        put(&list(&warnings));
    }
    let figure = |name: &str| charts.iter().find(|chart| chart.name == name).map(chart_block);
    for name in ["final-memory", "memory-over-time", "distribution-at-the-end"] {
        if let Some(block) = figure(name) {
            put(&block);
        }
    }
    if !report.notes.is_empty() {
        put(&list(&report.notes));
    }
    put("## What really ran");
    put(&table_block(&table::identities(report)));
    put("## Services");
    put(&table_block(&table::services(report)));
    if let Some(block) = figure("trajectories") {
        put(&block);
    }
    put("## Setup");
    put(&pairs(summary::setup(report).into_iter().map(|(name, value)| (name.to_owned(), value))));
    let parameters = summary::parameters(report);
    if !parameters.is_empty() {
        put("Parameters of the workload:");
        put(&pairs(parameters.into_iter()));
    }
    put("The command that repeats it:");
    put(&markdown_block(&report.command));
    put("## What could not be measured");
    if report.unmeasured.is_empty() {
        put("Nothing that was asked for.");
    } else {
        put(&list(&report.unmeasured));
    }
    put("## How the figures were made");
    put(&list(&summary::method(report)));
    if !report.events.is_empty() {
        put("## Events");
        put(&events(report));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn chart_block(chart: &Chart) -> String {
    let title = escaped(&chart.title);
    format!("![{title}](charts/{}.svg)\n\n*{title}:* {}", chart.name, escaped(&chart.caption))
}

fn table_block(table: &Table) -> String {
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

fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("- {}", escaped(item))).collect::<Vec<_>>().join("\n")
}

fn pairs(items: impl Iterator<Item = (String, String)>) -> String {
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
