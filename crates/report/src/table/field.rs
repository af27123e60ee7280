//! The tables of a field trial.

use super::{
    Detail, Emphasis, NOTHING, Row, Table, figure, optional, p_value, p_values, ratio, ratio_with_interval,
    text, treatment,
};
use crate::document::{Arm, Estimate, Report, Service};
use crate::summary::words::words;
use crate::units::{self, GIB, MIB, Pace};

/// Columns of the growth table, beside the arm.
const DAYS_SHOWN: usize = 12;
/// Services beyond these are only in `report.json`.
const SERVICES_SHOWN: usize = 300;

/// The arms' figures, least memory first.
pub(crate) fn results(report: &Report, detail: Detail) -> Table {
    let full = detail == Detail::Full;
    let differ = report.arms.iter().any(|arm| arm.as_treated.is_some());
    let tested = full && p_values(report);
    let mut columns = vec![text("Arm")];
    match (differ, full) {
        (true, true) => columns.extend(["Mean at end as assigned", "Mean at end as treated"].map(figure)),
        (true, false) => columns.extend(["Assigned", "Treated"].map(figure)),
        (false, _) => columns.push(figure("Mean at end")),
    }
    columns.push(figure(if full { "Level at matched age" } else { "Level" }));
    columns.push(figure(if full { "Ratio to control (95% interval)" } else { "Ratio (95%)" }));
    columns.extend(tested.then(|| figure("Adjusted p")));
    columns.push(figure(if full { "Growth a day (95% interval)" } else { "Growth/d" }));
    columns.extend([text("Verdict"), figure("Services")]);
    let rows = report.ranking().into_iter().map(|index| {
        let arm = &report.arms[index];
        let earlier = arm.earlier_list_of.is_some();
        let mut cells = vec![match (arm.control, earlier, full) {
            (true, _, true) => format!("{} (control)", arm.name),
            (_, true, true) => format!("{} (earlier list)", arm.name),
            _ => arm.name.clone(),
        }];
        cells.push(bytes(arm.final_bytes()));
        if differ {
            cells.push(bytes(
                arm.as_treated.as_ref().map_or(arm.final_bytes(), |treated| treated.final_bytes),
            ));
        }
        cells.push(bytes(level(arm)));
        cells.push(ratio(arm));
        cells.extend(tested.then(|| p_value(arm.ratio_as_treated())));
        let growth = arm.growth.as_ref().map(|growth| growth.share_per_day);
        cells.push(optional(growth, |share| {
            if full { percent_with_interval(&share) } else { units::signed_percent(share.value) }
        }));
        cells.push(match (&arm.verdict, earlier) {
            (_, true) => "earlier list".to_owned(),
            (verdict, _) => optional(verdict.as_ref(), Clone::clone),
        });
        let belonging = arm.services_belonging();
        cells.push(match arm.services == belonging {
            true => arm.services.to_string(),
            false => format!("{belonging} of {}", arm.services),
        });
        let emphasis = match (arm.memory.is_none() || earlier, arm.control) {
            (true, _) => Emphasis::Lost,
            (_, true) => Emphasis::Control,
            _ => Emphasis::None,
        };
        Row { arm: Some(index), emphasis, cells }
    });
    Table { rows: rows.collect(), columns }
}

/// The arms whose figures differ with and without strangers, or whose ratio does.
pub(crate) fn with_and_without(report: &Report) -> Option<Table> {
    let words = words(report.kind());
    // Earlier lists are compared to nothing.
    let mut differ = report.arms.iter().filter(|arm| arm.as_treated.is_some());
    let compared = differ.any(|arm| arm.earlier_list_of.is_none());
    let columns = [text("Arm"), text("Over"), figure("Services"), figure("Mean at end"), figure("Level")];
    let columns = columns.into_iter().chain(compared.then(|| figure("Ratio to control (95% interval)")));
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        let Some(treated) = &arm.as_treated else { continue };
        let ratio = |ratio| {
            compared.then(|| if arm.control { "control".to_owned() } else { ratio_with_interval(ratio) })
        };
        let listed = [
            arm.name.clone(),
            words.as_assigned.to_owned(),
            arm.services.to_string(),
            bytes(arm.final_bytes()),
            bytes(arm.memory.as_ref().and_then(|memory| memory.median_bytes)),
        ];
        // An arm without strangers of its own differs where the control has some.
        let over = if arm.services == treated.services { words.of_control } else { words.as_treated };
        let belonging = [
            arm.name.clone(),
            over.to_owned(),
            treated.services.to_string(),
            bytes(treated.final_bytes),
            bytes(treated.level_bytes),
        ];
        let cells = [
            listed.into_iter().chain(ratio(arm.ratio_to_control.as_ref())).collect(),
            belonging.into_iter().chain(ratio(treated.ratio_to_control.as_ref())).collect(),
        ];
        let row = |cells| Row { arm: Some(index), emphasis: Emphasis::None, cells };
        rows.extend(cells.map(row));
    }
    (!rows.is_empty()).then(|| Table { columns: columns.collect(), rows })
}

/// Memory by day of age: the unit of its cells, and the table. In brackets where fewer than half of the services that
/// an arm had on its best day have readings.
pub(crate) fn by_day(report: &Report) -> Option<(&'static str, Table)> {
    let levels = || report.arms.iter().flat_map(|arm| &arm.by_day);
    let highest = levels().map(|day| day.median_bytes).fold(0.0, f64::max);
    let mut days: Vec<u32> = levels().map(|day| day.day).collect();
    days.sort_unstable();
    days.dedup();
    if days.is_empty() {
        return None;
    }
    if days.len() > DAYS_SHOWN {
        let last = days.len() - 1;
        days = (0..DAYS_SHOWN).map(|column| days[column * last / (DAYS_SHOWN - 1)]).collect();
    }
    let (unit, size, decimals) = if highest >= 1.5 * GIB { ("GiB", GIB, 2) } else { ("MiB", MIB, 0) };
    let columns = std::iter::once(text("Arm")).chain(days.iter().map(|day| figure(&format!("Day {day}"))));
    let with_days = report.ranking().into_iter().filter(|index| !report.arms[*index].by_day.is_empty());
    let rows = with_days.map(|index| {
        let arm = &report.arms[index];
        let on = |day: &u32| arm.by_day.iter().find(|level| level.day == *day);
        let most = arm.by_day.iter().map(|level| level.services).max().unwrap_or(0);
        let cell = |day| {
            optional(on(day), |level| {
                let median = format!("{:.decimals$}", level.median_bytes / size);
                if 2 * level.services < most { format!("({median})") } else { median }
            })
        };
        Row {
            arm: Some(index),
            emphasis: if arm.control { Emphasis::Control } else { Emphasis::None },
            cells: std::iter::once(arm.name.clone()).chain(days.iter().map(cell)).collect(),
        }
    });
    Some((unit, Table { rows: rows.collect(), columns: columns.collect() }))
}

/// Sudden changes of level, where there are any.
pub(crate) fn level_changes(report: &Report) -> Option<Table> {
    let columns = [text("Arm"), text("When"), figure("Age"), figure("Level after over before")];
    let columns = columns.into_iter().chain([figure("Services that agree"), figure("Adjusted p")]);
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        rows.extend(arm.level_changes.iter().map(|change| Row {
            arm: Some(index),
            emphasis: Emphasis::None,
            cells: vec![
                arm.name.clone(),
                crate::summary::date_and_time(&change.at),
                format!("{:.1} d", change.age_days),
                units::ratio(change.factor),
                format!("{} of {}", change.services_agreeing, change.services),
                units::p_value(change.p_value),
            ],
        }));
    }
    (!rows.is_empty()).then(|| Table { columns: columns.collect(), rows })
}

/// Arms that are restarted at intervals, where there are any.
pub(crate) fn sawtooth(report: &Report) -> Option<Table> {
    let columns = [text("Arm"), figure("Average over time"), figure("Mean at end"), figure("Restarts")];
    let columns = columns.into_iter().chain([figure("Restarts a service and day")]);
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        rows.extend(arm.sawtooth.map(|sawtooth| Row {
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
    (!rows.is_empty()).then(|| Table { columns: columns.collect(), rows })
}

/// What ran: in an import what its lists claim, else what was proved; in the order given.
pub(crate) fn lists(report: &Report) -> Table {
    if !report.kind().is_import() {
        return identities(report);
    }
    let with_lists = report.arms.iter().any(|arm| arm.list.is_some());
    let list_column = with_lists.then(|| text("List"));
    let columns = [text("Arm"), text("Treatment claimed")].into_iter().chain(list_column);
    let rows = report.arms.iter().enumerate().map(|(index, arm)| {
        let claimed = treatment(arm);
        let mut cells =
            vec![arm.name.clone(), if claimed.is_empty() { "not told".to_owned() } else { claimed }];
        cells.extend(with_lists.then(|| optional(arm.list.as_ref(), Clone::clone)));
        cells.push(arm.services.to_string());
        cells.push("not proved".to_owned());
        Row { arm: Some(index), emphasis: Emphasis::None, cells }
    });
    let rows = rows.collect();
    Table { rows, columns: columns.chain([figure("Services"), text("What ran")]).collect() }
}

/// What was assigned and what was proved.
fn identities(report: &Report) -> Table {
    let columns = [text("Arm"), text("Treatment"), text("What ran, as proved"), figure("Services")];
    let columns = columns.into_iter().chain(["Lives", "Contaminated lives"].map(figure));
    let rows = report.arms.iter().enumerate().map(|(index, arm)| {
        let assigned = treatment(arm);
        let mut ran: Vec<&str> = report
            .services
            .iter()
            .filter(|service| service.arm == arm.name)
            .map(|service| service.ran.as_deref().unwrap_or("not proved"))
            .collect();
        ran.sort_unstable();
        let kinds: Vec<(usize, &str)> =
            ran.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
        let ran = match kinds[..] {
            [] => NOTHING.to_owned(),
            [(_, only)] => only.to_owned(),
            _ => kinds.iter().map(|(number, name)| format!("{number} {name}")).collect::<Vec<_>>().join(", "),
        };
        let events = arm.events.unwrap_or_default();
        let cells = vec![
            arm.name.clone(),
            if assigned.is_empty() { "as it was".to_owned() } else { assigned },
            ran,
            arm.services.to_string(),
            events.lives.to_string(),
            events.contaminated_lives.to_string(),
        ];
        Row { arm: Some(index), emphasis: Emphasis::None, cells }
    });
    Table { rows: rows.collect(), columns: columns.collect() }
}

/// What happened to the services of each arm; nothing of an import, whose events nobody counted.
pub(crate) fn happened(report: &Report, detail: Detail) -> Option<Table> {
    let titles = match detail {
        Detail::Full => [
            "Services that failed",
            "Crashes",
            "OOM kills",
            "Unplanned restarts",
            "Planned restarts",
            "Identity changes",
            "Gaps",
            "Reboots",
        ],
        Detail::Brief => {
            ["Failed", "Crashes", "OOM kills", "Unplanned", "Planned", "Identity changes", "Gaps", "Reboots"]
        }
    };
    let columns = std::iter::once(text("Arm")).chain(titles.map(figure));
    let rows: Vec<Row> = report
        .arms
        .iter()
        .enumerate()
        .filter_map(|(index, arm)| {
            let events = arm.events?;
            let counts =
                [events.crashes, events.oom_kills, events.unplanned_restarts, events.planned_restarts];
            let counts = counts.into_iter().chain([events.identity_changes, events.gaps, events.reboots]);
            let failed = format!("{} of {}", events.services_failed, arm.services);
            let cells = [arm.name.clone(), failed].into_iter();
            Some(Row {
                arm: Some(index),
                emphasis: if arm.control { Emphasis::Control } else { Emphasis::None },
                cells: cells.chain(counts.map(|count| count.to_string())).collect(),
            })
        })
        .collect();
    (!rows.is_empty()).then(|| Table { rows, columns: columns.collect() })
}

/// What services did, where it was read.
pub(crate) fn work(report: &Report, detail: Detail) -> Option<Table> {
    let full = detail == Detail::Full;
    let all = || report.arms.iter().filter_map(|arm| arm.work.as_ref());
    let mut flags: Vec<&str> = all().flat_map(|work| &work.flags).map(|flag| flag.name.as_str()).collect();
    let mut seen = std::collections::HashSet::new();
    flags.retain(|flag| seen.insert(*flag));
    let freed = all().any(|work| work.oom_services > 0);
    let titles = if full {
        ["Services", "Read and written", "Ratio to control", "Memory for 1 MB/s", "Connections"]
    } else {
        ["Services", "Rate", "Ratio", "For 1 MB/s", "Conns"]
    };
    let columns = std::iter::once(text("Arm")).chain(titles.map(figure));
    let columns = columns.chain(flags.iter().map(|flag| figure(flag)));
    let columns: Vec<_> = columns
        .chain(freed.then(|| figure(if full { "Freed by its OOM handler" } else { "OOM freed" })))
        .collect();
    let rows: Vec<Row> = report
        .ranking()
        .into_iter()
        .filter_map(|index| {
            let arm = &report.arms[index];
            let work = arm.work.as_ref()?;
            let mut cells = vec![
                arm.name.clone(),
                work.services.to_string(),
                optional(work.bytes_per_second, rate),
                if arm.control {
                    "control".to_owned()
                } else {
                    ratio_with_interval(work.ratio_to_control.as_ref())
                },
                optional(work.memory_bytes_per_mb_per_second, units::memory),
                optional(work.connections, |number| units::count(number.round() as u64)),
            ];
            cells.extend(flags.iter().map(|flag| {
                let count = work.flags.iter().find(|count| count.name.as_str() == *flag);
                optional(count, |count| format!("{} of {}", count.with, count.of))
            }));
            let own = Some(work.oom_bytes).filter(|bytes| *bytes > 0);
            cells.extend(freed.then(|| bytes(own)));
            Some(Row {
                arm: Some(index),
                emphasis: if arm.control { Emphasis::Control } else { Emphasis::None },
                cells,
            })
        })
        .collect();
    (!rows.is_empty()).then_some(Table { rows, columns })
}

/// `1.24 MB/s`: powers of 1000, as networks count.
fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e6 => format!("{:.2} MB/s", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} kB/s", rate / 1e3),
        rate => format!("{rate:.0} B/s"),
    }
}

/// The files that data came from.
pub(crate) fn sources(report: &Report) -> Option<Table> {
    let columns = [text("File"), text("Holds"), figure("Rows"), figure("Left out"), text("SHA-256")];
    let rows = report.sources().iter().map(|source| Row {
        arm: None,
        emphasis: Emphasis::None,
        cells: vec![
            source.file.clone(),
            source.role.clone(),
            units::count(source.rows),
            units::count(source.skipped),
            source.sha256.clone(),
        ],
    });
    (!report.sources().is_empty()).then(|| Table { rows: rows.collect(), columns: columns.into() })
}

/// The services, strangers first, and how many there is no room for.
pub(crate) fn services(report: &Report) -> (Table, usize) {
    let restarted = report.services.iter().any(|service| service.restarts.is_some_and(|number| number > 0));
    let strangers = report.services.iter().any(|service| !service.counts);
    let mut columns = vec![text("Service"), text("Arm")];
    columns.extend(strangers.then(|| text(words(report.kind()).belongs)));
    let proved = !report.kind().is_import();
    columns.extend(proved.then(|| text("Runs")));
    columns.extend(["Age", "Level at matched age", "At end", "Peak", "Growth"].map(figure));
    columns.extend(restarted.then(|| figure("Restarts")));
    let mut order: Vec<&Service> = report.services.iter().collect();
    order.sort_by_key(|service| service.counts);
    let arm = |name: &str| report.arms.iter().position(|arm| arm.name == name);
    let rows = order.iter().take(SERVICES_SHOWN).map(|service| {
        let memory = service.memory.as_ref();
        let mut cells = vec![service.name.clone(), service.arm.clone()];
        cells.extend(strangers.then(|| match (&service.excluded, &service.like) {
            (None, _) => "yes".to_owned(),
            (Some(_), Some(like)) => format!("no: like {like}"),
            (Some(why), None) => format!("no: {why}"),
        }));
        cells.extend(proved.then(|| service.ran.clone().unwrap_or_else(|| "not proved".to_owned())));
        cells.extend([
            optional(service.age_seconds, units::duration),
            match (memory.and_then(|memory| memory.median_bytes), &service.no_level) {
                (Some(level), _) => units::memory(level as f64),
                (None, Some(why)) => why.clone(),
                (None, None) => NOTHING.to_owned(),
            },
            bytes(memory.map(|memory| memory.final_bytes)),
            bytes(memory.map(|memory| memory.peak_bytes)),
            optional(service.slope_bytes_per_hour, |slope| units::growth(slope, Pace::Day)),
        ]);
        cells.extend(restarted.then(|| optional(service.restarts, |number| number.to_string())));
        let emphasis = if service.counts { Emphasis::None } else { Emphasis::Lost };
        Row { arm: arm(&service.arm), emphasis, cells }
    });
    let table = Table { rows: rows.collect(), columns };
    (table, report.services.len().saturating_sub(SERVICES_SHOWN))
}

/// The level of an arm at the matched age, without strangers.
pub(crate) fn level(arm: &Arm) -> Option<u64> {
    match &arm.as_treated {
        Some(treated) => treated.level_bytes,
        None => arm.memory.as_ref()?.median_bytes,
    }
}

/// `+2.1% (+1.9 to +2.4)`.
pub(crate) fn percent_with_interval(share: &Estimate) -> String {
    let value = units::signed_percent(share.value);
    match share.interval() {
        Some((low, high)) => {
            let end = |end: f64| units::signed_percent(end).trim_end_matches('%').to_owned();
            format!("{value} ({} to {})", end(low), end(high))
        }
        None => value,
    }
}

fn bytes(bytes: Option<u64>) -> String {
    optional(bytes, |bytes| units::memory(bytes as f64))
}
