//! The tables of a lab run.

use heaptrial_model::{Identity, Metric};

use super::{Detail, Emphasis, Row, Table, figure, optional, p_value, p_values, ratio, text, treatment};
use crate::document::{ConsensusAge, Report, Service};
use crate::units::{self, Pace};

/// The arms' figures, least memory first.
pub(crate) fn results(report: &Report, detail: Detail) -> Table {
    let metric = report.analysis.metric;
    let other = other_reading(metric);
    let with_consensus = report.arms.iter().any(|arm| arm.consensus_age.is_some());
    let full = detail == Detail::Full;
    let pace = Pace::for_length(report.planned_seconds);
    let mut columns = vec![text("Arm"), figure("Median"), figure("At end"), figure("Peak")];
    if full {
        columns.push(figure(other));
    }
    let with_interval =
        report.arms.iter().filter_map(|arm| arm.ratio_to_control.as_ref()).any(|ratio| ratio.low.is_some());
    columns.push(figure(match (full, with_interval) {
        (true, true) => "Ratio to control (95% interval)",
        (true, false) => "Ratio to control",
        (false, true) => "Ratio (95%)",
        (false, false) => "Ratio",
    }));
    let with_test = full && p_values(report);
    columns.extend(with_test.then(|| figure("Adjusted p")));
    columns.extend([figure("Growth"), figure("CPU"), figure("Services")]);
    if with_consensus {
        columns.push(figure(if full { "Consensus age (median, highest)" } else { "Consensus age" }));
    }
    let rows = report.ranking().into_iter().map(|index| {
        let arm = &report.arms[index];
        let bytes = |bytes: Option<u64>| optional(bytes, |bytes| units::memory(bytes as f64));
        let memory = arm.memory.as_ref();
        let mut cells = vec![
            if arm.control { format!("{} (control)", arm.name) } else { arm.name.clone() },
            bytes(memory.and_then(|memory| memory.median_bytes)),
            bytes(memory.map(|memory| memory.final_bytes)),
            bytes(memory.map(|memory| memory.peak_bytes)),
        ];
        if full {
            cells.push(bytes(if metric == Metric::Rss { arm.anon_bytes_final } else { arm.rss_bytes_final }));
        }
        cells.push(ratio(arm));
        cells.extend(with_test.then(|| p_value(arm.ratio_to_control.as_ref())));
        cells.push(optional(arm.slope_bytes_per_hour, |slope| units::growth(slope, pace)));
        cells.push(optional(arm.cpu_seconds, units::cpu));
        let all = arm.services as usize + arm.services_excluded.len();
        cells.push(match arm.services_excluded.len() {
            0 => arm.services.to_string(),
            _ => format!("{} of {all}", arm.services),
        });
        if with_consensus {
            cells.push(optional(arm.consensus_age, |age| consensus_age(&age)));
        }
        let emphasis = match (memory, arm.control) {
            (None, _) => Emphasis::Lost,
            (_, true) => Emphasis::Control,
            _ => Emphasis::None,
        };
        Row { arm: Some(index), emphasis, cells }
    });
    Table { rows: rows.collect(), columns }
}

/// The reading that stands beside the one that is compared.
fn other_reading(metric: Metric) -> &'static str {
    if metric == Metric::Rss { "RssAnon at end" } else { "RSS at end" }
}

fn consensus_age(age: &ConsensusAge) -> String {
    let (median, highest) = (units::duration(age.median_seconds), units::duration(age.max_seconds));
    match age.lag_events {
        0 => format!("{median}, {highest}"),
        1 => format!("{median}, {highest}, 1 lag"),
        times => format!("{median}, {highest}, {times} lags"),
    }
}

/// What really ran in each arm, in the order given.
pub(crate) fn identities(report: &Report) -> Table {
    let renamed = report.arms.iter().any(|arm| treatment(arm) != arm.name);
    let asked_for = renamed.then_some("Treatment");
    let columns = ["Arm"].into_iter().chain(asked_for).chain([
        "Really ran",
        "How",
        "File",
        "Build id",
        "Settings in force",
    ]);
    let rows = report.arms.iter().enumerate().map(|(index, arm)| {
        let identity = arm.identity.as_ref();
        let settings = identity.map(settings).filter(|text| !text.is_empty());
        let mut cells = vec![arm.name.clone()];
        cells.extend(renamed.then(|| treatment(arm)));
        cells.extend([
            identity.map_or_else(|| "not proved".to_owned(), Identity::label),
            optional(identity, |identity| identity.linkage.as_str().to_owned()),
            optional(identity.and_then(|identity| identity.path.as_ref()), |path| path.display().to_string()),
            optional(identity.and_then(|identity| identity.build_id.clone()), |id| id),
            settings.unwrap_or_else(|| "defaults".to_owned()),
        ]);
        let emphasis = if identity.is_none() { Emphasis::Lost } else { Emphasis::None };
        Row { arm: Some(index), emphasis, cells }
    });
    Table { rows: rows.collect(), columns: columns.map(text).collect() }
}

fn settings(identity: &Identity) -> String {
    let settings = identity.settings.iter().map(|(name, value)| format!("{name}={value}"));
    settings.collect::<Vec<_>>().join(" ")
}

/// Every service, in the order of starting.
pub(crate) fn services(report: &Report) -> Table {
    let smaps = report.services.iter().any(|service| service.smaps.is_some());
    let mut columns = vec![text("Service"), text("Arm"), figure("Repeat"), text("End")];
    let other = other_reading(report.analysis.metric);
    columns.extend(["Age", "Median", "At end", "Peak", other, "Growth", "CPU"].map(figure));
    if smaps {
        columns.extend(["PSS", "Private dirty", "Lazily freed", "Huge pages"].map(figure));
    }
    let rows = report.services.iter().map(|service| {
        let arm = report.arms.iter().position(|arm| arm.name == service.arm).unwrap_or(0);
        let emphasis = if service.counts { Emphasis::None } else { Emphasis::Lost };
        Row { arm: Some(arm), emphasis, cells: service_cells(report, service, smaps) }
    });
    Table { rows: rows.collect(), columns }
}

fn service_cells(report: &Report, service: &Service, smaps: bool) -> Vec<String> {
    let pace = Pace::for_length(report.planned_seconds);
    let rss_compared = report.analysis.metric == Metric::Rss;
    let bytes = |bytes: Option<u64>| optional(bytes, |bytes| units::memory(bytes as f64));
    let memory = service.memory.as_ref();
    let ending = match (&service.excluded, &service.ending) {
        (Some(reason), _) => format!("not counted: {reason}"),
        (None, Some(ending)) => ending.to_string(),
        (None, None) => "no end recorded".to_owned(),
    };
    let mut cells = vec![
        service.name.clone(),
        service.arm.clone(),
        (service.block + 1).to_string(),
        ending,
        optional(service.age_seconds, units::duration),
        bytes(memory.and_then(|memory| memory.median_bytes)),
        bytes(memory.map(|memory| memory.final_bytes)),
        bytes(memory.map(|memory| memory.peak_bytes)),
        bytes(if rss_compared { service.anon_bytes_final } else { service.rss_bytes_final }),
        optional(service.slope_bytes_per_hour, |slope| units::growth(slope, pace)),
        optional(service.cpu_seconds, units::cpu),
    ];
    if smaps {
        let reading =
            |value: fn(&heaptrial_model::SlowSample) -> u64| bytes(service.smaps.as_ref().map(value));
        cells.extend([
            reading(|smaps| smaps.pss_bytes),
            reading(|smaps| smaps.private_dirty_bytes),
            reading(|smaps| smaps.lazyfree_bytes),
            reading(|smaps| smaps.anon_huge_bytes),
        ]);
    }
    cells
}
