//! Who is in which arm.

use std::collections::HashMap;

use heaptrial_model::ServiceName;
use heaptrial_store::ImportedList;

use super::lists::{ListsFrom, Wanted};
use super::service::Service;
use super::summary::some_of;
use crate::ImportError;
use crate::problem::{ProblemKind, Problems};

/// Positions of each list's members; members that were never measured become services without readings.
pub(super) fn members(
    wanted: &Wanted,
    services: &mut Vec<Service>,
    notes: &mut Vec<String>,
) -> Vec<Vec<usize>> {
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, service) in services.iter().enumerate() {
        for nickname in service.nicknames() {
            by_name.entry(nickname.to_owned()).or_default().push(index);
        }
        if service.nicknames().all(|nickname| nickname != service.name) {
            by_name.entry(service.name.clone()).or_default().push(index);
        }
    }
    let mut without_data = Vec::new();
    let mut ambiguous = Vec::new();
    let mut members = Vec::new();
    for list in &wanted.lists {
        let mut indices: Vec<usize> = Vec::new();
        for member in &list.members {
            let named = by_name.get(&member.name).map_or(&[][..], Vec::as_slice);
            let mut found: Vec<usize> =
                named.iter().copied().filter(|index| services[*index].is(member)).collect();
            if found.is_empty() && member.name.parse::<ServiceName>().is_ok() {
                services.push(Service {
                    name: member.name.clone(),
                    nickname: member.name.clone(),
                    fingerprint: member.fingerprint.clone().unwrap_or_default(),
                    ..Service::default()
                });
                found.push(services.len() - 1);
                by_name.entry(member.name.clone()).or_default().push(services.len() - 1);
            }
            if found.len() > 1 {
                ambiguous.push(member.name.as_str());
            }
            without_data.extend(found.iter().copied().filter(|index| services[*index].samples.is_empty()));
            indices.extend(found);
        }
        indices.sort_unstable();
        indices.dedup();
        members.push(indices);
    }
    without_data.sort_unstable();
    without_data.dedup();
    if !without_data.is_empty() {
        let names = without_data.iter().map(|index| services[*index].name.as_str());
        notes.push(format!(
            "members of lists that were never measured: {} ({})",
            without_data.len(),
            some_of(names)
        ));
    }
    if !ambiguous.is_empty() {
        let names = some_of(ambiguous.iter().copied());
        notes.push(format!(
            "nicknames in the lists that stand for several services, all of which were taken: {names}"
        ));
    }
    members
}

/// Refuses a list of a file that names nobody who was measured: it would be an arm without a figure.
pub(super) fn check_measured(
    wanted: &Wanted,
    members: &[Vec<usize>],
    services: &[Service],
    problems: &Problems,
) -> Result<(), ImportError> {
    if !matches!(wanted.from, ListsFrom::Files | ListsFrom::Config) {
        return Ok(());
    }
    let is_measured = |index: &usize| !services[*index].samples.is_empty();
    let measured = || (0..services.len()).filter(is_measured).map(|index| services[index].name.as_str());
    let mut lists = wanted.lists.iter().zip(members);
    let Some((list, _)) = lists.find(|(_, members)| !members.iter().any(is_measured)) else {
        return Ok(());
    };
    let named: Vec<String> =
        list.members.iter().map(|member| with_nearest(&member.name, measured())).collect();
    let of_measurements: Vec<&str> = measured().collect();
    let of_measurements = some_of(of_measurements.into_iter());
    let what = match named.len() {
        0 => "names no service".to_owned(),
        several => format!(
            "has {several} services, none of which was measured ({}); measured were {of_measurements}",
            some_of(named.iter().map(String::as_str))
        ),
    };
    let malformed = problems.details.iter().find(|problem| problem.kind == ProblemKind::MalformedRow);
    let left_out = problems.count(ProblemKind::MalformedRow);
    let rows = malformed.map(|first| {
        format!(" or, if they are right, the rows that were left out ({left_out}; the first: {first})")
    });
    let (file, list) = (list.source.clone(), list.arm.name.clone());
    Err(ImportError::ListNotMeasured { file, list, what, rows: rows.unwrap_or_default() })
}

/// A name with the one it may be meant for: at most a third of its length away.
fn with_nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known
        .map(|candidate| {
            (strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate)
        })
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min();
    near.map_or_else(|| name.to_owned(), |(_, near)| format!("{name}, did you mean `{near}`?"))
}

/// Leaves out the services that are in no list.
pub(super) fn only_grouped(
    services: Vec<Service>,
    members: Vec<Vec<usize>>,
    wanted: &Wanted,
    notes: &mut Vec<String>,
) -> (Vec<Service>, Vec<ImportedList>, usize) {
    let mut lists_of = vec![0usize; services.len()];
    for index in members.iter().flatten() {
        lists_of[*index] += 1;
    }
    let mut position = vec![None; services.len()];
    let mut kept = Vec::new();
    let mut ungrouped = Vec::new();
    for (index, service) in services.into_iter().enumerate() {
        if lists_of[index] > 0 {
            position[index] = Some(kept.len());
            kept.push(service);
        } else {
            ungrouped.push(service.name);
        }
    }
    if !ungrouped.is_empty() {
        let names = some_of(ungrouped.iter().map(String::as_str));
        notes.push(format!("services in no list, left out: {} ({names})", ungrouped.len()));
    }
    let in_two = lists_of.iter().filter(|lists| **lists > 1).count();
    if in_two > 0 {
        notes.push(format!("services in two or more arms: {in_two}"));
    }
    let lists = wanted.lists.iter().zip(members).map(|(list, members)| ImportedList {
        arm: list.arm.clone(),
        members: members.into_iter().filter_map(|index| position[index]).collect(),
        source: list.source.clone(),
    });
    (kept, lists.collect(), ungrouped.len())
}

/// The lists in which each service is.
pub(super) fn arms_of(lists: &[ImportedList], services: usize) -> Vec<Vec<usize>> {
    let mut arms = vec![Vec::new(); services];
    for (index, list) in lists.iter().enumerate() {
        for member in &list.members {
            arms[*member].push(index);
        }
    }
    arms
}
