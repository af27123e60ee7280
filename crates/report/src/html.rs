//! The report as one self-contained page: no outside resource, no script, a policy that allows neither.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::chart::{self, Chart, Layout, Look, Sheet, element};
use crate::document::{Outcome, Report};
use crate::markdown::EVENTS_SHOWN;
use crate::table::{self, Detail, Emphasis, Table};
use crate::{Trajectories, summary, units};

/// The page. `report` must be printable.
pub(crate) fn page(report: &Report, trajectories: &Trajectories) -> String {
    let style = style();
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(Sha256::digest(style.as_bytes()))
    );
    let charts = Figures {
        wide: chart::all(report, trajectories, Layout::Wide),
        narrow: chart::all(report, trajectories, Layout::Narrow),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "heaptrial " (report.tool_version) };
                title { (report.name) " – Heaptrial report" }
                style { (PreEscaped(style)) }
            }
            body {
                a class="skip" href="#result" { "Skip to the result" }
                (header(report))
                main {
                    (result(report, &charts))
                    (over_time(&charts))
                    (identities(report))
                    (services(report, &charts))
                    (setup(report))
                    (method(report))
                    (events(report))
                }
                footer {
                    p { "Made by Heaptrial " (report.tool_version) ". " (units::LEGEND) }
                }
            }
        }
    };
    let mut text = page.into_string();
    text.push('\n');
    text
}

fn style() -> String {
    format!(
        ":root{{{}}}@media (prefers-color-scheme:dark){{:root{{{}}}}}\n{}{}{}@media print{{:root{{{}}}}}",
        chart::variables(false),
        chart::variables(true),
        include_str!("page.css"),
        chart::style_sheet(Sheet::Page),
        include_str!("print.css"),
        chart::variables(false),
    )
}

/// The charts laid out for a desktop and for a phone; the page shows the one that fits.
struct Figures {
    wide: Vec<Chart>,
    narrow: Vec<Chart>,
}

impl Figures {
    fn show(&self, name: &str) -> Markup {
        let of = |charts: &[Chart]| charts.iter().find(|chart| chart.name == name).cloned();
        let (Some(wide), Some(narrow)) = (of(&self.wide), of(&self.narrow)) else { return html! {} };
        html! {
            figure id=(name) {
                h3 { (wide.title) }
                (PreEscaped(wide.inline(&format!("{name}-wide"), "chart wide")))
                (PreEscaped(narrow.inline(&format!("{name}-narrow"), "chart narrow")))
                figcaption { (wide.caption) }
            }
        }
    }
}

fn header(report: &Report) -> Markup {
    let state = if report.outcome == Outcome::Completed { "badge good" } else { "badge bad" };
    html! {
        header {
            h1 { (report.name) }
            p class="meta" {
                span { (summary::capitalised(report.kind.describe())) }
                " " span class=(state) { (report.outcome.as_str()) }
                " " time datetime=(report.started_at) { (date_and_time(&report.started_at)) }
                " " span { (units::duration(report.duration_seconds)) }
                " " span { "seed " (report.seed) }
            }
            nav aria-label="Sections" {
                @for (id, name) in [
                    ("result", "Result"), ("over-time", "Over time"), ("identities", "What ran"),
                    ("services", "Services"), ("setup", "Setup"), ("method", "Method"),
                ] {
                    a href={ "#" (id) } { (name) } " "
                }
            }
        }
    }
}

/// `2026-01-02T03:04:05.678Z` as `2026-01-02 03:04 UTC`.
fn date_and_time(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(date), Some(time)) => format!("{date} {time} UTC"),
        _ => rfc3339.to_owned(),
    }
}

fn result(report: &Report, charts: &Figures) -> Markup {
    let sentences = summary::result(report);
    let warnings = summary::warnings(report);
    html! {
        section id="result" {
            h2 { "Result" }
            @if let Some((first, rest)) = sentences.split_first() {
                p class="lead" { (first) }
                @if !rest.is_empty() {
                    p { (rest.join(" ")) }
                }
            }
            @if !warnings.is_empty() {
                aside class="warnings" aria-label="Warnings" {
                    h3 { (if warnings.len() == 1 { "Warning" } else { "Warnings" }) }
                    ul { @for warning in &warnings { li { (warning) } } }
                }
            }
            p class="brief" { (summary::figures_in_brief(report)) }
            (data_table("Results by arm", &table::results(report, Detail::Full), report))
            (charts.show("final-memory"))
            @if !report.notes.is_empty() {
                aside class="notes" aria-label="Notes" {
                    ul { @for note in &report.notes { li { (note) } } }
                }
            }
        }
    }
}

fn over_time(charts: &Figures) -> Markup {
    html! {
        section id="over-time" {
            h2 { "Over time" }
            (charts.show("memory-over-time"))
            (charts.show("distribution-at-the-end"))
        }
    }
}

fn identities(report: &Report) -> Markup {
    html! {
        section id="identities" {
            h2 { "What really ran" }
            p { "The allocator as proved in the running processes, beside what was asked for." }
            (data_table("Identities by arm", &table::identities(report), report))
            details {
                summary { "The evidence" }
                @for arm in &report.arms {
                    h3 { (arm.name) }
                    @if let Some(identity) = &arm.identity {
                        ul {
                            @for finding in &identity.evidence { li { (finding) } }
                            @if let Some(sha256) = &identity.sha256 { li { "SHA-256 of the file: " code { (sha256) } } }
                        }
                    } @else {
                        p { "No service counts." }
                    }
                }
            }
        }
    }
}

fn services(report: &Report, charts: &Figures) -> Markup {
    html! {
        section id="services" {
            h2 { "Services" }
            (charts.show("trajectories"))
            (data_table("Every service", &table::services(report), report))
        }
    }
}

fn setup(report: &Report) -> Markup {
    let parameters = summary::parameters(report);
    html! {
        section id="setup" {
            h2 { "Setup" }
            dl {
                @for (name, value) in summary::setup(report) {
                    div { dt { (name) } dd { (value) } }
                }
            }
            @if !parameters.is_empty() {
                h3 { "Parameters of the workload" }
                dl {
                    @for (name, value) in parameters {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
            h3 { "The command that repeats it" }
            pre tabindex="0" { code { (report.command) } }
            h3 { "What could not be measured" }
            @if report.unmeasured.is_empty() {
                p { "Nothing that was asked for." }
            } @else {
                ul { @for missing in &report.unmeasured { li { (missing) } } }
            }
        }
    }
}

fn method(report: &Report) -> Markup {
    html! {
        section id="method" {
            h2 { "How the figures were made" }
            ul { @for paragraph in summary::method(report) { li { (paragraph) } } }
        }
    }
}

fn events(report: &Report) -> Markup {
    if report.events.is_empty() {
        return html! {};
    }
    let more = report.events.len().saturating_sub(EVENTS_SHOWN);
    html! {
        section id="events" {
            h2 { "Events" }
            div class="scroll" tabindex="0" role="region" aria-label="Events" {
                table {
                    thead { tr { th scope="col" { "When" } th scope="col" { "Kind" } th scope="col" { "Service" } th scope="col" { "What" } } }
                    tbody {
                        @for event in report.events.iter().take(EVENTS_SHOWN) {
                            tr {
                                td { (event.at) } td { (event.kind) }
                                td { (event.service.as_deref().unwrap_or(table::NOTHING)) } td class="long" { (event.text) }
                            }
                        }
                    }
                }
            }
            @if more > 0 { p { "And " (units::count(more as u64)) " more in report.json." } }
        }
    }
}

fn data_table(name: &str, table: &Table, report: &Report) -> Markup {
    let class = |emphasis: Emphasis| match emphasis {
        Emphasis::None => None,
        Emphasis::Control => Some("control-row"),
        Emphasis::Lost => Some("lost-row"),
    };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(name) {
            table {
                thead {
                    tr {
                        @for column in &table.columns {
                            th scope="col" class=[column.figures.then_some("figure")] { (column.title) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr class=[class(row.emphasis)] {
                            @for (index, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
                                @if index == 0 {
                                    th scope="row" { (swatch(report, row.arm)) (cell) }
                                } @else if column.figures {
                                    td class="figure" { (cell) }
                                } @else {
                                    td class="long" { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The arm's marker, as in the charts.
fn swatch(report: &Report, arm: usize) -> Markup {
    let marker = Look::of(report, arm).marker((7.0, 7.0), 5.0);
    let drawing =
        element("svg").class("swatch").attribute("viewBox", "0 0 14 14").attribute("aria-hidden", "true");
    html! { (PreEscaped(drawing.child(marker).to_string())) }
}
