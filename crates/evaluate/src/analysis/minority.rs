//! Services of an arm by their own growth: a minority that bloats is not seen in a median.

use heaptrial_model::units;
use heaptrial_stats::{
    GrowthShape, Shape, Standing, growth_shape, median, share_interval, standing, theil_sen_slope,
};
use rayon::prelude::*;

use crate::analysis::age::{Ages, in_sawtooth};
use crate::analysis::common_load::error_of_slope;
use crate::analysis::fleet::{Clock, Fleet};
use crate::analysis::growth::{is_too_short, pace_of_later_half, still_read, until_full};
use crate::analysis::outcome::{
    ArmResult, DAY, Estimate, Finding, FindingKind, Growth, LimitKind, ServiceGrowth, ServiceResult,
    ServiceVerdict, ServiceVerdicts, Settings, Severity, Verdict,
};
use crate::analysis::service::{growth_points, logs};

/// In so many arms of stable services one is told to grow.
const FAMILY: f64 = 0.01;
/// Stretches of equal length into which the time is cut: as many as services have readings, at most.
const STRETCHES: usize = 40;
/// Fewer stretches with readings tell no slope.
const FEWEST_STRETCHES: usize = 8;
/// Logarithms closer than this are equal.
const ROUNDING: f64 = 1e-9;
/// A service that saturates has slowed down to less than this share.
const SLOWED: f64 = 0.5;
/// Fewer services have no median to grow away from.
const FEWEST_FOR_MEDIAN: usize = 3;

/// Logarithms of memory of a service by stretch of time.
type Course = Vec<Option<f64>>;

/// The verdict on each service of an arm. `None` of an arm that is restarted at intervals, and without readings.
///
/// Errors of readings of one service hang together, so Sen's own interval of a slope is far too narrow. The service's
/// course over at most 40 stretches is taken as an AR(1) process around its Theil-Sen line
/// (`common_load::error_of_slope`: G. C. Tiao et al., Journal of Geophysical Research 95 (1990)); the level of the interval is that for as many services as there are
/// (C. E. Bonferroni). Where the arm does not bloat, a service does only if it grows away from the median of its arm by
/// that test: what all services share is not its own.
pub(crate) fn of_arm(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[usize],
    (growth, arm): (Option<&Growth>, &Verdict),
) -> Option<ServiceVerdicts> {
    let read: Vec<usize> =
        members.iter().copied().filter(|index| services[*index].final_bytes.is_some()).collect();
    if read.is_empty() || read.iter().any(|index| in_sawtooth(&fleet.services[*index], ages)) {
        return None;
    }
    // Of one or two relays of a lab nothing tells what is their own and what is their treatment's.
    if fleet.clock == Clock::Hastened && read.len() < FEWEST_FOR_MEDIAN {
        return None;
    }
    let together = Together::of(fleet, settings, ages, &read);
    let to_the_end = still_read(fleet, &read);
    let short = growth.filter(|growth| is_too_short(fleet, ages, &read, growth)).map(|growth| growth.days);
    let each = 1.0 - FAMILY / read.len() as f64;
    let judged: Vec<(ServiceVerdict, Option<ServiceGrowth>)> = read
        .par_iter()
        .enumerate()
        .map(|(place, index)| {
            let arm_bloats = matches!(arm, Verdict::Bloating { .. });
            let judge = Judge {
                fleet,
                settings,
                ages,
                service: &services[*index],
                index: *index,
                beside: &to_the_end,
                arm_bloats,
                short,
            };
            let none = (ServiceVerdict::Inconclusive, None);
            together.as_ref().map_or(none, |together| judge.verdict(together, place, each, &read, growth))
        })
        .collect();
    let count = |wanted: ServiceVerdict| judged.iter().filter(|found| found.0 == wanted).count() as u32;
    let bloating = count(ServiceVerdict::Bloating);
    let (low, high) = share_interval(bloating as usize, read.len(), settings.confidence_level);
    let value = f64::from(bloating) / read.len() as f64;
    let mut growing_services: Vec<ServiceGrowth> =
        judged.iter().filter_map(|found| found.1.clone()).collect();
    growing_services.sort_by(|a, b| b.share_per_day.value.total_cmp(&a.share_per_day.value));
    Some(ServiceVerdicts {
        services: read.len() as u32,
        stable: count(ServiceVerdict::Stable),
        growing: count(ServiceVerdict::Growing),
        bloating,
        inconclusive: count(ServiceVerdict::Inconclusive),
        bloating_share: Estimate { value, low: Some(low), high: Some(high) },
        growing_services,
    })
}

/// The verdict on an arm of which some services bloat: not `stable`, and not only `growing` or `inconclusive` either. Where
/// the arm as a whole is shown to level off, so do they.
pub(crate) fn verdict(
    of_arm: Verdict,
    growth: Option<&Growth>,
    services: Option<&ServiceVerdicts>,
) -> Verdict {
    let Some(services) = services.filter(|services| services.bloating > 0) else { return of_arm };
    let saturating = growth.is_some_and(|growth| {
        growth.shape == crate::analysis::outcome::Shape::Saturating || growth.rise_to_come_bytes.is_some()
    });
    match of_arm {
        Verdict::Bloating { .. } => of_arm,
        Verdict::Growing { .. } if saturating => of_arm,
        _ => {
            let first = services
                .bloating_services()
                .filter_map(|service| Some((service.days_until_full?, service.limit?)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            Verdict::SomeBloat {
                services: services.bloating,
                of: services.services,
                days_until_full: first.map(|first| first.0),
                limit: first.map(|first| first.1),
            }
        }
    }
}

/// Arms of which some services bloat.
pub(crate) fn findings(fleet: &Fleet, arms: &[ArmResult]) -> Vec<Finding> {
    let finding = |(arm, result): (usize, &ArmResult)| {
        let services = result.service_verdicts.as_ref()?;
        let Some(Verdict::SomeBloat { .. }) = result.verdict else { return None };
        let (low, high) = services.bloating_share.interval()?;
        let least = services.bloating_services().map(|service| service.share_per_day.value);
        Some(Finding {
            kind: FindingKind::SomeBloat,
            severity: Severity::Grave,
            arms: vec![arm],
            services: services.bloating_services().map(|service| service.name.clone()).collect(),
            evidence: format!(
                "{} of {} of {} ({} to {} of services like these) {}, by {} a day or more{}",
                services.bloating,
                units::counted(services.services as usize, "service"),
                fleet.arms[arm].name,
                units::share(low),
                units::share(high),
                if services.bloating == 1 { "bloats" } else { "bloat" },
                units::share(least.min_by(f64::total_cmp)?),
                // Of few the median service may be one of them.
                if 2 * services.bloating < services.services {
                    ", and its median service does not"
                } else {
                    ""
                }
            ),
        })
    };
    arms.iter().enumerate().filter_map(finding).collect()
}

/// The courses of an arm's services over stretches of time.
struct Together {
    /// Length of a stretch in days.
    length: f64,
    /// One for each service.
    courses: Vec<Course>,
    /// What they have in common.
    common: Course,
}

impl Together {
    fn of(fleet: &Fleet, settings: &Settings, ages: &Ages, read: &[usize]) -> Option<Self> {
        let points: Vec<Vec<(f64, f64)>> = read
            .par_iter()
            .map(|index| {
                let service = &fleet.services[*index];
                let start = service.current().map_or(0.0, |life| life.started_at / DAY);
                let points = logs(&growth_points(service, ages, settings, 1.0));
                points.iter().map(|(age, log)| (start + age, *log)).collect()
            })
            .collect();
        let times = || points.iter().flatten().map(|point| point.0);
        let (first, last) = (times().min_by(f64::total_cmp)?, times().max_by(f64::total_cmp)?);
        let some: Vec<f64> =
            points.iter().filter(|own| !own.is_empty()).map(|own| own.len() as f64).collect();
        let stretches = (median(&some)? as usize).clamp(1, STRETCHES);
        let length = (last - first) / stretches as f64;
        if length.is_nan() || length <= 0.0 {
            return None;
        }
        let stretch = |at: f64| (((at - first) / length) as usize).min(stretches - 1);
        let course = |points: &Vec<(f64, f64)>| -> Course {
            let mut course = vec![None; stretches];
            for chunk in points.chunk_by(|a, b| stretch(a.0) == stretch(b.0)) {
                let mean = chunk.iter().map(|point| point.1).sum::<f64>() / chunk.len() as f64;
                course[stretch(chunk[0].0)] = Some(mean);
            }
            course
        };
        let courses: Vec<Course> = points.iter().map(course).collect();
        Some(Self { length, common: common(&courses), courses })
    }

    /// Slope a day of a course with its half-width.
    fn slope(&self, course: &Course, level: f64) -> Option<(f64, f64)> {
        let known: Vec<(f64, f64)> =
            course.iter().enumerate().filter_map(|(place, value)| Some((place as f64, (*value)?))).collect();
        let slope = theil_sen_slope(&known)?;
        let left = course.iter().enumerate().map(|(place, value)| Some((*value)? - slope * place as f64));
        let left: Course = left.collect();
        let ends = left
            .iter()
            .flatten()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |ends, value| (ends.0.min(*value), ends.1.max(*value)));
        // Readings that lie on a line have no error.
        let exact = known.len() >= FEWEST_STRETCHES && ends.1 - ends.0 < ROUNDING;
        let half = if exact { 0.0 } else { error_of_slope(&left, level)? };
        Some((slope / self.length, half / self.length))
    }

    /// Slope a day of a course of logarithms with its half-width, and whether it is shown to be above 0: by the logarithms
    /// or by the memory itself, so that neither straight growth nor growth by a factor is taken for one that wanders around
    /// its line. By memory alone slope and half-width are its own, as shares of the median.
    fn rise(&self, logs: &Course, level: f64) -> Option<Rise> {
        let middle = median(&logs.iter().flatten().copied().collect::<Vec<_>>())?;
        let memory: Course =
            logs.iter().map(|value| Some(((*value)? - middle).exp().min(f64::MAX))).collect();
        // Two tests share the error.
        let each = f64::midpoint(1.0, level);
        let (slope, half) = self.slope(logs, each)?;
        if slope > half || slope <= 0.0 {
            return Some(Rise { slope, half, shown: slope > half });
        }
        let straight = self.slope(&memory, each).filter(|(slope, half)| slope > half);
        Some(straight.map_or(Rise { slope, half, shown: false }, |(slope, half)| Rise {
            slope,
            half,
            shown: true,
        }))
    }

    /// What a service's course is beside that of its arm.
    fn beside(&self, place: usize) -> Course {
        let own = self.courses[place].iter().zip(&self.common);
        own.map(|(value, common)| Some((*value)? - (*common)?)).collect()
    }
}

/// How a course goes on.
#[derive(Debug, Clone, Copy)]
struct Rise {
    /// A day, as a share.
    slope: f64,
    half: f64,
    shown: bool,
}

/// Rounds of the median polish.
const ROUNDS: usize = 5;

/// The course that services have in common, each at its own level: J. W. Tukey's median polish ("Exploratory Data Analysis"
/// (1977), chapter 11) of the services' courses, begun with the medians of their steps from stretch to stretch, so that
/// services that are there for a part of the time only do not bend it.
fn common(courses: &[Course]) -> Course {
    let stretches = courses.first().map_or(0, Vec::len);
    let over = |value: &dyn Fn(&Course) -> Option<f64>| {
        median(&courses.iter().filter_map(value).collect::<Vec<_>>())
    };
    let mut level = 0.0;
    let mut common: Vec<f64> = (0..stretches)
        .map(|place| {
            let step = |course: &Course| Some(course[place]? - course[place.checked_sub(1)?]?);
            level += over(&step).unwrap_or(0.0);
            level
        })
        .collect();
    for _ in 0..ROUNDS {
        let own = |course: &Course| {
            let left = course.iter().zip(&common).filter_map(|(value, common)| Some((*value)? - common));
            median(&left.collect::<Vec<_>>())
        };
        let own: Vec<Option<f64>> = courses.iter().map(own).collect();
        let left = |place: usize| {
            let left = courses.iter().zip(&own).filter_map(|(course, own)| Some(course[place]? - (*own)?));
            median(&left.collect::<Vec<_>>())
        };
        common = (0..stretches).map(|place| left(place).unwrap_or(common[place])).collect();
    }
    common.into_iter().map(Some).collect()
}

struct Judge<'a> {
    fleet: &'a Fleet,
    settings: &'a Settings,
    ages: &'a Ages,
    service: &'a ServiceResult,
    index: usize,
    /// The services that share the host's memory with it.
    beside: &'a [usize],
    arm_bloats: bool,
    /// The days that growth was seen for, where they are less than one: memory must run out within as many.
    short: Option<f64>,
}

impl Judge<'_> {
    /// The verdict, with the growth of a service that grows.
    fn verdict(
        &self,
        together: &Together,
        place: usize,
        each: f64,
        read: &[usize],
        of_arm: Option<&Growth>,
    ) -> (ServiceVerdict, Option<ServiceGrowth>) {
        let course = &together.courses[place];
        let usual = together.slope(course, self.settings.confidence_level);
        let (Some(rise), Some((_, narrow))) = (together.rise(course, each), usual) else {
            return (ServiceVerdict::Inconclusive, None);
        };
        let Rise { slope, half, shown } = rise;
        // Away from its arm: load that all services share is gone.
        let beside =
            (read.len() >= FEWEST_FOR_MEDIAN).then(|| together.rise(&together.beside(place), each)).flatten();
        let (own, away) = match beside {
            Some(beside) => (beside.slope.min(slope), beside.shown && slope > 0.0),
            None => (slope, shown && read.len() < FEWEST_FOR_MEDIAN),
        };
        let margin = self.settings.stable_margin_per_day;
        let is_negligible = |half: f64| standing((slope - half, slope + half), margin) == Standing::Inside;
        let full = self.until_full(of_arm, 1.0);
        let by_its_own = self.until_full(of_arm, (own / slope).clamp(0.0, 1.0));
        let horizon = self.short.unwrap_or(self.settings.horizon_days);
        let soon = |full: Option<(f64, LimitKind)>| full.is_some_and(|found| found.0 <= horizon);
        let bloats = away && soon(by_its_own) || self.arm_bloats && shown && soon(full);
        let verdict = match shown {
            _ if self.short.is_some() && !bloats => ServiceVerdict::Inconclusive,
            // Growth that is shown and negligible.
            _ if is_negligible(half) => ServiceVerdict::Stable,
            _ if bloats && !self.levels_off() => ServiceVerdict::Bloating,
            true => ServiceVerdict::Growing,
            false if is_negligible(narrow) => ServiceVerdict::Stable,
            false => ServiceVerdict::Inconclusive,
        };
        if !matches!(verdict, ServiceVerdict::Growing | ServiceVerdict::Bloating) {
            return (verdict, None);
        }
        let growth = ServiceGrowth {
            name: self.service.name.clone(),
            verdict,
            share_per_day: Estimate { value: slope, low: Some(slope - half), high: Some(slope + half) },
            bytes_per_day: self.service.growth_bytes_per_day.unwrap_or(0.0),
            days_until_full: full.map(|found| found.0),
            limit: full.map(|found| found.1),
        };
        (verdict, Some(growth))
    }

    /// Days until memory runs out, as of an arm, by that share of its growth that is its own.
    fn until_full(&self, of_arm: Option<&Growth>, share: f64) -> Option<(f64, LimitKind)> {
        // Of one service nothing is shown, but it slows down as often as it seems to.
        let late = self.shape().and_then(|shape| shape.late_to_early).map_or(1.0, pace_of_later_half);
        let own = Growth {
            bytes_per_day: Estimate::bare(late * share * self.service.growth_bytes_per_day?),
            late_over_early: None,
            rise_to_come_bytes: None,
            ..of_arm?.clone()
        };
        let (days, limit) =
            until_full(self.fleet, self.beside, &[self.index], &own, self.service.final_bytes?)?;
        Some((days.value, limit))
    }

    fn shape(&self) -> Option<GrowthShape> {
        let own = Ages { growth_from: None, ..self.ages.clone() };
        growth_shape(&growth_points(&self.fleet.services[self.index], &own, self.settings, 1.0))
    }

    /// Of one service a curve fits better than a line too often: it must have slowed down as well.
    fn levels_off(&self) -> bool {
        let slowed = |shape: &GrowthShape| shape.late_to_early.is_some_and(|late| late < SLOWED);
        self.shape().is_some_and(|shape| shape.shape == Shape::Saturating && slowed(&shape))
    }
}
