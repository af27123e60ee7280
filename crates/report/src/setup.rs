//! What was run and observed, and where.

use serde_json::Value;

use crate::chart::metric_name;
use crate::document::{ConsensusClock, Report, Sampler};
use crate::terms::terms;
use crate::text::{date_and_time, names};
use crate::units;

/// What the figures of the table of results are.
pub(crate) fn figures_in_brief(report: &Report) -> String {
    let analysis = &report.analysis;
    let rests = report.kind.is_lab() && analysis.window_seconds.is_some();
    let metric = match rests {
        true => {
            " at the ends of rests; ages are hours of a relay's life, one for each consensus. Peak: the highest reading between rests"
        }
        false => "",
    };
    let level = match (analysis.matched_age_seconds.map(units::duration), analysis.window_seconds) {
        (Some(age), Some(window)) => {
            format!("Level: median of the last {} up to an age of {age}.", units::duration(window))
        }
        (Some(age), None) => {
            format!("Level: median from an age of {} to {age}.", units::duration(analysis.warm_up_seconds))
        }
        (None, _) => "Services of the arms have no age in common.".to_owned(),
    };
    let restarted = report.arms.iter().filter(|arm| arm.result.sawtooth.is_some());
    let restarted: Vec<&str> = restarted.map(|arm| arm.name.as_str()).collect();
    let restarted = (!restarted.is_empty()).then(|| {
        let restarted = names(&restarted, restarted.len());
        format!("Level of {restarted}, restarted at intervals: the average over time.")
    });
    let treated = report.arms.iter().any(|arm| arm.result.as_treated.is_some()).then(|| {
        let terms = terms(report.kind);
        format!("All figures are without {}, except those of all {}.", terms.excluded, terms.assigned)
    });
    let metric = format!("Memory is {}{metric}.", metric_name(analysis.metric));
    let parts = [Some(metric), Some(level), restarted, treated];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What it was in a line: `74 services, 7,104 readings from 2026-01-02 03:04 UTC, 7 d 22 h of 10 d planned`.
pub(crate) fn circumstances(report: &Report) -> String {
    let planned = planned(report).map_or_else(String::new, |planned| match report.kind.is_lab() {
        true => format!(", {planned} for each service"),
        false => format!(" of {planned} planned"),
    });
    let host = &report.host;
    let parts = [
        Some(units::counted(report.service_count() as usize, "service")),
        Some(format!(
            "{} from {}",
            units::counted(report.samples as usize, "reading"),
            date_and_time(&report.started_at)
        )),
        Some(format!("{}{planned}", units::duration(report.duration_seconds))),
        report.consensuses.as_ref().map(paced),
        host.os.clone(),
        host.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
        host.cpu_count.map(|count| units::counted(count as usize, "CPU")),
        host.ram_bytes.map(|bytes| format!("{} RAM", units::memory(bytes as f64))),
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
        ("Services", Some(arms.join(", "))),
        ("Assignment", report.assignment.map(|how| how.describe().to_owned())),
        ("Matched age", Some(matched.unwrap_or_else(|| "none that all arms reached".to_owned()))),
        ("Memory limit of a service", limit.service_bytes.map(units::memory)),
        ("Available on the host", limit.host_available_bytes.map(units::memory)),
    ];
    pairs.extend(host(report));
    pairs.push(("Heaptrial", Some(report.tool_version.clone())));
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// `30 consensuses (1 d 6 h of a relay's life), 60 times as fast as life`.
fn paced(consensuses: &ConsensusClock) -> String {
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
fn host(report: &Report) -> [(&'static str, Option<String>); 10] {
    let host = &report.host;
    [
        ("Operating system", host.os.clone()),
        ("Userland", host.userland.clone()),
        ("Kernel", host.kernel.clone()),
        ("Architecture", host.architecture.clone()),
        ("CPUs", host.cpu_count.map(|count| count.to_string())),
        ("Processor", host.cpu_model.clone()),
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
