//! What is known of an arm beside what an analysis makes of its memory.

use std::collections::BTreeSet;

use crate::analysis::Analysis;
use heaptrial_model::{Identity, MappedLibrary, TrialKind};
use heaptrial_stats::median;

use crate::judgement::Rows;
use crate::judgement::facts::ServiceFacts;

/// Of an arm, over its services: those that count in a lab run, all that were put into it on hosts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArmFacts {
    /// Highest reading of the metric of any service, in bytes.
    pub peak_bytes: Option<f64>,
    /// Arithmetic mean of the last RSS in bytes, where it was read beside the metric.
    pub rss_bytes: Option<f64>,
    /// Arithmetic mean of the last RssAnon in bytes.
    pub anon_bytes: Option<f64>,
    /// Arithmetic mean of the CPU time since start in seconds.
    pub cpu_seconds: Option<f64>,
    /// Median of the slopes after warm-up, in bytes an hour, with the least and the greatest.
    pub slope_bytes_per_hour: Option<(f64, f64, f64)>,
    pub consensuses: Option<f64>,
    /// What its services were proved to run: that of the first that counts. Of a lab's arm of which none counts that of the first
    /// that ran the arm's treatment all the same.
    pub identity: Option<Identity>,
    /// The shared libraries that its services mapped in the lives that its figures are of, each build once, by name.
    pub libraries: Vec<MappedLibrary>,
    /// Labels of all builds that its services were proved to run, where they are several.
    pub builds: Vec<String>,
    pub age_seconds: Option<f64>,
}

/// Of all arms, in their order.
pub(crate) fn of(rows: &Rows, analysis: &Analysis, facts: &[ServiceFacts]) -> Vec<ArmFacts> {
    (0..rows.arms.len()).map(|arm| of_arm(rows, analysis, facts, arm)).collect()
}

fn of_arm(rows: &Rows, analysis: &Analysis, facts: &[ServiceFacts], arm: usize) -> ArmFacts {
    let of_arm = |counts: fn(&ServiceFacts) -> bool| -> Vec<usize> {
        let put_into_it = |index: &usize| analysis.services[*index].arms.contains(&arm);
        (0..facts.len()).filter(put_into_it).filter(|index| counts(&facts[*index])).collect()
    };
    let own = of_arm(|service| service.excluded.is_none());
    let bytes = |value: fn(&ServiceFacts) -> Option<u64>| {
        mean(own.iter().filter_map(|index| Some(value(&facts[*index])? as f64)))
    };
    let slope = |index: &usize| Some(analysis.services[*index].growth_bytes_per_day? / 24.0);
    let mut slopes: Vec<f64> = own.iter().filter_map(slope).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let ran = if own.is_empty() { of_arm(|service| service.left_out_proved) } else { own.clone() };
    let identities = identities(rows, facts, &ran, arm);
    let mut builds: Vec<String> = Vec::new();
    if identities.windows(2).any(|pair| build_of(pair[0]) != build_of(pair[1])) {
        builds = identities.iter().map(|identity| identity.label()).collect();
        builds.sort();
        builds.dedup();
    }
    ArmFacts {
        peak_bytes: own
            .iter()
            .filter_map(|index| match facts[*index].observed {
                // Of a relay that rests, readings are of rests alone.
                Some(seen) => Some(seen.peak_bytes as f64),
                None => analysis.services[*index].peak_bytes,
            })
            .max_by(f64::total_cmp),
        rss_bytes: bytes(|service| service.rss_bytes),
        anon_bytes: bytes(|service| service.anon_bytes),
        cpu_seconds: mean(own.iter().filter_map(|index| facts[*index].cpu_seconds)),
        slope_bytes_per_hour: median(&slopes).map(|middle| {
            (middle, slopes.first().copied().unwrap_or(middle), slopes.last().copied().unwrap_or(middle))
        }),
        consensuses: median(
            &own.iter().filter_map(|index| facts[*index].consensuses).map(f64::from).collect::<Vec<_>>(),
        ),
        identity: identities.first().map(|identity| (*identity).clone()),
        libraries: libraries(rows, facts, &ran),
        builds,
        age_seconds: median(
            &own.iter().filter_map(|index| analysis.services[*index].age_seconds).collect::<Vec<_>>(),
        ),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| heaptrial_stats::mean(&values))
}

fn build_of(identity: &Identity) -> (String, Option<std::path::PathBuf>, Option<String>) {
    (identity.label(), identity.path.clone(), identity.build_id.clone())
}

/// What was proved in lives that are not contaminated. Imports prove nothing, and services as they
/// are found have each their own.
fn identities<'r>(rows: &'r Rows, facts: &[ServiceFacts], own: &[usize], arm: usize) -> Vec<&'r Identity> {
    if rows.kind.is_lab() {
        let lives = own.iter().filter_map(|index| rows.lives.get(facts[*index].life?));
        return lives.filter_map(|life| life.identity.as_ref()).collect();
    }
    if rows.arms.len() < 2 || rows.kind == TrialKind::Host {
        return Vec::new();
    }
    let id = rows.arms[arm].id;
    let put_into_it = |service_id: i64| {
        rows.services.iter().any(|service| service.id == service_id && service.arm_id == id)
    };
    let mut proved = rows.lives.iter().filter(|life| life.identity.is_some() && life.contamination.is_none());
    let first = proved.find(|life| put_into_it(life.service_id));
    first.and_then(|life| life.identity.as_ref()).into_iter().collect()
}

/// Libraries of the lives of an arm's services that its figures are of.
fn libraries(rows: &Rows, facts: &[ServiceFacts], own: &[usize]) -> Vec<MappedLibrary> {
    let lives = own.iter().filter_map(|index| rows.lives.get(facts[*index].life?));
    let proved = lives.filter(|life| life.contamination.is_none()).filter_map(|life| life.identity.as_ref());
    proved
        .flat_map(|identity| identity.libraries.iter().cloned())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}
