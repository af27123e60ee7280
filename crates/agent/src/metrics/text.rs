//! OpenMetrics 1.0 text. Names and labels are those of `heaptrial export`.
//!
//! <https://github.com/OpenObservability/OpenMetrics/blob/main/specification/OpenMetrics.md>

use std::fmt::Write as _;

use heaptrial_model::Sample;

use super::{ServiceLine, Snapshot};

/// A figure of each service.
struct Family {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&ServiceLine) -> Option<f64>,
}

fn of_sample(line: &ServiceLine, value: impl Fn(&Sample) -> u64) -> Option<f64> {
    line.sample.as_ref().map(|sample| value(sample) as f64)
}

const FAMILIES: [Family; 8] = [
    Family {
        name: "heaptrial_service_rss_bytes",
        unit: "bytes",
        help: "Resident memory (VmRSS).",
        value: |line| of_sample(line, |sample| sample.rss_bytes),
    },
    Family {
        name: "heaptrial_service_anon_bytes",
        unit: "bytes",
        help: "Resident anonymous memory (RssAnon).",
        value: |line| of_sample(line, |sample| sample.anon_bytes),
    },
    Family {
        name: "heaptrial_service_swap_bytes",
        unit: "bytes",
        help: "Anonymous memory in swap (VmSwap).",
        value: |line| of_sample(line, |sample| sample.swap_bytes),
    },
    Family {
        name: "heaptrial_service_cgroup_current_bytes",
        unit: "bytes",
        help: "Memory of the control group.",
        value: |line| line.sample.as_ref()?.cgroup_current_bytes.map(|bytes| bytes as f64),
    },
    Family {
        name: "heaptrial_service_threads",
        unit: "",
        help: "Threads.",
        value: |line| of_sample(line, |sample| u64::from(sample.threads)),
    },
    Family {
        name: "heaptrial_service_age_seconds",
        unit: "seconds",
        help: "Time since the start of the main process.",
        value: |line| line.age_seconds,
    },
    Family {
        name: "heaptrial_service_contaminated",
        unit: "",
        help: "1 where the process does not run its arm's treatment.",
        value: |line| line.contaminated.map(|is| if is { 1.0 } else { 0.0 }),
    },
    Family {
        name: "heaptrial_service_up",
        unit: "",
        help: "1 where the service has a main process.",
        value: |line| Some(if line.age_seconds.is_some() { 1.0 } else { 0.0 }),
    },
];

/// The whole exposition.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(1024 + snapshot.services.len() * 700);
    let labels: Vec<String> = snapshot.services.iter().map(labels).collect();
    for family in &FAMILIES {
        describe(&mut out, family.name, "gauge", family.unit, family.help);
        for (line, labels) in snapshot.services.iter().zip(&labels) {
            if let Some(value) = (family.value)(line) {
                let _ = writeln!(out, "{}{labels} {value}", family.name);
            }
        }
    }
    let seconds = snapshot.cpu_us as f64 / 1e6;
    let taken = snapshot.taken_wall_us as f64 / 1e6;
    for (name, kind, unit, help, suffix, value) in [
        (
            "heaptrial_agent_cpu_seconds",
            "counter",
            "seconds",
            "CPU time of the agent itself.",
            "_total",
            seconds,
        ),
        (
            "heaptrial_agent_rss_bytes",
            "gauge",
            "bytes",
            "Resident memory of the agent itself.",
            "",
            snapshot.rss_bytes as f64,
        ),
        (
            "heaptrial_agent_tick_seconds",
            "gauge",
            "seconds",
            "What the last tick took.",
            "",
            snapshot.tick_seconds,
        ),
        (
            "heaptrial_agent_ticks",
            "counter",
            "",
            "Ticks since the agent started.",
            "_total",
            snapshot.ticks as f64,
        ),
        (
            "heaptrial_agent_lost_ticks",
            "counter",
            "",
            "Ticks that could not be written.",
            "_total",
            snapshot.lost_ticks as f64,
        ),
        (
            "heaptrial_agent_last_tick_timestamp_seconds",
            "gauge",
            "seconds",
            "When the last tick was.",
            "",
            taken,
        ),
        ("heaptrial_agent_trials", "gauge", "", "Trials that run.", "", snapshot.trials.len() as f64),
    ] {
        describe(&mut out, name, kind, unit, help);
        let _ = writeln!(out, "{name}{suffix} {value}");
    }
    out.push_str("# EOF\n");
    out
}

fn describe(out: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
}

fn labels(line: &ServiceLine) -> String {
    format!(
        "{{service=\"{}\",arm=\"{}\",trial=\"{}\"}}",
        escaped(&line.service),
        escaped(&line.arm),
        escaped(&line.trial)
    )
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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
            age_seconds: Some(61.5).filter(|_| up),
            sample: Some(Sample { rss_bytes: 4096, threads: 3, ..Sample::default() }).filter(|_| up),
        };
        let snapshot = Snapshot {
            services: vec![line("tor@a.service", true), line("tor\\x2db.service", false)],
            trials: vec!["five-way".into()],
            cpu_us: 1_500_000,
            rss_bytes: 20 << 20,
            tick_seconds: 0.025,
            ticks: 7,
            lost_ticks: 0,
            taken_wall_us: 1_800_000_000_250_000,
        };
        insta::assert_snapshot!(render(&snapshot));
    }
}
