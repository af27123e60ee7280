//! What services do beside using memory: an arm that saves memory by doing less has saved nothing.

mod measure;

use heaptrial_model::{TorFlag, units};
use heaptrial_stats::{fisher_fewer, median};

use crate::age::Ages;
use crate::fleet::{Fleet, FleetService};
use crate::outcome::{
    ArmResult, ArmWork, Estimate, Finding, FindingKind, FlagCount, MeasureResult, ServiceResult, Settings,
    Severity, WorkReason, WorkStanding,
};

pub(crate) use measure::of_service;

/// Work below this share of the control's is told, if its interval lies below 1.
const LESS_WORK: f64 = 0.9;
/// An exact test up to this p-value is no accident.
const ALPHA: f64 = 0.05;
/// A flag that this much smaller a share has is told even where the test cannot show it.
const SHARE_LOST: f64 = 0.5;
/// Bytes read and written, the measure of a relay of which rates and memory for each MB/s are told as such.
const TRAFFIC: &str = "bytes";

/// What a life did, by age in seconds. Counters begin with the life.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// What it did for its users, by any number of measures. A measure has the same name in all lives of a fleet.
    pub measures: Vec<Measure>,
    /// Open connections.
    pub connections: Vec<(f32, f64)>,
    /// Bytes that the program's own out-of-memory handler freed: ages at which they rose.
    pub oom_bytes: Vec<(f32, f64)>,
    /// Flags of its network.
    pub flags: Vec<Flag>,
    /// What it took of the host for that, where it was read.
    pub spent: Spent,
}

/// What a life took of its host: counters since its start, by age in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spent {
    /// CPU time in seconds.
    pub cpu_seconds: Vec<(f32, f64)>,
    /// Page faults, minor and major.
    pub page_faults: Vec<(f32, f64)>,
}

/// A measure of work: a counter since the start of a life, or readings, by age in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What is counted, in the plural: `bytes`, `documents`, `requests`, `clients`.
    pub name: String,
    /// Whether more of it is more work done.
    pub counts: Counts,
    /// The counter by age. What lies between two readings is taken as done evenly: two readings are enough. Of
    /// [`Counts::Rate`] and [`Counts::Took`] the readings, each of which counts alike.
    pub counter: Vec<(f32, f64)>,
}

/// What a measure counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Counts {
    /// What was done. Less of it than the control is less work.
    Done,
    /// What failed, of so many that were tried since the start of the life. Work is the share that did not fail.
    Failed {
        /// The counter of what was tried, by age.
        tried: Vec<(f32, f64)>,
    },
    /// Nothing: the readings are of what was done a second. Less of it than the control is less work.
    Rate,
    /// Nothing: the readings are of what it took, such as a latency. More of it than the control is less work.
    Took,
}

/// A flag that a service may have, such as Tor's `Guard`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// Which.
    pub name: TorFlag,
    /// Ages at which it was given (true) or taken away, the first reading among them.
    pub changes: Vec<(f32, bool)>,
}

impl Measure {
    /// Of what was done.
    pub fn done(name: &str, counter: Vec<(f32, f64)>) -> Self {
        Self { name: name.to_owned(), counts: Counts::Done, counter }
    }

    /// Of what failed, of what was tried.
    pub fn failed(name: &str, failed: Vec<(f32, f64)>, tried: Vec<(f32, f64)>) -> Self {
        Self { name: name.to_owned(), counts: Counts::Failed { tried }, counter: failed }
    }

    /// Of readings of what was done a second.
    pub fn rate(name: &str, readings: Vec<(f32, f64)>) -> Self {
        Self { name: name.to_owned(), counts: Counts::Rate, counter: readings }
    }

    /// Of readings of what it took.
    pub fn took(name: &str, readings: Vec<(f32, f64)>) -> Self {
        Self { name: name.to_owned(), counts: Counts::Took, counter: readings }
    }

    /// Bytes read and written.
    pub fn traffic(counter: Vec<(f32, f64)>) -> Self {
        Self::done(TRAFFIC, counter)
    }
}

impl Work {
    /// Puts everything at other ages; what gets none is left out.
    pub fn by_age(&mut self, other: impl Fn(f32) -> Option<f32>) {
        fn turn<T: Copy>(points: &mut Vec<(f32, T)>, other: &impl Fn(f32) -> Option<f32>) {
            *points = points.iter().filter_map(|(age, value)| Some((other(*age)?, *value))).collect();
        }
        for measure in &mut self.measures {
            turn(&mut measure.counter, &other);
            if let Counts::Failed { tried } = &mut measure.counts {
                turn(tried, &other);
            }
        }
        turn(&mut self.connections, &other);
        turn(&mut self.oom_bytes, &other);
        turn(&mut self.spent.cpu_seconds, &other);
        turn(&mut self.spent.page_faults, &other);
        self.flags.iter_mut().for_each(|flag| turn(&mut flag.changes, &other));
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.measures.iter().all(|measure| measure.counter.is_empty())
            && self.connections.is_empty()
            && self.oom_bytes.is_empty()
            && self.flags.is_empty()
    }

    /// The counter of bytes read and written.
    pub fn bytes(&self) -> Option<&[(f32, f64)]> {
        let of = |measure: &&Measure| measure.name == TRAFFIC;
        self.measures.iter().find(of).map(|measure| measure.counter.as_slice())
    }

    /// Leaves out what came after an age.
    pub(crate) fn until(&mut self, age: f32) {
        let cut =
            |series: &mut Vec<(f32, f64)>| series.truncate(series.partition_point(|point| point.0 <= age));
        for measure in &mut self.measures {
            cut(&mut measure.counter);
            if let Counts::Failed { tried } = &mut measure.counts {
                cut(tried);
            }
        }
        cut(&mut self.connections);
        cut(&mut self.oom_bytes);
        cut(&mut self.spent.cpu_seconds);
        cut(&mut self.spent.page_faults);
        for flag in &mut self.flags {
            flag.changes.truncate(flag.changes.partition_point(|change| change.0 <= age));
        }
        self.flags.retain(|flag| !flag.changes.is_empty());
    }
}

/// Bytes read and written a second, of what is known of a service's work.
pub(crate) fn traffic(work: &[crate::outcome::ServiceWork]) -> Option<f64> {
    // A service that does nothing still has a rate to be put in proportion.
    work.iter().find(|own| own.measure == TRAFFIC).map(|own| own.amount.max(1.0))
}

/// The work of each arm over `members` (positions of services by arm). `None` for earlier lists, and for all where no arm's
/// work was measured.
pub(crate) fn of_arms(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[Vec<usize>],
) -> Vec<Option<ArmWork>> {
    let known = |index: &usize| fleet.services[*index].lives.iter().any(|life| !life.work.is_empty());
    if !members.iter().flatten().any(known) {
        return vec![None; members.len()];
    }
    let compared = measure::Compared { fleet, settings, ages, services, members };
    let arm = |(arm, own): (usize, &Vec<usize>)| {
        if fleet.arms[arm].earlier_list_of.is_some() {
            return None;
        }
        let measures = compared.measures(arm);
        let traffic = measures.iter().find(|measure| measure.name == TRAFFIC);
        let connections: Vec<f64> =
            own.iter().filter_map(|index| connections(&fleet.services[*index], ages, settings)).collect();
        let freed: Vec<f64> =
            own.iter().map(|index| freed(&fleet.services[*index])).filter(|bytes| *bytes > 0.0).collect();
        Some(ArmWork {
            services: traffic.map_or(0, |measure| measure.services),
            bytes_per_second: traffic.and_then(|measure| measure.amount),
            ratio: traffic.and_then(|measure| measure.ratio.clone()),
            memory_per_mb_per_second: traffic.and_then(|measure| Some(measure.memory_for_each? * 1e6)),
            standing: measure::together(&measures),
            measures,
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
        None => measure::window(ages, settings)?,
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
                counts.push(FlagCount { name: flag.name, with: 0, of: 0 });
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
        findings.extend(unknown_work(name, arm, work));
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
    let told: Vec<&MeasureResult> = work
        .measures
        .iter()
        .filter(|measure| {
            let estimate = measure.of_work();
            // Without an interval nothing is shown, but a reader must know where to look.
            let less = |estimate: Estimate| {
                estimate.value < LESS_WORK && estimate.high.is_none_or(|high| high < 1.0)
            };
            measure.standing == WorkStanding::ClearlyLess || estimate.is_some_and(less)
        })
        .collect();
    let evidence = told.iter().map(|measure| less_of(name, measure)).collect::<Vec<_>>().join("; ");
    let memory = result.treated().ratio.as_ref().map(|ratio| ratio.estimate.value);
    let saves = memory.is_some_and(|memory| memory < 1.0);
    let for_each = told.iter().find_map(|measure| measure.memory_ratio.as_ref()).filter(|_| saves);
    let for_each = memory.zip(for_each).map_or_else(String::new, |(memory, ratio)| {
        format!(
            "; it needs {} of the control's memory, and {} of it for the same work",
            units::ratio(memory),
            units::ratio(ratio.estimate.value)
        )
    });
    let slower = told.iter().all(|measure| measure.less_is_better);
    let cause = match (slower, saves) {
        (true, true) => "It saves memory and takes longer",
        (true, false) => "It takes longer",
        (false, true) => "It saves memory by doing less work",
        (false, false) => "It does less work",
    };
    let never = if work.standing == WorkStanding::ClearlyLess { " It is not ranked." } else { "" };
    (!told.is_empty()).then(|| Finding {
        kind: FindingKind::WorkBelowControl,
        // Less by more than the margin is shown; less than all of it is not.
        severity: if work.standing == WorkStanding::ClearlyLess {
            Severity::Grave
        } else {
            Severity::Caution
        },
        arms: vec![arm],
        services: Vec::new(),
        evidence: evidence + &for_each,
        effect: match slower {
            true => format!("{cause}: that is what its memory costs.{never}"),
            false => format!("{cause}, at least in part: compare memory for each unit of work.{never}"),
        },
    })
}

/// What an arm did of a measure in proportion to the control.
fn less_of(name: &str, measure: &MeasureResult) -> String {
    let what = &measure.name;
    if let (Some(tried), Some(of_control)) = (measure.tried, &measure.of_control) {
        return format!(
            "of {} {what} of {name} {} failed, of the control's {} of {}",
            units::count(tried as u64),
            units::count(measure.total as u64),
            units::count(of_control.total as u64),
            units::count(of_control.tried.unwrap_or(0.0) as u64)
        );
    }
    if measure.reason == WorkReason::NothingDone {
        return format!("services of {name} had no {what} at all, and those of the control did");
    }
    let estimate = measure.ratio.as_ref().map(|ratio| ratio.estimate);
    let value = estimate.map_or_else(String::new, |estimate| units::ratio(estimate.value));
    let interval = match estimate.and_then(|estimate| estimate.interval()) {
        Some((low, high)) => format!(" ({} to {})", units::ratio(low), units::ratio(high)),
        None => ", though there are too few services for an interval".to_owned(),
    };
    if measure.less_is_better {
        format!("{what} of services of {name} was {value} times that of the control{interval}")
    } else if what == TRAFFIC {
        format!("services of {name} read and wrote {value}{interval} of what those of the control did")
    } else {
        format!("services of {name} had {value}{interval} of the {what} that those of the control had")
    }
}

fn unknown_work(name: &str, arm: usize, work: &ArmWork) -> Option<Finding> {
    let missing: Vec<&str> = work
        .measures
        .iter()
        .filter(|measure| measure.reason == WorkReason::NotMeasured)
        .map(|measure| measure.name.as_str())
        .collect();
    (!missing.is_empty()).then(|| Finding {
        kind: FindingKind::WorkUnknown,
        severity: Severity::Caution,
        arms: vec![arm],
        services: Vec::new(),
        evidence: format!(
            "{} of the control were counted, and not of half of the services of {name}",
            missing.join(", ")
        ),
        effect: "Whether it does the control's work is not known: less memory may come of less work."
            .to_owned(),
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
