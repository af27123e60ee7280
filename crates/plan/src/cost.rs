//! What the restarts of a trial cost.

use std::collections::BTreeMap;

use heaptrial_model::{DrawnPlan, ServiceName};
use serde::Serialize;

use crate::Candidate;

/// An estimate of what starting the trial takes. Reverting it takes as much again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestartCost {
    pub restarts: usize,
    /// From the first stop to the last service committed.
    pub total_seconds: f64,
    /// Time in which some service is down, summed over services.
    pub downtime_seconds: f64,
    /// Services that are down at the same time, at most.
    pub at_once: u32,
    /// Further restarts by `restart_every` until the end, over all services.
    pub timer_restarts: u64,
}

/// Estimates the restarts of a plan by going through them: the next service is restarted `pause` after the one before
/// it at the earliest, when fewer than `at_once` are under way, and none of its family.
pub fn restart_cost(plan: &DrawnPlan, candidates: &[Candidate]) -> RestartCost {
    let known: BTreeMap<(&str, &ServiceName), f64> = candidates
        .iter()
        .map(|candidate| ((candidate.host.as_str(), &candidate.service), candidate.restart_seconds))
        .collect();
    let pause = plan.pace.pause.0.as_secs_f64();
    let settle = plan.pace.settle.0.as_secs_f64();
    let at_once = plan.pace.at_once.max(1);
    let mut under_way: Vec<f64> = Vec::new();
    let mut family_free: BTreeMap<&str, f64> = BTreeMap::new();
    let (mut started, mut ended, mut downtime) = (f64::NEG_INFINITY, 0.0_f64, 0.0);
    for assignment in &plan.services {
        let seconds = known.get(&(assignment.host.as_str(), &assignment.service)).copied().unwrap_or(0.0);
        let mut start = (started + pause).max(0.0);
        under_way.sort_by(f64::total_cmp);
        if under_way.len() >= at_once as usize {
            start = start.max(under_way.remove(0));
        }
        if let Some(family) = assignment.family.as_deref() {
            start = start.max(family_free.get(family).copied().unwrap_or(0.0));
        }
        let end = start + seconds + settle;
        if let Some(family) = assignment.family.as_deref() {
            family_free.insert(family, end);
        }
        under_way.push(end);
        (started, ended) = (start, ended.max(end));
        downtime += seconds;
    }
    RestartCost {
        restarts: plan.services.len(),
        total_seconds: ended,
        downtime_seconds: downtime,
        at_once,
        timer_restarts: timer_restarts(plan),
    }
}

fn timer_restarts(plan: &DrawnPlan) -> u64 {
    let of_arm = |arm: &heaptrial_model::Arm| {
        let every = arm.treatment.restart_every?.0.as_millis().max(1);
        // The one at the very end is not made.
        let each = plan.duration.0.as_millis().saturating_sub(1) / every;
        let services = plan.services.iter().filter(|assignment| assignment.arm == arm.name).count();
        Some(each as u64 * services as u64)
    };
    plan.arms.iter().filter_map(of_arm).sum()
}
