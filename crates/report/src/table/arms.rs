//! Tables with a row for each arm: what it needs, what it ran and what happened to it.

use heaptrial_model::Identity;

use super::{
    Detail, Emphasis, NOTHING, Row, Table, bytes, figure, of_other_reading, optional, other_reading, p_value,
    p_values, pace, ratio, ratio_with_interval, text, treatment, whole,
};
use crate::document::{Arm, Report};
use crate::text::estimate;
use crate::{units, verdict};

/// Enough to distinguish builds where there is little room.
const BUILD_ID_DIGITS: usize = 12;

/// A column of the arms' figures.
struct Column<'r> {
    column: super::Column,
    cell: Box<dyn Fn(&Arm) -> String + 'r>,
}

/// Whether the arms' figures have peaks.
pub(crate) fn has_peaks(report: &Report, detail: Detail) -> bool {
    detail == Detail::Full || report.arms.iter().all(|arm| arm.verdict.is_none())
}

/// The arms' figures, least memory first. Columns that no arm fills are left out.
pub(crate) fn results(report: &Report, detail: Detail) -> Table {
    let columns = columns(report, detail);
    let rows = report.ranking().into_iter().map(|index| {
        let arm = &report.arms[index];
        let emphasis = match (arm.memory.is_none(), arm.control) {
            (true, _) => Emphasis::Lost,
            (_, true) => Emphasis::Control,
            _ => Emphasis::None,
        };
        Row { arm: Some(index), emphasis, cells: columns.iter().map(|column| (column.cell)(arm)).collect() }
    });
    let rows = rows.collect();
    Table { rows, columns: columns.into_iter().map(|column| column.column).collect() }
}

fn columns(report: &Report, detail: Detail) -> Vec<Column<'_>> {
    fn named<'r>(title: &str, cell: impl Fn(&Arm) -> String + 'r) -> Column<'r> {
        Column { column: text(title), cell: Box::new(cell) }
    }
    fn number<'r>(title: &str, cell: impl Fn(&Arm) -> String + 'r) -> Column<'r> {
        Column { column: figure(title), cell: Box::new(cell) }
    }
    let full = detail == Detail::Full;
    let title = |full_title: &'static str, brief| if full { full_title } else { brief };
    let any = |has: fn(&Arm) -> bool| report.arms.iter().any(has);
    let differ = any(|arm| arm.result.as_treated.is_some());
    let judged = any(|arm| arm.verdict.is_some());
    // Growth of a short run is in bytes.
    let over_days = any(|arm| arm.result.growth.is_some());
    let growth = move |arm: &Arm| match over_days {
        true => optional(arm.result.growth.as_ref(), |growth| match full {
            true => estimate(&growth.share_per_day, units::signed_percent),
            false => units::signed_percent(growth.share_per_day.value),
        }),
        false => optional(arm.slope_bytes_per_hour, |slope| units::growth(slope, pace(report))),
    };
    let other = |arm: &Arm| of_other_reading(report, arm.rss_bytes_final, arm.anon_bytes_final);
    let has_other = full && any(|arm| arm.rss_bytes_final.is_some() && arm.anon_bytes_final.is_some());
    let has_cpu = any(|arm| arm.cpu_seconds.is_some()) && (full || !judged);
    let end = if differ { title("Mean at end, all", "End, all") } else { "Mean at end" };
    let columns = [
        Some(named("Arm", |arm| match arm.control {
            true => format!("{} (control)", arm.name),
            false => arm.name.clone(),
        })),
        Some(number("Level", |arm| bytes(arm.level()))),
        Some(number(end, |arm| bytes(arm.final_bytes()))),
        differ.then(|| number("Mean at end", |arm| bytes(arm.result.treated().final_mean_bytes))),
        has_peaks(report, detail)
            .then(|| number("Peak", |arm| whole(arm.memory.as_ref().map(|memory| memory.peak_bytes)))),
        has_other.then(|| number(other_reading(report), move |arm| whole(other(arm)))),
        Some(number(title("Ratio to control (95% CI)", "Ratio (95% CI)"), ratio)),
        (full && p_values(report)).then(|| number("Adjusted p", |arm| p_value(arm.ratio()))),
        Some(number(if over_days { title("Growth a day (95% CI)", "Growth/d") } else { "Growth" }, growth)),
        has_cpu.then(|| number("CPU", |arm| optional(arm.cpu_seconds, units::cpu))),
        judged.then(|| {
            named("Verdict", |arm| {
                optional(arm.result.verdict.as_ref(), |verdict| verdict::word(verdict).to_owned())
            })
        }),
        Some(number("Services", services)),
        any(|arm| arm.consensuses.is_some())
            .then(|| number("Consensuses", |arm| optional(arm.consensuses, |taken| format!("{taken:.0}")))),
    ];
    columns.into_iter().flatten().collect()
}

/// `8`, or `7 of 8` where not all count.
fn services(arm: &Arm) -> String {
    let counted = arm.services_belonging() as usize;
    let all = match arm.result.as_treated {
        Some(_) => arm.services as usize,
        None => arm.services as usize + arm.services_excluded.len(),
    };
    if counted == all { all.to_string() } else { format!("{counted} of {all}") }
}

/// The arms whose figures differ with and without excluded services, or whose ratio does.
pub(crate) fn with_and_without(report: &Report) -> Option<Table> {
    let columns = [text("Arm"), text("Over")].into_iter();
    let columns =
        columns.chain(["Services", "Mean at end", "Level", "Ratio to control (95% CI)"].map(figure));
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        let Some(treated) = &arm.result.as_treated else { continue };
        let all = &arm.result.as_assigned;
        let value =
            |ratio: &Option<crate::document::RatioToControl>| ratio.as_ref().map(|ratio| ratio.estimate);
        // Only the p-value may differ, which is adjusted for what other arms have.
        if all.services == treated.services && value(&all.ratio) == value(&treated.ratio) {
            continue;
        }
        for (over, figures) in [("all services", all), ("without excluded services", treated)] {
            let ratio = match arm.control {
                true => "control".to_owned(),
                false => ratio_with_interval(figures.ratio.as_ref()),
            };
            let cells = vec![
                arm.name.clone(),
                over.to_owned(),
                figures.services.to_string(),
                bytes(figures.final_mean_bytes),
                bytes(figures.level_bytes),
                ratio,
            ];
            rows.push(Row { arm: Some(index), emphasis: Emphasis::None, cells });
        }
    }
    Table::of(columns, rows)
}

/// What ran, in the order given: as proved in the processes, or what lists claim.
pub(crate) fn identities(report: &Report, detail: Detail) -> Table {
    let full = detail == Detail::Full;
    let any = |has: fn(&Arm) -> bool| full && report.arms.iter().any(has);
    let renamed = any(|arm| treatment(arm) != arm.name);
    let proved = any(|arm| arm.identity.is_some());
    let lives = full && report.counts_events();
    let lists = any(|arm| arm.list.is_some());
    let mut columns = vec![text("Arm")];
    columns.extend(
        renamed.then(|| text(if report.kind.is_import() { "Treatment claimed" } else { "Treatment" })),
    );
    columns.push(text("What ran, as proved"));
    if proved {
        columns.extend(["How", "File", "Build id", "Settings in force"].map(text));
    }
    columns.extend(lists.then(|| text("List")));
    columns.extend(full.then(|| figure("Services")));
    if lives {
        columns.extend(["Processes", "Non-compliant"].map(figure));
    }
    let rows = report.arms.iter().enumerate().map(|(index, arm)| {
        let identity = arm.identity.as_ref();
        let mut cells = vec![arm.name.clone()];
        cells.extend(renamed.then(|| match treatment(arm) {
            treatment if treatment.is_empty() => "none".to_owned(),
            treatment => treatment,
        }));
        cells.push(ran(report, arm, full));
        if proved {
            let path = identity.and_then(|identity| identity.path.as_ref());
            let settings = identity.map(settings).filter(|settings| !settings.is_empty());
            cells.extend([
                optional(identity, |identity| identity.linkage.as_str().to_owned()),
                optional(path, |path| path.display().to_string()),
                optional(identity.and_then(|identity| identity.build_id.clone()), |id| id),
                match identity {
                    None => NOTHING.to_owned(),
                    Some(_) => settings.unwrap_or_else(|| "defaults".to_owned()),
                },
            ]);
        }
        cells.extend(lists.then(|| optional(arm.list.as_ref(), Clone::clone)));
        cells.extend(full.then(|| services(arm)));
        if lives {
            let events = arm.result.events;
            cells.extend([events.lives, events.contaminated_lives].map(|count| count.to_string()));
        }
        Row { arm: Some(index), emphasis: Emphasis::None, cells }
    });
    Table { rows: rows.collect(), columns }
}

/// What was proved in an arm's services; where it has no columns of their own, with how, the build and the settings.
fn ran(report: &Report, arm: &Arm, full: bool) -> String {
    let own = report.services.iter().filter(|service| service.arm == arm.name);
    let mut ran: Vec<&str> = own.filter_map(|service| service.ran.as_deref()).collect();
    ran.sort_unstable();
    let kinds: Vec<(usize, &str)> = ran.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    let unproved = (arm.services as usize).saturating_sub(ran.len());
    if kinds.len() > 1 || !kinds.is_empty() && unproved > 0 {
        let unproved = (unproved > 0).then(|| format!("{unproved} not proved"));
        let kinds = kinds.iter().map(|(number, name)| format!("{number} {name}"));
        return kinds.chain(unproved).collect::<Vec<_>>().join(", ");
    }
    let Some(identity) = &arm.identity else {
        return kinds.first().map_or("not proved", |kind| kind.1).to_owned();
    };
    if full {
        return identity.label();
    }
    let build_id =
        identity.build_id.as_ref().map(|id| format!("build id {}", id.get(..BUILD_ID_DIGITS).unwrap_or(id)));
    let settings = Some(settings(identity)).filter(|settings| !settings.is_empty());
    let parts = [Some(identity.label()), Some(identity.linkage.as_str().to_owned()), build_id, settings];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn settings(identity: &Identity) -> String {
    let settings = identity.settings.iter().map(|(name, value)| format!("{name}={value}"));
    settings.collect::<Vec<_>>().join(" ")
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
    if !report.counts_events() {
        return None;
    }
    let rows: Vec<Row> = report
        .arms
        .iter()
        .enumerate()
        .map(|(index, arm)| {
            let events = arm.result.events;
            let counts =
                [events.crashes, events.oom_kills, events.unplanned_restarts, events.planned_restarts];
            let counts = counts.into_iter().chain([events.identity_changes, events.gaps, events.reboots]);
            let failed =
                format!("{} of {}", events.services_failed, arm.services.max(events.services_failed));
            let cells = [arm.name.clone(), failed].into_iter();
            let cells = cells.chain(counts.map(|count| count.to_string()));
            Row::of_arm(report, index, cells.collect())
        })
        .collect();
    Table::of(columns, rows)
}
