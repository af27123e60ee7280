//! Heap-security properties of allocators.

use serde::{Deserialize, Serialize};

/// A heap-security property of a family or of one of its variants.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mitigation {
    pub name: String,
    pub variant: Option<String>,
    pub state: MitigationState,
    pub note: Option<String>,
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MitigationState {
    Yes,
    No,
    /// In part, or only when a setting asks for it.
    Partial,
    Unknown,
}

/// The columns of the table of mitigations.
pub const MITIGATIONS: [&str; 7] = [
    "guard_pages",
    "free_list_encoding",
    "double_free_check",
    "randomisation",
    "quarantine",
    "zero_on_free",
    "out_of_line_metadata",
];

impl std::fmt::Display for MitigationState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        })
    }
}
