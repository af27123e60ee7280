//! Tables with a row for each arm: what it needs, what it ran and what happened to it.

use heaptrial_model::Identity;

use super::{
    Detail, Emphasis, NOTHING, Row, Table, bytes, figure, level, of_other_reading, optional, other_reading,
    p_value, p_values, pace, percent_with_interval, ratio, ratio_with_interval, text, treatment,
};
use crate::document::{Arm, Report};
use crate::summary::words::words;
use crate::units;

/// Enough to tell builds apart where there is little room.
const BUILD_ID_DIGITS: usize = 12;

/// Whether the arms' figures have peaks.
pub(crate) fn has_peaks(report: &Report, detail: Detail) -> bool {
    detail == Detail::Full || report.arms.iter().all(|arm| arm.verdict.is_none())
}

/// The arms' figures, least memory first. Columns that no arm fills are left out.
pub(crate) fn results(report: &Report, detail: Detail) -> Table {
    let full = detail == Detail::Full;
    let title = |full_title: &'static str, brief| if full { full_title } else { brief };
    let any = |has: fn(&Arm) -> bool| report.arms.iter().any(has);
    let differ = any(|arm| arm.as_treated.is_some());
    let tested = full && p_values(report);
    let judged = any(|arm| arm.verdict.is_some());
    // The pace of a short run is in bytes; over days it is told by the verdict's own figure.
    let grows = any(|arm| arm.growth.is_some());
    let cpu = any(|arm| arm.cpu_seconds.is_some()) && (full || !judged);
    let other = full && any(|arm| arm.rss_bytes_final.is_some() && arm.anon_bytes_final.is_some());
    let peaks = has_peaks(report, detail);
    let intervals = any(|arm| arm.ratio_as_treated().is_some_and(|ratio| ratio.low.is_some()));

    let mut columns = vec![text("Arm"), figure("Level")];
    if differ {
        columns.push(figure(title("Mean at end as assigned", "Assigned")));
        columns.push(figure(title("Mean at end as treated", "Treated")));
    } else {
        columns.push(figure("Mean at end"));
    }
    columns.extend(peaks.then(|| figure("Peak")));
    columns.extend(other.then(|| figure(other_reading(report))));
    columns.push(figure(match intervals {
        true => title("Ratio to control (95% interval)", "Ratio (95%)"),
        false => title("Ratio to control", "Ratio"),
    }));
    columns.extend(tested.then(|| figure("Adjusted p")));
    columns.push(figure(if grows { title("Growth a day (95% interval)", "Growth/d") } else { "Growth" }));
    columns.extend(cpu.then(|| figure("CPU")));
    columns.extend(judged.then(|| text("Verdict")));
    columns.push(figure("Services"));
    let counted = any(|arm| arm.consensuses.is_some());
    columns.extend(counted.then(|| figure("Consensuses")));
    let rows = report.ranking().into_iter().map(|index| {
        let arm = &report.arms[index];
        let memory = arm.memory.as_ref();
        let mut cells = vec![
            match arm.control {
                true => format!("{} (control)", arm.name),
                false => arm.name.clone(),
            },
            bytes(level(arm)),
            bytes(arm.final_bytes()),
        ];
        let treated = arm.as_treated.as_ref();
        cells.extend(differ.then(|| bytes(treated.map_or(arm.final_bytes(), |treated| treated.final_bytes))));
        cells.extend(peaks.then(|| bytes(memory.map(|memory| memory.peak_bytes))));
        cells.extend(
            other.then(|| bytes(of_other_reading(report, arm.rss_bytes_final, arm.anon_bytes_final))),
        );
        cells.push(ratio(arm));
        cells.extend(tested.then(|| p_value(arm.ratio_as_treated())));
        cells.push(match grows {
            true => optional(arm.growth.as_ref().map(|growth| growth.share_per_day), |share| {
                if full { percent_with_interval(&share) } else { units::signed_percent(share.value) }
            }),
            false => optional(arm.slope_bytes_per_hour, |slope| units::growth(slope, pace(report))),
        });
        cells.extend(cpu.then(|| optional(arm.cpu_seconds, units::cpu)));
        cells.extend(judged.then(|| optional(arm.verdict.as_ref(), Clone::clone)));
        cells.push(services(arm));
        cells.extend(counted.then(|| optional(arm.consensuses, |taken| format!("{taken:.0}"))));
        let emphasis = match (memory.is_none(), arm.control) {
            (true, _) => Emphasis::Lost,
            (_, true) => Emphasis::Control,
            _ => Emphasis::None,
        };
        Row { arm: Some(index), emphasis, cells }
    });
    Table { rows: rows.collect(), columns }
}

/// `8`, or `7 of 8` where not all count.
fn services(arm: &Arm) -> String {
    let (counted, all) = match &arm.as_treated {
        Some(treated) => (treated.services as usize, arm.services as usize),
        None => (arm.services as usize, arm.services as usize + arm.services_excluded.len()),
    };
    if counted == all { all.to_string() } else { format!("{counted} of {all}") }
}

/// The arms whose figures differ with and without off-treatment services, or whose ratio does.
pub(crate) fn with_and_without(report: &Report) -> Option<Table> {
    let words = words(report.kind());
    let columns = [
        text("Arm"),
        text("Over"),
        figure("Services"),
        figure("Mean at end"),
        figure("Level"),
        figure("Ratio to control (95% interval)"),
    ];
    let mut rows = Vec::new();
    for index in report.ranking() {
        let arm = &report.arms[index];
        let Some(treated) = &arm.as_treated else { continue };
        let ratios = (arm.ratio_to_control.as_ref(), treated.ratio_to_control.as_ref());
        let same_ratio = ratios.0.map(|ratio| ratio.estimate) == ratios.1.map(|ratio| ratio.estimate);
        // Only the p-value may differ, which is adjusted for what other arms have.
        if arm.services == treated.services && same_ratio {
            continue;
        }
        let ratio = |ratio| if arm.control { "control".to_owned() } else { ratio_with_interval(ratio) };
        let listed = [
            arm.name.clone(),
            words.all_assigned.to_owned(),
            arm.services.to_string(),
            bytes(arm.final_bytes()),
            bytes(arm.memory.as_ref().and_then(|memory| memory.median_bytes)),
            ratio(arm.ratio_to_control.as_ref()),
        ];
        // An arm without off-treatment services of its own differs where the control has some.
        let over = if arm.services == treated.services { words.of_control } else { words.as_treated };
        let belonging = [
            arm.name.clone(),
            over.to_owned(),
            treated.services.to_string(),
            bytes(treated.final_bytes),
            bytes(treated.level_bytes),
            ratio(treated.ratio_to_control.as_ref()),
        ];
        let row =
            |cells: [String; 6]| Row { arm: Some(index), emphasis: Emphasis::None, cells: cells.into() };
        rows.extend([listed, belonging].map(row));
    }
    Table::of(columns, rows)
}

/// What ran, in the order given: as proved in the processes, or what lists claim.
pub(crate) fn identities(report: &Report, detail: Detail) -> Table {
    let full = detail == Detail::Full;
    let any = |has: fn(&Arm) -> bool| full && report.arms.iter().any(has);
    let renamed = any(|arm| treatment(arm) != arm.name);
    let proved = any(|arm| arm.identity.is_some());
    let lives = any(|arm| arm.events.is_some());
    let lists = any(|arm| arm.list.is_some());
    let mut columns = vec![text("Arm")];
    columns.extend(renamed.then(|| text(words(report.kind()).treatment)));
    columns.push(text("What ran, as proved"));
    if proved {
        columns.extend(["How", "File", "Build id", "Settings in force"].map(text));
    }
    columns.extend(lists.then(|| text("List")));
    columns.extend(full.then(|| figure("Services")));
    if lives {
        columns.extend(["Lives", "Contaminated lives"].map(figure));
    }
    let rows = report.arms.iter().enumerate().map(|(index, arm)| {
        let identity = arm.identity.as_ref();
        let mut cells = vec![arm.name.clone()];
        cells.extend(renamed.then(|| match treatment(arm) {
            treatment if treatment.is_empty() => words(report.kind()).no_treatment.to_owned(),
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
            let events = arm.events.unwrap_or_default();
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
    let rows: Vec<Row> = report
        .arms
        .iter()
        .enumerate()
        .filter_map(|(index, arm)| {
            let events = arm.events?;
            let counts =
                [events.crashes, events.oom_kills, events.unplanned_restarts, events.planned_restarts];
            let counts = counts.into_iter().chain([events.identity_changes, events.gaps, events.reboots]);
            let failed =
                format!("{} of {}", events.services_failed, arm.services.max(events.services_failed));
            let cells = [arm.name.clone(), failed].into_iter();
            let cells = cells.chain(counts.map(|count| count.to_string()));
            Some(Row::of_arm(report, index, cells.collect()))
        })
        .collect();
    Table::of(columns, rows)
}
