//! Heap security that an allocator gives up, so that the trade is a decision.

use heaptrial_allocator::{Catalog, MITIGATIONS, Mitigation, MitigationState};
use heaptrial_model::AllocatorSpec;

/// What is said where memory is bought with heap security.
pub fn warnings(from: &[AllocatorSpec], to: &AllocatorSpec) -> Vec<String> {
    let mut warnings = Vec::new();
    for old in from.iter().filter(|old| old.family != to.family || old.variants != to.variants) {
        let lost: Vec<String> = MITIGATIONS
            .iter()
            .filter(|name| has_more(old, to, name))
            .map(|name| name.replace('_', " "))
            .collect();
        if !lost.is_empty() {
            warnings.push(format!(
                "{to} gives up what {old} does against heap corruption: {} (`heaptrial allocators mitigations` shows all, with sources)",
                lost.join(", ")
            ));
        }
    }
    warnings
}

/// Whether a source says that one has more of a mitigation than the other. What is unknown is claimed of neither.
fn has_more(one: &AllocatorSpec, other: &AllocatorSpec, name: &str) -> bool {
    let rank = |spec: &AllocatorSpec| match cell(spec, name)?.state {
        MitigationState::Yes => Some(2),
        MitigationState::Partial => Some(1),
        MitigationState::No => Some(0),
        MitigationState::Unknown => None,
    };
    rank(one).zip(rank(other)).is_some_and(|(one, other)| one > other)
}

fn cell(spec: &AllocatorSpec, name: &str) -> Option<Mitigation> {
    let family = Catalog::builtin().family(&spec.family)?;
    let variant = spec.variants.first().map(String::as_str);
    family.mitigation(name, variant).cloned()
}
