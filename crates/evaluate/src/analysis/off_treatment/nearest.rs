//! Services whose memory behaves as that of another arm.

use std::collections::BTreeMap;

use heaptrial_stats::{median, quantile};
use rayon::prelude::*;

use super::{Search, Strata, counted};
use crate::analysis::curve::{Apart, Curve, Curves};
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, OffTreatment, ServiceResult, Severity};

/// A service off treatment is this many times nearer to another arm than to its own,
const NEARER: f64 = 3.0;
/// and within a factor of 1.3 of that other arm,
const NEAR: f64 = 0.25;
/// and from its own further than this many times the distance that is usual in it: 4 standard deviations, which of
/// 200 services whose levels are normal one reaches in 80 fleets,
const UNUSUAL: f64 = 6.0;
/// and further than this many times the distance that one in ten of those exceeds that are nearest to their own arm,
/// where levels have heavier tails,
const BEYOND: f64 = 2.5;
const TAIL_SHARE: f64 = 0.9;
/// and further than a factor of 1.2.
const FAR: f64 = 0.182;
/// Services of another arm are as far from theirs by this share of the distance,
const AS_FAR: f64 = 0.8;
/// if this share of as many of them are.
const AS_MANY: f64 = 0.5;
/// An arm of fewer services has no shape of its own.
const FEWEST_SERVICES: usize = 3;

/// Distances between services and arms on their server: mean absolute differences of logarithms over age.
#[derive(Debug)]
pub(crate) struct Nearest {
    /// By service and arm.
    apart: Vec<Vec<Option<Apart>>>,
    /// By arm: the distance of its services from it that is still usual.
    usual: Vec<Option<f64>>,
}

impl Nearest {
    pub(crate) fn of(
        fleet: &Fleet,
        services: &[ServiceResult],
        members: &[Vec<usize>],
        curves: &Curves,
        strata: &Strata,
    ) -> Self {
        // By arm and stratum: the services, and their curve.
        type Groups = BTreeMap<(u32, usize), (Vec<usize>, Curve)>;
        let groups: Vec<Groups> = members
            .iter()
            .map(|members| {
                let enough = strata.split(members).into_iter().filter(|own| own.1.len() >= FEWEST_SERVICES);
                let with_curve = |(stratum, own): ((u32, usize), Vec<usize>)| {
                    let curve = curves.median_of(&own, None);
                    (stratum, (own, curve))
                };
                enough.map(with_curve).collect()
            })
            .collect();
        let apart: Vec<Vec<Option<Apart>>> = (0..services.len())
            .into_par_iter()
            .map(|service| {
                let arms = &fleet.services[service].arms;
                let to = |arm: usize| {
                    let (group, curve) = groups[arm].get(&strata.of_service(service)?)?;
                    // Its own memory must not pull the curve that it is held against.
                    let pulls = arms.contains(&arm) && Curves::pulls(group.len());
                    let without = pulls.then(|| curves.median_of(group, Some(service)));
                    curves.apart(service, without.as_ref().unwrap_or(curve))
                };
                (0..fleet.arms.len()).map(to).collect()
            })
            .collect();
        let mut near = Self { apart, usual: Vec::new() };
        near.usual =
            members.iter().enumerate().map(|(arm, members)| near.usual(fleet, arm, members)).collect();
        near
    }

    fn usual(&self, fleet: &Fleet, arm: usize, members: &[usize]) -> Option<f64> {
        let own = |index: &usize| self.distance(*index, arm);
        let settled = |index: &&usize| {
            let other = self.nearest(fleet, **index, arm).map_or(f64::INFINITY, |near| near.1);
            own(index).is_some_and(|own| own <= other)
        };
        let all: Vec<f64> = members.iter().filter_map(own).collect();
        let settled: Vec<f64> = members.iter().filter(settled).filter_map(own).collect();
        Some((UNUSUAL * median(&all)?).max(BEYOND * quantile(&settled, TAIL_SHARE).unwrap_or(0.0)))
    }

    /// Which of two arms a service clearly fits.
    pub(crate) fn fits(&self, service: usize, first: usize, second: usize) -> Option<usize> {
        let (a, b) = (self.distance(service, first)?, self.distance(service, second)?);
        if a * NEARER <= b {
            Some(first)
        } else if b * NEARER <= a {
            Some(second)
        } else {
            None
        }
    }

    /// The arm that a service is nearest to, other than `but`.
    pub(crate) fn nearest(&self, fleet: &Fleet, service: usize, but: usize) -> Option<(usize, f64)> {
        let others = (0..fleet.arms.len()).filter(|arm| *arm != but);
        others.filter_map(|arm| Some((arm, self.distance(service, arm)?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    pub(crate) fn distance(&self, service: usize, arm: usize) -> Option<f64> {
        Some(self.apart[service][arm]?.distance)
    }

    /// Whether a service keeps its distance from an arm over age. One that leaks passes the levels of other arms.
    pub(crate) fn keeps_beside(&self, service: usize, arm: usize) -> bool {
        self.apart[service][arm].and_then(|apart| apart.drift).is_none_or(|drift| drift.abs() < FAR)
    }

    /// Finds services whose memory goes as another arm's.
    pub(crate) fn search(
        &self,
        fleet: &Fleet,
        services: &[ServiceResult],
        members: &[Vec<usize>],
        search: &mut Search,
    ) {
        let all = members;
        for (arm, members) in members.iter().enumerate() {
            let found: Vec<(usize, usize, f64, f64)> = members
                .iter()
                // What a list or a cluster explains is told there.
                .filter(|index| !search.is_off_treatment(**index, arm))
                .filter_map(|index| {
                    self.off_treatment(fleet, *index, arm)
                        .map(|(like, own, other)| (*index, like, own, other))
                })
                .collect();
            let mut likes: Vec<usize> = found.iter().map(|found| found.1).collect();
            likes.sort_unstable();
            likes.dedup();
            for like in likes {
                let group: Vec<_> = found.iter().filter(|found| found.1 == like).collect();
                let of_group: Vec<usize> = group.iter().map(|found| found.0).collect();
                if is_apart_in_both(fleet, services, (members, &all[like]), &of_group) {
                    continue;
                }
                let (own, other) = (
                    median(&group.iter().map(|found| found.2).collect::<Vec<_>>()).unwrap_or(0.0).exp(),
                    median(&group.iter().map(|found| found.3).collect::<Vec<_>>()).unwrap_or(0.0).exp(),
                );
                let name = &fleet.arms[like].name;
                for (index, _, own, other) in &group {
                    let why = format!(
                        "over age its memory is a factor of {:.2} from {} and {:.2} from {name}",
                        own.exp(),
                        fleet.arms[arm].name,
                        other.exp()
                    );
                    search.add(*index, OffTreatment { arm, like: Some(like), proved: false, why });
                }
                search.findings.push(Finding {
                    kind: FindingKind::NearerToAnotherArm,
                    severity: Severity::Grave,
                    arms: vec![arm, like],
                    services: group.iter().map(|found| services[found.0].name.clone()).collect(),
                    evidence: format!(
                        "the memory of {} of {} behaves as that of {name}: over age it is a factor of {own:.2} from its own \
                         arm and {other:.2} from that one (medians)",
                        counted(group.len(), members.len()),
                        fleet.arms[arm].name
                    ),
                });
            }
        }
    }

    fn off_treatment(&self, fleet: &Fleet, service: usize, arm: usize) -> Option<(usize, f64, f64)> {
        let own = self.distance(service, arm)?;
        let usual = self.usual[arm]?;
        let (like, other) = self.nearest(fleet, service, arm)?;
        let goes_there = own >= NEARER * other && other < NEAR && self.keeps_beside(service, like);
        (goes_there && own >= usual && own >= FAR).then_some((like, own, other))
    }
}

/// Whether services of the other arm (`members.1`) are as far from most of theirs as `group` is from most of its own, in the same
/// direction and a like share: a few services of either arm are large, and the large ones of one may need what most of the other do.
fn is_apart_in_both(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: (&[usize], &[usize]),
    group: &[usize],
) -> bool {
    let Some(block) = group.first().map(|index| fleet.services[*index].block) else { return false };
    let offsets = |members: &[usize]| -> Option<Vec<(usize, f64)>> {
        let own = || members.iter().copied().filter(|index| fleet.services[*index].block == block);
        let log = |index: usize, of: fn(&ServiceResult) -> Option<f64>| {
            Some((index, of(&services[index]).filter(|bytes| *bytes > 0.0)?.ln()))
        };
        let levels: Option<Vec<_>> = own().map(|index| log(index, |service| service.level_bytes)).collect();
        let last = || own().filter_map(|index| log(index, |service| service.final_bytes)).collect();
        let values: Vec<(usize, f64)> = levels.unwrap_or_else(last);
        let middle = median(&values.iter().map(|value| value.1).collect::<Vec<_>>())?;
        Some(values.into_iter().map(|(index, log)| (index, log - middle)).collect())
    };
    let (Some(own), Some(others)) = (offsets(members.0), offsets(members.1)) else { return false };
    let apart: Vec<f64> =
        own.iter().filter(|(index, _)| group.contains(index)).map(|(_, offset)| *offset).collect();
    let Some(distance) = median(&apart) else { return false };
    let as_far = others.iter().filter(|(_, offset)| offset * distance.signum() >= AS_FAR * distance.abs());
    let (share, as_far) = (apart.len() as f64 / own.len() as f64, as_far.count() as f64);
    as_far >= 1.0 && as_far / others.len() as f64 >= AS_MANY * share
}
