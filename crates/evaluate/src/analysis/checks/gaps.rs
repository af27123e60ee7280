//! Stretches in which nothing was read.

use heaptrial_model::units;
use heaptrial_stats::median;

use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, Severity};
use crate::analysis::service::usual_distance;

/// A stretch this many times as long as the usual distance between readings is a gap,
const TIMES: f64 = 6.0;
/// if it is also this share of the arm's whole time.
const SHARE: f64 = 0.1;

/// The longest gap of each arm that has one.
pub(super) fn of_arms(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    (0..fleet.arms.len()).filter_map(|arm| of_arm(fleet, arm, &members[arm])).collect()
}

fn of_arm(fleet: &Fleet, arm: usize, members: &[usize]) -> Option<Finding> {
    let lives = || members.iter().flat_map(|index| &fleet.services[*index].lives);
    let usual = median(
        &members
            .iter()
            .filter_map(|index| usual_distance(fleet.services[*index].current()?))
            .collect::<Vec<_>>(),
    )?;
    // Stretches of time with readings, one after the other: none of a life whose readings are near each other is a gap.
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    for life in lives() {
        let at = |age: f32| life.started_at + f64::from(age);
        for chunk in life.readings.chunk_by(|a, b| f64::from(b.age_seconds - a.age_seconds) <= TIMES * usual)
        {
            stretches.push((at(chunk[0].age_seconds), at(chunk[chunk.len() - 1].age_seconds)));
        }
    }
    stretches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, mut until) = *stretches.first()?;
    let mut longest = (0.0, until);
    for (from, to) in stretches {
        if from - until > longest.0 {
            longest = (from - until, until);
        }
        until = until.max(to);
    }
    let (length, _) = longest;
    (length > TIMES * usual && length >= SHARE * (until - first)).then(|| Finding {
        kind: FindingKind::Gaps,
        severity: Severity::Caution,
        arms: vec![arm],
        services: Vec::new(),
        evidence: format!(
            "no service of {} was read for {}; readings are usually {} apart",
            fleet.arms[arm].name,
            units::duration(length),
            units::duration(usual)
        ),
    })
}
