//! Which service is in which arm: by lists in files, by a label, or all in one.

use std::collections::BTreeMap;

use super::PrometheusImport;
use super::series::Series;
use crate::ImportError;
use crate::import::{EVERYTHING, ServiceList, Wanted, WantedList};

pub(super) fn lists(
    services: &BTreeMap<String, Series>,
    request: &PrometheusImport,
) -> Result<Wanted, ImportError> {
    let mut lists: Vec<WantedList> = Vec::new();
    let from = if !request.groups.is_empty() {
        for path in &request.groups {
            let mut list = ServiceList::read(path)?;
            list.members.retain(|name| services.contains_key(name));
            if !list.members.is_empty() {
                lists.push(list.as_wanted());
            }
        }
        "files"
    } else if let Some(label) = &request.queries.arm_label {
        for (name, series) in services {
            let Some((_, arm)) = series.arms.last() else { continue };
            match lists.iter_mut().find(|list| list.arm.name == *arm) {
                Some(list) => list.members.push(name.clone()),
                None => {
                    let members = vec![name.clone()];
                    lists.push(WantedList::new(arm.clone(), format!("label {label}"), members));
                }
            }
        }
        "label"
    } else {
        let members = services.keys().cloned().collect();
        lists.push(WantedList::new(EVERYTHING.to_owned(), String::new(), members));
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
    wanted.claim(request.control.as_deref())?;
    Ok(wanted)
}
