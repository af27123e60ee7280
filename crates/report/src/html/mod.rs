//! The report as one self-contained page: no outside resource, no script, a policy that allows neither.

pub mod embedded;
mod field;
mod lab;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::chart::{self, Chart, Layout, Looks, Sheet};
use crate::document::{Outcome, Report};
use crate::markdown::EVENTS_SHOWN;
use crate::table::{self, Emphasis, Table};
use crate::{Trajectories, summary, units};

/// The page. `report` must be printable.
pub(crate) fn page(report: &Report, trajectories: &Trajectories) -> String {
    let charts = Figures {
        wide: chart::all(report, trajectories, Layout::Wide),
        narrow: chart::all(report, trajectories, Layout::Narrow),
    };
    let title = format!("{} – Heaptrial report", report.name);
    let content = html! {
        a class="skip" href="#result" { "Skip to the result" }
        (header(report))
        main {
            @if report.kind().is_lab() { (lab::body(report, &charts)) } @else { (field::body(report, &charts)) }
        }
    };
    frame(&title, &report.tool_version, &content)
}

/// The page of a comparison of trials; all texts must be printable.
pub(crate) fn comparison(
    title: &str,
    result: &[String],
    rule: &str,
    (results, looks): (&Table, &Looks),
    caveats: &[String],
    trials: &Table,
) -> String {
    let content = html! {
        header { h1 { (title) } }
        main {
            section id="result" {
                h2 { "Result" }
                p class="lead" { (result.join(" ")) }
                p class="brief" { (rule) }
                (table_markup("Treatments", results, |place| html! { @if let Some(place) = place { (embedded::swatch(looks, place)) } }))
            }
            section id="caveats" {
                h2 { "What to mind" }
                ul { @for caveat in caveats { li { (caveat) } } }
            }
            section id="trials" {
                h2 { "Trials" }
                (table_markup("Trials", trials, |_| html! {}))
            }
        }
    };
    frame(title, env!("CARGO_PKG_VERSION"), &content)
}

/// A whole page around `content`.
fn frame(title: &str, tool_version: &str, content: &Markup) -> String {
    let style = style();
    let policy = policy(&style);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "heaptrial " (tool_version) };
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                (content)
                footer {
                    p { "Made by Heaptrial " (tool_version) ". " (units::LEGEND) }
                }
            }
        }
    };
    let mut text = page.into_string();
    text.push('\n');
    text
}

fn policy(style: &str) -> String {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(Sha256::digest(style.as_bytes()))
    )
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
    let sections: &[(&str, &str)] = if report.kind().is_lab() { &lab::SECTIONS } else { &field::SECTIONS };
    let state = if report.outcome == Outcome::Completed { "badge good" } else { "badge bad" };
    html! {
        header {
            h1 { (report.name) }
            p class="meta" {
                span { (summary::capitalised(report.kind().describe())) }
                " " span class=(state) { (report.outcome_word()) }
                " " time datetime=(report.started_at) { (summary::date_and_time(&report.started_at)) }
                " " span { (units::duration(report.duration_seconds)) }
                @if report.kind().is_lab() { " " span { "seed " (report.seed) } }
            }
            nav aria-label="Sections" {
                @for (id, name) in sections {
                    a href={ "#" (id) } { (name) } " "
                }
            }
        }
    }
}

fn warnings(report: &Report) -> Markup {
    let warnings = summary::warnings(report);
    html! {
        @if !warnings.is_empty() {
            aside class="warnings" aria-label="Warnings" {
                h3 { (if warnings.len() == 1 { "Warning" } else { "Warnings" }) }
                ul { @for warning in &warnings { li { (warning) } } }
            }
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
    table_markup(name, table, |arm| swatch(report, arm))
}

fn table_markup(name: &str, table: &Table, swatch: impl Fn(Option<usize>) -> Markup) -> Markup {
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
                                    th scope="row" class=[row.arm.is_none().then_some("plain")] { (swatch(row.arm)) (breakable(cell)) }
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

/// A name that may be broken where its parts meet.
fn breakable(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(['_', '@', '?', '&', '/']) { (part) wbr; } }
}

/// The arm's marker, as in the charts.
fn swatch(report: &Report, arm: Option<usize>) -> Markup {
    html! { @if let Some(arm) = arm { (embedded::swatch(&Looks::of_report(report), arm)) } }
}
