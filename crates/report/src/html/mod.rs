//! The report as one self-contained page: no outside resource, no script, a policy that allows neither.

pub mod embedded;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::chart::{self, Chart, Looks, Sheet};
use crate::document::{Outcome, Report, Severity};
use crate::page::{self, Block, FindingBlock, Section};
use crate::summary::odd::{Told, severity};
use crate::table::{Detail, Emphasis, Table};
use crate::{Trajectories, summary, units};

/// The page. `report` must be printable.
pub(crate) fn page(report: &Report, trajectories: &Trajectories) -> String {
    let sections = page::sections(report, Detail::Full);
    let charts = chart::all(report, trajectories);
    let looks = Looks::of_report(report);
    let title = format!("{} – Heaptrial report", report.name);
    let content = html! {
        a class="skip" href="#result" { "Skip to the result" }
        (header(report, &sections))
        main { (body(&sections, &charts, &looks)) }
    };
    frame(&title, &report.tool_version, &content)
}

/// A page of sections without charts; all texts must be printable.
pub(crate) fn plain(title: &str, sections: &[Section], looks: &Looks) -> String {
    with_charts(title, sections, looks, &[])
}

pub(crate) fn with_charts(title: &str, sections: &[Section], looks: &Looks, charts: &[Chart]) -> String {
    let content = html! {
        header { h1 { (title) } }
        main { (body(sections, charts, looks)) }
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

/// On a phone the drawing keeps a width at which it can be read, and is scrolled.
fn figure(chart: &Chart) -> Markup {
    html! {
        figure id=(chart.name) {
            h3 { (chart.title) }
            div class="drawing" tabindex="0" role="region" aria-label=(chart.title) {
                (PreEscaped(chart.inline(chart.name, "chart")))
            }
            figcaption { (chart.caption) }
        }
    }
}

fn header(report: &Report, sections: &[Section]) -> Markup {
    let state = if report.outcome == Outcome::Completed { "badge good" } else { "badge bad" };
    html! {
        header {
            h1 { (report.name) }
            p class="meta" {
                span { (summary::capitalised(report.kind().describe())) }
                " " span class=(state) { (report.outcome_word()) }
                " " time datetime=(report.started_at) { (summary::date_and_time(&report.started_at)) }
                " " span { (units::duration(report.duration_seconds)) }
            }
            nav aria-label="Sections" {
                @for section in sections {
                    a href={ "#" (section.id) } { (section.title) } " "
                }
            }
        }
    }
}

pub(crate) fn body(sections: &[Section], charts: &[Chart], looks: &Looks) -> Markup {
    html! {
        @for section in sections {
            section id=(section.id) {
                @if !section.title.is_empty() { h2 { (section.title) } }
                (blocks(&section.blocks, charts, looks))
            }
        }
    }
}

fn blocks(all: &[Block], charts: &[Chart], looks: &Looks) -> Markup {
    let paragraphs = |block: &Block| matches!(block, Block::Paragraph(_));
    html! {
        @for run in all.chunk_by(|a, b| paragraphs(a) && paragraphs(b)) {
            @if run.iter().all(paragraphs) {
                dl class="summary" { @for paragraph in run { (block(paragraph, charts, looks)) } }
            } @else {
                @for other in run { (block(other, charts, looks)) }
            }
        }
    }
}

fn block(block: &Block, charts: &[Chart], looks: &Looks) -> Markup {
    match block {
        Block::Paragraph(paragraph) => html! {
            div class=[paragraph.is_advice().then_some("advice")] {
                dt { (paragraph.title) }
                dd {
                    @match &paragraph.sentences[..] {
                        [sentence] => p { (sentence) },
                        sentences if paragraph.is_list => ul { @for sentence in sentences { li { (sentence) } } },
                        sentences => p { (sentences.join(" ")) },
                    }
                }
            }
        },
        Block::Heading(title) => html! { h3 { (title) } },
        Block::Lead(sentences) => html! { p class="lead" { (sentences.join(" ")) } },
        Block::Text(text) => html! { p { (text) } },
        Block::Legend(text) => html! { p class="brief" { (text) } },
        Block::List(items) => html! { ul { @for item in items { li { (item) } } } },
        Block::Callout { title, grave, items } => html! {
            aside class=(if *grave { "warnings" } else { "notes" }) aria-label=(title) {
                h3 { (title) }
                ul { @for item in items { li { (item) } } }
            }
        },
        Block::Pairs(pairs) => {
            html! { dl { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } } }
        }
        Block::Table(name, table) => table_markup(name, table, looks),
        Block::Chart(name) => {
            html! { @for chart in charts.iter().filter(|chart| chart.name == *name) { (figure(chart)) } }
        }
        Block::Command(text) | Block::Verbatim(text) => html! { pre tabindex="0" { code { (text) } } },
        Block::Finding(finding) => finding_article(finding),
        Block::Folded(title, content) => html! {
            details { summary { (title) } (blocks(content, charts, looks)) }
        },
    }
}

fn finding_article(finding: &FindingBlock) -> Markup {
    let class = match finding.severity {
        Severity::Grave => "finding grave",
        Severity::Caution => "finding caution",
        Severity::Note => "finding",
    };
    html! {
        article class=(class) {
            h3 { (finding.heading) " " span class="badge" { (severity(finding.severity)) } }
            @for told in &finding.told {
                @match told {
                    Told::Text(text) => p { (text) },
                    Told::Services(text) => p class="names" { (text) },
                }
            }
        }
    }
}

fn table_markup(name: &str, table: &Table, looks: &Looks) -> Markup {
    // The marker of the arm, as in the charts.
    let swatch = |arm: Option<usize>| html! { @if let Some(arm) = arm { (embedded::swatch(looks, arm)) } };
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
                                    td class="figure" { (with_interval(cell)) }
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

/// A figure with its interval, if it has one, below it: tables of many columns have no room for both side by side.
fn with_interval(cell: &str) -> Markup {
    match cell.split_once(" (") {
        Some((figure, interval)) => html! { (figure) " " span class="interval" { "(" (interval) } },
        None => html! { (cell) },
    }
}

/// A name that may be broken where its parts meet.
fn breakable(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(['_', '@', '?', '&', '/']) { (part) wbr; } }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Classes that a sheet has rules for.
    fn classes(sheet: &'static str) -> BTreeSet<&'static str> {
        let of = |part: &'static str| {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(part.len());
            part.starts_with(|c: char| c.is_ascii_lowercase()).then(|| &part[..end])
        };
        sheet.split('.').skip(1).filter_map(of).collect()
    }

    /// A page has the rules of its charts too: those of bands made its intervals all but invisible.
    #[test]
    fn no_rule_of_charts_is_for_text_of_the_page() {
        let (page, charts) = (classes(include_str!("page.css")), classes(include_str!("../chart/chart.css")));
        assert!(page.contains("interval") && charts.contains("spread"), "{page:?} {charts:?}");
        assert_eq!(page.intersection(&charts).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
