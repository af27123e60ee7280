//! Memory over age on a grid that all services of a fleet share.

use heaptrial_stats::{median, trajectory_distance};
use rayon::prelude::*;

use crate::analysis::age::Ages;
use crate::analysis::fleet::{Fleet, FleetLife, FleetService};
use crate::analysis::service::memory_at;

/// Ages at which services are held against their arms.
const GRID: usize = 64;
/// The first part of a life is left out of distances: all allocators start from nothing.
const START_SHARE: f64 = 0.1;
/// Above this many services the median of an arm is not made anew without the one that is compared to it.
const LEAVE_ONE_OUT_AT_MOST: usize = 60;

/// Logarithms of memory on a common grid of ages.
#[derive(Debug)]
pub(crate) struct Curves {
    ages: Vec<f64>,
    /// One for each service: `NaN` where it has no readings near.
    services: Vec<Vec<f32>>,
    longest_gap: f64,
}

/// An arm's median logarithm over age.
pub(crate) type Curve = Vec<(f64, f64)>;

/// A service beside a curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Apart {
    /// Mean absolute difference of logarithms over age.
    pub(crate) distance: f64,
    pub(crate) drift: Option<f64>,
}

impl Curves {
    pub(crate) fn of(fleet: &Fleet, ages: &Ages) -> Self {
        let current: Vec<Option<&FleetLife>> = fleet.services.iter().map(FleetService::current).collect();
        let oldest = current.iter().flatten().filter_map(|life| life.last_age()).fold(0.0, f64::max);
        let horizon = ages.matched.map_or(oldest, |matched| oldest.min(1.5 * matched));
        let grid: Vec<f64> = (0..GRID)
            .map(|i| horizon * (START_SHARE + (1.0 - START_SHARE) * i as f64 / (GRID - 1) as f64))
            .collect();
        let services = fleet
            .services
            .par_iter()
            .map(|service| match service.current() {
                Some(life) if ages.usable(service, life) => {
                    // On the log scale between neighbouring readings; nothing before the first or after the last one.
                    let at = |age: &f64| memory_at(life, *age, f64::INFINITY);
                    grid.iter().map(|age| at(age).map_or(f32::NAN, |bytes| bytes.ln() as f32)).collect()
                }
                _ => vec![f32::NAN; GRID],
            })
            .collect();
        Self { longest_gap: 4.0 * horizon / GRID as f64, ages: grid, services }
    }

    /// Whether a service would pull the median of so many.
    pub(crate) fn pulls(services: usize) -> bool {
        services <= LEAVE_ONE_OUT_AT_MOST
    }

    /// The median of `services`, without `left_out`.
    pub(crate) fn median_of(&self, services: &[usize], left_out: Option<usize>) -> Curve {
        let at = |(place, age): (usize, &f64)| {
            let kept = services.iter().filter(|index| Some(**index) != left_out);
            let values = kept.map(|index| f64::from(self.services[*index][place]));
            let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
            // A median of few of an arm's services jumps where one of them ends.
            let is_enough = 2 * values.len() >= services.len();
            Some((*age, median(&values).filter(|_| is_enough)?))
        };
        self.ages.iter().enumerate().filter_map(at).collect()
    }

    /// Mean absolute difference of logarithms between a service and a curve, and their [`drift`].
    pub(crate) fn apart(&self, service: usize, curve: &Curve) -> Option<Apart> {
        let own: Vec<(f64, f64)> = self
            .ages
            .iter()
            .zip(&self.services[service])
            .filter(|(_, value)| value.is_finite())
            .map(|(age, value)| (*age, f64::from(*value)))
            .collect();
        let distance = trajectory_distance(&own, curve, self.longest_gap)?;
        Some(Apart { distance, drift: drift(&own, curve) })
    }
}

/// How far a service came away from a curve over age: the median of its differences over the last third of the ages that both
/// have less that over the first third. `None` of fewer than 6 ages.
fn drift(own: &[(f64, f64)], curve: &Curve) -> Option<f64> {
    let at = |age: f64| {
        let place = curve.partition_point(|point| point.0 < age);
        curve.get(place).filter(|point| point.0 == age).map(|point| point.1)
    };
    let apart: Vec<f64> = own.iter().filter_map(|(age, log)| Some(log - at(*age)?)).collect();
    let third = apart.len() / 3;
    if third < 2 {
        return None;
    }
    Some(median(&apart[apart.len() - third..])? - median(&apart[..third])?)
}
