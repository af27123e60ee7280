//! The table of memory over time.

use heaptrial_evaluate::analysis::DayLevel;

use super::{Columns, Table, emphasis};
use crate::document::Report;
use crate::units::{GIB, MIB};

/// Columns of the table by day, besides the arm.
const COLUMNS_SHOWN: usize = 12;

/// Memory by day of age: the unit of its cells, and the table. In brackets where fewer than half of the services that
/// an arm had on its best day have readings.
pub(crate) fn by_day(report: &Report) -> Option<(&'static str, Table)> {
    let levels = |arm: usize| report.arms[arm].result.by_day.as_slice();
    let all = || (0..report.arms.len()).flat_map(levels);
    let highest = all().map(|level| level.median_bytes).fold(0.0, f64::max);
    let mut days: Vec<u32> = all().map(|level| level.day).collect();
    days.sort_unstable();
    days.dedup();
    if days.len() > COLUMNS_SHOWN {
        let last = days.len() - 1;
        days = (0..COLUMNS_SHOWN).map(|column| days[column * last / (COLUMNS_SHOWN - 1)]).collect();
    }
    let (unit, size, decimals) = if highest >= 1.5 * GIB { ("GiB", GIB, 2) } else { ("MiB", MIB, 0) };
    let show = move |level: &DayLevel, most: u32| {
        let median = in_unit(level.median_bytes / size, decimals);
        if 2 * level.services < most { format!("({median})") } else { median }
    };
    let columns = Columns::of("Arm", |arm: &usize| report.arms[*arm].name.clone());
    let columns = days.into_iter().fold(columns, |columns, day| {
        columns.figure(&format!("Day {day}"), move |arm| {
            let most = levels(*arm).iter().map(|level| level.services).max().unwrap_or(0);
            levels(*arm).iter().find(|level| level.day == day).map(|level| show(level, most))
        })
    });
    let rows = report.ranking().into_iter().filter(|arm| !levels(*arm).is_empty());
    Some((unit, columns.table_of_arms(rows, |arm| emphasis(report, *arm))?))
}

/// A figure with so many digits behind the point; small ones keep two digits that count.
fn in_unit(value: f64, decimals: usize) -> String {
    let further = if value > 0.0 { (1.0 - value.log10().floor()).max(0.0) as usize } else { 0 };
    let decimals = decimals.max(further.min(9));
    format!("{value:.decimals$}")
}
