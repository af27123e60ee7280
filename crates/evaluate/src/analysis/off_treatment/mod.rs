//! Services that do not belong to an arm into which they were put.
//!
//! Three sources of evidence: a proved identity that is another (certain), a list of another arm that names the
//! service too, and memory that goes as another arm's.

mod clusters;
mod nearest;

use std::collections::BTreeMap;

use heaptrial_model::units;

use crate::analysis::curve::Curves;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, OffTreatment, ServiceResult, Severity};

#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) findings: Vec<Finding>,
    /// Service and why it is off treatment where.
    pub(crate) off_treatment: Vec<(usize, OffTreatment)>,
}

/// Looks for off-treatment services in every arm. `members` are positions of services by arm.
pub(crate) fn search(
    fleet: &Fleet,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    curves: &Curves,
) -> Search {
    let mut search = Search::default();
    contaminated(fleet, members, &mut search);
    // Who leaves a service out because of its memory leaves out what the trial is about. Only where nobody knows what
    // ran is memory the best evidence there is.
    if fleet.identities_proved {
        return search;
    }
    let found = clusters::Found::in_arms(fleet, services, members);
    let strata = Strata::of(fleet, &found);
    let near = nearest::Nearest::of(fleet, services, members, curves, &strata);
    listed_twice(fleet, services, &near, &mut search);
    found.iter().for_each(|found| found.tell(fleet, services, &near, &mut search));
    near.search(fleet, services, members, &mut search);
    search
}

/// Services by block: one on another server may differ by that alone.
fn by_block(fleet: &Fleet, services: &[usize]) -> BTreeMap<u32, Vec<usize>> {
    let mut blocks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for index in services {
        blocks.entry(fleet.services[*index].block).or_default().push(*index);
    }
    blocks
}

/// Services that may be held against each other: of one block, and of one size where services of all arms have several.
struct Strata(Vec<Option<(u32, usize)>>);

impl Strata {
    fn of(fleet: &Fleet, found: &[clusters::Found]) -> Self {
        let mut strata: Vec<_> = fleet.services.iter().map(|service| Some((service.block, 0))).collect();
        for found in found.iter().filter(|found| found.is_of_the_services) {
            // Of which size one without a level is, nothing tells.
            found.members.iter().for_each(|index| strata[*index] = None);
            for (index, cluster) in found.by_service() {
                strata[index] = Some((fleet.services[index].block, cluster));
            }
        }
        Self(strata)
    }

    fn of_service(&self, service: usize) -> Option<(u32, usize)> {
        self.0[service]
    }

    fn split(&self, services: &[usize]) -> BTreeMap<(u32, usize), Vec<usize>> {
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for index in services {
            if let Some(stratum) = self.0[*index] {
                groups.entry(stratum).or_default().push(*index);
            }
        }
        groups
    }
}

impl Search {
    fn is_off_treatment(&self, service: usize, arm: usize) -> bool {
        self.off_treatment.iter().any(|(index, off_treatment)| *index == service && off_treatment.arm == arm)
    }

    fn add(&mut self, service: usize, off_treatment: OffTreatment) {
        if !self.is_off_treatment(service, off_treatment.arm) {
            self.off_treatment.push((service, off_treatment));
        }
    }
}

/// Lives whose identity was proved to be another.
fn contaminated(fleet: &Fleet, members: &[Vec<usize>], search: &mut Search) {
    for (arm, members) in members.iter().enumerate() {
        let mut services = Vec::new();
        let mut reasons = Vec::new();
        for index in members {
            let service = &fleet.services[*index];
            // An average over time holds all lives.
            let averaged = fleet.arms.iter().any(|arm| arm.restarted);
            let all = service.lives.iter().filter(|life| averaged && !life.readings.is_empty());
            let mut lives = service.current().into_iter().chain(all);
            let Some(why) = lives.find_map(|life| life.contamination.clone()) else { continue };
            services.push(service.name.clone());
            if !reasons.contains(&why) {
                reasons.push(why.clone());
            }
            search.add(*index, OffTreatment { arm, like: None, proved: true, why });
        }
        if !services.is_empty() {
            search.findings.push(Finding {
                kind: FindingKind::Contaminated,
                severity: Severity::Grave,
                arms: vec![arm],
                evidence: format!(
                    "{} did not run the treatment of {}{}: {}",
                    counted(services.len(), members.len()),
                    fleet.arms[arm].name,
                    if fleet.identities_proved { ", as proved in the processes" } else { "" },
                    reasons.join("; ")
                ),
                services,
            });
        }
    }
}

/// Services that lists put into two arms.
fn listed_twice(fleet: &Fleet, services: &[ServiceResult], near: &nearest::Nearest, search: &mut Search) {
    // By pair of arms: the services, and of which arm they are off treatment.
    let mut pairs: Vec<((usize, usize), Vec<usize>)> = Vec::new();
    for (index, service) in fleet.services.iter().enumerate() {
        for (place, first) in service.arms.iter().enumerate() {
            for second in service.arms[place + 1..].iter().filter(|second| *second != first) {
                let pair = (*first.min(second), *first.max(second));
                match pairs.iter_mut().find(|(known, _)| *known == pair) {
                    Some((_, found)) => found.push(index),
                    None => pairs.push((pair, vec![index])),
                }
            }
        }
    }
    for ((first, second), found) in pairs {
        let name = |arm: usize| fleet.arms[arm].name.as_str();
        let mut fits = [0usize, 0, 0];
        for index in &found {
            let home = near.fits(*index, first, second);
            let (place, off_treatment_in) = match home {
                Some(home) if home == first => (0, Some(second)),
                Some(_) => (1, Some(first)),
                None => (2, None),
            };
            fits[place] += 1;
            if let (Some(arm), Some(home)) = (off_treatment_in, home) {
                let why = format!("{} lists it too, and its memory goes as there", name(home));
                search.add(*index, OffTreatment { arm, like: Some(home), proved: false, why });
            }
        }
        let told: Vec<String> = [(0, name(first)), (1, name(second))]
            .iter()
            .filter(|(place, _)| fits[*place] > 0)
            .map(|(place, name)| format!("the memory of {} behaves as that of {name}", fits[*place]))
            .chain((fits[2] > 0).then(|| format!("of {} memory does not show where they belong", fits[2])))
            .collect();
        search.findings.push(Finding {
            kind: FindingKind::InTwoArms,
            severity: Severity::Grave,
            arms: vec![first, second],
            services: found.iter().map(|index| services[*index].name.clone()).collect(),
            evidence: format!(
                "{} listed in {} and in {}; {}",
                if found.len() == 1 {
                    "1 service is".to_owned()
                } else {
                    format!("{} services are", found.len())
                },
                name(first),
                name(second),
                told.join(", ")
            ),
        });
    }
}

/// `9 of its 20 services`.
fn counted(some: usize, all: usize) -> String {
    format!("{some} of its {all} services")
}

fn memory(log_bytes: f64) -> String {
    units::memory(log_bytes.exp())
}
