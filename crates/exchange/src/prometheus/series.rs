//! What a store has of each service: the readings of a step as their median and their maximum, computed by the store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Queries;
use super::client::{Client, Labels, time};
use super::query::over_time;
use crate::ImportError;
use crate::problem::escape_name;

/// Steps that are asked for at once: Prometheus gives 11,000 at most, and a thousand services have a million values then.
const STEPS_AT_ONCE: i64 = 1_000;
/// From 2000 to 2199, in seconds since 1970: other starts are by a clock that was not set, or of what does not run.
const YEARS_SECONDS: Range<f64> = 946_684_800.0..7_258_118_400.0;

/// Values by the end of their step, in microseconds since 1970.
pub(super) type Values = BTreeMap<i64, f64>;

/// What the store has of one service.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    pub memory: Values,
    pub highest: Values,
    /// The latest start that was reported in each step, in seconds since 1970: exporters report less of what does not run.
    pub start: Values,
    /// Above 0 where it did not always run its arm's treatment.
    pub contaminated: Values,
    /// From which step on it has which value of the label of arms.
    pub arms: Vec<(i64, String)>,
    /// The server that the label of its last series names; empty without such a label.
    pub server: String,
}

/// Everything that was asked for.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub services: BTreeMap<String, Series>,
    /// Series of memory that lack a label that names the service.
    pub unnamed: BTreeSet<Labels>,
    /// Steps whose memory is zero or no number of bytes: exporters report that of what does not run.
    pub no_memory: u64,
    /// Series of containers that hold nothing but the names that a pod's containers share.
    pub pauses: BTreeSet<Labels>,
    pub warnings: Vec<String>,
}

type Field = fn(&mut Series) -> &mut Values;

impl Fetched {
    pub fn fetch(
        client: &Client,
        queries: &Queries,
        asked: &Range<i64>,
        step_us: i64,
    ) -> Result<Self, ImportError> {
        let mut fetched = Self::default();
        let memory = queries.with_swap();
        let ask = |fetched: &mut Self, function: &str, query: &str| {
            let question = over_time(function, query, step_us);
            fetched.ask(client, (&question, query), queries, asked, step_us)
        };
        let medians = ask(&mut fetched, "quantile_over_time(0.5, ", &memory)?;
        fetched.services = medians
            .into_iter()
            .map(|(name, Joined { values, arms, server })| {
                let before = values.len();
                let memory: Values =
                    values.into_iter().filter(|(_, bytes)| (1.0..u64::MAX as f64).contains(bytes)).collect();
                fetched.no_memory += (before - memory.len()) as u64;
                (name, Series { memory, arms, server, ..Series::default() })
            })
            .filter(|(_, series)| !series.memory.is_empty())
            .collect();
        let further: [(Option<&str>, Field); 3] = [
            (Some(&memory), |series| &mut series.highest),
            (queries.start.as_deref(), |series| &mut series.start),
            (queries.contaminated.as_deref(), |series| &mut series.contaminated),
        ];
        for (query, field) in further {
            let Some(query) = query else { continue };
            for (name, joined) in ask(&mut fetched, "max_over_time(", query)? {
                if let Some(series) = fetched.services.get_mut(&name) {
                    *field(series) =
                        joined.values.into_iter().filter(|(_, value)| value.is_finite()).collect();
                }
            }
        }
        if let Some(query) = &queries.start {
            fetched.check_starts(query)?;
        }
        Ok(fetched)
    }

    /// Asks one question of the whole time, and puts the series of each service one after the other.
    fn ask(
        &mut self,
        client: &Client,
        (question, query): (&str, &str),
        queries: &Queries,
        asked: &Range<i64>,
        step_us: i64,
    ) -> Result<BTreeMap<String, Joined>, ImportError> {
        let mut by_service: BTreeMap<String, BTreeMap<Labels, Values>> = BTreeMap::new();
        let mut unnamed = BTreeSet::new();
        let mut from = asked.start.div_euclid(step_us) * step_us + step_us;
        while from <= asked.end {
            let to = (from + (STEPS_AT_ONCE - 1) * step_us).min(asked.end);
            for series in client.series(question, (from, to), step_us, &mut self.warnings)? {
                if is_pause(&series.metric) {
                    self.pauses.insert(series.metric);
                    continue;
                }
                let Some(name) = name(&series.metric, &queries.service_labels) else {
                    unnamed.insert(series.metric);
                    continue;
                };
                let values = by_service.entry(name).or_default().entry(series.metric).or_default();
                values.extend(series.values.iter().map(|point| (point.0, point.1)));
            }
            from = to + step_us;
        }
        if let Some(labels) = unnamed.first().filter(|_| by_service.is_empty()) {
            return Err(no_label(query, labels, &queries.service_labels));
        }
        self.unnamed.extend(unnamed);
        let join = |(service, series): (String, BTreeMap<Labels, Values>)| {
            let joined = joined(query, &service, &series, queries, step_us)?;
            Ok((service, joined))
        };
        by_service.into_iter().map(join).collect()
    }

    /// Refuses a query whose values are mostly no starts; forgets the others that are none.
    fn check_starts(&mut self, query: &str) -> Result<(), ImportError> {
        let is_start = |seconds: &f64| YEARS_SECONDS.contains(seconds);
        // Less is reported of what does not run.
        let reported =
            self.services.values().flat_map(|series| series.start.values()).filter(|value| **value >= 1.0);
        let (usable, others): (Vec<f64>, Vec<f64>) = reported.partition(|value| is_start(value));
        if let Some(value) = others.first().filter(|_| others.len() > usable.len()) {
            return Err(ImportError::Refused(format!(
                "{query} gives {value}, and most of its values are alike: that is no start in seconds since 1970. Divide milliseconds by \
                 1000 in --start; of an uptime, `timestamp(UPTIME) - UPTIME` makes starts; leave --start out where there are none"
            )));
        }
        self.services.values_mut().for_each(|series| series.start.retain(|_, seconds| is_start(seconds)));
        Ok(())
    }
}

/// What the labels call a service; `None` where one is missing.
fn name(labels: &Labels, names: &[String]) -> Option<String> {
    let value = |name: &String| labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let parts: Option<Vec<&str>> = names.iter().map(value).collect();
    parts.map(|parts| escape_name(&parts.join("/")))
}

/// Whether a container is a pod's pause container, by the names that Kubernetes has for it.
fn is_pause(labels: &Labels) -> bool {
    let image = labels.get("image").and_then(|image| image.rsplit('/').next());
    let is_pause = |image: &str| image.split([':', '@']).next() == Some("pause");
    labels.get("container").is_some_and(|name| name == "POD") || image.is_some_and(is_pause)
}

fn no_label(query: &str, labels: &Labels, names: &[String]) -> ImportError {
    let missing = names.iter().find(|name| !labels.contains_key(*name)).or(names.first());
    let known: Vec<&str> = labels.keys().map(String::as_str).filter(|name| *name != "__name__").collect();
    ImportError::Refused(format!(
        "no series of {query} has the label `{}`; the labels are: {}",
        missing.map_or("", String::as_str),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    ))
}

/// The series of one service one after the other.
struct Joined {
    values: Values,
    arms: Vec<(i64, String)>,
    server: String,
}

/// A store shows the last value of a series for so long after it ended, where nothing marks the
/// end (Prometheus's default for `--query.lookback-delta`).
const LOOKBACK_US: i64 = 300_000_000;

/// Labels may change, so that two series have values in the step of the change, and in those that the last value of the old one
/// reaches into: the later one counts. If they go on alongside each other, they are two things, unless they differ in
/// the label of replicas alone.
fn joined(
    query: &str,
    service: &str,
    series: &BTreeMap<Labels, Values>,
    queries: &Queries,
    step_us: i64,
) -> Result<Joined, ImportError> {
    let mut in_order: Vec<(&Labels, &Values)> = series.iter().collect();
    in_order.sort_by_key(|(_, values)| values.first_key_value().map(|(at, _)| *at));
    let mut at: BTreeMap<i64, Vec<(&Labels, f64)>> = BTreeMap::new();
    for (labels, values) in in_order {
        values.iter().for_each(|(end, value)| at.entry(*end).or_default().push((labels, *value)));
    }
    let mut joined = Joined { values: Values::new(), arms: Vec::new(), server: String::new() };
    let most_together = 1 + (LOOKBACK_US + step_us - 1) / step_us;
    // The end of a step in which two series had values, which, and for how many steps.
    let mut together: Option<(i64, [&Labels; 2], i64)> = None;
    for (end, mut present) in at {
        let first = present[0].0;
        if present.iter().all(|(labels, _)| are_replicas(labels, first, queries.replica_label.as_deref())) {
            present.truncate(1);
        }
        if let [.., (other, _), (last, _)] = present[..] {
            let before = together.filter(|(at, both, _)| (*at, *both) == (end - step_us, [other, last]));
            let steps = before.map_or(0, |(_, _, steps)| steps) + 1;
            if steps > most_together {
                return Err(ImportError::Refused(format!(
                    "{query} has two series of the service {service} at the same time ({}): {} and {}\n  \
                     if two servers scraped one service, name the label of the server by --replica-label; if these are two services, \
                     name the label that differs by --service-label; if they are two parts of one, add them up in the query \
                     (sum by (...) (...))",
                    time(end),
                    only(other, last),
                    only(last, other)
                )));
            }
            together = Some((end, [other, last], steps));
        }
        let Some((labels, value)) = present.pop() else { continue };
        joined.values.insert(end, value);
        let arm = queries.arm_label.as_ref().and_then(|label| labels.get(label));
        // A label that was missing for a while is no other arm.
        if let Some(arm) = arm.map(|arm| escape_name(arm)).filter(|arm| !arm.is_empty())
            && joined.arms.last().is_none_or(|(_, last)| *last != arm)
        {
            joined.arms.push((end, arm));
        }
        if let Some(label) = labels.get(&queries.server_label) {
            joined.server = escape_name(host_of(label));
        }
    }
    Ok(joined)
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
    let own = |labels: &Labels| -> Labels {
        let own = labels.iter().filter(|(name, _)| Some(name.as_str()) != replica_label);
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    labels == other || own(labels) == own(other)
}

/// Labels that another series does not have.
fn only(labels: &Labels, other: &Labels) -> String {
    let own = labels.iter().filter(|(name, value)| other.get(*name) != Some(value));
    let own: Vec<String> = own.map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{{}}}", own.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
