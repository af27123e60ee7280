//! The report as Markdown, as GitHub shows it.

use crate::chart::Chart;
use crate::escape::{markdown as escaped, markdown_block};
use crate::page::{self, Block, FindingBlock, Section};
use crate::summary::odd::{Told, severity};
use crate::table::{Detail, Emphasis, Table};
use crate::{Report, summary};

/// The page. `report` must be printable; `charts` are referred to as `charts/NAME.svg`.
pub(crate) fn page(report: &Report, charts: &[Chart]) -> String {
    let title = format!(
        "# {}\n\n{}, {}, {}, {}.\n\n",
        escaped(&report.name),
        summary::capitalised(report.kind().describe()),
        report.outcome_word(),
        escaped(report.started_at.get(..10).unwrap_or_default()),
        summary::number(report.samples, "reading")
    );
    title + &body(&page::sections(report, Detail::Full), charts)
}

/// Sections without a title above them.
pub(crate) fn body(sections: &[Section], charts: &[Chart]) -> String {
    let blocks = sections.iter().flat_map(|section| {
        let title = Some(format!("## {}", section.title)).filter(|_| !section.title.is_empty());
        title.into_iter().chain(section.blocks.iter().filter_map(|content| block(content, charts)))
    });
    blocks.collect::<Vec<_>>().join("\n\n") + "\n"
}

fn block(content: &Block, charts: &[Chart]) -> Option<String> {
    Some(match content {
        Block::Paragraph(paragraph) => {
            format!("**{}.** {}", paragraph.title, escaped(&paragraph.sentences.join(" ")))
        }
        Block::Heading(title) => format!("### {}", escaped(title)),
        Block::Lead(sentences) => escaped(&sentences.join(" ")),
        Block::Text(text) | Block::Legend(text) => escaped(text),
        Block::List(items) => list(items),
        Block::Callout { title, items, .. } => format!("### {title}\n\n{}", list(items)),
        Block::Pairs(items) => pairs(items),
        Block::Table(_, table) => table_block(table),
        Block::Chart(name) => chart_block(charts.iter().find(|chart| chart.name == *name)?),
        Block::Command(text) | Block::Verbatim(text) => markdown_block(text),
        Block::Finding(finding) => finding_block(finding),
        Block::Folded(title, content) => {
            let blocks: Vec<String> = content.iter().filter_map(|content| block(content, charts)).collect();
            format!(
                "<details>\n<summary>{}</summary>\n\n{}\n\n</details>",
                escaped(title),
                blocks.join("\n\n")
            )
        }
    })
}

fn finding_block(finding: &FindingBlock) -> String {
    let heading =
        format!("### {}", escaped(&format!("{} ({})", finding.heading, severity(finding.severity))));
    let told = finding.told.iter().map(|told| match told {
        Told::Text(text) => escaped(text),
        Told::Services(text) => format!("*{}*", escaped(text)),
    });
    std::iter::once(heading).chain(told).collect::<Vec<_>>().join("\n\n")
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

pub(crate) fn pairs(items: &[(String, String)]) -> String {
    let rows = items.iter().map(|(name, value)| format!("| {} | {} |", escaped(name), escaped(value)));
    std::iter::once("| | |\n| --- | --- |".to_owned()).chain(rows).collect::<Vec<_>>().join("\n")
}
