//! Services that reach the memory that they may use.

use heaptrial_model::units;

use crate::analysis::data::Data;
use crate::analysis::outcome::{Finding, FindingKind, Severity};

/// The kernel takes pages back before a limit is reached, so that memory that is held stays a little below it.
const REACHED: f64 = 0.98;

/// Arms of which services reached their limit. Where a limit holds, what they would need is in no figure; where it is only
/// thought of, they would not live under it.
///
/// A limit holds whatever a service runs: those off treatment count too.
pub(super) fn reached(data: Data<'_>) -> Vec<Finding> {
    let Data { fleet, services, .. } = data;
    let limit = |index: usize| fleet.limit.service_bytes.or(fleet.services[index].limit_bytes);
    let over = |index: &usize| {
        let peak = services[*index].peak_bytes;
        peak.zip(limit(*index)).is_some_and(|(peak, limit)| peak >= REACHED * limit)
    };
    let finding = |arm: usize| {
        let members = fleet.members(arm);
        let found: Vec<usize> = members.iter().copied().filter(over).collect();
        let least = found.iter().filter_map(|index| limit(*index)).min_by(f64::total_cmp)?;
        let highest = found.iter().filter_map(|index| services[*index].peak_bytes).max_by(f64::total_cmp)?;
        let evidence = format!(
            "{} of {} services of {} reached their memory limit of {}, the highest with {}",
            found.len(),
            members.len(),
            data.name(arm),
            units::memory(least),
            units::memory(highest)
        );
        let finding = Finding::new(FindingKind::MemoryRunsShort, Severity::Grave, evidence);
        Some(finding.of_arm(arm).naming(fleet.names(&found)))
    };
    (0..fleet.arms.len()).filter_map(finding).collect()
}
