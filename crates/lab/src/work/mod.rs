//! What a service does for its users while it is under load: where the numbers come from, and their reading.

mod output;
mod polled;
mod preset;
mod requests;
mod source;

pub(crate) use output::{OutputReader, Tail};
pub(crate) use polled::Polling;
pub use preset::WorkPreset;
pub(crate) use requests::Requests;
pub use source::WorkSource;

use std::fmt;
use std::str::FromStr;

use heaptrial_model::WorkMeasure;
use regex::Regex;

use crate::placeholders::Placeholders;

/// A measure of work and where its numbers come from: `NAME=SOURCE`.
#[derive(Debug, Clone)]
pub struct Work {
    pub measure: WorkMeasure,
    pub source: WorkSource,
    /// Whether it may be missing: a preset looks for what its tool writes with various options.
    pub optional: bool,
    /// Where numbers of the same form are of something else.
    pub(crate) aside: Option<Aside>,
}

/// Lines of a load between two headings.
#[derive(Debug, Clone)]
pub(crate) struct Aside {
    begins: Regex,
    ends: Regex,
}

/// A number of a measure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    pub(crate) measure: WorkMeasure,
    pub(crate) value: f64,
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (measure, source) = text.split_once('=').ok_or_else(|| {
            format!(
                "`{text}` is no work; expected NAME=REGEX, or NAME=json:FIELD, table:ROW#COLUMN, http:URL, prometheus:URL#METRIC \
                 or file:PATH"
            )
        })?;
        let measure = measure.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { measure, source: source.parse()?, optional: false, aside: None })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.measure, self.source)
    }
}

impl Work {
    fn reading(&self, value: f64) -> Reading {
        Reading { measure: self.measure.clone(), value }
    }

    pub(crate) fn fill(&self, placeholders: &Placeholders) -> Self {
        Self { source: self.source.fill(placeholders), ..self.clone() }
    }
}
