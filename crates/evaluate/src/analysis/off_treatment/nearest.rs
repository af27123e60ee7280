//! Services whose memory behaves as that of another arm.

use std::collections::BTreeMap;

use heaptrial_stats::{median, quantile};
use rayon::prelude::*;

use super::{Search, counted};
use crate::analysis::curve::{Apart, Curve, Curves};
use crate::analysis::data::Data;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, OffTreatment, ServiceResult, Severity};
use crate::analysis::thresholds::{FEWEST_OF_A_GROUP, USUAL_SHARE};

/// A service off treatment is this many times nearer to another arm than to its own,
const NEARER: f64 = 3.0;
/// and within a factor of 1.3 of that other arm,
const NEAR: f64 = 0.25;
/// and from its own further than this many times the distance that one in ten exceeds of the services that are nearest to their
/// own arm: 4 standard deviations, which of 200 services whose levels are normal one reaches in 80 fleets,
const BEYOND: f64 = 2.5;
/// and further than a factor of 1.2.
const FAR: f64 = 0.182;
/// Services of another arm are as far from theirs by this share of the distance,
const AS_FAR: f64 = 0.8;
/// if this share of as many of them are.
const AS_MANY: f64 = 0.5;
/// Two arms of which such a share each is as the other have services of two sizes: few are listed in the wrong one of them.
const OF_TWO_SIZES: f64 = 0.25;

/// Distances between services and arms on their server: mean absolute differences of logarithms over age.
#[derive(Debug)]
pub(crate) struct Nearest {
    apart: Vec<Vec<Option<Apart>>>,
    /// By arm: the distance of its services from it that is still usual.
    usual: Vec<Option<f64>>,
}

impl Nearest {
    /// Many services of another arm pull the curve of an arm toward that one, so the curves are taken again of those that stay.
    pub(crate) fn of(fleet: &Fleet, members: &[Vec<usize>], curves: &Curves) -> Self {
        let near = Self::beside(fleet, members, curves);
        let staying = |(arm, members): (usize, &Vec<usize>)| -> Vec<usize> {
            members.iter().copied().filter(|index| near.elsewhere(*index, arm).is_none()).collect()
        };
        let staying: Vec<Vec<usize>> = members.iter().enumerate().map(staying).collect();
        if staying == members { near } else { Self::beside(fleet, &staying, curves) }
    }

    /// The distances from the curves of `members`, positions of services by arm.
    fn beside(fleet: &Fleet, members: &[Vec<usize>], curves: &Curves) -> Self {
        // By arm and block, as one on another server may differ by that alone: the curve of the services, and they.
        type Groups = BTreeMap<u32, (Curve, Vec<usize>)>;
        let groups: Vec<Groups> = members
            .iter()
            .map(|members| {
                let mut blocks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
                for index in members {
                    blocks.entry(fleet.services[*index].block).or_default().push(*index);
                }
                blocks.retain(|_, own| own.len() >= FEWEST_OF_A_GROUP);
                blocks.into_iter().map(|(block, own)| (block, (curves.median_of(&own, None), own))).collect()
            })
            .collect();
        let apart: Vec<Vec<Option<Apart>>> = (0..fleet.services.len())
            .into_par_iter()
            .map(|service| {
                let own = &fleet.services[service];
                let to = |arm: usize| {
                    let (curve, group) = groups[arm].get(&own.block)?;
                    // Its own memory must not pull the curve that it is held against.
                    let pulls = own.arms.contains(&arm) && Curves::pulls(group.len());
                    let without = pulls.then(|| curves.median_of(group, Some(service)));
                    curves.apart(service, without.as_ref().unwrap_or(curve))
                };
                (0..fleet.arms.len()).map(to).collect()
            })
            .collect();
        let mut near = Self { apart, usual: Vec::new() };
        near.usual = members.iter().enumerate().map(|(arm, members)| near.usual(arm, members)).collect();
        near
    }

    fn usual(&self, arm: usize, members: &[usize]) -> Option<f64> {
        let own = |index: &usize| self.distance(*index, arm);
        let settled = |index: &&usize| {
            let other = self.nearest(**index, arm).map_or(f64::INFINITY, |near| near.1);
            own(index).is_some_and(|own| own <= other)
        };
        let settled: Vec<f64> = members.iter().filter(settled).filter_map(own).collect();
        quantile(&settled, USUAL_SHARE).map(|distance| BEYOND * distance)
    }

    /// Which of two arms a service clearly fits.
    pub(crate) fn fits(&self, service: usize, first: usize, second: usize) -> Option<usize> {
        let (a, b) = (self.distance(service, first)?, self.distance(service, second)?);
        let is_first = (a * NEARER <= b).then_some(first);
        is_first.or_else(|| (b * NEARER <= a).then_some(second))
    }

    /// The arm that a service is nearest to, other than `but`.
    fn nearest(&self, service: usize, but: usize) -> Option<(usize, f64)> {
        let others = (0..self.apart[service].len()).filter(|arm| *arm != but);
        others.filter_map(|arm| Some((arm, self.distance(service, arm)?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn distance(&self, service: usize, arm: usize) -> Option<f64> {
        Some(self.apart[service][arm]?.distance)
    }

    /// Whether a service keeps its distance from an arm over age. One that leaks passes the levels of other arms.
    fn keeps_beside(&self, service: usize, arm: usize) -> bool {
        self.apart[service][arm].and_then(|apart| apart.drift).is_none_or(|drift| drift.abs() < FAR)
    }

    /// Finds services whose memory goes as another arm's.
    pub(crate) fn search(&self, data: Data<'_>, members: &[Vec<usize>], search: &mut Search) {
        let fleet = data.fleet;
        // What a list explains is said there.
        let of_arm = |arm: usize| -> Vec<Found> {
            let open = members[arm].iter().filter(|index| !search.is_off_treatment(**index, arm));
            open.filter_map(|index| self.off_treatment(*index, arm)).collect()
        };
        let found: Vec<Vec<Found>> = (0..members.len()).map(of_arm).collect();
        let share = |arm: usize, like: usize| {
            let group = found[arm].iter().filter(|found| found.like == like).count();
            group as f64 / members[arm].len().max(1) as f64
        };
        for (arm, own_members) in members.iter().enumerate() {
            for (like, theirs) in members.iter().enumerate() {
                let group: Vec<&Found> = found[arm].iter().filter(|found| found.like == like).collect();
                // Where many of either are as the other, both arms have services of two sizes.
                let of_two_sizes = share(arm, like).min(share(like, arm)) >= OF_TWO_SIZES;
                let of_group: Vec<usize> = group.iter().map(|found| found.service).collect();
                if of_two_sizes || is_apart_in_both(data, (own_members, theirs), &of_group) {
                    continue;
                }
                let middle = |distance: fn(&Found) -> f64| {
                    median(&group.iter().map(|found| distance(found)).collect::<Vec<_>>())
                };
                let Some((own, other)) = middle(|found| found.own).zip(middle(|found| found.other)) else {
                    continue;
                };
                let name = &fleet.arms[like].name;
                for found in &group {
                    let why = format!(
                        "over age its memory is a factor of {:.2} from {} and {:.2} from {name}",
                        found.own.exp(),
                        fleet.arms[arm].name,
                        found.other.exp()
                    );
                    search.add(found.service, OffTreatment { arm, like: Some(like), proved: false, why });
                }
                let evidence = format!(
                    "the memory of {} of {} behaves as that of {name}: over age it is a factor of {:.2} from its own arm \
                     and {:.2} from that one (medians)",
                    counted(group.len(), own_members.len()),
                    fleet.arms[arm].name,
                    own.exp(),
                    other.exp()
                );
                let finding = Finding::new(FindingKind::NearerToAnotherArm, Severity::Grave, evidence);
                search.findings.push(finding.of_arms(vec![arm, like]).naming(fleet.names(&of_group)));
            }
        }
    }

    /// A service whose memory goes as another arm's, and not as its own.
    fn elsewhere(&self, service: usize, arm: usize) -> Option<Found> {
        let own = self.distance(service, arm)?;
        let (like, other) = self.nearest(service, arm)?;
        let goes_there = own >= NEARER * other && other < NEAR && self.keeps_beside(service, like);
        (goes_there && own >= FAR).then_some(Found { service, like, own, other })
    }

    fn off_treatment(&self, service: usize, arm: usize) -> Option<Found> {
        let usual = self.usual[arm]?;
        self.elsewhere(service, arm).filter(|found| found.own >= usual)
    }
}

/// A service that is nearer to another arm.
struct Found {
    service: usize,
    like: usize,
    /// Distance from its own arm, and from that other one.
    own: f64,
    other: f64,
}

/// Whether services of the other arm (`members.1`) are as far from most of theirs as `group` is from most of its own, in the same
/// direction and a like share: a few services of either arm are large, and the large ones of one may need what most of the other do.
fn is_apart_in_both(data: Data<'_>, members: (&[usize], &[usize]), group: &[usize]) -> bool {
    let Data { fleet, services, .. } = data;
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
