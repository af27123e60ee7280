//! Process lifetimes of a service: from the starts that the store has, else from falls of memory.

use heaptrial_model::{LifeStart, Metric};
use heaptrial_store::{ImportedLife, ImportedSample};

use super::series::{Series, Values};
use crate::lives::{FALLEN_SHARE_RSS_ALONE, infer};

/// Exporters compute starts from the boot time, in whole seconds and with the clock's own noise.
const WAVERING_US: i64 = 2_000_000;
/// Starts are by the host's clock, readings by the store's: so far they may be apart.
const APART_US: i64 = 60_000_000;

/// The same at the edge of a step, which may be as short as the interval of scrapes.
fn apart_in(step_us: i64) -> i64 {
    APART_US.min(step_us / 10)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lives {
    /// In order, without those that have no reading.
    pub lives: Vec<ImportedLife>,
    /// Ends of steps at which the reported start moved, though nothing shows a restart: the oldest of several processes ended, or a
    /// clock was set. That is no start of the service.
    pub moved: Vec<i64>,
}

/// A life as ends of its steps.
struct Open {
    started_us: i64,
    start: LifeStart,
    ends: Vec<i64>,
}

/// The lives from `since` on. A step in which a start lies is of two lives, and of neither.
pub(super) fn of(series: &Series, metric: Metric, step_us: i64, since: i64) -> Lives {
    if series.start.is_empty() {
        return by_memory(series, metric, step_us, since);
    }
    let (lives, moved) = by_starts(series, step_us);
    let samples = |open: &Open| samples(series, &open.ends, metric, step_us, since);
    let lives = lives.iter().map(|open| {
        let samples = samples(open);
        let first = samples.first().map_or(open.started_us, |sample| sample.wall_us);
        let started_wall_us = if open.start == LifeStart::Unknown { first } else { open.started_us };
        ImportedLife { started_wall_us, start: open.start, contamination: None, samples }
    });
    Lives { lives: lives.filter(|life| !life.samples.is_empty()).collect(), moved }
}

fn by_starts(series: &Series, step_us: i64) -> (Vec<Open>, Vec<i64>) {
    let mut lives: Vec<Open> = Vec::new();
    let mut moved = Vec::new();
    // The start as it was reported last, and when.
    let mut reported: Option<(i64, i64)> = None;
    let mut before: Option<i64> = None;
    for end in series.memory.keys().copied() {
        let start = series.start.get(&end).map(|seconds| (seconds * 1e6) as i64);
        let noise_us = apart_in(step_us).max(WAVERING_US);
        let is_same = |start: i64| reported.is_some_and(|(last, _)| (last - start).abs() <= noise_us);
        match start.filter(|start| !is_same(*start)) {
            Some(start) => {
                // Another start may have been reported late in the step in which the last one was.
                let is_by_a_wrong_clock =
                    reported.is_some_and(|(_, at)| start < at - step_us - APART_US) || start > end + APART_US;
                match (is_by_a_wrong_clock, restarted(series, before, end)) {
                    (true, _) if lives.is_empty() => lives.push(unknown()),
                    (true, false) => moved.push(end),
                    (true, true) => lives.push(begun_between(before, end, step_us)),
                    (false, _) => begin(&mut lives, start.min(end), step_us),
                }
            }
            None if lives.is_empty() => lives.push(unknown()),
            None => {}
        }
        reported = start.map(|start| (start, end)).or(reported);
        take(&mut lives, end, step_us);
        before = Some(end);
    }
    (lives, moved)
}

/// A life that began at `started_us`: what was read since then is of it.
fn begin(lives: &mut Vec<Open>, started_us: i64, step_us: i64) {
    let mut ends = Vec::new();
    if let Some(last) = lives.last_mut() {
        let earlier = last.ends.partition_point(|end| end - step_us < started_us + apart_in(step_us));
        ends = last.ends.split_off(earlier);
        while last.ends.last().is_some_and(|end| *end > started_us) {
            last.ends.pop();
        }
    }
    lives.push(Open { started_us, start: LifeStart::Observed, ends });
}

fn unknown() -> Open {
    Open { started_us: i64::MIN, start: LifeStart::Unknown, ends: Vec::new() }
}

/// A life that began after the step that ended at `before`, and not later than `end`.
fn begun_between(before: Option<i64>, end: i64, step_us: i64) -> Open {
    let uncertainty_us = (end - before.unwrap_or(end - step_us) + 1) / 2;
    let start = LifeStart::Inferred { uncertainty_us };
    Open { started_us: end - uncertainty_us, start, ends: Vec::new() }
}

/// Adds a step to the last life, unless it began within the step.
fn take(lives: &mut [Open], end: i64, step_us: i64) {
    let begins = end - step_us;
    let is_after_start = |open: &&mut Open| match open.start {
        LifeStart::Observed => open.started_us + apart_in(step_us) <= begins,
        _ => open.started_us <= begins,
    };
    if let Some(last) = lives.last_mut().filter(is_after_start) {
        last.ends.push(end);
    }
}

/// Whether memory shows that the service was started again.
fn restarted(series: &Series, before: Option<i64>, end: i64) -> bool {
    let bytes = |at: &i64| series.memory.get(at).copied();
    let share = before.and_then(|before| Some(bytes(&end)? / bytes(&before)?));
    share.is_some_and(|share| share < FALLEN_SHARE_RSS_ALONE)
}

fn by_memory(series: &Series, metric: Metric, step_us: i64, since: i64) -> Lives {
    let ends: Vec<i64> = series.memory.keys().copied().collect();
    let samples = samples(series, &ends, metric, step_us, since);
    // Falls are looked for in resident memory, whatever this is.
    let as_resident = |sample: &ImportedSample| ImportedSample {
        wall_us: sample.wall_us,
        rss_bytes: sample.anon_bytes.or(sample.cgroup_current_bytes).unwrap_or(sample.rss_bytes),
        ..ImportedSample::default()
    };
    let resident: Vec<ImportedSample> = samples.iter().map(as_resident).collect();
    let lives = infer(&resident, &[]).into_iter().map(|life| ImportedLife {
        started_wall_us: life.started_wall_us,
        start: life.start,
        contamination: None,
        samples: samples[life.samples].to_vec(),
    });
    Lives { lives: lives.collect(), moved: Vec::new() }
}

/// Each step is a reading at its middle, but for those in which the service did not always run its arm's treatment.
fn samples(series: &Series, ends: &[i64], metric: Metric, step_us: i64, since: i64) -> Vec<ImportedSample> {
    let above = |values: &Values, end: &i64| values.get(end).is_some_and(|value| *value > 0.0);
    let ends = ends.iter().filter(|end| **end >= since && !above(&series.contaminated, end));
    let sample = |end: &i64| {
        let bytes = *series.memory.get(end)? as u64;
        let highest = series.highest.get(end).map_or(bytes, |highest| (*highest as u64).max(bytes));
        let mut sample = ImportedSample {
            wall_us: end - step_us / 2,
            highest_bytes: Some(highest),
            ..ImportedSample::default()
        };
        match metric {
            Metric::Anon => (sample.anon_bytes, sample.swap_bytes) = (Some(bytes), Some(0)),
            Metric::Cgroup => sample.cgroup_current_bytes = Some(bytes),
            Metric::Rss | Metric::Pss => sample.rss_bytes = bytes,
        }
        Some(sample)
    };
    ends.filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;
    const STEP: i64 = 60 * S;

    fn values(values: &[(i64, f64)]) -> Values {
        values.iter().map(|(at, value)| (at * S, *value)).collect()
    }

    /// Memory at steps that end at these seconds.
    fn read(ends: &[i64]) -> Series {
        Series { memory: ends.iter().map(|end| (end * S, 1e6)).collect(), ..Series::default() }
    }

    /// Starts in seconds, numbers of readings, and whether the start is known.
    fn found(series: &Series) -> (Vec<(i64, usize, bool)>, Vec<i64>) {
        let found = of(series, Metric::Rss, STEP, i64::MIN);
        let short = |life: &ImportedLife| {
            (life.started_wall_us / S, life.samples.len(), life.start == LifeStart::Observed)
        };
        (found.lives.iter().map(short).collect(), found.moved.iter().map(|at| at / S).collect())
    }

    #[test]
    fn a_reported_start_makes_a_life() {
        // The start has noise of a second; the service is restarted at 230, within a step.
        let start = values(&[(120, 50.0), (180, 51.0), (240, 230.0), (300, 229.5)]);
        let series = Series { start, ..read(&[120, 180, 240, 300, 360]) };
        assert_eq!(found(&series), (vec![(50, 2, true), (230, 2, true)], vec![]));
    }

    #[test]
    fn readings_before_the_first_reported_start_are_of_unknown_age() {
        let start = values(&[(300, 170.0)]);
        let series = Series { start, ..read(&[120, 180, 240, 300]) };
        // The step from 120 to 180 has the start in it.
        assert_eq!(found(&series), (vec![(90, 1, false), (170, 2, true)], vec![]));
    }

    #[test]
    fn a_start_that_moves_into_the_life_before_needs_evidence() {
        let start = values(&[(600, 50.0), (660, 50.0), (720, 400.0), (780, 400.0)]);
        let series = Series { start, ..read(&[600, 660, 720, 780]) };
        assert_eq!(found(&series), (vec![(50, 4, true)], vec![720]));
        let memory = values(&[(600, 1e9), (660, 1e9), (720, 2e8), (780, 2e8)]);
        assert_eq!(found(&Series { memory, ..series }).0.len(), 2);
    }

    #[test]
    fn without_starts_a_fall_of_memory_is_a_restart() {
        let memory = values(&[(120, 1e9), (180, 1e9), (240, 2e8)]);
        let series = Series { memory, ..Series::default() };
        assert_eq!(found(&series), (vec![(90, 2, false), (180, 1, false)], vec![]));
    }

    #[test]
    fn what_is_not_of_the_arm_is_no_reading() {
        let contaminated = values(&[(120, 0.0), (180, 1.0), (240, 0.0)]);
        let series = Series { contaminated, start: values(&[(120, 5.0)]), ..read(&[120, 180, 240]) };
        assert_eq!(found(&series).0, [(5, 2, true)]);
        assert_eq!(of(&series, Metric::Rss, STEP, 240 * S).lives[0].samples.len(), 1);
    }
}
