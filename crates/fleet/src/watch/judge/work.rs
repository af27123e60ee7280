//! Work far below what it was before the watch.

use crate::rollout::LEAST_WORK;
use heaptrial_evaluate::analysis::{WorkRatio, Worked};

use crate::watch::alert::{AlertKind, Finding};
use crate::watch::plan::{WatchPlan, WatchedService};
use crate::watch::seen::{Seen, ServiceSeen};

/// Work below the limit of a rollout's gates is alerted until it is above this share again.
const MENDED: f64 = 0.6;
/// So much of the last day must be known where hours of the day are compared with their like,
const LEAST_SECONDS: f64 = 6.0 * 3600.0;
/// and so much where they are not: nights are quieter.
const LEAST_SECONDS_OF_ALL: f64 = 20.0 * 3600.0;

pub(super) fn less(plan: &WatchPlan, seen: &Seen, stands: &dyn Fn(AlertKind, &str) -> bool) -> Vec<Finding> {
    let kind = AlertKind::Work;
    let finding = |(planned, own): (&WatchedService, &ServiceSeen)| {
        let ratio = ratio(planned, own.worked.as_ref()?)?;
        let limit = if stands(kind, &own.service) { MENDED } else { LEAST_WORK };
        let hours = if ratio.same_hours { ", at the same hours of the day" } else { "" };
        let text = format!("did less than half of its former work in the last day{hours}");
        (ratio.value() < limit).then(|| Finding::new(kind, &own.service, "below", text))
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
}

/// Its work over that before; `None` where too little is known to say.
fn ratio(planned: &WatchedService, worked: &Worked) -> Option<WorkRatio> {
    let ratio = worked.over(planned.usual_work.as_ref()?)?;
    let least = if ratio.same_hours { LEAST_SECONDS } else { LEAST_SECONDS_OF_ALL };
    (worked.seconds >= least).then_some(ratio)
}
