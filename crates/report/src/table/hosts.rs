//! The tables of a trial over several hosts.

use super::{Emphasis, NOTHING, Row, Table, figure, optional, ratio_with_interval, text};
use crate::document::Report;
use heaptrial_model::units;

/// The hosts that are here.
pub(crate) fn hosts(report: &Report) -> Option<Table> {
    let columns =
        [text("Host"), figure("Services"), text("System"), text("Kernel"), text("Processor"), figure("CPUs")];
    let columns = columns.into_iter().chain([figure("Memory")]);
    let columns = columns.into_iter().chain([text("Started"), text("Last reading"), text("Ended")]);
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| NOTHING.to_owned());
    let rows = report.hosts.iter().map(|host| Row {
        arm: None,
        emphasis: Emphasis::None,
        cells: vec![
            host.name.clone(),
            host.services.to_string(),
            known(&host.os),
            known(&host.kernel),
            known(&host.cpu_model),
            optional(host.cpu_count, |count| count.to_string()),
            optional(host.ram_bytes, |bytes| units::memory(bytes as f64)),
            host.started_at.clone(),
            known(&host.last_at),
            known(&host.ended_at),
        ],
    });
    Table::of(columns, rows)
}

/// What arms do on each host.
pub(crate) fn by_host(report: &Report) -> Option<Table> {
    let columns =
        [text("Arm"), text("Host"), figure("Services"), figure("Memory"), figure("Ratio to control")];
    let columns = columns.into_iter().chain([figure("p of one ratio")]);
    let mut rows = Vec::new();
    for arm in &report.by_host {
        for (place, on) in arm.hosts.iter().enumerate() {
            let p_value = arm.p_value_adjusted.filter(|_| place == 0);
            let cells = vec![
                report.arms[arm.arm].name.clone(),
                on.host.clone(),
                on.services.to_string(),
                optional(on.level_bytes, units::memory),
                if report.arms[arm.arm].control {
                    "control".to_owned()
                } else {
                    ratio_with_interval(on.ratio.as_ref())
                },
                optional(p_value, units::p_value),
            ];
            rows.push(Row::of_arm(report, arm.arm, cells));
        }
    }
    Table::of(columns, rows)
}
