//! The result in sentences, and what was run in pairs of a name and a value.

mod advice;
mod confidence;
pub(crate) mod method;
pub(crate) mod needs;
pub(crate) mod odd;
mod result;
pub(crate) mod setup;
pub(crate) mod words;

pub(crate) use advice::{in_words, soon_at_control};
pub(crate) use result::{Paragraph, paragraphs, verdicts};

use crate::document::{Arm, Report};
use crate::libraries;
use crate::units;

/// All warnings, those of arms with the arm's name.
pub(crate) fn warnings(report: &Report) -> Vec<String> {
    let of_arms = report
        .arms
        .iter()
        .flat_map(|arm| arm.warnings.iter().map(move |text| format!("{}: {text}.", arm.name)));
    report.warnings.iter().cloned().chain(of_arms).chain(libraries::difference_of_arms(report)).collect()
}

/// Where the memory of the control is, else of the first arm of which that is known.
pub(crate) fn where_memory_is(report: &Report) -> Option<String> {
    let known = |arm: &&Arm| arm.memory_split.is_some();
    let arm = report.control().filter(known).or_else(|| report.arms.iter().find(known))?;
    let split = arm.memory_split?;
    let whole: u64 = split.parts().iter().sum();
    let part = |bytes: u64| {
        let share = bytes as f64 / whole.max(1) as f64;
        format!("{} ({:.0}%)", units::memory(bytes as f64), 100.0 * share)
    };
    Some(format!(
        "At the end a service of {} had {} of anonymous memory: {} in use, {} free in pages in use, {} free and kept by its \
         allocator, {} in stacks and outside of the heap.",
        arm.name,
        units::memory(whole as f64),
        part(split.in_use_bytes),
        part(split.free_in_pages_bytes),
        part(split.kept_free_bytes),
        part(split.other_bytes)
    ))
}

/// Where it ran: names and values for a list.
fn host(report: &Report) -> Vec<(&'static str, String)> {
    let host = &report.host;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let cpus = match (host.cpu_count, &host.cpu_model) {
        (Some(count), Some(model)) => format!("{count} × {model}"),
        (Some(count), None) => count.to_string(),
        (None, _) => "unknown".to_owned(),
    };
    let kernel = match &host.architecture {
        Some(architecture) => format!("{} ({architecture})", known(&host.kernel)),
        None => known(&host.kernel),
    };
    let mut facts = vec![
        ("Operating system", known(&host.os)),
        ("Userland", host.userland.clone().unwrap_or_default()),
        ("Kernel", kernel),
        ("CPUs", cpus),
        ("Memory", host.ram_bytes.map_or_else(|| "unknown".to_owned(), |bytes| units::memory(bytes as f64))),
        ("Transparent huge pages", known(&host.thp_mode)),
        ("Control groups", known(&host.cgroup_version)),
    ];
    facts.retain(|(name, value)| *name != "Userland" || !value.is_empty());
    if let Some(overcommit) = &host.overcommit_memory {
        facts.push(("vm.overcommit_memory", overcommit.clone()));
    }
    facts
}

/// The parameters of the workload: names and values, nested ones by dotted names.
pub(crate) fn parameters(report: &Report) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut parameters = report.parameters.clone();
    // Told in the summary.
    parameters.as_object_mut().and_then(|all| all.remove("about"));
    // The plan of a field trial names every service; it is in report.json.
    if let Some(plan) =
        parameters.as_object_mut().filter(|_| !report.kind().is_lab()).and_then(|all| all.remove("plan"))
    {
        let told =
            ["id", "duration", "looks", "pace"].iter().filter_map(|name| Some((*name, plan.get(name)?)));
        told.for_each(|(name, value)| collect_parameters(&format!("plan.{name}"), value, &mut pairs));
    }
    collect_parameters("", &parameters, &mut pairs);
    pairs
}

fn collect_parameters(name: &str, value: &serde_json::Value, pairs: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Null => {}
        serde_json::Value::Object(members) => {
            for (member, value) in members {
                let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                collect_parameters(&name, value, pairs);
            }
        }
        serde_json::Value::String(text) => pairs.push((name.to_owned(), text.clone())),
        other => pairs.push((name.to_owned(), other.to_string())),
    }
}

/// `2026-01-02T03:04:05.678Z` as `2026-01-02 03:04 UTC`.
pub(crate) fn date_and_time(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(date), Some(time)) => format!("{date} {time} UTC"),
        _ => rfc3339.to_owned(),
    }
}

pub(crate) fn number(number: u64, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {of}{plural}", units::count(number))
}

/// `a, b and c`; of more than `limit` the first ones and how many more.
pub(crate) fn names(names: &[impl AsRef<str>], limit: usize) -> String {
    let mut shown: Vec<String> = names.iter().take(limit).map(|name| name.as_ref().to_owned()).collect();
    if names.len() > limit {
        shown.push(format!("{} more", units::count((names.len() - limit) as u64)));
    }
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// As a sentence: a capital letter at the start, a full stop at the end.
pub(crate) fn sentence(text: &str) -> String {
    capitalised(&ended(text.trim_start()))
}

/// With a full stop at the end.
pub(crate) fn ended(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// With a capital letter at the start.
pub(crate) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}
