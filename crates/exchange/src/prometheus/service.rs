//! A service while it is put together: what is stored of it, and the readings that come to it.

use std::collections::BTreeSet;
use std::ops::Range;

use heaptrial_model::{LifeStart, Metric};
use heaptrial_store::{ImportedLife, ImportedSample};

use super::lives::{self, Known, Life, Lives, Open};
use super::samples::Samples;
use super::series::{Told, Values};

/// A value of another series counts for a reading at most so long after it was scraped: Prometheus' own rule.
const LOOKED_BACK_US: i64 = 300_000_000;

/// A counter of anything, kept in millionths; of what is beyond falls alone count.
const COUNTED_AT_MOST: f64 = 9e12;

/// A service while it is put together.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub samples: Samples,
    pub arm: String,
    pub server: String,
    pub lives: Lives,
    pub new_samples: u64,
    /// Readings of no memory, resident or in swap, that were left out.
    pub zeros: u64,
}

impl Service {
    /// Adds the next of its lives that are stored.
    pub fn add_stored(&mut self, life: &ImportedLife) {
        if life.samples.is_empty() {
            return;
        }
        let begin = self.samples.len();
        life.samples.iter().for_each(|sample| self.samples.push(sample));
        let (started_us, start) = (life.started_wall_us, life.start);
        self.lives.lives.push(Life { started_us, start, samples: begin..self.samples.len() });
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
    let stored = stored_lives(service);
    let step_of = |at: i64| at.div_euclid(step_us);
    let steps: BTreeSet<i64> = service.samples.times().iter().map(|at| step_of(*at)).collect();
    let first_wanted = since.unwrap_or(i64::MIN);
    let no_swap = told.swap.is_empty();
    let mut swap = LookBack::new(&told.swap);
    let mut contaminated = LookBack::new(&told.contaminated);
    let mut counter = LookBack::new(&told.counter);
    let is_new = |at: i64| at >= first_wanted && !steps.contains(&step_of(at));
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
        if memory_of(&sample, metric).unwrap_or(0) + sample.swap_bytes.unwrap_or(0) == 0 {
            service.zeros += 1;
            continue;
        }
        // Never more than is told: what is told next may be the same.
        sample.cpu_us =
            counter.at(wall_us).filter(|count| *count < COUNTED_AT_MOST).map(|count| (count * 1e6) as u64);
        new.push(sample);
    }
    service.new_samples += new.len() as u64;
    if service.samples.last().zip(new.first()).is_some_and(|(last, first)| first.wall_us < last.wall_us) {
        new.extend(service.samples.iter());
        new.sort_by_key(|sample| sample.wall_us);
        service.samples = Samples::default();
    }
    new.iter().for_each(|sample| service.samples.push(sample));
    service.lives = lives_of(&service.samples, &stored, &told);
}

/// The stored lives, with when they were there and their first readings.
fn stored_lives(service: &Service) -> Vec<(Open, i64)> {
    let times = service.samples.times();
    let of = |life: &Life| {
        let (first_us, last_us) = (times[life.samples.start], times[life.samples.end - 1]);
        let after_us = life.samples.start.checked_sub(1).map_or(i64::MIN, |before| times[before] + 1);
        let from_us = match life.start {
            LifeStart::Observed => life.started_us.max(after_us),
            LifeStart::Inferred { uncertainty_us } => life.started_us + uncertainty_us,
            LifeStart::Unknown => first_us,
        };
        let there_us = from_us.min(first_us)..=last_us;
        (Open { started_us: life.started_us, start: life.start, there_us }, first_us)
    };
    service.lives.lives.iter().map(of).collect()
}

/// The lives of all readings. Those that are stored stay as they are where nothing is told of starts: what told them may be gone.
fn lives_of(samples: &Samples, stored: &[(Open, i64)], told: &Told) -> Lives {
    let by_start = !told.start.is_empty();
    let evidence = if by_start { &told.start } else { &told.counter };
    let was_told = samples.have_cpu() || stored.iter().any(|(life, _)| life.start == LifeStart::Observed);
    let times = samples.times();
    let first_of = |(_, first_us): &(Open, i64)| times.partition_point(|at| at < first_us);
    let kept = |lives: &[(Open, i64)], of: Range<usize>| -> Vec<Life> {
        // What came late before the first of them is of that one.
        let later = lives.iter().skip(1).map(first_of);
        let firsts: Vec<usize> = [of.start].into_iter().chain(later).chain([of.end]).collect();
        let of = |(index, (life, _)): (usize, &(Open, i64))| Life {
            started_us: life.started_us,
            start: life.start,
            samples: firsts[index]..firsts[index + 1],
        };
        lives.iter().enumerate().map(of).collect()
    };
    let (Some((told_from, _)), Some((told_until, _))) = (evidence.first(), evidence.last()) else {
        return match was_told && !stored.is_empty() {
            true => Lives { lives: kept(stored, 0..times.len()), moved: Vec::new() },
            false => lives::by_memory(samples),
        };
    };
    // The evidence of a start may lie before it.
    let known_from = |life: &Open| match life.start {
        LifeStart::Inferred { uncertainty_us } => life.started_us - uncertainty_us,
        LifeStart::Observed | LifeStart::Unknown => *life.there_us.start(),
    };
    let open = stored.iter().rposition(|(life, _)| known_from(life) <= *told_from);
    let first_after = stored.iter().position(|(_, first_us)| first_us > told_until).unwrap_or(stored.len());
    let (before, after) =
        (&stored[..open.unwrap_or(0)], &stored[first_after.max(open.map_or(0, |open| open + 1))..]);
    let open = open.map(|open| &stored[open]);
    // What was read before the first stored life, and came late, is of that one.
    let from = open.filter(|_| !before.is_empty()).map_or(0, first_of);
    let range = from..after.first().map_or(times.len(), first_of);
    let since = open.map_or(i64::MIN, |(life, _)| *life.there_us.start());
    let of_it =
        |values: &Values| -> Values { values.iter().copied().filter(|(at, _)| *at >= since).collect() };
    let counter = counted(samples, range.clone(), *told_from).chain(of_it(&told.counter)).collect::<Values>();
    let touched = &stored[before.len()..stored.len() - after.len()];
    let firsts: Vec<i64> = touched.iter().map(|(_, first_us)| *first_us).collect();
    let lasts: Vec<i64> = touched.iter().map(|(life, _)| *life.there_us.end()).collect();
    let known = Known {
        open: open.map(|(life, _)| life),
        firsts_us: &firsts[usize::from(open.is_some())..],
        lasts_us: &lasts[..lasts.len().saturating_sub(1)],
    };
    let found = match by_start {
        true => lives::by_starts(samples, range.clone(), known, &of_it(&told.start), &counter),
        false => lives::by_counter(samples, range.clone(), known, &counter),
    };
    let mut lives = kept(before, 0..range.start);
    lives.extend(found.lives);
    lives.extend(kept(after, range.end..times.len()));
    Lives { lives, moved: found.moved }
}

/// What a counter told at readings until a time: of what is later it may tell what it was a while before.
fn counted(samples: &Samples, of: Range<usize>, until: i64) -> impl Iterator<Item = (i64, f64)> + '_ {
    let stored = of.filter_map(|index| samples.get(index));
    stored
        .take_while(move |sample| sample.wall_us < until)
        .filter_map(|sample| Some((sample.wall_us, sample.cpu_us? as f64 / 1e6)))
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
        let found = service.lives;
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
            let found = service.lives.lives.clone();
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
            let found = service.lives.clone();
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
