//! Load that all services share moves their slopes alike, and no number of services averages it out.

use heaptrial_stats::{Trend, bend, median, slope_half_width, without_bend};
use rayon::prelude::*;

use crate::analysis::age::in_sawtooth;
use crate::analysis::data::Data;
use crate::analysis::outcome::{DAY, ServiceResult};
use crate::analysis::service::{growth_points, logs};

/// Spans of equal length into which the time is cut: as many as services have readings, at most. More say no more about a slope.
const SPANS: usize = 40;

/// The trajectory of an arm as a whole, as far as it bears on growth.
pub(crate) struct SharedLoad {
    /// Half-width of the interval of growth by what services have in common, as a share a day; `None` where they do not rise
    /// and fall together more than by chance.
    pub(crate) half_width: Option<f64>,
    /// Whether growth in bytes slows down by more than the trajectory does by chance.
    pub(crate) slows_down: bool,
}

/// The interval of growth over services takes them as independent. So the arm's own trajectory over time, the median over
/// services of what their straight lines leave, is taken as an AR(1) process around a line ([`slope_half_width`]).
///
/// Growth that is straight in bytes bends on the log scale, and growth that levels off bends on both: in all services alike,
/// though they share no load. So where the trajectory is shown to bend, each service is taken beside its own bend.
///
/// Neither for an arm that is restarted at intervals, or with too few readings.
pub(crate) fn of_arm(data: Data<'_>, members: &[usize]) -> SharedLoad {
    let level = data.settings.confidence_level;
    let on_logs =
        |points: &[(f64, f64)], service: &ServiceResult| Some((logs(points), service.growth_log_per_day?));
    // In proportion to its median, so that services of all sizes are alike.
    let in_bytes = |points: &[(f64, f64)], service: &ServiceResult| {
        let values: Vec<f64> = points.iter().map(|point| point.1).collect();
        let middle = median(&values).filter(|middle| *middle > 0.0)?;
        let points = points.iter().map(|(age, value)| (*age, value / middle)).collect();
        Some((points, service.growth_bytes_per_day? / middle))
    };
    // Whether growth slows down is looked at over all of each life.
    let whole = data.ages.of_whole_lives();
    SharedLoad {
        half_width: trajectories(data, members, on_logs).and_then(|found| found.half_width(level)),
        slows_down: trajectories(data.at(&whole), members, in_bytes)
            .and_then(|found| bend(&found.middle(), level))
            .is_some_and(|bend| bend.is_shown() && bend.value < 0.0),
    }
}

/// Of each service what its line leaves. `scale` gives its points of growth and its slope.
fn trajectories(
    data: Data<'_>,
    members: &[usize],
    scale: impl Fn(&[(f64, f64)], &ServiceResult) -> Option<(Vec<(f64, f64)>, f64)> + Sync,
) -> Option<Trajectories> {
    let left = |index: &usize| {
        let service = &data.fleet.services[*index];
        let start = service.current().filter(|_| !in_sawtooth(service, data.ages))?.started_at / DAY;
        let points = growth_points(service, data.ages, data.settings, 1.0);
        let (points, slope) = scale(&points, &data.services[*index])?;
        let left: Vec<(f64, f64)> =
            points.iter().map(|(age, value)| (start + age, value - slope * age)).collect();
        let middle = median(&left.iter().map(|point| point.1).collect::<Vec<_>>())?;
        Some(left.iter().map(|(at, value)| (*at, value - middle)).collect::<Vec<_>>())
    };
    Trajectories::of(&members.par_iter().filter_map(left).collect::<Vec<_>>())
}

/// What services did over the same spans of time.
struct Trajectories {
    /// Length of a span, in days.
    length: f64,
    of: Vec<Vec<Option<f64>>>,
}

impl Trajectories {
    fn of(services: &[Vec<(f64, f64)>]) -> Option<Self> {
        let times = || services.iter().flatten().map(|point| point.0);
        let (first, last) = (times().min_by(f64::total_cmp)?, times().max_by(f64::total_cmp)?);
        let readings = median(&services.iter().map(|service| service.len() as f64).collect::<Vec<_>>())?;
        let spans = (readings as usize).clamp(1, SPANS);
        let length = (last - first) / spans as f64;
        let span = |at: f64| (((at - first) / length) as usize).min(spans - 1);
        let trajectory = |service: &Vec<(f64, f64)>| {
            let mut trajectory = vec![None; spans];
            for chunk in service.chunk_by(|a, b| span(a.0) == span(b.0)) {
                let mean = chunk.iter().map(|point| point.1).sum::<f64>() / chunk.len() as f64;
                trajectory[span(chunk[0].0)] = Some(mean);
            }
            trajectory
        };
        (length > 0.0).then(|| Self { length, of: services.iter().map(trajectory).collect() })
    }

    /// (days, median over services), of spans in which half of them have a value.
    fn middle(&self) -> Vec<(f64, f64)> {
        let known = |place: usize| {
            let values: Vec<f64> = self.of.iter().filter_map(|trajectory| trajectory[place]).collect();
            (2 * values.len() >= self.of.len()).then(|| median(&values)).flatten()
        };
        let spans = self.of.first().map_or(0, Vec::len);
        (0..spans).filter_map(|place| Some((self.length * place as f64, known(place)?))).collect()
    }

    /// What is left where each service goes along a bend of its own.
    fn without_bends(self) -> Self {
        let straight = |mut trajectory: Vec<Option<f64>>| {
            let points = trajectory.iter().enumerate();
            let points: Vec<(f64, f64)> =
                points.filter_map(|(place, value)| Some((place as f64, (*value)?))).collect();
            for ((place, _), value) in points.iter().zip(without_bend(&points)) {
                trajectory[*place as usize] = Some(value);
            }
            trajectory
        };
        Self { of: self.of.into_iter().map(straight).collect(), ..self }
    }

    fn half_width(self, level: f64) -> Option<f64> {
        let (trajectories, trend) = match bend(&self.middle(), level) {
            Some(bend) if bend.is_shown() => (self.without_bends(), Trend::Bent),
            _ => (self, Trend::Straight),
        };
        is_shared(&trajectories.of).then(|| slope_half_width(&trajectories.middle(), level, trend)).flatten()
    }
}

/// Whether services rise and fall together more than by chance: the sum of the products of their trajectories, two by two, against
/// its error if each trajectory could as well be upside down (a sign-flip test by its first two moments).
///
/// Both come from sums over spans, since pairs are too many in a large arm: the squares of all products of two trajectories sum
/// to the squares of all products of two spans.
fn is_shared(trajectories: &[Vec<Option<f64>>]) -> bool {
    let mut sums = [0.0; SPANS];
    let mut products = [[0.0; SPANS]; SPANS];
    let (mut own, mut own_squared) = (0.0, 0.0);
    for trajectory in trajectories {
        let known: Vec<(usize, f64)> =
            trajectory.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?))).collect();
        for (place, value) in &known {
            sums[*place] += value;
            known.iter().for_each(|(other, with)| products[*place][*other] += value * with);
        }
        let square: f64 = known.iter().map(|(_, value)| value * value).sum();
        own += square;
        own_squared += square * square;
    }
    let of_pairs = |all: f64, own: f64| (all - own) / 2.0;
    let together = of_pairs(sums.iter().map(|sum| sum * sum).sum(), own);
    let squares = of_pairs(products.iter().flatten().map(|product| product * product).sum(), own_squared);
    // By more than one standard error: load that is too weak to be seen widens no interval, and chance widens one in six.
    together > squares.max(0.0).sqrt()
}
