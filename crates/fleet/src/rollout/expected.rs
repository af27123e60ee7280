//! What a service is expected to use: what it used before, times the ratio that a trial measured.

use std::collections::BTreeMap;

use heaptrial_evaluate::analysis::{DAY, Fleet, FleetArm, FleetLife, FleetService, Forecast, Settings};
use heaptrial_model::{Reading, ServiceName};
use heaptrial_stats::{geometric_mean, median};
use serde::{Deserialize, Serialize};

/// A ratio of 1 is written as readings of so many KiB, which are whole numbers.
const UNIT_KIB: f64 = 1_048_576.0;
/// A ratio comes from so many services of the arm at least.
const FEWEST: usize = 3;
/// Ages up to this many times the oldest one that the trial saw are compared with what it showed.
const COMPARED_UP_TO: f64 = 5.0;
/// Beyond the ages that the trial saw its last ratio goes on by this much a day, or by the growth that it showed: an upper
/// bound. A slope that is carried on with its error would let everything pass.
const GROWTH_PER_DAY: f64 = 0.005;
/// Share of a life in which its memory settles.
const WARM_UP: f64 = 1.0 / 3.0;

/// Memory of an arm's services by age, each over what is known of it or of its like under another treatment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio(Forecast);

/// What a service is expected to use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    pub bytes: f64,
    /// How far one service may be from that; `None` where no ratio is known and it is held to what it used before.
    pub error: Option<RatioError>,
}

/// The error of a ratio for one further service, on the log scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioError {
    /// Standard deviation between services.
    pub spread: f64,
    /// Standard deviation of what all services share: the trial's days were not those to come.
    pub shared: f64,
    /// Services of the trial that both come from.
    pub services: u32,
}

impl Ratio {
    /// Of the services of an arm, each over its reference in bytes; `None` where too few have one.
    fn of(fleet: &Fleet, arm: usize, reference: &dyn Fn(&FleetService) -> Option<f64>) -> Option<Self> {
        let own = fleet.services.iter().filter(|service| service.arms[..] == [arm]);
        let services: Vec<FleetService> =
            own.filter_map(|own| Some(relative(own, reference(own)?))).collect();
        if services.len() < FEWEST {
            return None;
        }
        let relative = Fleet {
            arms: vec![FleetArm { control: true, ..fleet.arms[arm].clone() }],
            services,
            events: Vec::new(),
            ..fleet.clone()
        };
        Forecast::of_arm(&relative, &Settings::default(), 0).map(Self)
    }

    /// Of one arm over another, each service over those of the other arm in its block: these were alike when arms were drawn.
    pub fn between(fleet: &Fleet, arm: usize, from: usize) -> Option<Self> {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for service in fleet.services.iter().filter(|service| service.arms[..] == [from]) {
            blocks.entry(service.block).or_default().extend(level(service));
        }
        Self::of(fleet, arm, &|service| geometric_mean(blocks.get(&service.block)?))
    }

    /// Of services that keep what they run, each over its own usual level: how far they go apart from it.
    pub fn of_their_own(fleet: &Fleet, arm: usize) -> Option<Self> {
        Self::of(fleet, arm, &usual_level)
    }

    /// What a service that used `before` bytes is expected to use at an age; `None` at ages of which the trial says nothing.
    pub fn expected(&self, before: f64, age: f64) -> Option<Expected> {
        let last = self.last_age();
        let known = self.0.log_level(age.min(last)).filter(|_| age <= self.end_age())?;
        let growth = self.shown_growth().max(GROWTH_PER_DAY) * ((age - last) / DAY).max(0.0);
        Some(Expected {
            bytes: before * (known.mean + growth).exp() / (UNIT_KIB * 1024.0),
            error: Some(RatioError { spread: known.spread, shared: known.shared, services: known.services }),
        })
    }

    /// Memory of a life at an age: the median of a window that ends there, as the ratio has it.
    pub fn level_of(&self, life: &FleetLife, age: f64) -> Option<f64> {
        self.0.level_of(life, age)
    }

    /// Services of the trial that it comes from.
    pub fn services(&self) -> u32 {
        self.0.services
    }

    pub fn window_seconds(&self) -> f64 {
        self.0.window_seconds
    }

    /// The oldest age that enough services of the trial reached, in seconds.
    pub fn last_age(&self) -> f64 {
        self.0.last_age()
    }

    /// The oldest age at which services are compared with it, in seconds.
    pub fn end_age(&self) -> f64 {
        COMPARED_UP_TO * self.0.last_age()
    }

    /// Growth a day that the trial's interval holds to be above 0.
    pub fn shown_growth(&self) -> f64 {
        let growth = self.0.growth.filter(|growth| growth.low.is_some_and(|low| low > 0.0));
        growth.map_or(0.0, |growth| growth.value)
    }
}

/// A service with its readings over a reference.
fn relative(service: &FleetService, reference: f64) -> FleetService {
    let mut service = FleetService { arms: vec![0], ..service.clone() };
    for life in &mut service.lives {
        life.peaks.clear();
        for reading in &mut life.readings {
            reading.kib = (f64::from(reading.kib) * 1024.0 / reference * UNIT_KIB).round() as u32;
        }
    }
    service
}

/// The longest life that ran its treatment: memory of a young one has not settled.
fn treated_life(service: &FleetService) -> Option<&FleetLife> {
    let treated = service.lives.iter().filter(|life| life.contamination.is_none());
    treated
        .filter_map(|life| Some((life.last_age()?, life)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|own| own.1)
}

/// The median in bytes of readings from an age on.
pub(crate) fn median_from(readings: &[Reading], age: f64) -> Option<f64> {
    let late = readings.iter().filter(|reading| f64::from(reading.age_seconds) >= age);
    let values: Vec<f64> = late.map(|reading| f64::from(reading.kib) * 1024.0).collect();
    median(&values).filter(|bytes| *bytes > 0.0)
}

/// Memory of a service in bytes: over the last day of its longest life, or the second half of a shorter one.
pub fn level(service: &FleetService) -> Option<f64> {
    let life = treated_life(service)?;
    let age = life.last_age()?;
    median_from(&life.readings, (age / 2.0).max(age - DAY))
}

/// Memory of a service in bytes, over all of its longest life but its warm-up.
pub fn usual_level(service: &FleetService) -> Option<f64> {
    let life = treated_life(service)?;
    median_from(&life.readings, WARM_UP * life.last_age()?)
}

/// Services of a trial of one kind, with an arm's ratios to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// The unit template, such as `tor@*`.
    template: String,
    relay: bool,
    /// By the name of the arm that a service ran before; that of the arm itself is over each service's own level.
    ratios: BTreeMap<String, Ratio>,
}

/// Services of a rollout or a watch that are held to one ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stratum {
    /// What they have in common: unit template, whether they are relays, and what they ran before.
    pub name: String,
    pub services: Vec<ServiceName>,
    /// Memory over that of before; without one each is held to what it used before.
    pub ratio: Option<Ratio>,
}

impl Stratum {
    /// What a service of it that used `before` bytes is expected to use at an age.
    pub fn expected(&self, before: f64, age: f64) -> Option<Expected> {
        match &self.ratio {
            Some(ratio) => ratio.expected(before, age),
            None => Some(Expected { bytes: before, error: None }),
        }
    }

    /// Whether the trial saw no service so old.
    pub(crate) fn is_younger_than(&self, age: f64) -> bool {
        self.ratio.as_ref().is_some_and(|ratio| age > ratio.end_age())
    }
}

/// The kinds of services of a trial, with the ratios of an arm to every other.
pub fn kinds(fleet: &Fleet, arm: usize, is_relay: &dyn Fn(&str) -> bool) -> Vec<Kind> {
    let mut kinds: BTreeMap<(String, bool), Vec<FleetService>> = BTreeMap::new();
    for service in &fleet.services {
        let kind = (template(&service.name), is_relay(&service.name));
        kinds.entry(kind).or_default().push(service.clone());
    }
    let of = |((template, relay), services): ((String, bool), Vec<FleetService>)| {
        let own = Fleet { services, events: Vec::new(), ..fleet.clone() };
        let ratio = |from: usize| match from == arm {
            true => Ratio::of_their_own(&own, arm),
            false => Ratio::between(&own, arm, from),
        };
        let named = |from: usize| Some((fleet.arms[from].name.clone(), ratio(from)?));
        Kind { template, relay, ratios: (0..fleet.arms.len()).filter_map(named).collect() }
    };
    kinds.into_iter().map(of).collect()
}

/// The strata of services; `ran` gives the arm whose treatment a service was under when it used what is known of it, if that is one of
/// the trial's.
pub fn strata(
    kinds: &[Kind],
    services: &[ServiceName],
    is_relay: &dyn Fn(&str) -> bool,
    ran: &dyn Fn(&ServiceName) -> Option<String>,
) -> Vec<Stratum> {
    let mut found: BTreeMap<(String, bool, Option<String>), Vec<ServiceName>> = BTreeMap::new();
    for service in services {
        let stratum = (template(service.as_str()), is_relay(service.as_str()), ran(service));
        found.entry(stratum).or_default().push(service.clone());
    }
    let of = |((template, relay, from), services): ((String, bool, Option<String>), Vec<ServiceName>)| {
        let kind = kinds.iter().find(|kind| kind.template == template && kind.relay == relay);
        let ratio = kind.and_then(|kind| kind.ratios.get(from.as_deref()?)).cloned();
        let kind = if relay { format!("{template} relays") } else { template };
        let name = from.map_or(kind.clone(), |from| format!("{kind} from {from}"));
        Stratum { name, services, ratio }
    };
    found.into_iter().map(of).collect()
}

/// The unit template, such as `tor@*`; of other units the name without the number at its end.
fn template(service: &str) -> String {
    // Of a trial over several hosts.
    let service = service.rsplit_once('/').map_or(service, |(_, unit)| unit);
    if let Some((template, _)) = service.split_once('@') {
        return format!("{template}@*");
    }
    let stem = service.strip_suffix(".service").unwrap_or(service);
    let kind = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    if kind.len() < stem.len() && !kind.is_empty() { format!("{kind}*") } else { stem.to_owned() }
}
