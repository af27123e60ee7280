//! The bundle as Markdown: `bug.md`.

use std::collections::BTreeSet;
use std::fmt::Write;

use heaptrial_analysis::Severity;

use super::document::{ArmEvidence, Bug, Common, Evidence, Ran, SettingDefault};
use crate::document::{Estimate, Host, Kind};
use crate::escape::{markdown as escaped, markdown_block};
use crate::markdown::{list, pairs, table_block};
use crate::summary::{capitalised, ended};
use crate::table::{Emphasis, Row, Table, figure, optional, ratio_with_interval, text};
use crate::units::{self, Pace};

/// What a reader cannot find here.
const LEFT_OUT: &str = "Services, hosts and arms have other names here, and texts of events, commands and messages are left out.";

pub(super) fn page(bug: &Bug) -> String {
    let mut out = String::new();
    let mut put = |block: &str| {
        if !block.is_empty() {
            let _ = write!(out, "{block}\n\n");
        }
    };
    put(&format!("# {}", escaped(&bug.title)));
    put(&list(&bug.evidence.iter().map(measured).collect::<Vec<_>>()));
    let several = bug.evidence.len() > 1;
    for (index, evidence) in bug.evidence.iter().enumerate() {
        let number = if several { format!("Evidence {}: ", index + 1) } else { "Evidence: ".to_owned() };
        put(&format!("## {number}{}, {}", evidence.kind.describe(), evidence.date));
        put(&escaped(&what_figures_are(evidence)));
        put(&table_block(&figures(evidence)));
        for chart in &evidence.charts {
            let (title, file) = (escaped(&chart.title), &chart.file);
            put(&format!("![{title}]({file}.svg)\n\n*{title}*. {}", escaped(&chart.caption)));
        }
        put(&odd(evidence));
        if evidence.arms.iter().any(|arm| arm.identity.is_some()) {
            put("What really ran, as proved in the running processes:");
            put(&table_block(&identities(evidence)));
            put(&settings_in_force(evidence));
        } else {
            put("What really ran was proved in no process: others measured.");
        }
        put("The machine:");
        put(&pairs(&machine(&evidence.host, &evidence.tool_version)));
    }
    put("## Version or default settings");
    put(&version_or_settings(bug));
    if let Some(found) = &bug.bisect {
        put("## Which change");
        put(found.for_bug().trim_end());
    }
    put("## How to see it again");
    put(&reproduction(bug));
    put("## What this does not show");
    put(&list(&bug.limits));
    put(&escaped(&format!("Written by Heaptrial {}. {LEFT_OUT} {}", bug.tool_version, units::LEGEND)));
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// What one run found, in a sentence.
fn measured(evidence: &Evidence) -> String {
    let (bad, good) = (&evidence.bad_arm, &evidence.good_arm);
    let ratio = match &evidence.ratio {
        None => format!("{bad} and {good} could not be compared"),
        Some(ratio) => {
            let interval = match (ratio.low, ratio.high) {
                (Some(low), Some(high)) => {
                    format!("95% interval {} to {}", units::ratio(low), units::ratio(high))
                }
                _ => "no interval".to_owned(),
            };
            format!("{bad} needed {} times the memory of {good} ({interval})", units::ratio(ratio.estimate))
        }
    };
    let growth = |name: &str| {
        let arm = evidence.arms.iter().find(|arm| arm.name == name)?;
        Some(format!("{name} {}", share_a_day(arm.growth_share_per_day.as_ref()?)))
    };
    let growths: Vec<String> = [bad, good].into_iter().filter_map(|name| growth(name)).collect();
    let growths =
        if growths.is_empty() { String::new() } else { format!("; growth a day: {}", growths.join(", ")) };
    let services = if evidence.kind.is_lab() {
        units::counted(evidence.repeats as usize, "repeat")
    } else {
        let count =
            |name: &str| evidence.arms.iter().find(|arm| arm.name == name).map_or(0, |arm| arm.services);
        format!("{} against {} services", count(bad), count(good))
    };
    let kind = capitalised(evidence.kind.describe());
    format!("{kind} ({services}, {}): {ratio}{growths}.", units::duration(evidence.duration_seconds))
}

fn what_figures_are(evidence: &Evidence) -> String {
    let metric = evidence.metric.describe();
    let matched = evidence.matched_age_seconds.map_or_else(|| "the end".to_owned(), units::duration);
    let level = match (evidence.kind.is_lab(), evidence.window_seconds.map(units::duration)) {
        (true, Some(window)) => format!(
            "Memory is {metric} at the ends of rests; ages are hours of a relay's life, one for each consensus. The level is the \
             median of the last {window} up to an age of {matched}"
        ),
        (true, None) => {
            let warm_up = units::duration(evidence.warm_up_seconds);
            format!("Memory is {metric}; the level is the median from an age of {warm_up} to {matched}")
        }
        (false, _) => format!("Memory is {metric}; the level is that at an age of {matched}"),
    };
    let mut text = format!("{level}, geometric mean over services.");
    let shares = evidence.arms.iter().filter_map(|arm| arm.growth_share_per_day.as_ref());
    let slopes = evidence.arms.iter().filter_map(|arm| arm.slope_bytes_per_hour.as_ref());
    let (shares, slopes): (Vec<_>, Vec<_>) = (shares.collect(), slopes.collect());
    let bounded = |found: &[&Estimate]| found.iter().any(|growth| growth.low.is_some());
    if !shares.is_empty() {
        let interval = if bounded(&shares) { " with its 95% interval" } else { "" };
        let _ = write!(text, " Growth is a share a day after warm-up, median over services{interval}.");
    } else if !slopes.is_empty() {
        let range = if bounded(&slopes) { " with the lowest and highest of the services" } else { "" };
        let _ = write!(text, " Growth is the slope after warm-up{range}.");
    }
    if evidence.kind.is_lab() && evidence.arms.iter().any(|arm| arm.cpu_seconds.is_some()) {
        text.push_str(" CPU is the mean.");
    }
    text
}

fn figures(evidence: &Evidence) -> Table {
    let bytes = |bytes: Option<u64>| optional(bytes, |bytes| units::memory(bytes as f64));
    let cpu = evidence.arms.iter().any(|arm| arm.cpu_seconds.is_some());
    let mut columns = vec![text("Arm")];
    columns.extend(
        ["Services", "Age", "Level", "At end", "RssAnon at end", "Over control", "Growth"].map(figure),
    );
    columns.extend(cpu.then(|| figure("CPU")));
    let rows = evidence.arms.iter().enumerate().map(|(index, arm)| {
        let role = match &arm.name {
            name if *name == evidence.bad_arm => " (bad)",
            name if *name == evidence.good_arm => " (good)",
            _ => "",
        };
        let lost = if arm.services_excluded > 0 {
            format!(" (+{} not counted)", arm.services_excluded)
        } else {
            String::new()
        };
        let mut cells = vec![
            format!("{}{role}", arm.name),
            format!("{}{lost}", arm.services),
            optional(arm.age_seconds, units::duration),
            bytes(arm.level_bytes),
            bytes(arm.final_bytes),
            bytes(arm.anon_bytes_final),
            if arm.control {
                "control".to_owned()
            } else {
                ratio_with_interval(arm.ratio_to_control.as_ref())
            },
            growth(evidence, arm),
        ];
        cells.extend(cpu.then(|| optional(arm.cpu_seconds, units::cpu)));
        let emphasis = if arm.name == evidence.bad_arm { Emphasis::Control } else { Emphasis::None };
        Row { arm: Some(index), emphasis, cells }
    });
    Table { rows: rows.collect(), columns }
}

fn growth(evidence: &Evidence, arm: &ArmEvidence) -> String {
    if let Some(growth) = &arm.growth_share_per_day {
        return share_a_day(growth);
    }
    optional(arm.slope_bytes_per_hour, |slope| {
        let pace = Pace::for_length(arm.age_seconds.unwrap_or(evidence.duration_seconds));
        let value = units::growth(slope.value, pace);
        match (slope.low, slope.high) {
            (Some(low), Some(high)) => {
                format!("{value} ({} to {})", units::growth(low, pace), units::growth(high, pace))
            }
            _ => value,
        }
    })
}

fn share_a_day(growth: &Estimate) -> String {
    let value = units::signed_percent(growth.value);
    match (growth.low, growth.high) {
        (Some(low), Some(high)) => {
            format!("{value} ({} to {})", units::signed_percent(low), units::signed_percent(high))
        }
        _ => value,
    }
}

fn odd(evidence: &Evidence) -> String {
    let finding = |found: &super::document::OddFinding| {
        let word = if found.severity == Severity::Grave { "Grave" } else { "Caution" };
        format!("{word}: {} {}", ended(&found.evidence), ended(&found.effect))
    };
    let items: Vec<String> =
        evidence.findings.iter().map(finding).chain(evidence.warnings.iter().cloned()).collect();
    if items.is_empty() { String::new() } else { format!("Odd about the data:\n\n{}", list(&items)) }
}

fn identities(evidence: &Evidence) -> Table {
    let columns = ["Arm", "Really ran", "How", "File", "Build id", "SHA-256", "Settings given", "Source"]
        .map(text)
        .to_vec();
    let rows = evidence.arms.iter().enumerate().map(|(index, arm)| {
        let ran = arm.identity.as_ref();
        let told = |value: fn(&Ran) -> Option<String>| optional(ran.and_then(value), |value| value);
        let environment = ran.map_or(String::new(), |ran| {
            ran.environment
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        });
        let cells = vec![
            arm.name.clone(),
            ran.map_or_else(|| "not proved".to_owned(), |ran| ran.label.clone()),
            told(|ran| Some(ran.linkage.clone())),
            told(|ran| ran.file.clone()),
            told(|ran| ran.build_id.clone()),
            told(|ran| ran.sha256.clone()),
            if environment.is_empty() { "none".to_owned() } else { environment },
            told(|ran| ran.source.clone()),
        ];
        Row { arm: Some(index), emphasis: Emphasis::None, cells }
    });
    Table { rows: rows.collect(), columns }
}

/// What the two loaded libraries told of their settings, where it is not the same.
fn settings_in_force(evidence: &Evidence) -> String {
    let ran = |name: &str| evidence.arms.iter().find(|arm| arm.name == name)?.identity.as_ref();
    let (Some(bad), Some(good)) = (ran(&evidence.bad_arm), ran(&evidence.good_arm)) else {
        return String::new();
    };
    if bad.settings.is_empty() || good.settings.is_empty() {
        return "The libraries did not tell the settings in force.".to_owned();
    }
    let of = |ran: &Ran, name: &str| {
        ran.settings.iter().find(|found| found.0 == name).map(|found| found.1.clone())
    };
    let all: BTreeSet<&str> =
        bad.settings.iter().chain(&good.settings).map(|found| found.0.as_str()).collect();
    let rows: Vec<Row> = all
        .into_iter()
        .filter(|name| of(bad, name) != of(good, name))
        .map(|name| {
            let value = |ran: &Ran| of(ran, name).unwrap_or_else(|| "no such setting".to_owned());
            Row { arm: None, emphasis: Emphasis::None, cells: vec![name.to_owned(), value(good), value(bad)] }
        })
        .collect();
    if rows.is_empty() {
        return "All settings in force, as the loaded libraries tell them, are the same in both.".to_owned();
    }
    let columns = vec![text("Setting"), figure(&evidence.good_arm), figure(&evidence.bad_arm)];
    let table = table_block(&Table { columns, rows });
    format!(
        "Settings in force that differ, as the loaded libraries tell them (all are in `bug.json`):\n\n{table}"
    )
}

fn machine(host: &Host, tool_version: &str) -> Vec<(String, String)> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not recorded".to_owned());
    let number = |number: Option<String>| number.unwrap_or_else(|| "not recorded".to_owned());
    let facts = [
        ("Operating system", known(&host.os)),
        ("Kernel", format!("{} ({})", known(&host.kernel), known(&host.architecture))),
        ("C library", known(&host.libc)),
        ("Processors", number(host.cpu_count.map(|count| count.to_string()))),
        ("Processor", known(&host.cpu_model)),
        ("RAM", number(host.ram_bytes.map(|bytes| units::memory(bytes as f64)))),
        ("Page size", number(host.page_size_bytes.map(|bytes| format!("{bytes} bytes")))),
        ("Transparent huge pages", known(&host.thp_mode)),
        ("vm.overcommit_memory", known(&host.overcommit_memory)),
        ("Heaptrial", tool_version.to_owned()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn version_or_settings(bug: &Bug) -> String {
    let mut blocks = Vec::new();
    let (shared, alone): (Vec<&SettingDefault>, Vec<_>) =
        bug.defaults.iter().partition(|found| found.is_shared());
    if !shared.is_empty() {
        let cell = |value: &Option<String>| value.clone().unwrap_or_default();
        let rows = shared.iter().map(|found| {
            let cells = vec![found.name.clone(), cell(&found.good), cell(&found.bad), found.about.clone()];
            Row { arm: None, emphasis: Emphasis::None, cells }
        });
        let columns = vec![text("Setting"), figure(&bug.good), figure(&bug.bad), text("What it is")];
        let table = table_block(&Table { columns, rows: rows.collect() });
        blocks.push(format!("Defaults that differ between the two versions:\n\n{table}"));
    }
    let told = |settings: &[&SettingDefault]| {
        let names: Vec<&str> = settings.iter().map(|found| found.name.as_str()).collect();
        crate::summary::names(&names, names.len())
    };
    if !alone.is_empty() {
        blocks.push(escaped(&format!("Settings that only one of the two has: {}.", told(&alone))));
    }
    let common = match bug.common() {
        Common::Build => Some("Both are the same build: what differs is the settings."),
        Common::Family if blocks.is_empty() => Some("No default setting is known to differ between the two."),
        Common::Family => None,
        Common::Nothing => Some("They are different allocators."),
    };
    blocks.extend(common.map(str::to_owned));
    blocks.join("\n\n")
}

fn reproduction(bug: &Bug) -> String {
    let one = |found: &super::document::Reproduction| {
        let word =
            if found.measured { "Figures above are of a run with:" } else { "This has not been run yet:" };
        let notes =
            if found.notes.is_empty() { String::new() } else { format!("\n\n{}", list(&found.notes)) };
        format!("{word}\n\n{}{notes}", markdown_block(&found.command))
    };
    let mut blocks: Vec<String> = bug.reproduce.iter().map(one).collect();
    if bug.evidence.iter().any(|evidence| evidence.kind == Kind::LabTor)
        || bug.reproduce.iter().any(|found| found.command.contains("lab tor"))
    {
        blocks.push("It needs a `tor` program on the machine and no network: all relays and the directory are on loopback.".to_owned());
    }
    blocks.join("\n\n")
}
