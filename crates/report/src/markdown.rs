//! A document as Markdown, as GitHub shows it.

use crate::chart::Chart;
use crate::escape::{markdown as escaped, markdown_block};
use crate::forms::Content;
use crate::page::{Block, FindingBlock};
use crate::table::{Emphasis, Table};
use crate::text::severity;

/// The page. Charts are referred to as `charts/NAME.svg`.
pub(crate) fn page(document: &Content) -> String {
    let mut blocks = vec![format!("# {}", escaped(&document.title))];
    if !document.lead.is_empty() {
        blocks.push(escaped(&document.lead));
    }
    for section in &document.sections {
        if !section.title.is_empty() {
            blocks.push(format!("## {}", section.title));
        }
        blocks.extend(section.blocks.iter().filter_map(|content| block(content, &document.charts)));
    }
    blocks.join("\n\n") + "\n"
}

fn block(content: &Block, charts: &[Chart]) -> Option<String> {
    Some(match content {
        Block::Paragraph(paragraph) if paragraph.is_list => {
            format!("**{}.**\n\n{}", paragraph.title, list(&paragraph.sentences))
        }
        Block::Paragraph(paragraph) => {
            format!("**{}.** {}", paragraph.title, escaped(&paragraph.sentences.join(" ")))
        }
        Block::Heading(title) => format!("### {}", escaped(title)),
        Block::Lead(sentences) => escaped(&sentences.join(" ")),
        Block::Text(text) | Block::Legend(text) => escaped(text),
        Block::List(items) => list(items),
        Block::Pairs(items) => pairs(items),
        Block::Table(_, table) => table_block(table),
        Block::Chart(name) => chart_block(charts.iter().find(|chart| chart.name == *name)?),
        Block::Command(text) => markdown_block(text),
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
    let services = Some(format!("*{}*", escaped(&finding.services))).filter(|_| !finding.services.is_empty());
    [Some(heading), Some(escaped(&finding.text)), services]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n\n")
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

fn pairs(items: &[(String, String)]) -> String {
    let rows = items.iter().map(|(name, value)| format!("| {} | {} |", escaped(name), escaped(value)));
    std::iter::once("| | |\n| --- | --- |".to_owned()).chain(rows).collect::<Vec<_>>().join("\n")
}
