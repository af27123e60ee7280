//! What a search over settings may try.

mod levels;
mod searched;

use heaptrial_model::AllocatorSpec;
use serde::Deserialize;

use crate::resolve::ResolveError;

/// What a search tries of a setting.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Numbers in the order of their size: those near each other probably act alike.
    #[serde(default, rename = "try")]
    pub numbers: Vec<String>,
    /// Values of which that cannot be said, such as words, or 0 for "never".
    #[serde(default)]
    pub values: Vec<String>,
    /// Whether setting it to its default is something else than leaving it alone.
    #[serde(default)]
    pub fixes: bool,
    /// Settings without which it does nothing.
    #[serde(default)]
    pub needs: Vec<heaptrial_model::Setting>,
    /// Settings with which it does nothing, or cannot be set.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// What it costs in security.
    pub mitigation: Option<MitigationBySetting>,
    /// Whether it is searched where no settings are named.
    #[serde(default)]
    pub usual: bool,
}

/// A mitigation that a setting turns off or on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MitigationBySetting {
    pub name: String,
    /// Values at which it is not there.
    pub absent_at: Vec<String>,
}

/// A level of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchLevel {
    /// Its value; `None` leaves the setting as it comes.
    pub value: Option<String>,
    /// Where among the numbers, from 0 to 1; `None` for values of no order.
    pub position: Option<f64>,
}

/// What somebody wants tried of a setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Narrowed {
    pub name: String,
    /// These values, as it comes, and no others; without them what the catalog has.
    pub values: Vec<String>,
}

/// A setting with its levels, the one as it comes first.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    pub name: String,
    pub levels: Vec<SearchLevel>,
}

/// Why a spec cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// A part that the catalog does not know.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A named mitigation that is none.
    #[error("there is no mitigation `{name}`\n  known: {}", .known.join(", "))]
    UnknownMitigation { name: String, known: Vec<String> },
    /// The build does not have a mitigation that is to be kept, whatever is set.
    #[error("{spec} has no {mitigation}{}", .by.as_ref().map_or(String::new(), |by| format!(" unless `{by}` is set, and none of its values that give it are searched")))]
    WithoutMitigation {
        spec: Box<AllocatorSpec>,
        mitigation: String,
        /// The setting that gives it.
        by: Option<String>,
    },
}

impl heaptrial_model::Classified for SearchError {
    fn class(&self) -> heaptrial_model::ErrorClass {
        heaptrial_model::ErrorClass::Usage
    }
}
