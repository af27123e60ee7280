//! What arms did for their users, and what memory costs by it.

use std::collections::HashSet;

use heaptrial_evaluate::analysis::{ArmWork, WorkStanding};
use heaptrial_model::TrialKind;

use super::{Columns, Emphasis, Table, emphasis, optional, ratio_or_control};
use crate::document::{MeasureResult, Report};
use crate::units;

const RATIO: &str = "Ratio to control";
/// The measure that is in units of memory.
const BYTES: &str = "bytes";

/// Memory for a unit that shows as nothing in MiB.
const TRIFLE_BYTES: f64 = 100_000.0;

/// Every measure of every arm whose work is known; `None` where none is.
pub(crate) fn measures(report: &Report) -> Option<Table> {
    let all =
        || report.arms.iter().filter_map(|arm| arm.result.work.as_ref()).flat_map(|work| &work.measures);
    let time = time(report);
    let unit_of = |name: &str| unit(name, all().filter(|measure| measure.name == name), time);
    let of = |arm: usize| {
        let work = report.arms[arm].result.work.iter();
        work.flat_map(|work| &work.measures).map(move |measure| (arm, measure))
    };
    let control = |arm: &usize| report.arms[*arm].control;
    Columns::of("Arm", |(arm, _): &(usize, &MeasureResult)| report.arms[*arm].name.clone())
        .text("Work", |(_, measure)| Some(named(measure)))
        .figure("Of a service", move |(_, measure)| Some(amount_and_idle(measure, time)))
        .figure(RATIO, |(arm, measure)| ratio_or_control(control(arm), measure.ratio.as_ref()))
        .figure("Memory for it", |(_, measure)| Some(memory_for_it(measure, unit_of(&measure.name))))
        .figure(RATIO, |(arm, measure)| ratio_or_control(control(arm), measure.memory_ratio.as_ref()))
        .figure("CPU for each", |(_, measure)| measure.cpu_seconds_for_each.map(seconds))
        .figure("Page faults for each", |(_, measure)| measure.page_faults_for_each.map(units::ratio))
        .table_of_arms(report.ranking().into_iter().flat_map(of), |(arm, measure)| match measure.standing {
            WorkStanding::ClearlyLess => (Some(*arm), Emphasis::Lost),
            _ => emphasis(report, *arm),
        })
}

/// The same with a row for each arm: what a service did, and in brackets its ratio to the control.
pub(crate) fn in_brief(report: &Report) -> Option<Table> {
    let time = time(report);
    let of = |arm: usize| report.arms[arm].result.work.iter().flat_map(|work| &work.measures);
    let mut names: Vec<String> = (0..report.arms.len()).flat_map(of).map(named).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let columns = Columns::of("Arm", |arm: &usize| report.arms[*arm].name.clone());
    let columns = names.into_iter().fold(columns, |columns, name| {
        columns.figure(&name.clone(), move |arm| {
            let measure = of(*arm).find(|measure| named(measure) == name)?;
            let did = amount_and_idle(measure, time);
            let ratio = measure.ratio.as_ref().filter(|_| !report.arms[*arm].control);
            Some(ratio.map_or(did.clone(), |ratio| format!("{did} ({})", units::ratio(ratio.estimate.value))))
        })
    });
    let arms = report.ranking().into_iter().filter(|arm| of(*arm).next().is_some());
    columns.table_of_arms(arms, |arm| {
        match of(*arm).any(|measure| measure.standing == WorkStanding::ClearlyLess) {
            true => (Some(*arm), Emphasis::Lost),
            false => emphasis(report, *arm),
        }
    })
}

fn amount_and_idle(measure: &MeasureResult, time: Time) -> String {
    match measure.idle {
        0 => amount(measure, time),
        idle => format!("{} ({idle} of {} idle)", amount(measure, time), measure.services),
    }
}

/// What rates are by: seconds, and how that is called. Ages of a lab's relays are hours of life.
type Time = (f64, &'static str);

fn time(report: &Report) -> Time {
    if report.kind == TrialKind::LabTor { (3600.0, "an hour of life") } else { (1.0, "a second") }
}

/// The unit for which memory is shown, so that some arm needs more than a trifle for it, and what it is by the second.
fn unit<'m>(name: &str, arms: impl Iterator<Item = &'m MeasureResult>, (seconds, by): Time) -> (f64, String) {
    let most = arms.filter_map(|measure| measure.memory_for_each).fold(0.0, f64::max);
    match name {
        BYTES => (1e6 / seconds, format!("1 MB {by}")),
        _ if most > 0.0 && most < TRIFLE_BYTES * seconds => (1e3 / seconds, format!("1,000 {by}")),
        _ => (1.0 / seconds, format!("1 {by}")),
    }
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
fn amount(measure: &MeasureResult, (seconds, by): Time) -> String {
    match (measure.amount, measure.tried) {
        (Some(share), Some(_)) => units::share(share),
        (Some(took), None) if measure.less_is_better => units::ratio(took),
        (Some(bytes), None) if measure.name == BYTES => format!("{:.2} MB {by}", seconds * bytes / 1e6),
        (Some(rate), None) if seconds * rate >= 100.0 => format!("{:.0} {by}", seconds * rate),
        (Some(rate), None) => format!("{:.2} {by}", seconds * rate),
        (None, _) if measure.services > 0 => "none".to_owned(),
        (None, _) => super::NOTHING.to_owned(),
    }
}

/// Connections, flags and memory that programs freed in distress, where any was read.
pub(crate) fn standing(report: &Report) -> Option<Table> {
    let all = || report.arms.iter().filter_map(|arm| arm.result.work.as_ref());
    let mut flags: Vec<&str> = all().flat_map(|work| &work.flags).map(|flag| flag.name.as_str()).collect();
    let mut seen = HashSet::new();
    flags.retain(|flag| seen.insert(*flag));
    let known = all().any(|work| work.connections.is_some() || work.oom_services > 0) || !flags.is_empty();
    let of = |arm: usize| Some((arm, report.arms[arm].result.work.as_ref().filter(|_| known)?));
    let columns = Columns::of("Arm", |(arm, _): &(usize, &ArmWork)| report.arms[*arm].name.clone())
        .figure("Services", |(_, work)| Some(work.services.to_string()))
        .figure("Connections", |(_, work)| Some(units::count(work.connections?.round() as u64)));
    let columns = flags.into_iter().fold(columns, |columns, flag| {
        columns.figure(flag, move |(_, work)| {
            let count = work.flags.iter().find(|count| count.name.as_str() == flag)?;
            Some(format!("{} of {}", count.with, count.of))
        })
    });
    columns
        .figure("Freed by its OOM handler", |(_, work)| {
            Some(work.oom_bytes).filter(|bytes| *bytes > 0.0).map(units::memory)
        })
        .table_of_arms(report.ranking().into_iter().filter_map(of), |(arm, _)| emphasis(report, *arm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_relays_that_rest_are_of_hours_of_life() {
        let measure: MeasureResult = serde_json::from_value(serde_json::json!({
            "name": "documents", "services": 1, "of": 1, "idle": 0, "amount": 0.0554, "total": 16554.0, "tried": null,
            "ratio": null, "memory_for_each": 3.24 * 1_073_741_824.0, "memory_ratio": null,
            "standing": "unknown", "less_is_better": false,
        }))
        .unwrap();
        let shown = |time| {
            (amount(&measure, time), memory_for_it(&measure, unit("documents", [&measure].into_iter(), time)))
        };
        assert_eq!(
            shown((1.0, "a second")),
            ("0.06 a second".to_owned(), "3.24 GiB for 1 a second".to_owned())
        );
        let of_life = ("199 an hour of life".to_owned(), "0.92 MiB for 1 an hour of life".to_owned());
        assert_eq!(shown((3600.0, "an hour of life")), of_life);
    }
}
