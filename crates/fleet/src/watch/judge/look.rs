//! A look: levels and growth on fresh data, at a time that was fixed when the watch began.
//!
//! Levels are judged as the gates of a rollout judge them, and growth as a report does.

use std::collections::{BTreeMap, BTreeSet};

use crate::rollout::{Above, Level, judge_memory, median_from};
use heaptrial_evaluate::analysis::{DAY, Estimate, Fleet, FleetService, Settings, Verdict, analyse};
use heaptrial_model::units;
use heaptrial_stats::geometric_mean;
use serde::{Deserialize, Serialize};

use crate::watch::alert::{AlertKind, Finding};
use crate::watch::plan::{ERROR, WatchPlan};
use crate::watch::schedule::{look_days, look_errors};

/// Readings begin so much of a window late at most, as after a gap at the start of the watch.
const BEGINS_LATE: f64 = 0.5;
/// Readings end so much of a window before the look at most.
const ENDS_EARLY: f64 = 0.25;
/// Ages are exact to a quarter of a second.
const ROUNDING_SECONDS: f64 = 1.0;
/// Growth is judged from so many days after warm-up on: load has a trajectory of its own within a few days.
const GROWTH_DAYS: f64 = 7.0;
/// The word of a look in the place of a service.
const LOOK: &str = "look";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookResult {
    pub number: u32,
    /// Days after the start of the watch.
    pub day: f64,
    pub levels: u32,
    pub services: u32,
    pub level_ratio: Option<f64>,
    /// Growth a day by arm, as a share.
    pub growth_per_day: BTreeMap<String, Estimate>,
    pub untested: Vec<String>,
    pub findings: Vec<Finding>,
}

/// Takes look `number` on the data up to its time; `before` is what the look before found. What this look cannot test keeps its state.
pub fn look(plan: &WatchPlan, fleet: &Fleet, number: u32, before: &[Finding]) -> Option<LookResult> {
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    let day = *look_days(plan.days).get(index)?;
    let at = plan.started_at + day * DAY;
    let mut fleet = fleet.clone();
    fleet.until(at);
    let (levels, missing) = levels(plan, &fleet, at);
    let mut findings = above(&levels, look_errors(plan.days, ERROR / 2.0)[index]);
    let (grows, growth_per_day) = growth(plan, &fleet);
    findings.extend(grows);
    let services = fleet.services.len();
    if 2 * levels.len() < services {
        let of = units::counted(services, "service");
        let text = format!("the look of day {day} could compare {} of {of}", levels.len());
        findings.push(Finding::new(AlertKind::NoData, LOOK, format!("day {day}"), text));
    }
    let is_untested = |finding: &&Finding| match finding.kind {
        AlertKind::Level => missing.iter().any(|(service, _)| *service == finding.service),
        AlertKind::Growth => growth_per_day.is_empty(),
        _ => false,
    };
    findings.extend(before.iter().filter(is_untested).cloned());
    let ratios: Vec<f64> = levels.iter().map(|level| level.bytes / level.expected.bytes).collect();
    Some(LookResult {
        number,
        day,
        levels: levels.len() as u32,
        services: services as u32,
        level_ratio: geometric_mean(&ratios),
        untested: missing.iter().map(|(service, why)| format!("level of {service}: {why}")).collect(),
        growth_per_day,
        findings,
    })
}

/// Whether there is a reading at the time of look `number` or later.
pub(crate) fn is_read(plan: &WatchPlan, number: u32, fleet: &Fleet) -> bool {
    let Some(day) = look_days(plan.days).get(number as usize - 1).copied() else { return false };
    let lives = fleet.services.iter().filter_map(FleetService::current);
    let last = lives.filter_map(|life| Some(life.started_at + life.last_age()?)).max_by(f64::total_cmp);
    last.is_some_and(|last| last >= plan.started_at + day * DAY - ROUNDING_SECONDS)
}

/// The levels of services at a time, and of those without one the reason.
fn levels(plan: &WatchPlan, fleet: &Fleet, at: f64) -> (Vec<Level>, Vec<(String, String)>) {
    let (mut levels, mut missing) = (Vec::new(), Vec::new());
    for service in &fleet.services {
        match level(plan, fleet, service, at) {
            Ok(level) => levels.push(level),
            Err(why) => missing.push((service.name.clone(), why)),
        }
    }
    (levels, missing)
}

fn level(plan: &WatchPlan, fleet: &Fleet, service: &FleetService, at: f64) -> Result<Level, String> {
    let name = &service.name;
    let planned = plan.services.iter().find(|planned| planned.service.as_str() == name);
    let before = planned.and_then(|planned| planned.bytes).ok_or("its memory before is not known")?;
    let stratum = plan.strata.iter().find(|stratum| stratum.services.iter().any(|own| own.as_str() == name));
    let stratum = stratum.ok_or("it is in no stratum")?;
    let life = service.current().ok_or("no readings")?;
    if let Some(why) = &life.contamination {
        return Err(format!("it does not run its treatment: {why}"));
    }
    if fleet.identities_proved && !life.proved {
        return Err("what it runs is not proved".to_owned());
    }
    let (age, first) = life.last_age().zip(life.readings.first()).ok_or("no readings")?;
    let quiet = at - life.started_at - age;
    let window = stratum.ratio.as_ref().map_or(DAY, |ratio| ratio.window_seconds()).min(age / 2.0);
    if quiet > ENDS_EARLY * window {
        return Err(format!("its last reading was {} before", units::duration(quiet)));
    }
    let is_covered = f64::from(first.age_seconds) <= age - window + BEGINS_LATE * window;
    let bytes = match &stratum.ratio {
        Some(ratio) => ratio.level_of(life, age),
        None => median_from(&life.readings, age - window),
    };
    let bytes = bytes.filter(|_| is_covered);
    let bytes = bytes.ok_or_else(|| format!("its readings do not cover {}", units::duration(window)))?;
    Level::of(name, stratum, before, (bytes, age))
        .ok_or_else(|| format!("it is {} old, and nothing is known of that age", units::duration(age)))
}

/// Services that use more than their limit, and those of strata that do together.
fn above(levels: &[Level], error: f64) -> Vec<Finding> {
    let (services, strata) = judge_memory(levels, error);
    let single = services.into_iter().map(|Above { level, limit_bytes }| {
        let text = format!(
            "uses {}; {} is expected, and the limit is {}",
            units::memory(level.bytes),
            units::memory(level.expected.bytes),
            units::memory(limit_bytes)
        );
        Finding::new(AlertKind::Level, &level.service, "above", text)
    });
    let strata = strata.into_iter().filter(|together| together.is_above());
    let together = strata.flat_map(|together| {
        let text = format!(
            "{} use {:.2} of what is expected together (geometric mean)",
            units::counted(together.levels.len(), "service"),
            together.ratio
        );
        let more = together.levels.into_iter().filter(|level| level.bytes > level.expected.bytes);
        more.map(move |level| Finding::new(AlertKind::Level, &level.service, "above", &text))
    });
    single.chain(together).collect()
}

/// Services of arms that grow or bloat by the verdict of the analysis, and by more than was known of them before.
fn growth(plan: &WatchPlan, fleet: &Fleet) -> (Vec<Finding>, BTreeMap<String, Estimate>) {
    let settings = Settings::default();
    let analysis = analyse(fleet, &settings);
    let known = plan.strata.iter().filter_map(|stratum| stratum.ratio.as_ref());
    let known = known.map(|ratio| ratio.shown_growth()).fold(0.0, f64::max);
    let (mut findings, mut per_day) = (Vec::new(), BTreeMap::new());
    for (arm, result) in analysis.arms.iter().enumerate() {
        let growth = result.growth.as_ref().filter(|growth| growth.days >= GROWTH_DAYS);
        let Some((share, low)) =
            growth.and_then(|growth| Some((growth.share_per_day, growth.share_per_day.low?)))
        else {
            continue;
        };
        per_day.insert(fleet.arms[arm].name.clone(), share);
        if low <= known || share.value <= known + settings.stable_margin_per_day {
            continue;
        }
        let (state, full) = match &result.verdict {
            Some(Verdict::Growing { .. }) => ("growing", None),
            Some(Verdict::Bloating { days_until_full, .. }) => ("bloating", Some(days_until_full.value)),
            Some(Verdict::SomeBloat { days_until_full, .. }) => ("bloating", *days_until_full),
            _ => continue,
        };
        let full = full.map_or(String::new(), |days| format!("; memory is full in {days:.0} days"));
        let text =
            format!("grow by {} a day (at least {}){full}", units::share(share.value), units::share(low));
        let own = fleet.services.iter().filter(|service| service.arms.contains(&arm));
        let names: BTreeSet<&str> = own.map(|service| service.name.as_str()).collect();
        findings.extend(names.into_iter().map(|name| Finding::new(AlertKind::Growth, name, state, &text)));
    }
    (findings, per_day)
}
