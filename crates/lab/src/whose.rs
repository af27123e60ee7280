//! Whose work kept the processors busy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// CPU time of a round by who took it.
#[derive(Debug, Default)]
pub(crate) struct Whose {
    /// At the first and the last look, in seconds, by slot.
    services: BTreeMap<usize, (f64, f64)>,
    load: Option<(f64, f64)>,
    busy_seconds: f64,
    looked: Option<Instant>,
}

impl Whose {
    /// A share of all processors was busy since the last look.
    pub(crate) fn busy(&mut self, share: f64) {
        let now = Instant::now();
        if let Some(before) = self.looked.replace(now) {
            self.add_busy(share, now - before, std::thread::available_parallelism().map_or(1, usize::from));
        }
    }

    fn add_busy(&mut self, share: f64, over: Duration, processors: usize) {
        self.busy_seconds += share * over.as_secs_f64() * processors as f64;
    }

    /// CPU time that a service took so far, in seconds.
    pub(crate) fn service(&mut self, slot: usize, seconds: f64) {
        self.services.entry(slot).or_insert((seconds, seconds)).1 = seconds;
    }

    /// CPU time that the load took so far, in seconds.
    pub(crate) fn load(&mut self, seconds: f64) {
        self.load.get_or_insert((seconds, seconds)).1 = seconds;
    }

    /// `64% of that was the services', 30% the load's and 6% others'`.
    pub(crate) fn told(&self) -> Option<String> {
        let took = |(first, last): &(f64, f64)| last - first;
        // A sum of nothing is -0.
        let services = self.services.values().map(took).fold(0.0, |sum, seconds| sum + seconds);
        let load = self.load.as_ref().map_or(0.0, took);
        // The kernel counts what processes took and what processors did by different clocks.
        let whole = self.busy_seconds.max(services + load);
        let percent = |seconds: f64| (100.0 * seconds / whole).round();
        let of_services = if self.services.len() == 1 { "the service's" } else { "the services'" };
        (whole > 0.0).then(|| {
            format!(
                "{:.0}% of that was {of_services}, {:.0}% the load's and {:.0}% others'",
                percent(services),
                percent(load),
                (100.0 - percent(services) - percent(load)).max(0.0)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_were_not_read_took_nothing() {
        let mut whose = Whose::default();
        whose.add_busy(1.0, Duration::from_secs(10), 2);
        let told = "0% of that was the services', 0% the load's and 100% others'";
        assert_eq!(whose.told().as_deref(), Some(told));
    }

    #[test]
    fn what_is_nobodys_is_others() {
        let mut whose = Whose::default();
        assert_eq!(whose.told(), None);
        whose.add_busy(1.0, Duration::from_secs(10), 2);
        for seconds in [100.0, 108.0] {
            whose.service(0, seconds);
            whose.load(seconds / 2.0);
        }
        let told = "40% of that was the service's, 20% the load's and 40% others'";
        assert_eq!(whose.told().as_deref(), Some(told));
    }
}
