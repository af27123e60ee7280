//! Arms that began on other days: whether memory at an equal age and at an equal time tell the same.

use heaptrial_model::units;
use heaptrial_stats::median;

use crate::analysis::age::{Ages, members as of_arm};
use crate::analysis::figures::ratio_of;
use crate::analysis::fleet::{Fleet, FleetLife, FleetService};
use crate::analysis::outcome::{ArmResult, Estimate, Finding, FindingKind, Settings, Severity};
use crate::analysis::service::level_at;

/// Arms began on other days where their starts are further apart than this share of the age at which they are compared.
const APART_SHARE: f64 = 0.1;

/// Arms whose ratio to the control is another one over the last days that both lived through, after their warm-up: what the age of
/// their services does and what the load of those days did cannot be told apart then. Which way they differ is grave.
pub(crate) fn findings(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    members: &[Vec<usize>],
    arms: &[ArmResult],
) -> Vec<Finding> {
    let (Some(control), Some(matched)) = (fleet.arms.iter().position(|arm| arm.control), ages.matched) else {
        return Vec::new();
    };
    let window = matched - settings.level_from(matched);
    let of_lives = |arm: usize, of: &dyn Fn(&FleetLife) -> Option<f64>| {
        median(&of_arm(fleet, arm).filter_map(FleetService::current).filter_map(of).collect::<Vec<_>>())
    };
    let began = |arm: usize| of_lives(arm, &|life| Some(life.started_at));
    let ended = |arm: usize| of_lives(arm, &|life| Some(life.started_at + life.last_age()?));
    let apart = |arm: usize| {
        let apart = (began(arm)? - began(control)?).abs();
        (apart > APART_SHARE * matched).then_some(apart)
    };
    let compared = |arm: &usize| *arm != control && !ages.sawtooth[*arm];
    let found = |arm: usize| {
        let apart = apart(arm)?;
        let end = ended(arm)?.min(ended(control)?);
        let level = |index: usize| {
            let service = &fleet.services[index];
            let life = service.current().filter(|life| ages.usable(service, life))?;
            let age = end - life.started_at;
            (age - window >= ages.warm_up).then(|| level_at(life, age - window, age)).flatten()
        };
        let at_that_time = ratio_of(fleet, settings, &level, &members[control], &members[arm])?.estimate;
        let figures = arms[arm].as_treated.as_ref().unwrap_or(&arms[arm].as_assigned);
        let at_that_age = figures.ratio.as_ref()?.estimate;
        let ((age_low, age_high), (time_low, time_high)) =
            (at_that_age.interval()?, at_that_time.interval()?);
        let other_way = (age_low > 1.0 && time_high < 1.0) || (age_high < 1.0 && time_low > 1.0);
        let told = |estimate: Estimate| {
            let interval = estimate.interval().map_or_else(String::new, |(low, high)| {
                format!(" ({} to {})", units::ratio(low), units::ratio(high))
            });
            format!("{}{interval}", units::ratio(estimate.value))
        };
        (time_high < age_low || age_high < time_low).then(|| Finding {
            kind: FindingKind::AgeAndTimeDisagree,
            severity: if other_way { Severity::Grave } else { Severity::Caution },
            arms: vec![arm],
            services: Vec::new(),
            evidence: format!(
                "{} and {} began {} after each other: at the same age {} has {} times what {} has, and over the same last {} it has {}",
                fleet.arms[arm].name,
                fleet.arms[control].name,
                units::duration(apart),
                fleet.arms[arm].name,
                told(at_that_age),
                fleet.arms[control].name,
                units::duration(window),
                told(at_that_time)
            ),
        })
    };
    (0..fleet.arms.len()).filter(compared).filter_map(found).collect()
}
