//! What a report says, in the order in which it says it. The forms lay this out; none of them chooses what is told.

mod compose;

pub(crate) use compose::sections;

use crate::document::Severity;
use crate::summary::Paragraph;
use crate::summary::odd::Told;
use crate::table::Table;

/// A section under a title.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    /// Empty where its blocks have titles of their own.
    pub(crate) title: &'static str,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
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

/// Findings that say the like, as one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FindingBlock {
    pub(crate) severity: Severity,
    /// What was found, and of which arms.
    pub(crate) heading: String,
    pub(crate) told: Vec<Told>,
}
