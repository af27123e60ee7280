//! Services that vanish, were dropped, or lack readings.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{KnownEvent, units};
use heaptrial_stats::median;

use super::several;
use crate::analysis::fleet::{Fleet, FleetLife, FleetService};
use crate::analysis::gap::{distances, longest_distance};
use crate::analysis::outcome::{Finding, FindingKind, Severity};
use crate::analysis::service::usual_distance;

/// A service that was read on a smaller share of the usual occasions, in proportion to its arm, lacks readings,
const FEWEST_SHARE: f64 = 0.7;
/// if more are missing by so many roots of all: of few readings some are missing by chance.
const MORE_ROOTS: f64 = 1.5;
/// A gap is named from this share of a service's time on.
const SILENT_SHARE: f64 = 0.1;

/// First and last reading of a service, in seconds since 1970.
pub(super) fn observed(service: &FleetService) -> Option<(f64, f64)> {
    let mut lives = service.lives.iter().filter(|life| !life.readings.is_empty());
    let first = lives.next()?;
    let last = lives.next_back().unwrap_or(first);
    let began = first.started_at + f64::from(first.readings.first()?.age_seconds);
    Some((began, last.started_at + last.last_age()?))
}

/// The longest distance between readings that is no gap: usual over the services of the fleet.
fn longest(fleet: &Fleet) -> Option<f64> {
    let lives = fleet.services.iter().filter_map(FleetService::current);
    let of_life = |life: &FleetLife| Some(longest_distance(usual_distance(life)?, life.rolled_up_seconds));
    median(&lives.filter_map(of_life).collect::<Vec<_>>())
}

/// Positions of the services that were never read, or no more before the last reading of their host.
pub(crate) fn gone(fleet: &Fleet) -> BTreeSet<usize> {
    let mut ends: BTreeMap<Option<&str>, f64> = BTreeMap::new();
    for service in &fleet.services {
        let Some((_, last)) = observed(service) else { continue };
        let end = ends.entry(service.host.as_deref()).or_insert(last);
        *end = end.max(last);
    }
    let longest = longest(fleet).unwrap_or(f64::INFINITY);
    let gone = |service: &FleetService| {
        observed(service).is_none_or(|(_, last)| last < ends[&service.host.as_deref()] - longest)
    };
    (0..fleet.services.len()).filter(|index| gone(&fleet.services[*index])).collect()
}

pub(super) fn vanished(fleet: &Fleet) -> Option<Finding> {
    let dropped = dropped_services(fleet);
    let found: Vec<&FleetService> =
        gone(fleet).difference(&dropped).map(|index| &fleet.services[*index]).collect();
    let never = found.iter().filter(|service| observed(service).is_none()).count();
    let were = |count: usize| format!("{} {}", several(count), if count == 1 { "was" } else { "were" });
    let parts = [(found.len() - never, "read no more before the end"), (never, "never read")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|part| part.0 > 0)
        .map(|(count, what)| format!("{} {what}", were(*count)))
        .collect();
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::Vanished,
        severity: Severity::Caution,
        arms: arms_of(&found),
        evidence: parts.join(", "),
        services: found.iter().map(|service| service.name.clone()).collect(),
    })
}

/// Services that a person took out of a running trial.
pub(super) fn dropped(fleet: &Fleet) -> Option<Finding> {
    let found: Vec<&FleetService> =
        dropped_services(fleet).into_iter().map(|index| &fleet.services[index]).collect();
    let of_arm = |arm: usize| found.iter().filter(|service| service.arms.contains(&arm)).count();
    let arms = arms_of(&found);
    let counts: Vec<String> =
        arms.iter().map(|arm| format!("{} of {}", of_arm(*arm), fleet.arms[*arm].name)).collect();
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::Dropped,
        severity: Severity::Caution,
        services: found.iter().map(|service| service.name.clone()).collect(),
        evidence: format!("dropped from the running trial by a person: {}", counts.join(", ")),
        arms,
    })
}

fn dropped_services(fleet: &Fleet) -> BTreeSet<usize> {
    let dropped = fleet.events.iter().filter(|event| event.kind == KnownEvent::Dropped);
    dropped.filter_map(|event| event.service).collect()
}

fn arms_of(services: &[&FleetService]) -> Vec<usize> {
    let arms: BTreeSet<usize> = services.iter().flat_map(|service| service.arms.iter().copied()).collect();
    arms.into_iter().collect()
}

/// The readings of the life that stands for a service.
struct Coverage {
    service: usize,
    /// Occasions on which it would usually have been read.
    expected: f64,
    /// Occasions on which it was not.
    missing: f64,
    /// The longest gap in seconds, if it is a tenth of the time or more.
    gap: Option<f64>,
}

impl Coverage {
    fn share(&self) -> f64 {
        1.0 - self.missing / self.expected
    }
}

/// Arms with services that were read less often than the others, or not for long.
pub(super) fn lacking(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    members.iter().enumerate().filter_map(|(arm, members)| of_arm(fleet, arm, members)).collect()
}

fn of_arm(fleet: &Fleet, arm: usize, members: &[usize]) -> Option<Finding> {
    let lives: Vec<(usize, &FleetLife)> =
        members.iter().filter_map(|index| Some((*index, fleet.services[*index].current()?))).collect();
    let middle = |life: &FleetLife| median(&distances(&life.readings).collect::<Vec<_>>());
    let usual = median(&lives.iter().filter_map(|(_, life)| middle(life)).collect::<Vec<_>>())?;
    let of_life = |(service, life): &(usize, &FleetLife)| {
        let step = usual.max(life.rolled_up_seconds);
        let time: f64 = distances(&life.readings).sum();
        let missing =
            distances(&life.readings).map(|distance| ((distance / step).round() - 1.0).max(0.0)).sum();
        let least = longest_distance(usual_distance(life)?, life.rolled_up_seconds).max(SILENT_SHARE * time);
        let gap = distances(&life.readings).max_by(f64::total_cmp).filter(|gap| *gap > least);
        Some(Coverage { service: *service, expected: (time / step).max(1.0), missing, gap })
    };
    let all: Vec<Coverage> = lives.iter().filter_map(of_life).collect();
    let share = median(&all.iter().map(Coverage::share).collect::<Vec<_>>())?;
    let lacks = |of: &&Coverage| {
        let usually_missing = (1.0 - share) * of.expected;
        of.gap.is_some()
            || of.share() < FEWEST_SHARE * share
                && of.missing > usually_missing + MORE_ROOTS * of.expected.sqrt()
    };
    let found: Vec<&Coverage> = all.iter().filter(lacks).collect();
    let least = found.iter().map(|of| of.share()).min_by(f64::total_cmp)?;
    let gap = match found.iter().filter_map(|of| of.gap).max_by(f64::total_cmp) {
        Some(gap) => format!("; the longest gap is {}", units::duration(gap)),
        None => String::new(),
    };
    Some(Finding {
        kind: FindingKind::LacksSamples,
        // Few of an arm say little about it.
        severity: if 2 * found.len() > members.len() { Severity::Caution } else { Severity::Note },
        arms: vec![arm],
        services: found.iter().map(|of| fleet.services[of.service].name.clone()).collect(),
        evidence: format!(
            "{} of {} {} missing readings: at least {:.0}% of the usual ones are there, usually one each {}{gap}",
            several(found.len()),
            fleet.arms[arm].name,
            if found.len() == 1 { "has" } else { "have" },
            100.0 * least,
            units::duration(usual)
        ),
    })
}
