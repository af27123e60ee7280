//! The last tick in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use heaptrial_host::{Instant, ProcessReader, TickCost};
use heaptrial_model::ServiceName;
use rustix::time::{ClockId, clock_gettime};

use crate::agent::Agent;
use crate::watched::{Main, Seat, Watched};

/// Name, help, and the value of each service that has one.
type Family = (&'static str, &'static str, fn(&Watched, &Seat) -> Option<f64>);

const FAMILIES: [Family; 9] = [
    ("rss_bytes", "Resident memory (VmRSS).", |of, _| Some(of.sample()?.rss_bytes as f64)),
    ("anon_bytes", "Resident anonymous memory (RssAnon).", |of, _| Some(of.sample()?.anon_bytes as f64)),
    ("swap_bytes", "Anonymous memory in swap (VmSwap).", |of, _| Some(of.sample()?.swap_bytes as f64)),
    ("cgroup_current_bytes", "Memory of the control group.", |of, _| {
        Some(of.sample()?.cgroup_current_bytes? as f64)
    }),
    ("threads", "Threads.", |of, _| Some(of.sample()?.threads.into())),
    ("contaminated", "1 where the process does not run its arm's treatment.", |of, seat| {
        of.main.as_ref().map(|_| seat.contamination.is_some().into())
    }),
    ("up", "1 where the service has a main process, 0 where it has none.", |of, _| {
        of.known.then(|| of.main.is_some().into())
    }),
    ("start_time_seconds", "When the main process was started, since 1970.", |of, _| {
        Some(of.main.as_ref()?.started.wall_us as f64 / 1e6)
    }),
    ("cpu_seconds_total", "CPU time of the service's processes, with ended children.", |of, _| {
        Some(of.sample()?.cpu_us as f64 / 1e6)
    }),
];

impl Agent {
    /// What it shows of a tick, and of its own process.
    pub(crate) fn metrics_text(&self, cost: TickCost, now: Instant) -> String {
        let mut text = String::new();
        let is_running = |seat: &&Seat| self.trials.iter().any(|trial| trial.id == seat.trial_id);
        let seats =
            self.watched.iter().flat_map(|(name, of)| of.seats.iter().map(move |seat| (name, of, seat)));
        let seats = seats.filter(|(_, _, seat)| is_running(seat));
        let seats: Vec<(&ServiceName, &Watched, &Seat)> = seats.collect();
        for (name, help, value) in FAMILIES {
            let name = format!("heaptrial_service_{name}");
            describe(&mut text, &name, help);
            for (service, of, seat) in &seats {
                let Some(value) = value(of, seat) else { continue };
                let labels = [("service", service.as_str()), ("arm", &seat.arm), ("trial", &seat.trial)];
                let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
                add(&mut text, &format!("{name}{{{}}}", labels.join(",")), value);
            }
        }
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        let own = ProcessReader::open(&self.root, std::process::id() as i32);
        let own = own.and_then(|mut reader| reader.read());
        let rss_bytes = own.map_or(0, |reading| reading.sample.rss_bytes);
        let unknown = seats.iter().filter(|(_, of, _)| !of.known).count() as f64;
        let (ticks, lost) = (self.ticking.ticks as f64, self.ticking.lost as f64);
        let (taken, last, trials) = (cost.wall_us as f64 / 1e6, now.wall_us as f64 / 1e6, self.trials.len());
        for (name, help, value) in [
            ("cpu_seconds_total", "CPU time of the agent itself.", cpu_seconds),
            ("ticks_total", "Ticks since the agent started.", ticks),
            ("lost_ticks_total", "Ticks that could not be written, once for each trial.", lost),
            ("rss_bytes", "Resident memory of the agent itself.", rss_bytes as f64),
            ("tick_seconds", "What the last tick took.", taken),
            ("last_tick_timestamp_seconds", "When the last tick was.", last),
            (
                "unknown_services",
                "Services whose state systemd has not given yet, once for each trial.",
                unknown,
            ),
            (
                "trials",
                "Trials, rollouts and watches that run; services that are in none count as one.",
                trials as f64,
            ),
        ] {
            let name = format!("heaptrial_agent_{name}");
            describe(&mut text, &name, help);
            add(&mut text, &name, value);
        }
        text
    }
}

impl Watched {
    fn sample(&self) -> Option<heaptrial_model::Sample> {
        self.main.as_ref().and_then(|main: &Main| main.last_sample)
    }
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
    use heaptrial_model::TrialKind;

    use super::*;
    use crate::testing::{Fixture, UNIT, hours_ago};

    #[test]
    fn a_tick_is_rendered() {
        let mut fixture = Fixture::new();
        fixture.begin(TrialKind::Field, hours_ago(3));
        fixture.agent.refresh_trials();
        let shown = |fixture: &Fixture| {
            fixture.agent.metrics_text(TickCost::default(), Instant { wall_us: 0, boottime_us: 0 })
        };
        // Of one that nothing is known of not even this is said.
        let text = shown(&fixture);
        assert!(text.contains("# TYPE heaptrial_service_up gauge\n# HELP"), "{text}");
        assert!(text.contains("\nheaptrial_agent_unknown_services 1\n"), "{text}");
        fixture.find_main(hours_ago(2));
        fixture.agent.tick();
        let watched = fixture.agent.watched.values_mut().next().unwrap();
        (watched.known, watched.seats[0].arm) = (true, "mimalloc \"2\"".to_owned());
        watched.main.as_mut().unwrap().last_sample.as_mut().unwrap().threads = 3;
        let text = shown(&fixture);
        let labels = format!(r#"{{service="{UNIT}",arm="mimalloc \"2\"",trial="field"}}"#);
        for line in [
            format!("heaptrial_service_up{labels} 1"),
            format!("heaptrial_service_threads{labels} 3"),
            "heaptrial_agent_ticks_total 1".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }
}
