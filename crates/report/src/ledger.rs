//! Which life stands for a service, and whether it counts.

use heaptrial_model::Metric;
use heaptrial_store::{ArmRecord, EventRecord, LifeRecord, SeriesPoint, ServiceRecord, Store};

use crate::{ReportError, units};

/// A service younger than this share of the oldest one's age at its last reading is not compared.
const COMPARABLE_AGE_SHARE: f64 = 0.5;

/// A service with the life that stands for it.
#[derive(Debug)]
pub(crate) struct LedgerEntry<'a> {
    pub(crate) service: &'a ServiceRecord,
    pub(crate) life: Option<&'a LifeRecord>,
    pub(crate) series: Vec<SeriesPoint>,
    /// Why it does not count; `None` where it does.
    pub(crate) excluded: Option<String>,
}

impl LedgerEntry<'_> {
    pub(crate) fn last_age(&self) -> Option<f64> {
        self.series.last().map(|point| point.age_seconds)
    }

    pub(crate) fn counts(&self) -> bool {
        self.excluded.is_none()
    }
}

/// Reads the entries of all services, in the order of starting.
pub(crate) fn read<'a>(
    store: &Store,
    services: &'a [ServiceRecord],
    arms: &[ArmRecord],
    lives: &'a [LifeRecord],
    events: &[EventRecord],
    metric: Metric,
) -> Result<Vec<LedgerEntry<'a>>, ReportError> {
    let mut entries = Vec::with_capacity(services.len());
    for service in services {
        let mut own = lives.iter().filter(|life| life.service_id == service.id).rev().peekable();
        let last = own.peek().copied();
        let life = own.find(|life| life.counts()).or(last);
        let series = life.map_or(Ok(Vec::new()), |life| store.series(life, metric))?;
        let excluded = reason(service, arms, life, &series, events, metric);
        entries.push(LedgerEntry { service, life, series, excluded });
    }
    exclude_too_young(&mut entries);
    Ok(entries)
}

fn reason(
    service: &ServiceRecord,
    arms: &[ArmRecord],
    life: Option<&LifeRecord>,
    series: &[SeriesPoint],
    events: &[EventRecord],
    metric: Metric,
) -> Option<String> {
    let failure = failure(service, arms, events);
    let Some(life) = life else {
        return Some(failure.unwrap_or("it never started").to_owned());
    };
    if !life.counts() {
        return Some(match (&life.contamination, &life.ending) {
            (Some(contamination), _) => format!("contaminated: {contamination}"),
            // What the lab wrote down then says more than the bare ending.
            (None, Some(ending)) if !ending.is_complete() => match failure {
                Some(failure) => failure.to_owned(),
                None if life.identity.is_some() => ending.to_string(),
                None => format!("{ending}, before its allocator was proved"),
            },
            _ => failure.unwrap_or("its allocator was never proved").to_owned(),
        });
    }
    series.is_empty().then(|| format!("no reading of its {}", metric.describe()))
}

/// Why the lab gave the service up, without the names that it starts with.
fn failure<'e>(service: &ServiceRecord, arms: &[ArmRecord], events: &'e [EventRecord]) -> Option<&'e str> {
    let about_it = |event: &&EventRecord| event.service_id == Some(service.id) && event.kind == "arm_failed";
    let text = events.iter().rev().find(about_it)?.text.as_str();
    let arm = arms.iter().find(|arm| arm.id == service.arm_id);
    let names = arm.map(|arm| format!("{} ({}) ", arm.arm.name, service.name)).unwrap_or_default();
    Some(text.strip_prefix(&names).unwrap_or(text))
}

/// Services are compared at equal age: one that was cut off early says nothing about the others' age.
fn exclude_too_young(entries: &mut [LedgerEntry<'_>]) {
    let oldest =
        entries.iter().filter(|entry| entry.counts()).filter_map(LedgerEntry::last_age).fold(0.0, f64::max);
    for entry in entries {
        let Some(age) = entry.last_age() else { continue };
        if entry.counts() && age < COMPARABLE_AGE_SHARE * oldest {
            let (age, oldest) = (units::duration(age), units::duration(oldest));
            entry.excluded =
                Some(format!("too young to compare: it was cut off at {age}, others reached {oldest}"));
        }
    }
}
