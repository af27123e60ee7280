//! A snapshot in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::{ServiceLine, Snapshot};

/// A value of each service that has one.
struct Family {
    name: &'static str,
    help: &'static str,
    value: fn(&ServiceLine) -> Option<f64>,
}

const FAMILIES: [Family; 9] = [
    Family {
        name: "rss_bytes",
        help: "Resident memory (VmRSS).",
        value: |line| Some(line.sample?.rss_bytes as f64),
    },
    Family {
        name: "anon_bytes",
        help: "Resident anonymous memory (RssAnon).",
        value: |line| Some(line.sample?.anon_bytes as f64),
    },
    Family {
        name: "swap_bytes",
        help: "Anonymous memory in swap (VmSwap).",
        value: |line| Some(line.sample?.swap_bytes as f64),
    },
    Family {
        name: "cgroup_current_bytes",
        help: "Memory of the control group.",
        value: |line| Some(line.sample?.cgroup_current_bytes? as f64),
    },
    Family { name: "threads", help: "Threads.", value: |line| Some(line.sample?.threads.into()) },
    Family {
        name: "contaminated",
        help: "1 where the process does not run its arm's treatment.",
        value: |line| line.contaminated.map(f64::from),
    },
    Family {
        name: "up",
        help: "1 where the service has a main process, 0 where it has none.",
        value: |line| line.known.then(|| line.started_wall_us.is_some().into()),
    },
    Family {
        name: "start_time_seconds",
        help: "When the main process was started, since 1970.",
        value: |line| Some(line.started_wall_us? as f64 / 1e6),
    },
    Family {
        name: "cpu_seconds_total",
        help: "CPU time of the service's processes since the start of the main one, with ended children.",
        value: |line| Some(line.sample?.cpu_us as f64 / 1e6),
    },
];

pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for family in &FAMILIES {
        let name = format!("heaptrial_service_{}", family.name);
        describe(&mut text, &name, family.help);
        for line in &snapshot.services {
            let Some(value) = (family.value)(line) else { continue };
            let labels = [("service", &line.service), ("arm", &line.arm), ("trial", &line.trial)];
            let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
            add(&mut text, &format!("{name}{{{}}}", labels.join(",")), value);
        }
    }
    let mut agent = |name: &str, help, value: f64| {
        let name = format!("heaptrial_agent_{name}");
        describe(&mut text, &name, help);
        add(&mut text, &name, value);
    };
    agent("cpu_seconds_total", "CPU time of the agent itself.", snapshot.cpu_us as f64 / 1e6);
    agent("ticks_total", "Ticks since the agent started.", snapshot.ticks as f64);
    let help = "Ticks that could not be written, once for each trial.";
    agent("lost_ticks_total", help, snapshot.lost_ticks as f64);
    // Before the first tick it knows neither of trials nor of itself.
    if snapshot.taken_wall_us > 0 {
        agent("rss_bytes", "Resident memory of the agent itself.", snapshot.rss_bytes as f64);
        agent("tick_seconds", "What the last tick took.", snapshot.tick_seconds);
        let taken = snapshot.taken_wall_us as f64 / 1e6;
        agent("last_tick_timestamp_seconds", "When the last tick was.", taken);
        let unknown = snapshot.services.iter().filter(|line| !line.known).count();
        let help = "Services whose state systemd has not given yet, once for each trial.";
        agent("unknown_services", help, unknown as f64);
        let help = "Trials, rollouts and watches that run; services that are in none count as one.";
        agent("trials", help, snapshot.trials as f64);
    }
    text
}

// Writing into a string does not fail.
fn describe(text: &mut String, name: &str, help: &str) {
    let of_type = if name.ends_with("_total") { "counter" } else { "gauge" };
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {of_type}\n");
}

fn add(text: &mut String, series: &str, value: f64) {
    let _ = writeln!(text, "{series} {value}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use heaptrial_model::Sample;

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
        insta::assert_snapshot!(render(&snapshot));
    }
}
