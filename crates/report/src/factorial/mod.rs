//! What of the difference between two versions is the version and what its settings, as a document.

mod forms;

use std::ops::Deref;

use heaptrial_judgement::{Effect, Factorial, Judgement};
use heaptrial_model::FactorialDesign;
use serde::{Deserialize, Serialize};

use crate::document::Ratio;

/// The form of [`FactorialReport`] as JSON that this version writes.
pub const FACTORIAL_SCHEMA_VERSION: u32 = 1;

/// The factorial of two builds and the levels of their settings: `factorial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorialReport {
    pub schema_version: u32,
    #[serde(flatten)]
    pub factorial: Factorial,
    /// What to know about the figures.
    pub notes: Vec<String>,
}

impl FactorialReport {
    /// Of the arms of a lab run that are cells of `design`. `None` where no repeat has two cells to compare.
    pub fn of(judgement: &Judgement, design: &FactorialDesign) -> Option<Self> {
        let factorial = Factorial::of(judgement, design)?;
        let notes = notes(&factorial);
        Some(Self { schema_version: FACTORIAL_SCHEMA_VERSION, factorial, notes })
    }
}

impl Deref for FactorialReport {
    type Target = Factorial;

    fn deref(&self) -> &Factorial {
        &self.factorial
    }
}

impl From<&Effect> for Ratio {
    fn from(effect: &Effect) -> Self {
        Self {
            estimate: effect.estimate,
            low: effect.low,
            high: effect.high,
            method: effect.method.clone(),
            p_value: effect.p_value,
            p_value_adjusted: None,
            note: None,
        }
    }
}

fn notes(found: &Factorial) -> Vec<String> {
    let mut notes = Vec::new();
    if found.repeats < 2 {
        notes.push(
            "One repeat: no intervals, so nothing tells how far another run would be from these ratios. Run it with \
             --repeat 3 or more."
                .to_owned(),
        );
    } else {
        notes.push(format!(
            "Intervals of {:.0}%: Student's t on the logarithms over {} repeats as blocks; not adjusted for their number.",
            100.0 * found.confidence_level,
            found.repeats
        ));
    }
    let short = found.cells.iter().filter(|cell| cell.services < found.repeats).count();
    if short > 0 {
        notes.push(format!(
            "{short} of {} cells lack a repeat: their ratios are of the repeats that both cells have.",
            found.cells.len()
        ));
    }
    if found.parts.is_none() {
        notes.push(
            "The cells do not hold both versions at the differing defaults of both: the difference is not split into \
             version and settings."
                .to_owned(),
        );
    }
    notes
}
