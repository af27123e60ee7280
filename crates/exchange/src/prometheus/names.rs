//! Services whose names tell that they are not what they are taken for.

use std::collections::{BTreeMap, BTreeSet};

use crate::import::some_of;

/// What is to be known of services with these names.
pub(super) fn remarks<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: BTreeSet<&str> = names.collect();
    let mut remarks = Vec::new();
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in &names {
        alike.entry(name.to_lowercase()).or_default().push(name);
    }
    let alike: Vec<String> =
        alike.values().filter(|names| names.len() > 1).map(|names| names.join(" and ")).collect();
    if !alike.is_empty() {
        remarks.push(format!(
            "names that differ in upper and lower case alone are services of their own ({}); label_replace in the query makes them one",
            some_of(alike.iter().map(String::as_str))
        ));
    }
    let outer: Vec<&str> = names.iter().filter(|name| holds_another(name, &names)).copied().collect();
    if !outer.is_empty() {
        remarks.push(format!(
            "control groups that hold others of these services are services, too, and their memory is counted twice ({}); --matching or the \
             query leaves them out",
            some_of(outer.into_iter())
        ));
    }
    remarks
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_within_others_are_told() {
        let told = |names: &[&str]| remarks(names.iter().copied());
        let of = |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| format!("a:8080/{id}")).collect() };
        let all = of(&["/", "/system.slice", "/system.slice/tor@a.service", "/system.slice/tor@a.service-x"]);
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        let remark = told(&names).remove(0);
        assert!(remark.contains("(a:8080//, a:8080//system.slice)"), "{remark}");
        assert_eq!(told(&names[2..]), Vec::<String>::new());
        // Of another host, and names that are no paths.
        assert_eq!(told(&["a//system.slice", "b//system.slice/x", "pod", "pod/app"]), Vec::<String>::new());
        assert_eq!(told(&["/", "/x"]).len(), 1);
    }

    #[test]
    fn names_that_differ_in_case_alone_are_told() {
        let remark = remarks(["a/Tor", "a/tor", "b/tor"].into_iter()).remove(0);
        assert!(remark.contains("(a/Tor and a/tor)"), "{remark}");
    }
}
