//! Which service is in which arm: by lists in files, by a label, or all in one.

use std::collections::BTreeMap;

use super::PrometheusImport;
use super::series::Series;
use crate::ImportError;
use crate::import::{EVERYTHING, Member, Wanted, WantedList, list_of_names};

/// The arms with their members.
pub(super) fn lists(
    services: &BTreeMap<String, Series>,
    request: &PrometheusImport,
) -> Result<Wanted, ImportError> {
    let mut lists: Vec<WantedList> = Vec::new();
    let mut put =
        |arm: &str, source: String, member: &str| match lists.iter_mut().find(|list| list.arm.name == arm) {
            Some(list) => list.members.push(Member::named(member)),
            None => lists.push(WantedList::new(arm.to_owned(), source, vec![Member::named(member)])),
        };
    let from = if !request.groups.is_empty() {
        for path in &request.groups {
            let (arm, members) = list_of_names(path)?;
            for member in members.iter().filter(|name| services.contains_key(*name)) {
                put(&arm, path.display().to_string(), member);
            }
        }
        "files"
    } else if let Some(label) = &request.queries.arm_label {
        for (name, series) in services {
            if let Some((_, arm)) = series.arms.last() {
                put(arm, format!("label {label}"), name);
            }
        }
        "label"
    } else {
        services.keys().for_each(|name| put(EVERYTHING, String::new(), name));
        "nothing"
    };
    lists.sort_by(|a, b| a.arm.name.cmp(&b.arm.name));
    if lists.is_empty() {
        let some =
            crate::import::some_of(services.keys().map(String::as_str).collect::<Vec<_>>().into_iter());
        let measured = services.len();
        return Err(ImportError::Refused(format!(
            "no service of the lists is in the measurements, which have {measured} others, such as {some}"
        )));
    }
    let mut wanted = Wanted { lists, from };
    wanted.check_names()?;
    wanted.claim(&[], request.control.as_deref())?;
    Ok(wanted)
}
