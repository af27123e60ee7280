//! Services whose readings end early, or are too few.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{KnownEvent, units};
use heaptrial_stats::median;

use crate::analysis::fleet::{Fleet, FleetLife, FleetService};
use crate::analysis::gap::{distances, longest_distance};
use crate::analysis::outcome::{Finding, FindingKind, Severity};
use crate::analysis::service::usual_distance;
use crate::analysis::thresholds::SILENT_SHARE;

/// A service that was read on a smaller share of the usual occasions, in proportion to its arm, lacks readings,
const FEWEST_SHARE: f64 = 0.7;
/// if more are missing by so many roots of all: of few readings some are missing by chance.
const MORE_ROOTS: f64 = 1.5;

/// First and last reading of a service, in seconds since 1970.
pub(super) fn observed(service: &FleetService) -> Option<(f64, f64)> {
    let mut lives = service.lives.iter().filter(|life| !life.readings.is_empty());
    let first = lives.next()?;
    let last = lives.next_back().unwrap_or(first);
    let began = first.started_at + f64::from(first.readings.first()?.age_seconds);
    Some((began, last.last_at()?))
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
    let found: Vec<usize> = gone(fleet).difference(&dropped_services(fleet)).copied().collect();
    let never = found.iter().filter(|index| observed(&fleet.services[**index]).is_none()).count();
    let parts = [(found.len() - never, "read no more before the end"), (never, "never read")];
    let part = |(count, what): &(usize, &str)| {
        let verb = if *count == 1 { "was" } else { "were" };
        format!("{} {verb} {what}", units::counted(*count, "service"))
    };
    let parts: Vec<String> = parts.iter().filter(|part| part.0 > 0).map(part).collect();
    ended_early(fleet, &found, parts.join(", "))
}

/// Services that a person took out of a running trial.
pub(super) fn dropped(fleet: &Fleet) -> Option<Finding> {
    let found: Vec<usize> = dropped_services(fleet).into_iter().collect();
    let of_arm =
        |arm: usize| found.iter().filter(|index| fleet.services[**index].arms.contains(&arm)).count();
    let counts =
        fleet.arms_of(&found).into_iter().map(|arm| format!("{} of {}", of_arm(arm), fleet.arms[arm].name));
    let counts = counts.collect::<Vec<_>>().join(", ");
    ended_early(fleet, &found, format!("dropped from the running trial by a person: {counts}"))
}

fn dropped_services(fleet: &Fleet) -> BTreeSet<usize> {
    let dropped = fleet.events.iter().filter(|event| event.kind == KnownEvent::Dropped);
    dropped.filter_map(|event| event.service).collect()
}

fn ended_early(fleet: &Fleet, found: &[usize], evidence: String) -> Option<Finding> {
    let finding = Finding::new(FindingKind::EndsEarly, Severity::Caution, evidence);
    (!found.is_empty()).then(|| finding.of_arms(fleet.arms_of(found)).naming(fleet.names(found)))
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
    let evidence = format!(
        "{} of {} {} missing readings: at least {:.0}% of the usual ones are there, usually one each {}{gap}",
        units::counted(found.len(), "service"),
        fleet.arms[arm].name,
        if found.len() == 1 { "has" } else { "have" },
        100.0 * least,
        units::duration(usual)
    );
    // Few of an arm say little about it.
    let severity = if 2 * found.len() > members.len() { Severity::Caution } else { Severity::Note };
    let names = found.iter().map(|of| fleet.services[of.service].name.clone()).collect();
    Some(Finding::new(FindingKind::LacksSamples, severity, evidence).of_arm(arm).naming(names))
}
