//! The host, what sampling costs, and the database.

use heaptrial_model::units;
use heaptrial_report::embedded::printable;
use maud::{Markup, html};
use serde_json::Value;

use super::words;
use crate::data::{Host, Sampler};

/// Facts with a better name than their own.
const NAMES: [(&str, &str); 9] = [
    ("os", "Operating system"),
    ("kernel", "Kernel"),
    ("architecture", "Architecture"),
    ("cpu_model", "Processor"),
    ("cpu_count", "Processors"),
    ("ram_bytes", "Memory"),
    ("thp_mode", "Transparent huge pages"),
    ("cgroup_version", "Control groups"),
    ("overcommit_memory", "vm.overcommit_memory"),
];

pub(crate) fn host(host: &Host, now_us: i64) -> Markup {
    html! {
        h1 { "Host" }
        section id="facts" {
            h2 { "Facts" }
            @match &host.facts_of {
                Some((at, trial)) => p class="quiet" { "As found when " (words::name(trial)) " began, " (words::date_and_ago(*at, now_us)) "." },
                None => p { "No trial has told them yet." },
            }
            @for (name, told) in &host.facts {
                @if let Some(name) = name { h3 { (words::name(name)) } }
                (facts(told))
            }
        }
        section id="sampling" {
            h2 { "Cost of sampling" }
            @if host.samplers.is_empty() { p { "Nothing is sampled now." } } @else { (samplers(&host.samplers, now_us)) }
        }
        section id="database" {
            h2 { "Database" }
            dl {
                div { dt { "File" } dd { code { (host.database.path) } } }
                div { dt { "Size" } dd { (units::memory(host.database.bytes as f64)) } }
                div { dt { "Write-ahead log" } dd { (units::memory(host.database.wal_bytes as f64)) } }
                div { dt { "Trials" } dd { (host.database.trials) } }
                div { dt { "Retention" } dd { "The agent keeps every sample for 14 days unless told otherwise; older ones become medians and maxima of 15 minutes." } }
            }
        }
    }
}

fn facts(facts: &Value) -> Markup {
    let Some(members) = facts.as_object() else { return html! {} };
    let known = NAMES.iter().filter_map(|(name, title)| Some((*title, *name, members.get(*name)?)));
    let further = members.iter().filter(|(name, _)| NAMES.iter().all(|(known, _)| known != name));
    html! {
        dl {
            @for (title, name, value) in known { div { dt { (title) } dd { (told(name, value)) } } }
            @for (name, value) in further.take(40) { div { dt { (printable(name).replace('_', " ")) } dd { (told(name, value)) } } }
        }
    }
}

fn told(name: &str, value: &Value) -> String {
    match value {
        Value::Number(number) if name.ends_with("_bytes") => {
            let bytes = number.as_f64().unwrap_or_default();
            if bytes < 1_048_576.0 { format!("{bytes} bytes") } else { units::memory(bytes) }
        }
        Value::String(text) => printable(text),
        Value::Null => "not known".to_owned(),
        other => printable(&other.to_string()),
    }
}

fn samplers(samplers: &[Sampler], now_us: i64) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby="sampling-caption" {
            table {
                caption id="sampling-caption" class="quiet" { span { "Medians of the last ticks; the agent's own figures are over the whole trial." } }
                thead {
                    tr {
                        th scope="col" { "Trial" }
                        th scope="col" { "Last tick" }
                        th scope="col" class="figure" { "Every" }
                        th scope="col" class="figure" { "Services" }
                        th scope="col" class="figure" { "Time of a tick" }
                        th scope="col" class="figure" { "Of one core" }
                        th scope="col" class="figure" { "Agent's memory" }
                        th scope="col" class="figure" { "Ticks" }
                    }
                }
                tbody { @for sampler in samplers { (row(sampler, now_us)) } }
            }
        }
    }
}

fn row(sampler: &Sampler, now_us: i64) -> Markup {
    let of_ticks = sampler.cost_cpu_us as f64 / sampler.interval_us.max(1) as f64;
    let share = sampler.agent.cpu_share().unwrap_or(of_ticks);
    let agent = (sampler.agent.rss_max_bytes > 0).then_some(sampler.agent.rss_max_bytes);
    html! {
        tr data-key=(sampler.trial_id) {
            th scope="row" class="plain" { a href=(words::trial_address(sampler.trial_id, &sampler.trial)) { (words::name(&sampler.trial)) } }
            td { (words::ago(sampler.last.wall_us, now_us)) }
            td class="figure" { (words::rough(sampler.interval_us as f64 / 1e6)) }
            td class="figure" { (units::count(sampler.services as u64)) }
            td class="figure" { (format!("{:.1} ms", sampler.cost_wall_us as f64 / 1e3)) }
            td class="figure" { (format!("{:.3}%", 100.0 * share)) }
            td class="figure" { (words::memory(agent)) }
            td class="figure" { (units::count(sampler.last.sequence.max(0) as u64 + 1)) }
        }
    }
}
