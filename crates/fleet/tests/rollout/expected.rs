//! What services are expected to use and what an arm frees, by a trial whose ratio is known.

use heaptrial_evaluate::analysis::{DAY, Estimate};
use heaptrial_fleet::rollout::{Ratio, kinds, savings, strata};
use proptest::prelude::*;

use crate::trial::{ARM, CONTROL, HOUR, trial};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However unlike services are, each is held to its own size.
    #[test]
    fn a_service_is_held_to_its_own_level_times_the_ratio(
        sizes in prop::collection::vec(1e8..1e10_f64, 4..20), ratio in 0.1..3.0_f64, before in 1e8..1e10_f64, seed: u64,
    ) {
        let found = Ratio::between(&trial(&sizes, ratio, 0.05, seed), ARM, CONTROL).unwrap();
        let expected = found.expected(before, 24.0 * HOUR).unwrap();
        prop_assert!((expected.bytes / before / ratio).ln().abs() < 0.1, "{:?}", expected);
        prop_assert!(expected.error.unwrap().spread < 0.1);
    }
}

#[test]
fn a_service_that_keeps_what_it_runs_is_held_to_its_own_level() {
    let fleet = trial(&[1e8, 5e8, 3e9, 2e8], 0.4, 0.05, 1);
    let found = Ratio::of_their_own(&fleet, ARM).unwrap();
    let expected = found.expected(7e8, 48.0 * HOUR).unwrap();
    assert!((expected.bytes / 7e8 - 1.0).abs() < 1e-3 && expected.error.unwrap().spread < 1e-3);
    assert_eq!(found.expected(7e8, 6.0 * found.last_age()), None);
    // Beyond the trial's ages it may grow a little.
    let later = found.expected(7e8, found.last_age() + 10.0 * DAY).unwrap();
    assert!((later.bytes / 7e8).ln() > 0.045 && (later.bytes / 7e8).ln() < 0.055);
}

#[test]
fn strata_are_of_a_template_of_relays_or_not_and_of_what_ran_before() {
    let kinds = kinds(&trial(&[1e8; 4], 0.4, 0.05, 1), ARM, &|_| false);
    let parsed = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
    let services =
        parsed(&["db12.service", "web@1.service", "web@2.service", "web@3.service", "web@4.service"]);
    let found = strata(&kinds, &services, &|name| name == "web@4.service", &|name| match name.as_str() {
        "web@1.service" => Some("glibc".to_owned()),
        "web@2.service" => Some("mimalloc".to_owned()),
        "web@4.service" => Some("glibc".to_owned()),
        _ => None,
    });
    let named: Vec<(&str, bool)> =
        found.iter().map(|stratum| (stratum.name.as_str(), stratum.ratio.is_some())).collect();
    let expected = [
        ("db*", false),
        ("web@*", false),
        ("web@* from glibc", true),
        ("web@* from mimalloc", true),
        ("web@* relays from glibc", false),
    ];
    assert_eq!(named, expected);
    assert_eq!(Ratio::between(&trial(&[1e8; 2], 0.4, 0.05, 1), ARM, CONTROL), None, "too few");
}

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
