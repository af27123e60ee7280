//! What is imported from a store of series, compared with the readings that were put into it.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{LifeStart, Metric};
use heaptrial_store::{ImportedSample, ImportedTrial};

/// A life: its start in seconds since 1970, and readings as milliseconds since 1970 and bytes.
pub type Life = (f64, Vec<(i64, u64)>);

/// Clocks of hosts and store may be so far apart at the edge of a step, in milliseconds.
const APART_MS: i64 = 60_000;
/// A store shows the last value of a series without a mark of its end for so long, in milliseconds.
const LOOKBACK_MS: i64 = 300_000;

fn bytes_of(sample: &ImportedSample, metric: Metric) -> u64 {
    match metric {
        Metric::Anon => sample.anon_bytes.unwrap() + sample.swap_bytes.unwrap(),
        Metric::Cgroup => sample.cgroup_current_bytes.unwrap(),
        Metric::Rss | Metric::Pss => sample.rss_bytes,
    }
}

/// The arm of each service and its lives, with readings at the middle of their steps.
pub fn found(trial: &ImportedTrial) -> BTreeMap<String, (String, Vec<(LifeStart, Life)>)> {
    let services = trial.services.iter().map(|service| {
        let arm = trial.plan.arms[service.service.arm].name.clone();
        let lives = service.lives.iter().map(|life| {
            let readings = life.samples.iter();
            let readings =
                readings.map(|sample| (sample.wall_us / 1000, bytes_of(sample, trial.plan.metric)));
            (life.start, (life.started_wall_us as f64 / 1e6, readings.collect()))
        });
        (service.service.name.clone(), (arm, lives.collect()))
    });
    services.collect()
}

/// Every reading is a median of readings of the life that it is of, and every step that is of one life has one.
#[track_caller]
pub fn same(what: &str, found: &[(LifeStart, Life)], drawn: &[Life], step_ms: i64) {
    let end_of = |at: i64| (at + step_ms - 1).div_euclid(step_ms) * step_ms;
    for (start, (started, readings)) in found {
        let near = |life: &&Life| (life.0 - started).abs() <= 1.001;
        let life = drawn.iter().find(near).filter(|_| *start == LifeStart::Observed);
        let (_, own) = life.unwrap_or_else(|| panic!("{what}: no life began at {started} ({start:?})"));
        for (middle, bytes) in readings {
            let within =
                own.iter().filter(|(at, _)| end_of(*at) == middle + step_ms / 2).map(|(_, own)| *own);
            let (least, most) = (within.clone().min(), within.max());
            let is_shown_after_the_end =
                own.last().is_some_and(|(at, last)| last == bytes && middle - step_ms / 2 - at < LOOKBACK_MS);
            assert!(
                is_shown_after_the_end || least.is_some_and(|least| least <= *bytes) && most >= Some(*bytes),
                "{what}: {bytes} at {middle} in the life of {started}: {least:?} to {most:?}"
            );
        }
    }
    for (number, (started, readings)) in drawn.iter().enumerate() {
        let from_ms = (started * 1e3) as i64 + APART_MS;
        let next_ms = drawn.get(number + 1).map_or(i64::MAX, |next| (next.0 * 1e3) as i64 - APART_MS);
        let is_whole = |end: &i64| end - step_ms >= from_ms && *end <= next_ms;
        // It ran through a step if it was read in the next one, too: exporters report zeros of what ended.
        let ends: BTreeSet<i64> = readings.iter().map(|(at, _)| end_of(*at)).collect();
        let runs_on = |end: &i64| ends.contains(&(end + step_ms));
        let steps: Vec<i64> = ends.iter().copied().filter(is_whole).filter(runs_on).collect();
        let life = found.iter().find(|(_, life)| (life.0 - started).abs() <= 1.001);
        let own: Vec<i64> =
            life.map_or_else(Vec::new, |(_, life)| life.1.iter().map(|(at, _)| at + step_ms / 2).collect());
        let missing: Vec<&i64> = steps.iter().filter(|end| !own.contains(end)).collect();
        assert!(missing.is_empty(), "{what}: of the life of {started} these steps are missing: {missing:?}");
    }
}
