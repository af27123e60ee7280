//! Who is in which arm.

use std::collections::{BTreeSet, HashMap};

use heaptrial_model::ServiceName;

use super::lists::Wanted;
use super::service::Service;
use super::summary::some_of;
use crate::ImportError;

/// The arms of each service, as positions of their lists. Members that were never measured become services without readings.
pub(super) fn arms_of(
    wanted: &Wanted,
    services: &mut Vec<Service>,
    notes: &mut Vec<String>,
) -> Vec<Vec<usize>> {
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, service) in services.iter().enumerate() {
        for name in service.names() {
            by_name.entry(name.to_owned()).or_default().push(index);
        }
    }
    let mut arms = vec![Vec::new(); services.len()];
    let (mut ambiguous, mut without_data) = (Vec::new(), BTreeSet::new());
    for (position, list) in wanted.lists.iter().enumerate() {
        for member in &list.members {
            let named = by_name.get(member).map_or(&[][..], Vec::as_slice);
            let mut found = named.to_vec();
            if found.iter().all(|index| services[*index].samples.is_empty()) {
                without_data.insert(member.as_str());
            }
            if found.is_empty() && member.parse::<ServiceName>().is_ok() {
                found.push(services.len());
                by_name.entry(member.clone()).or_default().push(services.len());
                services.push(Service::never_measured(member));
                arms.push(Vec::new());
            }
            if found.len() > 1 {
                ambiguous.push(member.as_str());
            }
            for index in found {
                if !arms[index].contains(&position) {
                    arms[index].push(position);
                }
            }
        }
    }
    if !without_data.is_empty() {
        notes.push(format!(
            "members of lists that were never measured: {} ({})",
            without_data.len(),
            some_of(without_data.into_iter())
        ));
    }
    if !ambiguous.is_empty() {
        notes.push(format!(
            "nicknames in the lists that stand for several services, all of which were taken: {}",
            some_of(ambiguous.into_iter())
        ));
    }
    arms
}

/// Refuses a list that names nobody who was measured: it would be an arm without a figure.
pub(super) fn check_measured(
    wanted: &Wanted,
    arms: &[Vec<usize>],
    services: &[Service],
) -> Result<(), ImportError> {
    let measured = || services.iter().zip(arms).filter(|(service, _)| !service.samples.is_empty());
    let is_measured = |position: usize| measured().any(|(_, arms)| arms.contains(&position));
    let Some(position) = (0..wanted.lists.len()).find(|position| !is_measured(*position)) else {
        return Ok(());
    };
    let list = &wanted.lists[position];
    let known: Vec<&str> = measured().map(|(service, _)| service.name.as_str()).collect();
    Err(ImportError::Refused(format!(
        "{}: the list `{}` has {} services, none of which was measured ({}); measured were {}; nothing was imported: mend its names, or \
         leave the list out",
        list.source,
        list.arm.name,
        list.members.len(),
        some_of(list.members.iter().map(String::as_str)),
        some_of(known.into_iter())
    )))
}

/// The services that are in a list, with their arms. Gives how many are in none.
pub(super) fn only_listed(
    services: Vec<Service>,
    arms: Vec<Vec<usize>>,
    notes: &mut Vec<String>,
) -> (Vec<(Service, Vec<usize>)>, usize) {
    let (listed, unlisted): (Vec<_>, Vec<_>) =
        services.into_iter().zip(arms).partition(|(_, arms)| !arms.is_empty());
    if !unlisted.is_empty() {
        let names = some_of(unlisted.iter().map(|(service, _)| service.name.as_str()));
        notes.push(format!("services in no list, excluded: {} ({names})", unlisted.len()));
    }
    let in_two = listed.iter().filter(|(_, arms)| arms.len() > 1).count();
    if in_two > 0 {
        notes.push(format!("services in two or more arms: {in_two}"));
    }
    (listed, unlisted.len())
}
