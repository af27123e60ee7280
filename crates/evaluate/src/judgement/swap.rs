//! Memory that services have in swap, where the metric does not count it.

use std::collections::HashMap;

use crate::analysis::{Finding, FindingKind, Severity};
use heaptrial_model::{Metric, units};
use heaptrial_stats::median;
use heaptrial_store::Store;

use crate::judgement::{JudgementError, Rows};

/// Swap of this share of an arm's memory is reported, and decides where arms differ by as much.
const MUCH: f64 = 0.05;

/// What the services of an arm had at their last reading.
struct Swapped {
    swap: f64,
    memory: f64,
    services: Vec<String>,
}

/// That services have memory in swap which no figure counts.
pub(crate) fn finding(store: &Store, rows: &Rows) -> Result<Option<Finding>, JudgementError> {
    if rows.trial.plan.metric == Metric::Anon {
        return Ok(None);
    }
    let latest = store.latest(rows.trial.id)?.into_iter().filter(|latest| latest.wall_us <= rows.until_us);
    let last: HashMap<i64, (f64, f64)> = latest
        .filter_map(|latest| {
            let swap = latest.swap_bytes? as f64;
            Some((latest.service_id, (swap, latest.rss_bytes? as f64 + swap)))
        })
        .collect();
    let of_arm = |id: i64| {
        let own = || rows.services.iter().filter(|service| service.arm_id == id);
        let known: Vec<(f64, f64)> = own().filter_map(|service| last.get(&service.id).copied()).collect();
        let has = |service: &&heaptrial_store::ServiceRecord| {
            last.get(&service.id).is_some_and(|(swap, memory)| *swap > MUCH * memory)
        };
        Some(Swapped {
            swap: median(&known.iter().map(|known| known.0).collect::<Vec<_>>())?,
            memory: median(&known.iter().map(|known| known.1).collect::<Vec<_>>())?,
            services: own().filter(has).map(|service| service.name.clone()).collect(),
        })
    };
    let arms: Vec<Option<Swapped>> = rows.arms.iter().map(|record| of_arm(record.id)).collect();
    let control =
        rows.arms.iter().position(|record| record.arm.control).and_then(|index| arms[index].as_ref());
    let much = |bytes: f64, arm: &Swapped| bytes > MUCH * arm.memory;
    let swapped: Vec<(usize, &Swapped)> = arms
        .iter()
        .enumerate()
        .filter_map(|(index, arm)| Some((index, arm.as_ref()?)))
        .filter(|(_, arm)| much(arm.swap, arm))
        .collect();
    let share = |arm: &Swapped| arm.swap / arm.memory.max(1.0);
    let differs = |arm: &Swapped| (share(arm) - control.map_or(0.0, share)).abs() > MUCH;
    // Where the control alone swaps, every arm looks larger than it is beside it.
    let decides = arms.iter().flatten().any(differs);
    let each = swapped.iter().map(|(index, arm)| {
        let name = &rows.arms[*index].arm.name;
        format!("{} of {} of {name}", units::memory(arm.swap), units::memory(arm.memory))
    });
    let evidence = format!(
        "at their last reading services had in swap: {} (medians); {} does not count it",
        each.collect::<Vec<_>>().join(", "),
        rows.trial.plan.metric.as_str()
    );
    let names = swapped.iter().flat_map(|(_, arm)| arm.services.iter().cloned()).collect();
    let severity = if decides { Severity::Grave } else { Severity::Caution };
    let finding = Finding::new(FindingKind::Swapped, severity, evidence).naming(names);
    Ok((!swapped.is_empty()).then(|| finding.of_arms(swapped.iter().map(|(index, _)| *index).collect())))
}
