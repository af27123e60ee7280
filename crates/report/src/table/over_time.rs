//! Tables of memory over time.

use heaptrial_evaluate::analysis::{ArmLevelChange, Sawtooth, WeekLevel};

use super::{Columns, Emphasis, Table, emphasis};
use crate::document::{Arm, Report, ServerSum};
use crate::text::stamp;
use crate::units::{self, GIB, MIB};

/// Columns of the tables by age, besides the arm.
const COLUMNS_SHOWN: usize = 12;

struct Cell {
    /// Day or week of age, from 1.
    at: u32,
    services: u32,
    median_bytes: f64,
}

/// Memory by day of age: the unit of its cells, and the table. In brackets where fewer than half of the services that
/// an arm had on its best day have readings.
pub(crate) fn by_day(report: &Report) -> Option<(&'static str, Table)> {
    let of = |arm: &Arm| {
        let days = arm.result.by_day.iter();
        days.map(|day| Cell { at: day.day, services: day.services, median_bytes: day.median_bytes }).collect()
    };
    by_age(report, "Day", of, |cell, median, most| match 2 * cell.services < most {
        true => format!("({median})"),
        false => median,
    })
}

/// Memory by week of age, with the number of services that lived through each.
pub(crate) fn by_week(report: &Report) -> Option<(&'static str, Table)> {
    let of = |arm: &Arm| {
        let weeks = arm.result.by_week.iter();
        let cell = |week: &WeekLevel| Cell {
            at: week.week,
            services: week.services,
            median_bytes: week.median_bytes,
        };
        weeks.map(cell).collect()
    };
    by_age(report, "Week", of, |cell, median, _| format!("{median} ({})", cell.services))
}

fn by_age(
    report: &Report,
    title: &str,
    of: impl Fn(&Arm) -> Vec<Cell>,
    show: impl Fn(&Cell, String, u32) -> String,
) -> Option<(&'static str, Table)> {
    let levels: Vec<Vec<Cell>> = report.arms.iter().map(of).collect();
    let highest = levels.iter().flatten().map(|cell| cell.median_bytes).fold(0.0, f64::max);
    let mut ages: Vec<u32> = levels.iter().flatten().map(|cell| cell.at).collect();
    ages.sort_unstable();
    ages.dedup();
    if ages.len() > COLUMNS_SHOWN {
        let last = ages.len() - 1;
        ages = (0..COLUMNS_SHOWN).map(|column| ages[column * last / (COLUMNS_SHOWN - 1)]).collect();
    }
    let (unit, size, decimals) = if highest >= 1.5 * GIB { ("GiB", GIB, 2) } else { ("MiB", MIB, 0) };
    let (levels, show) = (&levels, &show);
    let columns = Columns::of("Arm", |arm: &usize| report.arms[*arm].name.clone());
    let columns = ages.into_iter().fold(columns, |columns, age| {
        columns.figure(&format!("{title} {age}"), move |arm| {
            let most = levels[*arm].iter().map(|cell| cell.services).max().unwrap_or(0);
            let cell = levels[*arm].iter().find(|cell| cell.at == age)?;
            Some(show(cell, in_unit(cell.median_bytes / size, decimals), most))
        })
    });
    let rows = report.ranking().into_iter().filter(|arm| !levels[*arm].is_empty());
    Some((unit, columns.table_of_arms(rows, |arm| emphasis(report, *arm))?))
}

/// A figure in the unit of its table, of which the largest has so many digits behind the point; small ones keep two digits.
fn in_unit(value: f64, decimals: usize) -> String {
    let further = if value > 0.0 { (1.0 - value.log10().floor()).max(0.0) as usize } else { 0 };
    let decimals = decimals.max(further.min(9));
    format!("{value:.decimals$}")
}

/// Sudden changes of level, where there are any.
pub(crate) fn level_changes(report: &Report) -> Option<Table> {
    let changes = |arm: usize| report.arms[arm].result.level_changes.iter().map(move |change| (arm, change));
    Columns::of("Arm", |(arm, _): &(usize, &ArmLevelChange)| report.arms[*arm].name.clone())
        .text("When", |(_, change)| Some(stamp(change.at, "%Y-%m-%d %H:%M UTC")))
        .figure("Age", |(_, change)| Some(format!("{:.1} d", change.age_days)))
        .figure("Level after over before", |(_, change)| Some(units::ratio(change.factor)))
        .figure("Services that agree", |(_, change)| {
            Some(format!("{} of {}", change.services_agreeing, change.services))
        })
        .figure("Adjusted p", |(_, change)| Some(units::p_value(change.p_value)))
        .table_of_arms(report.ranking().into_iter().flat_map(changes), |(arm, _)| {
            (Some(*arm), Emphasis::None)
        })
}

/// Arms that are restarted at intervals, where there are any.
pub(crate) fn sawtooth(report: &Report) -> Option<Table> {
    let arms = report.ranking().into_iter();
    let restarted = arms.filter_map(|arm| Some((arm, report.arms[arm].result.sawtooth?)));
    Columns::of("Arm", |(arm, _): &(usize, Sawtooth)| report.arms[*arm].name.clone())
        .figure("Average over time", |(_, sawtooth)| Some(units::memory(sawtooth.time_average_bytes)))
        .figure("Mean at end", |(arm, _)| report.arms[*arm].final_bytes().map(units::memory))
        .figure("Restarts", |(_, sawtooth)| Some(units::count(u64::from(sawtooth.restarts))))
        .figure("Restarts a service and day", |(_, sawtooth)| {
            Some(format!("{:.2}", sawtooth.restarts_per_service_day))
        })
        .table_of_arms(restarted, |(arm, _)| (Some(*arm), Emphasis::None))
}

/// Sums of last readings by server and arm, where there are several servers or readings of before.
pub(crate) fn sums_by_server(report: &Report) -> Option<Table> {
    let name = |sum: &&ServerSum| sum.server.clone().unwrap_or_else(|| super::NOTHING.to_owned());
    // The column of arms is not the first one, which would have the marks.
    Columns::of("Server", name)
        .text("Arm", |sum| Some(report.arms[sum.arm].name.clone()))
        .figure("Services", |sum| Some(sum.services.to_string()))
        .figure("Read no more", |sum| (sum.gone > 0).then(|| sum.gone.to_string()))
        .figure("Sum of last readings", |sum| Some(units::memory(sum.last_bytes)))
        .figure("Read before too", |sum| Some(sum.compared?.services.to_string()))
        .figure("Dated by an event", |sum| Some(sum.compared?.dated.to_string()))
        .figure("Before", |sum| Some(units::memory(sum.compared?.before_bytes)))
        .figure("After", |sum| Some(units::memory(sum.compared?.after_bytes)))
        .figure("After over before", |sum| {
            let both = sum.compared.filter(|both| both.before_bytes > 0.0)?;
            Some(units::ratio(both.after_bytes / both.before_bytes))
        })
        .table(&report.server_sums)
}
