//! What a service does for its users while it is under load: where the numbers come from, and their reading.

mod failed;
mod output;
mod polled;
mod preset;
mod source;

pub(crate) use failed::Failed;
pub(crate) use output::{OutputReader, Tail};
pub(crate) use polled::Polling;
pub use preset::{UnknownPreset, WorkPreset};
pub use source::{WorkError, WorkSource};

use std::fmt;
use std::str::FromStr;

use heaptrial_model::WorkMeasure;
use regex::Regex;

use crate::placeholders::Placeholders;

/// A measure of work and where its numbers come from: `NAME=SOURCE`.
#[derive(Debug, Clone)]
pub struct Work {
    pub measure: WorkMeasure,
    /// Where its numbers come from.
    pub source: WorkSource,
    /// Whether it may be missing: a preset looks for what its tool writes with various options.
    pub optional: bool,
    /// Where the load tells numbers of the same form that are of something else.
    pub(crate) aside: Option<Aside>,
}

/// Lines of a load between two headings.
#[derive(Debug, Clone)]
pub(crate) struct Aside {
    /// The heading of what is not read.
    begins: Regex,
    /// That of what is read again.
    ends: Regex,
}

/// A number that was told of a measure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) measure: WorkMeasure,
    pub(crate) value: f64,
}

impl FromStr for Work {
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, WorkError> {
        let (measure, source) = text.split_once('=').ok_or_else(|| WorkError::Form(text.to_owned()))?;
        Ok(Self { measure: measure.parse()?, source: source.parse()?, optional: false, aside: None })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.measure, self.source)
    }
}

impl Work {
    fn told(&self, value: f64) -> Told {
        Told { measure: self.measure.clone(), value }
    }

    pub(crate) fn fill(&self, placeholders: &Placeholders) -> Self {
        Self { source: self.source.fill(placeholders), ..self.clone() }
    }
}
