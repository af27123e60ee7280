//! What an analysis starts from: who was put into which arm, and what was read.

use heaptrial_model::{EventKind, KnownEvent, LifeStart, Reading};
use heaptrial_stats::median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::work::Work;

/// The services of a trial with their readings.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// The arms, in the order given. Exactly one is the control.
    pub arms: Vec<FleetArm>,
    pub services: Vec<FleetService>,
    /// What happened, in order of time.
    pub events: Vec<FleetEvent>,
    pub limit: MemoryLimit,
    /// Whether the assignment of services to arms was drawn at random.
    pub randomised: bool,
    /// Whether a ledger shows what each life really ran. Then only proof takes a service out of its arm; without one,
    /// memory that goes as another arm's does.
    pub identities_proved: bool,
    /// How starts and ages of lives are to be read.
    pub clock: Clock,
    /// Seed of everything random in the analysis.
    pub seed: u64,
}

/// How starts and ages of lives are to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// Services go on beside each other: what happens to them at one time has one cause.
    #[default]
    Calendar,
    /// A lab started them one after the other, each for a planned time: only their age means something, and nothing
    /// is said of days to come.
    InTurn,
    /// The same, but each for as long as its load took: one that is young was done soon, and is compared as the others are.
    ByLoad,
    /// A lab took them through the hours of a life faster than life goes: ages are those hours, and growth by them is
    /// judged as on a host. Starts mean nothing.
    Hastened,
}

impl Clock {
    /// Whether starts are times of one calendar.
    pub fn has_calendar(self) -> bool {
        self == Self::Calendar
    }

    /// Whether ages are those of services in life, so that something can be said of days to come.
    pub fn has_days(self) -> bool {
        !matches!(self, Self::InTurn | Self::ByLoad)
    }
}

#[derive(Debug, Clone, Default)]
pub struct FleetArm {
    pub name: String,
    /// Whether the others are compared to it.
    pub control: bool,
    /// Whether its services are restarted on purpose, at intervals.
    pub restarted: bool,
}

#[derive(Debug, Clone, Default)]
pub struct FleetService {
    pub name: String,
    /// Positions of the arms into which it was put. More than one is an error of whoever put it there.
    pub arms: Vec<usize>,
    /// The block within which it was assigned.
    pub block: u32,
    /// Its host, where the fleet has several.
    pub host: Option<String>,
    /// Memory that it may use at most (MemoryMax), in bytes.
    pub limit_bytes: Option<f64>,
    pub lives: Vec<FleetLife>,
}

#[derive(Debug, Clone, Default)]
pub struct FleetLife {
    /// Start in seconds since 1970. Where the start is unknown, the first reading.
    pub started_at: f64,
    /// How the start is known.
    pub start: LifeStart,
    /// What proves that it did not run its arm's treatment.
    pub contamination: Option<String>,
    /// Whether it was proved what it ran.
    pub proved: bool,
    /// Its readings in order of age.
    pub readings: Vec<Reading>,
    /// Its older readings stand for so many seconds each, and are that far apart though nothing is missing; 0 where all
    /// are as they were taken.
    pub rolled_up_seconds: f64,
    /// The highest readings of what some of them are medians of, in order of age; empty where they are the highest themselves, or none is known.
    pub peaks: Vec<Reading>,
    pub work: Work,
}

/// Something that happened to the fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetEvent {
    pub at: f64,
    /// Position of the arm that it is about; `None` where it is about all, or about one service.
    pub arm: Option<usize>,
    /// Position of the service that it is about.
    pub service: Option<usize>,
    /// The host that recorded it, where the fleet has several.
    pub host: Option<String>,
    /// What kind of thing happened.
    pub kind: EventKind,
    /// Whether it changes what services run, so that a life that spans it is of two treatments.
    pub changes_treatment: bool,
    /// What was recorded of it.
    pub text: String,
}

/// The memory that services can use before something breaks, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLimit {
    pub service_bytes: Option<f64>,
    pub host_bytes: Option<f64>,
    /// Of the host's memory, what was available at the last reading.
    pub host_available_bytes: Option<f64>,
}

impl Fleet {
    /// Position of the control.
    pub fn control(&self) -> Option<usize> {
        self.arms.iter().position(|arm| arm.control)
    }

    /// Positions of the services that were put into an arm.
    pub(crate) fn members(&self, arm: usize) -> Vec<usize> {
        (0..self.services.len()).filter(|index| self.services[*index].arms.contains(&arm)).collect()
    }

    /// Arms into which some of these services were put.
    pub(crate) fn arms_of(&self, services: &[usize]) -> Vec<usize> {
        let is_of = |arm: &usize| services.iter().any(|index| self.services[*index].arms.contains(arm));
        (0..self.arms.len()).filter(is_of).collect()
    }

    pub(crate) fn names(&self, services: &[usize]) -> Vec<String> {
        services.iter().map(|index| self.services[*index].name.clone()).collect()
    }

    /// Leaves out all that came after `at` (seconds since 1970), so that an analysis gives what it would have given
    /// then. A contamination that an event dates after `at` is left out with it.
    pub fn until(&mut self, at: f64) {
        (0..self.services.len()).for_each(|index| self.service_until(index, at));
        self.events.retain(|event| event.at <= at);
    }

    /// Leaves out all of one service that came after `at` (seconds since 1970): from then on it is nobody's.
    pub fn service_until(&mut self, index: usize, at: f64) {
        let of_it = |event: &FleetEvent| event.service == Some(index);
        let changes = self.events.iter().filter(|event| of_it(event) && event.is_of_identity());
        let changes: Vec<f64> = changes.map(|event| event.at).collect();
        let Some(service) = self.services.get_mut(index) else { return };
        let ends: Vec<f64> =
            service.lives.iter().skip(1).map(|life| life.started_at).chain([f64::INFINITY]).collect();
        for (life, end) in service.lives.iter_mut().zip(ends) {
            let own = || changes.iter().filter(|change| (life.started_at..end).contains(*change));
            if own().next().is_some() && own().all(|change| *change > at) {
                life.contamination = None;
            }
            let age = (at - life.started_at) as f32;
            for readings in [&mut life.readings, &mut life.peaks] {
                readings.truncate(readings.partition_point(|reading| reading.age_seconds <= age));
            }
            life.work.until(age);
        }
        service.lives.retain(|life| life.started_at <= at);
        self.events.retain(|event| !of_it(event) || event.at <= at);
    }
}

impl FleetEvent {
    /// Whether it says that a life was found to run something else.
    fn is_of_identity(&self) -> bool {
        matches!(self.kind.known(), Some(KnownEvent::IdentityChange | KnownEvent::Contaminated))
    }
}

impl FleetService {
    /// The last life with readings: the one that stands for the service.
    pub fn current(&self) -> Option<&FleetLife> {
        self.lives.iter().rev().find(|life| !life.readings.is_empty())
    }
}

impl FleetLife {
    /// Age at the last reading in seconds.
    pub fn last_age(&self) -> Option<f64> {
        self.readings.last().map(|reading| f64::from(reading.age_seconds))
    }

    pub fn age_known(&self) -> bool {
        self.start != LifeStart::Unknown
    }

    /// When it was last read, in seconds since 1970.
    pub(crate) fn last_at(&self) -> Option<f64> {
        Some(self.started_at + self.last_age()?)
    }

    /// Median of its memory between two ages, in bytes.
    pub(crate) fn median_between(&self, from: f64, until: f64) -> Option<f64> {
        let inside =
            self.readings.iter().filter(|reading| (from..=until).contains(&f64::from(reading.age_seconds)));
        median(&inside.map(bytes).collect::<Vec<_>>())
    }
}

pub(crate) fn bytes(reading: &Reading) -> f64 {
    f64::from(reading.kib) * 1024.0
}
