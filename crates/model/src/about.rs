//! What a trial is about, in the words of those who plan it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::InvalidText;

/// Longer texts are essays, and end up in a report.
const LONGEST: usize = 4000;

/// Why a trial is made, what to know of it, and what follows. Texts of several lines; each may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What is expected, said before anything was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<String>,
    /// What a reader of the report should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What is done after the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_steps: Option<String>,
}

impl About {
    /// Reads the three texts from TOML.
    pub fn from_toml(text: &str) -> Result<Self, InvalidText> {
        let about: Self = toml::from_str(text).map_err(|error| {
            InvalidText(format!("expected TOML with the texts hypothesis, notes and next_steps: {error}"))
        })?;
        about.check()?;
        Ok(about)
    }

    /// What the parameters of a stored trial hold: `about` of an import, `plan.about` of a trial on a fleet.
    pub fn of_parameters(parameters: &serde_json::Value) -> Self {
        let about = parameters.get("about").or_else(|| parameters.get("plan")?.get("about"));
        about.and_then(|about| serde_json::from_value(about.clone()).ok()).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks what may end up in a report.
    pub fn check(&self) -> Result<(), InvalidText> {
        let texts =
            [("hypothesis", &self.hypothesis), ("notes", &self.notes), ("next_steps", &self.next_steps)];
        let wrong = texts.into_iter().find(|(_, text)| {
            text.as_ref().is_some_and(|text| {
                let hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
                text.chars().count() > LONGEST || text.chars().any(hidden)
            })
        });
        let why = |name| {
            format!(
                "{name}: expected at most {LONGEST} characters, without control characters but line ends and tabs"
            )
        };
        wrong.map_or(Ok(()), |(name, _)| Err(InvalidText(why(name))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_read_and_found_where_trials_keep_them() {
        let about = About::from_toml("hypothesis = 'less'\nnotes = \"\"\"\none\ntwo\"\"\"\n").unwrap();
        assert_eq!((about.hypothesis.as_deref(), about.notes.as_deref()), (Some("less"), Some("one\ntwo")));
        assert_eq!(About::of_parameters(&json!({"about": about})), about);
        assert_eq!(About::of_parameters(&json!({"plan": {"about": about}})), about);
        assert!(About::of_parameters(&json!({"plan": {}})).is_empty());
        let why = |text: &str| About::from_toml(text).unwrap_err().to_string();
        assert!(why("hypotheses = 'x'").starts_with("expected TOML"));
        assert!(why("notes = \"a\\u0000\"").starts_with("notes: expected at most"));
        assert!(why(&format!("next_steps = '{}'", "x".repeat(4001))).starts_with("next_steps: expected"));
    }
}
