//! Restarts that nobody planned.

use crate::fleet::Fleet;
use crate::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// An arm whose services were restarted this many times as often as the control's,
const TIMES: f64 = 3.0;
/// and this many times more per service, is told.
const MORE: f64 = 2.0;

/// Arms that are restarted far more often than the control without that being their treatment.
pub(super) fn more_often(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Finding> {
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let mean = |arm: usize| {
        let restarts: u32 = members[arm].iter().map(|index| services[*index].restarts).sum();
        f64::from(restarts) / members[arm].len().max(1) as f64
    };
    let usual = mean(control);
    let more = |arm: &usize| mean(*arm) >= TIMES * usual && mean(*arm) >= usual + MORE;
    let arms =
        (0..fleet.arms.len()).filter(|arm| !fleet.arms[*arm].restarted && !members[control].is_empty());
    arms.filter(|arm| fleet.arms[*arm].earlier_list_of.is_none())
        .filter(more)
        .map(|arm| Finding {
            kind: FindingKind::RestartedMoreOften,
            severity: Severity::Grave,
            arms: vec![arm],
            services: members[arm].iter().map(|index| services[*index].name.clone()).collect(),
            evidence: format!(
                "each service of {} was restarted {:.1} times, of the control {usual:.1} times (means), and restarts are no \
                 part of its treatment",
                fleet.arms[arm].name,
                mean(arm)
            ),
            effect: "If it crashes or is killed, it uses less memory because it never lives long: find out why before its \
                     memory is compared."
                .to_owned(),
        })
        .collect()
}
