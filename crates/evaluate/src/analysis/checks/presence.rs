//! Services that appear, vanish or lack samples.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{KnownEvent, units};
use heaptrial_stats::median;

use super::{several, span};
use crate::analysis::fleet::{Fleet, FleetLife, FleetService};
use crate::analysis::gap::{are_of_two_kinds, distances, is_rolled_up};
use crate::analysis::outcome::{Finding, FindingKind, Severity};
use crate::analysis::service::usual_distance;

/// A service that starts late or ends early by this many usual distances between readings is told,
const MISSED_READINGS: f64 = 3.0;
/// if that is this many times longer than gaps are that a service in ten has anyway.
const GAP_FACTOR: f64 = 1.5;
const GAP_SHARE: f64 = 0.9;
/// Silence in between is told from this share of a service's time on,
const SILENT_SHARE: f64 = 0.1;
/// if as many readings are missing in a row by chance in this share of such arms at most.
const CHANCE_OF_SILENCE: f64 = 0.01;
/// A service with a smaller share of its arm's usual number of readings lacks samples,
const FEWEST_SHARE: f64 = 0.7;
/// if that is fewer by so many roots of the usual number: of few readings some are missing by chance.
const FEWER_ROOTS: f64 = 1.5;

/// First and last reading of a service, in seconds since 1970.
pub(super) fn observed(service: &FleetService) -> Option<(f64, f64)> {
    let mut lives = service.lives.iter().filter(|life| !life.readings.is_empty());
    let first = lives.next()?;
    let last = lives.next_back().unwrap_or(first);
    let at = |life: &FleetLife, age: Option<f64>| age.map(|age| life.started_at + age);
    let first_age = first.readings.first().map(|reading| f64::from(reading.age_seconds));
    Some((at(first, first_age)?, at(last, last.last_age())?))
}

/// How long a service may be silent.
pub(super) fn silence(fleet: &Fleet) -> Option<f64> {
    let lives = || fleet.services.iter().filter_map(FleetService::current);
    let usual = median(&lives().filter_map(usual_distance).collect::<Vec<_>>())?;
    let mut longest: Vec<f64> = lives().filter_map(longest_gap).collect();
    longest.sort_unstable_by(f64::total_cmp);
    // Of a few services one that has a gap is none that tells of the others.
    let longest = longest.get((GAP_SHARE * longest.len().checked_sub(1)? as f64) as usize)?;
    Some((MISSED_READINGS * usual).max(GAP_FACTOR * longest))
}

fn longest_gap(life: &FleetLife) -> Option<f64> {
    let gaps = life.readings.windows(2).map(|pair| f64::from(pair[1].age_seconds - pair[0].age_seconds));
    gaps.max_by(f64::total_cmp)
}

/// First and last reading of the services of a host, or of all where no host is named.
fn span_of(fleet: &Fleet, host: Option<&str>) -> Option<(f64, f64)> {
    let own = fleet.services.iter().filter(|service| service.host.as_deref() == host);
    let spans: Vec<(f64, f64)> = own.filter_map(observed).collect();
    let first = spans.iter().map(|span| span.0).min_by(f64::total_cmp)?;
    Some((first, spans.iter().map(|span| span.1).max_by(f64::total_cmp)?))
}

/// The hosts of a fleet with their spans.
fn hosts(fleet: &Fleet) -> BTreeMap<Option<&str>, (f64, f64)> {
    let names: BTreeSet<Option<&str>> =
        fleet.services.iter().map(|service| service.host.as_deref()).collect();
    names.into_iter().filter_map(|name| Some((name, span_of(fleet, name)?))).collect()
}

/// Hosts that were begun or ended one after the other, each as a whole.
pub(super) fn hosts_apart(fleet: &Fleet) -> Option<Finding> {
    let (first, last) = span(fleet)?;
    let silence = silence(fleet)?;
    let hosts = hosts(fleet);
    let apart: Vec<(&str, f64, f64)> = hosts
        .iter()
        .map(|(name, span)| (name.unwrap_or("the other services"), span.0 - first, last - span.1))
        .filter(|(_, late, early)| *late > silence || *early > silence)
        .collect();
    let told: Vec<String> = apart
        .iter()
        .map(|(name, late, early)| {
            let late = (*late > silence).then(|| format!("began {} after the first", units::duration(*late)));
            let early =
                (*early > silence).then(|| format!("ended {} before the last", units::duration(*early)));
            format!("{name} {}", late.into_iter().chain(early).collect::<Vec<_>>().join(" and "))
        })
        .collect();
    (!apart.is_empty()).then(|| Finding {
        kind: FindingKind::HostsApart,
        severity: Severity::Note,
        arms: Vec::new(),
        services: Vec::new(),
        evidence: format!("of the hosts, {}", told.join("; ")),
    })
}

pub(super) fn appeared(fleet: &Fleet) -> Option<Finding> {
    let (first, _) = span(fleet)?;
    let (silence, hosts) = (silence(fleet)?, hosts(fleet));
    let late = |service: &FleetService| {
        hosts.get(&service.host.as_deref()).map_or(first, |(first, _)| *first) + silence
    };
    let found: Vec<(&FleetService, f64)> = fleet
        .services
        .iter()
        .filter_map(|service| Some((service, observed(service)?.0)))
        .filter(|(service, start)| *start > late(service))
        .collect();
    let after = found.iter().map(|(_, start)| start - first);
    let (least, most) = (after.clone().fold(f64::INFINITY, f64::min), after.fold(0.0, f64::max));
    let (least, most) = (units::duration(least), units::duration(most));
    let span = if least == most { least } else { format!("{least} to {most}") };
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::Appeared,
        severity: Severity::Note,
        arms: arms_of(found.iter().map(|found| found.0)),
        services: found.iter().map(|found| found.0.name.clone()).collect(),
        evidence: format!(
            "{} first read {span} after the first reading of the fleet",
            if found.len() == 1 {
                "1 service was".to_owned()
            } else {
                format!("{} were", several(found.len()))
            }
        ),
    })
}

/// Positions of the services that were never read, or no more before the end.
pub(crate) fn gone(fleet: &Fleet) -> BTreeSet<usize> {
    let (silence, hosts) = (silence(fleet), hosts(fleet));
    let early = |service: &FleetService| {
        let last = hosts.get(&service.host.as_deref()).map(|(_, last)| *last);
        last.zip(silence).map_or(f64::NEG_INFINITY, |(last, silence)| last - silence)
    };
    let gone = |service: &FleetService| observed(service).is_none_or(|span| span.1 < early(service));
    (0..fleet.services.len()).filter(|index| gone(&fleet.services[*index])).collect()
}

pub(super) fn vanished(fleet: &Fleet) -> Option<Finding> {
    let dropped = dropped_services(fleet);
    let found: Vec<&FleetService> =
        gone(fleet).difference(&dropped).map(|index| &fleet.services[*index]).collect();
    let never = found.iter().filter(|service| observed(service).is_none()).count();
    let were = |count: usize| format!("{} {}", several(count), if count == 1 { "was" } else { "were" });
    let told = [(found.len() - never, "read no more before the end"), (never, "never read")];
    let told: Vec<String> = told
        .iter()
        .filter(|part| part.0 > 0)
        .map(|(count, what)| format!("{} {what}", were(*count)))
        .collect();
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::Vanished,
        severity: Severity::Caution,
        arms: arms_of(found.iter().copied()),
        evidence: told.join(", "),
        services: found.iter().map(|service| service.name.clone()).collect(),
    })
}

/// Services that a person took out of a running trial.
pub(super) fn dropped(fleet: &Fleet) -> Option<Finding> {
    let found: Vec<&FleetService> =
        dropped_services(fleet).into_iter().map(|index| &fleet.services[index]).collect();
    let of_arm = |arm: usize| found.iter().filter(|service| service.arms.contains(&arm)).count();
    let arms = arms_of(found.iter().copied());
    let told: Vec<String> =
        arms.iter().map(|arm| format!("{} of {}", of_arm(*arm), fleet.arms[*arm].name)).collect();
    (!found.is_empty()).then(|| Finding {
        kind: FindingKind::Dropped,
        severity: Severity::Caution,
        services: found.iter().map(|service| service.name.clone()).collect(),
        evidence: format!("dropped from the running trial by a person: {}", told.join(", ")),
        arms,
    })
}

fn dropped_services(fleet: &Fleet) -> BTreeSet<usize> {
    let dropped = fleet.events.iter().filter(|event| event.kind == KnownEvent::Dropped);
    dropped.filter_map(|event| event.service).collect()
}

pub(super) fn lacking(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (arm, members) in members.iter().enumerate() {
        let lives = || members.iter().filter_map(|index| fleet.services[*index].current());
        let rolled_up = lives().map(|life| life.rolled_up_seconds).fold(0.0, f64::max);
        let mixed = are_of_two_kinds(|| lives().flat_map(|life| distances(&life.readings)), rolled_up);
        // Readings per second of the life that stands for the service: ages differ, and how many were rolled up.
        let rate = |index: &usize| {
            let life = fleet.services[*index].current()?;
            let raw = distances(&life.readings).filter(|step| !(mixed && is_rolled_up(*step, rolled_up)));
            let (steps, time) = raw.fold((0, 0.0), |(steps, time), step| (steps + 1, time + step));
            (time > 0.0).then(|| (time, f64::from(steps) / time))
        };
        let rates: Vec<(usize, (f64, f64))> =
            members.iter().filter_map(|index| Some((*index, rate(index)?))).collect();
        let Some(usual) = median(&rates.iter().map(|(_, (_, rate))| *rate).collect::<Vec<_>>()) else {
            continue;
        };
        let lacks = |(time, rate): (f64, f64)| {
            let expected = time * usual;
            rate < FEWEST_SHARE * usual && time * rate < expected - FEWER_ROOTS * expected.sqrt()
        };
        let found: Vec<&(usize, (f64, f64))> = rates.iter().filter(|(_, of)| lacks(*of)).collect();
        if found.is_empty() {
            continue;
        }
        let least = found.iter().map(|rate| rate.1.1 / usual).fold(1.0, f64::min);
        findings.push(Finding {
            kind: FindingKind::LacksSamples,
            severity: Severity::Note,
            arms: vec![arm],
            services: found.iter().map(|rate| fleet.services[rate.0].name.clone()).collect(),
            evidence: format!(
                "{} of {} {} fewer readings than usual in the arm, down to {:.0}%",
                several(found.len()),
                fleet.arms[arm].name,
                if found.len() == 1 { "has" } else { "have" },
                100.0 * least
            ),
        });
    }
    findings
}

/// Services that were not read for long while others of their arm were: of few readings that is no lack by [`lacking`].
pub(super) fn silent(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    let longest: Vec<f64> = fleet.services.iter().map(longest_silence).collect();
    let of_arm = |(arm, members): (usize, &Vec<usize>)| {
        let own: Vec<f64> = members.iter().map(|index| longest[*index]).collect();
        let limit = by_chance(fleet, members)?.max(GAP_FACTOR * median(&own)?);
        let long = |index: &usize| {
            let lived = observed(&fleet.services[*index]).map_or(0.0, |(first, last)| last - first);
            longest[*index] > limit.max(SILENT_SHARE * lived)
        };
        let found: Vec<usize> = members.iter().copied().filter(long).collect();
        let most = found.iter().map(|index| longest[*index]).fold(0.0, f64::max);
        (!found.is_empty()).then(|| Finding {
            kind: FindingKind::LacksSamples,
            severity: Severity::Note,
            arms: vec![arm],
            services: found.iter().map(|index| fleet.services[*index].name.clone()).collect(),
            evidence: format!(
                "{} of {} {} not read for long in between, up to {}, while others of the arm were",
                several(found.len()),
                fleet.arms[arm].name,
                if found.len() == 1 { "was" } else { "were" },
                units::duration(most)
            ),
        })
    };
    members.iter().enumerate().filter_map(of_arm).collect()
}

/// How long, in seconds, a service of an arm may not be read because readings are missing one by one, as they are of a service
/// in the middle: for so many in a row that one of a hundred such arms has more.
fn by_chance(fleet: &Fleet, members: &[usize]) -> Option<f64> {
    let services: Vec<&FleetService> = members.iter().map(|index| &fleet.services[*index]).collect();
    let usual = median(
        &services.iter().filter_map(|service| usual_distance(service.current()?)).collect::<Vec<_>>(),
    )?;
    let missing = |service: &&FleetService| {
        let (first, last) = observed(service)?;
        let expected = 1.0 + (last - first) / usual;
        let readings: usize = service.lives.iter().map(|life| life.readings.len()).sum();
        Some((expected, (1.0 - readings as f64 / expected).clamp(0.0, 0.9)))
    };
    let (expected, shares): (Vec<f64>, Vec<f64>) = services.iter().filter_map(missing).unzip();
    let all = expected.iter().sum::<f64>().max(2.0);
    let share = median(&shares)?.max(1.0 / all);
    let in_a_row = (CHANCE_OF_SILENCE / all).ln() / share.ln();
    Some(usual * (1.0 + in_a_row).max(MISSED_READINGS))
}

/// The longest time between two readings of a service, in seconds.
fn longest_silence(service: &FleetService) -> f64 {
    let at = |life: &FleetLife, age: f32| life.started_at + f64::from(age);
    let times = service
        .lives
        .iter()
        .flat_map(|life| life.readings.iter().map(move |reading| at(life, reading.age_seconds)));
    let mut before = None;
    times.fold(0.0, |longest: f64, time| {
        longest.max(before.replace(time).map_or(0.0, |before: f64| time - before))
    })
}

fn arms_of<'s>(services: impl Iterator<Item = &'s FleetService>) -> Vec<usize> {
    let mut arms: Vec<usize> = services.flat_map(|service| service.arms.iter().copied()).collect();
    arms.sort_unstable();
    arms.dedup();
    arms
}
