//! Memory and heap security side by side, so that the trade is a decision.

use heaptrial_allocator::{Catalog, MITIGATIONS, Mitigation, MitigationState};
use heaptrial_analysis::{Fleet, Settings, analyse};
use heaptrial_change::Prepared;
use heaptrial_model::{AllocatorSpec, Arm, units};

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
                "{to} gives up what {old} does against heap corruption: {} (`heaptrial rollout start --mitigations` shows all, with sources)",
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

/// The arms of a trial with their memory and mitigations, and the source of each cell.
pub fn side_by_side(prepared: &Prepared, fleet: Option<&Fleet>) -> String {
    let levels: Vec<Option<f64>> = match fleet {
        Some(fleet) => {
            let analysis = analyse(fleet, &Settings::default());
            analysis.arms.iter().map(|arm| arm.treated().level_bytes).collect()
        }
        None => Vec::new(),
    };
    let mut rows = vec![
        ["arm".to_owned(), "memory".to_owned()]
            .into_iter()
            .chain(MITIGATIONS.iter().map(|name| name.replace('_', " ")))
            .collect::<Vec<String>>(),
    ];
    let mut sources = String::new();
    for (index, arm) in prepared.plan.arms.iter().enumerate() {
        let spec = arm.allocator();
        let memory = levels.get(index).copied().flatten().map_or("not known".to_owned(), units::memory);
        let cells = MITIGATIONS.iter().map(|name| match cell(&spec, name) {
            Some(cell) => cell.state.to_string(),
            None => MitigationState::Unknown.to_string(),
        });
        rows.push([label(arm), memory].into_iter().chain(cells).collect());
        for name in MITIGATIONS {
            let Some(cell) = cell(&spec, name) else { continue };
            let note = cell.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
            let line = format!("{}, {}{note} [{}]\n", spec.family, name.replace('_', " "), cell.source);
            if !sources.contains(&line) {
                sources += &line;
            }
        }
    }
    format!("{}\n{sources}`unknown` means that the catalog has no source for it.\n", columns(&rows))
}

fn label(arm: &Arm) -> String {
    if arm.control { format!("{} (control)", arm.name) } else { arm.name.clone() }
}

fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().enumerate().map(|(column, cell)| format!("{cell:0$}", width(column))).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
