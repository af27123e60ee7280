//! Classes of services that are alike before the trial.

use std::collections::BTreeMap;

use heaptrial_model::units;

use crate::Candidate;

const DAY: f64 = 86_400.0;

/// What makes strata: host, role, tercile of size, age; the first weighs most when strata are joined.
pub(crate) const LEVELS: usize = 4;

/// The stratum of each candidate, in their order: one label for each level.
pub(crate) fn strata(candidates: &[Candidate]) -> Vec<[String; LEVELS]> {
    let size = size_of(candidates);
    let terciles = terciles(candidates, &size);
    candidates
        .iter()
        .zip(terciles)
        .map(|(candidate, tercile)| {
            [candidate.host.clone(), candidate.role.clone(), tercile, age_class(candidate.age_seconds)]
        })
        .collect()
}

/// What is known of every candidate's size: work where it is known of all, else memory.
pub(crate) fn size_of(candidates: &[Candidate]) -> Vec<Option<f64>> {
    if works(candidates) {
        return candidates.iter().map(|candidate| candidate.bandwidth).collect();
    }
    candidates.iter().map(|candidate| candidate.baseline_bytes.map(|bytes| bytes as f64)).collect()
}

fn works(candidates: &[Candidate]) -> bool {
    candidates.iter().all(|candidate| candidate.bandwidth.is_some_and(f64::is_finite))
}

/// Thirds by size among the services of one host and role, told by the sizes they span.
fn terciles(candidates: &[Candidate], size: &[Option<f64>]) -> Vec<String> {
    let by_work = works(candidates);
    let mut groups: BTreeMap<(&str, &str), Vec<(usize, f64)>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(size) = size[index] {
            groups.entry((&candidate.host, &candidate.role)).or_default().push((index, size));
        }
    }
    let unknown = if by_work { "work unknown" } else { "memory unknown" };
    let mut labels = vec![unknown.to_owned(); candidates.len()];
    for mut members in groups.into_values() {
        // Stable: of equal sizes the order of names decides.
        members.sort_by(|a, b| a.1.total_cmp(&b.1));
        let third = members.len().div_ceil(3);
        for tercile in members.chunks(third) {
            let (low, high) = (tercile[0].1, tercile[tercile.len() - 1].1);
            let label = if by_work {
                format!("{}/s to {}/s", units::memory(low), units::memory(high))
            } else {
                format!("{} to {}", units::memory(low), units::memory(high))
            };
            tercile.iter().for_each(|(index, _)| labels[*index] = label.clone());
        }
    }
    labels
}

fn age_class(age_seconds: Option<f64>) -> String {
    match age_seconds {
        None => "age unknown",
        Some(age) if age < DAY => "younger than 1d",
        Some(age) if age <= 7.0 * DAY => "1d to 7d old",
        Some(_) => "older than 7d",
    }
    .to_owned()
}
