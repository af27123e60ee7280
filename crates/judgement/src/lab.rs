//! A lab run as a fleet: which life stands for a service, and whether it counts.

use heaptrial_analysis::{Fleet, FleetLife, FleetService, MemoryLimit, Settings, Work};
use heaptrial_model::{KnownEvent, LifeStart, Reading, units};
use heaptrial_store::{LifeRecord, SeriesPoint, ServiceRecord, Store};

use crate::{JudgementError, Options, Rows, work};

/// A service younger than this share of the oldest one's age at its last reading is not compared.
const COMPARABLE_AGE_SHARE: f64 = 0.5;
/// Share of a life that is warm-up where nothing else is said.
const WARM_UP_SHARE: f64 = 1.0 / 3.0;
/// A run whose oldest service reached less than this share of the planned length was cut short.
const WHOLE_SHARE: f64 = 0.9;

/// The services of a lab run, in the order of starting.
#[derive(Debug, Clone)]
pub(crate) struct LabRun {
    pub(crate) services: Vec<LabService>,
}

/// A service with the life that stands for it.
#[derive(Debug, Clone)]
pub(crate) struct LabService {
    /// Position of that life in the ledger; `None` where it never started.
    pub(crate) life: Option<usize>,
    pub(crate) series: Vec<SeriesPoint>,
    work: Work,
    /// Why it does not count; `None` where it does.
    pub(crate) excluded: Option<String>,
}

impl LabRun {
    pub(crate) fn read(store: &Store, rows: &Rows) -> Result<Self, JudgementError> {
        let mut services = Vec::with_capacity(rows.services.len());
        for service in &rows.services {
            let own = || rows.lives.iter().enumerate().filter(|(_, life)| life.service_id == service.id);
            let life = own().rfind(|(_, life)| life.counts()).or_else(|| own().next_back());
            let (series, work) = match life {
                Some((_, life)) => (store.series(life, rows.trial.plan.metric)?, work::of_life(store, life)?),
                None => (Vec::new(), Work::default()),
            };
            let excluded = reason(service, rows, life.map(|(_, life)| life), &series);
            services.push(LabService { life: life.map(|(index, _)| index), series, work, excluded });
        }
        exclude_too_young(&mut services);
        Ok(Self { services })
    }

    /// Repeats are blocks, ages are in seconds, and whoever does not count has no life in it.
    pub(crate) fn fleet(&self, rows: &Rows) -> Fleet {
        let services = rows.services.iter().zip(&self.services).map(|(record, service)| FleetService {
            lives: service.fleet_life(rows).into_iter().filter(|_| service.excluded.is_none()).collect(),
            ..rows.service(record)
        });
        Fleet {
            arms: rows.arms.iter().map(|record| rows.arm(record)).collect(),
            services: services.collect(),
            events: rows.events.iter().map(|event| rows.event(event)).collect(),
            limit: MemoryLimit::default(),
            randomised: true,
            identities_proved: true,
            in_turn: true,
            rolled_up_seconds: 0.0,
            seed: rows.trial.plan.seed,
        }
    }

    /// Choices that fit a run of minutes: everything from the end of warm-up counts.
    pub(crate) fn settings(&self, rows: &Rows, options: &Options) -> Settings {
        let oldest = self.counted().filter_map(LabService::last_age).fold(0.0, f64::max);
        let planned = rows.trial.plan.planned_us as f64 / 1e6;
        // A run that was cut short gets a warm-up in proportion to what there is of it.
        let length = if oldest >= WHOLE_SHARE * planned { planned } else { oldest };
        let warm_up = match options.warm_up {
            Some(warm_up) => warm_up.as_secs_f64(),
            None => (length * WARM_UP_SHARE * 1000.0).round() / 1000.0,
        };
        Settings { level_from_warm_up: true, warm_up_seconds: Some(warm_up), ..options.settings }
    }

    fn counted(&self) -> impl Iterator<Item = &LabService> {
        self.services.iter().filter(|service| service.excluded.is_none())
    }
}

impl LabService {
    pub(crate) fn last_age(&self) -> Option<f64> {
        self.series.last().map(|point| point.age_seconds)
    }

    /// The life that stands for it, counted or not.
    pub(crate) fn fleet_life(&self, rows: &Rows) -> Option<FleetLife> {
        let life = rows.lives.get(self.life?)?;
        let reading = |point: &SeriesPoint| Reading {
            age_seconds: point.age_seconds as f32,
            kib: u32::try_from(point.metric_bytes / 1024).unwrap_or(u32::MAX),
        };
        Some(FleetLife {
            started_at: life.started_wall_us as f64 / 1e6,
            start: LifeStart::Observed,
            contamination: None,
            proved: life.identity.is_some(),
            readings: self.series.iter().map(reading).collect(),
            work: self.work.clone(),
        })
    }
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
            (Some(contamination), _) => format!("contaminated: {contamination}"),
            // What the lab wrote down then says more than the bare ending.
            (None, Some(ending)) if !ending.is_complete() => match failure {
                Some(failure) => failure.to_owned(),
                None if life.identity.is_some() => ending.to_string(),
                None => format!("{ending}, before its allocator was proved"),
            },
            _ => failure.unwrap_or("its allocator was never proved").to_owned(),
        });
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

/// Services are compared at equal age: one that was cut off early says nothing about the others' age.
fn exclude_too_young(services: &mut [LabService]) {
    let counted = services.iter().filter(|service| service.excluded.is_none());
    let oldest = counted.filter_map(LabService::last_age).fold(0.0, f64::max);
    for service in services {
        let Some(age) = service.last_age() else { continue };
        if service.excluded.is_none() && age < COMPARABLE_AGE_SHARE * oldest {
            let (age, oldest) = (units::duration(age), units::duration(oldest));
            service.excluded =
                Some(format!("too young to compare: it was cut off at {age}, others reached {oldest}"));
        }
    }
}
