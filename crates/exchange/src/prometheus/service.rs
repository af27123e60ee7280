//! A service while it is put together: what is stored of it, and the readings that come to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use heaptrial_model::{LifeStart, Metric};
use heaptrial_store::{ImportedSample, ImportedTrial};

use super::lives::APART_US;
use super::series::{Told, Values};

/// A value of another series counts for a reading at most so long after it was scraped: Prometheus' own rule.
const LOOKED_BACK_US: i64 = 300_000_000;

/// A service while it is put together.
#[derive(Default)]
pub(super) struct Service {
    pub samples: Vec<ImportedSample>,
    pub start: Values,
    /// Of stored lives that began with their first reading, the time in which a start is of theirs: by a clock that is ahead it was
    /// told later than that reading.
    with_first: Vec<Range<i64>>,
    pub counter: Values,
    pub arm: String,
    pub new_samples: u64,
}

/// The services that are stored, as the store would have told them.
pub(super) fn of_stored(trial: &ImportedTrial, metric: Metric) -> BTreeMap<String, Service> {
    let mut services = BTreeMap::new();
    for (index, stored) in trial.services.iter().enumerate() {
        let mut service = Service::default();
        for (index, life) in stored.lives.iter().enumerate() {
            service.samples.extend_from_slice(&life.samples);
            let (Some(first), Some(last)) = (life.samples.first(), life.samples.last()) else { continue };
            let started_us = life.started_wall_us;
            if life.start == LifeStart::Observed {
                let started = started_us as f64 / 1e6;
                service.start.extend([(first.wall_us, started), (last.wall_us, started)]);
                if started_us == first.wall_us {
                    let next = stored.lives.get(index + 1).and_then(|next| next.samples.first());
                    service.with_first.push(first.wall_us..next.map_or(i64::MAX, |next| next.wall_us));
                }
            }
            // Readings are rarer than what the counter told: where it has risen above its old value until the next one, only
            // what was found then tells that it fell.
            let counted = life.samples.iter().any(|sample| sample.cpu_us.is_some());
            if let LifeStart::Inferred { uncertainty_us } = life.start
                && counted
            {
                let earliest = started_us - uncertainty_us;
                // Readings after that were put to the life before, with the counter's last value.
                while service.counter.last().is_some_and(|(at, _)| *at > earliest) {
                    service.counter.pop();
                }
                let fell_from = service.counter.last().map_or(1.0, |(_, value)| value + 1.0);
                service.counter.push((earliest, fell_from));
                service.counter.push((started_us + uncertainty_us, 0.0));
            }
            let told = life.samples.iter();
            service
                .counter
                .extend(told.filter_map(|sample| Some((sample.wall_us, sample.cpu_us? as f64 / 1e6))));
        }
        let list = trial.lists.iter().find(|list| list.members.contains(&index));
        service.arm = list.map(|list| list.arm.name.clone()).unwrap_or_default();
        debug_assert!(service.samples.iter().all(|sample| memory_of(sample, metric).is_some()));
        services.insert(stored.name.clone(), service);
    }
    services
}

/// The reading that a trial by this metric is about, in bytes.
pub(super) fn memory_of(sample: &ImportedSample, metric: Metric) -> Option<u64> {
    match metric {
        Metric::Anon => sample.anon_bytes,
        Metric::Cgroup => sample.cgroup_current_bytes,
        Metric::Rss | Metric::Pss => Some(sample.rss_bytes),
    }
}

/// Adds readings that are not there, one in each `step_us`: what is stored stays.
pub(super) fn add(service: &mut Service, told: Told, metric: Metric, since: Option<i64>, step_us: i64) {
    let step_of = |at: i64| at.div_euclid(step_us);
    let stored: BTreeSet<i64> = service.samples.iter().map(|sample| step_of(sample.wall_us)).collect();
    let first_wanted = since.unwrap_or(i64::MIN);
    let no_swap = told.swap.is_empty();
    let mut swap = LookBack::new(&told.swap);
    let mut contaminated = LookBack::new(&told.contaminated);
    let mut counter = LookBack::new(&told.counter);
    let is_new = |at: i64| at >= first_wanted && !stored.contains(&step_of(at));
    for (wall_us, bytes) in told.memory.into_iter().filter(|(at, _)| is_new(*at)) {
        if contaminated.at(wall_us).is_some_and(|is| is > 0.5) {
            continue;
        }
        let bytes = bytes as u64;
        let mut sample = ImportedSample { wall_us, ..ImportedSample::default() };
        match metric {
            Metric::Anon => {
                sample.anon_bytes = Some(bytes);
                // Where a service's swap is told, a reading without it is none.
                sample.swap_bytes = match no_swap {
                    true => Some(0),
                    false => swap.at(wall_us).map(|bytes| bytes as u64),
                };
            }
            Metric::Cgroup => sample.cgroup_current_bytes = Some(bytes),
            Metric::Rss | Metric::Pss => sample.rss_bytes = bytes,
        }
        sample.cpu_us = counter.at(wall_us).map(|seconds| (seconds * 1e6) as u64);
        service.samples.push(sample);
        service.new_samples += 1;
    }
    service.samples.sort_by_key(|sample| sample.wall_us);
    for life in &service.with_first {
        let ahead = |value: f64| (value * 1e6) as i64 - life.start;
        let of_life =
            |(at, value): &&(i64, f64)| life.contains(at) && (0..=APART_US).contains(&ahead(*value));
        let Some((_, told)) = told.start.iter().find(of_life) else { continue };
        for (_, started) in
            service.start.iter_mut().filter(|(at, started)| life.contains(at) && ahead(*started) == 0)
        {
            *started = *told;
        }
    }
    for (stored, new) in [(&mut service.start, told.start), (&mut service.counter, told.counter)] {
        let before = std::mem::replace(stored, new);
        stored.extend(before);
        // What is told now stands for what was made of it before.
        stored.sort_by_key(|(at, _)| *at);
        stored.dedup_by_key(|(at, _)| *at);
    }
}

/// The last value at or before ascending times.
struct LookBack<'a> {
    values: &'a [(i64, f64)],
    next: usize,
}

impl<'a> LookBack<'a> {
    fn new(values: &'a [(i64, f64)]) -> Self {
        Self { values, next: 0 }
    }

    fn at(&mut self, wall_us: i64) -> Option<f64> {
        while self.values.get(self.next).is_some_and(|(at, _)| *at <= wall_us) {
            self.next += 1;
        }
        let (at, value) = *self.values.get(self.next.checked_sub(1)?)?;
        (wall_us - at <= LOOKED_BACK_US).then_some(value)
    }
}
