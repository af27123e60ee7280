//! Memory that an arm would free on the hosts of its trial.

use std::collections::BTreeMap;

use heaptrial_evaluate::analysis::{Estimate, Fleet};
use serde::Serialize;

use crate::rollout::expected::level;

/// Of the services of a host, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Savings {
    /// The host; `None` is all of them.
    pub host: Option<String>,
    /// Services whose memory is known.
    pub services: u32,
    /// What they used at the end of the trial, each under its arm, in bytes.
    pub now_bytes: f64,
    /// What they would use if all ran the control.
    pub control_bytes: f64,
    /// What they would use if all ran the arm.
    pub arm_bytes: f64,
    /// What would be free; negative where the arm needs more.
    pub freed_bytes: f64,
    /// The same by the ends of the ratio's interval; `None` where it has none.
    pub freed_interval: Option<(f64, f64)>,
}

/// Freed bytes are the sum of levels under the control times 1 minus the ratio, by host, and of all hosts last. `ratios` are those of
/// all arms to the control, by position; services of an arm without one are in no sum.
pub fn savings(fleet: &Fleet, arm: usize, ratios: &[Option<Estimate>]) -> Vec<Savings> {
    let Some(ratio) = ratios[arm] else { return Vec::new() };
    let mut hosts: BTreeMap<Option<&str>, Savings> = BTreeMap::new();
    for service in &fleet.services {
        let [own] = service.arms[..] else { continue };
        let Some((now, own)) = level(service).zip(ratios[own]) else { continue };
        let sum = hosts.entry(service.host.as_deref()).or_default();
        sum.services += 1;
        sum.now_bytes += now;
        sum.control_bytes += now / own.value;
    }
    let finish = |(host, sum): (Option<&str>, Savings)| {
        let freed = |ratio: f64| sum.control_bytes * (1.0 - ratio);
        Savings {
            host: host.map(str::to_owned),
            arm_bytes: sum.control_bytes * ratio.value,
            freed_bytes: freed(ratio.value),
            freed_interval: ratio.low.zip(ratio.high).map(|(low, high)| (freed(high), freed(low))),
            ..sum
        }
    };
    let add = |sum: Savings, own: &Savings| Savings {
        services: sum.services + own.services,
        now_bytes: sum.now_bytes + own.now_bytes,
        control_bytes: sum.control_bytes + own.control_bytes,
        ..sum
    };
    let all = hosts.values().fold(Savings::default(), add);
    let by_host = if hosts.keys().all(Option::is_none) { BTreeMap::new() } else { hosts };
    by_host.into_iter().chain([(None, all)]).filter(|(_, sum)| sum.services > 0).map(finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::expected::tests::{ARM, trial};

    #[test]
    fn what_is_freed_is_the_sum_of_levels_times_one_minus_the_ratio() {
        let estimate = |value: f64| Some(Estimate { value, low: Some(value - 0.1), high: Some(value + 0.1) });
        let mut fleet = trial(&[1e9, 3e9], 0.25, 0.0, 1);
        let found = savings(&fleet, ARM, &[estimate(1.0), estimate(0.25)]);
        let [all] = &found[..] else { panic!("{found:?}") };
        // Four services, of which two run the arm already.
        assert!((all.control_bytes / 8e9 - 1.0).abs() < 1e-3 && (all.now_bytes / 5e9 - 1.0).abs() < 1e-3);
        assert!((all.freed_bytes / 6e9 - 1.0).abs() < 1e-3, "{all:?}");
        let (least, most) = all.freed_interval.unwrap();
        assert!((least / 5.2e9 - 1.0).abs() < 1e-3 && (most / 6.8e9 - 1.0).abs() < 1e-3);
        for (service, host) in fleet.services.iter_mut().zip(["a", "a", "b", "b"]) {
            service.host = Some(host.to_owned());
        }
        let found = savings(&fleet, ARM, &[estimate(1.0), estimate(0.25)]);
        let hosts: Vec<Option<&str>> = found.iter().map(|own| own.host.as_deref()).collect();
        assert_eq!(hosts, [Some("a"), Some("b"), None]);
        assert!((found[0].freed_bytes + found[1].freed_bytes - found[2].freed_bytes).abs() < 1.0);
        assert_eq!(savings(&fleet, ARM, &[estimate(1.0), None]), []);
    }
}
