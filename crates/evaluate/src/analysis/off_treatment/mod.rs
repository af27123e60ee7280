//! Services that do not belong to an arm into which they were put.
//!
//! Three sources of evidence: a proved identity that is another (certain), a list of another arm that names the
//! service too, and memory that goes as another arm's.

mod nearest;

use std::collections::{BTreeMap, BTreeSet};

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
    let near = nearest::Nearest::of(fleet, members, curves);
    listed_twice(fleet, services, &near, &mut search);
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
    let mut pairs: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, service) in fleet.services.iter().enumerate() {
        let arms: Vec<usize> = BTreeSet::from_iter(service.arms.iter().copied()).into_iter().collect();
        for (place, first) in arms.iter().enumerate() {
            for second in &arms[place + 1..] {
                pairs.entry((*first, *second)).or_default().push(index);
            }
        }
    }
    for ((first, second), found) in pairs {
        let name = |arm: usize| fleet.arms[arm].name.as_str();
        let homes: Vec<Option<usize>> = found.iter().map(|index| near.fits(*index, first, second)).collect();
        for (index, home) in found.iter().zip(&homes) {
            let Some(home) = *home else { continue };
            let arm = if home == first { second } else { first };
            let why = format!("{} lists it too, and its memory goes as there", name(home));
            search.add(*index, OffTreatment { arm, like: Some(home), proved: false, why });
        }
        let fit = |arm: Option<usize>| homes.iter().filter(|home| **home == arm).count();
        let behaves =
            |arm: usize| format!("the memory of {} behaves as that of {}", fit(Some(arm)), name(arm));
        let mut parts: Vec<String> =
            [first, second].into_iter().filter(|arm| fit(Some(*arm)) > 0).map(behaves).collect();
        if fit(None) > 0 {
            parts.push(format!("of {} memory does not show where they belong", fit(None)));
        }
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
                parts.join(", ")
            ),
        });
    }
}

/// `9 of its 20 services`.
fn counted(some: usize, all: usize) -> String {
    format!("{some} of its {all} services")
}
