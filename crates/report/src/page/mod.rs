//! What a report says, in the order in which it says it. The forms lay this out; none of them chooses what is shown.

mod compose;

pub(crate) use compose::sections;

use heaptrial_evaluate::analysis::Severity;

use crate::table::Table;

#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: &'static str,
    /// Empty where its blocks have titles of their own.
    pub title: &'static str,
    pub blocks: Vec<Block>,
}

pub(crate) fn section(id: &'static str, title: &'static str, blocks: Vec<Block>) -> Section {
    Section { id, title, blocks }
}

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
    Pairs(Vec<(String, String)>),
    /// A table, and what it is about.
    Table(String, Table),
    /// The chart of this name, where there is one.
    Chart(&'static str),
    Command(String),
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
    pub is_advice: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FindingBlock {
    pub severity: Severity,
    /// What was found, and in which arms.
    pub heading: String,
    pub text: String,
    /// The services that it is about; empty where it names none.
    pub services: String,
}
