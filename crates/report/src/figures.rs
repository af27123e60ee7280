//! The figures of one service.

use heaptrial_model::Metric;
use heaptrial_stats::{median, theil_sen, thin};
use heaptrial_store::{EventRecord, Store};

use crate::ReportError;
use crate::document::{Analysis, ConsensusAge, Memory, Service};
use crate::ledger::LedgerEntry;

/// Points that a slope is computed from: medians of equally long runs of readings.
const SLOPE_POINTS: usize = 200;
/// Fewer readings than these make no slope.
const SLOPE_POINTS_AT_LEAST: usize = 10;

/// The figures of the service behind `entry`.
pub(crate) fn of_service(
    store: &Store,
    entry: &LedgerEntry<'_>,
    arm: &str,
    analysis: &Analysis,
    events: &[EventRecord],
) -> Result<Service, ReportError> {
    let series = &entry.series;
    let in_window: Vec<(f64, f64)> = series
        .iter()
        .filter(|point| point.age_seconds >= analysis.warm_up_seconds)
        .filter(|point| {
            let matched = analysis.matched_age_seconds;
            !entry.counts() || matched.is_none_or(|age| point.age_seconds <= age)
        })
        .map(|point| (point.age_seconds, point.metric_bytes as f64))
        .collect();
    let smaps = entry.life.map_or(Ok(None), |life| store.last_slow_sample(life.id))?;
    let last = series.last();
    Ok(Service {
        name: entry.service.name.clone(),
        arm: arm.to_owned(),
        block: entry.service.block,
        position: entry.service.position,
        counts: entry.counts(),
        excluded: entry.excluded.clone(),
        ending: entry.life.and_then(|life| life.ending.clone()),
        age_seconds: entry.last_age(),
        readings: series.len() as u64,
        memory: memory(entry, &in_window, analysis.metric),
        rss_bytes_final: last.map(|point| point.rss_bytes),
        anon_bytes_final: last.map(|point| point.anon_bytes),
        slope_bytes_per_hour: slope(&in_window).map(|bytes_per_second| bytes_per_second * 3600.0),
        cpu_seconds: last.map(|point| point.cpu_us as f64 / 1e6),
        consensus_age: consensus_age(store, entry, analysis, events)?,
        smaps,
        start: None,
        restarts: None,
        growth_share_per_day: None,
        time_average_bytes: None,
        like: None,
        no_level: None,
        ran: None,
        memory_limit_bytes: None,
        work_bytes_per_second: None,
    })
}

fn slope(in_window: &[(f64, f64)]) -> Option<f64> {
    if in_window.len() < SLOPE_POINTS_AT_LEAST {
        return None;
    }
    theil_sen(&thin(in_window, SLOPE_POINTS)).map(|line| line.slope)
}

fn memory(entry: &LedgerEntry<'_>, in_window: &[(f64, f64)], metric: Metric) -> Option<Memory> {
    let values: Vec<f64> = in_window.iter().map(|point| point.1).collect();
    Some(Memory {
        metric,
        final_bytes: entry.series.last()?.metric_bytes,
        median_bytes: median(&values).map(|bytes| bytes.round() as u64),
        peak_bytes: entry.series.iter().map(|point| point.metric_bytes).max()?,
    })
}

fn consensus_age(
    store: &Store,
    entry: &LedgerEntry<'_>,
    analysis: &Analysis,
    events: &[EventRecord],
) -> Result<Option<ConsensusAge>, ReportError> {
    let Some(life) = entry.life else { return Ok(None) };
    let ages: Vec<f64> = store
        .observations(life, "consensus_age_seconds")?
        .into_iter()
        .filter(|(age, _)| *age >= analysis.warm_up_seconds)
        .map(|(_, value)| value)
        .collect();
    let about_it = |event: &&EventRecord| event.kind == "lag" && event.service_id == Some(entry.service.id);
    Ok(median(&ages).map(|median_seconds| ConsensusAge {
        median_seconds,
        max_seconds: ages.iter().copied().fold(f64::MIN, f64::max),
        lag_events: events.iter().filter(about_it).count() as u64,
    }))
}
