//! Which arm needs least and which most, over all arms that have any figure.

use std::collections::BTreeMap;

use heaptrial_stats::{geometric_mean, median};

use crate::analysis::data::Data;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{ArmPlace, ArmResult, Basis, Extremes, ServiceResult, WorkStanding};
use crate::analysis::thresholds::ENOUGH;

/// The order of the arms over `members` (positions of services by arm, without off-treatment services).
pub(crate) fn of_arms(data: Data<'_>, members: &[Vec<usize>], results: &[ArmResult]) -> Extremes {
    let fleet = data.fleet;
    let values = |basis: Basis, arm: usize| values(data.services, basis, &members[arm]);
    let last_readings = |arm: usize| values(Basis::LastReadings, arm).len();
    let (read, without_reading): (Vec<usize>, Vec<usize>) =
        (0..fleet.arms.len()).partition(|arm| last_readings(*arm) > 0);
    let at_one_age = match data.ages.matched {
        _ if read.iter().any(|arm| fleet.arms[*arm].restarted) => Some(Basis::AverageOverTime),
        Some(age_seconds) => Some(Basis::LevelAtEqualAge { age_seconds }),
        None => None,
    };
    let has_level = |arm: &usize| {
        let found = at_one_age.map_or(0, |basis| values(basis, *arm).len());
        found > 0 && found as f64 >= ENOUGH * last_readings(*arm) as f64
    };
    let without_level: Vec<usize> = read.iter().copied().filter(|arm| !has_level(arm)).collect();
    let basis = at_one_age.filter(|_| without_level.is_empty()).unwrap_or(Basis::LastReadings);
    let place = |arm: &usize| {
        let values = values(basis, *arm);
        let bytes = if basis == Basis::LastReadings { median(&values) } else { geometric_mean(&values) };
        let work = results[*arm].work.as_ref().map(|work| work.standing);
        Some(ArmPlace {
            arm: *arm,
            bytes: bytes?,
            services: values.len() as u32,
            of: last_readings(*arm) as u32,
            ranked: work != Some(WorkStanding::ClearlyLess),
            work,
        })
    };
    let mut order: Vec<ArmPlace> = read.iter().filter_map(place).collect();
    let ratios: Option<BTreeMap<usize, f64>> = order
        .iter()
        .map(|place| Some((place.arm, within_blocks(fleet, basis, place.arm, results)?)))
        .collect();
    let figure = |place: &ArmPlace| ratios.as_ref().map_or(place.bytes, |ratios| ratios[&place.arm]);
    order.sort_by(|a, b| figure(a).total_cmp(&figure(b)).then(a.bytes.total_cmp(&b.bytes)));
    let (least, most) = ends(&order);
    Extremes { basis, without_level, without_reading, order, least, most }
}

/// The figures of services that have one above 0.
fn values(services: &[ServiceResult], basis: Basis, members: &[usize]) -> Vec<f64> {
    let value = |service: &ServiceResult| match basis {
        Basis::LevelAtEqualAge { .. } => service.level_bytes,
        Basis::AverageOverTime => service.time_average_bytes,
        Basis::LastReadings => service.final_bytes,
    };
    let values = members.iter().filter_map(|index| value(&services[*index]));
    values.filter(|bytes| *bytes > 0.0).collect()
}

/// The figure by which arms are ordered where services are compared within blocks: the ratio to the control. An arm with more
/// services on the servers that need much has a high level and may need less than the control all the same.
fn within_blocks(fleet: &Fleet, basis: Basis, arm: usize, results: &[ArmResult]) -> Option<f64> {
    let several = fleet.services.windows(2).any(|pair| pair[0].block != pair[1].block);
    if !matches!(basis, Basis::LevelAtEqualAge { .. }) || !several {
        return None;
    }
    if fleet.arms[arm].control {
        return Some(1.0);
    }
    Some(results[arm].treated().ratio.as_ref()?.estimate.value)
}

impl Extremes {
    /// Takes an arm's rank: it is neither least nor most, whatever its figure.
    pub fn leave_out(&mut self, arm: usize) {
        for place in self.order.iter_mut().filter(|place| place.arm == arm) {
            place.ranked = false;
        }
        (self.least, self.most) = ends(&self.order);
    }
}

/// The arms with a rank that need least and most; neither where fewer than two have one.
fn ends(order: &[ArmPlace]) -> (Option<usize>, Option<usize>) {
    let mut ranked = order.iter().filter(|place| place.ranked).map(|place| place.arm);
    let (least, most) = (ranked.next(), ranked.next_back());
    (least.filter(|_| most.is_some()), most)
}
