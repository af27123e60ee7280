//! What services do beside using memory: an arm that saves memory by doing less has saved nothing.

use heaptrial_model::units;
use heaptrial_stats::{fisher_fewer, geometric_mean, median};
use serde::{Deserialize, Serialize};

use crate::age::Ages;
use crate::figures;
use crate::fleet::{Fleet, FleetService};
use crate::outcome::{ArmResult, Finding, FindingKind, RatioToControl, ServiceResult, Settings, Severity};

/// Work below this share of the control's is told, if its interval lies below 1.
const LESS_WORK: f64 = 0.9;
/// A rate needs readings over this share of its window.
const COVERED_SHARE: f64 = 0.5;
/// A service that does nothing still has a ratio.
const LEAST_RATE: f64 = 1.0;
/// An exact test up to this p-value is no accident.
const ALPHA: f64 = 0.05;
/// A flag that this much smaller a share has is told even where the test cannot show it.
const SHARE_LOST: f64 = 0.5;

/// What a life did, by age in seconds. Counters begin with the life.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// Bytes read and written.
    pub bytes: Vec<(f32, f64)>,
    /// Open connections.
    pub connections: Vec<(f32, f64)>,
    /// Bytes that the program's own out-of-memory handler freed: ages at which they rose.
    pub oom_bytes: Vec<(f32, f64)>,
    /// Flags of its network.
    pub flags: Vec<Flag>,
}

/// A flag that a service may have, such as Tor's `Guard`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// Its name.
    pub name: String,
    /// Ages at which it was given (true) or taken away, the first reading among them.
    pub changes: Vec<(f32, bool)>,
}

/// The work of an arm, without strangers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmWork {
    /// Services with a rate.
    pub services: u32,
    /// Bytes read and written a second: geometric mean over services.
    pub bytes_per_second: Option<f64>,
    /// The same over that of the control.
    pub ratio: Option<RatioToControl>,
    /// Bytes of memory for each MB/s (10^6 bytes read and written a second): geometric mean over services.
    pub memory_per_mb_per_second: Option<f64>,
    /// Open connections: median over services.
    pub connections: Option<f64>,
    /// Services whose own out-of-memory handler freed memory.
    pub oom_services: u32,
    /// What it freed, all services together, in bytes.
    pub oom_bytes: f64,
    /// Who has which flag at the last reading.
    pub flags: Vec<FlagCount>,
}

/// How many services have a flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlagCount {
    /// The flag.
    pub name: String,
    /// Services that have it.
    pub with: u32,
    /// Services of which it is known.
    pub of: u32,
}

impl Work {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
            && self.connections.is_empty()
            && self.oom_bytes.is_empty()
            && self.flags.is_empty()
    }

    /// Leaves out what came after an age.
    pub(crate) fn until(&mut self, age: f32) {
        for series in [&mut self.bytes, &mut self.connections, &mut self.oom_bytes] {
            series.truncate(series.partition_point(|point| point.0 <= age));
        }
        for flag in &mut self.flags {
            flag.changes.truncate(flag.changes.partition_point(|change| change.0 <= age));
        }
        self.flags.retain(|flag| !flag.changes.is_empty());
    }
}

/// Bytes read and written a second by a service, over the time over which its memory is compared.
pub(crate) fn rate(service: &FleetService, ages: &Ages, settings: &Settings) -> Option<f64> {
    let (done, seconds) = if let Some(from) = ages.average_from {
        let lives = service.lives.iter().filter(|life| life.age_known());
        lives
            .filter_map(|life| increase(&life.work.bytes, (from - life.started_at).max(0.0), f64::INFINITY))
            .fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    } else {
        let life = service.current().filter(|life| ages.reached(life))?;
        let (from, to) = window(ages, settings)?;
        // The first reading is seldom at the very beginning of the window.
        increase(&life.work.bytes, from, to).filter(|own| own.1 >= COVERED_SHARE * (to - from))?
    };
    (seconds > 0.0).then(|| (done / seconds).max(LEAST_RATE))
}

/// The ages over which a service's level is taken.
fn window(ages: &Ages, settings: &Settings) -> Option<(f64, f64)> {
    let to = ages.matched?;
    Some((to - settings.window_seconds.min(to / 2.0), to * 1.01))
}

/// By how much a counter rose between two ages, and over how many seconds. A counter that falls began anew.
fn increase(counter: &[(f32, f64)], from: f64, to: f64) -> Option<(f64, f64)> {
    let first = counter.partition_point(|point| f64::from(point.0) < from);
    let last = counter.partition_point(|point| f64::from(point.0) <= to);
    let inside = counter.get(first..last).filter(|points| points.len() >= 2)?;
    let risen = inside.windows(2).map(|pair| (pair[1].1 - pair[0].1).max(0.0)).sum();
    Some((risen, f64::from(inside[inside.len() - 1].0 - inside[0].0)))
}

/// The work of each arm over `members` (positions of services by arm).
pub(crate) fn of_arms(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[Vec<usize>],
) -> Vec<Option<ArmWork>> {
    let control = fleet.arms.iter().position(|arm| arm.control);
    let value: figures::Value = |service| service.work_bytes_per_second;
    let arm = |(arm, own): (usize, &Vec<usize>)| {
        let known = own.iter().any(|index| fleet.services[*index].lives.iter().any(|l| !l.work.is_empty()));
        if !known || fleet.arms[arm].earlier_list_of.is_some() {
            return None;
        }
        let compared = control.filter(|control| *control != arm);
        let ratio = compared
            .and_then(|control| figures::ratio(fleet, settings, (services, value), &members[control], own));
        let memory = figures::compared(ages, control.unwrap_or(arm), arm);
        let rates: Vec<f64> = own.iter().filter_map(|index| value(&services[*index])).collect();
        let per_work: Vec<f64> = own
            .iter()
            .filter_map(|index| Some(memory(&services[*index])? / (value(&services[*index])? / 1e6)))
            .collect();
        let connections: Vec<f64> =
            own.iter().filter_map(|index| connections(&fleet.services[*index], ages, settings)).collect();
        let freed: Vec<f64> =
            own.iter().map(|index| freed(&fleet.services[*index])).filter(|bytes| *bytes > 0.0).collect();
        Some(ArmWork {
            services: rates.len() as u32,
            bytes_per_second: geometric_mean(&rates),
            ratio,
            memory_per_mb_per_second: geometric_mean(&per_work),
            connections: median(&connections),
            oom_services: freed.len() as u32,
            oom_bytes: freed.iter().sum(),
            flags: flags(fleet, own),
        })
    };
    members.iter().enumerate().map(arm).collect()
}

fn connections(service: &FleetService, ages: &Ages, settings: &Settings) -> Option<f64> {
    let (from, to) = match ages.average_from {
        Some(_) => (0.0, f64::INFINITY),
        None => window(ages, settings)?,
    };
    let inside = |point: &&(f32, f64)| (from..=to).contains(&f64::from(point.0));
    let readings: Vec<f64> =
        service.current()?.work.connections.iter().filter(inside).map(|point| point.1).collect();
    median(&readings)
}

/// What the out-of-memory handler of a service freed over all lives.
fn freed(service: &FleetService) -> f64 {
    service.lives.iter().filter_map(|life| Some(life.work.oom_bytes.last()?.1)).sum()
}

/// Who has which flag at the last reading.
fn flags(fleet: &Fleet, members: &[usize]) -> Vec<FlagCount> {
    let mut counts: Vec<FlagCount> = Vec::new();
    for index in members {
        let Some(life) = fleet.services[*index].lives.iter().rev().find(|l| !l.work.flags.is_empty()) else {
            continue;
        };
        for flag in &life.work.flags {
            let Some((_, has)) = flag.changes.last() else { continue };
            let place = counts.iter().position(|count| count.name == flag.name).unwrap_or_else(|| {
                counts.push(FlagCount { name: flag.name.clone(), with: 0, of: 0 });
                counts.len() - 1
            });
            counts[place].of += 1;
            counts[place].with += u32::from(*has);
        }
    }
    counts
}

/// What of it an operator must know before memory is compared.
pub(crate) fn findings(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    arms: &[ArmResult],
) -> Vec<Finding> {
    let control = fleet.arms.iter().position(|arm| arm.control);
    let mut findings = Vec::new();
    for (arm, result) in arms.iter().enumerate() {
        let Some(work) = &result.work else { continue };
        let names = || members[arm].iter().map(|index| services[*index].name.clone()).collect::<Vec<_>>();
        let name = &fleet.arms[arm].name;
        findings.extend(less_work(name, arm, work, result));
        let of_control = control.filter(|control| *control != arm).and_then(|c| arms[c].work.as_ref());
        findings.extend(of_control.and_then(|control| lost_flags(name, arm, work, control)));
        if work.oom_services > 0 {
            let who = |index: &&usize| freed(&fleet.services[**index]) > 0.0;
            findings.push(Finding {
                kind: FindingKind::OomHandler,
                severity: Severity::Caution,
                arms: vec![arm],
                services: members[arm].iter().filter(who).map(|i| services[*i].name.clone()).collect(),
                evidence: format!(
                    "the program's own out-of-memory handler freed {} in {} of {} services of {name}",
                    units::memory(work.oom_bytes),
                    work.oom_services,
                    names().len()
                ),
                effect: "It throws work away to stay below its limit (MaxMemInQueues of Tor): memory is low because of it."
                    .to_owned(),
            });
        }
    }
    findings
}

fn less_work(name: &str, arm: usize, work: &ArmWork, result: &ArmResult) -> Option<Finding> {
    let ratio = work.ratio.as_ref()?;
    let estimate = ratio.estimate;
    let shown = estimate.high.is_some_and(|high| high < 1.0);
    // Without an interval nothing is shown, but a reader must know where to look.
    if estimate.value >= LESS_WORK || !(shown || estimate.high.is_none()) {
        return None;
    }
    let interval = match estimate.interval() {
        Some((low, high)) => format!(" ({} to {})", units::ratio(low), units::ratio(high)),
        None => ", though there are too few services for an interval".to_owned(),
    };
    let memory = result.treated().ratio.as_ref().map(|ratio| ratio.estimate.value);
    let saves = memory.is_some_and(|memory| memory < 1.0);
    let for_each = memory.filter(|_| saves).map_or_else(String::new, |memory| {
        format!(
            "; it needs {} of the control's memory, and {} of it for the same work",
            units::ratio(memory),
            units::ratio(memory / estimate.value)
        )
    });
    let cause = if saves { "It saves memory by doing less work" } else { "It does less work" };
    Some(Finding {
        kind: FindingKind::WorkBelowControl,
        severity: if shown { Severity::Grave } else { Severity::Caution },
        arms: vec![arm],
        services: Vec::new(),
        evidence: format!(
            "services of {name} read and wrote {}{interval} of what those of the control did{for_each}",
            units::ratio(estimate.value)
        ),
        effect: format!("{cause}, at least in part: compare memory for each unit of work."),
    })
}

fn lost_flags(name: &str, arm: usize, work: &ArmWork, control: &ArmWork) -> Option<Finding> {
    let mut lost = Vec::new();
    let mut shown = false;
    for flag in &work.flags {
        let Some(usual) = control.flags.iter().find(|other| other.name == flag.name) else { continue };
        let share = |count: &FlagCount| f64::from(count.with) / f64::from(count.of.max(1));
        let pair = |count: &FlagCount| (count.with as usize, count.of as usize);
        let p = fisher_fewer(pair(flag), pair(usual));
        if p <= ALPHA || share(usual) - share(flag) >= SHARE_LOST {
            shown |= p <= ALPHA;
            lost.push(format!(
                "{} {} of {} against {} of {} (exact test, p {})",
                flag.name,
                flag.with,
                flag.of,
                usual.with,
                usual.of,
                units::p_value(p)
            ));
        }
    }
    (!lost.is_empty()).then(|| Finding {
        kind: FindingKind::FlagLost,
        severity: if shown { Severity::Grave } else { Severity::Caution },
        arms: vec![arm],
        services: Vec::new(),
        evidence: format!("fewer services of {name} have a flag than of the control: {}", lost.join(", ")),
        effect: if shown {
            "Its services are used for less than those of the control, and memory falls with that.".to_owned()
        } else {
            "With so few services this may be chance; if it is not, its services are used for less."
                .to_owned()
        },
    })
}
