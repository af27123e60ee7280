//! What a store tells of each service.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use super::Queries;
use super::client::{Client, Labels, time};
use super::error::PrometheusError;
use super::query::is_selector;
use super::spool::{Piece, Spool};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 86_400_000_000;
/// Points of one series in one answer: Prometheus gives 11,000 at most.
const POINTS_AT_MOST: i64 = 10_000;
/// Values in one answer, some 25 bytes each: spans are asked for that should have so many.
const POINTS_AT_ONCE: i64 = 500_000;
/// A span is at most so many times the one before: a fleet may begin in it.
const LONGER: i64 = 8;
/// A series was away where its values are further apart than so many of its usual distances.
const AWAY: f64 = 2.5;
/// What is usual is told by so many distances on each side.
const NEAR: usize = 20;

/// Values of one thing of a service, in order of time (microseconds since 1970), each time once.
pub(super) type Values = Vec<(i64, f64)>;

/// What is told of one service.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub memory: Values,
    pub swap: Values,
    /// Start, in seconds since 1970.
    pub start: Values,
    /// A counter that begins at nothing with each start.
    pub counter: Values,
    /// 1 while it does not run its arm's treatment.
    pub contaminated: Values,
}

/// The same in a spool.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// In the order of [`Told`].
    parts: [Piece; PARTS],
    /// Since when it has which value of the label of arms.
    pub arms: Vec<(i64, String)>,
    /// The server that the label of its last series names; empty without such a label.
    pub server: String,
}

const PARTS: usize = 5;
/// From 2000 to 2199, in seconds since 1970: other starts are by a clock that was not set, or of what does not run.
const YEARS_SECONDS: Range<f64> = 946_684_800.0..7_258_118_400.0;
const START: usize = 2;

/// Whether starts are what they are taken for.
#[derive(Debug, Default)]
struct ToldStarts {
    usable: usize,
    others: usize,
    /// One of these, with its service.
    other: Option<(String, f64)>,
}

impl ToldStarts {
    fn count(&mut self, service: &str, values: &Values) {
        // Less is told of what does not run.
        let told = values.iter().map(|(_, value)| *value).filter(|value| *value >= 1.0);
        for value in told {
            if YEARS_SECONDS.contains(&value) {
                self.usable += 1;
            } else {
                self.others += 1;
                self.other.get_or_insert_with(|| (service.to_owned(), value));
            }
        }
    }

    fn check(self, query: &str) -> Result<(), PrometheusError> {
        let Some((service, value)) = self.other.filter(|_| self.others > self.usable) else { return Ok(()) };
        let likely = if YEARS_SECONDS.contains(&(value / 1e3)) {
            "it seems to be in milliseconds; divide it by 1000 in --start"
        } else {
            "of an uptime, `timestamp(UPTIME) - UPTIME` in --start makes starts; leave --start out where nothing tells them"
        };
        Err(PrometheusError::NoStarts { query: query.to_owned(), service, value, likely })
    }
}

/// Everything that was asked for.
#[derive(Debug)]
pub(super) struct Fetched {
    spool: Spool,
    pub services: BTreeMap<String, Kept>,
    /// Series of memory that lack a label that names the service.
    pub unnamed: BTreeSet<Labels>,
    /// Values that are no number of bytes, and zeros: an exporter tells them of what does not run.
    pub no_memory: u64,
    /// Series of containers that hold nothing but the names that a pod's containers share.
    pub pauses: BTreeSet<Labels>,
    /// What the store warned of.
    pub warnings: Vec<String>,
}

/// Series of each service, in pieces of the spans in which they were asked for.
type OfService = BTreeMap<String, BTreeMap<Labels, Vec<Piece>>>;

/// What of its values is held, by what there is of memory.
type Held = fn(Values, &Values) -> Values;

impl Fetched {
    /// Asks for everything, span by span. What is not at work is kept beside the database.
    pub fn fetch(
        client: &Client,
        queries: &Queries,
        asked: Range<i64>,
        step_us: i64,
        database: &Path,
    ) -> Result<Self, PrometheusError> {
        let mut fetched = Self {
            spool: Spool::beside(database)?,
            services: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            no_memory: 0,
            pauses: BTreeSet::new(),
            warnings: Vec::new(),
        };
        let parts: [(Option<&str>, Held); PARTS] = [
            (Some(&queries.memory), |values, _| values),
            (queries.swap.as_deref(), used),
            (queries.start.as_deref(), |values, _| changes(&values)),
            (queries.counter.as_deref(), used),
            (queries.contaminated.as_deref(), used),
        ];
        for (index, (query, held)) in parts.into_iter().enumerate() {
            let Some(query) = query else { continue };
            let mut answers = Spool::beside(database)?;
            let mut told_starts = ToldStarts::default();
            let is_memory = index == 0;
            let all = fetched.ask(client, (query, queries), &asked, step_us, is_memory, &mut answers)?;
            for (service, series) in all {
                if !is_memory && !fetched.services.contains_key(&service) {
                    continue;
                }
                let mut by_labels: BTreeMap<&Labels, Values> = BTreeMap::new();
                for (labels, pieces) in &series {
                    let values = by_labels.entry(labels).or_default();
                    for piece in pieces {
                        values.extend(answers.values(*piece)?);
                    }
                }
                let Joined { values, arms, server } = joined(query, &service, by_labels, queries)?;
                if index == START {
                    told_starts.count(&service, &values);
                }
                let bytes = index < 2;
                let values: Values = values.into_iter().filter(|(at, _)| asked.contains(at)).collect();
                let before = values.len();
                let values: Values = values
                    .into_iter()
                    .filter(|(_, value)| {
                        // What is all in swap has none resident.
                        let least = if is_memory && queries.swap.is_none() { 1.0 } else { 0.0 };
                        let usable = match index {
                            START => YEARS_SECONDS.contains(value),
                            _ => value.is_finite() && *value >= least,
                        };
                        usable && (!bytes || *value < u64::MAX as f64)
                    })
                    .collect();
                let kept = fetched.services.entry(service).or_default();
                let values = if is_memory {
                    fetched.no_memory += (before - values.len()) as u64;
                    kept.arms = arms;
                    kept.server = server;
                    thinned(values, step_us)
                } else {
                    held(values, &fetched.spool.values(kept.parts[0])?)
                };
                kept.parts[index] = fetched.spool.put_values(&values)?;
            }
            told_starts.check(query)?;
        }
        Ok(fetched)
    }

    /// What is told of a service.
    pub fn told(&self, kept: &Kept) -> Result<Told, PrometheusError> {
        let [memory, swap, start, counter, contaminated] = kept.parts.map(|piece| self.spool.values(piece));
        Ok(Told {
            memory: memory?,
            swap: swap?,
            start: start?,
            counter: counter?,
            contaminated: contaminated?,
        })
    }

    /// Asks for one query, and puts the answers into a spool.
    fn ask(
        &mut self,
        client: &Client,
        (query, queries): (&str, &Queries),
        asked: &Range<i64>,
        step_us: i64,
        is_memory: bool,
        answers: &mut Spool,
    ) -> Result<OfService, PrometheusError> {
        let mut all = OfService::new();
        let mut first_labels = None;
        let longest = if is_selector(query) { DAY_US } else { DAY_US.min(POINTS_AT_MOST * step_us) };
        let mut window = HOUR_US;
        // Expressions are evaluated at whole steps, so that a later import goes on in the same rhythm.
        let whole_steps = |span: i64| (span / step_us).max(1) * step_us;
        let mut from = asked.start.div_euclid(step_us) * step_us;
        while from < asked.end {
            let to = (from + whole_steps(window)).min(asked.end);
            let answer = client.series(query, (from, to), step_us, &mut self.warnings)?;
            let points: usize = answer.iter().map(|series| series.values.len()).sum();
            let share = POINTS_AT_ONCE as f64 / points.max(1) as f64;
            window = (((to - from) as f64 * share) as i64).min(LONGER * (to - from)).min(longest);
            for series in answer {
                if is_pause(&series.metric) {
                    if is_memory {
                        self.pauses.insert(series.metric);
                    }
                    continue;
                }
                first_labels.get_or_insert_with(|| series.metric.clone());
                match name(&series.metric, &queries.service_labels) {
                    Some(name) => {
                        let values = series.values.iter();
                        let values = values.flat_map(|point| [point.0 as u64, point.1.to_bits()]);
                        let piece = answers.put(values)?;
                        all.entry(name).or_default().entry(series.metric).or_default().push(piece);
                    }
                    None if is_memory => drop(self.unnamed.insert(series.metric)),
                    None => {}
                }
            }
            from = to;
        }
        match first_labels.filter(|_| all.is_empty()) {
            Some(labels) => Err(no_label(query, &labels, &queries.service_labels)),
            None => Ok(all),
        }
    }
}

/// What the labels call a service; `None` where one is missing.
fn name(labels: &Labels, names: &[String]) -> Option<String> {
    let parts: Option<Vec<&str>> = names
        .iter()
        .map(|name| labels.get(name).map(String::as_str).filter(|value| !value.is_empty()))
        .collect();
    parts.map(|parts| crate::problem::escape_name(&parts.join("/")))
}

/// Whether a container is a pod's pause container, by the names that Kubernetes has for it.
fn is_pause(labels: &Labels) -> bool {
    let image = labels.get("image").and_then(|image| image.rsplit('/').next());
    let is_pause = |image: &str| image.split([':', '@']).next() == Some("pause");
    labels.get("container").is_some_and(|name| name == "POD") || image.is_some_and(is_pause)
}

fn no_label(query: &str, labels: &Labels, names: &[String]) -> PrometheusError {
    let missing = names.iter().find(|name| !labels.contains_key(*name)).or(names.first());
    let known: Vec<&str> = labels.keys().map(String::as_str).filter(|name| *name != "__name__").collect();
    PrometheusError::NoLabel {
        query: query.to_owned(),
        label: missing.cloned().unwrap_or_default(),
        labels: if known.is_empty() { "none".into() } else { known.join(", ") },
    }
}

/// The series of one service one after the other.
struct Joined {
    values: Values,
    /// Since when which arm is told.
    arms: Vec<(i64, String)>,
    /// The server that the last one names.
    server: String,
}

/// Puts the series of one service one after the other.
///
/// Of what several servers scraped, one counts as long as it goes on, and then another: their clocks are not quite the same.
fn joined(
    query: &str,
    service: &str,
    mut by_labels: BTreeMap<&Labels, Values>,
    queries: &Queries,
) -> Result<Joined, PrometheusError> {
    for values in by_labels.values_mut() {
        values.sort_by_key(|(at, _)| *at);
        values.dedup_by_key(|(at, _)| *at);
    }
    let mut parts: Vec<(&Labels, &[(i64, f64)])> =
        by_labels.iter().flat_map(|(labels, values)| runs(values).map(|run| (*labels, run))).collect();
    parts.sort_by_key(|(_, values)| values[0].0);
    let mut all: Values = Vec::new();
    let mut arms: Vec<(i64, String)> = Vec::new();
    let mut server = String::new();
    let arm_label = queries.arm_label.as_deref();
    let replica_label = queries.replica_label.as_deref();
    for (index, (labels, values)) in parts.iter().enumerate() {
        let mut values = *values;
        if let Some((last, _)) = all.last().copied().filter(|(last, _)| *last >= values[0].0) {
            let before =
                parts[..index].iter().rfind(|(_, values)| values.last().is_some_and(|v| v.0 == last));
            let other = before.map_or(*labels, |(labels, _)| *labels);
            if !are_replicas(labels, other, replica_label) {
                return Err(PrometheusError::Ambiguous {
                    query: query.to_owned(),
                    service: service.to_owned(),
                    time: time(values[0].0),
                    first: only(other, labels),
                    second: only(labels, other),
                });
            }
            values = &values[values.partition_point(|(at, _)| *at <= last)..];
            if values.is_empty() {
                continue;
            }
        }
        all.extend_from_slice(values);
        let arm = arm_label.and_then(|label| labels.get(label)).map_or("", String::as_str);
        if arms.last().is_none_or(|(_, last)| last != arm) {
            arms.push((values[0].0, crate::problem::escape_name(arm)));
        }
        if let Some(label) = labels.get(&queries.server_label) {
            server = crate::problem::escape_name(host_of(label));
        }
    }
    Ok(Joined { values: all, arms, server })
}

/// The host of an `instance` such as `relay.example.org:9256`.
fn host_of(label: &str) -> &str {
    match label.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => label,
    }
}

/// Whether two series are one that several servers scraped.
fn are_replicas(labels: &Labels, other: &Labels, replica_label: Option<&str>) -> bool {
    let Some(replica_label) = replica_label else { return false };
    let own = |labels: &Labels| -> Labels {
        let mut labels = labels.clone();
        labels.remove(replica_label);
        labels
    };
    own(labels) == own(other)
}

/// The values of a series without those spans in which it was away: labels may change and come back.
fn runs(values: &Values) -> impl Iterator<Item = &[(i64, f64)]> {
    let distances: Vec<i64> = values.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let mut index = 0;
    values.chunk_by(move |a, b| {
        let usual = usual_around(&distances, index);
        index += 1;
        b.0 - a.0 <= (usual as f64 * AWAY) as i64
    })
}

/// The usual distance before or behind one of them, whichever is longer: how often is scraped may have been changed.
fn usual_around(distances: &[i64], index: usize) -> i64 {
    let median = |distances: &[i64]| {
        let mut sorted = distances.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    let before = median(&distances[index.saturating_sub(NEAR)..index]);
    let behind = median(&distances[index + 1..distances.len().min(index + 1 + NEAR)]);
    before.max(behind).unwrap_or(distances[index])
}

/// Labels that another series does not have.
fn only(labels: &Labels, other: &Labels) -> String {
    let own = labels.iter().filter(|(name, value)| other.get(*name) != Some(value));
    let own: Vec<String> = own.map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{{}}}", own.join(", "))
}

/// Values without those that are as the one before and the one behind them: what is told again and again.
pub(super) fn changes(values: &Values) -> Values {
    let again = |index: usize| {
        let around = index.checked_sub(1).and_then(|before| values.get(before..=index + 1));
        around.is_some_and(|around| around.iter().all(|(_, value)| *value == around[0].1))
    };
    (0..values.len()).filter(|index| !again(*index)).map(|index| values[index]).collect()
}

/// Of values those that count for a reading of memory, the last before it, and those around which they fall.
pub(super) fn used(values: Values, memory: &Values) -> Values {
    let mut kept = Values::new();
    let mut readings = memory.iter().map(|(at, _)| *at).peekable();
    for (index, (at, value)) in values.iter().enumerate() {
        let next = values.get(index + 1);
        let before = index.checked_sub(1).and_then(|before| values.get(before));
        let falls =
            next.is_some_and(|(_, next)| next < value) || before.is_some_and(|(_, before)| value < before);
        let mut counts = false;
        while readings.peek().is_some_and(|reading| next.is_none_or(|(next, _)| reading < next)) {
            counts |= readings.next().is_some_and(|reading| reading >= *at);
        }
        if counts || falls {
            kept.push((*at, *value));
        }
    }
    // That there is something is known by one that counts for nothing, too.
    if kept.is_empty() {
        kept.extend(values.last());
    }
    kept
}

/// The first value of each step.
pub(super) fn thinned(values: Values, step_us: i64) -> Values {
    let mut kept = Values::new();
    for (at, value) in values {
        if kept.last().is_none_or(|(last, _)| last.div_euclid(step_us) != at.div_euclid(step_us)) {
            kept.push((at, value));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_again_is_not_held() {
        let told = [(1, 5.0), (2, 5.0), (3, 5.0), (4, 9.0), (5, 5.0), (6, 5.0), (7, 5.0)].to_vec();
        assert_eq!(changes(&told), [(1, 5.0), (3, 5.0), (4, 9.0), (5, 5.0), (7, 5.0)]);
        assert_eq!(changes(&told[..1].to_vec()), [(1, 5.0)]);
        assert_eq!(changes(&Values::new()), []);
    }

    #[test]
    fn a_port_is_no_part_of_a_host() {
        for (instance, host) in [
            ("a.example.org:9256", "a.example.org"),
            ("10.0.0.1:9100", "10.0.0.1"),
            ("[::1]:9100", "[::1]"),
            ("node-3", "node-3"),
            ("https://a/metrics", "https://a/metrics"),
            ("a:", "a:"),
        ] {
            assert_eq!(host_of(instance), host);
        }
    }

    #[test]
    fn what_no_reading_needs_is_not_held() {
        let counter: Values = (0..20).map(|second| (second, second as f64)).collect();
        let memory = [(3, 0.0), (4, 0.0), (12, 0.0), (40, 0.0)].to_vec();
        assert_eq!(used(counter.clone(), &memory), [(3, 3.0), (4, 4.0), (12, 12.0), (19, 19.0)]);
        // A fall is known by the values around it.
        let fallen: Values = counter.iter().map(|(at, value)| (*at, value % 8.0)).collect();
        let told: Vec<i64> = used(fallen, &memory).iter().map(|(at, _)| *at).collect();
        assert_eq!(told, [3, 4, 7, 8, 12, 15, 16, 19]);
        assert_eq!(used(counter[5..].to_vec(), &memory[..1].to_vec()), [(19, 19.0)]);
    }
}
