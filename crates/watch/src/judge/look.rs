//! A look: the verdict tested on fresh data, at a time that was fixed when the watch began.

use heaptrial_analysis::{DAY, Fleet};
use heaptrial_model::units;
use serde::{Deserialize, Serialize};

use super::{growth, level, memory};
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::schedule::{look_days, look_errors};
use crate::seen::Seen;

/// What a look found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookResult {
    /// Counted from 1.
    pub number: u32,
    /// Days after the start of the watch.
    pub day: f64,
    /// Services whose level was compared with the forecast.
    pub levels: u32,
    /// Services of the watch.
    pub services: u32,
    /// Mean level over the expected one.
    pub level_ratio: Option<f64>,
    /// Growth a day beyond what the trial showed: estimate and interval.
    pub growth_per_day: Option<(f64, f64, f64)>,
    /// What could not be tested, and why.
    pub untested: Vec<String>,
    /// What it alerts.
    pub alerts: Vec<Alert>,
}

/// Takes look `number` on the data up to its time; `before` are the alerts of the look before. Less than half of the services
/// with a level is no look: an alert tells that there are no data.
///
/// What was alerted before is over where the estimate is back, and not where a look fails to show it again: the forecast knows
/// less the older services are. What this look could not test stands on as it is.
pub fn look(
    plan: &WatchPlan,
    fleet: &Fleet,
    seen: &Seen,
    number: u32,
    before: &[Alert],
) -> Option<LookResult> {
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    let day = *look_days(plan.days).get(index)?;
    let at = plan.started_at + day * DAY;
    let mut fleet = fleet.clone();
    fleet.until(at);
    let error = |all: f64| look_errors(plan.days, all)[index];
    let (levels, missing) = level::levels(plan, &fleet, at);
    let excess = growth::excess(plan, &fleet, error(plan.limits.growth_error()));
    let mut untested: Vec<String> =
        missing.iter().map(|(service, why)| format!("level of {service}: {why}")).collect();
    if excess.is_none() {
        untested.push("growth: it takes 2 services with 4 whole windows".to_owned());
    }
    let mut alerts = Vec::new();
    let too_few = 2 * levels.len() < fleet.services.len();
    if too_few {
        alerts.push(too_little(day, levels.len(), fleet.services.len(), &missing));
    } else {
        alerts.extend(level::alerts(plan, &levels, error(plan.limits.level_error()), before));
    }
    if let Some(excess) = &excess {
        alerts.extend(growth::alert(plan, excess, before));
        alerts.extend(memory::running_out(plan, &levels, excess, seen, before));
    }
    let untestable = |alert: &&Alert| match alert.kind {
        AlertKind::Level => too_few || missing.iter().any(|(name, _)| alert.service.as_ref() == Some(name)),
        AlertKind::Growth | AlertKind::Memory => excess.is_none(),
        _ => false,
    };
    alerts.extend(before.iter().filter(untestable).cloned());
    Some(LookResult {
        number,
        day,
        levels: levels.len() as u32,
        services: fleet.services.len() as u32,
        level_ratio: level::mean_ratio(&levels),
        growth_per_day: excess.map(|excess| (excess.value, excess.low, excess.high)),
        untested,
        alerts,
    })
}

fn too_little(day: f64, levels: usize, of: usize, missing: &[(String, String)]) -> Alert {
    let first = missing.first().map_or(String::new(), |(service, why)| format!("; {service}: {why}"));
    Alert {
        key: "no_data:look".to_owned(),
        kind: AlertKind::NoData,
        state: format!("day {day}"),
        service: None,
        services: Vec::new(),
        text: format!(
            "no data: the look of day {day} could compare {levels} of {}{first}",
            units::counted(of, "service")
        ),
        advice: "`systemctl status heaptrial-agent.service` tells whether it samples; the next look is taken all the same"
            .to_owned(),
    }
}
