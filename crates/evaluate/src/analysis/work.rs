//! What services do beside using memory: an arm that saves memory by doing less has saved nothing.

mod compared;
mod findings;
mod measure;

use heaptrial_model::TorFlag;
use heaptrial_stats::median;

use crate::analysis::age::Ages;
use crate::analysis::data::Data;
use crate::analysis::fleet::{Fleet, FleetService};
use crate::analysis::outcome::{ArmWork, FlagCount, Settings};

pub(crate) use findings::findings;
pub(crate) use measure::of_service;

/// Bytes read and written, the measure of a relay of which rates and memory for each MB/s are reported as such.
const TRAFFIC: &str = "bytes";

/// What a life did, by age in seconds. Counters begin with the life.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// What it did for its users, by any number of measures. A measure has the same name in all lives of a fleet.
    pub measures: Vec<Measure>,
    pub connections: Vec<(f32, f64)>,
    /// Bytes that the program's own out-of-memory handler freed: ages at which they rose.
    pub oom_bytes: Vec<(f32, f64)>,
    pub flags: Vec<Flag>,
    /// What it took of the host for that, where it was read.
    pub spent: Spent,
}

/// What a life took of its host: counters since its start, by age in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spent {
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
    pub name: TorFlag,
    /// Ages at which it was given (true) or taken away, the first reading among them.
    pub changes: Vec<(f32, bool)>,
}

impl Measure {
    pub fn done(name: &str, counter: Vec<(f32, f64)>) -> Self {
        Self::of(name, Counts::Done, counter)
    }

    /// Of what failed, of what was tried.
    pub fn failed(name: &str, failed: Vec<(f32, f64)>, tried: Vec<(f32, f64)>) -> Self {
        Self::of(name, Counts::Failed { tried }, failed)
    }

    /// Of readings of what was done a second.
    pub fn rate(name: &str, readings: Vec<(f32, f64)>) -> Self {
        Self::of(name, Counts::Rate, readings)
    }

    /// Of readings of what it took.
    pub fn took(name: &str, readings: Vec<(f32, f64)>) -> Self {
        Self::of(name, Counts::Took, readings)
    }

    pub fn traffic(counter: Vec<(f32, f64)>) -> Self {
        Self::done(TRAFFIC, counter)
    }

    fn of(name: &str, counts: Counts, counter: Vec<(f32, f64)>) -> Self {
        Self { name: name.to_owned(), counts, counter }
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
        self.by_age(|own| (own <= age).then_some(own));
        self.flags.retain(|flag| !flag.changes.is_empty());
    }
}

/// The work of each arm over `members` (positions of services by arm). `None` where no arm's work was measured.
pub(crate) fn of_arms(data: Data<'_>, members: &[Vec<usize>]) -> Vec<Option<ArmWork>> {
    let Data { fleet, settings, ages, .. } = data;
    let known = |index: &usize| fleet.services[*index].lives.iter().any(|life| !life.work.is_empty());
    if !members.iter().flatten().any(known) {
        return vec![None; members.len()];
    }
    let compared = compared::Compared { data, members };
    let arm = |(arm, own): (usize, &Vec<usize>)| {
        let measures = compared.measures(arm);
        let traffic = measures.iter().find(|measure| measure.name == TRAFFIC);
        let connections: Vec<f64> =
            own.iter().filter_map(|index| connections(&fleet.services[*index], ages, settings)).collect();
        let freed: Vec<f64> =
            own.iter().map(|index| freed(&fleet.services[*index])).filter(|bytes| *bytes > 0.0).collect();
        Some(ArmWork {
            services: traffic.map_or(0, |measure| measure.services),
            ratio: traffic.and_then(|measure| measure.ratio.clone()),
            standing: compared.together(&measures),
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
