//! Classes of services that are alike before the trial.

use std::collections::BTreeMap;

use heaptrial_model::units::{self, DAY};

use crate::Candidate;

/// What makes strata: system, host, role, tercile of size, age; the first weighs most when strata are joined.
pub(crate) const LEVELS: usize = 5;
/// Levels that services of one system and of one host have in common.
pub(crate) const SYSTEM: usize = 1;
pub(crate) const HOST: usize = 2;

/// The stratum of each candidate, in their order: one label for each level.
pub(crate) fn strata(candidates: &[Candidate]) -> Vec<[String; LEVELS]> {
    candidates
        .iter()
        .zip(terciles(candidates))
        .map(|(candidate, tercile)| {
            let Candidate { system, host, role, age_seconds, .. } = candidate;
            [system.clone(), host.clone(), role.clone(), tercile, age_class(*age_seconds)]
        })
        .collect()
}

/// Thirds by memory among the services of one host and role, named by the sizes they span.
fn terciles(candidates: &[Candidate]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str), Vec<(usize, u64)>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(bytes) = candidate.baseline_bytes {
            groups.entry((&candidate.host, &candidate.role)).or_default().push((index, bytes));
        }
    }
    let mut labels = vec!["memory unknown".to_owned(); candidates.len()];
    for mut members in groups.into_values() {
        // Stable: of equal sizes the order of names decides.
        members.sort_by_key(|member| member.1);
        let third = members.len().div_ceil(3);
        for tercile in members.chunks(third) {
            let (low, high) = (tercile[0].1, tercile[tercile.len() - 1].1);
            let label = format!("{} to {}", units::memory(low as f64), units::memory(high as f64));
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
