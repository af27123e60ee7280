//! What services share when the load of a fleet rises and falls.

use heaptrial_stats::{Trend, bend, median, slope_half_width, student_quantile, without_bend};
use rayon::prelude::*;

use crate::analysis::age::{Ages, in_sawtooth};
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{DAY, ServiceResult, Settings};
use crate::analysis::service::{growth_points, logs};

/// Stretches of equal length into which the time is cut: as many as services have readings, at most
const STRETCHES: usize = 40;
/// Fewer stretches with readings tell nothing about how one depends on the one before.
const FEWEST: usize = 8;
/// Correlation of neighbouring stretches at most: a random walk has no slope to be wrong about.
const CORRELATION_AT_MOST: f64 = 0.97;
/// Services share a course if their products are so many errors above none.
const SHARED: f64 = 1.0;
/// Independent stretches that the data are worth at least.
const FEWEST_FREE: f64 = 3.0;

/// What the course of an arm as a whole tells of its growth.
pub(crate) struct Common {
    /// Half-width of the interval of growth by what services have in common, as a share a day; `None` where they do not rise
    /// and fall together more than by chance.
    pub(crate) half_width: Option<f64>,
    /// Whether growth in bytes slows down by more than what the course does beside.
    pub(crate) slows_down: bool,
}

/// What the course of an arm tells.
///
/// The interval over services takes them as independent; load that all of them share moves all slopes alike, and
/// no number of services averages it out. So the arm's own course over time, the median over services of what their
/// straight lines leave, is taken as an AR(1) process around a line ([`slope_half_width`]).
///
/// Growth that is straight in bytes bends on the log scale, and growth that levels off bends on both: in all services alike,
/// though they share nothing. So lines are straight on the scale on which less is left, and where the course is shown to bend,
/// what is asked to be shared is what each service has beside its bend.
///
/// Neither for an arm that is restarted at intervals, or with too few readings.
pub(crate) fn of_arm(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[usize],
) -> Common {
    // Whether growth slows down is looked at over all of each life.
    let own = Ages { growth_from: None, ..ages.clone() };
    let courses = |ages: &Ages, scale: Scale| {
        let left = |index: &usize| {
            let service = &fleet.services[*index];
            let start = service.current().filter(|_| !in_sawtooth(service, ages))?.started_at / DAY;
            let (points, slope) = scale(&growth_points(service, ages, settings, 1.0), &services[*index])?;
            let left: Vec<(f64, f64)> =
                points.iter().map(|(age, value)| (start + age, value - slope * age)).collect();
            let middle = median(&left.iter().map(|point| point.1).collect::<Vec<_>>())?;
            Some(left.iter().map(|(at, value)| (*at, value - middle)).collect::<Vec<_>>())
        };
        Courses::of(&members.par_iter().filter_map(left).collect::<Vec<_>>())
    };
    let level = settings.confidence_level;
    Common {
        half_width: courses(ages, on_logs).and_then(|on_logs| {
            let in_bytes = courses(ages, beside_line).filter(|courses| courses.fits_better_than(&on_logs));
            in_bytes.unwrap_or(on_logs).half_width(level)
        }),
        slows_down: courses(&own, in_bytes)
            .and_then(|courses| bend(&courses.middle(), level))
            .is_some_and(|bend| bend.is_shown() && bend.value < 0.0),
    }
}

/// Points of growth of a service and its slope, on a scale on which services of all sizes are alike.
type Scale = fn(&[(f64, f64)], &ServiceResult) -> Option<(Vec<(f64, f64)>, f64)>;

fn on_logs(points: &[(f64, f64)], service: &ServiceResult) -> Option<(Vec<(f64, f64)>, f64)> {
    Some((logs(points), service.growth_log_per_day?))
}

/// The logarithm of memory over that of a line that is straight in bytes; `None` where the line or memory is not above 0.
fn beside_line(points: &[(f64, f64)], service: &ServiceResult) -> Option<(Vec<(f64, f64)>, f64)> {
    let slope = service.growth_bytes_per_day?;
    let begin = median(&points.iter().map(|(age, bytes)| bytes - slope * age).collect::<Vec<_>>())?;
    let log = |(age, bytes): &(f64, f64)| {
        let line = begin + slope * age;
        (line > 0.0 && *bytes > 0.0).then(|| (*age, (bytes / line).ln()))
    };
    Some((points.iter().map(log).collect::<Option<Vec<_>>>()?, 0.0))
}

/// In proportion to its median.
fn in_bytes(points: &[(f64, f64)], service: &ServiceResult) -> Option<(Vec<(f64, f64)>, f64)> {
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let middle = median(&values).filter(|middle| *middle > 0.0)?;
    let points = points.iter().map(|(age, value)| (*age, value / middle)).collect();
    Some((points, service.growth_bytes_per_day? / middle))
}

/// The courses of services over stretches of equal length.
struct Courses {
    /// Of a stretch, in days.
    length: f64,
    of: Vec<Vec<Option<f64>>>,
}

impl Courses {
    fn of(services: &[Vec<(f64, f64)>]) -> Option<Self> {
        let times = || services.iter().flatten().map(|point| point.0);
        let (first, last) = (times().min_by(f64::total_cmp)?, times().max_by(f64::total_cmp)?);
        let readings = median(&services.iter().map(|service| service.len() as f64).collect::<Vec<_>>())?;
        let stretches = (readings as usize).clamp(1, STRETCHES);
        let length = (last - first) / stretches as f64;
        let stretch = |at: f64| (((at - first) / length) as usize).min(stretches - 1);
        let course = |service: &Vec<(f64, f64)>| {
            let mut course = vec![None; stretches];
            for chunk in service.chunk_by(|a, b| stretch(a.0) == stretch(b.0)) {
                let mean = chunk.iter().map(|point| point.1).sum::<f64>() / chunk.len() as f64;
                course[stretch(chunk[0].0)] = Some(mean);
            }
            course
        };
        (length > 0.0).then(|| Self { length, of: services.iter().map(course).collect() })
    }

    /// (days, median over services), of stretches in which half of them have a value.
    fn middle(&self) -> Vec<(f64, f64)> {
        let known = |place: usize| {
            let values: Vec<f64> = self.of.iter().filter_map(|course| course[place]).collect();
            (2 * values.len() >= self.of.len()).then(|| median(&values)).flatten()
        };
        let stretches = self.of.first().map_or(0, Vec::len);
        (0..stretches).filter_map(|place| Some((self.length * place as f64, known(place)?))).collect()
    }

    /// Whether lines of as many services leave less of the arm's course.
    fn fits_better_than(&self, other: &Self) -> bool {
        let left = |courses: &Self| courses.middle().iter().map(|point| point.1 * point.1).sum::<f64>();
        self.of.len() == other.of.len() && left(self) < left(other)
    }

    /// What is left where each service goes along a bend of its own.
    fn without_bends(self) -> Self {
        let straight = |mut course: Vec<Option<f64>>| {
            let points = course.iter().enumerate();
            let points: Vec<(f64, f64)> =
                points.filter_map(|(place, value)| Some((place as f64, (*value)?))).collect();
            for ((place, _), value) in points.iter().zip(without_bend(&points)) {
                course[*place as usize] = Some(value);
            }
            course
        };
        Self { of: self.of.into_iter().map(straight).collect(), ..self }
    }

    fn half_width(self, level: f64) -> Option<f64> {
        let (courses, trend) = match bend(&self.middle(), level) {
            Some(bend) if bend.is_shown() => (self.without_bends(), Trend::Bent),
            _ => (self, Trend::Straight),
        };
        is_shared(&courses.of).then(|| slope_half_width(&courses.middle(), level, trend)).flatten()
    }
}

/// Whether services rise and fall together more than by chance: the sum of the products of their courses, two by two, against
/// its error if each course could as well be upside down (a sign-flip test by its first two moments).
///
/// Both come from sums over stretches, since pairs are too many in a large arm: the squares of all products of two courses sum
/// to the squares of all products of two stretches.
fn is_shared(courses: &[Vec<Option<f64>>]) -> bool {
    let mut sums = [0.0; STRETCHES];
    let mut products = [[0.0; STRETCHES]; STRETCHES];
    let (mut own, mut own_squared) = (0.0, 0.0);
    for course in courses {
        let known: Vec<(usize, f64)> =
            course.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?))).collect();
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
    together > SHARED * squares.max(0.0).sqrt()
}

/// Half-width of the interval of a slope, per stretch, through the course of one service with gaps.
///
/// An AR(1) process (G. C. Tiao et al., Journal of Geophysical Research 95 (1990); E. C. Weatherhead et al., the same, 103
/// (1998)) whose correlation is corrected for what a fitted trend takes away, (2 + 4 rho) / n (after M. G. Kendall,
/// Biometrika 41 (1954), who has it for a fitted mean).
///
/// Not [`slope_half_width`], which weighs all memories that a course may have: at the level of one of 200 services it is 2 to
/// 6 times as wide, and a minority that bloats would have to grow that much faster to be told; and it takes several
/// hundred times as long, for each service.
pub(crate) fn error_of_slope(course: &[Option<f64>], level: f64) -> Option<f64> {
    let known: Vec<(f64, f64)> =
        course.iter().enumerate().filter_map(|(place, value)| Some((place as f64, (*value)?))).collect();
    let n = known.len() as f64;
    if known.len() < FEWEST {
        return None;
    }
    let middle = known.iter().map(|point| point.1).sum::<f64>() / n;
    let squares: f64 = known.iter().map(|point| (point.1 - middle).powi(2)).sum();
    let pairs: Vec<(f64, f64)> =
        course.windows(2).filter_map(|pair| Some((pair[0]? - middle, pair[1]? - middle))).collect();
    if squares <= 0.0 || pairs.len() < FEWEST / 2 {
        return None;
    }
    let found = pairs.iter().map(|(a, b)| a * b).sum::<f64>() / pairs.len() as f64 / (squares / n);
    let correlation = ((n * found + 2.0) / (n - 4.0)).clamp(0.0, CORRELATION_AT_MOST);
    let steps: f64 = pairs.iter().map(|(a, b)| (b - correlation * a).powi(2)).sum();
    let variance = steps / pairs.len() as f64 / (1.0 - correlation * correlation);
    let centre = known.iter().map(|point| point.0).sum::<f64>() / n;
    let lever: f64 = known.iter().map(|point| (point.0 - centre).powi(2)).sum();
    // By distance in stretches.
    let powers: Vec<f64> = (0..course.len()).map(|distance| correlation.powi(distance as i32)).collect();
    let together: f64 = known
        .iter()
        .flat_map(|a| known.iter().map(move |b| (a.0, b.0)))
        .map(|(a, b)| (a - centre) * (b - centre) * powers[(a - b).abs() as usize])
        .sum();
    let free = (n * (1.0 - correlation) / (1.0 + correlation)).max(FEWEST_FREE);
    let reach = student_quantile(free, (1.0 + level) / 2.0)?;
    Some(reach * (variance * together.max(0.0)).sqrt() / lever)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_over_stretches_say_what_pairs_of_services_say(
            courses in prop::collection::vec(prop::collection::vec(prop::option::of(-5i32..6), 7), 1..9)
        ) {
            // Whole numbers: no sum is rounded.
            let courses: Vec<Vec<Option<f64>>> =
                courses.iter().map(|course| course.iter().map(|value| value.map(f64::from)).collect()).collect();
            let product = |a: &[Option<f64>], b: &[Option<f64>]| -> f64 {
                a.iter().zip(b).filter_map(|(a, b)| Some((*a)? * (*b)?)).sum()
            };
            let pairs = (0..courses.len()).flat_map(|place| (0..place).map(move |other| (place, other)));
            let products: Vec<f64> = pairs.map(|(a, b)| product(&courses[a], &courses[b])).collect();
            let error = products.iter().map(|product| product * product).sum::<f64>().sqrt();
            prop_assert_eq!(is_shared(&courses), products.iter().sum::<f64>() > SHARED * error);
        }
    }
}
