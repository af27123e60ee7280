//! Ages: whose are known, and at which age services are compared.

use heaptrial_model::LifeStart;

use heaptrial_stats::median;

use crate::analysis::fleet::{Clock, Fleet, FleetLife, FleetService};
use crate::analysis::outcome::Settings;
use crate::analysis::thresholds::{ENOUGH, USUAL_SHARE};

/// Starts are inferred from readings; ages closer than this share are taken as equal.
pub(crate) const TOLERANCE_SHARE: f64 = 0.001;
/// Growth is measured over days common to all arms if that leaves this share of each arm's time after warm-up.
const COMMON_SHARE: f64 = 0.4;

#[derive(Debug, Clone)]
pub(crate) struct Ages {
    /// The arms most of whose starts are unknown: their ages count from first readings.
    pub(crate) lower_bounds: Vec<bool>,
    /// The arms that are restarted at intervals.
    pub(crate) sawtooth: Vec<bool>,
    /// The age at which services are compared, in seconds.
    pub(crate) matched: Option<f64>,
    /// The least age in seconds from which growth is measured: the warm-up of the arm whose lives are shortest. A life
    /// of some hours after an unplanned restart still settles when its own share of warm-up is over.
    pub(crate) warm_up: f64,
    /// From when on every arm is past its warm-up, in seconds since 1970: growth is measured over the same days of
    /// load in all arms. `None` where that would leave too little.
    pub(crate) growth_from: Option<f64>,
    /// Where arms are restarted on purpose: from when on every arm ran its treatment, in seconds since
    /// 1970. Averages over time begin there.
    pub(crate) average_from: Option<f64>,
}

impl Ages {
    pub(crate) fn of(fleet: &Fleet, settings: &Settings) -> Self {
        let unknown = |arm: usize| {
            let lives: Vec<&FleetLife> = members(fleet, arm).filter_map(FleetService::current).collect();
            2 * lives.iter().filter(|life| !life.age_known()).count() > lives.len()
        };
        let sawtooth: Vec<bool> = fleet.arms.iter().map(|arm| arm.restarted).collect();
        let arms: Vec<usize> = (0..fleet.arms.len()).filter(|arm| !sawtooth[*arm]).collect();
        let mut ages = Self {
            lower_bounds: (0..fleet.arms.len()).map(unknown).collect(),
            average_from: average_from(fleet, &sawtooth),
            sawtooth,
            matched: None,
            warm_up: 0.0,
            growth_from: None,
        };
        let sorted: Vec<Vec<f64>> = arms.iter().map(|arm| ages.sorted(fleet, *arm)).collect();
        ages.matched = match fleet.clock {
            // The one whose load was done soonest, but not for the start-up of all.
            Clock::ByLoad => {
                let soonest = sorted.iter().filter_map(|ages| ages.first().copied()).min_by(f64::total_cmp);
                let kept = most_kept(&sorted);
                soonest.filter(|age| kept.is_none_or(|kept| 2.0 * age >= kept)).or(kept)
            }
            Clock::Calendar | Clock::InTurn | Clock::Hastened => most_kept(&sorted),
        };
        // A life that began anew needs as long a warm-up as the others: as these, the oldest tenth of an arm left out.
        let place = |of: &[f64]| (of.len() as f64 * USUAL_SHARE) as usize;
        let long = sorted.iter().filter_map(|ages| ages.get(place(ages)).copied());
        ages.warm_up = settings.warm_up_of(long.min_by(f64::total_cmp).unwrap_or(0.0));
        ages.growth_from = match fleet.clock.has_calendar() {
            true => growth_from(fleet, settings, &arms),
            false => None,
        };
        ages
    }

    /// Growth by these is measured over all of each life after its warm-up, and not only over the days that arms have in common.
    pub(crate) fn of_whole_lives(&self) -> Self {
        Self { growth_from: None, ..self.clone() }
    }

    /// Whether the life's age may be compared to others'.
    pub(crate) fn usable(&self, service: &FleetService, life: &FleetLife) -> bool {
        life.age_known() || service.arms.iter().any(|arm| self.lower_bounds[*arm])
    }

    pub(crate) fn reached(&self, life: &FleetLife) -> bool {
        match (self.matched, life.last_age()) {
            (Some(matched), Some(age)) => age >= matched - tolerance(life, matched),
            _ => false,
        }
    }

    /// The known ages of the services of an arm.
    fn sorted(&self, fleet: &Fleet, arm: usize) -> Vec<f64> {
        let age = |service: &FleetService| {
            let life = service.current()?;
            if self.usable(service, life) { life.last_age() } else { None }
        };
        let mut ages: Vec<f64> = members(fleet, arm).filter_map(age).collect();
        ages.sort_unstable_by(f64::total_cmp);
        ages
    }
}

/// The age that keeps most: of all ages that half of every arm's services or more reached, the one whose product with
/// the square of the least such share is highest. A few services that were just restarted are left out in place of bringing all
/// others to their age. `sorted` are the ages by arm, the youngest first; an arm without any is passed over.
pub(crate) fn most_kept(sorted: &[Vec<f64>]) -> Option<f64> {
    let arms: Vec<&Vec<f64>> = sorted.iter().filter(|ages| !ages.is_empty()).collect();
    let kept = |age: f64| {
        let share = |ages: &&Vec<f64>| {
            let younger = ages.partition_point(|other| *other < age * (1.0 - TOLERANCE_SHARE));
            (ages.len() - younger) as f64 / ages.len() as f64
        };
        arms.iter().map(share).fold(1.0, f64::min)
    };
    let candidates = arms.iter().flat_map(|ages| ages.iter().copied());
    let scored = candidates.map(|age| (age, kept(age))).filter(|(_, share)| *share >= ENOUGH);
    let score = |(age, share): &(f64, f64)| age * share * share;
    scored.max_by(|a, b| score(a).total_cmp(&score(b))).map(|(age, _)| age)
}

/// Where some arm is restarted on purpose: when the last arm began, by medians over services. Of an arm that is
/// restarted that is the first known start, of another that of the life that goes on.
fn average_from(fleet: &Fleet, sawtooth: &[bool]) -> Option<f64> {
    if !sawtooth.contains(&true) {
        return None;
    }
    let began = |arm: usize| {
        let start = |service: &FleetService| {
            let first_known =
                || service.lives.iter().find(|life| life.age_known()).map(|life| life.started_at);
            let current = service.current().map(|life| life.started_at);
            if sawtooth[arm] { first_known().or(current) } else { current }
        };
        median(&members(fleet, arm).filter_map(start).collect::<Vec<_>>())
    };
    (0..sawtooth.len()).filter_map(began).max_by(f64::total_cmp)
}

/// The latest end of an arm's warm-up, if enough of every arm's time is left after it.
fn growth_from(fleet: &Fleet, settings: &Settings, arms: &[usize]) -> Option<f64> {
    // By arm: end of warm-up and last reading, medians over services.
    let spans: Vec<(f64, f64)> = arms
        .iter()
        .filter_map(|arm| {
            let lives = || members(fleet, *arm).filter_map(FleetService::current);
            let over = |value: &dyn Fn(&FleetLife) -> Option<f64>| {
                median(&lives().filter_map(value).collect::<Vec<_>>())
            };
            let warm = over(&|life| Some(life.started_at + settings.warm_up_of(life.last_age()?)))?;
            Some((warm, over(&FleetLife::last_at)?))
        })
        .collect();
    let from = spans.iter().map(|span| span.0).max_by(f64::total_cmp)?;
    let left = |(warm, end): &(f64, f64)| end - from >= COMMON_SHARE * (end - warm);
    spans.iter().all(left).then_some(from)
}

/// How far an age may be off. The far ends of an inferred start are not believed for all of a life's length.
pub(crate) fn tolerance(life: &FleetLife, age: f64) -> f64 {
    let inferred = match life.start {
        LifeStart::Inferred { uncertainty_us } => (uncertainty_us as f64 / 1e6).min(0.05 * age),
        LifeStart::Observed | LifeStart::Unknown => 0.0,
    };
    inferred.max(TOLERANCE_SHARE * age)
}

/// The services that were put into an arm.
pub(crate) fn members(fleet: &Fleet, arm: usize) -> impl Iterator<Item = &FleetService> {
    fleet.services.iter().filter(move |service| service.arms.contains(&arm))
}

/// Whether a service belongs to an arm that is restarted at intervals.
pub(crate) fn in_sawtooth(service: &FleetService, ages: &Ages) -> bool {
    service.arms.first().is_some_and(|arm| ages.sawtooth[*arm])
}
