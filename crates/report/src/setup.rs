//! What was run and observed, and where.

use crate::chart::metric_name;
use crate::document::{Consensuses, Report, Sampler};
use crate::terms::terms;
use crate::text::{date_and_time, names, number};
use crate::units;

/// What the figures of the table of results are.
pub(crate) fn figures_in_brief(report: &Report, peaks: bool) -> String {
    let analysis = &report.analysis;
    let metric = metric_name(analysis.metric);
    let mut parts = vec![
        match (analysis.matched_age_seconds.map(units::duration), analysis.window_seconds) {
            (Some(age), Some(window)) if report.kind.is_lab() => format!(
                "Memory is {metric} at the ends of rests; ages are hours of a relay's life, one for each consensus. Level: median \
             of the last {} up to an age of {age}.",
                units::duration(window)
            ),
            (Some(age), Some(window)) => {
                format!(
                    "Memory is {metric}. Level: median of the last {} up to an age of {age}.",
                    units::duration(window)
                )
            }
            (Some(age), None) => format!(
                "Memory is {metric}. Level: median from an age of {} to {age}.",
                units::duration(analysis.warm_up_seconds)
            ),
            (None, _) => format!("Memory is {metric}. Services of the arms have no age in common."),
        },
    ];
    if peaks && report.kind.is_lab() && analysis.window_seconds.is_some() {
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
        ("Consensuses", report.consensuses.as_ref().map(consensuses)),
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
    // What nobody recorded is among what could not be measured.
    let host = host(report).into_iter().filter(|(_, value)| value != "unknown");
    pairs.extend(host.map(|(name, value)| (name, Some(value))));
    pairs.push(("Heaptrial", Some(report.tool_version.clone())));
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// `30 consensuses (1 d 6 h of a relay's life), 60 times as fast as life`.
pub(crate) fn paced(consensuses: &Consensuses) -> String {
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

fn consensuses(consensuses: &Consensuses) -> String {
    format!(
        "{}; each came when all relays had worked off the last one and rested; ages are hours of a relay's life",
        paced(consensuses)
    )
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

/// `1 d, 3 d (taken: decided: ...) and 10 d`.
fn looks(report: &Report) -> String {
    let shown: Vec<String> = report
        .looks
        .iter()
        .map(|look| {
            let at = units::duration(look.planned_seconds);
            match (&look.result, &look.taken_at) {
                (Some(result), _) => format!("{at} ({result})"),
                (None, Some(_)) => format!("{at} (taken)"),
                (None, None) => at,
            }
        })
        .collect();
    shown.join("; ")
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
    // In the summary.
    parameters.as_object_mut().and_then(|all| all.remove("about"));
    // The plan of a field trial names every service; it is in report.json.
    if let Some(plan) =
        parameters.as_object_mut().filter(|_| !report.kind.is_lab()).and_then(|all| all.remove("plan"))
    {
        let shown =
            ["id", "duration", "looks", "pace"].iter().filter_map(|name| Some((*name, plan.get(name)?)));
        shown.for_each(|(name, value)| collect_parameters(&format!("plan.{name}"), value, &mut pairs));
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
