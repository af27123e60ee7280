//! Why a lab run could not be scored.

use heaptrial_model::{Classified, ErrorClass};

use super::Alone;
use crate::JudgementError;

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// A trial could not be read.
    #[error(transparent)]
    Judgement(#[from] JudgementError),
    /// What is to be scored is no lab run of relays.
    #[error(
        "`{name}` is a {kind}; only a lab run of relays (`heaptrial lab tor`) can be scored against the field"
    )]
    NotALab { name: String, kind: &'static str },
    /// What it is scored against is no trial in the field.
    #[error("`{name}` is a {kind}; a score is against an import or a field trial")]
    NotTheField { name: String, kind: &'static str },
    /// No relay of the run is known to have taken a consensus.
    #[error(
        "nothing in `{name}` tells how many consensuses its relays took, so it has no age to compare to the field's; run it \
         again with this version of `heaptrial lab tor`, until the relays have the directory"
    )]
    NoConsensuses { name: String },
    /// Runs that cannot be taken together.
    #[error("`{first}` and `{second}` cannot be scored as one: {why}")]
    Apart { first: String, second: String, why: String },
    /// A match by hand of arms that there are not.
    #[error(
        "--match {text}: it names no arm of the lab and one of the field; the lab has {}; the field has {}",
        lab.join(", "),
        field.join(", ")
    )]
    NoSuchArms { text: String, lab: Vec<String>, field: Vec<String> },
    /// An arm in two matches by hand.
    #[error("--match {text}: each arm can be matched once")]
    MatchedTwice { text: String },
    /// Fewer than two arms have a partner: nothing can be in proportion to anything.
    #[error("arms of the lab that have a partner in the field: {found}; a score needs two:{}", lines(alone))]
    TooFewPartners { found: usize, alone: Vec<Alone> },
    /// No age that both reached.
    #[error("there is no age to compare at: {}", left_out.join("; "))]
    NoAge {
        /// Each age, and why not.
        left_out: Vec<String>,
    },
}

fn lines(alone: &[Alone]) -> String {
    alone.iter().map(|arm| format!("\n- {arm}")).collect()
}

impl Classified for ScoreError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Judgement(error) => error.class(),
            Self::NoSuchArms { .. } | Self::MatchedTwice { .. } => ErrorClass::Usage,
            _ => ErrorClass::Refused,
        }
    }
}
