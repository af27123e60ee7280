//! A snapshot as OpenMetrics, or in the older text form of Prometheus.

use std::fmt;

use heaptrial_model::Sample;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::{ServiceLine, Snapshot};

/// A whole number of each service.
struct Family {
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    value: fn(&ServiceLine) -> Option<u64>,
}

fn of_sample(line: &ServiceLine, value: impl Fn(&Sample) -> u64) -> Option<u64> {
    line.sample.as_ref().map(value)
}

const FAMILIES: [Family; 7] = [
    Family {
        name: "rss",
        unit: Some(Unit::Bytes),
        help: "Resident memory (VmRSS).",
        value: |line| of_sample(line, |sample| sample.rss_bytes),
    },
    Family {
        name: "anon",
        unit: Some(Unit::Bytes),
        help: "Resident anonymous memory (RssAnon).",
        value: |line| of_sample(line, |sample| sample.anon_bytes),
    },
    Family {
        name: "swap",
        unit: Some(Unit::Bytes),
        help: "Anonymous memory in swap (VmSwap).",
        value: |line| of_sample(line, |sample| sample.swap_bytes),
    },
    Family {
        name: "cgroup_current",
        unit: Some(Unit::Bytes),
        help: "Memory of the control group.",
        value: |line| line.sample.as_ref()?.cgroup_current_bytes,
    },
    Family {
        name: "threads",
        unit: None,
        help: "Threads.",
        value: |line| of_sample(line, |sample| sample.threads.into()),
    },
    Family {
        name: "contaminated",
        unit: None,
        help: "1 where the process does not run its arm's treatment.",
        value: |line| line.contaminated.map(u64::from),
    },
    Family {
        name: "up",
        unit: None,
        help: "1 where the service has a main process, 0 where it has none.",
        value: |line| line.known.then(|| line.started_wall_us.is_some().into()),
    },
];

/// The whole exposition in OpenMetrics.
pub(super) fn render(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// What [`render`] gives in the older text form of Prometheus (version 0.0.4), which `promtool` and others read that know
/// no OpenMetrics: there a counter's family has the whole name of its samples.
pub(super) fn classic(openmetrics: &str) -> String {
    let counters: Vec<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let described = ["# HELP ", "# TYPE "].iter().find_map(|what| {
            let (name, rest) = line.strip_prefix(what)?.split_once(' ')?;
            counters.contains(&name).then(|| format!("{what}{name}_total {rest}"))
        });
        text.push_str(described.as_deref().unwrap_or(line));
        text.push('\n');
    }
    text
}

impl Collector for Snapshot {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &FAMILIES {
            let unit = family.unit.as_ref();
            self.of_services(&mut to, family.name, unit, family.help, MetricType::Gauge, family.value)?;
        }
        let seconds = Some(&Unit::Seconds);
        let help = "When the main process was started, since 1970.";
        self.of_services(&mut to, "start_time", seconds, help, MetricType::Gauge, |line| {
            line.started_wall_us.map(|started| started as f64 / 1e6)
        })?;
        let help =
            "CPU time of the service's processes since the start of the main one, with ended children.";
        self.of_services(&mut to, "cpu", seconds, help, MetricType::Counter, |line| {
            of_sample(line, |sample| sample.cpu_us).map(|cpu_us| cpu_us as f64 / 1e6)
        })?;
        let mut agent = |name: &str, unit, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("heaptrial_agent_{name}");
            metric.encode(to.encode_descriptor(&name, help, unit, metric.metric_type())?)
        };
        let cpu = ConstCounter::new(self.cpu_us as f64 / 1e6);
        agent("cpu", seconds, "CPU time of the agent itself.", &cpu)?;
        agent("ticks", None, "Ticks since the agent started.", &ConstCounter::new(self.ticks))?;
        let help = "Ticks that could not be written, once for each trial.";
        agent("lost_ticks", None, help, &ConstCounter::new(self.lost_ticks))?;
        // Before the first tick it knows neither of trials nor of itself.
        if self.taken_wall_us > 0 {
            let rss = ConstGauge::new(self.rss_bytes);
            agent("rss", Some(&Unit::Bytes), "Resident memory of the agent itself.", &rss)?;
            agent("tick", seconds, "What the last tick took.", &ConstGauge::new(self.tick_seconds))?;
            let taken = ConstGauge::new(self.taken_wall_us as f64 / 1e6);
            agent("last_tick_timestamp", seconds, "When the last tick was.", &taken)?;
            let unknown = self.services.iter().filter(|line| !line.known).count();
            let help = "Services of which systemd has told nothing yet, once for each trial.";
            agent("unknown_services", None, help, &ConstGauge::new(unknown))?;
            let help = "Trials, rollouts and watches that run; services that are in none count as one.";
            agent("trials", None, help, &ConstGauge::new(self.trials))?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// A gauge or counter of each service that has a value.
    fn of_services<V: EncodeGaugeValue + EncodeCounterValue>(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        of_type: MetricType,
        value: impl Fn(&ServiceLine) -> Option<V>,
    ) -> Result<(), fmt::Error> {
        let name = format!("heaptrial_service_{name}");
        let mut family = to.encode_descriptor(&name, help, unit, of_type)?;
        for line in &self.services {
            if let Some(value) = value(line) {
                let labels = [("service", &*line.service), ("arm", &*line.arm), ("trial", &*line.trial)];
                let to = family.encode_family(&labels)?;
                match of_type {
                    MetricType::Counter => ConstCounter::new(value).encode(to)?,
                    _ => ConstGauge::new(value).encode(to)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_rendered() {
        let line = |service: &str, up| ServiceLine {
            service: service.into(),
            arm: "mimalloc \"2\"".into(),
            trial: "five-way".into(),
            contaminated: Some(false).filter(|_| up),
            started_wall_us: Some(1_799_999_938_750_000).filter(|_| up),
            sample: Some(Sample { rss_bytes: 4096, threads: 3, cpu_us: 2_500_000, ..Sample::default() })
                .filter(|_| up),
            known: true,
        };
        let silent = ServiceLine { known: false, ..line("tor@silent.service", false) };
        let snapshot = Snapshot {
            services: vec![line("tor@a.service", true), line("tor\\x2db.service", false), silent],
            trials: 1,
            cpu_us: 1_500_000,
            rss_bytes: 20 << 20,
            tick_seconds: 0.025,
            ticks: 7,
            lost_ticks: 0,
            taken_wall_us: 1_800_000_000_250_000,
        };
        let openmetrics = render(snapshot).unwrap();
        insta::assert_snapshot!(openmetrics);
        insta::assert_snapshot!("classic", classic(&openmetrics));
    }
}
