//! Ages: whose are known, and at which age services are compared.

use heaptrial_model::LifeStart;

use heaptrial_stats::median;

use crate::fleet::{Fleet, FleetLife, FleetService};
use crate::outcome::Settings;

/// Services of an arm that may be too young to be compared, as a share.
const TOO_YOUNG_SHARE: f64 = 0.1;
/// In an arm of this many services or more one may be, if it is younger than this share of the median age.
const FEWEST_TO_LEAVE_ONE_OUT: usize = 5;
const FAR_YOUNGER: f64 = 0.5;
/// Starts are inferred from readings; ages closer than this share are taken as equal.
const TOLERANCE_SHARE: f64 = 0.001;
/// A life that began anew needs as long a warm-up as the others: as these, the oldest tenth of an arm left out.
const OLDEST_SHARE: f64 = 0.1;
/// Growth is measured over days common to all arms if that leaves this share of each arm's time after warm-up.
const COMMON_SHARE: f64 = 0.4;
/// Lives of about equal length, and so many of them, are restarts on purpose.
const PERIODIC_LIVES: usize = 4;
const PERIODIC_SPREAD: f64 = 0.25;

/// What is known of the ages of a fleet.
#[derive(Debug, Clone)]
pub(crate) struct Ages {
    /// Most starts are unknown, so ages count from first readings for all.
    pub(crate) lower_bounds: bool,
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
}

impl Ages {
    pub(crate) fn of(fleet: &Fleet, settings: &Settings) -> Self {
        let current = || fleet.services.iter().filter_map(FleetService::current);
        let unknown = current().filter(|life| !life.age_known()).count();
        let lower_bounds = 2 * unknown > current().count();
        let sawtooth: Vec<bool> = (0..fleet.arms.len()).map(|arm| is_sawtooth(fleet, arm)).collect();
        let mut ages = Self { lower_bounds, sawtooth, matched: None, warm_up: 0.0, growth_from: None };
        let compared = |arm: &usize| fleet.arms[*arm].earlier_list_of.is_none() && !ages.sawtooth[*arm];
        let arms: Vec<usize> = (0..fleet.arms.len()).filter(compared).collect();
        let sorted: Vec<Vec<f64>> = arms.iter().map(|arm| ages.sorted(fleet, *arm)).collect();
        let reached = sorted.iter().filter_map(|ages| reached_by_most(ages));
        ages.matched = reached.min_by(f64::total_cmp);
        let place = |of: &[f64]| (of.len() as f64 * (1.0 - OLDEST_SHARE)) as usize;
        let long = sorted.iter().filter_map(|ages| ages.get(place(ages)).copied());
        ages.warm_up = settings.warm_up_share * long.min_by(f64::total_cmp).unwrap_or(0.0);
        ages.growth_from = growth_from(fleet, settings, &arms);
        ages
    }

    /// Whether the life's age may be compared to others'.
    pub(crate) fn usable(&self, life: &FleetLife) -> bool {
        self.lower_bounds || life.age_known()
    }

    /// Whether the life reached the matched age.
    pub(crate) fn reached(&self, life: &FleetLife) -> bool {
        match (self.matched, life.last_age()) {
            (Some(matched), Some(age)) => age >= matched - tolerance(life, matched),
            _ => false,
        }
    }

    /// The known ages of the services of an arm.
    fn sorted(&self, fleet: &Fleet, arm: usize) -> Vec<f64> {
        let lives = members(fleet, arm).filter_map(|service| service.current());
        let mut ages: Vec<f64> =
            lives.filter(|life| self.usable(life)).filter_map(|life| life.last_age()).collect();
        ages.sort_unstable_by(f64::total_cmp);
        ages
    }
}

/// The age that all but a tenth of an arm's services reached. In a small arm that is all of them; there one that was
/// just restarted is left out in place of bringing the others to its age.
fn reached_by_most(sorted: &[f64]) -> Option<f64> {
    let left_out = (sorted.len() as f64 * TOO_YOUNG_SHARE) as usize;
    let far_younger = sorted.first()? < &(FAR_YOUNGER * median(sorted)?);
    let may_be_left_out = sorted.len() >= FEWEST_TO_LEAVE_ONE_OUT && far_younger;
    sorted.get(left_out.max(usize::from(may_be_left_out))).copied()
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
            let warm = over(&|life| Some(life.started_at + settings.warm_up_share * life.last_age()?))?;
            Some((warm, over(&|life| Some(life.started_at + life.last_age()?))?))
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

fn is_sawtooth(fleet: &Fleet, arm: usize) -> bool {
    let count = members(fleet, arm).count();
    let periodic = members(fleet, arm).filter(|service| is_periodic(service)).count();
    fleet.arms[arm].restarted || (count > 0 && 2 * periodic > count)
}

/// Whether a service belongs to an arm that is restarted at intervals.
pub(crate) fn in_sawtooth(service: &FleetService, ages: &Ages) -> bool {
    service.arms.first().is_some_and(|arm| ages.sawtooth[*arm])
}

/// Whether a service's complete lives are many and of about equal length.
fn is_periodic(service: &FleetService) -> bool {
    let known = service.lives.iter().filter(|life| life.age_known()).collect::<Vec<_>>();
    let lengths: Vec<f64> = known.windows(2).map(|pair| pair[1].started_at - pair[0].started_at).collect();
    if lengths.len() < PERIODIC_LIVES {
        return false;
    }
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let variance = lengths.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / lengths.len() as f64;
    variance.sqrt() < PERIODIC_SPREAD * mean
}
