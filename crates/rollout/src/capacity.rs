//! What a treatment is worth: memory that a fleet would give back.

use std::collections::BTreeMap;

use heaptrial_analysis::{Fleet, FleetService};
use serde::{Deserialize, Serialize};

use crate::level_ratio::{ArmRatio, Level, ratios};
use crate::strata::{Ends, Kind};

/// What an arm is worth to the services of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Worths {
    /// By host, and that of all hosts last.
    pub hosts: Vec<Worth>,
    /// Services that are in no sum, since nothing was read of them under their arm's treatment at the end.
    pub not_read: u32,
    /// Services that are in no sum, since nothing tells what they would use under another arm: none like them ran it, or those that did
    /// are too unlike.
    pub unlike: u32,
}

/// Of a host, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// The host; `None` is all of them.
    pub host: Option<String>,
    /// Services whose memory is known.
    pub services: u32,
    /// What they used at the end of the trial, each under the arm that it ran, in bytes.
    pub now_bytes: f64,
    /// What they would use if all ran the control.
    pub control_bytes: f64,
    /// What they would use if all ran the arm.
    pub arm_bytes: f64,
    /// What would be free; negative where the arm needs more.
    pub freed_bytes: f64,
    /// The same by the ends of the ratios' intervals; `None` where one has none.
    pub freed_interval: Option<(f64, f64)>,
}

/// Services of a host, what they would use under the control and the arm, and what that frees at least and at most.
#[derive(Default)]
struct Sums {
    services: u32,
    now_bytes: f64,
    control_bytes: f64,
    arm_bytes: f64,
    freed: (f64, f64),
    /// A service whose arm's ratio has no interval.
    open: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// Arms with a ratio to the control, and the control, by position.
    pub arms: &'a [bool],
    /// Whether ratios were found to differ between hosts: then each host goes by its own.
    pub by_host: bool,
}

/// A service of the sums: its level, and the ratios of all arms to the control that hold for it.
struct Used<'a> {
    service: &'a FleetService,
    kind: Option<usize>,
    level: Level,
    ratios: Vec<Option<ArmRatio>>,
}

/// What an arm is worth to the services of a trial.
///
/// A service's memory under the control is what it uses over the ratio of the arm that it ran, so that no host's figure depends on
/// which of its services were drawn into which arm. That ratio is of the sums of services of its kind in blocks of its size: a mean of
/// ratios tells nothing of bytes where large services have another one than small ones. Sums are of levels as they were at the end of
/// the trial.
pub fn worths(fleet: &Fleet, arm: usize, compared: Compared<'_>, kinds: &[Kind]) -> Worths {
    let is_compared = |place: usize| compared.arms.get(place).copied().unwrap_or_default();
    let mut found = Worths::default();
    let control = fleet.arms.iter().position(|arm| arm.control);
    let Some(control) = control.filter(|_| is_compared(arm)) else { return found };
    let ends = Ends::of(fleet);
    let mut used: Vec<Used<'_>> = Vec::new();
    for service in &fleet.services {
        let [place] = service.arms[..] else { continue };
        let Some(bytes) = ends.level(service) else {
            found.not_read += 1;
            continue;
        };
        let kind = kinds.iter().position(|kind| kind.has(&service.name));
        let level = Level { arm: place, block: service.block, bytes };
        used.push(Used { service, kind: kind.filter(|_| is_compared(place)), level, ratios: Vec::new() });
    }
    with_ratios(&mut used, compared.by_host, |kinds| ratios(kinds, control, arm, fleet.arms.len()));
    let mut hosts: BTreeMap<Option<&str>, Sums> = BTreeMap::new();
    for Used { service, level: Level { arm: place, bytes, .. }, ratios, .. } in used {
        let sums = hosts.entry(service.host.as_deref()).or_default();
        let of = |place: usize| ratios.get(place).copied().flatten();
        let Some(((own, of_own), (ratio, of_arm))) = of(place).zip(of(arm)) else {
            found.unlike += 1;
            continue;
        };
        sums.services += 1;
        sums.now_bytes += bytes;
        sums.control_bytes += bytes / own;
        sums.arm_bytes += bytes / own * ratio;
        match of_own.zip(of_arm) {
            Some((of_own, of_arm)) => {
                let (least, most) = freed(bytes, of_own, of_arm, place == arm);
                sums.freed = (sums.freed.0 + least, sums.freed.1 + most);
            }
            None => sums.open = true,
        }
    }
    let of = |(host, sums): (Option<&str>, Sums)| Worth {
        host: host.map(str::to_owned),
        services: sums.services,
        now_bytes: sums.now_bytes,
        control_bytes: sums.control_bytes,
        arm_bytes: sums.arm_bytes,
        freed_bytes: sums.control_bytes - sums.arm_bytes,
        freed_interval: (!sums.open).then_some(sums.freed),
    };
    found.hosts = hosts.into_iter().filter(|(_, sums)| sums.services > 0).map(of).collect();
    if found.hosts.iter().any(|worth| worth.host.is_some()) {
        let all = found.hosts.iter().cloned().reduce(Worth::and).map(|all| Worth { host: None, ..all });
        found.hosts.extend(all);
    }
    found
}

/// Adds the ratios, of all hosts together or of each.
fn with_ratios(
    used: &mut [Used<'_>],
    by_host: bool,
    ratios: impl Fn(&BTreeMap<usize, Vec<Level>>) -> BTreeMap<(usize, u32), Vec<Option<ArmRatio>>>,
) {
    let group = |own: &Used<'_>| own.service.host.clone().filter(|_| by_host);
    let mut groups: BTreeMap<Option<String>, BTreeMap<usize, Vec<Level>>> = BTreeMap::new();
    for own in used.iter() {
        let Some(kind) = own.kind else { continue };
        groups.entry(group(own)).or_default().entry(kind).or_default().push(own.level);
    }
    let found: BTreeMap<Option<String>, _> =
        groups.into_iter().map(|(host, kinds)| (host, ratios(&kinds))).collect();
    for own in used {
        let of = |kind: usize| found.get(&group(own))?.get(&(kind, own.level.block)).cloned();
        own.ratios = own.kind.and_then(of).unwrap_or_default();
    }
}

/// What one service frees under the arm at least and at most: its memory under the control, which its own arm's ratio tells, times what
/// is less of it. Who runs the arm already has one ratio in both.
fn freed(bytes: f64, (own_low, own_high): (f64, f64), (low, high): (f64, f64), in_arm: bool) -> (f64, f64) {
    let of = |own: f64, ratio: f64| bytes / own * (1.0 - ratio);
    if in_arm {
        return (of(high, high), of(low, low));
    }
    (of(own_low, high).min(of(own_high, high)), of(own_low, low).max(of(own_high, low)))
}

impl Worth {
    fn and(self, other: Self) -> Self {
        let both = |own: (f64, f64), other: (f64, f64)| (own.0 + other.0, own.1 + other.1);
        Self {
            host: None,
            services: self.services + other.services,
            now_bytes: self.now_bytes + other.now_bytes,
            control_bytes: self.control_bytes + other.control_bytes,
            arm_bytes: self.arm_bytes + other.arm_bytes,
            freed_bytes: self.freed_bytes + other.freed_bytes,
            freed_interval: self
                .freed_interval
                .zip(other.freed_interval)
                .map(|(own, other)| both(own, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::kinds;
    use crate::strata::tests::fleet_of_hosts;

    const ARM: usize = 1;

    fn kinds_of(fleet: &Fleet) -> Vec<Kind> {
        kinds(fleet, "mimalloc", &|_| false)
    }

    fn found(fleet: &Fleet) -> Worths {
        worths(fleet, ARM, Compared { arms: &[true; 2], by_host: false }, &kinds_of(fleet))
    }

    /// Every second of so many services of about 100 MB on each of two hosts runs the arm.
    fn varied(services: usize, ratio: f64) -> Fleet {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let sizes: Vec<f64> = (0..services).map(|_| 1e8 * random.random_range(0.95..1.05)).collect();
        of_ratio(&sizes, ratio)
    }

    fn of_ratio(sizes: &[f64], ratio: f64) -> Fleet {
        let sizes: Vec<(&str, f64)> =
            sizes.iter().enumerate().map(|(index, bytes)| (["a", "b"][index / 2 % 2], *bytes)).collect();
        fleet_of_hosts(&sizes, &|index| if index % 2 == 1 { (ARM, ratio) } else { (0, 1.0) })
    }

    /// Two sorts of services, which are on different hosts or on both, each with a size and a ratio; drawn in pairs that are alike.
    #[test]
    fn what_is_freed_is_bytes_and_no_mean_of_ratios() {
        let is_large = |index: usize| index / 4 % 2 == 1;
        let unlike =
            [(0.4, 0.4), (0.3, 0.9), (0.9, 0.3), (0.3, 1.1), (1.1, 0.3)].map(|ratios| (20.0, ratios));
        // What is alike in size may have unlike ratios all the same.
        for ((times, (small, large)), apart) in
            unlike.iter().flat_map(|one| [(*one, false), (*one, true)]).chain([((1.0, (0.2, 1.0)), false)])
        {
            let ratio = |index: usize| if is_large(index) { large } else { small };
            let host = |index: usize| ["a", "b"][if apart { index / 4 } else { index / 2 } % 2];
            let (mut held, mut off, rounds) = ([0; 3], 0.0, 40);
            for seed in 0..rounds {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut bytes =
                    |index| 4e8 * if is_large(index) { times } else { 1.0 } * random.random_range(0.9..1.1);
                let sizes: Vec<(&str, f64)> = (0..40).map(|index| (host(index), bytes(index))).collect();
                let first: Vec<usize> = (0..20).map(|_| random.random_range(0..2)).collect();
                let in_arm = |index: usize| index % 2 == first[index / 2];
                let fleet = fleet_of_hosts(&sizes, &|index| {
                    if in_arm(index) { (ARM, ratio(index)) } else { (0, 1.0) }
                });
                let found = found(&fleet).hosts;
                let told: Vec<(Option<&str>, u32)> =
                    found.iter().map(|worth| (worth.host.as_deref(), worth.services)).collect();
                assert_eq!(told, [(Some("a"), 20), (Some("b"), 20), (None, 40)]);
                for (worth, held) in found.iter().zip(&mut held) {
                    let own = |index: &usize| worth.host.as_deref().is_none_or(|name| name == host(*index));
                    let sum = |of: &dyn Fn(usize) -> f64| -> f64 {
                        (0..40).filter(own).map(|index| of(index) * sizes[index].1).sum()
                    };
                    let (control, arm) = (sum(&|_| 1.0), sum(&ratio));
                    let now = sum(&|index| if in_arm(index) { ratio(index) } else { 1.0 });
                    assert!((worth.now_bytes / now - 1.0).abs() < 1e-3);
                    let (least, most) = worth.freed_interval.unwrap();
                    *held += u32::from(least < control - arm && control - arm < most);
                    assert!(most - least < 1.2 * control, "{worth:?}");
                    off += (worth.freed_bytes - (control - arm)) / control / 3.0;
                }
            }
            let told = format!("{small} {large} {apart}: {held:?} {off}");
            assert!(held.iter().all(|held| held + 4 > rounds as u32), "{told}");
            assert!((off / rounds as f64).abs() < 0.02, "{told}");
        }
    }

    #[test]
    fn where_ratios_differ_between_hosts_each_goes_by_its_own() {
        let sizes: Vec<(&str, f64)> = (0..48)
            .map(|index| (["a", "b"][index / 2 % 2], 1e8 * (1.0 + 0.002 * (index * 7 % 10) as f64)))
            .collect();
        let ratio = |index: usize| if index / 2 % 2 == 0 { 0.2 } else { 0.9 };
        let fleet =
            fleet_of_hosts(&sizes, &|index| if index % 2 == 1 { (ARM, ratio(index)) } else { (0, 1.0) });
        let of = |by_host: bool| {
            worths(&fleet, ARM, Compared { arms: &[true; 2], by_host }, &kinds_of(&fleet)).hosts
        };
        let shares = |worth: Vec<Worth>| {
            worth.iter().map(|own| own.freed_bytes / own.control_bytes).collect::<Vec<f64>>()
        };
        let (own, mean) = (shares(of(true)), shares(of(false)));
        assert!(
            (own[0] - 0.8).abs() < 0.01 && (own[1] - 0.1).abs() < 0.01 && (own[2] - 0.45).abs() < 0.01,
            "{own:?}"
        );
        assert!((mean[2] - 0.45).abs() < 0.01, "{mean:?}");
    }

    #[test]
    fn ends_of_what_is_freed_are_those_of_all_ratios_that_may_be() {
        // The arm may need more than the control, or needs it for sure.
        for (arm, other) in [((0.95, 1.2), (0.05, 0.3)), ((1.1, 1.5), (0.05, 0.3)), ((0.3, 0.5), (0.9, 1.4))]
        {
            let of = |own: f64, ratio: f64| 1e8 / own * (1.0 - ratio);
            let ends = |all: &[f64]| {
                let least = all.iter().copied().fold(f64::INFINITY, f64::min);
                (least, all.iter().copied().fold(f64::NEG_INFINITY, f64::max))
            };
            assert_eq!(freed(1e8, arm, arm, true), ends(&[of(arm.0, arm.0), of(arm.1, arm.1)]));
            let corners = [(other.0, arm.0), (other.0, arm.1), (other.1, arm.0), (other.1, arm.1)];
            assert_eq!(freed(1e8, other, arm, false), ends(&corners.map(|(own, ratio)| of(own, ratio))));
            assert_eq!(freed(1e8, (1.0, 1.0), arm, false), ends(&[of(1.0, arm.0), of(1.0, arm.1)]));
        }
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        // Too few services for an interval: then nothing is said of what is surely freed.
        let few = found(&varied(6, 0.4)).hosts;
        assert!(few.iter().all(|worth| worth.freed_interval.is_none()));
        assert!((few[0].freed_bytes / (0.6 * few[0].control_bytes) - 1.0).abs() < 0.1);
        assert!(found(&varied(24, 1.2)).hosts[2].freed_bytes < 0.0);
        let fleet = varied(24, 0.4);
        let compared = Compared { arms: &[true, false], by_host: false };
        assert_eq!(worths(&fleet, ARM, compared, &kinds_of(&fleet)), Worths::default());
    }

    #[test]
    fn services_that_nothing_is_known_of_are_in_no_sum() {
        let whole = found(&varied(24, 0.4));
        assert_eq!((whole.not_read, whole.unlike), (0, 0));
        let mut fleet = varied(28, 0.4);
        // Two stopped on the first day, and two are of kinds that one arm alone had.
        for (service, name) in fleet.services[24..].iter_mut().zip(["web@x", "web@y", "db", "cache"]) {
            service.name = format!("{}/{name}.service", service.host.as_deref().unwrap());
        }
        fleet.services[24..26].iter_mut().for_each(|service| service.lives[0].readings.truncate(12));
        let found = self::found(&fleet);
        assert_eq!((found.not_read, found.unlike), (2, 2));
        assert_eq!(found.hosts, whole.hosts);
    }

    #[test]
    fn what_is_used_now_is_what_was_used_on_the_last_day() {
        let mut fleet = varied(24, 0.4);
        for reading in fleet.services.iter_mut().flat_map(|service| &mut service.lives[0].readings) {
            // A tenth a day, from 48 hours back.
            reading.kib =
                (f64::from(reading.kib) * (0.1 * f64::from(reading.age_seconds) / 86_400.0).exp()) as u32;
        }
        let last_day = 0.15_f64.exp();
        let (grown, flat) = (found(&fleet), found(&varied(24, 0.4)));
        for (grown, flat) in grown.hosts.iter().zip(&flat.hosts) {
            assert!((grown.now_bytes / flat.now_bytes / last_day - 1.0).abs() < 0.01, "{grown:?}");
        }
    }
}
