//! What was run and observed, and where.

use serde_json::Value;

use crate::chart::metric_name;
use crate::document::{Consensuses, Report, Sampler};
use crate::terms::terms;
use crate::text::{date_and_time, names, number};
use crate::units;

/// What the figures of the table of results are.
pub(crate) fn figures_in_brief(report: &Report, peaks: bool) -> String {
    let analysis = &report.analysis;
    let metric = metric_name(analysis.metric);
    let rests = report.kind.is_lab() && analysis.window_seconds.is_some();
    let level = match (analysis.matched_age_seconds.map(units::duration), analysis.window_seconds) {
        (Some(age), Some(window)) => {
            format!("Level: median of the last {} up to an age of {age}.", units::duration(window))
        }
        (Some(age), None) => {
            format!("Level: median from an age of {} to {age}.", units::duration(analysis.warm_up_seconds))
        }
        (None, _) => "Services of the arms have no age in common.".to_owned(),
    };
    let mut parts = match rests {
        true => vec![
            format!(
                "Memory is {metric} at the ends of rests; ages are hours of a relay's life, one for each consensus."
            ),
            level,
        ],
        false => vec![format!("Memory is {metric}."), level],
    };
    if peaks && rests {
        parts.push("Peak: the highest reading between rests.".to_owned());
    }
    let restarted = report.arms.iter().filter(|arm| arm.result.sawtooth.is_some());
    let restarted: Vec<&str> = restarted.map(|arm| arm.name.as_str()).collect();
    if !restarted.is_empty() {
        let restarted = names(&restarted, restarted.len());
        parts.push(format!("Level of {restarted}, restarted at intervals: the average over time."));
    }
    if report.arms.iter().any(|arm| arm.result.as_treated.is_some()) {
        let terms = terms(report.kind);
        parts.push(format!(
            "All figures are without {}, except the mean at the end of all {}.",
            terms.excluded, terms.assigned
        ));
    }
    parts.join(" ")
}

/// What it was in a line: `74 services, 7,104 readings from 2026-01-02 03:04 UTC, 7 d 22 h of 10 d planned, running`.
pub(crate) fn circumstances(report: &Report) -> String {
    let mut names: Vec<&str> = report.services.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let planned = planned(report).map_or_else(String::new, |planned| match report.kind.is_lab() {
        true => format!(", {planned} for each service"),
        false => format!(" of {planned} planned"),
    });
    let host = &report.host;
    let named = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
    let of_lab = |text: String| Some(text).filter(|_| report.kind.is_lab());
    let parts = [
        Some(number(names.len() as u64, "service")),
        Some(format!("{} from {}", number(report.samples, "reading"), date_and_time(&report.started_at))),
        Some(format!("{}{planned}", units::duration(report.duration_seconds))),
        of_lab(format!("seed {}", report.seed)),
        of_lab(number(u64::from(report.repeats), "repeat")),
        report.consensuses.as_ref().map(paced),
        host.os.clone(),
        named("kernel", &host.kernel),
        host.cpu_count.map(|count| number(u64::from(count), "CPU")),
        host.ram_bytes.map(|bytes| format!("{} RAM", units::memory(bytes as f64))),
        named("THP", &host.thp_mode),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The planned length, where somebody planned one and it says more than the length.
fn planned(report: &Report) -> Option<String> {
    (report.planned_seconds > 0.0 && !report.kind.is_import())
        .then(|| units::duration(report.planned_seconds))
}

/// What was run, observed and where: names and values for a list.
pub(crate) fn pairs(report: &Report) -> Vec<(String, String)> {
    let arms: Vec<String> = report.arms.iter().map(|arm| format!("{} {}", arm.name, arm.services)).collect();
    let lab = report.kind.is_lab();
    let limit = report.analysis.memory_limit.unwrap_or_default();
    let memory = |bytes: u64| units::memory(bytes as f64);
    let matched = report.analysis.matched_age_seconds.map(units::duration);
    let mut pairs = vec![
        ("Trial", Some(format!("{} ({})", report.name, report.kind.describe()))),
        (
            if report.kind.is_import() { "First reading" } else { "Start" },
            Some(date_and_time(&report.started_at)),
        ),
        ("Span of data", Some(units::duration(report.duration_seconds))),
        (if lab { "Length of each process lifetime" } else { "Planned length" }, planned(report)),
        ("State", Some(report.outcome_word().to_owned()).filter(|_| !report.kind.is_import())),
        ("Consensuses", report.consensuses.as_ref().map(paced)),
        ("Seed", lab.then(|| report.seed.to_string())),
        ("Repeats", lab.then(|| report.repeats.to_string())),
        ("Readings", Some(units::count(report.samples))),
        ("Sampling interval", report.sampling_interval_seconds.map(units::duration)),
        ("Planned looks", Some(looks(report)).filter(|looks| !looks.is_empty())),
        ("Cost of sampling", report.sampler.map(|sampler| sampling(&sampler, report.duration_seconds))),
        (
            "CPU use of the services",
            report.cpu_share.map(|share| format!("{} of all CPUs", units::share(share))),
        ),
        ("Services", Some(arms.join(", "))),
        ("Assignment", report.assignment.map(|how| how.describe().to_owned())),
        ("Age at the last reading", ages(report)),
        ("Matched age", Some(matched.unwrap_or_else(|| "none that all arms reached".to_owned()))),
        ("Memory limit of a service", limit.service_bytes.map(memory)),
        ("Available on the host", limit.host_available_bytes.map(memory)),
    ];
    pairs.extend(host(report));
    pairs.push(("Heaptrial", Some(report.tool_version.clone())));
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// `30 consensuses (1 d 6 h of a relay's life), 60 times as fast as life`.
fn paced(consensuses: &Consensuses) -> String {
    let taken = u64::from(consensuses.taken);
    let life = units::duration(3600.0 * taken as f64);
    let pace = consensuses.pace.map_or_else(String::new, |pace| {
        // The digits that a pace is known to.
        let digits = if pace < 10.0 { format!("{pace:.1}") } else { format!("{pace:.0}") };
        format!(", {digits} times as fast as life")
    });
    let consensuses = if taken == 1 { "consensus" } else { "consensuses" };
    format!("{} {consensuses} ({life} of a relay's life{pace})", units::count(taken))
}

/// `7 d 2 h to 7 d 22 h, median 7 d 20 h`.
fn ages(report: &Report) -> Option<String> {
    let mut ages: Vec<f64> = report.services.iter().filter_map(|service| service.age_seconds).collect();
    ages.sort_by(f64::total_cmp);
    let bound = if report.analysis.ages_are_lower_bounds == Some(true) { ", at least" } else { "" };
    let [youngest, middle, oldest] =
        [*ages.first()?, *ages.get(ages.len() / 2)?, *ages.last()?].map(units::duration);
    Some(format!("{youngest} to {oldest}, median {middle}{bound}"))
}

/// `1 d; 3 d (taken)`.
fn looks(report: &Report) -> String {
    let shown = report.looks.iter().map(|look| {
        let taken = if look.taken_at.is_some() { " (taken)" } else { "" };
        format!("{}{taken}", units::duration(look.planned_seconds))
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// What sampling took of one CPU, and of a tick.
fn sampling(sampler: &Sampler, seconds: f64) -> String {
    let share = if seconds > 0.0 { sampler.cpu_seconds / seconds } else { 0.0 };
    format!(
        "{} ticks, {} of one CPU, {:.1} ms of a tick, longest gap {}",
        units::count(sampler.ticks),
        units::share(share),
        1000.0 * sampler.median_tick_seconds,
        units::duration(sampler.longest_gap_seconds)
    )
}

/// Where it ran, as far as it is known.
fn host(report: &Report) -> [(&'static str, Option<String>); 8] {
    let host = &report.host;
    let with = |first: &Option<String>, further: Option<String>| {
        let first = first.as_ref()?;
        Some(further.map_or_else(|| first.clone(), |further| format!("{first} ({further})")))
    };
    [
        ("Operating system", host.os.clone()),
        ("Userland", host.userland.clone()),
        ("Kernel", with(&host.kernel, host.architecture.clone())),
        ("CPUs", with(&host.cpu_count.map(|count| count.to_string()), host.cpu_model.clone())),
        ("Memory", host.ram_bytes.map(|bytes| units::memory(bytes as f64))),
        ("Transparent huge pages", host.thp_mode.clone()),
        ("Control groups", host.cgroup_version.clone()),
        ("vm.overcommit_memory", host.overcommit_memory.clone()),
    ]
}

/// The parameters of the workload: names and values, nested ones by dotted names.
pub(crate) fn parameters(report: &Report) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    // What is about the trial is in the summary, and a plan names every service: that is in report.json.
    let hidden = ["about", "plan"];
    for (name, value) in report.parameters.as_object().into_iter().flatten() {
        if !hidden.contains(&name.as_str()) {
            collect_parameters(name, value, &mut pairs);
        }
    }
    pairs
}

fn collect_parameters(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            members.iter().for_each(|(member, value)| {
                collect_parameters(&format!("{name}.{member}"), value, pairs);
            });
        }
        Value::String(text) => pairs.push((name.to_owned(), text.clone())),
        other => pairs.push((name.to_owned(), other.to_string())),
    }
}
