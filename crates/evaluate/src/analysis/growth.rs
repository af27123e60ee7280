//! How an arm grows, and what follows for an operator.

use heaptrial_model::units;
use heaptrial_stats::{
    ALPHA, LastPart, Standing, days_needed, first_passage, last_part, levels_off, median, median_interval,
    most_level_off, standing, student_interval_at_least, theil_sen_slope,
};
use rayon::prelude::*;

use crate::analysis::age::{Ages, in_sawtooth};
use crate::analysis::checks::coverage::gone;
use crate::analysis::data::Data;
use crate::analysis::fleet::{Clock, Fleet, FleetLife, FleetService, bytes};
use crate::analysis::outcome::{
    ArmResult, DAY, Estimate, Finding, FindingKind, Growth, LimitKind, Settings, Severity, Verdict,
};
use crate::analysis::service::{after_warm_up, by_day, growth_points, logs};
use crate::analysis::shared_load;

/// A host that lasts longer needs no finding.
const HOST_DAYS: f64 = 60.0;
/// Relays of a lab, one for each seed, that are too few for an interval between order statistics have one by Student's t from
/// so many on. Services of a host have none: a forecast by so wide an interval would let a watch miss everything.
const STUDENT_SERVICES: usize = 3;
/// Fewer readings do not distinguish growth from caches that still fill.
const SETTLED_READINGS: u32 = 10;
/// Shares of the observation for which the width of the interval is looked at, to see how it shrinks.
const DURATION_SHARES: [f64; 3] = [0.5, 0.75, 1.0];
/// Load changes within a day: growth that was seen for fewer days is not carried on for longer than that.
const LEAST_DAYS: f64 = 0.9;
/// Days of further observation that are worth to be named.
const LEAST_MORE: f64 = 1.0;
/// An interval this much wider than that between services alone is one of load that they share.
const WIDENED: f64 = 1.2;

/// Growth over `members`, positions of services.
pub(crate) fn of_arm(data: Data<'_>, members: &[usize]) -> Option<Growth> {
    let Data { fleet, settings, ages, .. } = data;
    let shares = data.values(members, |service| service.growth_log_per_day);
    let share_per_day = estimate(&shares, settings.confidence_level, fleet.clock)?;
    let bytes = data.values(members, |service| service.growth_bytes_per_day);
    let bytes_per_day = estimate(&bytes, settings.confidence_level, fleet.clock)?;
    let load = shared_load::of_arm(data, members);
    let last = median(&data.values(members, |service| service.final_bytes)).unwrap_or(0.0);
    // A share of growing memory is of what it was on the way, which the two slopes show, and not of what it came to.
    let on_the_way = Some(bytes_per_day.value / share_per_day.value).filter(|_| share_per_day.value > 0.0);
    let whole = on_the_way.filter(|bytes| *bytes > 0.0).map_or(last, |bytes| bytes.min(last));
    let extents: Vec<Extent> =
        members.iter().filter_map(|index| Extent::of(&fleet.services[*index], ages, settings)).collect();
    let over = |of: fn(&Extent) -> f64| median(&extents.iter().map(of).collect::<Vec<_>>());
    let first_age = if members.iter().any(|index| in_sawtooth(&fleet.services[*index], ages)) {
        Some(0.0)
    } else {
        over(|extent| extent.first_age_seconds)
    };
    // The days that all arms have in common are few; whether growth slows down is looked at over all of each life.
    let all = ages.of_whole_lives();
    let points: Vec<Vec<(f64, f64)>> =
        members.par_iter().map(|index| growth_points(&fleet.services[*index], &all, settings, 1.0)).collect();
    let last_of = |parts: u32| -> Vec<LastPart> {
        points.par_iter().filter_map(|points| last_part(points, parts)).collect()
    };
    Some(Growth {
        services: shares.len() as u32,
        readings: over(|extent| extent.readings).unwrap_or(0.0) as u32,
        days: over(|extent| extent.days).unwrap_or(0.0),
        bytes_per_day: at_least(bytes_per_day, load.half_width.map(|share| share * whole)),
        share_per_day: at_least(share_per_day, load.half_width),
        levels_off: arm_levels_off(&points),
        late_over_early: median(&last_of(2).iter().filter_map(|half| half.share).collect::<Vec<_>>()),
        slows_down: load.slows_down,
        rise_to_come_bytes: rise_to_come(&last_of(3), settings.confidence_level, fleet.clock)
            .filter(|_| load.slows_down),
        warm_up_seconds: first_age?,
    })
}

/// What the growth of a service is measured from.
pub(crate) struct Extent {
    readings: f64,
    pub(crate) days: f64,
    first_age_seconds: f64,
}

impl Extent {
    pub(crate) fn of(service: &FleetService, ages: &Ages, settings: &Settings) -> Option<Self> {
        let readings = after_warm_up(service.current()?, ages, settings, 1.0);
        let (first, last) = (readings.first()?.age_seconds, readings.last()?.age_seconds);
        Some(Self {
            readings: readings.len() as f64,
            days: f64::from(last - first) / DAY,
            first_age_seconds: f64::from(first),
        })
    }
}

/// Of few readings a straight line and a curve cannot be distinguished.
fn arm_levels_off(points: &[Vec<(f64, f64)>]) -> bool {
    let read: Vec<&Vec<(f64, f64)>> = points.iter().filter(|points| !points.is_empty()).collect();
    let counts: Vec<f64> = read.iter().map(|points| points.len() as f64).collect();
    let enough = median(&counts).is_some_and(|count| count >= f64::from(SETTLED_READINGS));
    let curves: Vec<bool> = read.par_iter().filter_map(|points| levels_off(points)).collect();
    enough && most_level_off(&curves, ALPHA)
}

/// How much memory rises at most after the last reading if each third of the time observed adds the same share of what the one
/// before it added: the sum of a geometric series, by the upper end of the interval of that share. It is that of the last two thirds:
/// where growth settles and something else goes on, earlier ones show what has settled. `None` where it is not below 1.
fn rise_to_come(thirds: &[LastPart], level: f64, clock: Clock) -> Option<f64> {
    let shares: Vec<f64> = thirds.iter().filter_map(|third| third.share).collect();
    let share = estimate(&shares, level, clock)?.high.filter(|share| *share < 1.0)?;
    let rise = median(&thirds.iter().map(|third| third.rise).collect::<Vec<_>>())?;
    LastPart { rise, share: Some(share) }.to_come()
}

fn estimate(values: &[f64], level: f64, clock: Clock) -> Option<Estimate> {
    let found = median_interval(values, level)?;
    // Services that do not grow at all agree on a slope of 0: a page more or less is nothing beside the margin.
    let few = || {
        student_interval_at_least(values, level, f64::MIN_POSITIVE)
            .filter(|_| clock == Clock::Hastened && values.len() >= STUDENT_SERVICES)
    };
    Some(Estimate::new(found.median, found.interval.or_else(few)))
}

/// An interval that is at least so wide on either side.
fn at_least(estimate: Estimate, half_width: Option<f64>) -> Estimate {
    let Some(half) = half_width else { return estimate };
    let value = estimate.value;
    Estimate {
        low: estimate.low.map(|low| low.min(value - half)),
        high: estimate.high.map(|high| high.max(value + half)),
        ..estimate
    }
}

/// The verdict on an arm whose services end at `final_bytes` (median).
pub(crate) fn verdict(
    data: Data<'_>,
    members: &[usize],
    growth: Option<&Growth>,
    final_bytes: Option<f64>,
) -> Verdict {
    let Data { fleet, settings, ages, .. } = data;
    let Some((growth, final_bytes)) = growth.zip(final_bytes) else {
        return inconclusive("there are too few readings after warm-up".to_owned());
    };
    let Some(interval) = growth.share_per_day.interval() else {
        let services = units::counted(growth.services as usize, "service");
        let verb = if growth.services == 1 { "is" } else { "are" };
        return inconclusive(format!("{services} {verb} too few for an interval of growth"));
    };
    let standing = standing(interval, settings.stable_margin_per_day);
    // What is read no more takes no more of the host's memory.
    let members = &still_read(fleet, members)[..];
    if is_too_short(fleet, ages, members, growth) {
        return match (standing, growing(fleet, settings, members, growth, final_bytes)) {
            (Standing::AboveZero, Verdict::Bloating { days_until_full, limit })
                if days_until_full.value <= growth.days =>
            {
                Verdict::Bloating { days_until_full, limit }
            }
            _ => too_short(fleet, settings, growth),
        };
    }
    match standing {
        Standing::Inside => Verdict::Stable,
        Standing::AboveZero => growing(fleet, settings, members, growth, final_bytes),
        Standing::BelowZero => inconclusive(format!(
            "memory still falls, by {} a day: it has not settled",
            units::share(-growth.share_per_day.value)
        )),
        Standing::Unclear => Verdict::Inconclusive {
            days_needed: more_days(data, members, growth),
            why: "the interval of growth holds 0 and is not inside the margin".to_owned(),
        },
    }
}

/// Those of them that were read to the end; all where none was.
pub(crate) fn still_read(fleet: &Fleet, members: &[usize]) -> Vec<usize> {
    let gone = gone(fleet);
    let read: Vec<usize> = members.iter().copied().filter(|index| !gone.contains(index)).collect();
    if read.is_empty() { members.to_vec() } else { read }
}

/// Whether growth was seen for so short a time that it shows nothing of days to come: within a day it may be the day's rhythm,
/// and a lab that has no days has too few readings to distinguish growth from caches that still fill.
pub(crate) fn is_too_short(fleet: &Fleet, ages: &Ages, members: &[usize], growth: &Growth) -> bool {
    let restarted = members.iter().any(|index| in_sawtooth(&fleet.services[*index], ages));
    let short = match fleet.clock {
        Clock::Calendar => growth.days < LEAST_DAYS,
        Clock::Hastened => growth.readings < SETTLED_READINGS,
        Clock::InTurn | Clock::ByLoad => false,
    };
    short && !restarted
}

fn too_short(fleet: &Fleet, settings: &Settings, growth: &Growth) -> Verdict {
    let seen = units::duration(growth.days * DAY);
    if fleet.clock == Clock::Hastened {
        return inconclusive(format!(
            "{seen} after warm-up, {}, do not distinguish growth from caches that still fill",
            units::counted(growth.readings as usize, "reading")
        ));
    }
    // Warm-up grows with the time observed.
    let share = if settings.warm_up_seconds.is_some() { 0.0 } else { settings.warm_up_share };
    let days_needed = (1.0 - growth.days) / (1.0 - share).max(f64::EPSILON);
    Verdict::Inconclusive {
        days_needed: Some(days_needed),
        why: format!("{seen} after warm-up are part of a day, in which load and caches change"),
    }
}

fn growing(
    fleet: &Fleet,
    settings: &Settings,
    members: &[usize],
    growth: &Growth,
    final_bytes: f64,
) -> Verdict {
    let (slope, to_come) = (carried_on(growth), growth.rise_to_come_bytes);
    let Some((days, limit)) = until_full(fleet, members, members, &slope, to_come, final_bytes) else {
        return Verdict::Growing { days_until_full: None, limit: None };
    };
    // Twice the present memory is no limit of anything: it only stands for one where growth is fast.
    let known = limit != LimitKind::Doubling;
    // What levels off reaches a limit only where more may come than is left, which is the upper end of an interval: no bloat.
    if growth.levels_off {
        let known = known && to_come.is_some();
        return Verdict::Growing { days_until_full: known.then_some(days), limit: known.then_some(limit) };
    }
    // Of growth that may slow down only what runs out at the slower pace too is sure to.
    let slower = if to_come.is_some() { 1.0 } else { later_half(growth) };
    if days.value > slower * settings.horizon_days {
        return Verdict::Growing { days_until_full: known.then_some(days), limit: known.then_some(limit) };
    }
    match as_high_before(fleet, members) {
        Some(day) => inconclusive(format!(
            "memory rose after warm-up, but on day {day} of the same lives it was as high as at the end: that may be a rhythm, \
             such as that of a week"
        )),
        None => Verdict::Bloating { days_until_full: days, limit },
    }
}

fn inconclusive(why: String) -> Verdict {
    Verdict::Inconclusive { days_needed: None, why }
}

/// The day of age, from 2, on which most services had as much as on the last whole day of their life that goes on.
fn as_high_before(fleet: &Fleet, members: &[usize]) -> Option<u32> {
    if !fleet.clock.has_calendar() {
        return None;
    }
    let days: Vec<Vec<(u32, f64)>> =
        members.par_iter().filter_map(|index| whole_days(fleet.services[*index].current()?)).collect();
    let is_as_high = |day: &u32| {
        let both: Vec<bool> = days
            .iter()
            .filter_map(|days| {
                let (_, at_the_end) = days.last().filter(|last| last.0 > day + 1)?;
                let (_, then) = days.iter().find(|found| found.0 == *day)?;
                Some(then >= at_the_end)
            })
            .collect();
        let high = both.iter().filter(|high| **high).count();
        2 * both.len() > days.len() && 2 * high > both.len()
    };
    let longest = days.iter().filter_map(|days| Some(days.last()?.0)).max()?;
    (2..longest).find(is_as_high)
}

/// Days of age from 2 with the median of each, without the one that the life is in.
fn whole_days(life: &FleetLife) -> Option<Vec<(u32, f64)>> {
    let mut days = by_day(life);
    days.pop().filter(|_| life.age_known())?;
    Some(days.into_iter().filter(|day| day.day > 1).map(|day| (day.day, day.median_bytes)).collect())
}

/// Bytes a day at which growth is carried on: at the pace of the later half where it is shown to slow down. That it does is an
/// estimate too, so at the earliest it goes on as it did altogether.
fn carried_on(growth: &Growth) -> Estimate {
    let (slope, later) = (&growth.bytes_per_day, later_half(growth));
    let value = if growth.rise_to_come_bytes.is_some() { later * slope.value } else { slope.value };
    Estimate { value, low: slope.low.map(|low| later * low), high: slope.high }
}

/// Growth in the second half over growth altogether, at most 1, from that over growth in the first half: what slows down is not
/// carried on as a straight line, and what seems to speed up may be chance.
fn later_half(growth: &Growth) -> f64 {
    // The slope of the whole is about the mean of those of its halves.
    growth.late_over_early.map_or(1.0, |late| {
        let late = late.clamp(0.0, 1.0);
        2.0 * late / (1.0 + late)
    })
}

/// When the host runs out of memory if every arm goes on as it does.
pub(crate) fn host(fleet: &Fleet, arms: &[ArmResult]) -> Option<Finding> {
    let available = fleet.limit.host_available_bytes?;
    let gone = gone(fleet);
    let services =
        |arm: usize| fleet.members(arm).iter().filter(|index| !gone.contains(index)).count() as f64;
    let growing: Vec<(f64, &Growth)> = (0..arms.len())
        .filter_map(|arm| Some((services(arm), arms[arm].growth.as_ref()?)))
        .filter(|(_, growth)| growth.bytes_per_day.value > 0.0)
        .collect();
    let together: f64 = growing.iter().map(|(services, growth)| services * growth.bytes_per_day.value).sum();
    let to_come: Option<f64> =
        growing.iter().map(|(services, growth)| Some(services * growth.rise_to_come_bytes?)).sum();
    if to_come.is_some_and(|rise| rise < available) {
        return None;
    }
    let days = available / together;
    if together <= 0.0 || days > HOST_DAYS {
        return None;
    }
    let evidence = format!(
        "the services of all arms together grow by {} a day, and {} were available on the host at the last reading: \
         {} if it goes on so, sooner than by any arm's estimate, which assumes that only this arm grows",
        units::memory(together),
        units::memory(available),
        match days {
            // A day more or less is what matters then.
            ..3.0 => units::duration(days * DAY),
            days => format!("{days:.0} days"),
        }
    );
    let finding = Finding::new(FindingKind::MemoryRunsShort, Severity::Caution, evidence);
    Some(finding.of_arms((0..arms.len()).collect()))
}

/// Days until the first known limit is reached by straight growth by `slope` bytes a day; `None` where the rise `to_come` of an arm
/// that levels off does not reach it. The host's memory is for `members` together; of `limited`, each with a limit of its own,
/// the one counts that has the least left of it.
pub(crate) fn until_full(
    fleet: &Fleet,
    members: &[usize],
    limited: &[usize],
    slope: &Estimate,
    to_come: Option<f64>,
    final_bytes: f64,
) -> Option<(Estimate, LimitKind)> {
    let host =
        left_on_host(fleet).map(|(bytes, kind)| (final_bytes + bytes / members.len().max(1) as f64, kind));
    let left = limited.iter().filter_map(|index| {
        let service = &fleet.services[*index];
        let used = service.current()?.readings.last().map(bytes)?;
        Some(service.limit_bytes? - used)
    });
    let own = left.min_by(f64::total_cmp).map(|left| (final_bytes + left, LimitKind::OwnLimit));
    let service = fleet.limit.service_bytes.map(|bytes| (bytes, LimitKind::Service)).or(own);
    let known = service.into_iter().chain(host).min_by(|a, b| a.0.total_cmp(&b.0));
    let (limit, kind) = known.unwrap_or((2.0 * final_bytes, LimitKind::Doubling));
    if to_come.is_some_and(|rise| final_bytes + rise < limit) {
        return None;
    }
    let days = first_passage(final_bytes, slope.value, slope.interval(), limit)?;
    Some((Estimate { value: days.estimate, low: days.earliest, high: days.latest }, kind))
}

/// What was available on the host; where only its whole memory is known, what the services do not have of it.
fn left_on_host(fleet: &Fleet) -> Option<(f64, LimitKind)> {
    if let Some(bytes) = fleet.limit.host_available_bytes {
        return Some((bytes, LimitKind::Host));
    }
    let whole = fleet.limit.host_bytes?;
    let gone = gone(fleet);
    let still = fleet.services.iter().enumerate().filter(|(index, _)| !gone.contains(index));
    let used: f64 = still.filter_map(|(_, service)| service.current()?.readings.last().map(bytes)).sum();
    Some(((whole - used).max(0.0), LimitKind::WholeHost))
}

/// Days until the interval of growth is expected to decide, from how it shrank so far.
fn more_days(data: Data<'_>, members: &[usize], growth: &Growth) -> Option<f64> {
    let Data { fleet, settings, ages, .. } = data;
    let points = |share: f64| -> Vec<Vec<(f64, f64)>> {
        members
            .par_iter()
            .map(|index| growth_points(&fleet.services[*index], ages, settings, share))
            .collect()
    };
    let span = |points: &Vec<(f64, f64)>| Some(points.last()?.0 - points.first()?.0);
    let observed = median(&points(1.0).iter().filter_map(span).collect::<Vec<_>>())?;
    let widths: Vec<(f64, f64)> = DURATION_SHARES
        .iter()
        .filter_map(|share| {
            let slopes: Vec<f64> =
                points(*share).par_iter().filter_map(|points| theil_sen_slope(&logs(points))).collect();
            let (low, high) = median_interval(&slopes, settings.confidence_level)?.interval?;
            Some((observed * share, (high - low) / 2.0))
        })
        .collect();
    // Load that services share widened the interval: how fast that shrinks is not known.
    let (low, high) = growth.share_per_day.interval()?;
    let (_, own) = *widths.last()?;
    if (high - low) / 2.0 > WIDENED * own {
        return None;
    }
    let days = days_needed(&widths, growth.share_per_day.value, settings.stable_margin_per_day)?;
    // By the line through the widths it may be decided by now, and it is not.
    Some(days.max(LEAST_MORE))
}
