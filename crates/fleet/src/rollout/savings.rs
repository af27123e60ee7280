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
    let (mut hosts, mut all) = (BTreeMap::<&str, Savings>::new(), Savings::default());
    for service in &fleet.services {
        let [own] = service.arms[..] else { continue };
        let Some((now, own)) = level(service).zip(ratios[own]) else { continue };
        let of_host = service.host.as_deref().map(|host| hosts.entry(host).or_default());
        for sum in of_host.into_iter().chain([&mut all]) {
            sum.services += 1;
            sum.now_bytes += now;
            sum.control_bytes += now / own.value;
        }
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
    let by_host = hosts.into_iter().map(|(host, sum)| (Some(host), sum));
    by_host.chain([(None, all)]).filter(|(_, sum)| sum.services > 0).map(finish).collect()
}
