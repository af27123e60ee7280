//! A lab run as a fleet: which life stands for a service, and whether it counts.

use std::collections::HashMap;

use crate::analysis::{Clock, ENOUGH, Fleet, FleetLife, FleetService, MemoryLimit, Settings, Spent, Work};
use heaptrial_model::units::{self, HOUR};
use heaptrial_model::{Ending, KnownEvent, Reading, TrialKind};
use heaptrial_store::{LifeRecord, READY_SECONDS, SeriesPoint, ServiceRecord, Store};

use crate::judgement::consensuses::{ConsensusClock, Taken};
use crate::judgement::facts::{Observed, ServiceFacts, last_slow, last_split};
use crate::judgement::{JudgementError, Options, Rows, work};

/// A run whose oldest service reached less than this share of the planned length was cut short.
const WHOLE_SHARE: f64 = 0.9;

/// The services of a lab run, in the order of starting.
#[derive(Debug, Clone)]
pub(crate) struct LabRun {
    pub(crate) services: Vec<LabService>,
}

#[derive(Debug, Clone)]
pub(crate) struct LabService {
    /// Position of that life in the ledger; `None` where it never started.
    pub(crate) life: Option<usize>,
    pub(crate) series: Vec<SeriesPoint>,
    pub(crate) taken: Option<Taken>,
    work: Work,
    /// Its age in seconds when it was ready, from which all ages here count.
    ready: f64,
    /// Why it does not count; `None` where it does.
    pub(crate) excluded: Option<String>,
    /// Whether it is proved that it ran its arm's treatment.
    pub(crate) proved: bool,
    /// Whether it failed: it did not come up, crashed, died, or was killed for want of memory.
    pub(crate) failed: bool,
}

impl LabRun {
    pub(crate) fn read(store: &Store, rows: &Rows) -> Result<Self, JudgementError> {
        let mut services = Vec::with_capacity(rows.services.len());
        for service in &rows.services {
            let own = || rows.lives.iter().enumerate().filter(|(_, life)| life.service_id == service.id);
            let life = own().rfind(|(_, life)| life.counts()).or_else(|| own().next_back());
            let (mut series, mut work) = match life {
                Some((_, life)) => {
                    (store.series(life, rows.trial.plan.metric)?, work::of_lab_life(store, life)?)
                }
                None => (Vec::new(), Work::default()),
            };
            let ready = ready_seconds(service);
            if ready > 0.0 {
                series.iter_mut().for_each(|point| point.age_seconds -= ready);
                work.by_age(|age| Some(age - ready as f32));
            }
            let taken = match life.filter(|_| rows.kind == TrialKind::LabTor) {
                Some((_, life)) => Taken::read(store, life, &series)?,
                None => None,
            };
            let failed = failure(service, rows).is_some();
            let excluded = reason(service, rows, life.map(|(_, life)| life), &series);
            let proved = life.is_some_and(|(_, life)| {
                life.identity.is_some() && (life.contamination.is_none() || life.failed)
            });
            services.push(LabService {
                life: life.map(|(index, _)| index),
                series,
                taken,
                work,
                ready,
                excluded,
                proved,
                failed,
            });
        }
        match rows.kind {
            TrialKind::LabTor => exclude_relays(&mut services),
            _ => exclude_too_young(&mut services, rows),
        }
        Ok(Self { services })
    }

    /// The consensuses of its relays; `None` where it has none, or nothing reports them.
    pub(crate) fn consensuses(&self) -> Option<ConsensusClock> {
        let taken: Vec<&Taken> = self.counted().filter_map(|service| service.taken.as_ref()).collect();
        ConsensusClock::of(&taken)
    }

    /// Repeats are blocks, and whoever does not count has no life in it. Ages are hours of a relay's life, and
    /// the lab's seconds of other programs.
    pub(crate) fn fleet(&self, rows: &Rows, options: &Options) -> Fleet {
        let are_relays = rows.kind == TrialKind::LabTor;
        let services = rows.services.iter().zip(&self.services).map(|(record, service)| FleetService {
            lives: service.fleet_life(rows).into_iter().filter(|_| service.excluded.is_none()).collect(),
            ..rows.service(record)
        });
        let service_bytes = options.memory_limit_bytes.filter(|_| are_relays);
        Fleet {
            arms: rows.arms.iter().map(|record| rows.arm(record)).collect(),
            services: services.collect(),
            events: rows.events.iter().map(|event| rows.event(event)).collect(),
            limit: MemoryLimit {
                service_bytes: service_bytes.map(|bytes| bytes as f64),
                ..MemoryLimit::default()
            },
            randomised: true,
            identities_proved: true,
            clock: match rows.trial.plan.planned_us {
                _ if are_relays => Clock::Hastened,
                0 => Clock::ByLoad,
                _ => Clock::InTurn,
            },
            seed: rows.trial.plan.seed,
        }
    }

    /// Of relays by the hours of their lives those of a field trial; of a run of minutes everything
    /// from the end of warm-up counts.
    pub(crate) fn settings(&self, rows: &Rows, options: &Options) -> Settings {
        if rows.kind == TrialKind::LabTor {
            let warm_up_seconds = options.warm_up.map(|warm_up| warm_up.as_secs_f64());
            return Settings { warm_up_seconds, ..options.settings };
        }
        Settings {
            level_from_warm_up: true,
            warm_up_seconds: Some(self.warm_up_seconds(rows, options)),
            // As work in proportion: a latency of 1.25 times the control's is 0.8 of its work.
            work_margin: given(rows, "work_margin")
                .map_or(options.settings.work_margin, |factor| 1.0 / factor),
            ..options.settings
        }
    }

    /// Age in seconds of the lab until which services settle.
    pub(crate) fn warm_up_seconds(&self, rows: &Rows, options: &Options) -> f64 {
        let ages = || self.counted().filter_map(LabService::last_age);
        let oldest = ages().fold(0.0, f64::max);
        let planned = rows.trial.plan.planned_us as f64 / 1e6;
        let length = match planned > 0.0 {
            true if oldest >= WHOLE_SHARE * planned => planned,
            // A run that was cut short gets a warm-up in proportion to what there is of it.
            true => oldest,
            // Each runs as long as its load takes: warm-up is within what all of them have.
            false => ages().min_by(f64::total_cmp).unwrap_or(0.0),
        };
        // What the run was given stands until a reader of its report chooses otherwise.
        match (options.warm_up, given(rows, "warm_up_seconds")) {
            (Some(warm_up), _) => warm_up.as_secs_f64(),
            (None, Some(warm_up)) if warm_up < length => warm_up,
            (None, _) => (length * options.settings.warm_up_share * 1000.0).round() / 1000.0,
        }
    }

    /// From the start to the end of the run, or to its last sample.
    pub(crate) fn duration_seconds(&self, rows: &Rows) -> f64 {
        let start = rows.trial.plan.started_wall_us;
        let last = |service: &LabService| {
            let life = rows.lives.get(service.life?)?;
            Some((life.started_wall_us - start) as f64 / 1e6 + service.last_age()?)
        };
        match rows.trial.ended_wall_us {
            Some(end) => (end - start) as f64 / 1e6,
            None => self.services.iter().filter_map(last).fold(0.0, f64::max),
        }
    }

    /// Lives of services that do not count, by position of the service.
    pub(crate) fn set_aside(&self, rows: &Rows) -> HashMap<usize, FleetLife> {
        let excluded = self.services.iter().enumerate().filter(|(_, service)| service.excluded.is_some());
        excluded.filter_map(|(index, service)| Some((index, service.fleet_life(rows)?))).collect()
    }

    pub(crate) fn facts(&self, store: &Store, rows: &Rows) -> Result<Vec<ServiceFacts>, JudgementError> {
        self.services.iter().map(|service| service.facts(store, rows)).collect()
    }

    fn counted(&self) -> impl Iterator<Item = &LabService> {
        self.services.iter().filter(|service| service.excluded.is_none())
    }
}

impl LabService {
    fn consensuses(&self) -> u32 {
        self.taken.as_ref().map_or(0, Taken::last)
    }

    pub(crate) fn last_age(&self) -> Option<f64> {
        self.series.last().map(|point| point.age_seconds)
    }

    fn facts(&self, store: &Store, rows: &Rows) -> Result<ServiceFacts, JudgementError> {
        let rests = self.taken.as_ref().map_or(&[][..], |taken| &taken.rests);
        // Of relays that rest, at the end of their last one.
        let until = rests.last().map_or(f64::INFINITY, |rest| rest.age_seconds);
        let last = self.series.iter().rfind(|point| point.age_seconds <= until);
        let peak_bytes = match rests.iter().map(|rest| rest.peak_bytes).max() {
            // The kernel's has what came after the last rest too.
            Some(of_rests) => of_rests,
            // The lab reads from the start of a life on.
            None => {
                let of_life = |life: usize| store.peak_by_kernel(rows.lives[life].id, rows.trial.plan.metric);
                let by_kernel = self.life.map(of_life).transpose()?.flatten();
                self.series.iter().map(|point| point.metric_bytes).chain(by_kernel).max().unwrap_or(0)
            }
        };
        let slow = last_slow(store, rows, self.life)?;
        Ok(ServiceFacts {
            life: self.life,
            excluded: self.excluded.clone(),
            left_out_proved: self.excluded.is_some() && self.proved,
            observed: last.map(|last| Observed {
                age_seconds: last.age_seconds,
                readings: self.series.len() as u64,
                final_bytes: last.metric_bytes,
                peak_bytes,
            }),
            rss_bytes: last.map(|point| point.rss_bytes),
            anon_bytes: last.map(|point| point.anon_bytes),
            cpu_seconds: last.map(|point| point.cpu_us as f64 / 1e6),
            smaps: slow.map(|(smaps, _)| smaps),
            smaps_anon_bytes: slow.and_then(|(_, anon_bytes)| anon_bytes),
            memory_split: last_split(store, rows, self.life)?,
            consensuses: self.taken.as_ref().map(Taken::last),
            rests: rests.to_vec(),
        })
    }

    /// The life that stands for it, counted or not, as the fleet has it.
    fn fleet_life(&self, rows: &Rows) -> Option<FleetLife> {
        let life = rows.lives.get(self.life?)?;
        let (started_at, readings, work) = if rows.kind == TrialKind::LabTor {
            // What happens at one consensus happens to all relays at once.
            let taken = self.taken.as_ref()?;
            let mut work = self.work.clone();
            work.by_age(|age| Some((taken.hours_at(f64::from(age))? * HOUR) as f32));
            // What a second of the lab took says nothing of a second of a relay's life.
            work.spent = Spent::default();
            let rests = taken.rests.iter();
            let readings = rests.map(|rest| reading(f64::from(rest.consensuses) * HOUR, rest.level_bytes));
            (0.0, readings.collect(), work)
        } else {
            let readings = self.series.iter().map(|point| reading(point.age_seconds, point.metric_bytes));
            (life.started_wall_us as f64 / 1e6 + self.ready, readings.collect(), self.work.clone())
        };
        Some(FleetLife {
            started_at,
            proved: life.identity.is_some(),
            readings,
            work,
            ..FleetLife::default()
        })
    }
}

fn ready_seconds(service: &ServiceRecord) -> f64 {
    let seconds = service.attributes.as_ref().and_then(|attributes| attributes.get(READY_SECONDS)?.as_f64());
    seconds.unwrap_or(0.0)
}

fn reading(age_seconds: f64, bytes: u64) -> Reading {
    Reading { age_seconds: age_seconds as f32, kib: u32::try_from(bytes / 1024).unwrap_or(u32::MAX) }
}

fn reason(
    service: &ServiceRecord,
    rows: &Rows,
    life: Option<&LifeRecord>,
    series: &[SeriesPoint],
) -> Option<String> {
    let failure = failure(service, rows);
    let Some(life) = life else {
        return Some(failure.unwrap_or("it never started").to_owned());
    };
    if !life.counts() {
        return Some(match (&life.contamination, &life.ending) {
            // A crash or a limit has its own words, and is not another allocator's memory.
            (Some(failure), _) if life.failed => failure.clone(),
            (Some(contamination), _) => format!("non-compliant: {contamination}"),
            // What the lab wrote down then says more than the bare ending.
            (None, Some(ending)) if !ending.is_complete() => match failure {
                Some(failure) => failure.to_owned(),
                None if life.identity.is_some() => ending.to_string(),
                None => format!("{ending}, before its allocator was proved"),
            },
            _ => failure.unwrap_or("its allocator was never proved").to_owned(),
        });
    }
    if let Some(failure) = failure {
        return Some(failure.to_owned());
    }
    series.is_empty().then(|| format!("no reading of its {}", rows.trial.plan.metric.describe()))
}

/// Why the lab gave the service up, without the names that it starts with.
fn failure<'r>(service: &ServiceRecord, rows: &'r Rows) -> Option<&'r str> {
    let about_it = |event: &&heaptrial_store::EventRecord| {
        event.service_id == Some(service.id)
            && matches!(event.kind.known(), Some(KnownEvent::ArmFailed | KnownEvent::OomKill))
    };
    let text = rows.events.iter().rev().find(about_it)?.text.as_str();
    let arm = rows.arms.iter().find(|arm| arm.id == service.arm_id);
    let names = arm.map(|arm| format!("{} ({}) ", arm.arm.name, service.name)).unwrap_or_default();
    Some(text.strip_prefix(&names).unwrap_or(text))
}

/// Services are compared at equal age: one that was cut off early says nothing about the others' age. Where each runs as
/// long as its load takes, a short life is one whose load was done soon.
fn exclude_too_young(services: &mut [LabService], rows: &Rows) {
    let as_its_load = |service: &LabService| {
        let life = service.life.and_then(|life| rows.lives.get(life));
        rows.trial.plan.planned_us == 0 && life.is_some_and(|life| life.ending == Some(Ending::Planned))
    };
    let counted = services.iter().filter(|service| service.excluded.is_none());
    let oldest = counted.filter_map(LabService::last_age).fold(0.0, f64::max);
    // One that took long to start is older at the end of the same time, and makes no other too young.
    let planned = rows.trial.plan.planned_us as f64 / 1e6;
    let expected = if planned > 0.0 { oldest.min(planned) } else { oldest };
    for service in services {
        let Some(age) = service.last_age() else { continue };
        if service.excluded.is_none() && age < ENOUGH * expected && !as_its_load(service) {
            let (age, oldest) = (units::duration(age), units::duration(oldest));
            service.excluded =
                Some(format!("too young to compare: it was cut off at {age}, others reached {oldest}"));
        }
    }
}

/// Relays are as old as the consensuses that they took, however long a group had to wait. One that never rested has no reading
/// to compare.
fn exclude_relays(services: &mut [LabService]) {
    let counted = services.iter().filter(|service| service.excluded.is_none());
    let most = counted.map(LabService::consensuses).max().unwrap_or(0);
    for service in services.iter_mut().filter(|service| service.excluded.is_none()) {
        let own = service.consensuses();
        if service.taken.is_some() && f64::from(own) < ENOUGH * f64::from(most) {
            service.excluded =
                Some(format!("too young to compare: it took {own} consensuses, others {most}"));
        } else if !service.taken.as_ref().is_some_and(Taken::is_rested) {
            service.excluded = Some(format!("it never rested after a consensus, of which it took {own}"));
        }
    }
}

fn given(rows: &Rows, name: &str) -> Option<f64> {
    rows.trial.plan.parameters.get(name)?.as_f64()
}
