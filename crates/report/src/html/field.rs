//! The sections of a field trial's page.

use maud::{Markup, html};

use super::{Figures, data_table, events, warnings};
use crate::document::{Finding, Report, Severity};
use crate::summary::odd::{Told, severity};
use crate::summary::words::words;
use crate::table::{self, Detail, Table};
use crate::{summary, units};

/// Tables of services longer than this are folded.
const SERVICES_UNFOLDED: usize = 40;
/// Names of services in a finding.
const NAMED: usize = 10;

/// Anchors and names for the links at the top.
pub(super) const SECTIONS: [(&str, &str); 8] = [
    ("result", "Summary"),
    ("metrics", "Final metrics"),
    ("over-time", "Over time"),
    ("findings", "Findings"),
    ("identities", "What ran"),
    ("services", "Services"),
    ("setup", "Setup and data"),
    ("method", "Method"),
];

pub(super) fn body(report: &Report, charts: &Figures) -> Markup {
    html! {
        (result(report))
        (metrics(report, charts))
        (over_time(report, charts))
        (findings_section(report))
        (lists(report))
        (services(report, charts))
        (setup(report))
        (method(report))
        (events(report))
    }
}

fn result(report: &Report) -> Markup {
    html! {
        section id="result" {
            h2 { "Summary" }
            dl class="summary" {
                @for paragraph in summary::field::paragraphs(report) {
                    div class=[(paragraph.title == "Recommendation").then_some("advice")] {
                        dt { (paragraph.title) }
                        dd {
                            @if let [sentence] = &paragraph.sentences[..] {
                                p { (sentence) }
                            } @else if paragraph.title == words(report.kind()).paragraph {
                                ul { @for sentence in &paragraph.sentences { li { (sentence) } } }
                            } @else {
                                p { (paragraph.sentences.join(" ")) }
                            }
                        }
                    }
                }
            }
            (warnings(report))
        }
    }
}

fn metrics(report: &Report, charts: &Figures) -> Markup {
    html! {
        section id="metrics" {
            h2 { "Final metrics" }
            p class="brief" { (summary::observed::figures_in_brief(report)) }
            (data_table("Final metrics by arm", &table::field::results(report, Detail::Full), report))
            h3 { "The verdicts" }
            ul { @for verdict in summary::observed::verdicts(report) { li { (verdict) } } }
            (charts.show("final-memory"))
            @if let Some(table) = table::field::with_and_without(report) {
                h3 { (words(report.kind()).with_and_without) }
                (data_table(words(report.kind()).with_and_without, &table, report))
            }
            @if let Some(table) = table::field::work(report, Detail::Full) {
                h3 { "Work" }
                (data_table("Work", &table, report))
            }
        }
    }
}

fn over_time(report: &Report, charts: &Figures) -> Markup {
    let titled = |title: &str, table: Option<Table>| {
        html! {
            @if let Some(table) = table {
                h3 { (title) }
                (data_table(title, &table, report))
            }
        }
    };
    html! {
        section id="over-time" {
            h2 { "Over time" }
            @if let Some((unit, table)) = table::field::by_day(report) {
                p class="brief" {
                    "Median over services by day of age, in " (unit) "; in brackets over less than half of the services."
                }
                (data_table("Memory by day of age", &table, report))
            }
            (titled("Sudden changes of level", table::field::level_changes(report)))
            (titled("Arms restarted at intervals", table::field::sawtooth(report)))
            (charts.show("memory-over-time"))
            (charts.show("over-calendar-time"))
            (charts.show("arms"))
        }
    }
}

fn findings_section(report: &Report) -> Markup {
    let runs = summary::odd::alike(report);
    html! {
        section id="findings" {
            h2 { "Findings about the data" }
            @if runs.is_empty() { p { "Nothing odd was found." } }
            @for run in &runs { (finding_article(report, run)) }
        }
    }
}

fn finding_article(report: &Report, run: &[Finding]) -> Markup {
    let Some(first) = run.first() else { return html! {} };
    let about = summary::odd::arms_of(report, first);
    let class = match first.severity {
        Severity::Grave => "finding grave",
        Severity::Caution => "finding caution",
        Severity::Note => "finding",
    };
    html! {
        article class=(class) {
            h3 {
                (first.kind.describe())
                @if !about.is_empty() { ": " (about) }
                " " span class="badge" { (severity(first.severity)) }
            }
            @for told in summary::odd::told(run, NAMED) {
                @match told {
                    Told::Text(text) => p { (text) },
                    Told::Services(text) => p class="names" { (text) },
                }
            }
        }
    }
}

fn lists(report: &Report) -> Markup {
    html! {
        section id="identities" {
            h2 { "What ran" }
            p { (summary::observed::what_ran(report)) }
            (data_table("What ran", &table::field::lists(report), report))
            @if let Some(table) = table::field::happened(report, Detail::Full) {
                h3 { "What happened to services" }
                (data_table("What happened to services", &table, report))
            }
        }
    }
}

fn services(report: &Report, charts: &Figures) -> Markup {
    let (table, more) = table::field::services(report);
    let content = html! {
        (data_table("Every service", &table, report))
        @if more > 0 { p { "And " (units::count(more as u64)) " more in report.json." } }
    };
    html! {
        section id="services" {
            h2 { "Services" }
            (charts.show("distribution-at-the-end"))
            @if table.rows.len() > SERVICES_UNFOLDED {
                details {
                    summary { "All " (units::count(report.services.len() as u64)) " services" }
                    (content)
                }
            } @else {
                (content)
            }
        }
    }
}

fn setup(report: &Report) -> Markup {
    let parameters = summary::parameters(report);
    html! {
        section id="setup" {
            h2 { "Setup and data" }
            dl { @for (name, value) in summary::observed::setup(report) { div { dt { (name) } dd { (value) } } } }
            @if !parameters.is_empty() {
                h3 { (if report.kind().is_import() { "How the data were read" } else { "Parameters" }) }
                dl { @for (name, value) in parameters { div { dt { (name) } dd { (value) } } } }
            }
            @if let Some(table) = table::field::sources(report) {
                h3 { "Files" }
                (data_table("Files", &table, report))
            }
            @if !report.command.is_empty() {
                h3 { "The command that repeats it" }
                pre tabindex="0" { code { (report.command) } }
            }
            @if !report.unmeasured.is_empty() {
                h3 { "Not measured" }
                ul { @for missing in &report.unmeasured { li { (missing) } } }
            }
            @if !report.notes.is_empty() {
                h3 { "Notes" }
                ul { @for note in &report.notes { li { (note) } } }
            }
        }
    }
}

fn method(report: &Report) -> Markup {
    html! {
        section id="method" {
            h2 { "How the figures were made" }
            ul { @for line in summary::observed::method(report) { li { (line) } } }
        }
    }
}
