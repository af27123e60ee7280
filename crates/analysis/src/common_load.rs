//! What services share when the load of a fleet rises and falls.

use heaptrial_stats::{median, slope_half_width, student_quantile};
use rayon::prelude::*;

use crate::age::{Ages, in_sawtooth};
use crate::fleet::Fleet;
use crate::outcome::{DAY, ServiceResult, Settings};
use crate::service::{growth_points, logs};

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

/// Half-width of the interval of an arm's growth by what its services have in common, as a share a day.
///
/// The interval over services takes them as independent; load that all of them share moves all slopes alike, and
/// no number of services averages it out. So the arm's own course over time, the median over services of what their
/// straight lines leave, is taken as an AR(1) process around a line ([`slope_half_width`]).
///
/// `None` where services do not rise and fall together more than by chance, for an arm that is restarted at intervals, or
/// with too few readings.
pub(crate) fn half_width(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[usize],
) -> Option<f64> {
    let residuals: Vec<Vec<(f64, f64)>> = members
        .par_iter()
        .filter(|index| !in_sawtooth(&fleet.services[**index], ages))
        .filter_map(|index| {
            let service = &fleet.services[*index];
            let (start, slope) = (service.current()?.started_at / DAY, services[*index].growth_log_per_day?);
            let left: Vec<(f64, f64)> = logs(&growth_points(service, ages, settings, 1.0))
                .iter()
                .map(|(age, log)| (start + age, log - slope * age))
                .collect();
            let middle = median(&left.iter().map(|point| point.1).collect::<Vec<_>>())?;
            Some(left.iter().map(|(at, log)| (*at, log - middle)).collect())
        })
        .collect();
    let times = || residuals.iter().flatten().map(|point| point.0);
    let (first, last) = (times().min_by(f64::total_cmp)?, times().max_by(f64::total_cmp)?);
    let readings = median(&residuals.iter().map(|service| service.len() as f64).collect::<Vec<_>>())?;
    let stretches = (readings as usize).clamp(1, STRETCHES);
    let length = (last - first) / stretches as f64;
    let stretch = |at: f64| (((at - first) / length) as usize).min(stretches - 1);
    let courses: Vec<Vec<Option<f64>>> = residuals
        .iter()
        .filter(|_| length > 0.0)
        .map(|service| {
            let mut course = vec![None; stretches];
            for chunk in service.chunk_by(|a, b| stretch(a.0) == stretch(b.0)) {
                let mean = chunk.iter().map(|point| point.1).sum::<f64>() / chunk.len() as f64;
                course[stretch(chunk[0].0)] = Some(mean);
            }
            course
        })
        .collect();
    if !is_shared(&courses) {
        return None;
    }
    let known = |place: usize| {
        let values: Vec<f64> = courses.iter().filter_map(|course| course[place]).collect();
        (2 * values.len() >= residuals.len()).then(|| median(&values)).flatten()
    };
    let course: Vec<Option<f64>> = (0..stretches).map(known).collect();
    let known = |(place, value): (usize, &Option<f64>)| Some((length * place as f64, (*value)?));
    let known: Vec<(f64, f64)> = course.iter().enumerate().filter_map(known).collect();
    slope_half_width(&known, settings.confidence_level)
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
