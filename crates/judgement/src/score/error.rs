//! Why a lab run could not be scored.

use heaptrial_model::{Classified, ErrorClass};

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
    NotALab {
        /// The trial.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// What it is scored against is no trial in the field.
    #[error("`{name}` is a {kind}; a score is against an import or a field trial")]
    NotTheField {
        /// The trial.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// No relay of the run is known to have taken a consensus.
    #[error(
        "nothing in `{name}` tells how many consensuses its relays took, so it has no age to compare to the field's; run it \
         again with this version of `heaptrial lab tor`, until the relays have the directory"
    )]
    NoConsensuses {
        /// The run.
        name: String,
    },
    /// Runs that cannot be taken together.
    #[error("`{first}` and `{second}` cannot be scored as one: {why}")]
    Apart {
        /// One run.
        first: String,
        /// Another.
        second: String,
        /// What differs.
        why: String,
    },
    /// A match by hand of arms that there are not.
    #[error(
        "--match {text}: it names no arm of the lab and one of the field; the lab has {}; the field has {}",
        lab.join(", "),
        field.join(", ")
    )]
    NoSuchArms {
        /// What was asked for.
        text: String,
        /// Arms of the lab.
        lab: Vec<String>,
        /// Arms of the field.
        field: Vec<String>,
    },
    /// An arm in two matches by hand.
    #[error("--match {text}: each arm can be matched once")]
    MatchedTwice {
        /// What was asked for.
        text: String,
    },
    /// Controls of different treatments.
    #[error(
        "the control of the lab is `{lab}` and that of the field `{field}`, which are not known to be one treatment: ratios to \
         them cannot be compared; make the field's control the first arm of the lab run, or say --match {lab}={field}"
    )]
    Controls {
        /// Of the lab.
        lab: String,
        /// Of the field.
        field: String,
    },
    /// Nothing but the control has a partner.
    #[error(
        "no arm of the lab beside the control has a partner in the field: the lab has {}; the field has {}; say which is which \
         with --match LAB=FIELD",
        lab.join(", "),
        field.join(", ")
    )]
    NoPartners {
        /// Arms of the lab.
        lab: Vec<String>,
        /// Arms of the field.
        field: Vec<String>,
    },
    /// No age that both reached.
    #[error("there is no age to compare at: {}", left_out.join("; "))]
    NoAge {
        /// Each age, and why not.
        left_out: Vec<String>,
    },
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
