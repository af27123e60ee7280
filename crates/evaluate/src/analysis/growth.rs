//! How an arm grows, and what follows for an operator.

use heaptrial_model::{Reading, units};
use heaptrial_stats::{
    GrowthShape, Standing, arm_shape, days_needed, first_passage, growth_shape, median, median_interval,
    standing, student_interval_at_least, theil_sen_slope,
};
use rayon::prelude::*;

use crate::analysis::age::{Ages, in_sawtooth};
use crate::analysis::checks::presence::gone;
use crate::analysis::common_load;
use crate::analysis::fleet::{Clock, Fleet, FleetLife, FleetService, bytes};
use crate::analysis::outcome::{
    ArmResult, DAY, Estimate, Finding, FindingKind, Growth, LimitKind, ServiceResult, Settings, Severity,
    Shape, Verdict,
};
use crate::analysis::service::{after_warm_up, growth_points, logs};

/// Level of the test whether most services of an arm saturate.
const SHAPE_ALPHA: f64 = 0.05;
/// A host that lasts longer is not told.
const HOST_DAYS: f64 = 60.0;
/// Relays of a lab, one for each seed, that are too few for an interval between order statistics have one by Student's t from
/// so many on. Services of a host have none: a forecast by so wide an interval would let a watch miss everything.
const STUDENT_SERVICES: usize = 3;
/// Of fewer readings a straight line and a curve cannot be told apart.
const SHAPE_READINGS: f64 = 10.0;
/// Shares of the observation for which the width of the interval is looked at, to tell how it shrinks.
const DURATION_SHARES: [f64; 3] = [0.5, 0.75, 1.0];
/// Load changes within a day: growth that was seen for fewer days is not carried on for longer than that.
const LEAST_DAYS: f64 = 0.9;
/// Days of further observation that are worth to be told.
const LEAST_MORE: f64 = 1.0;
/// An interval this much wider than that between services alone is one of load that they share.
const WIDENED: f64 = 1.2;

/// A later half of a life at no less than so much of the pace of the earlier one keeps its pace: what is forecast by the whole pace comes at
/// most a quarter too soon.
const KEEPS_PACE: f64 = 2.0 / 3.0;

/// Growth over `members`, positions of services.
pub(crate) fn of_arm(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[usize],
) -> Option<Growth> {
    let slopes = |of: fn(&ServiceResult) -> Option<f64>| -> Vec<f64> {
        members.iter().filter_map(|index| of(&services[*index])).collect()
    };
    let bytes = slopes(|service| service.growth_bytes_per_day);
    let shares = slopes(|service| service.growth_log_per_day);
    // The days that all arms have in common are few; whether growth slows down is looked at over all of each life.
    let own = Ages { growth_from: None, ..ages.clone() };
    let shapes: Vec<(usize, GrowthShape)> = members
        .par_iter()
        .filter_map(|index| {
            let points = growth_points(&fleet.services[*index], &own, settings, 1.0);
            Some((points.len(), growth_shape(&points)?))
        })
        .collect();
    let shape_points: Vec<f64> = shapes.iter().map(|shape| shape.0 as f64).collect();
    let shapes: Vec<GrowthShape> = shapes.into_iter().map(|shape| shape.1).collect();
    let shape = arm_shape(&shapes, SHAPE_ALPHA);
    let too_few = median(&shape_points).is_none_or(|points| points < SHAPE_READINGS);
    let extent: Vec<(f64, f64)> = members
        .iter()
        .filter_map(|index| fleet.services[*index].current())
        .map(|life| after_warm_up(life, ages, settings, 1.0))
        .filter_map(|readings| {
            let seconds = readings.last()?.age_seconds - readings.first()?.age_seconds;
            Some((readings.len() as f64, f64::from(seconds) / DAY))
        })
        .collect();
    let late: Vec<f64> = shapes.iter().filter_map(|shape| shape.late_to_early).collect();
    let first_age = |index: &usize| {
        let service = &fleet.services[*index];
        if in_sawtooth(service, ages) {
            return Some(0.0);
        }
        Some(f64::from(after_warm_up(service.current()?, ages, settings, 1.0).first()?.age_seconds))
    };
    let warm_up: Vec<f64> = members.iter().filter_map(first_age).collect();
    let common = common_load::of_arm(fleet, settings, ages, services, members);
    let shared = common.half_width;
    let share_per_day = estimate(&shares, settings.confidence_level, fleet.clock)?;
    let bytes_per_day = estimate(&bytes, settings.confidence_level, fleet.clock)?;
    let last = median(&slopes(|service| service.final_bytes)).unwrap_or(0.0);
    // A share of growing memory is of what it was on the way, which the two slopes tell, and not of what it came to.
    let on_the_way = Some(bytes_per_day.value / share_per_day.value).filter(|_| share_per_day.value > 0.0);
    let whole = on_the_way.filter(|bytes| *bytes > 0.0).map_or(last, |bytes| bytes.min(last));
    Some(Growth {
        services: shares.len() as u32,
        bytes_per_day: at_least(bytes_per_day, shared.map(|share| share * whole)),
        share_per_day: at_least(share_per_day, shared),
        readings: median(&extent.iter().map(|extent| extent.0).collect::<Vec<_>>()).unwrap_or(0.0) as u32,
        days: median(&extent.iter().map(|extent| extent.1).collect::<Vec<_>>()).unwrap_or(0.0),
        shape: match shape.shape {
            _ if too_few => Shape::Unclear,
            heaptrial_stats::Shape::Linear if keeps_pace(&late, settings, fleet.clock) => Shape::Linear,
            heaptrial_stats::Shape::Saturating => Shape::Saturating,
            _ => Shape::Unclear,
        },
        saturating_services: shape.saturating as u32,
        late_over_early: median(&late),
        rise_to_come_bytes: rise_to_come(&shapes, settings.confidence_level, fleet.clock)
            .filter(|_| common.slows_down),
        warm_up_seconds: median(&warm_up)?,
    })
}

/// Whether it is shown, of slopes of later halves over earlier ones, that growth hardly slows down. That no curve is seen to fit better does not
/// show it: readings that scatter hide a bend.
fn keeps_pace(late: &[f64], settings: &Settings, clock: Clock) -> bool {
    let interval = estimate(late, settings.confidence_level, clock);
    interval.and_then(|found| found.low).is_some_and(|low| low >= KEEPS_PACE)
}

/// How much memory rises at most after the last reading if each third of the time observed adds the same share of what the one
/// before it added: the sum of a geometric series, by the upper end of the interval of that share. It is that of the last two thirds:
/// where growth settles and something else goes on, earlier ones tell of what has settled. `None` where it is not below 1.
fn rise_to_come(shapes: &[GrowthShape], level: f64, clock: Clock) -> Option<f64> {
    let ends: Vec<heaptrial_stats::End> = shapes.iter().filter_map(|shape| shape.end).collect();
    let shares: Vec<f64> = ends.iter().filter_map(|end| end.share).collect();
    let share = estimate(&shares, level, clock)?.high.filter(|share| *share < 1.0)?.max(0.0);
    let late = median(&ends.iter().map(|end| end.rise).collect::<Vec<_>>())?.max(0.0);
    Some(late * share / (1.0 - share))
}

fn estimate(values: &[f64], level: f64, clock: Clock) -> Option<Estimate> {
    let found = median_interval(values, level)?;
    // Services that do not grow at all agree on a slope of 0: a page more or less is nothing beside the margin.
    let few = || {
        student_interval_at_least(values, level, f64::MIN_POSITIVE)
            .filter(|_| clock == Clock::Hastened && values.len() >= STUDENT_SERVICES)
    };
    let interval = found.interval.or_else(few);
    Some(Estimate {
        value: found.median,
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
    })
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
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    members: &[usize],
    growth: Option<&Growth>,
    final_bytes: Option<f64>,
) -> Verdict {
    let Some((growth, final_bytes)) = growth.zip(final_bytes) else {
        return Verdict::Inconclusive {
            days_needed: None,
            why: "there are too few readings after warm-up".to_owned(),
        };
    };
    let Some(interval) = growth.share_per_day.interval() else {
        let services = units::counted(growth.services as usize, "service");
        let verb = if growth.services == 1 { "is" } else { "are" };
        let why = format!("{services} {verb} too few for an interval of growth");
        return Verdict::Inconclusive { days_needed: None, why };
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
        Standing::BelowZero => Verdict::Inconclusive {
            days_needed: None,
            why: format!(
                "memory still falls, by {} a day: it has not settled",
                units::share(-growth.share_per_day.value)
            ),
        },
        Standing::Unclear => Verdict::Inconclusive {
            days_needed: more_days(fleet, settings, ages, members, growth),
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

/// Whether growth was seen for so short a time that it tells nothing of days to come: within a day it cannot be told from the
/// day's course, and a lab that has no days has too few readings to tell growth from caches that still fill.
pub(crate) fn is_too_short(fleet: &Fleet, ages: &Ages, members: &[usize], growth: &Growth) -> bool {
    let restarted = members.iter().any(|index| in_sawtooth(&fleet.services[*index], ages));
    let short = match fleet.clock {
        Clock::Calendar => growth.days < LEAST_DAYS,
        Clock::Hastened => f64::from(growth.readings) < SHAPE_READINGS,
        Clock::InTurn | Clock::ByLoad => false,
    };
    short && !restarted
}

fn too_short(fleet: &Fleet, settings: &Settings, growth: &Growth) -> Verdict {
    let seen = units::duration(growth.days * DAY);
    if fleet.clock == Clock::Hastened {
        return Verdict::Inconclusive {
            days_needed: None,
            why: format!(
                "{seen} after warm-up, {}, do not distinguish growth from caches that still fill",
                units::counted(growth.readings as usize, "reading")
            ),
        };
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
    let saturates = growth.shape == Shape::Saturating;
    let Some((days, limit)) = until_full(fleet, members, members, growth, final_bytes) else {
        return Verdict::Growing { days_until_full: None, limit: None };
    };
    // What levels off reaches a limit only where more may come than is left, which is the upper end of an interval: that is told, and is no bloat.
    if saturates {
        let told = growth.rise_to_come_bytes.is_some() && limit != LimitKind::Doubling;
        return Verdict::Growing { days_until_full: told.then_some(days), limit: told.then_some(limit) };
    }
    // Of growth that may slow down only what runs out at the slower pace too is sure to.
    let slower = if growth.rise_to_come_bytes.is_some() { 1.0 } else { later_half(growth) };
    if days.value <= slower * settings.horizon_days {
        if let Some(day) = as_high_before(fleet, members) {
            return Verdict::Inconclusive {
                days_needed: None,
                why: format!(
                    "memory rose after warm-up, but on day {day} of the same lives it was as high as at the end: that may be a rhythm, \
                     such as that of a week"
                ),
            };
        }
        Verdict::Bloating { days_until_full: days, limit }
    } else {
        // Twice the present memory is no limit of anything: it only stands for one where growth is fast.
        let known = limit != LimitKind::Doubling;
        Verdict::Growing { days_until_full: known.then_some(days), limit: known.then_some(limit) }
    }
}

/// The day of age, from 2, on which most services had as much as on the last whole day of their life that goes on.
fn as_high_before(fleet: &Fleet, members: &[usize]) -> Option<u32> {
    if !fleet.clock.has_calendar() {
        return None;
    }
    let days: Vec<Vec<(u32, f64)>> =
        members.par_iter().filter_map(|index| whole_days(fleet.services[*index].current()?)).collect();
    let share = |day: u32| {
        let both: Vec<bool> = days
            .iter()
            .filter_map(|days| {
                let ((last, at_the_end), (_, then)) =
                    (days.last()?, days.iter().find(|found| found.0 == day)?);
                (*last > day + 1).then_some(then >= at_the_end)
            })
            .collect();
        (2 * both.len() > days.len(), both.iter().filter(|high| **high).count() as f64 / both.len() as f64)
    };
    let longest = days.iter().filter_map(|days| Some(days.last()?.0)).max()?;
    (2..longest).find(|day| {
        let (most, high) = share(*day);
        most && high > 0.5
    })
}

/// Days of age from 2 with the median of each, without the one that the life is in.
fn whole_days(life: &FleetLife) -> Option<Vec<(u32, f64)>> {
    if !life.age_known() {
        return None;
    }
    let day = |reading: &Reading| (f64::from(reading.age_seconds) / DAY) as u32 + 1;
    let present = life.readings.last().map(day)?;
    let of_day = |chunk: &[Reading]| {
        let values: Vec<f64> = chunk.iter().map(bytes).collect();
        let day = day(&chunk[0]);
        (2..present).contains(&day).then_some((day, median(&values)?))
    };
    Some(life.readings.chunk_by(|a, b| day(a) == day(b)).filter_map(of_day).collect())
}

/// Growth that all arms share tells of load, not of allocators.
pub(crate) fn common(ages: &Ages, arms: &[ArmResult]) -> Option<Finding> {
    let lows: Option<Vec<f64>> =
        arms.iter().map(|arm| arm.growth.as_ref()?.share_per_day.low.filter(|low| *low > 0.0)).collect();
    let least = arms.iter().filter_map(|arm| Some(arm.growth.as_ref()?.share_per_day.value));
    // "Or more" holds of what is rounded down.
    let least = (least.min_by(f64::total_cmp)? * 1000.0).floor() / 1000.0;
    (arms.len() >= 2 && lows.is_some()).then(|| Finding {
        kind: FindingKind::AllArmsGrow,
        severity: Severity::Note,
        arms: (0..arms.len()).collect(),
        services: Vec::new(),
        evidence: match ages.growth_from {
            Some(_) => {
                format!("every arm grows over the same days, by {} a day or more", units::share(least))
            }
            None => format!("every arm grows, by {} a day or more", units::share(least)),
        },
    })
}

/// When the host runs out of memory if every arm goes on as it does.
pub(crate) fn host(fleet: &Fleet, arms: &[ArmResult]) -> Option<Finding> {
    let available = fleet.limit.host_available_bytes?;
    let gone = gone(fleet);
    let services = |arm: usize| {
        let own = fleet.services.iter().enumerate().filter(|(_, service)| service.arms.contains(&arm));
        own.filter(|(index, _)| !gone.contains(index)).count() as f64
    };
    let grows = |arm: usize| {
        let growth = arms[arm].growth.as_ref()?;
        Some(services(arm) * pace(growth))
    };
    let together: f64 = (0..arms.len()).filter_map(grows).sum();
    let to_come = |arm: usize| {
        let growth = arms[arm].growth.as_ref().filter(|growth| pace(growth) > 0.0)?;
        Some(growth.rise_to_come_bytes.map(|rise| services(arm) * rise))
    };
    let all_to_come: Option<f64> = (0..arms.len()).filter_map(to_come).sum();
    if all_to_come.is_some_and(|rise| rise < available) {
        return None;
    }
    let days = available / together;
    (together > 0.0 && days <= HOST_DAYS).then(|| Finding {
        kind: FindingKind::HostRunsFull,
        severity: Severity::Caution,
        arms: (0..arms.len()).collect(),
        services: Vec::new(),
        evidence: format!(
            "the services of all arms together grow by {} a day, and {} were available on the host at the last reading: \
             {} if it goes on so",
            units::memory(together),
            units::memory(available),
            match days {
                // A day more or less is what matters then.
                ..3.0 => units::duration(days * DAY),
                days => format!("{days:.0} days"),
            }
        ),
    })
}

/// Days until the first known limit is reached by straight growth, at the pace of the later half where it is shown to slow down;
/// `None` where what is still to come does not reach it. The
/// host's memory is for `members` together; of `limited`, each with a limit of its own, the one counts that has the least left of it.
pub(crate) fn until_full(
    fleet: &Fleet,
    members: &[usize],
    limited: &[usize],
    growth: &Growth,
    final_bytes: f64,
) -> Option<(Estimate, LimitKind)> {
    // Where only the host's whole memory is known, what the services do not have of it.
    let not_used = || {
        let last = |service: &FleetService| {
            let life = service.current()?;
            Some((life.started_at + life.last_age()?, bytes(life.readings.last()?)))
        };
        let end = fleet.services.iter().filter_map(last).map(|last| last.0).fold(f64::MIN, f64::max);
        // What was read no more for a day uses none any more.
        let still = fleet.services.iter().filter_map(last).filter(|last| end - last.0 <= DAY);
        let used: f64 = still.map(|last| last.1).sum();
        Some(((fleet.limit.host_bytes? - used).max(0.0), LimitKind::WholeHost))
    };
    let available = fleet.limit.host_available_bytes.map(|bytes| (bytes, LimitKind::Host)).or_else(not_used);
    let host = available.map(|(bytes, kind)| (final_bytes + bytes / members.len().max(1) as f64, kind));
    let left = limited.iter().filter_map(|index| {
        let service = &fleet.services[*index];
        let used = service.current()?.readings.last().map(bytes)?;
        Some(service.limit_bytes? - used)
    });
    let own = left.min_by(f64::total_cmp).map(|left| final_bytes + left);
    let service = match fleet.limit.service_bytes {
        Some(bytes) => (Some(bytes), LimitKind::Service),
        None => (own, LimitKind::OwnLimit),
    };
    let mut known: Vec<(f64, LimitKind)> =
        service.0.map(|bytes| (bytes, service.1)).into_iter().chain(host).collect();
    if known.is_empty() {
        known.push((2.0 * final_bytes, LimitKind::Doubling));
    }
    let (limit, kind) = known.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    if growth.rise_to_come_bytes.is_some_and(|rise| final_bytes + rise < limit) {
        return None;
    }
    let slope = &growth.bytes_per_day;
    // That it slows down is an estimate too: at the earliest it goes on as it did altogether.
    let interval = slope.interval().map(|(low, high)| (later_half(growth) * low, high));
    let days = first_passage(final_bytes, pace(growth), interval, limit)?;
    Some((Estimate { value: days.estimate, low: days.earliest, high: days.latest }, kind))
}

/// Bytes a day at which growth is carried on.
fn pace(growth: &Growth) -> f64 {
    growth.bytes_per_day.value * if growth.rise_to_come_bytes.is_some() { later_half(growth) } else { 1.0 }
}

/// The share of growth altogether at which it goes in the later half.
fn later_half(growth: &Growth) -> f64 {
    growth.late_over_early.map_or(1.0, pace_of_later_half)
}

/// Growth in the second half over growth altogether, at most 1, from that over growth in the first half: what slows down is not
/// carried on as a straight line, and what seems to speed up may be chance.
pub(crate) fn pace_of_later_half(late_over_early: f64) -> f64 {
    // The slope of the whole is about the mean of those of its halves.
    let late = late_over_early.clamp(0.0, 1.0);
    2.0 * late / (1.0 + late)
}

/// Days until the interval of growth is expected to decide, from how it shrank so far.
fn more_days(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    members: &[usize],
    growth: &Growth,
) -> Option<f64> {
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
