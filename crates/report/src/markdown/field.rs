//! A field trial as Markdown.

use std::fmt::Write;

use super::{chart_block, events, list, pairs, table_block};
use crate::chart::Chart;
use crate::document::Finding;
use crate::escape::{markdown as escaped, markdown_block};
use crate::summary::odd::{Told, severity};
use crate::summary::words::words;
use crate::table::{self, Detail};
use crate::{Report, summary, units};

/// Tables of services longer than this are folded.
const SERVICES_UNFOLDED: usize = 40;
/// Names of services in a finding.
const NAMED: usize = 10;

pub(super) fn page(report: &Report, charts: &[Chart]) -> String {
    let mut out = String::new();
    let mut put = |block: &str| {
        let _ = write!(out, "{block}\n\n");
    };
    put(&format!("# {}", escaped(&report.name)));
    put(&format!(
        "{}, {}, {}.",
        summary::capitalised(report.kind().describe()),
        escaped(report.started_at.get(..10).unwrap_or_default()),
        summary::number(report.samples, "reading")
    ));
    put("## Summary");
    for paragraph in summary::field::paragraphs(report) {
        put(&format!("**{}.** {}", paragraph.title, escaped(&paragraph.sentences.join(" "))));
    }
    let warnings = summary::warnings(report);
    if !warnings.is_empty() {
        put("### Warnings");
        put(&list(&warnings));
    }
    let figure = |name: &str| charts.iter().find(|chart| chart.name == name).map(chart_block);
    put("## Final metrics");
    put(&table_block(&table::field::results(report, Detail::Full)));
    put(&escaped(&summary::observed::figures_in_brief(report)));
    put(&list(&summary::observed::verdicts(report)));
    figure("final-memory").iter().for_each(|block| put(block));
    if let Some(table) = table::field::with_and_without(report) {
        put(&format!("### {}", words(report.kind()).with_and_without));
        put(&table_block(&table));
    }
    if let Some(table) = table::field::work(report, Detail::Full) {
        put("### Work");
        put(&table_block(&table));
    }
    put("## Over time");
    if let Some((unit, table)) = table::field::by_day(report) {
        put(&format!(
            "Median over services by day of age, in {unit}; in brackets over less than half of the services."
        ));
        put(&table_block(&table));
    }
    for (title, table) in [
        ("### Sudden changes of level", table::field::level_changes(report)),
        ("### Arms restarted at intervals", table::field::sawtooth(report)),
    ] {
        if let Some(table) = table {
            put(title);
            put(&table_block(&table));
        }
    }
    for name in ["memory-over-time", "over-calendar-time", "arms", "distribution-at-the-end"] {
        figure(name).iter().for_each(|block| put(block));
    }
    put("## Findings about the data");
    let runs = summary::odd::alike(report);
    if runs.is_empty() {
        put("Nothing odd was found.");
    }
    runs.iter().for_each(|run| put(&finding_block(report, run)));
    put("## What ran");
    put(summary::observed::what_ran(report));
    put(&table_block(&table::field::lists(report)));
    if let Some(table) = table::field::happened(report, Detail::Full) {
        put("### What happened to services");
        put(&table_block(&table));
    }
    put("## Services");
    put(&services(report));
    put("## Setup");
    put(&pairs(summary::observed::setup(report).into_iter().map(|(name, value)| (name.to_owned(), value))));
    if !report.unmeasured.is_empty() {
        put("Not measured:");
        put(&list(&report.unmeasured));
    }
    if !report.notes.is_empty() {
        put("Notes:");
        put(&list(&report.notes));
    }
    put("## Data");
    if let Some(table) = table::field::sources(report) {
        put(&table_block(&table));
    }
    let parameters = summary::parameters(report);
    if !parameters.is_empty() {
        put(&pairs(parameters.into_iter()));
    }
    if !report.command.is_empty() {
        put("The command that repeats it:");
        put(&markdown_block(&report.command));
    }
    put("## How the figures were made");
    put(&list(&summary::observed::method(report)));
    if !report.events.is_empty() {
        put("## Events");
        put(&events(report));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn finding_block(report: &Report, run: &[Finding]) -> String {
    let Some(first) = run.first() else { return String::new() };
    let about = summary::odd::arms_of(report, first);
    let about = if about.is_empty() { about } else { format!(": {about}") };
    let heading = format!("{}{about} ({})", first.kind.describe(), severity(first.severity));
    let mut blocks = vec![format!("### {}", escaped(&heading))];
    blocks.extend(summary::odd::told(run, NAMED).into_iter().map(|told| match told {
        Told::Text(text) => escaped(&text),
        Told::Services(text) => format!("*{}*", escaped(&text)),
    }));
    blocks.join("\n\n")
}

fn services(report: &Report) -> String {
    let (table, more) = table::field::services(report);
    let mut block = table_block(&table);
    if more > 0 {
        block.push_str(&format!("\n\nAnd {} more in report.json.", units::count(more as u64)));
    }
    if table.rows.len() <= SERVICES_UNFOLDED {
        return block;
    }
    let number = units::count(report.services.len() as u64);
    format!("<details>\n<summary>All {number} services</summary>\n\n{block}\n\n</details>")
}
