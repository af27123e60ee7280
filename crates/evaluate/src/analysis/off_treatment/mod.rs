//! Services that do not belong to an arm into which they were put.
//!
//! Three sources of evidence: a proved identity that is another (certain), a list of another arm that names the
//! service too, and memory that goes as another arm's.

mod nearest;

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::units;
use heaptrial_stats::median;

use crate::analysis::curve::Curves;
use crate::analysis::data::Data;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, OffTreatment, Severity};
use crate::analysis::thresholds::FEWEST_OF_A_GROUP;

/// A service is as those of an arm within this factor of their median,
const AS_ANOTHER: f64 = 1.3;
/// and as those of none beyond this one.
const AS_NONE: f64 = 2.0;
/// A smaller share are outliers.
const LEAST_AS_NONE: f64 = 0.1;

#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) findings: Vec<Finding>,
    /// Service and why it is off treatment where.
    pub(crate) off_treatment: Vec<(usize, OffTreatment)>,
}

/// Looks for off-treatment services in every arm. `members` are positions of services by arm.
pub(crate) fn search(data: Data<'_>, members: &[Vec<usize>], curves: &Curves) -> Search {
    let fleet = data.fleet;
    let mut search = Search::default();
    contaminated(fleet, members, &mut search);
    // Who leaves a service out because of its memory leaves out what the trial is about. Only where nobody knows what
    // ran is memory the best evidence there is.
    if fleet.identities_proved {
        return search;
    }
    let near = nearest::Nearest::of(fleet, members, curves);
    listed_twice(fleet, &near, &mut search);
    search.findings.extend(mostly_as_another(data, members));
    near.search(data, members, &mut search);
    search
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
            let evidence = format!(
                "{} did not run the treatment of {}{}: {}",
                counted(services.len(), members.len()),
                fleet.arms[arm].name,
                if fleet.identities_proved { ", as proved in the processes" } else { "" },
                reasons.join("; ")
            );
            let finding = Finding::new(FindingKind::Contaminated, Severity::Grave, evidence);
            search.findings.push(finding.of_arm(arm).naming(services));
        }
    }
}

/// Services that lists put into two arms.
fn listed_twice(fleet: &Fleet, near: &nearest::Nearest, search: &mut Search) {
    let mut pairs: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, service) in fleet.services.iter().enumerate() {
        let arms: BTreeSet<usize> = service.arms.iter().copied().collect();
        for first in &arms {
            for second in arms.range(first + 1..) {
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
        let evidence = format!(
            "{} {} listed in {} and in {}; {}",
            units::counted(found.len(), "service"),
            if found.len() == 1 { "is" } else { "are" },
            name(first),
            name(second),
            parts.join(", ")
        );
        let finding = Finding::new(FindingKind::TreatmentUncertain, Severity::Grave, evidence);
        search.findings.push(finding.of_arms(vec![first, second]).naming(fleet.names(&found)));
    }
}

/// Arms of which half or more of the services are as those of another arm, the control or beside it, and the rest as those of none:
/// the median of such an arm is that of the other one.
fn mostly_as_another(Data { fleet, services, .. }: Data<'_>, members: &[Vec<usize>]) -> Vec<Finding> {
    let level = |index: usize| services[index].level_bytes.or(services[index].final_bytes);
    let levels = |arm: usize| -> Vec<(usize, f64)> {
        let own = members[arm].iter().filter(|index| fleet.services[**index].arms.len() == 1);
        own.filter_map(|index| Some((*index, level(*index).filter(|bytes| *bytes > 0.0)?))).collect()
    };
    let levels: Vec<Vec<(usize, f64)>> = (0..members.len()).map(levels).collect();
    let middles: Vec<Option<f64>> =
        levels.iter().map(|levels| median(&levels.iter().map(|level| level.1).collect::<Vec<_>>())).collect();
    let factor = |bytes: f64, arm: usize| {
        middles[arm].map_or(f64::INFINITY, |middle| (bytes / middle).max(middle / bytes))
    };
    let far = |arm: usize, from: usize| levels[arm].iter().filter(move |own| factor(own.1, from) >= AS_NONE);
    let of_pair = |arm: usize, like: usize| {
        let as_another: Vec<(usize, f64)> =
            levels[arm].iter().copied().filter(|own| factor(own.1, like) <= AS_ANOTHER).collect();
        let rest: Vec<f64> = far(arm, like)
            .filter(|own| (0..members.len()).all(|other| other == arm || factor(own.1, other) > AS_ANOTHER))
            .map(|own| own.1)
            .collect();
        let share = rest.len() as f64 / levels[arm].len().max(1) as f64;
        let usual = far(like, like).count() as f64 / levels[like].len().max(1) as f64;
        let most = 2 * as_another.len() >= levels[arm].len() && as_another.len() >= rest.len();
        let few = rest.len() < FEWEST_OF_A_GROUP || share < LEAST_AS_NONE || 2.0 * usual > share;
        if !most || few || !(fleet.arms[arm].control || fleet.arms[like].control) {
            return None;
        }
        let at = |levels: Vec<f64>| median(&levels).map_or(String::new(), units::memory);
        let evidence = format!(
            "{} of the {} services of {} are at {}, as those of {}, and {} others at {}, as those of no arm",
            as_another.len(),
            levels[arm].len(),
            fleet.arms[arm].name,
            at(as_another.iter().map(|own| own.1).collect()),
            fleet.arms[like].name,
            rest.len(),
            at(rest)
        );
        let names = as_another.iter().map(|own| services[own.0].name.clone()).collect();
        let finding = Finding::new(FindingKind::MostlyAsAnotherArm, Severity::Grave, evidence);
        Some(finding.of_arm(arm).naming(names))
    };
    let pairs = (0..members.len()).flat_map(|arm| (0..members.len()).map(move |like| (arm, like)));
    pairs.filter(|(arm, like)| arm != like).filter_map(|(arm, like)| of_pair(arm, like)).collect()
}

/// `9 of its 20 services`.
fn counted(some: usize, all: usize) -> String {
    format!("{some} of its {all} services")
}
