//! Tables with a row for each service.

use heaptrial_model::{Ending, SlowSample};

use super::{Columns, Emphasis, Table, of_other_reading, other_reading, pace, whole};
use crate::document::{Outlier, Report, Service};
use crate::units;

/// Services beyond these are only in `report.json`.
const SERVICES_SHOWN: usize = 300;

/// The services, those that do not count first, and how many there is no room for.
pub(crate) fn every(report: &Report) -> (Option<Table>, usize) {
    let mut order: Vec<&Service> = report.services.iter().collect();
    order.sort_by_key(|service| service.counts);
    order.truncate(SERVICES_SHOWN);
    let on_host = !report.kind.is_import() && !report.kind.is_lab();
    let restarted = order.iter().any(|service| service.result.restarts > 0);
    // A lab reads it of all at its end: on a host it may be days older than the rest of the row.
    let smaps = move |service: &&Service, bytes: fn(&SlowSample) -> u64| {
        service.smaps.filter(|_| report.kind.is_lab()).and_then(|smaps| whole(Some(bytes(&smaps))))
    };
    let columns = Columns::of("Service", |service: &&Service| service.result.name.clone())
        .text("Arm", |service| Some(service.arm.clone()))
        .text("Counts", |service| belongs(report, service))
        .figure("Repeat", |service| (report.repeats > 1).then(|| (service.block + 1).to_string()))
        .text("Runs", move |service| {
            service.ran.as_deref().or(on_host.then_some("not proved")).map(str::to_owned)
        })
        // Ends as planned need no column.
        .text("End", |service| {
            service.ending.as_ref().filter(|ending| **ending != Ending::Planned).map(ToString::to_string)
        })
        .figure("Age", |service| service.result.age_seconds.map(units::duration))
        .figure("Level", |service| {
            service.result.level_bytes.map(units::memory).or_else(|| service.result.no_level.clone())
        })
        .figure("At end", |service| service.result.final_bytes.map(units::memory))
        .figure("Peak", |service| service.result.peak_bytes.map(units::memory))
        .figure(other_reading(report), |service| {
            of_other_reading(report, service.rss_bytes_final, service.anon_bytes_final)
        })
        .figure("Growth", |service| {
            Some(units::growth(service.result.growth_bytes_per_day? / 24.0, pace(report)))
        })
        .figure("CPU", |service| service.cpu_seconds.map(units::cpu))
        .figure("Restarts", move |service| restarted.then(|| service.result.restarts.to_string()))
        .figure("PSS", move |service| smaps(service, |smaps| smaps.pss_bytes))
        .figure("Private dirty", move |service| smaps(service, |smaps| smaps.private_dirty_bytes))
        .figure("Lazily freed", move |service| smaps(service, |smaps| smaps.lazyfree_bytes))
        .figure("Huge pages", move |service| smaps(service, |smaps| smaps.anon_huge_bytes));
    let table = columns.table_of_arms(order, |service| {
        let arm = report.arms.iter().position(|arm| arm.name == service.arm);
        (arm, if service.counts { Emphasis::None } else { Emphasis::Lost })
    });
    (table, report.services.len().saturating_sub(SERVICES_SHOWN))
}

/// Whether it counts, where some do not.
fn belongs(report: &Report, service: &Service) -> Option<String> {
    report.services.iter().any(|service| !service.counts).then(|| match (&service.excluded, &service.like) {
        (None, _) => "yes".to_owned(),
        (Some(_), Some(like)) => format!("no: like {like}"),
        (Some(why), None) => format!("no: {why}"),
    })
}

pub(crate) fn outliers(report: &Report) -> Option<Table> {
    Columns::of("Service", |outlier: &&Outlier| outlier.name.clone())
        .text("Arm", |outlier| Some(report.arms[outlier.arm].name.clone()))
        .figure("Level", |outlier| Some(units::memory(outlier.level_bytes)))
        .figure("Median of the arm", |outlier| Some(units::memory(outlier.median_bytes)))
        .figure("Level over median", |outlier| Some(units::ratio(outlier.factor)))
        .table_of_arms(report.outliers.iter().take(SERVICES_SHOWN), |outlier| {
            (Some(outlier.arm), Emphasis::None)
        })
}
