//! What a report says, in the order in which it says it. The forms lay this out; none of them chooses what is shown.

mod compose;

pub(crate) use compose::sections;

use heaptrial_evaluate::analysis::Severity;

use crate::escape;
use crate::table::{Column, Row, Table};

/// A section under a title.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: &'static str,
    /// Empty where its blocks have titles of their own.
    pub title: &'static str,
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A part of the summary.
    Paragraph(Paragraph),
    Heading(String),
    /// The sentences to read first.
    Lead(Vec<String>),
    Text(String),
    Legend(String),
    List(Vec<String>),
    /// Something to mind, under a title.
    Callout {
        title: &'static str,
        grave: bool,
        items: Vec<String>,
    },
    Pairs(Vec<(String, String)>),
    /// A table, and what it is about.
    Table(String, Table),
    /// The chart of this name, where there is one.
    Chart(&'static str),
    /// A command, under what it does.
    Command(String),
    /// A text whose lines are kept, such as a part of a file.
    Verbatim(String),
    Finding(FindingBlock),
    /// Blocks that are shown on demand where the form can do that.
    Folded(String, Vec<Block>),
}

/// A part of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paragraph {
    pub title: &'static str,
    pub sentences: Vec<String>,
    /// Whether each sentence is about something else.
    pub is_list: bool,
    /// Whether it says what to do.
    pub is_advice: bool,
}

/// What is odd about the data.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingBlock {
    pub severity: Severity,
    /// What was found, and in which arms.
    pub heading: String,
    pub text: String,
    /// The services that it is about; empty where it names none.
    pub services: String,
}

/// Sections with nothing in them that acts on whoever shows it, or disguises itself.
pub(crate) fn printable(sections: Vec<Section>) -> Vec<Section> {
    sections.into_iter().map(|section| Section { blocks: blocks(section.blocks), ..section }).collect()
}

fn blocks(blocks: Vec<Block>) -> Vec<Block> {
    blocks.into_iter().map(block).collect()
}

fn block(block: Block) -> Block {
    let text = |text: String| escape::printable(&text);
    let texts = |texts: Vec<String>| texts.into_iter().map(text).collect::<Vec<_>>();
    let lines = |text: String| text.split('\n').map(escape::printable).collect::<Vec<_>>().join("\n");
    match block {
        Block::Paragraph(paragraph) => {
            Block::Paragraph(Paragraph { sentences: texts(paragraph.sentences), ..paragraph })
        }
        Block::Heading(title) => Block::Heading(text(title)),
        Block::Lead(sentences) => Block::Lead(texts(sentences)),
        Block::Text(content) => Block::Text(text(content)),
        Block::Legend(content) => Block::Legend(text(content)),
        Block::List(items) => Block::List(texts(items)),
        Block::Callout { title, grave, items } => Block::Callout { title, grave, items: texts(items) },
        Block::Pairs(pairs) => {
            Block::Pairs(pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect())
        }
        Block::Table(name, table) => Block::Table(
            text(name),
            Table {
                columns: table
                    .columns
                    .into_iter()
                    .map(|column| Column { title: text(column.title), ..column })
                    .collect(),
                rows: table.rows.into_iter().map(|row| Row { cells: texts(row.cells), ..row }).collect(),
            },
        ),
        Block::Chart(name) => Block::Chart(name),
        Block::Command(command) => Block::Command(lines(command)),
        Block::Verbatim(content) => Block::Verbatim(lines(content)),
        Block::Finding(finding) => Block::Finding(FindingBlock {
            severity: finding.severity,
            heading: text(finding.heading),
            text: text(finding.text),
            services: text(finding.services),
        }),
        Block::Folded(title, content) => Block::Folded(text(title), blocks(content)),
    }
}
