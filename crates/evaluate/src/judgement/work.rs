//! What services did beside using memory, from the observations of the agent.

use crate::analysis::{Flag, Measure, Spent, Work};
use heaptrial_model::{REQUESTS_FAILED_AND_TRIED, TorFlag, WorkKind, WorkMeasure};
use heaptrial_store::{LifeRecord, SpentPoint, Store, StoreError};

/// Counters of bytes since the start of a life; their sum is its work.
const READ: &str = "tor_read_bytes";
const WRITTEN: &str = "tor_written_bytes";
/// Circuit handshakes since the start of a life that a relay answered, and that it dropped.
const ANSWERED: &str = "tor_handshakes_answered";
const DROPPED: &str = "tor_handshakes_dropped";
const CONNECTIONS: &str = "tor_connections";
/// Bytes that Tor's out-of-memory handler freed since the start of a life.
const OOM: &str = "tor_oom_bytes";
/// A reading is kept where its age is so much above that of the one kept before. What is kept of a life does not
/// depend on how long it goes on: a late look sees what a punctual one would have seen.
const AGE_STEP: f64 = 1.005;

/// Names of what [`traffic_since`] reads.
pub const TRAFFIC: [&str; 2] = [READ, WRITTEN];

/// Bytes read and written by a life since an age in seconds: seconds since 1970, and the counter. Empty where it reports none.
pub fn traffic_since(store: &Store, life: &LifeRecord, age: f64) -> Result<Vec<(f64, f64)>, StoreError> {
    let started = life.started_wall_us as f64 / 1e6;
    let of = |name| store.observations_since(life, name, age);
    let points = together(&of(READ)?, &of(WRITTEN)?);
    Ok(points.into_iter().map(|(age, bytes)| (started + age, bytes)).collect())
}

pub(crate) fn of_life(store: &Store, life: &LifeRecord) -> Result<Work, StoreError> {
    let read = store.observations(life, READ)?;
    let written = store.observations(life, WRITTEN)?;
    let mut flags = Vec::new();
    for name in TorFlag::ALL.iter().copied() {
        let readings = store.observations(life, name.observation())?;
        if !readings.is_empty() {
            flags.push(Flag { name, changes: changes(&readings, |value| value > 0.5) });
        }
    }
    let bytes = sparse(&together(&read, &written));
    let mut measures = Vec::new();
    if !bytes.is_empty() {
        measures.push(Measure::traffic(bytes));
    }
    let (answered, dropped) = (store.observations(life, ANSWERED)?, store.observations(life, DROPPED)?);
    if !answered.is_empty() && !dropped.is_empty() {
        let asked = together(&answered, &dropped);
        measures.push(Measure::failed("handshakes", sparse(&dropped), sparse(&asked)));
    }
    measures.extend(of_load(store, life)?);
    Ok(Work {
        measures,
        connections: sparse(&store.observations(life, CONNECTIONS)?),
        oom_bytes: changes(&store.observations(life, OOM)?, |value| value),
        flags,
        spent: Spent::default(),
    })
}

/// Everything known of a life that a lab started: also what its load and itself reported of its work, and what that took.
pub(crate) fn of_lab_life(store: &Store, life: &LifeRecord) -> Result<Work, StoreError> {
    let mut work = of_life(store, life)?;
    for name in store.observed(life.id)? {
        let Some(measure) = WorkMeasure::of_observation(&name) else { continue };
        let readings = store.observations(life, &name)?;
        let finite = readings.into_iter().filter(|(_, value)| value.is_finite());
        let readings: Vec<(f32, f64)> = finite.map(|(age, value)| (age as f32, value)).collect();
        work.measures.push(match measure.kind {
            WorkKind::Rate => Measure::rate(&measure.name, readings),
            WorkKind::Less => Measure::took(&measure.name, readings),
            WorkKind::Count if readings.len() == 1 => Measure::done(&measure.name, since_nothing(readings)),
            WorkKind::Count => Measure::done(&measure.name, readings),
        });
    }
    let [failed, tried] = REQUESTS_FAILED_AND_TRIED.map(|name| store.observations(life, name));
    let counted =
        |counter: Vec<(f64, f64)>| since_nothing(counter.into_iter().map(|(age, count)| (age as f32, count)));
    let (failed, tried) = (counted(failed?), counted(tried?));
    if tried.len() > 1 {
        work.measures.push(Measure::failed("requests of the load", failed, tried));
    }
    if !work.measures.is_empty() {
        let points = store.spent(life)?;
        let of = |value: fn(&SpentPoint) -> f64| {
            points.iter().map(|point| (point.age_seconds as f32, value(point))).collect()
        };
        work.spent =
            Spent { cpu_seconds: of(|point| point.cpu_seconds), page_faults: of(|point| point.page_faults) };
    }
    Ok(work)
}

/// A counter that begins with nothing: tools report once, at their end, how many of all there were. A share of one in another does not
/// depend on when they began.
fn since_nothing(counter: impl IntoIterator<Item = (f32, f64)>) -> Vec<(f32, f64)> {
    std::iter::once((0.0, 0.0)).chain(counter).collect()
}

/// What the lab's clients got of a relay: documents, requests that were answered, clients that were served, circuits.
fn of_load(store: &Store, life: &LifeRecord) -> Result<Vec<Measure>, StoreError> {
    let documents = store.observations(life, "load_documents")?;
    let refused = store.observations(life, "load_requests_refused")?;
    let failed = store.observations(life, "load_clients_failed")?;
    let attempted = store.observations(life, "load_clients_attempted")?;
    let made = store.observations(life, "load_circuits_made")?;
    let unmade = store.observations(life, "load_circuits_failed")?;
    let mut measures = Vec::new();
    if !documents.is_empty() {
        let requests = together(&documents, &refused);
        measures.push(Measure::done("documents", sparse(&documents)));
        measures.push(Measure::failed("requests", sparse(&refused), sparse(&requests)));
    }
    if !attempted.is_empty() {
        measures.push(Measure::failed("clients", sparse(&failed), sparse(&attempted)));
    }
    if made.iter().any(|(_, made)| *made > 0.0) {
        let asked = together(&made, &unmade);
        measures.push(Measure::failed("handshakes", sparse(&unmade), sparse(&asked)));
    }
    Ok(measures)
}

/// The sums of two counters that are read together; of one alone, that one.
fn together(first: &[(f64, f64)], second: &[(f64, f64)]) -> Vec<(f64, f64)> {
    match (first, second) {
        (one, []) | ([], one) => one.to_vec(),
        _ => {
            let other = |age: f64| {
                let place = second.binary_search_by(|point| point.0.total_cmp(&age)).ok()?;
                second.get(place).map(|point| point.1)
            };
            first.iter().filter_map(|point| Some((point.0, point.1 + other(point.0)?))).collect()
        }
    }
}

fn sparse(points: &[(f64, f64)]) -> Vec<(f32, f64)> {
    let mut kept: Vec<(f32, f64)> = Vec::new();
    let mut next = f64::NEG_INFINITY;
    for (age, value) in points.iter().filter(|point| point.1.is_finite()) {
        if *age >= next {
            kept.push((*age as f32, *value));
            next = age * AGE_STEP;
        }
    }
    kept
}

/// The first value and each that differs from the one before.
fn changes<T: PartialEq>(points: &[(f64, f64)], value: impl Fn(f64) -> T) -> Vec<(f32, T)> {
    let mut kept: Vec<(f32, T)> = Vec::new();
    for (age, found) in points.iter().filter(|point| point.1.is_finite()) {
        let found = value(*found);
        if kept.last().is_none_or(|last| last.1 != found) {
            kept.push((*age as f32, found));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_counter_does_not_depend_on_what_follows() {
        let points: Vec<(f64, f64)> = (0..20_000).map(|i| (f64::from(i) * 60.0, f64::from(i))).collect();
        let (all, part) = (sparse(&points), sparse(&points[..7_000]));
        assert_eq!(all[..part.len()], part);
        assert!(all.len() < 2_000 && part.last().unwrap().0 > 0.99 * 60.0 * 6_999.0);
    }

    #[test]
    fn counters_are_summed_where_both_were_read() {
        let (read, written) = ([(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)], [(1.0, 1.0), (3.0, 3.0)]);
        assert_eq!(together(&read, &written), [(1.0, 11.0), (3.0, 33.0)]);
        assert_eq!(together(&read, &[]), read);
    }

    #[test]
    fn of_a_flag_only_changes_are_kept() {
        let readings = [(1.0, 0.0), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0), (5.0, 0.0)];
        assert_eq!(changes(&readings, |value| value > 0.5), [(1.0, false), (3.0, true), (5.0, false)]);
    }
}
