//! A lab run as Markdown.

use std::fmt::Write;

use super::{chart_block, events, list, pairs, table_block};
use crate::chart::Chart;
use crate::escape::{markdown as escaped, markdown_block};
use crate::table::{self, Detail};
use crate::{Report, summary};

pub(super) fn page(report: &Report, charts: &[Chart]) -> String {
    let mut out = String::new();
    let mut put = |block: &str| {
        let _ = write!(out, "{block}\n\n");
    };
    put(&format!("# {}", escaped(&report.name)));
    put(&format!(
        "{}, {}, {}.",
        summary::capitalised(report.kind().describe()),
        report.outcome.as_str(),
        escaped(report.started_at.get(..10).unwrap_or_default())
    ));
    put("## Result");
    put(&escaped(&summary::lab::result(report).join(" ")));
    put(&escaped(&summary::lab::figures_in_brief(report)));
    put(&table_block(&table::lab::results(report, Detail::Full)));
    if let Some(table) = table::work::measures(report) {
        put("### Work");
        put(&table_block(&table));
    }
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
    put(&table_block(&table::lab::identities(report)));
    put("## Services");
    put(&table_block(&table::lab::services(report)));
    if let Some(block) = figure("trajectories") {
        put(&block);
    }
    put("## Setup");
    put(&pairs(summary::lab::setup(report).into_iter().map(|(name, value)| (name.to_owned(), value))));
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
    put(&list(&summary::lab::method(report)));
    if !report.events.is_empty() {
        put("## Events");
        put(&events(report));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
