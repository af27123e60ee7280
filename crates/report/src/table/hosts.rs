//! The tables of a trial over several hosts.

use super::{Columns, Table, emphasis, ratio_or_control, whole};
use crate::document::{OnHost, Report, TrialHost};
use crate::units;

/// The hosts that are here.
pub(crate) fn hosts(report: &Report) -> Option<Table> {
    Columns::of("Host", |host: &&TrialHost| host.name.clone())
        .figure("Services", |host| Some(host.services.to_string()))
        .text("System", |host| host.facts.os.clone())
        .text("Kernel", |host| host.facts.kernel.clone())
        .text("Processor", |host| host.facts.cpu_model.clone())
        .figure("CPUs", |host| Some(host.facts.cpu_count?.to_string()))
        .figure("Memory", |host| whole(host.facts.ram_bytes))
        .text("Started", |host| Some(host.started_at.clone()))
        .text("Last reading", |host| host.last_at.clone())
        .text("Ended", |host| host.ended_at.clone())
        .table(&report.hosts)
}

pub(crate) fn by_host(report: &Report) -> Option<Table> {
    let rows = report.by_host.iter().flat_map(|arm| {
        let tested = |place: usize| arm.p_value_adjusted.filter(|_| place == 0);
        arm.hosts.iter().enumerate().map(move |(place, on)| (arm.arm, on, tested(place)))
    });
    Columns::of("Arm", |(arm, ..): &(usize, &OnHost, Option<f64>)| report.arms[*arm].name.clone())
        .text("Host", |(_, on, _)| Some(on.host.clone()))
        .figure("Services", |(_, on, _)| Some(on.services.to_string()))
        .figure("Memory", |(_, on, _)| on.level_bytes.map(units::memory))
        .figure("Ratio to control", |(arm, on, _)| {
            ratio_or_control(report.arms[*arm].control, on.ratio.as_ref())
        })
        .figure("p of one ratio", |(.., p)| p.map(units::p_value))
        .table_of_arms(rows, |(arm, ..)| emphasis(report, *arm))
}
