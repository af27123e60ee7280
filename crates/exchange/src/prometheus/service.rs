//! A service while it is put together: what is stored of it, and the readings that come to it.

use std::collections::BTreeSet;
use std::ops::Range;

use heaptrial_model::{LifeStart, Metric};
use heaptrial_store::{ImportedLife, ImportedSample};

use super::lives::{self, APART_US, Life, Lives};
use super::samples::Samples;
use super::series::{Told, Values};

/// A value of another series counts for a reading at most so long after it was scraped: Prometheus' own rule.
const LOOKED_BACK_US: i64 = 300_000_000;

/// A service while it is put together.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub samples: Samples,
    pub start: Values,
    /// Of stored lives that began with their first reading, the time in which a start is of theirs: by a clock that is ahead it was
    /// told later than that reading.
    with_first: Vec<Range<i64>>,
    pub counter: Values,
    pub arm: String,
    pub server: String,
    /// Its lives as they are stored, while nothing is added to them.
    stored: Option<Vec<Life>>,
    pub new_samples: u64,
}

impl Service {
    /// What its lives are.
    pub fn lives(&self) -> Lives {
        match &self.stored {
            Some(lives) => Lives { lives: lives.clone(), moved: Vec::new() },
            None => lives::of_service(&self.samples, &self.start, &self.counter),
        }
    }

    /// Adds the next of its lives that are stored, as the store would have told it.
    pub fn add_stored(&mut self, life: &ImportedLife) {
        let (Some(first), Some(last)) = (life.samples.first(), life.samples.last()) else { return };
        let begin = self.samples.len();
        life.samples.iter().for_each(|sample| self.samples.push(sample));
        self.stored.get_or_insert_default().push(Life {
            started_us: life.started_wall_us,
            start: life.start,
            samples: begin..self.samples.len(),
        });
        if let Some(before) = self.with_first.last_mut() {
            before.end = before.end.min(first.wall_us);
        }
        let started_us = life.started_wall_us;
        if life.start == LifeStart::Observed {
            let started = started_us as f64 / 1e6;
            self.start.extend([(first.wall_us, started), (last.wall_us, started)]);
            if started_us == first.wall_us {
                self.with_first.push(first.wall_us..i64::MAX);
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
            while self.counter.last().is_some_and(|(at, _)| *at > earliest) {
                self.counter.pop();
            }
            let fell_from = self.counter.last().map_or(1.0, |(_, value)| value + 1.0);
            self.counter.push((earliest, fell_from));
            self.counter.push((started_us + uncertainty_us, 0.0));
        }
        let told = life.samples.iter();
        self.counter.extend(told.filter_map(|sample| Some((sample.wall_us, sample.cpu_us? as f64 / 1e6))));
    }
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
    service.stored = None;
    let step_of = |at: i64| at.div_euclid(step_us);
    let stored: BTreeSet<i64> = service.samples.iter().map(|sample| step_of(sample.wall_us)).collect();
    let first_wanted = since.unwrap_or(i64::MIN);
    let no_swap = told.swap.is_empty();
    let mut swap = LookBack::new(&told.swap);
    let mut contaminated = LookBack::new(&told.contaminated);
    let mut counter = LookBack::new(&told.counter);
    let is_new = |at: i64| at >= first_wanted && !stored.contains(&step_of(at));
    let mut new = Vec::new();
    for (wall_us, bytes) in told.memory.iter().copied().filter(|(at, _)| is_new(*at)) {
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
        new.push(sample);
    }
    service.new_samples += new.len() as u64;
    if service.samples.last().zip(new.first()).is_some_and(|(last, first)| first.wall_us < last.wall_us) {
        new.extend(service.samples.iter());
        new.sort_by_key(|sample| sample.wall_us);
        service.samples = Samples::default();
    }
    new.iter().for_each(|sample| service.samples.push(sample));
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

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;

    /// Its start was told as 130 by a clock that is ahead, at a reading of 100, which is when it is stored to have begun.
    #[test]
    fn a_life_goes_on_in_the_next_import_though_its_clock_is_ahead() {
        let sample =
            |at: i64| ImportedSample { wall_us: at * S, rss_bytes: 1 << 20, ..ImportedSample::default() };
        let life = ImportedLife {
            started_wall_us: 100 * S,
            start: LifeStart::Observed,
            contamination: None,
            samples: [100, 160, 220, 280, 340].map(sample).to_vec(),
        };
        let mut service = Service::default();
        service.add_stored(&life);
        let times = [280, 340, 400, 460];
        let told = Told {
            memory: times.iter().map(|at| (at * S, 2e6)).collect(),
            start: times.iter().map(|at| (at * S, 130.0)).collect(),
            ..Told::default()
        };
        add(&mut service, told, Metric::Rss, None, 60 * S);
        let found = lives::of_service(&service.samples, &service.start, &service.counter);
        let starts: Vec<i64> = found.lives.iter().map(|life| life.started_us / S).collect();
        assert_eq!((starts, found.moved, service.new_samples), (vec![100], vec![], 2));
    }

    /// A life: start, how it is known, and its samples.
    type Found = (i64, LifeStart, std::ops::Range<usize>);

    /// Imports what is `told` in two steps gives what one import of all gives. The first import ends before a restart at 1255, right after
    /// it, or later; the next asks again from some time before that.
    #[track_caller]
    fn comes_in_parts(
        told: &dyn Fn(i64, i64) -> Told,
        lives: &dyn Fn(&Service) -> Vec<Found>,
        wanted: &[Found],
    ) {
        for (until, again) in
            [(1230, 1100), (1290, 1100), (1290, 1260), (1700, 1200), (1700, 1500), (2200, 2000)]
        {
            let mut first = Service::default();
            add(&mut first, told(0, until), Metric::Rss, None, 60 * S);
            let mut next = Service::default();
            for (started_wall_us, start, samples) in lives(&first) {
                let samples = samples.map(|index| first.samples.get(index).unwrap()).collect();
                next.add_stored(&ImportedLife { started_wall_us, start, contamination: None, samples });
            }
            // A store that tells nothing of it any more takes nothing away.
            assert_eq!(lives(&next), lives(&first), "{until}");
            add(&mut next, told(again, 2200), Metric::Rss, None, 60 * S);
            assert_eq!(lives(&next), wanted, "{until} {again}");
        }
    }

    /// Restarted at 1255, by a clock that is set back by five minutes: known by the counter alone.
    #[test]
    fn a_restart_by_a_clock_that_was_set_stays_in_the_next_import() {
        let times: Vec<i64> = (1000..2200).step_by(60).collect();
        let told = |from: i64, to: i64| {
            let within: Vec<i64> = times.iter().copied().filter(|at| (from..to).contains(at)).collect();
            let values = |of: fn(i64) -> f64| within.iter().map(|at| (at * S, of(*at))).collect();
            Told {
                memory: values(|_| 1e6),
                start: values(|at| if at < 1255 { 900.0 } else { 955.0 }),
                counter: values(|at| if at < 1255 { at as f64 / 10.0 } else { (at - 1250) as f64 / 10.0 }),
                ..Told::default()
            }
        };
        let lives = |service: &Service| {
            let found = service.lives().lives;
            found.iter().map(|life| (life.started_us, life.start, life.samples.clone())).collect::<Vec<_>>()
        };
        let mut whole = Service::default();
        add(&mut whole, told(0, 2200), Metric::Rss, None, 60 * S);
        let wanted = lives(&whole);
        assert_eq!((wanted[0].0, wanted[1].0), (900 * S, 1270 * S));
        comes_in_parts(&told, &lives, &wanted);
    }

    /// Restarted at 1255 on a host whose clock is five minutes behind: known by a fall of memory.
    #[test]
    fn a_restart_by_a_clock_that_is_behind_stays_in_the_next_import() {
        let told = |from: i64, to: i64| {
            let within: Vec<i64> = (1000..2200).step_by(60).filter(|at| (from..to).contains(at)).collect();
            let values = |of: fn(i64) -> f64| within.iter().map(|at| (at * S, of(*at))).collect();
            Told {
                memory: values(|at| if at < 1255 { 1e6 } else { 5e5 + at as f64 }),
                start: values(|at| if at < 1255 { 600.0 } else { 955.0 }),
                ..Told::default()
            }
        };
        let lives = |service: &Service| {
            let found = service.lives();
            assert!(found.moved.is_empty());
            let of = |life: Life| (life.started_us, life.start, life.samples);
            found.lives.into_iter().map(of).collect::<Vec<_>>()
        };
        let mut whole = Service::default();
        add(&mut whole, told(0, 2200), Metric::Rss, None, 60 * S);
        let wanted = lives(&whole);
        assert_eq!(wanted.iter().map(|life| life.0 / S).collect::<Vec<_>>(), [600, 1270]);
        comes_in_parts(&told, &lives, &wanted);
    }

    #[test]
    fn late_readings_come_between_those_that_are_stored() {
        let mut service = Service::default();
        let readings = |seconds: &[i64]| Told {
            memory: seconds.iter().map(|at| (at * S, 1e6)).collect(),
            ..Told::default()
        };
        add(&mut service, readings(&[60, 240]), Metric::Rss, None, 60 * S);
        add(&mut service, readings(&[60, 120, 300]), Metric::Rss, None, 60 * S);
        let times: Vec<i64> = service.samples.iter().map(|sample| sample.wall_us / S).collect();
        assert_eq!((times, service.new_samples), (vec![60, 120, 240, 300], 4));
    }
}
