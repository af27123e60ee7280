//! Growth beyond what the trial showed.

use heaptrial_analysis::{DAY, Fleet, FleetService};
use heaptrial_model::units;
use heaptrial_stats::{Standing, standing, student_quantile, theil_sen_slope};

use super::level::covered;
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;

/// Fewer windows make no slope.
const FEWEST_WINDOWS: usize = 4;
/// Readings begin so much of a window late at most: a part of a day would tilt the slope.
const BEGINS_LATE: f64 = 0.1;
/// Fewer windows do not tell what all services share.
const FEWEST_FOR_DRIFT: usize = 5;
/// What all services share goes on from window to window. With a correlation of 0.5 the variance of a slope is that of
/// independent windows times (1 + 0.5) / (1 - 0.5).
const DEPENDENCE: f64 = 3.0;

/// Growth of the services together, a day on the log scale, beyond the course that the trial showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Excess {
    pub(super) services: usize,
    pub(super) days: f64,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Growth up to a time, with an interval whose lower end is too high with probability `error`; `None` with less than 2
/// services of 4 windows.
///
/// Of each service the Theil-Sen slope of the medians of windows, so that daily load does not tilt it; over services the
/// mean with Student's t. Load that all services share moves all slopes alike: the variance of a least-squares slope
/// through so many windows is added, of the drift that the trial had or the watch itself has, whichever is more.
pub(super) fn excess(plan: &WatchPlan, fleet: &Fleet, error: f64) -> Option<Excess> {
    let courses: Vec<Vec<(f64, f64)>> = fleet
        .services
        .iter()
        .map(|service| course(plan, fleet, service))
        .filter(|course| course.len() >= FEWEST_WINDOWS)
        .collect();
    let slopes: Vec<f64> = courses.iter().filter_map(|course| theil_sen_slope(course)).collect();
    if slopes.len() < 2 {
        return None;
    }
    let count = slopes.len() as f64;
    let value = slopes.iter().sum::<f64>() / count;
    let variance = slopes.iter().map(|slope| (slope - value).powi(2)).sum::<f64>() / (count - 1.0);
    let windows = courses.iter().map(|course| course.len() as f64).sum::<f64>() / count;
    let window_days = plan.forecast.window_seconds() / DAY;
    let drift = plan.forecast.drift().max(own_drift(&courses));
    // Of a least-squares slope through equally spaced points.
    let of_slope = 12.0 / (windows * (windows * windows - 1.0)) / window_days.powi(2);
    let (own, shared) = (variance / count, DEPENDENCE * drift * drift * of_slope);
    let reach = student_quantile(count - 1.0, 1.0 - error)? * (own + shared).sqrt();
    let days = windows * window_days;
    Some(Excess { services: slopes.len(), days, value, low: value - reach, high: value + reach })
}

/// Medians of the windows of a service's present life: days before its last reading, and the logarithm beside the
/// expected course. Windows that are cut short hold a part of a day only and are left out.
fn course(plan: &WatchPlan, fleet: &Fleet, service: &FleetService) -> Vec<(f64, f64)> {
    let window = plan.forecast.window_seconds();
    let counts = |life: &&heaptrial_analysis::FleetLife| {
        life.contamination.is_none() && (life.proved || !fleet.identities_proved)
    };
    let Some((life, last)) = service.current().filter(counts).and_then(|life| Some((life, life.last_age()?)))
    else {
        return Vec::new();
    };
    let ages = (0..).map(|place| last - window * f64::from(place)).take_while(|age| *age >= 2.0 * window);
    let level = |age: f64| {
        Some(((age - last) / DAY, covered(plan, life, age, BEGINS_LATE)?.ln() - plan.course(age)?))
    };
    let mut course: Vec<(f64, f64)> = ages.filter_map(level).collect();
    course.reverse();
    course
}

/// Standard deviation of the mean course over services beside a straight line.
fn own_drift(courses: &[Vec<(f64, f64)>]) -> f64 {
    let longest = courses.iter().map(Vec::len).max().unwrap_or(0);
    let mean = |back: usize| {
        let at: Vec<(f64, f64)> = courses
            .iter()
            .filter_map(|course| course.get(course.len().checked_sub(back)?))
            .copied()
            .collect();
        let count = at.len() as f64;
        // A mean over few services is another one's.
        (2 * at.len() >= courses.len()).then(|| {
            (
                at.iter().map(|point| point.0).sum::<f64>() / count,
                at.iter().map(|point| point.1).sum::<f64>() / count,
            )
        })
    };
    let course: Vec<(f64, f64)> = (1..=longest).filter_map(mean).collect();
    let Some(slope) = theil_sen_slope(&course).filter(|_| course.len() >= FEWEST_FOR_DRIFT) else {
        return 0.0;
    };
    let left: Vec<f64> = course.iter().map(|(days, log)| log - slope * days).collect();
    let count = left.len() as f64;
    let middle = left.iter().sum::<f64>() / count;
    (left.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (count - 2.0)).sqrt()
}

/// What the trial told of growth where its interval holds 0: that much of the excess may be no more than before.
pub(super) fn told(plan: &WatchPlan) -> String {
    let growth = plan.forecast.growth().filter(|growth| plan.shown_growth() == 0.0 && growth.value > 0.0);
    growth.map_or_else(String::new, |growth| {
        let interval = growth.low.zip(growth.high);
        let interval = interval
            .map(|(low, high)| format!(", {} to {}", units::share(low), units::share(high)))
            .unwrap_or_default();
        format!(
            "; the trial told {} a day{interval}, which did not show that they grow",
            units::share(growth.value)
        )
    })
}

/// An alert where growth is shown and more than what is never alerted. What is in `before` stands while it is more, shown or not.
pub(super) fn alert(plan: &WatchPlan, excess: &Excess, before: &[Alert]) -> Option<Alert> {
    let margin = plan.limits.growth_per_day;
    let shown = standing((excess.low, excess.high), margin) == Standing::AboveZero;
    let stands = before.iter().any(|alert| alert.kind == AlertKind::Growth);
    let grows = (shown || stands) && excess.value > margin;
    let least = match excess.low > 0.0 {
        true => format!("at least {} a day", units::share(excess.low)),
        false => "these days alone do not show it".to_owned(),
    };
    grows.then(|| Alert {
        key: "growth:all".to_owned(),
        kind: AlertKind::Growth,
        state: "above".to_owned(),
        service: None,
        services: Vec::new(),
        text: format!(
            "{} grow by {} a day more than the trial showed, over {:.0} days ({least}{})",
            units::counted(excess.services, "service"),
            units::share(excess.value),
            excess.days,
            told(plan)
        ),
        advice: format!(
            "`heaptrial report '{}'` shows their memory by day; a restart frees it until it has grown again",
            crate::stored_name(&plan.name)
        ),
    })
}
