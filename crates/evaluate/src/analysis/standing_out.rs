//! Services far from the others of their arm, by level or by growth: a median does not show them.

use heaptrial_model::units;
use heaptrial_stats::{last_part, median, share_interval};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::age::in_sawtooth;
use crate::analysis::data::Data;
use crate::analysis::fleet::Fleet;
use crate::analysis::growth::{Extent, is_too_short, still_read, until_full};
use crate::analysis::outcome::{
    Analysis, ArmResult, Estimate, Finding, FindingKind, Growth, LimitKind, ServiceGrowth, ServiceVerdicts,
    Severity, Verdict,
};
use crate::analysis::service::growth_points;
use crate::analysis::thresholds::ENOUGH;

/// Deviations from the median, as median absolute deviations, from which a service stands out: of 20 services whose values are
/// normal one does in 1.2% of arms.
const DEVIATIONS: f64 = 5.0;
/// The factor by which a level has to differ: where an arm's services are almost alike, small differences are no news.
const FACTOR: f64 = 1.5;
/// The median absolute deviation times this estimates the standard deviation of normal values.
const NORMAL: f64 = 1.4826;
/// Fewer services do not show what is usual among them.
pub(crate) const FEWEST: usize = 5;
/// A service levels off whose last third of the time adds less than this share of what the third before it added.
const LEVELS_OFF: f64 = 0.5;

/// A service whose memory is far from that of its arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    pub service: usize,
    pub name: String,
    pub arm: usize,
    /// Its level at the matched age, in bytes.
    pub level_bytes: f64,
    /// Median over the arm's services, without off-treatment services, in bytes.
    pub median_bytes: f64,
    pub factor: f64,
}

/// Services of an arm whose level is more than 5 median absolute deviations (on the log scale, scaled to a standard
/// deviation) and more than a factor of 1.5 from the arm's median, farthest first. Off-treatment services belong to no arm.
///
/// C. Leys et al., "Detecting outliers", Journal of Experimental Social Psychology 49 (2013), on why not the standard
/// deviation: an outlier widens it and hides. By simulation, of arms in which nobody differs (log-normal levels) a
/// service stands out in less than 0.1% where the levels' spread is 10%; where it is 20% in 4% of arms of 5 services, 1.2%
/// of 20 and 0.1% of 80; where it is 40% in 10% of arms of 5, 1.5% of 20 and 0.1% of 80.
pub fn outliers(analysis: &Analysis) -> Vec<Outlier> {
    let mut found: Vec<Outlier> = (0..analysis.arms.len()).flat_map(|arm| of_arm(analysis, arm)).collect();
    let far = |outlier: &Outlier| outlier.factor.ln().abs();
    found.sort_by(|a, b| far(b).total_cmp(&far(a)).then((a.arm, a.service).cmp(&(b.arm, b.service))));
    found
}

fn of_arm(analysis: &Analysis, arm: usize) -> Vec<Outlier> {
    let level = |index: usize| analysis.services[index].level_bytes.filter(|bytes| *bytes > 0.0);
    let own: Vec<(usize, f64)> =
        analysis.members(arm).into_iter().filter_map(|index| Some((index, level(index)?))).collect();
    let logs: Vec<f64> = own.iter().map(|(_, level)| level.ln()).collect();
    let Some((middle, limit)) = usual(&logs, FACTOR.ln()) else { return Vec::new() };
    let median_bytes = middle.exp();
    let far = own.into_iter().filter(|(_, level)| (level.ln() - middle).abs() > limit);
    far.map(|(service, level_bytes)| Outlier {
        service,
        name: analysis.services[service].name.clone(),
        arm,
        level_bytes,
        median_bytes,
        factor: level_bytes / median_bytes,
    })
    .collect()
}

/// The median of the values of an arm's services, and the distance from it, `least` or more, that is still usual.
fn usual(values: &[f64], least: f64) -> Option<(f64, f64)> {
    if values.len() < FEWEST {
        return None;
    }
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some((middle, (DEVIATIONS * NORMAL * median(&deviations)?).max(least)))
}

/// The services of an arm that bloat though the median service does not have to: they grow faster than the others by more than
/// is usual, do not level off, and memory runs out within the horizon by that part of their growth which is their own. `None` of an
/// arm that is restarted at intervals, and without readings.
pub(crate) fn bloating(
    data: Data<'_>,
    members: &[usize],
    growth: Option<&Growth>,
) -> Option<ServiceVerdicts> {
    let Data { fleet, settings, ages, services } = data;
    let read: Vec<usize> =
        members.iter().copied().filter(|index| services[*index].final_bytes.is_some()).collect();
    if read.is_empty() || read.iter().any(|index| in_sawtooth(&fleet.services[*index], ages)) {
        return None;
    }
    let middle = median(&data.values(&read, |service| service.growth_log_per_day));
    let days = |index: usize| Some(Extent::of(&fleet.services[index], ages, settings)?.days);
    let usual_days = median(&read.iter().filter_map(|index| days(*index)).collect::<Vec<_>>());
    // By how much memory rose beside the arm's over the time observed: slopes of short lives scatter more.
    let rise = |index: usize| {
        let days = days(index).filter(|days| usual_days.is_some_and(|usual| *days >= ENOUGH * usual))?;
        Some((services[index].growth_log_per_day? - middle?) * days)
    };
    let rises: Vec<f64> = read.iter().filter_map(|index| rise(*index)).collect();
    let usual = usual(&rises, 0.0);
    let on_the_host = still_read(fleet, &read);
    // Growth that was seen for less than a day shows no more days than that.
    let horizon = match growth {
        Some(growth) if is_too_short(fleet, ages, &read, growth) => growth.days,
        _ => settings.horizon_days,
    };
    let whole = ages.of_whole_lives();
    let verdict = |index: &usize| {
        let (service, (usual_rise, limit)) = (&services[*index], usual?);
        let (share_per_day, bytes_per_day) = (service.growth_log_per_day?, service.growth_bytes_per_day?);
        let own = share_per_day - middle?.max(0.0);
        let stands_out = rise(*index)? - usual_rise > limit && own > settings.stable_margin_per_day;
        let points = || growth_points(&fleet.services[*index], &whole, settings, 1.0);
        if !stands_out || levels_off(&points()) {
            return None;
        }
        let own_bytes = Estimate::bare(bytes_per_day * own / share_per_day);
        let (days, limit) =
            until_full(fleet, &on_the_host, &[*index], &own_bytes, None, service.final_bytes?)?;
        (days.value <= horizon).then(|| ServiceGrowth {
            name: service.name.clone(),
            share_per_day,
            bytes_per_day,
            days_until_full: days.value,
            limit,
        })
    };
    let mut found: Vec<ServiceGrowth> = read.iter().filter_map(verdict).collect();
    found.sort_by(|a, b| b.share_per_day.total_cmp(&a.share_per_day));
    let (low, high) = share_interval(found.len(), read.len(), settings.confidence_level);
    let value = found.len() as f64 / read.len() as f64;
    Some(ServiceVerdicts {
        services: read.len() as u32,
        bloating: found.len() as u32,
        bloating_share: Estimate { value, low: Some(low), high: Some(high) },
        bloating_services: found,
    })
}

fn levels_off(points: &[(f64, f64)]) -> bool {
    last_part(points, 3).and_then(|found| found.share).is_some_and(|share| share < LEVELS_OFF)
}

/// The verdict on an arm of which some services bloat: not `stable`, and not only `growing` or `inconclusive` either.
pub(crate) fn verdict(of_arm: Verdict, services: Option<&ServiceVerdicts>) -> Verdict {
    let Some(services) = services.filter(|services| services.bloating > 0) else { return of_arm };
    if let Verdict::Bloating { .. } = of_arm {
        return of_arm;
    }
    let days = |service: &&ServiceGrowth| service.days_until_full;
    let first = services.bloating_services.iter().min_by(|a, b| days(a).total_cmp(&days(b)));
    Verdict::SomeBloat {
        services: services.bloating,
        of: services.services,
        days_until_full: first.map(|first| first.days_until_full),
        limit: first.map(|first: &ServiceGrowth| -> LimitKind { first.limit }),
    }
}

pub(crate) fn findings(fleet: &Fleet, arms: &[ArmResult]) -> Vec<Finding> {
    let finding = |(arm, result): (usize, &ArmResult)| {
        let services = result.service_verdicts.as_ref()?;
        let Some(Verdict::SomeBloat { .. }) = result.verdict else { return None };
        let (low, high) = services.bloating_share.interval()?;
        let least = services.bloating_services.iter().map(|service| service.share_per_day);
        let evidence = format!(
            "{} of {} of {} ({} to {} of services like these) {}, by {} a day or more, and its median service does not",
            services.bloating,
            units::counted(services.services as usize, "service"),
            fleet.arms[arm].name,
            units::share(low),
            units::share(high),
            if services.bloating == 1 { "bloats" } else { "bloat" },
            units::share(least.min_by(f64::total_cmp)?),
        );
        let names = services.bloating_services.iter().map(|service| service.name.clone()).collect();
        Some(Finding::new(FindingKind::SomeBloat, Severity::Grave, evidence).of_arm(arm).naming(names))
    };
    arms.iter().enumerate().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    /// Positions of the levels far from the median.
    fn far(levels: &[f64]) -> Vec<usize> {
        let logs: Vec<f64> = levels.iter().map(|level| level.ln()).collect();
        let Some((middle, limit)) = usual(&logs, FACTOR.ln()) else { return Vec::new() };
        (0..logs.len()).filter(|place| (logs[*place] - middle).abs() > limit).collect()
    }

    #[test]
    fn false_alarms_are_as_rare_as_described() {
        const ARMS: u32 = 20_000;
        for (services, spread, most) in [
            (5, 0.1, 0.001),
            (20, 0.1, 0.001),
            (5, 0.2, 0.04),
            (20, 0.2, 0.012),
            (20, 0.4, 0.015),
            (80, 0.4, 0.001),
        ] {
            let mut random = ChaCha8Rng::seed_from_u64(services as u64);
            let logs = Normal::new(21.0, spread).unwrap();
            let found = (0..ARMS).filter(|_| {
                let arm: Vec<f64> = (0..services).map(|_| f64::exp(logs.sample(&mut random))).collect();
                !far(&arm).is_empty()
            });
            let share = found.count() as f64 / f64::from(ARMS);
            // Two decimals of a share, and what 20,000 draws leave open.
            assert!(share <= 1.1 * most + 0.001, "{services} {spread}: {share}");
        }
    }

    #[test]
    fn both_sides_and_both_conditions() {
        let alike = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01];
        let with = |level: f64| far(&[&alike[..], &[level]].concat());
        assert_eq!((with(1.6), with(0.6)), (vec![7], vec![7]));
        assert!(with(1.4).is_empty(), "far by deviations, but less than 1.5 times");
        assert!(
            far(&[1.0, 0.5, 2.0, 0.7, 1.4, 3.0, 0.3]).is_empty(),
            "a factor of 3 where levels differ that much"
        );
        assert!(far(&[1.0, 1.0, 1.0, 9.0]).is_empty(), "of four services nobody stands out");
        assert_eq!(far(&[1.0, 1.0, 1.0, 1.0, 9.0]), [4]);
    }
}
