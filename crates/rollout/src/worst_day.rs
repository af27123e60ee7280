//! The day on which an arm's services needed most.

use std::collections::BTreeMap;

use heaptrial_analysis::{DAY, Fleet, FleetLife};
use serde::{Deserialize, Serialize};

use crate::strata::{Ends, level_life};

/// How much more than their levels an arm's services used on their worst day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorstDay {
    /// The day's highest readings of services over their levels, in sum; at least 1.
    pub factor: f64,
    /// Its beginning, in seconds since 1970.
    pub at: f64,
    /// Days of which at least half of the services were read.
    pub days: u32,
    pub services: u32,
}

/// The worst day (of UTC) of an arm's services: on which their highest readings are furthest above their levels. `None` where no service
/// that was read to the end tells its highest readings for a whole day.
pub fn worst_day(fleet: &Fleet, arm: usize) -> Option<WorstDay> {
    let ends = Ends::of(fleet);
    let own = fleet.services.iter().filter(|service| service.arms[..] == [arm]);
    // An earlier life had another level.
    let own = own.filter_map(|service| Some((ends.level(service)?, level_life(service)?)));
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

#[cfg(test)]
mod tests {
    use heaptrial_model::Reading;

    use super::*;
    use crate::capacity::tests::{ARM, fleet};

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
        // A day on which few were read is none: most are read from the second day on.
        let mut other = self::fleet(12);
        raise(&mut other, 1, 6, 4.0);
        assert!(worst_day(&other, ARM).unwrap().factor > 1.4);
        for service in &mut other.services[4..] {
            service.lives[0].readings.drain(..24);
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

    /// They had few days, and what they use now is nothing.
    #[test]
    fn services_that_are_read_no_more_have_no_part_in_it() {
        let mut fleet = fleet(12);
        let of_arm = || (0..12).filter(|service| service % 2 == 1);
        for service in of_arm().take(4) {
            let life = &mut fleet.services[service].lives[0];
            life.readings[3].kib *= 9;
            life.readings.truncate(20);
        }
        for service in of_arm() {
            let reading = &mut fleet.services[service].lives[0].readings;
            if let Some(reading) = reading.get_mut(30) {
                reading.kib = reading.kib * 3 / 2;
            }
        }
        let found = worst_day(&fleet, ARM).unwrap();
        assert_eq!((found.services, found.at), (2, DAY));
        assert!((found.factor - 1.5).abs() < 1e-3, "{found:?}");
    }
}
