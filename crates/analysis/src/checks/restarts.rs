//! Restarts that nobody planned.

use heaptrial_stats::{fisher_fewer, median};

use crate::fleet::Fleet;
use crate::outcome::{Finding, FindingKind, ServiceResult, Severity};

/// An arm whose services were restarted this many times as often as the control's,
const TIMES: f64 = 3.0;
/// and this many times more per service, is told.
const MORE: f64 = 2.0;
/// So is an arm more of whose services were restarted this many times more than the control's usually are, where chance alone would
/// do that this rarely (one-sided, R. A. Fisher's exact test), of so many services or more.
const RARELY: f64 = 0.025;
const FEWEST: usize = 3;

/// Arms that are restarted far more often than the control without that being their treatment.
pub(super) fn more_often(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Finding> {
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let mean = |arm: usize| {
        let restarts: u32 = members[arm].iter().map(|index| services[*index].restarts).sum();
        f64::from(restarts) / members[arm].len().max(1) as f64
    };
    let usual = mean(control);
    let more = |arm: &usize| mean(*arm) >= TIMES * usual && mean(*arm) >= usual + MORE;
    let restarts_of_control: Vec<f64> =
        members[control].iter().map(|index| f64::from(services[*index].restarts)).collect();
    let often = median(&restarts_of_control).unwrap_or(0.0) + MORE;
    let frequent = |arm: usize| -> Vec<usize> {
        let own = members[arm].iter().copied();
        own.filter(|index| f64::from(services[*index].restarts) >= often).collect()
    };
    let rest = |arm: usize| (members[arm].len() - frequent(arm).len(), members[arm].len());
    let some =
        |arm: &usize| frequent(*arm).len() >= FEWEST && fisher_fewer(rest(*arm), rest(control)) <= RARELY;
    let arms =
        (0..fleet.arms.len()).filter(|arm| !fleet.arms[*arm].restarted && !members[control].is_empty());
    arms.filter(|arm| fleet.arms[*arm].earlier_list_of.is_none())
        .filter(|arm| more(arm) || some(arm))
        .map(|arm| {
            let frequent = frequent(arm);
            let without = frequent.iter().filter(|index| services[**index].level_bytes.is_none()).count();
            let in_no_level = match without {
                0 => String::new(),
                without => format!(", and {without} of these are in no level"),
            };
            let name = &fleet.arms[arm].name;
            Finding {
                kind: FindingKind::RestartedMoreOften,
                severity: Severity::Grave,
                arms: vec![arm],
                services: frequent.iter().map(|index| services[*index].name.clone()).collect(),
                evidence: format!(
                    "each service of {name} was restarted {:.1} times, of the control {usual:.1} times (means), {} of {} of its \
                     services {often:.0} times or more{in_no_level}; restarts are no part of its treatment",
                    mean(arm),
                    frequent.len(),
                    members[arm].len()
                ),
                effect: "If it crashes or is killed, it uses less memory because it never lives long: find out why before its \
                         memory is compared."
                    .to_owned(),
            }
        })
        .collect()
}
