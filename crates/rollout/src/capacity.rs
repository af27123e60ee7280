//! What a treatment is worth: memory that a fleet would give back, and what fits into it.

use std::collections::BTreeMap;

use heaptrial_analysis::Fleet;
use serde::{Deserialize, Serialize};

use crate::strata::{Kind, level};

/// Of a host, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// The host; `None` is all of them.
    pub host: Option<String>,
    /// Services whose memory is known.
    pub services: u32,
    /// What they would use if all ran the control, in bytes.
    pub control_bytes: f64,
    /// What they would use if all ran the arm.
    pub arm_bytes: f64,
    /// What would be free; negative where the arm needs more.
    pub freed_bytes: f64,
    /// The same by the ends of the ratios' intervals; `None` where one has none.
    pub freed_interval: Option<(f64, f64)>,
    /// How many further services of the most common kind fit into the least of that, each at the upper limit of the arm's
    /// forecast for the oldest age that it reaches; `None` where there is no forecast, or no interval.
    pub further: Option<u32>,
}

/// Services of a host, and what they would use under the control: by each service's own ratio, and by the ends of its interval.
#[derive(Default)]
struct Sums {
    services: u32,
    bytes: f64,
    ends: (f64, f64),
    /// A service whose arm's ratio has no interval.
    open: bool,
}

/// The ratio of an arm to the control, with its interval.
pub type ArmRatio = (f64, Option<(f64, f64)>);

/// What an arm is worth to the services of a trial. `ratios` are of all arms to the control, by position: what was found, and its
/// interval.
///
/// A service's memory under the control is what it uses over the ratio of the arm that it ran, so that no host's figure depends on
/// which of its services were drawn into which arm. Sums are of levels as they were at the end of the trial.
pub fn worth(fleet: &Fleet, arm: usize, ratios: &[Option<ArmRatio>], kinds: &[Kind]) -> Vec<Worth> {
    let Some((ratio, interval)) = ratios.get(arm).copied().flatten() else { return Vec::new() };
    let upper = kinds.iter().max_by_key(|kind| kind.services()).and_then(Kind::upper_bytes);
    let mut hosts: BTreeMap<Option<&str>, Sums> = BTreeMap::new();
    for service in &fleet.services {
        let [own] = service.arms[..] else { continue };
        let (Some(bytes), Some((own, of_own))) = (level(service), ratios.get(own).copied().flatten()) else {
            continue;
        };
        for host in [None, service.host.as_deref()].into_iter().take(1 + usize::from(service.host.is_some()))
        {
            let sums = hosts.entry(host).or_default();
            sums.services += 1;
            sums.bytes += bytes / own;
            match of_own {
                Some((low, high)) => sums.ends = (sums.ends.0 + bytes / high, sums.ends.1 + bytes / low),
                None => sums.open = true,
            }
        }
    }
    let of = |(host, sums): (Option<&str>, Sums)| {
        let freed = interval
            .filter(|_| !sums.open)
            .map(|(low, high)| (sums.ends.0 * (1.0 - high), sums.ends.1 * (1.0 - low)));
        Worth {
            host: host.map(str::to_owned),
            services: sums.services,
            control_bytes: sums.bytes,
            arm_bytes: sums.bytes * ratio,
            freed_bytes: sums.bytes * (1.0 - ratio),
            freed_interval: freed,
            further: upper.zip(freed).map(|(upper, (least, _))| (least.max(0.0) / upper) as u32),
        }
    };
    let mut found: Vec<Worth> = hosts.into_iter().map(of).collect();
    // All of them last, as a sum is.
    let several = usize::from(found.len() > 1);
    found.rotate_left(several);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use crate::strata::tests::fleet_of_hosts;

    const ARM: usize = 1;

    #[test]
    fn sums_do_not_depend_on_who_was_drawn_into_which_arm() {
        // Services of 100 and 300 MB under the control, on two hosts; the arm needs 0.4 of it.
        let sizes = [("a", 1e8), ("a", 3e8), ("b", 1e8), ("b", 3e8), ("b", 1e8), ("b", 1e8)];
        let ratios = [Some((1.0, Some((1.0, 1.0)))), Some((0.4, Some((0.35, 0.5))))];
        for drawn in 0..64_u32 {
            let fleet =
                fleet_of_hosts(&sizes, &|index| if drawn >> index & 1 == 1 { (ARM, 0.4) } else { (0, 1.0) });
            let found = worth(&fleet, ARM, &ratios, &kinds(&fleet, "mimalloc", &|_| false));
            let told: Vec<(Option<&str>, u32)> =
                found.iter().map(|worth| (worth.host.as_deref(), worth.services)).collect();
            assert_eq!(told, [(Some("a"), 2), (Some("b"), 4), (None, 6)]);
            for (worth, control) in found.iter().zip([4e8, 6e8, 10e8]) {
                let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
                assert!(close(worth.control_bytes, control), "{worth:?}");
                assert!(close(worth.arm_bytes, 0.4 * control));
                let (freed, (least, most)) = (worth.freed_bytes, worth.freed_interval.unwrap());
                assert!(close(freed, 0.6 * control) && least < freed && freed < most, "{worth:?}");
            }
        }
    }

    #[test]
    fn what_fits_is_by_the_upper_limit_and_never_less_than_nothing() {
        let sizes: Vec<(&str, f64)> = (0..12).map(|_| ("a", 1e8)).collect();
        let fleet = fleet_of_hosts(&sizes, &|index| if index % 2 == 1 { (ARM, 0.4) } else { (0, 1.0) });
        let kinds = kinds(&fleet, "mimalloc", &|_| false);
        let upper = kinds[0].upper_bytes().unwrap();
        assert!(upper > 0.39e8 && upper < 0.6e8, "{upper}");
        let found =
            worth(&fleet, ARM, &[Some((1.0, Some((1.0, 1.0)))), Some((0.4, Some((0.35, 0.5))))], &kinds);
        let further = found.last().unwrap().further.unwrap();
        // Six ran the arm, whose ratio may be 0.5: then they were of 80 MB under the control.
        assert_eq!(further, (0.5 * (6e8 + 6.0 * 0.4e8 / 0.5) / upper) as u32);
        // Too few services for an interval: then nothing is said of what is surely freed.
        let few = worth(&fleet, ARM, &[Some((1.0, Some((1.0, 1.0)))), Some((0.4, None))], &kinds);
        assert_eq!((few[0].freed_interval, few[0].further), (None, None));
        assert!((few[0].freed_bytes / (0.6 * few[0].control_bytes) - 1.0).abs() < 1e-9);
        let more =
            worth(&fleet, ARM, &[Some((1.0, Some((1.0, 1.0)))), Some((1.2, Some((1.1, 1.3))))], &kinds);
        assert_eq!((more[0].further, more[0].freed_bytes < 0.0), (Some(0), true));
        assert!(worth(&fleet, ARM, &[Some((1.0, Some((1.0, 1.0)))), None], &kinds).is_empty());
    }
}
