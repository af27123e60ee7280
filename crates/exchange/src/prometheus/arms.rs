//! Who is in which arm: by lists in files, by a label, or all in one.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_store::{ImportedList, ImportedTrial};
use serde_json::Value;

use super::PrometheusImport;
use super::assemble::Assigned;
use super::error::PrometheusError;
use crate::ImportError;
use crate::import::{ListsFrom, Member, Wanted, WantedList, some_of};

/// Value of the parameter `lists_from` where files say who is in which arm.
const FROM_FILES: &str = "files";
/// The arm of services that nothing puts into an arm.
const EVERYTHING: &str = "all";

/// What says who is in which arm, as a trial's parameters tell it.
pub(super) fn lists_from(stored: Option<&ImportedTrial>, request: &PrometheusImport) -> &'static str {
    match (&request.groups.is_empty(), &request.queries.arm_label) {
        (false, _) => FROM_FILES,
        (true, _) if stored.is_some_and(from_files) => FROM_FILES,
        (true, Some(_)) => "label",
        (true, None) => "nothing",
    }
}

/// Whether lists in files say who is in which arm.
pub(super) fn from_files(trial: &ImportedTrial) -> bool {
    trial.plan.parameters.get("lists_from").and_then(Value::as_str) == Some(FROM_FILES)
}

/// Services that lists in files put into another arm than before.
pub(super) fn moved<'a>(services: &'a BTreeMap<String, Assigned>, wanted: &Wanted) -> Vec<&'a str> {
    let listed = wanted.lists.iter().flat_map(|list| list.members.iter().map(move |member| (list, member)));
    let moved = listed.filter_map(|(list, member)| {
        let (name, service) = services.get_key_value(&member.name)?;
        (!service.arm.is_empty() && service.arm != list.arm.name).then_some(name.as_str())
    });
    moved.collect()
}

/// Whether the arms of a stored trial, their services, their control or what it is about are others.
pub(super) fn differ(stored: &ImportedTrial, trial: &ImportedTrial) -> bool {
    let lists = |trial: &ImportedTrial| -> BTreeSet<(String, bool, Vec<String>)> {
        let names = |list: &ImportedList| {
            let members = list.members.iter().filter_map(|member| trial.services.get(*member));
            let mut names: Vec<String> = members.map(|service| service.name.clone()).collect();
            names.sort();
            names
        };
        trial.lists.iter().map(|list| (list.arm.name.clone(), list.arm.control, names(list))).collect()
    };
    lists(stored) != lists(trial) || stored.plan.parameters.get("about") != trial.plan.parameters.get("about")
}

/// The arms with their members, and the services that are in none.
pub(super) fn lists(
    services: &BTreeMap<String, Assigned>,
    stored: Option<&ImportedTrial>,
    request: &PrometheusImport,
) -> Result<(Wanted, Vec<String>), ImportError> {
    let mut lists: Vec<WantedList> = Vec::new();
    let mut put = |arm: &str, source: String, member: &str| {
        let member = Member::named(member);
        match lists.iter_mut().find(|list| list.arm.name == arm) {
            Some(list) => list.members.push(member),
            None => lists.push(WantedList::new(arm.to_owned(), source, vec![member])),
        }
    };
    if !request.groups.is_empty() {
        let named: Vec<String> = request
            .groups
            .iter()
            .map(|path| crate::import::list_of_names(path).map(|(arm, _)| arm))
            .collect::<Result<_, _>>()?;
        let gone = |list: &&ImportedList| !named.contains(&list.arm.name);
        if let Some(list) = stored.and_then(|trial| trial.lists.iter().find(gone)) {
            return Err(PrometheusError::OtherQueries {
                name: request.name.clone(),
                what: "lists of services",
                stored: format!("with `{}` among them", list.arm.name),
                given: named.join(", "),
            }
            .into());
        }
        for path in &request.groups {
            let (arm, members) = crate::import::list_of_names(path)?;
            for member in members.iter().filter(|name| services.contains_key(*name)) {
                put(&arm, path.display().to_string(), member);
            }
        }
    } else if stored.is_some_and(from_files) {
        for (name, service) in services.iter().filter(|(_, service)| !service.arm.is_empty()) {
            put(&service.arm, String::new(), name);
        }
    } else if let Some(label) = &request.queries.arm_label {
        for (name, service) in services.iter().filter(|(_, service)| !service.arm.is_empty()) {
            put(&service.arm, format!("label {label}"), name);
        }
    } else {
        for name in services.keys() {
            put(EVERYTHING, String::new(), name);
        }
    }
    lists.sort_by(|a, b| a.arm.name.cmp(&b.arm.name));
    let named: BTreeSet<&String> =
        lists.iter().flat_map(|list| &list.members).map(|member| &member.name).collect();
    let left_out = services.keys().filter(|name| !named.contains(name)).cloned().collect();
    if lists.is_empty() {
        return Err(ImportError::NobodyMeasured {
            measured: services.len(),
            some: some_of(services.keys().map(String::as_str).collect::<Vec<_>>().into_iter()),
        });
    }
    let stored_control = stored.and_then(|trial| trial.lists.iter().find(|list| list.arm.control));
    let control = request.control.as_deref().or(stored_control.map(|list| list.arm.name.as_str()));
    let mut wanted = Wanted { lists, from: ListsFrom::Files };
    wanted.check_names()?;
    wanted.claim(&[], control)?;
    Ok((wanted, left_out))
}
