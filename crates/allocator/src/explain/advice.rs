//! What could help, by rules that are data.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use heaptrial_model::{AllocatorSpec, units};
use serde::{Deserialize, Serialize};

use super::Explanation;

/// Less than this is not worth advice.
const WORTH_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub rule: String,
    #[serde(rename = "try")]
    pub specs: Vec<AllocatorSpec>,
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    allocator: Option<String>,
    at_least: BTreeMap<String, f64>,
    arenas: Option<u32>,
    #[serde(rename = "try")]
    specs: Vec<AllocatorSpec>,
    reason: String,
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let rules: Rules = toml::from_str(include_str!("advice.toml")).expect("checked by a test");
        rules.rule
    })
}

/// All that could help; empty where nothing is shown to.
pub(super) fn advice(explanation: &Explanation) -> Vec<Advice> {
    let anon = explanation.anon_bytes;
    let Some(split) = explanation.split.as_ref().filter(|_| anon >= WORTH_BYTES) else { return Vec::new() };
    let figures = [
        ("in_use", split.in_use_bytes),
        ("other", explanation.other_bytes),
        ("kept_at_ends", split.kept_at_ends_bytes),
        ("kept_in_large", split.kept_in_large_bytes),
        (
            "kept_in_small",
            split.kept_free_bytes.saturating_sub(split.kept_at_ends_bytes + split.kept_in_large_bytes),
        ),
        ("free_in_pages", split.free_in_pages_bytes),
        ("unused", split.kept_free_bytes + split.free_in_pages_bytes),
        ("anon", anon),
    ];
    let holds = |rule: &&Rule| {
        let is_reached = |(name, bytes): &(&str, u64)| {
            rule.at_least.get(*name).is_none_or(|least| *bytes as f64 >= least * anon as f64)
        };
        rule.allocator.as_ref().is_none_or(|own| *own == explanation.family)
            && rule.arenas.is_none_or(|least| split.arenas >= least)
            && figures.iter().all(is_reached)
    };
    let of = |rule: &Rule| {
        let reason = rule.reason.replace("{arenas}", &units::counted(split.arenas as usize, "arena"));
        let reason = figures.iter().fold(reason, |text, (name, bytes)| {
            text.replace(&format!("{{{name}}}"), &units::memory(*bytes as f64))
        });
        Advice { rule: rule.name.clone(), specs: rule.specs.clone(), reason }
    };
    rules().iter().filter(holds).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    #[test]
    fn rules_name_allocators_and_settings_that_there_are() {
        for spec in rules().iter().flat_map(|rule| &rule.specs) {
            Catalog::builtin().resolve(spec).unwrap();
        }
    }
}
