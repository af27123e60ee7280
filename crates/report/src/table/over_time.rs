//! Tables of memory over time.

use super::{Emphasis, NOTHING, Row, Table, bytes, figure, optional, text};
use heaptrial_evaluate::analysis::{DayLevel, WeekLevel};

use crate::document::{Arm, Report};
use crate::text::stamp;
use crate::units::{self, GIB, MIB};

/// Columns of the growth tables, besides the arm.
const COLUMNS_SHOWN: usize = 12;

/// An arm's memory at one age.
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
        let day =
            |day: &DayLevel| Cell { at: day.day, services: day.services, median_bytes: day.median_bytes };
        arm.result.by_day.iter().map(day).collect()
    };
    by_age(
        report,
        "Day",
        of,
        |level, median, most| {
            if 2 * level.services < most { format!("({median})") } else { median }
        },
    )
}

/// Memory by week of age, with the number of services that lived through each.
pub(crate) fn by_week(report: &Report) -> Option<(&'static str, Table)> {
    let of = |arm: &Arm| {
        let week = |week: &WeekLevel| Cell {
            at: week.week,
            services: week.services,
            median_bytes: week.median_bytes,
        };
        arm.result.by_week.iter().map(week).collect()
    };
    by_age(report, "Week", of, |level, median, _| format!("{median} ({})", level.services))
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
    let columns =
        std::iter::once(text("Arm")).chain(ages.iter().map(|age| figure(&format!("{title} {age}"))));
    let rows = report.ranking().into_iter().filter(|arm| !levels[*arm].is_empty()).map(|arm| {
        let most = levels[arm].iter().map(|level| level.services).max().unwrap_or(0);
        let cell = |age: &u32| {
            optional(levels[arm].iter().find(|level| level.at == *age), |level| {
                show(level, in_unit(level.median_bytes / size, decimals), most)
            })
        };
        let name = std::iter::once(report.arms[arm].name.clone());
        Row::of_arm(report, arm, name.chain(ages.iter().map(cell)).collect())
    });
    Some((unit, Table::of(columns, rows)?))
}

/// A figure in the unit of its table, of which the largest has so many digits behind the point; small ones keep two digits.
fn in_unit(value: f64, decimals: usize) -> String {
    let further = if value > 0.0 { (1.0 - value.log10().floor()).max(0.0) as usize } else { 0 };
    let decimals = decimals.max(further.min(9));
    format!("{value:.decimals$}")
}

/// Sudden changes of level, where there are any.
pub(crate) fn level_changes(report: &Report) -> Option<Table> {
    let columns = [text("Arm"), text("When"), figure("Age"), figure("Level after over before")];
    let columns = columns.into_iter().chain([figure("Services that agree"), figure("Adjusted p")]);
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        rows.extend(arm.result.level_changes.iter().map(|change| Row {
            arm: Some(index),
            emphasis: Emphasis::None,
            cells: vec![
                arm.name.clone(),
                stamp(change.at, "%Y-%m-%d %H:%M UTC"),
                format!("{:.1} d", change.age_days),
                units::ratio(change.factor),
                format!("{} of {}", change.services_agreeing, change.services),
                units::p_value(change.p_value),
            ],
        }));
    }
    Table::of(columns, rows)
}

/// Arms that are restarted at intervals, where there are any.
pub(crate) fn sawtooth(report: &Report) -> Option<Table> {
    let columns = [text("Arm"), figure("Average over time"), figure("Mean at end"), figure("Restarts")];
    let columns = columns.into_iter().chain([figure("Restarts a service and day")]);
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        rows.extend(arm.result.sawtooth.map(|sawtooth| Row {
            arm: Some(index),
            emphasis: Emphasis::None,
            cells: vec![
                arm.name.clone(),
                units::memory(sawtooth.time_average_bytes),
                bytes(arm.final_bytes()),
                units::count(u64::from(sawtooth.restarts)),
                format!("{:.2}", sawtooth.restarts_per_service_day),
            ],
        }));
    }
    Table::of(columns, rows)
}

/// Sums of last readings by server and arm, where there are several servers or readings of before.
pub(crate) fn sums_by_server(report: &Report) -> Option<Table> {
    let compared = report.server_sums.iter().any(|sum| sum.compared.is_some());
    let gone = report.server_sums.iter().any(|sum| sum.gone > 0);
    let columns = [text("Server"), text("Arm"), figure("Services")].into_iter();
    let columns = columns.chain(gone.then(|| figure("Read no more"))).chain([figure("Sum of last readings")]);
    let before = ["Read before too", "Dated by an event", "Before", "After", "After over before"].map(figure);
    let columns = columns.chain(before.into_iter().filter(|_| compared));
    let rows = report.server_sums.iter().map(|sum| {
        let mut cells = vec![
            sum.server.clone().unwrap_or_else(|| NOTHING.to_owned()),
            report.arms[sum.arm].name.clone(),
            sum.services.to_string(),
        ];
        cells.extend(gone.then(|| sum.gone.to_string()));
        cells.push(units::memory(sum.last_bytes));
        if compared {
            cells.extend([
                optional(sum.compared, |both| both.services.to_string()),
                optional(sum.compared, |both| both.dated.to_string()),
                optional(sum.compared, |both| units::memory(both.before_bytes)),
                optional(sum.compared, |both| units::memory(both.after_bytes)),
                optional(sum.compared.filter(|both| both.before_bytes > 0.0), |both| {
                    units::ratio(both.after_bytes / both.before_bytes)
                }),
            ]);
        }
        // The column of arms is not the first one, which has the marks.
        Row { arm: None, emphasis: Emphasis::None, cells }
    });
    Table::of(columns, rows)
}
