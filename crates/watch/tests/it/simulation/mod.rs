//! Months of services of which the truth is known, checked by the real code.
//!
//! Shared by the tests and by `bench/src/bin/calibrate_watch.rs`, each of which uses a part.
#![allow(dead_code, reason = "shared by several programs, each of which uses a part")]

mod fleet;

use std::collections::BTreeMap;
use std::path::PathBuf;

use heaptrial_analysis::{DAY, Fleet, Forecast, Settings};
use heaptrial_model::{KnownEvent, Metric};
use heaptrial_watch::{
    AlertKind, Channels, DropInSeen, FailureSeen, FailuresBefore, Fingerprint, Limits, News, Seen,
    ServiceSeen, WatchPlan, WatchState, WatchedService,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use fleet::{ARM, BEGIN, Growing, Noise, simulate};

pub const WATCH_DAYS: f64 = 30.0;
const TRIAL_DAYS: f64 = 10.0;
/// Checks a day. The product's timer makes more; looks and days are the same.
const CHECKS_A_DAY: f64 = 4.0;
/// Gaps are shorter.
const NO_DATA_SECONDS: f64 = 9.0 * 3600.0;
/// Ages are exact to a quarter of a second.
const ROUNDING: f64 = 1.0;
const CRASHES_A_DAY: f64 = 0.02;

/// What goes wrong, from a day on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// Memory of all services is this many times as much.
    Level(f64),
    /// That of one service.
    OneLevel(f64),
    /// Growth of all, a day.
    Growth(f64),
    /// Growth of all, a day, under a MemoryMax of so many times the level.
    Full(f64, f64),
    /// One process runs another build of its library.
    Library,
    /// All processes run another libc.
    Libc,
    /// The library is another file on disk.
    File,
    /// A service lost its drop-in.
    DropIn,
    /// A drop-in is not in force.
    NotInForce,
    /// An instance more.
    NewService,
    /// Crashes of each service a day.
    Crashes(f64),
    /// Kills of one service a day.
    OneIsKilled(f64),
    /// No sample any more.
    NoData,
    /// No sample of one service any more.
    OneSilent,
}

impl Event {
    /// The kind of alert that it must raise.
    pub fn kind(self) -> AlertKind {
        match self {
            Self::Level(_) | Self::OneLevel(_) => AlertKind::Level,
            Self::Growth(_) => AlertKind::Growth,
            Self::Full(..) => AlertKind::Memory,
            Self::Library | Self::Libc => AlertKind::Identity,
            Self::File => AlertKind::File,
            Self::DropIn | Self::NotInForce => AlertKind::DropIn,
            Self::NewService => AlertKind::NewService,
            Self::Crashes(_) | Self::OneIsKilled(_) => AlertKind::Failures,
            Self::NoData | Self::OneSilent => AlertKind::NoData,
        }
    }

    /// Memory of a service over what it would have, so many days after the event.
    fn factor(self, service: usize, days: f64) -> f64 {
        match self {
            Self::Level(factor) => factor,
            Self::OneLevel(factor) if service == 0 => factor,
            Self::Growth(a_day) | Self::Full(a_day, _) => (a_day * days).exp(),
            _ => 1.0,
        }
    }

    /// Failures of a service a day beside those that the trial had too.
    fn failures(self, service: usize) -> (f64, KnownEvent) {
        match self {
            Self::Crashes(a_day) => (a_day, KnownEvent::Crash),
            Self::OneIsKilled(a_day) if service == 0 => (a_day, KnownEvent::OomKill),
            _ => (0.0, KnownEvent::Crash),
        }
    }
}

/// A month.
#[derive(Debug, Clone, Copy)]
pub struct Month {
    /// Services of the trial's arm.
    pub before: usize,
    /// Services that are watched.
    pub services: usize,
    /// Whether they were restarted when the watch began, as by a rollout; else they go on from the trial.
    pub restarted: bool,
    pub noise: Noise,
    /// What goes wrong and on which day; `None` is a quiet month.
    pub event: Option<(Event, f64)>,
}

/// What was told: day, what happened, kind and text.
pub type Told = Vec<(f64, News, AlertKind, String)>;

impl Month {
    pub fn quiet(services: usize) -> Self {
        Self {
            before: services,
            services,
            restarted: services % 2 == 0,
            noise: Noise::default(),
            event: None,
        }
    }

    pub fn with(self, event: Event, day: f64) -> Self {
        Self { event: Some((event, day)), ..self }
    }

    /// The plan of the watch, and all that will be read in the month.
    pub fn begin(&self, seed: u64) -> (WatchPlan, Fleet) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let trial = simulate(self.before, -TRIAL_DAYS, 0.0, &self.noise, &|_, _| 1.0, &mut random);
        let failures_before = FailuresBefore {
            failures: (0..self.before).map(|_| count(CRASHES_A_DAY * TRIAL_DAYS, &mut random)).sum(),
            service_days: self.before as f64 * TRIAL_DAYS,
            assumed: false,
        };
        let forecast = Forecast::of_arm(&trial, &Settings::default(), ARM).expect("a forecast");
        let plan = plan(forecast, self.services, failures_before);
        let growing: Growing<'_> = &|service, day| match self.event {
            Some((event, since)) if day >= since => event.factor(service, day - since),
            _ => 1.0,
        };
        let begin = if self.restarted { 0.0 } else { -TRIAL_DAYS };
        let mut fleet = simulate(self.services, begin, WATCH_DAYS, &self.noise, growing, &mut random);
        self.cut(&mut fleet);
        (plan, fleet)
    }

    /// Lives through the month and gives what was told.
    pub fn live(&self, seed: u64) -> Told {
        let (plan, fleet) = self.begin(seed);
        let mut random = ChaCha8Rng::seed_from_u64(!seed);
        let failures = self.failures(&mut random);
        let mut state = WatchState::default();
        let mut told = Told::new();
        for check in 1..=(WATCH_DAYS * CHECKS_A_DAY) as u32 {
            let day = f64::from(check) / CHECKS_A_DAY;
            let seen = self.seen(&plan, &fleet, &failures, day);
            let due = !state.due(&plan, seen.at).is_empty();
            state.check(&plan, &seen, due.then_some(&fleet));
            told.extend(
                state.outbox.drain(..).map(|letter| (day, letter.news, letter.alert.kind, letter.alert.text)),
            );
        }
        told
    }

    /// Leaves out what the watch has no readings of.
    fn cut(&self, fleet: &mut Fleet) {
        let Some((event, since)) = self.event else { return self.cut_before(fleet) };
        let end = |service: usize| match event {
            Event::NoData => since,
            Event::OneSilent if service == 0 => since,
            _ => f64::INFINITY,
        };
        for (index, service) in fleet.services.iter_mut().enumerate() {
            for life in &mut service.lives {
                let started_at = life.started_at;
                life.readings.retain(|reading| {
                    (started_at + f64::from(reading.age_seconds) - BEGIN) / DAY < end(index)
                });
            }
        }
        self.cut_before(fleet);
    }

    fn cut_before(&self, fleet: &mut Fleet) {
        for service in &mut fleet.services {
            for life in &mut service.lives {
                let started_at = life.started_at;
                life.readings.retain(|reading| started_at + f64::from(reading.age_seconds) >= BEGIN);
            }
            service.lives.retain(|life| !life.readings.is_empty());
        }
    }

    fn failures(&self, random: &mut ChaCha8Rng) -> Vec<FailureSeen> {
        let mut failures = Vec::new();
        for service in 0..self.services {
            let mut add = |from: f64, a_day: f64, kind: KnownEvent| {
                for _ in 0..count(a_day * (WATCH_DAYS - from), random) {
                    let at = BEGIN + random.random_range(from..WATCH_DAYS) * DAY;
                    failures.push(FailureSeen { at, service: name(service), kind });
                }
            };
            add(0.0, CRASHES_A_DAY, KnownEvent::Crash);
            if let Some((event, since)) = self.event {
                let (a_day, kind) = event.failures(service);
                add(since, a_day, kind);
            }
        }
        failures
    }

    pub fn seen(&self, plan: &WatchPlan, fleet: &Fleet, failures: &[FailureSeen], day: f64) -> Seen {
        let at = BEGIN + day * DAY;
        let event = self.event.filter(|(_, since)| day >= *since).map(|(event, _)| event);
        let last = |service: usize| {
            let readings = fleet.services[service].lives.iter().flat_map(|life| {
                life.readings.iter().map(|reading| {
                    (life.started_at + f64::from(reading.age_seconds), f64::from(reading.kib) * 1024.0)
                })
            });
            readings.take_while(|reading| reading.0 <= at + ROUNDING).last()
        };
        let service = |(index, planned): (usize, &WatchedService)| {
            let mut runs = planned.runs.clone().expect("it runs something");
            match event {
                Some(Event::Library) if index == 0 => runs.build = Some("another".to_owned()),
                Some(Event::Libc) => runs.libc = Some((libc(), "another".to_owned())),
                _ => {}
            }
            let gone = event == Some(Event::DropIn) && index == 0;
            ServiceSeen {
                service: name(index),
                last_reading_at: last(index).map(|reading| reading.0),
                bytes: last(index).map(|reading| reading.1),
                lost_flags: Vec::new(),
                worked: None,
                limit_bytes: match self.event {
                    Some((Event::Full(_, times), _)) => Some(times * fleet::LEVEL_BYTES),
                    _ => Some(4.0 * fleet::LEVEL_BYTES),
                },
                stopped: None,
                runs: Some(runs),
                contamination: None,
                drop_in: Some(DropInSeen {
                    sha256: planned.drop_in.clone().filter(|_| !gone),
                    written_by_transaction: false,
                    in_force: !(event == Some(Event::NotInForce) && index == 0),
                    overridden: Vec::new(),
                }),
                ..ServiceSeen::default()
            }
        };
        let file = if event == Some(Event::File) { "another" } else { "library" };
        Seen {
            at,
            services: plan.services.iter().enumerate().map(service).collect(),
            newcomers: if event == Some(Event::NewService) { vec![name(99)] } else { Vec::new() },
            files: BTreeMap::from([(object(), Some(file.to_owned()))]),
            host_bytes: Some(1000.0 * fleet::LEVEL_BYTES),
            host_available_bytes: Some(500.0 * fleet::LEVEL_BYTES),
            failures: failures.iter().filter(|failure| failure.at <= at).cloned().collect(),
            transactions: Vec::new(),
            unreadable: Vec::new(),
        }
    }
}

fn name(service: usize) -> String {
    format!("s{service}.service")
}

fn object() -> PathBuf {
    "/usr/lib/heaptrial/allocators/libexample.so".into()
}

fn libc() -> PathBuf {
    "/usr/lib/x86_64-linux-gnu/libc.so.6".into()
}

/// A count of mean `expected`.
fn count(expected: f64, random: &mut ChaCha8Rng) -> u32 {
    if expected <= 0.0 {
        return 0;
    }
    let poisson = rand_distr::Poisson::new(expected).expect("a positive mean");
    rand_distr::Distribution::<f64>::sample(&poisson, random) as u32
}

pub fn plan(forecast: Forecast, services: usize, failures_before: FailuresBefore) -> WatchPlan {
    let runs = Fingerprint {
        allocator: "mimalloc 2.0.9".to_owned(),
        build: Some("library".to_owned()),
        settings: BTreeMap::new(),
        libc: Some((libc(), "libc".to_owned())),
    };
    let service = |index: usize| WatchedService {
        service: name(index).parse().expect("a name"),
        expected: None,
        runs: Some(runs.clone()),
        drop_in: Some("drop-in".to_owned()),
        needs_drop_in: true,
        drop_in_path: None,
        usual_work: None,
        usual_excess: None,
        not_of_unit: Vec::new(),
    };
    WatchPlan {
        schema_version: 1,
        name: "simulated".to_owned(),
        arm: ARM.to_owned(),
        trial_id: 1,
        started_at: BEGIN,
        days: WATCH_DAYS,
        metric: Metric::Rss,
        forecast,
        forecast_from: None,
        limits: Limits { no_data_seconds: NO_DATA_SECONDS, ..Limits::default() },
        failures_before,
        patterns: vec!["s*".parse().unwrap()],
        others: Vec::new(),
        services: (0..services).map(service).collect(),
        files: BTreeMap::from([(object(), "library".to_owned())]),
        channels: Channels::default(),
        installed: Vec::new(),
        made_folders: Vec::new(),
        database: None,
    }
}

/// The day of the first alert of a kind.
pub fn first(told: &Told, kind: AlertKind) -> Option<f64> {
    told.iter().find(|(_, news, of, _)| *news == News::Raised && *of == kind).map(|told| told.0)
}
