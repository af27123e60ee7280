//! What a reader of an import must know about its data.

use std::collections::BTreeSet;

use heaptrial_model::{Metric, units};

use super::PrometheusImport;
use super::series::Fetched;
use crate::import::some_of;

pub(super) fn notes_of(fetched: &Fetched, request: &PrometheusImport) -> Vec<String> {
    let queries = &request.queries;
    let mut notes: Vec<String> =
        fetched.warnings.iter().map(|warning| format!("the store warns: {warning}")).collect();
    let mut note = |number: u64, what: &str, why: &str| {
        if number > 0 {
            notes.push(format!("{} {why}", count(number, what)));
        }
    };
    note(fetched.no_memory, "reading", "of no memory excluded: exporters report that of what does not run");
    let pauses = fetched.pauses.len() as u64;
    note(pauses, "series", "of pause containers excluded: they hold the names that a pod's containers share");
    let labels = format!("without the labels {} excluded", queries.service_labels.join(", "));
    note(fetched.unnamed.len() as u64, "series", &labels);
    let services = || fetched.services.values();
    let contaminated = services().filter(|series| series.contaminated.values().any(|value| *value > 0.0));
    note(
        contaminated.count() as u64,
        "service",
        "did not run the treatment of the arm for a while, which is excluded",
    );
    if request.metric == Metric::Anon && queries.swap.is_none() {
        notes.push(
            "swap was not asked for: anonymous memory that was swapped out counts as given back".into(),
        );
    }
    let without = services().filter(|series| series.start.is_empty()).count() as u64;
    if queries.start.is_none() {
        notes.push("no query gives starts: restarts are taken from falls of memory".to_owned());
    } else if without > 0 {
        let services = count(without, "service");
        notes.push(format!(
            "{services} without a reported start: their restarts are taken from falls of memory"
        ));
    }
    let names: BTreeSet<&str> = fetched.services.keys().map(String::as_str).collect();
    let outer: Vec<&str> = names.iter().filter(|name| holds_another(name, &names)).copied().collect();
    if !outer.is_empty() {
        notes.push(format!(
            "control groups that hold others of these services are services, too, and their memory is counted twice ({}); exclude them \
             by --matching or in the query",
            some_of(outer.into_iter())
        ));
    }
    notes
}

/// Whether it is a control group, by its path, with one of `names` below.
fn holds_another(name: &str, names: &BTreeSet<&str>) -> bool {
    // Label `id` of a control group begins with a slash, alone or behind other labels.
    if !name.starts_with('/') && !name.contains("//") {
        return false;
    }
    let below = if name.ends_with('/') { name.to_owned() } else { format!("{name}/") };
    names.range(below.as_str()..).find(|other| **other != name).is_some_and(|other| other.starts_with(&below))
}

/// So many of them, in words.
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 || what == "series" { "" } else { "s" };
    format!("{} {what}{plural}", units::count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_within_others_are_found() {
        let ids = ["/", "/system.slice", "/system.slice/tor@a.service", "/system.slice/tor@a.service-x"];
        let names: Vec<String> = ids.iter().map(|id| format!("a:8080/{id}")).collect();
        let outer = |names: &[&str]| -> Vec<bool> {
            let all: BTreeSet<&str> = names.iter().copied().collect();
            names.iter().map(|name| holds_another(name, &all)).collect()
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(outer(&names), [true, true, false, false]);
        // Of another host, and names that are no paths.
        assert_eq!(outer(&["a//system.slice", "b//system.slice/x", "pod", "pod/app"]), [false; 4]);
    }
}
