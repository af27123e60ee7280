//! Work far below what it was before the watch.

use std::collections::BTreeMap;

use heaptrial_analysis::{WorkRatio, Worked};

use super::cause::Finding;
use crate::alert::AlertKind;
use crate::plan::{WatchPlan, WatchedService};
use crate::seen::{Seen, ServiceSeen};
use crate::state::Standing;

/// Less than this share of the work before is told, as gates of a rollout have it,
const LEAST: f64 = 0.5;
/// until it is more than this one again.
const MENDED: f64 = 0.6;
/// So much of the last day must be known where hours of the day are compared with their like,
const LEAST_SECONDS: f64 = 6.0 * 3600.0;
/// and so much where they are not: nights are quieter.
const LEAST_SECONDS_OF_ALL: f64 = 20.0 * 3600.0;
/// What the findings have in common.
const BELOW: &str = "below";

pub(super) fn less(plan: &WatchPlan, seen: &Seen, before: &BTreeMap<String, Standing>) -> Vec<Finding> {
    let kind = AlertKind::Work;
    let told = |service: &str| {
        let mut alerts = before.values().map(|standing| &standing.alert).filter(|alert| alert.kind == kind);
        alerts.any(|alert| alert.about().any(|own| own == service))
    };
    let finding = |(planned, own): (&WatchedService, &ServiceSeen)| {
        let ratio = ratio(planned, own.worked.as_ref()?)?;
        let limit = if told(&own.service) { MENDED } else { LEAST };
        (ratio.value() < limit).then(|| Finding {
            kind,
            service: own.service.clone(),
            cause: BELOW.to_owned(),
            key: own.service.clone(),
            state: BELOW.to_owned(),
            text: (
                "",
                match ratio.same_hours {
                    true => {
                        " did less than half of its former work in the last day, at the same hours of the day"
                            .to_owned()
                    }
                    false => " did less than half of its former work in the last day".to_owned(),
                },
            ),
        })
    };
    plan.services.iter().zip(&seen.services).filter_map(finding).collect()
}

/// Its work over that before; `None` where too little is known to say.
fn ratio(planned: &WatchedService, worked: &Worked) -> Option<WorkRatio> {
    let ratio = worked.over(planned.usual_work.as_ref()?)?;
    let least = if ratio.same_hours { LEAST_SECONDS } else { LEAST_SECONDS_OF_ALL };
    (worked.seconds >= least).then_some(ratio)
}
