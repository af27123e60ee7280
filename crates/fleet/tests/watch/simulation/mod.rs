//! Months of services of which the truth is known, checked by the real code.
//!
//! Shared by the tests and by `bench/src/bin/calibrate_watch.rs`, each of which uses a part.
#![allow(dead_code, reason = "shared by several programs, each of which uses a part")]

mod fleet;

use std::collections::BTreeMap;
use std::path::PathBuf;

use heaptrial_evaluate::analysis::{DAY, Fleet, FleetArm, FleetLife};
use heaptrial_fleet::rollout::{Ratio, Stratum, usual_level};
use heaptrial_fleet::watch::{
    AlertChange, AlertKind, Channels, FailureSeen, FailuresBefore, Seen, ServiceSeen, WatchPlan, WatchState,
    WatchedService,
};
use heaptrial_model::{Identity, KnownEvent, Linkage, MappedLibrary, Metric};
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
    /// The C library is another file on disk.
    File,
    /// A service lost its drop-in.
    DropIn,
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
            Self::Growth(_) | Self::Full(..) => AlertKind::Growth,
            Self::Library | Self::Libc => AlertKind::Identity,
            Self::File => AlertKind::File,
            Self::DropIn => AlertKind::DropIn,
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
    /// Whether they were given their treatment when the watch began, by a rollout; else they go on from the trial, in which each had it.
    pub restarted: bool,
    pub noise: Noise,
    /// What goes wrong and on which day; `None` is a quiet month.
    pub event: Option<(Event, f64)>,
}

/// What was reported: day, what happened, kind and text.
pub type Report = (f64, AlertChange, AlertKind, String);
pub type Reported = Vec<Report>;

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
        let growing: Growing<'_> = &|service, day| match self.event {
            Some((event, since)) if day >= since => event.factor(service, day - since),
            _ => 1.0,
        };
        let failures_before = FailuresBefore {
            failures: (0..self.before).map(|_| count(CRASHES_A_DAY * TRIAL_DAYS, &mut random)).sum(),
            service_days: self.before as f64 * TRIAL_DAYS,
            assumed: false,
        };
        let (ratio, bytes, mut fleet) = match self.restarted {
            true => self.after_rollout(growing, &mut random),
            false => self.after_trial(growing, &mut random),
        };
        self.cut(&mut fleet);
        (plan((ratio, &bytes), failures_before), fleet)
    }

    /// A trial of two arms in pairs, whose treatment a rollout brings to further services. Those of the control use twice as much.
    fn after_rollout(
        &self,
        growing: Growing<'_>,
        random: &mut ChaCha8Rng,
    ) -> (Option<Ratio>, Vec<f64>, Fleet) {
        let mut trial = simulate(2 * self.before, -TRIAL_DAYS, 0.0, &self.noise, &|_, _| 1.0, random);
        trial.arms.push(FleetArm { name: "control".to_owned(), ..FleetArm::default() });
        let times = |lives: &mut Vec<FleetLife>| {
            for reading in lives.iter_mut().flat_map(|life| &mut life.readings) {
                reading.kib *= 2;
            }
        };
        for (index, service) in trial.services.iter_mut().enumerate() {
            (service.arms, service.block) = (vec![index % 2], (index / 2) as u32);
            if index % 2 == 1 {
                times(&mut service.lives);
            }
        }
        let ratio = Ratio::between(&trial, 0, 1);
        let mut fleet = simulate(self.services, -2.0, WATCH_DAYS, &self.noise, growing, random);
        let mut bytes = Vec::new();
        for service in &fleet.services {
            // What it used under the control in the two days before.
            let lives = service.lives.iter();
            let before = lives.flat_map(|life| life.readings.iter().map(|own| (life.started_at, own)));
            let before = before.filter(|(started_at, own)| started_at + f64::from(own.age_seconds) < BEGIN);
            let late = before.filter(|(_, own)| f64::from(own.age_seconds) > DAY);
            let levels: Vec<f64> = late.map(|(_, own)| 2.0 * 1024.0 * f64::from(own.kib)).collect();
            bytes.push(heaptrial_stats::median(&levels).unwrap_or(2.0 * fleet::LEVEL_BYTES));
        }
        // Restarted as the watch begins.
        for service in &mut fleet.services {
            for life in &mut service.lives {
                let shift = (BEGIN - life.started_at).max(0.0);
                life.readings.retain(|reading| f64::from(reading.age_seconds) >= shift);
                life.readings.iter_mut().for_each(|reading| reading.age_seconds -= shift as f32);
                life.started_at += shift;
            }
            service.lives.retain(|life| !life.readings.is_empty());
        }
        (ratio, bytes, fleet)
    }

    /// Services that go on as they did in the trial.
    fn after_trial(&self, growing: Growing<'_>, random: &mut ChaCha8Rng) -> (Option<Ratio>, Vec<f64>, Fleet) {
        let fleet = simulate(self.services, -TRIAL_DAYS, WATCH_DAYS, &self.noise, growing, random);
        let mut before = fleet.clone();
        before.until(BEGIN);
        let bytes = before.services.iter().map(|service| usual_level(service).expect("a level")).collect();
        (Ratio::of_their_own(&before, 0), bytes, fleet)
    }

    /// Lives through the month and gives what was reported.
    pub fn live(&self, seed: u64) -> Reported {
        let (plan, fleet) = self.begin(seed);
        let mut random = ChaCha8Rng::seed_from_u64(!seed);
        let failures = self.failures(&mut random);
        let mut state = WatchState::default();
        let mut reported = Reported::new();
        for check in 1..=(WATCH_DAYS * CHECKS_A_DAY) as u32 {
            let day = f64::from(check) / CHECKS_A_DAY;
            let seen = self.seen(&plan, &fleet, &failures, day);
            let due = !state.due(&plan, seen.at).is_empty();
            state.check(&plan, &seen, due.then_some(&fleet));
            reported.extend(
                state.pending.drain(..).map(|own| (day, own.change, own.alert.kind, own.alert.text())),
            );
        }
        reported
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
                Some(Event::Library) if index == 0 => runs.sha256 = Some("another".to_owned()),
                Some(Event::Libc) => runs.libraries[0].build_id = Some("another".to_owned()),
                _ => {}
            }
            let lacks = event == Some(Event::DropIn) && index == 0;
            ServiceSeen {
                service: name(index),
                last_reading_at: last(index).map(|reading| reading.0),
                bytes: last(index).map(|reading| reading.1),
                worked: None,
                limit_bytes: match self.event {
                    Some((Event::Full(_, times), _)) => Some(times * fleet::LEVEL_BYTES),
                    _ => Some(4.0 * fleet::LEVEL_BYTES),
                },
                stopped: None,
                runs: Some(runs),
                contamination: None,
                next_lacks: Some(if lacks { vec!["LD_PRELOAD".to_owned()] } else { Vec::new() }),
                ..ServiceSeen::default()
            }
        };
        let file = if event == Some(Event::File) { "another" } else { "libc" };
        Seen {
            at,
            services: plan.services.iter().enumerate().map(service).collect(),
            newcomers: if event == Some(Event::NewService) { vec![name(99)] } else { Vec::new() },
            files: BTreeMap::from([(libc(), Some(file.to_owned()))]),
            host_bytes: Some(1000.0 * fleet::LEVEL_BYTES),
            host_available_bytes: Some(500.0 * fleet::LEVEL_BYTES),
            failures: failures.iter().filter(|failure| failure.at <= at).cloned().collect(),
            unreadable: Vec::new(),
        }
    }
}

fn name(service: usize) -> String {
    format!("s{service}.service")
}

fn libc() -> PathBuf {
    "/usr/lib/x86_64-linux-gnu/libc.so.6".into()
}

/// What services run.
pub fn identity() -> Identity {
    Identity {
        family: "mimalloc".into(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: None,
        linkage: Linkage::Preloaded,
        settings: BTreeMap::new(),
        evidence: Vec::new(),
        ..Identity::default()
    }
}

/// A count of mean `expected`.
fn count(expected: f64, random: &mut ChaCha8Rng) -> u32 {
    if expected <= 0.0 {
        return 0;
    }
    let poisson = rand_distr::Poisson::new(expected).expect("a positive mean");
    rand_distr::Distribution::<f64>::sample(&poisson, random) as u32
}

/// The plan of a watch whose services used so many bytes before.
pub fn plan((ratio, bytes): (Option<Ratio>, &[f64]), failures_before: FailuresBefore) -> WatchPlan {
    let services = bytes.len();
    let libc = MappedLibrary {
        name: "libc.so.6".to_owned(),
        path: libc(),
        package: None,
        version: None,
        build_id: Some("libc".to_owned()),
    };
    let runs = Identity { sha256: Some("library".to_owned()), libraries: vec![libc], ..identity() };
    let service = |index: usize| WatchedService {
        service: name(index).parse().expect("a name"),
        expected: None,
        runs: Some(runs.clone()),
        usual_work: None,
        bytes: Some(bytes[index]),
    };
    WatchPlan {
        schema_version: 1,
        name: "simulated".to_owned(),
        trial: Some("simulated".to_owned()),
        arms: vec![ARM.to_owned()],
        trial_id: 1,
        started_at: BEGIN,
        days: WATCH_DAYS,
        metric: Metric::Rss,
        strata: vec![Stratum {
            name: "s*".to_owned(),
            services: (0..services).map(|index| name(index).parse().expect("a name")).collect(),
            ratio,
        }],
        no_data_seconds: NO_DATA_SECONDS,
        failures_before,
        patterns: vec!["s*".parse().unwrap()],
        others: Vec::new(),
        services: (0..services).map(service).collect(),
        files: BTreeMap::from([(self::libc(), "libc".to_owned())]),
        channels: Channels::default(),
        installed: Vec::new(),
        database: None,
    }
}

/// The day of the first alert of a kind.
pub fn first(reported: &Reported, kind: AlertKind) -> Option<f64> {
    let is_raised = |own: &&Report| own.1 == AlertChange::Raised && own.2 == kind;
    reported.iter().find(is_raised).map(|own| own.0)
}
