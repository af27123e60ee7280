//! What a treatment is worth: memory that a fleet would give back, and what fits into it.

use std::collections::BTreeMap;

use heaptrial_analysis::{DAY, Fleet, FleetLife};
use serde::{Deserialize, Serialize};

use crate::strata::{Kind, level, level_life};

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
    /// How many further services of the most common kind fit into the least of that, on the worst day; `None` where there is no
    /// forecast, no interval or no day. Of all hosts it is the sum of theirs: what is free on two hosts holds no service together.
    pub further: Option<u32>,
    /// What keeps it from being more; `None` where it is not known, and where hosts differ in it.
    pub bound: Option<Bound>,
}

/// What limits further services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// What is freed.
    Freed,
    /// The memory of the host, which its services fill under the arm.
    HostMemory,
    /// The MemoryMax of their unit, which one of them would reach.
    MemoryMax,
}

/// How much more than their levels an arm's services used on their worst day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorstDay {
    /// The day's highest readings of services over their levels, in sum; at least 1.
    pub factor: f64,
    /// Its beginning, in seconds since 1970.
    pub at: f64,
    /// Days of which at least half of the services were read.
    pub days: u32,
    /// Services with a level.
    pub services: u32,
}

/// The worst day (of UTC) of an arm's services: on which their highest readings are furthest above their levels. `None` where none was
/// read for a whole day of which the highest readings are known.
pub fn worst_day(fleet: &Fleet, arm: usize) -> Option<WorstDay> {
    let own = fleet.services.iter().filter(|service| service.arms[..] == [arm]);
    // An earlier life had another level.
    let own = own.filter_map(|service| Some((level(service)?, level_life(service)?)));
    let own: Vec<(f64, &FleetLife)> = own.filter(|(_, life)| tells_peaks(life)).collect();
    let seconds = |life: &FleetLife| Some(life.last_age()? - f64::from(life.readings.first()?.age_seconds));
    if !own.iter().filter_map(|(_, life)| seconds(life)).any(|seconds| seconds >= DAY) {
        return None;
    }
    let mut days: BTreeMap<i64, (f64, f64, u32)> = BTreeMap::new();
    for (level, life) in &own {
        let mut highest: BTreeMap<i64, u32> = BTreeMap::new();
        for reading in life.readings.iter().chain(&life.peaks) {
            let day = ((life.started_at + f64::from(reading.age_seconds)) / DAY).floor() as i64;
            let most = highest.entry(day).or_default();
            *most = reading.kib.max(*most);
        }
        for (day, kib) in highest {
            let sums = days.entry(day).or_default();
            *sums = (sums.0 + f64::from(kib) * 1024.0, sums.1 + level, sums.2 + 1);
        }
    }
    days.retain(|_, sums| 2 * sums.2 as usize >= own.len());
    let count = days.len() as u32;
    let factors = days.into_iter().map(|(day, (highest, levels, _))| (day, highest / levels));
    let (day, factor) = factors.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(WorstDay { factor: factor.max(1.0), at: day as f64 * DAY, days: count, services: own.len() as u32 })
}

/// Whether its highest readings are known: medians alone do not have them.
fn tells_peaks(life: &FleetLife) -> bool {
    life.rolled_up_seconds == 0.0 || !life.peaks.is_empty()
}

/// Services of a host, what they would use under the control by each service's own ratio, and what the arm frees at least and at most.
#[derive(Default)]
struct Sums {
    services: u32,
    now_bytes: f64,
    bytes: f64,
    freed: (f64, f64),
    /// A service whose arm's ratio has no interval.
    open: bool,
    /// The least MemoryMax of those of the most common kind.
    limit_bytes: Option<f64>,
}

/// The ratio of an arm to the control, with its interval.
pub type ArmRatio = (f64, Option<(f64, f64)>);

/// What a further service is counted at.
#[derive(Clone, Copy)]
pub struct Further<'a> {
    /// The kinds of services, with the forecast of the arm.
    pub kinds: &'a [Kind],
    /// The arm's worst day.
    pub worst_day: Option<&'a WorstDay>,
    /// Memory of a host in bytes, by its name.
    pub host_bytes: &'a dyn Fn(Option<&str>) -> Option<f64>,
}

impl<'a> Further<'a> {
    /// The most common kind.
    pub fn kind(&self) -> Option<&'a Kind> {
        self.kinds.iter().max_by_key(|kind| kind.services())
    }

    /// How many fit, and what keeps it from being more. As much as a further service may use beyond its level on the worst day is kept
    /// for those that are there.
    fn fit(&self, host: Option<&str>, sums: &Sums, arm_bytes: f64, least_freed: f64) -> Option<(u32, Bound)> {
        if least_freed <= 0.0 {
            return Some((0, Bound::Freed));
        }
        let factor = self.worst_day?.factor;
        let each = self.kind()?.upper()?.0 * factor;
        if sums.limit_bytes.is_some_and(|limit| limit < each) {
            return Some((0, Bound::MemoryMax));
        }
        let by_freed = (least_freed - arm_bytes * (factor - 1.0)) / each;
        let by_host = (self.host_bytes)(host).map(|bytes| (bytes - arm_bytes * factor) / each);
        // A negative number becomes 0.
        match by_host.filter(|by_host| *by_host < by_freed) {
            Some(by_host) => Some((by_host as u32, Bound::HostMemory)),
            None => Some((by_freed as u32, Bound::Freed)),
        }
    }
}

/// What an arm is worth to the services of a trial, by host, and that of all hosts last. `ratios` are of all arms to the control, by
/// position: what was found, and its interval.
///
/// A service's memory under the control is what it uses over the ratio of the arm that it ran, so that no host's figure depends on
/// which of its services were drawn into which arm. Sums are of levels as they were at the end of the trial.
pub fn worth(fleet: &Fleet, arm: usize, ratios: &[Option<ArmRatio>], further: Further<'_>) -> Vec<Worth> {
    let Some((ratio, interval)) = ratios.get(arm).copied().flatten() else { return Vec::new() };
    let kind = further.kind();
    let mut hosts: BTreeMap<Option<&str>, Sums> = BTreeMap::new();
    for service in &fleet.services {
        let [place] = service.arms[..] else { continue };
        let (Some(bytes), Some((own, of_own))) = (level(service), ratios.get(place).copied().flatten())
        else {
            continue;
        };
        let sums = hosts.entry(service.host.as_deref()).or_default();
        sums.services += 1;
        sums.now_bytes += bytes;
        sums.bytes += bytes / own;
        match of_own.zip(interval) {
            Some((of_own, of_arm)) => {
                let (least, most) = freed(bytes, of_own, of_arm, place == arm);
                sums.freed = (sums.freed.0 + least, sums.freed.1 + most);
            }
            None => sums.open = true,
        }
        let limit = service.limit_bytes.filter(|_| kind.is_some_and(|kind| kind.has(&service.name)));
        sums.limit_bytes = [sums.limit_bytes, limit].into_iter().flatten().reduce(f64::min);
    }
    let of = |(host, sums): (Option<&str>, Sums)| {
        let freed_interval = (!sums.open).then_some(sums.freed);
        let arm_bytes = sums.bytes * ratio;
        let fit = freed_interval.and_then(|(least, _)| further.fit(host, &sums, arm_bytes, least));
        Worth {
            host: host.map(str::to_owned),
            services: sums.services,
            now_bytes: sums.now_bytes,
            control_bytes: sums.bytes,
            arm_bytes,
            freed_bytes: sums.bytes * (1.0 - ratio),
            freed_interval,
            further: fit.map(|(further, _)| further),
            bound: fit.map(|(_, bound)| bound),
        }
    };
    let mut found: Vec<Worth> = hosts.into_iter().map(of).collect();
    if found.iter().any(|worth| worth.host.is_some()) {
        let all = found.iter().cloned().reduce(Worth::and).map(|all| Worth { host: None, ..all });
        found.extend(all);
    }
    found
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
    /// Of two hosts together.
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
            further: self.further.zip(other.further).map(|(own, other)| own + other),
            bound: self.bound.filter(|bound| other.bound == Some(*bound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_model::Reading;

    use super::*;
    use crate::kinds;
    use crate::strata::tests::fleet_of_hosts;

    const ARM: usize = 1;
    const CONTROL: Option<ArmRatio> = Some((1.0, Some((1.0, 1.0))));
    const RATIOS: [Option<ArmRatio>; 2] = [CONTROL, Some((0.4, Some((0.35, 0.5))))];

    fn kinds_of(fleet: &Fleet) -> Vec<Kind> {
        kinds(fleet, "mimalloc", &|_| false)
    }

    /// On hosts of any size.
    fn found(fleet: &Fleet, ratios: &[Option<ArmRatio>], worst_day: Option<&WorstDay>) -> Vec<Worth> {
        worth(fleet, ARM, ratios, Further { kinds: &kinds_of(fleet), worst_day, host_bytes: &|_| None })
    }

    fn day(factor: f64) -> WorstDay {
        WorstDay { factor, at: 0.0, days: 3, services: 6 }
    }

    /// Every second of so many services of 100 MB on each of two hosts runs the arm.
    fn fleet(services: usize) -> Fleet {
        let sizes: Vec<(&str, f64)> = (0..services).map(|index| (["a", "b"][index / 2 % 2], 1e8)).collect();
        fleet_of_hosts(&sizes, &|index| if index % 2 == 1 { (ARM, 0.4) } else { (0, 1.0) })
    }

    #[test]
    fn sums_do_not_depend_on_who_was_drawn_into_which_arm() {
        // Services of 100 and 300 MB under the control, on two hosts; the arm needs 0.4 of it.
        let sizes = [("a", 1e8), ("a", 3e8), ("b", 1e8), ("b", 3e8), ("b", 1e8), ("b", 1e8)];
        for drawn in 0..64_u32 {
            let in_arm = |index: usize| drawn >> index & 1 == 1;
            let fleet = fleet_of_hosts(&sizes, &|index| if in_arm(index) { (ARM, 0.4) } else { (0, 1.0) });
            let found = found(&fleet, &RATIOS, None);
            let told: Vec<(Option<&str>, u32)> =
                found.iter().map(|worth| (worth.host.as_deref(), worth.services)).collect();
            assert_eq!(told, [(Some("a"), 2), (Some("b"), 4), (None, 6)]);
            let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
            for (worth, control) in found.iter().zip([4e8, 6e8, 10e8]) {
                assert!(close(worth.control_bytes, control), "{worth:?}");
                assert!(close(worth.arm_bytes, 0.4 * control));
                let (freed, (least, most)) = (worth.freed_bytes, worth.freed_interval.unwrap());
                assert!(close(freed, 0.6 * control) && least < freed && freed < most, "{worth:?}");
            }
            // What is used now does.
            let now = |index: usize| sizes[index].1 * if in_arm(index) { 0.4 } else { 1.0 };
            assert!(close(found[2].now_bytes, (0..6).map(now).sum()), "{found:?}");
        }
    }

    #[test]
    fn what_fits_is_by_the_upper_limit_on_the_worst_day_and_that_of_hosts_in_sum() {
        let fleet = fleet(48);
        let kinds = kinds_of(&fleet);
        let upper = kinds[0].upper().unwrap().0;
        assert!(upper > 0.39e8 && upper < 0.6e8, "{upper}");
        let fits = |factor: f64| found(&fleet, &RATIOS, Some(&day(factor)));
        // Twelve of each host ran the arm, whose ratio may be 0.5: then they were of 80 MB under the control.
        let least = 0.5 * (12e8 + 12.0 * 0.4e8 / 0.5);
        for factor in [1.0, 1.3] {
            let kept = 24.0 * 0.4e8 * (factor - 1.0);
            let one = ((least - kept) / (upper * factor)) as u32;
            let further: Vec<Option<u32>> = fits(factor).iter().map(|worth| worth.further).collect();
            assert_eq!(further, [Some(one), Some(one), Some(2 * one)], "{factor}");
        }
        assert!(fits(1.3)[0].further < fits(1.0)[0].further);
        // Parts of a service that are free on two hosts make none.
        let parted = (0..50).map(|hundredths| 1.0 + f64::from(hundredths) / 100.0).filter(|factor| {
            let found = fits(*factor);
            let (all, free) = (found[2].further.unwrap(), found[2].freed_interval.unwrap().0);
            assert_eq!(all, found[0].further.unwrap() + found[1].further.unwrap());
            ((free - found[2].arm_bytes * (factor - 1.0)) / (upper * factor)) as u32 > all
        });
        assert!(parted.count() > 5);
    }

    #[test]
    fn ends_of_what_is_freed_are_those_of_all_ratios_that_may_be() {
        // Of three arms; the one in question may need more than the control, or needs it for sure.
        let sizes = [("a", 1e8); 9];
        for (arm, other) in [((0.95, 1.2), (0.05, 0.3)), ((1.1, 1.5), (0.05, 0.3)), ((0.3, 0.5), (0.9, 1.4))]
        {
            let middle = |(low, high): (f64, f64)| (low * high).sqrt();
            let ratios = [CONTROL, Some((middle(arm), Some(arm))), Some((middle(other), Some(other)))];
            let of = |index: usize| [(0, 1.0), (ARM, middle(arm)), (2, middle(other))][index % 3];
            let fleet = fleet_of_hosts(&sizes, &of);
            let found = found(&fleet, &ratios, None);
            let all = found.last().unwrap();
            let sum = |arm: f64, other: f64| {
                let [_, Some((of_arm, _)), Some((of_other, _))] = ratios else { panic!("three arms") };
                (3e8 + 3e8 * of_arm / arm + 3e8 * of_other / other) * (1.0 - arm)
            };
            let corners = [(arm.0, other.0), (arm.0, other.1), (arm.1, other.0), (arm.1, other.1)]
                .map(|(a, o)| sum(a, o));
            let least = corners.iter().copied().fold(f64::INFINITY, f64::min);
            let most = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (low, high) = all.freed_interval.unwrap();
            let close = |value: f64, expected: f64| (value - expected).abs() < 1e-3 * 1e8;
            assert!(close(low, least) && close(high, most), "{low} {high}, by corners {least} {most}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let fleet = fleet(24);
        let day = day(1.0);
        // Too few services for an interval: then nothing is said of what is surely freed.
        let few = found(&fleet, &[CONTROL, Some((0.4, None))], Some(&day));
        assert!(
            few.iter().all(|worth| (worth.freed_interval, worth.further, worth.bound) == (None, None, None))
        );
        assert!((few[0].freed_bytes / (0.6 * few[0].control_bytes) - 1.0).abs() < 1e-9);
        // No whole day.
        let none = found(&fleet, &RATIOS, None);
        assert!(none.iter().all(|worth| worth.further.is_none() && worth.freed_interval.is_some()));
        // Where nothing is freed, nothing fits, whatever else is not known.
        let more = found(&fleet, &[CONTROL, Some((1.2, Some((1.1, 1.3))))], None);
        assert_eq!((more[2].further, more[2].bound), (Some(0), Some(Bound::Freed)));
        assert!(more[2].freed_bytes < 0.0);
        assert!(found(&fleet, &[CONTROL, None], Some(&day)).is_empty());
    }

    #[test]
    fn the_memory_of_a_host_and_a_units_own_limit_hold_further_services_down() {
        let mut fleet = fleet(48);
        let (kinds, day) = (kinds_of(&fleet), day(1.25));
        let each = kinds[0].upper().unwrap().0 * 1.25;
        let on = |fleet: &Fleet, bytes: f64| {
            let host_bytes = |host: Option<&str>| (host == Some("a")).then_some(bytes);
            worth(
                fleet,
                ARM,
                &RATIOS,
                Further { kinds: &kinds, worst_day: Some(&day), host_bytes: &host_bytes },
            )
        };
        let roomy = on(&fleet, 1e12);
        assert_eq!(roomy.iter().map(|worth| worth.bound).collect::<Vec<_>>(), [Some(Bound::Freed); 3]);
        // Three fit beside what is there, and no more than that; on the other host nothing is known of its memory.
        let tight = on(&fleet, roomy[0].arm_bytes * 1.25 + 3.5 * each);
        assert_eq!((tight[0].further, tight[0].bound), (Some(3), Some(Bound::HostMemory)));
        assert_eq!(tight[1], roomy[1]);
        assert_eq!((tight[2].further, tight[2].bound), (Some(3 + roomy[1].further.unwrap()), None));
        assert_eq!(on(&fleet, 1e6)[0].further, Some(0));
        // One of them would be killed on its worst day.
        let unit = |fleet: &mut Fleet, limit: f64| fleet.services[0].limit_bytes = Some(limit);
        unit(&mut fleet, each * 0.99);
        assert_eq!(
            (on(&fleet, 1e12)[0].further, on(&fleet, 1e12)[0].bound),
            (Some(0), Some(Bound::MemoryMax))
        );
        unit(&mut fleet, each * 1.01);
        assert_eq!(on(&fleet, 1e12)[0].bound, Some(Bound::Freed));
    }

    #[test]
    fn the_worst_day_is_that_of_the_arm_and_of_half_of_its_services() {
        let mut fleet = fleet(12);
        // Read hourly for two days, from a midnight on.
        let raise = |fleet: &mut Fleet, service: usize, hour: usize, factor: f64| {
            let reading: &mut Reading = &mut fleet.services[service].lives[0].readings[hour];
            reading.kib = (f64::from(reading.kib) * factor) as u32;
        };
        let flat = worst_day(&fleet, ARM).unwrap();
        assert_eq!((flat.factor, flat.services), (1.0, 6));
        // All of the arm are at twice their level for an hour of the second day, at different hours.
        for (number, service) in (0..12).filter(|service| service % 2 == 1).enumerate() {
            raise(&mut fleet, service, 30 + number, 2.0);
        }
        let found = worst_day(&fleet, ARM).unwrap();
        assert!((found.factor - 2.0).abs() < 1e-6, "{found:?}");
        assert_eq!((found.at, found.days), (DAY, 3));
        // What the control does is its own, and one service of six makes a sixth.
        let mut other = self::fleet(12);
        raise(&mut other, 0, 30, 5.0);
        raise(&mut other, 1, 30, 4.0);
        let found = worst_day(&other, ARM).unwrap();
        assert!((found.factor - 1.5).abs() < 1e-6, "{found:?}");
        // A day on which few were read is none: the first two are not read beyond it.
        for service in &mut other.services[4..] {
            service.lives[0].readings.truncate(24);
        }
        assert!(worst_day(&other, ARM).unwrap().factor < 1.0 + 1e-6);
        // Less than a day tells nothing.
        for service in &mut other.services {
            service.lives[0].readings.truncate(20);
        }
        assert_eq!(worst_day(&other, ARM), None);
    }

    #[test]
    fn what_is_rolled_up_has_its_peaks_or_tells_no_worst_day() {
        let mut fleet = fleet(12);
        for service in &mut fleet.services {
            let life = &mut service.lives[0];
            life.rolled_up_seconds = 3600.0;
            life.peaks.clone_from(&life.readings);
            let reading = &mut life.peaks[30];
            reading.kib = reading.kib * 8 / 5;
        }
        let found = worst_day(&fleet, ARM).unwrap();
        assert!((found.factor - 1.6).abs() < 1e-3 && found.at == DAY, "{found:?}");
        fleet.services.iter_mut().for_each(|service| service.lives[0].peaks.clear());
        assert_eq!(worst_day(&fleet, ARM), None);
    }
}
