//! A look: the verdict tested on fresh data, at a time that was fixed when the watch began.

use heaptrial_analysis::{DAY, Fleet, FleetService};
use heaptrial_model::units;
use serde::{Deserialize, Serialize};

use super::{growth, level, memory};
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::schedule::{look_days, look_errors};
use crate::seen::Seen;

/// The key of an alert on a look without data.
pub(crate) const NO_LOOK: &str = "no_data:look";
/// Ages are exact to a quarter of a second.
const ROUNDING_SECONDS: f64 = 1.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookResult {
    pub number: u32,
    /// Days after the start of the watch.
    pub day: f64,
    /// Services whose level was compared with the forecast.
    pub levels: u32,
    pub services: u32,
    /// Mean level over the expected one.
    pub level_ratio: Option<f64>,
    /// Growth a day beyond what the trial showed: estimate and interval.
    pub growth_per_day: Option<(f64, f64, f64)>,
    /// What could not be tested, and why.
    pub untested: Vec<String>,
    pub alerts: Vec<Alert>,
}

/// Takes look `number` on the data up to its time; `before` are the alerts of the look before. Less than half of the services
/// with a level is no look: an alert tells that there are no data.
///
/// What was alerted before is over where the estimate is back, and not where a look fails to show it again. What this look could not
/// test stands on as it is.
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

/// When services were read last, in seconds since 1970.
pub(crate) fn read_last(fleet: &Fleet) -> Option<f64> {
    let lives = fleet.services.iter().filter_map(FleetService::current);
    lives.filter_map(|life| Some(life.started_at + life.last_age()?)).max_by(f64::total_cmp)
}

/// Whether look `number` waits for a reading at its time or later. A clock that is ahead for the moment would have all looks taken,
/// without data.
pub(crate) fn waits(plan: &WatchPlan, number: u32, last: Option<f64>) -> bool {
    let day = look_days(plan.days).get(number as usize - 1).copied();
    day.is_some_and(|day| last.is_none_or(|last| last < plan.started_at + day * DAY - ROUNDING_SECONDS))
}

/// Tells that look `number` waits, once nothing was read for so long that this is told at all.
pub(crate) fn waiting(plan: &WatchPlan, number: u32, last: Option<f64>, now: f64) -> Option<Alert> {
    let day = look_days(plan.days).get(number as usize - 1).copied()?;
    let at = plan.started_at + day * DAY;
    if last.is_some_and(|last| now - last <= plan.limits.no_data_seconds) {
        return None;
    }
    let since = last.map_or("nothing was read since the watch began".to_owned(), |last| {
        format!("the last reading is of {} before", units::duration(at - last))
    });
    Some(no_look(day, format!("no data: the look of day {day} waits for readings: {since}")))
}

fn too_little(day: f64, levels: usize, of: usize, missing: &[(String, String)]) -> Alert {
    let first = missing.first().map_or(String::new(), |(service, why)| format!("; {service}: {why}"));
    no_look(
        day,
        format!(
            "no data: the look of day {day} could compare {levels} of {}{first}",
            units::counted(of, "service")
        ),
    )
}

fn no_look(day: f64, text: String) -> Alert {
    Alert {
        key: NO_LOOK.to_owned(),
        kind: AlertKind::NoData,
        state: format!("day {day}"),
        service: None,
        services: Vec::new(),
        text,
        advice: "`systemctl status heaptrial-agent.service` tells whether it samples; the next look is taken all the same"
            .to_owned(),
    }
}
