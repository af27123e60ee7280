//! What arms did for their users, and what memory costs by it.

use std::collections::HashSet;

use heaptrial_analysis::{RatioToControl, WorkStanding};

use super::{Detail, Emphasis, Row, Table, bytes, figure, optional, text};
use crate::document::{MeasureResult, Report};
use crate::units;

/// The measure that is told in units of memory.
pub(crate) const BYTES: &str = "bytes";

/// Memory for a unit that shows as nothing in MiB.
const TRIFLE_BYTES: f64 = 100_000.0;

/// Every measure of every arm whose work is known; `None` where none is.
pub(crate) fn measures(report: &Report, detail: Detail) -> Option<Table> {
    let titles = match detail {
        Detail::Full => ["Of a service", "Ratio to control", "Memory for it", "Ratio to control"],
        Detail::Brief => ["Of a service", "Ratio", "Memory for it", "Ratio"],
    };
    let all = || report.arms.iter().filter_map(|arm| arm.work.as_ref()).flat_map(|work| &work.measures);
    let cpu = all().any(|measure| measure.cpu_seconds_for_each.is_some());
    let faults = detail == Detail::Full && all().any(|measure| measure.page_faults_for_each.is_some());
    let unit_of = |name: &str| unit(name, all().filter(|measure| measure.name == name));
    let further = cpu.then_some("CPU for each").into_iter().chain(faults.then_some("Page faults for each"));
    let titles = titles.into_iter().chain(further).map(figure);
    let columns = [text("Arm"), text("Work")].into_iter().chain(titles);
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        for measure in arm.work.iter().flat_map(|work| &work.measures) {
            let (ratio_cell, memory_cell) = match arm.control {
                true => ("control".to_owned(), "control".to_owned()),
                false => (ratio(measure.ratio.as_ref()), ratio(measure.memory_ratio.as_ref())),
            };
            let mut cells = vec![
                arm.name.clone(),
                named(measure),
                match measure.idle {
                    0 => amount(measure),
                    idle => format!("{} ({idle} of {} idle)", amount(measure), measure.services),
                },
                ratio_cell,
                memory_for_it(measure, unit_of(&measure.name)),
                memory_cell,
            ];
            cells.extend(cpu.then(|| optional(measure.cpu_seconds_for_each, seconds)));
            cells.extend(faults.then(|| optional(measure.page_faults_for_each, units::ratio)));
            rows.push(Row {
                arm: Some(index),
                emphasis: match (measure.standing, arm.control) {
                    (WorkStanding::ClearlyLess, _) => Emphasis::Lost,
                    (_, true) => Emphasis::Control,
                    _ => Emphasis::None,
                },
                cells,
            });
        }
    }
    Table::of(columns, rows)
}

/// The unit for which memory is told, so that some arm needs more than a trifle for it, and how many of the measure it is.
fn unit<'m>(name: &str, arms: impl Iterator<Item = &'m MeasureResult>) -> (f64, &'static str) {
    let most = arms.filter_map(|measure| measure.memory_for_each).fold(0.0, f64::max);
    match name {
        BYTES => (1e6, "1 MB/s"),
        _ if most > 0.0 && most < TRIFLE_BYTES => (1e3, "1,000 a second"),
        _ => (1.0, "1 a second"),
    }
}

/// `4.12 MiB for 1 a second`: what an arm needs for a unit of the measure.
fn memory_for_it(measure: &MeasureResult, (each, unit): (f64, &str)) -> String {
    let bytes = measure.memory_for_each.filter(|bytes| bytes.is_finite());
    optional(bytes, |bytes| format!("{} for {unit}", units::memory(each * bytes)))
}

/// `1.24 ms`.
fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.1} µs", seconds * 1e6),
    }
}

/// `documents`, `clients served`.
fn named(measure: &MeasureResult) -> String {
    match measure.tried {
        Some(_) => format!("{} served", measure.name),
        None => measure.name.clone(),
    }
}

/// `12.3 a second`, `99.8%`, `none`.
fn amount(measure: &MeasureResult) -> String {
    match (measure.amount, measure.tried) {
        (Some(share), Some(_)) => units::share(share),
        (Some(took), None) if measure.less_is_better => units::ratio(took),
        (Some(bytes), None) if measure.name == BYTES => rate(bytes),
        (Some(rate), None) if rate >= 100.0 => format!("{rate:.0} a second"),
        (Some(rate), None) => format!("{rate:.2} a second"),
        (None, _) if measure.services > 0 => "none".to_owned(),
        (None, _) => super::NOTHING.to_owned(),
    }
}

fn ratio(ratio: Option<&RatioToControl>) -> String {
    optional(ratio, |ratio| match ratio.estimate.interval() {
        Some((low, high)) => {
            format!("{} ({}–{})", units::ratio(ratio.estimate.value), units::ratio(low), units::ratio(high))
        }
        None => units::ratio(ratio.estimate.value),
    })
}

/// Connections, flags and memory that programs freed in distress, where any was read.
pub(crate) fn standing(report: &Report, detail: Detail) -> Option<Table> {
    let all = || report.arms.iter().filter_map(|arm| arm.work.as_ref());
    let mut flags: Vec<&str> = all().flat_map(|work| &work.flags).map(|flag| flag.name.as_str()).collect();
    let mut seen = HashSet::new();
    flags.retain(|flag| seen.insert(*flag));
    let connected = all().any(|work| work.connections.is_some());
    let freed = all().any(|work| work.oom_services > 0);
    if !connected && !freed && flags.is_empty() {
        return None;
    }
    let freed_title = if detail == Detail::Full { "Freed by its OOM handler" } else { "OOM freed" };
    let columns =
        [text("Arm"), figure("Services")].into_iter().chain(connected.then(|| figure("Connections")));
    let columns =
        columns.chain(flags.iter().map(|flag| figure(flag))).chain(freed.then(|| figure(freed_title)));
    let rows = report.ranking().into_iter().filter_map(|index| {
        let work = report.arms[index].work.as_ref()?;
        let mut cells = vec![report.arms[index].name.clone(), work.services.to_string()];
        let connections = || optional(work.connections, |number| units::count(number.round() as u64));
        cells.extend(connected.then(connections));
        cells.extend(flags.iter().map(|flag| {
            let count = work.flags.iter().find(|count| count.name.as_str() == *flag);
            optional(count, |count| format!("{} of {}", count.with, count.of))
        }));
        cells.extend(freed.then(|| bytes(Some(work.oom_bytes).filter(|bytes| *bytes > 0))));
        Some(Row::of_arm(report, index, cells))
    });
    Table::of(columns, rows)
}

/// `1.24 MB/s`: powers of 1000, as networks count.
fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e6 => format!("{:.2} MB/s", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} kB/s", rate / 1e3),
        rate => format!("{rate:.0} B/s"),
    }
}
