//! The series of one agent, as a store has scraped it.
//!
//! A reading is the median of a span, which the store computes; its maximum comes with it. Where a life begins or ends in a span, or
//! the trial does, the readings are asked for as they were scraped, and the medians are computed here: one over two lives is of none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::client::{Client, Labels, Series};
use super::super::error::PrometheusError;
use super::super::query::quoted;
use super::lives::{Collected, Tick};

/// Values in one answer, some 25 bytes each.
const POINTS_AT_ONCE: i64 = 1_000_000;
/// Spans in one answer: Prometheus gives 11,000 points of a series at most.
const WINDOWS_AT_ONCE: i64 = 10_000;
/// Of the agent itself every scrape is asked for: 600,000, where it is scraped once a second.
const SPAN_AT_ONCE_US: i64 = 7 * 86_400_000_000;
/// Starts of two lives are further apart; floating point brings less.
const ONE_START_US: u64 = 10_000;

/// What names the series of an agent, but for those of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// As a selector has them.
    agent: String,
    /// The same with the trial.
    services: String,
}

/// Microseconds since 1970 from which on, and until which.
type Span = (i64, i64);

/// What is known of a span of the store's time.
struct Window<'a> {
    number: i64,
    ticks: &'a [(i64, Tick)],
}

impl Target {
    /// From the labels of what an agent tells of a trial.
    pub fn of(labels: &Labels, trial: &str) -> Self {
        let own =
            labels.iter().filter(|(name, _)| !["__name__", "trial", "plan", "host"].contains(&name.as_str()));
        let matchers: Vec<String> = own.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        let agent = matchers.join(",");
        let separator = if agent.is_empty() { "" } else { "," };
        let services = format!("trial={}{separator}{agent}", quoted(trial));
        Self { agent, services }
    }

    /// Asks for all of it, and puts it to the lives of its host.
    pub fn collect(
        &self,
        client: &Client,
        span: Span,
        step_us: i64,
        to: &mut Collected<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), PrometheusError> {
        let services = to.host.services.len().max(1) as i64;
        let windows = (POINTS_AT_ONCE / services).min(SPAN_AT_ONCE_US / step_us).clamp(1, WINDOWS_AT_ONCE);
        let (mut first, end) = (span.0.div_euclid(step_us), span.1.div_euclid(step_us) + 1);
        while first < end {
            let last = (first + windows).min(end);
            self.collect_windows(client, (first, last), step_us, to, warnings)?;
            first = last;
        }
        Ok(())
    }

    fn collect_windows(
        &self,
        client: &Client,
        (first, end): (i64, i64),
        step_us: i64,
        to: &mut Collected<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), PrometheusError> {
        let asked = (first * step_us, end * step_us);
        let ticks = self.ticks(client, asked, warnings)?;
        if ticks.is_empty() {
            return Ok(());
        }
        let memory = format!("heaptrial_service_memory_bytes{{{}}}", self.services);
        let start = format!("heaptrial_service_start_time_seconds{{{}}}", self.services);
        let mut of_each = |query: String, (first, end): (i64, i64)| -> Result<ByService, PrometheusError> {
            // The value of a span stands at its end.
            let series = client.series(&query, ((first + 1) * step_us, end * step_us), step_us, warnings)?;
            Ok(by_service(series, |at| at.div_euclid(step_us) - 1))
        };
        let range = format!("[{}ms]", step_us / 1000);
        // Neighbours tell whether a life goes on.
        let starts = of_each(format!("max_over_time({start}{range})"), (first - 1, end + 1))?;
        let medians = of_each(format!("quantile_over_time(0.5, {memory}{range})"), (first, end))?;
        let maxima = of_each(format!("max_over_time({memory}{range})"), (first, end))?;
        let until_us = to.host.until_us;
        let mut singly: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
        let windows: HashMap<i64, Window<'_>> = (first..end)
            .map(|number| (number, Window { number, ticks: within(&ticks, number, step_us) }))
            .filter(|(_, window)| window.ticks.iter().any(|(_, tick)| tick.wall_us <= until_us))
            .collect();
        for (service, starts) in &starts {
            for (number, started) in starts.range(first..end) {
                let Some(window) = windows.get(number) else { continue };
                let goes_on = [number - 1, number + 1].iter().all(|other| {
                    starts.get(other).is_some_and(|other| us(*other).abs_diff(us(*started)) <= ONE_START_US)
                });
                let whole = window.ticks.iter().all(|(_, tick)| tick.wall_us <= until_us);
                let rolled = goes_on && whole;
                let found = (medians.get(service), maxima.get(service));
                let found = found.0.and_then(|of| of.get(number)).zip(found.1.and_then(|of| of.get(number)));
                match (rolled, found, window.middle()) {
                    (true, Some((median, max)), Some(tick)) => {
                        if let Some(life) = to.life(service, us(*started), window.ticks.len() as u64) {
                            to.roll_up(life, window.number, tick, (*median, *max));
                        }
                    }
                    // The trial's metric was not read.
                    (true, None, _) => {}
                    _ => {
                        singly.entry(*number).or_default().insert(service);
                    }
                }
            }
        }
        for (number, services) in singly {
            if let Some(window) = windows.get(&number) {
                self.collect_singly(client, window, step_us, &services, to, warnings)?;
            }
        }
        Ok(())
    }

    /// Readings of a span as they were scraped.
    fn collect_singly(
        &self,
        client: &Client,
        window: &Window<'_>,
        step_us: i64,
        services: &BTreeSet<&str>,
        to: &mut Collected<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), PrometheusError> {
        let names: Vec<String> = services.iter().map(|name| literal(name)).collect();
        let query = format!(
            "{{__name__=~\"heaptrial_service_(memory_bytes|start_time_seconds|anon_bytes)\",service=~{},{}}}",
            quoted(&names.join("|")),
            self.services
        );
        let span = (window.number * step_us, (window.number + 1) * step_us);
        // By service and time: memory, start, anonymous memory.
        let mut scraped: BTreeMap<(String, i64), [Option<f64>; 3]> = BTreeMap::new();
        for series in client.series(&query, span, step_us, warnings)? {
            let (Some(service), Some(name)) = (series.metric.get("service"), series.metric.get("__name__"))
            else {
                continue;
            };
            let part = match name.as_str() {
                "heaptrial_service_memory_bytes" => 0,
                "heaptrial_service_start_time_seconds" => 1,
                _ => 2,
            };
            for point in series.values.iter().filter(|point| point.1.is_finite()) {
                scraped.entry((service.clone(), point.0)).or_default()[part] = Some(point.1);
            }
        }
        for ((service, at), values) in scraped {
            let [Some(bytes), Some(started), anon] = values else { continue };
            let tick = window.ticks.binary_search_by_key(&at, |(at, _)| *at).ok();
            let Some((_, tick)) = tick.map(|place| window.ticks[place]) else { continue };
            if tick.wall_us > to.host.until_us {
                continue;
            }
            if let Some(life) = to.life(&service, us(started), 1) {
                to.single(life, window.number, tick, bytes, anon);
            }
        }
        Ok(())
    }

    /// When the agent took its ticks, by when they were scraped.
    fn ticks(
        &self,
        client: &Client,
        span: Span,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<(i64, Tick)>, PrometheusError> {
        let separator = if self.agent.is_empty() { "" } else { "," };
        let query = format!(
            "{{__name__=~\"heaptrial_agent_last_tick_(timestamp|boottime)_seconds\"{separator}{}}}",
            self.agent
        );
        let mut scraped: BTreeMap<i64, [Option<f64>; 2]> = BTreeMap::new();
        for series in client.series(&query, span, 1_000_000, warnings)? {
            let part =
                usize::from(series.metric.get("__name__").is_some_and(|name| name.contains("boottime")));
            for point in series.values.iter().filter(|point| point.1.is_finite()) {
                scraped.entry(point.0).or_default()[part] = Some(point.1);
            }
        }
        let both = |(at, values): (i64, [Option<f64>; 2])| {
            let [Some(wall), Some(boottime)] = values else { return None };
            Some((at, Tick { wall_us: us(wall), boottime_us: us(boottime) }))
        };
        Ok(scraped.into_iter().filter_map(both).collect())
    }
}

impl Window<'_> {
    fn middle(&self) -> Option<Tick> {
        self.ticks.get(self.ticks.len() / 2).map(|(_, tick)| *tick)
    }
}

/// Values by service and number of the span.
type ByService = BTreeMap<String, BTreeMap<i64, f64>>;

fn by_service(series: Vec<Series>, number: impl Fn(i64) -> i64) -> ByService {
    let mut of_each = ByService::new();
    for mut series in series {
        let Some(service) = series.metric.remove("service") else { continue };
        let values = series.values.iter().filter(|point| point.1.is_finite());
        of_each.entry(service).or_default().extend(values.map(|point| (number(point.0), point.1)));
    }
    of_each
}

/// Those of a span: after its begin, and until its end.
fn within(ticks: &[(i64, Tick)], number: i64, step_us: i64) -> &[(i64, Tick)] {
    let place = |at: i64| ticks.partition_point(|(scraped, _)| *scraped <= at);
    &ticks[place(number * step_us)..place((number + 1) * step_us)]
}

/// Seconds in microseconds.
fn us(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

/// A regular expression (RE2) that is just this text.
fn literal(text: &str) -> String {
    let mut expression = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '_' {
            expression.push('\\');
        }
        expression.push(c);
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_themselves_in_a_query() {
        assert_eq!(literal("tor\\x2db@a.service"), "tor\\\\x2db\\@a\\.service");
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }

    #[test]
    fn a_target_is_told_by_its_own_labels() {
        let labels = [
            ("__name__", "heaptrial_trial_info"),
            ("host", "a"),
            ("instance", "x:1"),
            ("job", "j"),
            ("plan", "p"),
            ("trial", "t"),
        ];
        let labels: Labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let target = Target::of(&labels, "t");
        assert_eq!(target.agent, r#"instance="x:1",job="j""#);
        assert_eq!(target.services, r#"trial="t",instance="x:1",job="j""#);
    }
}
