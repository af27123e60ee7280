//! Whose memory goes as that of another arm.

use std::collections::BTreeMap;

use heaptrial_stats::{median, quantile};
use rayon::prelude::*;

use super::{Search, by_block, counted};
use crate::curve::{Curve, Curves};
use crate::fleet::{Fleet, FleetService};
use crate::outcome::{Finding, FindingKind, OffTreatment, ServiceResult, Severity};

/// A service off treatment is this many times nearer to another arm than to its own,
const NEARER: f64 = 3.0;
/// and from its own further than this many times the distance that is usual in it: 4 standard deviations, which of
/// 200 services whose levels are normal one reaches in 80 fleets,
const UNUSUAL: f64 = 6.0;
/// and further than this many times the distance that one in ten of those exceeds that are nearest to their own arm,
/// where levels have heavier tails,
const BEYOND: f64 = 2.5;
const TAIL_SHARE: f64 = 0.9;
/// and further than a factor of 1.2.
const FAR: f64 = 0.182;
/// An arm of fewer services has no shape of its own.
const FEWEST_SERVICES: usize = 3;

/// Distances between services and arms on their server: mean absolute differences of logarithms over age.
#[derive(Debug)]
pub(crate) struct Nearest {
    /// By service and arm.
    distances: Vec<Vec<Option<f64>>>,
    /// By arm: the distance of its services from it that is still usual.
    usual: Vec<Option<f64>>,
}

impl Nearest {
    pub(crate) fn of(
        fleet: &Fleet,
        services: &[ServiceResult],
        members: &[Vec<usize>],
        curves: &Curves,
    ) -> Self {
        // By arm and block: the services, and their curve.
        let groups: Vec<BTreeMap<u32, (Vec<usize>, Curve)>> = members
            .iter()
            .map(|members| {
                let enough =
                    by_block(fleet, members).into_iter().filter(|own| own.1.len() >= FEWEST_SERVICES);
                let with_curve = |(block, own): (u32, Vec<usize>)| {
                    let curve = curves.median_of(&own, None);
                    (block, (own, curve))
                };
                enough.map(with_curve).collect()
            })
            .collect();
        let distances: Vec<Vec<Option<f64>>> = (0..services.len())
            .into_par_iter()
            .map(|service| {
                let FleetService { arms, block, .. } = &fleet.services[service];
                let to = |arm: usize| {
                    let (group, curve) = groups[arm].get(block)?;
                    // Its own memory must not pull the curve that it is held against.
                    let pulls = arms.contains(&arm) && Curves::pulls(group.len());
                    let without = pulls.then(|| curves.median_of(group, Some(service)));
                    curves.distance(service, without.as_ref().unwrap_or(curve))
                };
                (0..fleet.arms.len()).map(to).collect()
            })
            .collect();
        let mut near = Self { distances, usual: Vec::new() };
        near.usual =
            members.iter().enumerate().map(|(arm, members)| near.usual(fleet, arm, members)).collect();
        near
    }

    fn usual(&self, fleet: &Fleet, arm: usize, members: &[usize]) -> Option<f64> {
        let own = |index: &usize| self.own(*index, arm);
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
        let (a, b) = (self.distances[service][first]?, self.distances[service][second]?);
        if a * NEARER <= b {
            Some(first)
        } else if b * NEARER <= a {
            Some(second)
        } else {
            None
        }
    }

    /// The present arm that a service is nearest to, other than `but` and lists of it.
    pub(crate) fn nearest(&self, fleet: &Fleet, service: usize, but: usize) -> Option<(usize, f64)> {
        let base = fleet.arms[but].earlier_list_of.unwrap_or(but);
        let others =
            (0..fleet.arms.len()).filter(|arm| fleet.arms[*arm].earlier_list_of.is_none() && *arm != base);
        others.filter_map(|arm| Some((arm, self.distances[service][arm]?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    pub(crate) fn own(&self, service: usize, arm: usize) -> Option<f64> {
        self.distances[service][arm]
    }

    /// Finds services whose memory goes as another arm's.
    pub(crate) fn search(
        &self,
        fleet: &Fleet,
        services: &[ServiceResult],
        members: &[Vec<usize>],
        search: &mut Search,
    ) {
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
                        "the memory of {} of {} goes as that of {name}: over age it is a factor of {own:.2} from its own \
                         arm and {other:.2} from that one (medians)",
                        counted(group.len(), members.len()),
                        fleet.arms[arm].name
                    ),
                    effect: "As treated they are left out: an inference from memory, which a look into the processes would \
                             prove or disprove."
                        .to_owned(),
                });
            }
        }
    }

    fn off_treatment(&self, fleet: &Fleet, service: usize, arm: usize) -> Option<(usize, f64, f64)> {
        let own = self.own(service, arm)?;
        let usual = self.usual[arm]?;
        let (like, other) = self.nearest(fleet, service, arm)?;
        (own >= NEARER * other && own >= usual && own >= FAR).then_some((like, own, other))
    }
}
