//! What arms did for their users, and what memory costs by it.

use std::collections::HashSet;

use heaptrial_evaluate::analysis::WorkStanding;

use super::{Detail, Emphasis, Row, Table, bytes, figure, optional, ratio_with_interval, text};
use crate::document::{Kind, MeasureResult, Report};
use crate::units;

/// The measure that is in units of memory.
const BYTES: &str = "bytes";

/// Memory for a unit that shows as nothing in MiB.
const TRIFLE_BYTES: f64 = 100_000.0;

/// Every measure of every arm whose work is known; `None` where none is.
pub(crate) fn measures(report: &Report, detail: Detail) -> Option<Table> {
    let titles = match detail {
        Detail::Full => ["Of a service", "Ratio to control", "Memory for it", "Ratio to control"],
        Detail::Brief => ["Of a service", "Ratio", "Memory for it", "Ratio"],
    };
    let all =
        || report.arms.iter().filter_map(|arm| arm.result.work.as_ref()).flat_map(|work| &work.measures);
    let cpu = all().any(|measure| measure.cpu_seconds_for_each.is_some());
    let faults = detail == Detail::Full && all().any(|measure| measure.page_faults_for_each.is_some());
    let time = Time::of(report);
    let unit_of = |name: &str| unit(name, all().filter(|measure| measure.name == name), time);
    let further = cpu.then_some("CPU for each").into_iter().chain(faults.then_some("Page faults for each"));
    let titles = titles.into_iter().chain(further).map(figure);
    let columns = [text("Arm"), text("Work")].into_iter().chain(titles);
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        for measure in arm.result.work.iter().flat_map(|work| &work.measures) {
            let (ratio_cell, memory_cell) = match arm.control {
                true => ("control".to_owned(), "control".to_owned()),
                false => (
                    ratio_with_interval(measure.ratio.as_ref()),
                    ratio_with_interval(measure.memory_ratio.as_ref()),
                ),
            };
            let mut cells = vec![
                arm.name.clone(),
                named(measure),
                match measure.idle {
                    0 => amount(measure, time),
                    idle => format!("{} ({idle} of {} idle)", amount(measure, time), measure.services),
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

/// What rates are by.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Time {
    Second,
    /// Of a lab's relays, whose ages are hours of life: a second of those is a fraction of one.
    HourOfLife,
}

impl Time {
    fn of(report: &Report) -> Self {
        if report.kind == Kind::LabTor { Self::HourOfLife } else { Self::Second }
    }

    fn seconds(self) -> f64 {
        if self == Self::HourOfLife { 3600.0 } else { 1.0 }
    }

    fn words(self) -> &'static str {
        if self == Self::HourOfLife { "an hour of life" } else { "a second" }
    }
}

/// The unit for which memory is shown, so that some arm needs more than a trifle for it, and how many of the measure by the second it
/// is.
fn unit<'m>(name: &str, arms: impl Iterator<Item = &'m MeasureResult>, time: Time) -> (f64, String) {
    let most = arms.filter_map(|measure| measure.memory_for_each).fold(0.0, f64::max);
    let each = match name {
        BYTES => 1e6,
        _ if most > 0.0 && most < TRIFLE_BYTES * time.seconds() => 1e3,
        _ => 1.0,
    };
    let unit = match (name, time) {
        (BYTES, Time::Second) => "1 MB/s".to_owned(),
        (BYTES, Time::HourOfLife) => format!("1 MB {}", time.words()),
        _ => format!("{} {}", units::count(each as u64), time.words()),
    };
    (each / time.seconds(), unit)
}

/// `4.12 MiB for 1 a second`: what an arm needs for a unit of the measure.
fn memory_for_it(measure: &MeasureResult, (each, unit): (f64, String)) -> String {
    let bytes = measure.memory_for_each.filter(|bytes| bytes.is_finite());
    optional(bytes, |bytes| format!("{} for {unit}", units::memory(each * bytes)))
}

fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.1} µs", seconds * 1e6),
    }
}

fn named(measure: &MeasureResult) -> String {
    match measure.tried {
        Some(_) => format!("{} served", measure.name),
        None => measure.name.clone(),
    }
}

/// `12.3 a second`, `99.8%`, `none`.
fn amount(measure: &MeasureResult, time: Time) -> String {
    let in_time = |rate: f64| rate * time.seconds();
    match (measure.amount, measure.tried) {
        (Some(share), Some(_)) => units::share(share),
        (Some(took), None) if measure.less_is_better => units::ratio(took),
        (Some(bytes), None) if measure.name == BYTES && time == Time::Second => rate(bytes),
        (Some(bytes), None) if measure.name == BYTES => {
            format!("{:.1} MB {}", in_time(bytes) / 1e6, time.words())
        }
        (Some(rate), None) if in_time(rate) >= 100.0 => format!("{:.0} {}", in_time(rate), time.words()),
        (Some(rate), None) => format!("{:.2} {}", in_time(rate), time.words()),
        (None, _) if measure.services > 0 => "none".to_owned(),
        (None, _) => super::NOTHING.to_owned(),
    }
}

/// Connections, flags and memory that programs freed in distress, where any was read.
pub(crate) fn standing(report: &Report, detail: Detail) -> Option<Table> {
    let all = || report.arms.iter().filter_map(|arm| arm.result.work.as_ref());
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
        let work = report.arms[index].result.work.as_ref()?;
        let mut cells = vec![report.arms[index].name.clone(), work.services.to_string()];
        let connections = || optional(work.connections, |number| units::count(number.round() as u64));
        cells.extend(connected.then(connections));
        cells.extend(flags.iter().map(|flag| {
            let count = work.flags.iter().find(|count| count.name.as_str() == *flag);
            optional(count, |count| format!("{} of {}", count.with, count.of))
        }));
        cells.extend(freed.then(|| bytes(Some(work.oom_bytes).filter(|bytes| *bytes > 0.0))));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_relays_that_rest_are_of_hours_of_life() {
        let measure: MeasureResult = serde_json::from_value(serde_json::json!({
            "name": "documents", "services": 1, "of": 1, "idle": 0, "amount": 0.0554, "total": 16554.0, "tried": null,
            "of_control": null, "ratio": null, "memory_for_each": 3.24 * 1_073_741_824.0, "memory_ratio": null,
            "standing": "unknown", "less_is_better": false,
        }))
        .unwrap();
        let shown = |time| {
            (amount(&measure, time), memory_for_it(&measure, unit("documents", [&measure].into_iter(), time)))
        };
        assert_eq!(shown(Time::Second), ("0.06 a second".to_owned(), "3.24 GiB for 1 a second".to_owned()));
        let of_life = ("199 an hour of life".to_owned(), "0.92 MiB for 1 an hour of life".to_owned());
        assert_eq!(shown(Time::HourOfLife), of_life);
    }
}
