//! Lives from what a store tells of starts.

use std::ops::{Range, RangeInclusive};

use heaptrial_model::LifeStart;
use heaptrial_store::ImportedSample;

use super::samples::Samples;
use crate::lives::{FALLEN_SHARE_RSS_ALONE, FALLEN_SHARE_TOLD, infer};

/// Exporters compute starts from the boot time, in whole seconds and with the clock's own wavering.
const WAVERING_US: i64 = 2_000_000;
/// Starts are by the host's clock, readings by the store's: so far they may be apart.
const APART_US: i64 = 60_000_000;
/// A clock that is wrong is seldom behind by more.
const BEHIND_US: i64 = 3_600_000_000;

/// A life that is stored and may go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// Start, in microseconds since 1970.
    pub started_us: i64,
    pub start: LifeStart,
    /// From when on it is known to be there, and its last reading.
    pub there_us: RangeInclusive<i64>,
}

/// What is stored of the time of which something is told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'a> {
    /// The life that the first readings are of.
    pub open: Option<&'a Open>,
    /// First readings of later lives: what was told of them then may have been told sooner than now.
    pub firsts_us: &'a [i64],
    /// Last readings of the lives before these.
    pub lasts_us: &'a [i64],
}

impl Known<'_> {
    /// The last reading of a life that ended from one time on and before another one.
    fn last_within(&self, from_us: i64, before_us: i64) -> Option<i64> {
        self.lasts_us.iter().copied().rfind(|last| (from_us..before_us).contains(last))
    }

    /// The first reading of a life after a time and not after another one.
    fn first_within(&self, after_us: i64, until_us: i64) -> Option<i64> {
        self.firsts_us.iter().copied().find(|first| after_us < *first && *first <= until_us)
    }
}

/// A start as it is told, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    started_us: i64,
    start: LifeStart,
    /// The first time at which a reading is of it.
    from_us: i64,
    last_told_us: i64,
}

/// A life, as positions of readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    /// Start, in microseconds since 1970; the first reading where it is not known.
    pub started_us: i64,
    pub start: LifeStart,
    pub samples: Range<usize>,
}

/// The lives of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lives {
    /// In order, without those that have no reading.
    pub lives: Vec<Life>,
    /// When the start that is told moved to a time at which the one before was still told, and nothing tells a restart: the oldest
    /// of several processes ended, or a clock was set. That is no start of the service.
    pub moved: Vec<i64>,
}

/// From falls of memory, over all readings.
pub(super) fn by_memory(samples: &Samples) -> Lives {
    let measured = |sample: ImportedSample| ImportedSample { rss_bytes: measured(&sample), ..sample };
    let measured: Vec<ImportedSample> = samples.iter().map(measured).collect();
    let lives = infer(&measured, &[]).into_iter();
    let lives =
        lives.map(|life| Life { started_us: life.started_wall_us, start: life.start, samples: life.samples });
    Lives { lives: lives.collect(), moved: Vec::new() }
}

/// Whatever was measured, in bytes.
fn measured(sample: &ImportedSample) -> u64 {
    let anon = sample.anon_bytes.map(|anon| anon + sample.swap_bytes.unwrap_or(0));
    anon.or(sample.cgroup_current_bytes).unwrap_or(sample.rss_bytes)
}

fn starts(
    samples: &Samples,
    known: Known<'_>,
    told: &[(i64, f64)],
    counter: &[(i64, f64)],
) -> (Vec<Start>, Vec<i64>) {
    let mut moved = Vec::new();
    let mut value_before = i64::MIN;
    let mut starts: Vec<Start> = Vec::new();
    // What is told first while its readings go on is how its own start is told by now.
    if let Some(open) = known.open.filter(|open| open.start != LifeStart::Unknown) {
        let own = told.first().filter(|(at, _)| open.there_us.contains(at));
        value_before = own.map_or(open.started_us, |(_, seconds)| (seconds * 1e6) as i64);
        starts.push(Start {
            started_us: open.started_us,
            start: open.start,
            from_us: *open.there_us.start(),
            last_told_us: own.map_or(*open.there_us.end(), |(at, _)| *at),
        });
    }
    for (at, seconds) in told.iter().filter(|(_, seconds)| *seconds >= 1.0) {
        let value = (seconds * 1e6) as i64;
        let same = value.saturating_sub(value_before).abs() <= WAVERING_US;
        value_before = value;
        let by_a_wrong_clock = |last: &Start| {
            let is_past = value < last.last_told_us - APART_US || value < last.started_us;
            is_past || (value > at + APART_US && !counter.is_empty())
        };
        match starts.last_mut() {
            Some(last) if same => last.last_told_us = *at,
            Some(last) if by_a_wrong_clock(last) => {
                match last_fall(counter, last.last_told_us, *at).or_else(|| {
                    fall_of_memory(samples, last.last_told_us..*at, value).filter(|_| counter.is_empty())
                }) {
                    Some(between) => {
                        let (started_us, start) = begun_between(between);
                        let from_us = known.first_within(between.0, between.1).unwrap_or(between.1);
                        starts.push(Start { started_us, start, from_us, last_told_us: *at });
                    }
                    None => {
                        moved.push(*at);
                        last.last_told_us = *at;
                    }
                }
            }
            last => {
                let told_before = last.map_or(i64::MIN, |last| last.last_told_us + 1);
                let after_us = known.last_within(told_before, *at).map_or(i64::MIN, |last| last + 1);
                let from_us = known
                    .first_within(told_before, *at)
                    .unwrap_or_else(|| told_before.max((value - WAVERING_US).min(*at)))
                    .max(after_us);
                let start = LifeStart::Observed;
                // A start that is told long before it is by a wrong clock.
                let started_us = if value > at + APART_US { *at } else { value };
                starts.push(Start { started_us, start, from_us, last_told_us: *at });
            }
        }
    }
    (starts, moved)
}

/// Between which times a counter began anew last, after one time and not later than another, as far as it tells.
fn last_fall(counter: &[(i64, f64)], after_us: i64, until_us: i64) -> Option<(i64, i64)> {
    let first = counter.partition_point(|(at, _)| *at <= after_us).saturating_sub(1);
    let within = counter[first..].windows(2).take_while(|pair| pair[0].0 < until_us);
    let fall = within.filter(|pair| pair[1].1 < pair[0].1).last()?;
    Some((fall[0].0.max(after_us), fall[1].0.min(until_us)))
}

/// Between which two readings memory fell as at a restart, of those that reach into a time in which the start that is told moved to
/// `value`: the one at which it fell furthest. That the start moved is as good as somebody's note of a restart if it moved to not long
/// before the fall, by a clock that is behind; else memory alone has to tell it.
fn fall_of_memory(samples: &Samples, within: Range<i64>, value: i64) -> Option<(i64, i64)> {
    let times = samples.times();
    let first = times.partition_point(|at| *at <= within.start).saturating_sub(1);
    let last = times.partition_point(|at| *at < within.end).min(times.len().saturating_sub(1));
    let share = |before: usize| {
        let bytes = |index: usize| samples.get(index).map(|sample| measured(&sample) as f64);
        Some(bytes(before + 1)? / bytes(before)?)
    };
    let (_, before) = (first..last)
        .filter_map(|before| Some((share(before)?, before)))
        .filter(|(share, before)| {
            let (earliest, latest) = (times[*before], times[before + 1]);
            let near = (earliest - BEHIND_US..=latest).contains(&value);
            *share < if near { FALLEN_SHARE_TOLD } else { FALLEN_SHARE_RSS_ALONE }
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((times[before].max(within.start), times[before + 1].min(within.end)))
}

fn begun_between((earliest, latest): (i64, i64)) -> (i64, LifeStart) {
    let uncertainty_us = (latest - earliest + 1) / 2;
    (earliest + (latest - earliest) / 2, LifeStart::Inferred { uncertainty_us })
}

/// From the starts that are told, and from falls of a counter or of memory where they are by a clock that is wrong. A reading is of the
/// last service that was started before it; the first ones may be of a life that is `open`.
pub(super) fn by_starts(
    samples: &Samples,
    of: Range<usize>,
    known: Known<'_>,
    told: &[(i64, f64)],
    counter: &[(i64, f64)],
) -> Lives {
    let (starts, moved) = starts(samples, known, told, counter);
    let times = &samples.times()[..of.end];
    let mut lives = Vec::new();
    let mut first = of.start;
    let mut push = |started: Option<&Start>, samples_of: Range<usize>| {
        let Some(at) = times.get(samples_of.start).filter(|_| !samples_of.is_empty()) else { return };
        lives.push(match started {
            Some(start) => {
                Life { started_us: start.started_us.min(*at), start: start.start, samples: samples_of }
            }
            None => Life { started_us: *at, start: LifeStart::Unknown, samples: samples_of },
        });
    };
    let mut current: Option<&Start> = None;
    for start in &starts {
        let end = first + times[first..].partition_point(|at| *at < start.from_us);
        push(current, first..end);
        first = end;
        current = Some(start);
    }
    push(current, first..times.len());
    Lives { lives, moved }
}

/// A counter that has fallen was begun anew since its value before. Readings between the two are of the life before.
pub(super) fn by_counter(
    samples: &Samples,
    of: Range<usize>,
    known: Known<'_>,
    counter: &[(i64, f64)],
) -> Lives {
    let times = &samples.times()[..of.end];
    let mut lives = Vec::new();
    let mut first = of.start;
    let mut began = known.open.map(|open| (open.started_us, open.start));
    let mut push = |began: Option<(i64, LifeStart)>, own: Range<usize>| {
        let Some(at) = times.get(own.start).filter(|_| !own.is_empty()) else { return };
        let (started_us, start) = began.unwrap_or((*at, LifeStart::Unknown));
        lives.push(Life { started_us, start, samples: own });
    };
    for pair in counter.windows(2) {
        let ((before, was), (after, is)) = (pair[0], pair[1]);
        if is < was {
            let end = first
                + times[first..]
                    .partition_point(|at| *at < known.first_within(before, after).unwrap_or(after));
            push(began, first..end);
            first = end;
            began = Some(begun_between((before, after)));
        }
    }
    push(began, first..times.len());
    Lives { lives, moved: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::series::Values;
    use super::*;

    const S: i64 = 1_000_000;

    /// The lives of a service of which nothing is stored.
    fn of_service(samples: &Samples, told: &Values, counter: &Values) -> Lives {
        let all = 0..samples.len();
        match (told.is_empty(), counter.is_empty()) {
            (false, _) => by_starts(samples, all, Known::default(), told, counter),
            (true, false) => by_counter(samples, all, Known::default(), counter),
            (true, true) => by_memory(samples),
        }
    }

    fn of(samples: impl IntoIterator<Item = ImportedSample>) -> Samples {
        let mut all = Samples::default();
        samples.into_iter().for_each(|sample| all.push(&sample));
        all
    }

    fn samples(seconds: &[i64]) -> Samples {
        let sample =
            |at: &i64| ImportedSample { wall_us: at * S, rss_bytes: 1 << 20, ..ImportedSample::default() };
        of(seconds.iter().map(sample))
    }

    fn told(values: &[(i64, f64)]) -> Values {
        values.iter().map(|(at, value)| (at * S, *value)).collect()
    }

    /// Starts in seconds and numbers of readings.
    fn short(lives: &Lives) -> Vec<(i64, usize, bool)> {
        let of = |life: &Life| (life.started_us / S, life.samples.len(), life.start == LifeStart::Observed);
        lives.lives.iter().map(of).collect()
    }

    #[test]
    fn a_start_that_is_told_makes_a_life() {
        let at = samples(&[100, 160, 220, 280, 340]);
        // It wavers by a second; a restart at 230; told by another scrape, later than the readings.
        let starts = told(&[(110, 50.0), (170, 51.0), (290, 230.0), (350, 229.5)]);
        let lives = of_service(&at, &starts, &Vec::new());
        assert_eq!((short(&lives), lives.moved), (vec![(50, 3, true), (230, 2, true)], vec![]));
    }

    #[test]
    fn readings_before_the_first_start_are_of_unknown_age() {
        let lives = of_service(&samples(&[100, 160, 220]), &told(&[(220, 200.0)]), &Vec::new());
        assert_eq!(short(&lives), [(100, 2, false), (200, 1, true)]);
    }

    #[test]
    fn a_start_that_moves_into_the_life_before_is_none() {
        // The oldest of a group ended, and one that was started at 90 is the oldest now.
        let at = samples(&[100, 160, 220, 280]);
        let lives =
            of_service(&at, &told(&[(100, 50.0), (160, 50.0), (220, 90.0), (280, 90.0)]), &Vec::new());
        assert_eq!((short(&lives), lives.moved), (vec![(50, 4, true)], vec![220 * S]));
    }

    #[test]
    fn the_clock_of_the_host_may_be_behind() {
        // Started at 200 by the store's clock; the host's is 50 seconds behind.
        let at = samples(&[100, 160, 220, 280]);
        let lives =
            of_service(&at, &told(&[(100, 50.0), (160, 50.0), (220, 150.0), (280, 150.0)]), &Vec::new());
        assert_eq!((short(&lives), lives.moved), (vec![(50, 2, true), (150, 2, true)], vec![]));
    }

    #[test]
    fn the_clock_of_the_host_may_be_ahead() {
        // Started at 180 by the store's clock; the host's is 50 seconds ahead.
        let at = samples(&[100, 160, 190, 220, 280]);
        let lives =
            of_service(&at, &told(&[(100, 50.0), (160, 50.0), (190, 230.0), (280, 230.0)]), &Vec::new());
        assert_eq!(short(&lives), [(50, 2, true), (190, 3, true)]);
    }

    /// The clock of the host is set at 250, between two readings. What a service tells that is restarted there, and one that is not.
    #[test]
    fn a_clock_that_is_set_neither_hides_a_restart_nor_makes_one() {
        let at = samples(&[10_100, 10_160, 10_220, 10_280, 10_340]);
        let used =
            |after: [f64; 2]| told(&[(10_100, 5.0), (10_220, 9.0), (10_280, after[0]), (10_340, after[1])]);
        for set_by in [-3600.0, -300.0, -61.0, 61.0, 300.0, 3600.0] {
            let starts = |after: f64| {
                let after = after + set_by;
                told(&[(10_100, 10_050.0), (10_220, 10_050.0), (10_280, after), (10_340, after)])
            };
            let on = of_service(&at, &starts(10_050.0), &used([11.0, 14.0]));
            assert_eq!(
                (short(&on), on.moved),
                (vec![(10_050, 5, true)], vec![10_280 * S]),
                "set by {set_by}"
            );

            let anew = of_service(&at, &starts(10_255.0), &used([1.0, 4.0])).lives;
            let lengths: Vec<usize> = anew.iter().map(|life| life.samples.len()).collect();
            assert_eq!(lengths, [3, 2], "set by {set_by}");
            match anew[1].start {
                LifeStart::Inferred { uncertainty_us } => {
                    assert_eq!((anew[1].started_us, uncertainty_us), (10_250 * S, 30 * S));
                }
                // Not told from clocks that are somewhat apart.
                _ => assert!(anew[1].started_us.abs_diff(10_255 * S) <= 61 * S as u64, "{anew:?}"),
            }
        }
    }

    /// The clock of the host is three minutes behind, all the time: of a start at 10250 it tells 10070.
    #[test]
    fn a_clock_that_is_behind_hides_no_restart_that_memory_shows() {
        let times = [10_100, 10_160, 10_220, 10_280, 10_340];
        let starts = told(&[(10_100, 9_870.0), (10_220, 9_870.0), (10_280, 10_070.0), (10_340, 10_070.0)]);
        let of_memory = |bytes: [u64; 5]| {
            let sample = |(at, rss_bytes): (i64, u64)| ImportedSample {
                wall_us: at * S,
                rss_bytes,
                ..ImportedSample::default()
            };
            of_service(&of(times.into_iter().zip(bytes).map(sample)), &starts, &Vec::new())
        };
        let anew = of_memory([900, 1000, 1000, 800, 850]);
        assert_eq!((short(&anew), &anew.moved[..]), (vec![(9_870, 3, true), (10_250, 2, false)], &[][..]));
        assert_eq!(anew.lives[1].start, LifeStart::Inferred { uncertainty_us: 30 * S });
        // The oldest of several processes ended, or the clock was set: memory stays, or falls at another time.
        for bytes in [[900, 1000, 1000, 950, 900], [900, 100, 200, 300, 400], [900, 1000, 1000, 1000, 100]] {
            let on = of_memory(bytes);
            assert_eq!((short(&on), &on.moved[..]), (vec![(9_870, 5, true)], &[10_280 * S][..]), "{bytes:?}");
        }
    }

    /// One that moved far back is told by memory where it falls as far as where no start is told at all.
    #[test]
    fn a_clock_of_another_timezone_hides_no_restart_after_which_little_is_left() {
        let starts = told(&[(90_000, 50_000.0), (90_060, 50_000.0), (90_120, 61_300.0)]);
        for (after, lives) in [(400, 1), (200, 2)] {
            let sample = |(at, rss_bytes): (i64, u64)| ImportedSample {
                wall_us: at * S,
                rss_bytes,
                ..ImportedSample::default()
            };
            let samples = of([(90_000, 1000), (90_060, 1000), (90_120, after)].map(sample));
            assert_eq!(of_service(&samples, &starts, &Vec::new()).lives.len(), lives, "{after}");
        }
    }

    #[test]
    fn falls_of_what_was_measured_tell_restarts_where_nothing_else_does() {
        let reading = |at: i64, bytes: u64, anon: bool| {
            let sample = ImportedSample { wall_us: at * S, ..ImportedSample::default() };
            match anon {
                true => ImportedSample { anon_bytes: Some(bytes), swap_bytes: Some(0), ..sample },
                false => ImportedSample { cgroup_current_bytes: Some(bytes), ..sample },
            }
        };
        for anon in [true, false] {
            let samples = of([reading(0, 900, anon), reading(60, 1000, anon), reading(120, 100, anon)]);
            assert_eq!(of_service(&samples, &Vec::new(), &Vec::new()).lives.len(), 2);
        }
    }

    #[test]
    fn a_restart_without_a_reading_between_is_two_lives() {
        let lives = of_service(&samples(&[100, 400]), &told(&[(100, 50.0), (400, 390.0)]), &Vec::new());
        assert_eq!(short(&lives), [(50, 1, true), (390, 1, true)]);
    }

    #[test]
    fn a_counter_that_falls_tells_between_which_times() {
        let at = samples(&[100, 160, 220, 280]);
        let lives = of_service(&at, &Vec::new(), &told(&[(100, 9.0), (160, 12.0), (220, 1.0), (280, 3.0)]));
        assert_eq!(short(&lives), [(100, 2, false), (190, 2, false)]);
        assert_eq!(lives.lives[1].start, LifeStart::Inferred { uncertainty_us: 30 * S });
    }
}
