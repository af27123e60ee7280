//! A document as one self-contained page: no outside resource, no script, a policy that allows neither.

pub mod embedded;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use heaptrial_evaluate::analysis::Severity;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::chart::{self, ArmStyles, Chart};
use crate::forms::Content;
use crate::page::{Block, FindingBlock};
use crate::table::{Emphasis, Table};
use crate::text::severity;
use crate::{escape, units};

/// Where sections are so many, a page begins with links to them.
const SECTIONS_LINKED: usize = 4;

pub(crate) fn page(document: &Content) -> String {
    let titled = || document.sections.iter().filter(|section| !section.title.is_empty());
    let content = html! {
        @if let Some(first) = titled().next() { a class="skip" href={ "#" (first.id) } { "Skip to the result" } }
        header {
            h1 { (document.title) }
            @if !document.lead.is_empty() { p class="meta" { (document.lead) } }
            @if titled().count() >= SECTIONS_LINKED {
                nav aria-label="Sections" {
                    @for section in titled() { a href={ "#" (section.id) } { (section.title) } " " }
                }
            }
        }
        main { (body(document)) }
    };
    frame(&format!("{} – Heaptrial", document.title), &content)
}

/// A whole page around `content`.
fn frame(title: &str, content: &Markup) -> String {
    let version = env!("CARGO_PKG_VERSION");
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
                meta name="generator" content={ "heaptrial " (version) };
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                (content)
                footer {
                    p { "Made by Heaptrial " (version) ". " (units::LEGEND) }
                }
            }
        }
    };
    escape::printable_lines(&page.into_string()) + "\n"
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
        chart::style_sheet(),
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

fn body(document: &Content) -> Markup {
    html! {
        @for section in &document.sections {
            section id=(section.id) {
                @if !section.title.is_empty() { h2 { (section.title) } }
                (blocks(&section.blocks, document))
            }
        }
    }
}

fn blocks(all: &[Block], document: &Content) -> Markup {
    let paragraphs = |block: &Block| matches!(block, Block::Paragraph(_));
    html! {
        @for run in all.chunk_by(|a, b| paragraphs(a) && paragraphs(b)) {
            @if run.iter().all(paragraphs) {
                dl class="summary" { @for paragraph in run { (block(paragraph, document)) } }
            } @else {
                @for other in run { (block(other, document)) }
            }
        }
    }
}

fn block(block: &Block, document: &Content) -> Markup {
    match block {
        Block::Paragraph(paragraph) => html! {
            div class=[paragraph.is_advice.then_some("advice")] {
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
        Block::Pairs(pairs) => {
            html! { dl { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } } }
        }
        Block::Table(name, table) => table_markup(name, table, &document.styles),
        Block::Chart(name) => {
            html! { @for chart in document.charts.iter().filter(|chart| chart.name == *name) { (figure(chart)) } }
        }
        Block::Command(text) => html! { pre tabindex="0" { code { (text) } } },
        Block::Finding(finding) => finding_article(finding),
        Block::Folded(title, content) => html! {
            details { summary { (title) } (blocks(content, document)) }
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
            p { (finding.text) }
            @if !finding.services.is_empty() { p class="names" { (finding.services) } }
        }
    }
}

fn table_markup(name: &str, table: &Table, styles: &ArmStyles) -> Markup {
    // The marker of the arm, as in the charts.
    let swatch = |arm: Option<usize>| html! { @if let Some(arm) = arm { (embedded::swatch(styles, arm)) } };
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
