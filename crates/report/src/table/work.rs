//! What arms did for their users, and what memory costs by it.

use heaptrial_analysis::{RatioToControl, WorkStanding};

use super::{Emphasis, Row, Table, figure, optional, text};
use crate::document::{MeasureResult, Report};
use crate::units;

/// Every measure of every arm whose work is known; `None` where none is.
pub(crate) fn measures(report: &Report) -> Option<Table> {
    let columns = [text("Arm"), text("Work")].into_iter().chain(
        ["Of a service", "Ratio to control", "Memory for each a second", "Ratio to control"].map(figure),
    );
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        for measure in arm.work.iter().flat_map(|work| &work.measures) {
            let (ratio_cell, memory_cell) = match arm.control {
                true => ("control".to_owned(), "control".to_owned()),
                false => (ratio(measure.ratio.as_ref()), ratio(measure.memory_ratio.as_ref())),
            };
            rows.push(Row {
                arm: Some(index),
                emphasis: match (measure.standing, arm.control) {
                    (WorkStanding::ClearlyLess, _) => Emphasis::Lost,
                    (_, true) => Emphasis::Control,
                    _ => Emphasis::None,
                },
                cells: vec![
                    arm.name.clone(),
                    named(measure),
                    amount(measure),
                    ratio_cell,
                    optional(measure.memory_for_each.filter(|bytes| bytes.is_finite()), units::memory),
                    memory_cell,
                ],
            });
        }
    }
    (!rows.is_empty()).then(|| Table { columns: columns.collect(), rows })
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
