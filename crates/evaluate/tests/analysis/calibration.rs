//! The procedure on simulated fleets, in short; `bench/src/bin/calibrate_analysis.rs` is the long version.
//!
//! A count of fleets is held against the limit that a binomial count of the rate that is promised exceeds once in
//! 1,000 times. With 60 fleets that is 9 of them (15%) for a promise of 5%: a procedure that is wrong twice as often
//! as it says passes, one that is wrong five times as often hardly does. The long version is finer. Seeds are fixed, so the same
//! code gives the same counts on every machine and with any number of threads.

use crate::simulation;

use heaptrial_evaluate::analysis::FindingKind;
use simulation::measures::{self, growth_covered, ratios_covered, verdict};
use simulation::{Arm, Blocks, Course, Hosts, Load, Oddity, Rate, Scenario, Starts, rates};

const FLEETS: u32 = 60;

/// Short series and small arms: the crate itself is not optimised here.
fn short(arms: Vec<Arm>) -> Scenario {
    Scenario { every_hours: 8.0, ..Scenario::new(arms) }
}

fn two(ratio: f64, course: Course) -> Scenario {
    short(vec![Arm::new(7, 1.0), Arm::new(7, ratio).growing(course)])
}

const FLAT: Course = Course::Steady(0.0);

/// The highest count among `n` that is exceeded with probability 0.001 at most, if each happens with `share`.
fn highest(share: f64, n: u32) -> f64 {
    let mut probability = (1.0 - share).powi(n as i32);
    let mut up_to = probability;
    let mut count = 0;
    while up_to < 0.999 && count < n {
        probability *= f64::from(n - count) / f64::from(count + 1) * share / (1.0 - share);
        up_to += probability;
        count += 1;
    }
    f64::from(count)
}

fn count(rate: &Rate) -> f64 {
    rate.mean() * f64::from(rate.fleets)
}

fn at_most(what: &str, rate: &Rate, share: f64) {
    println!("{what}: {rate}");
    assert!(count(rate) <= highest(share, rate.fleets) + 1e-9, "{what}: {rate}");
}

fn at_least(what: &str, rate: &Rate, share: f64) {
    println!("{what}: {rate}");
    let missed = f64::from(rate.fleets) - count(rate);
    assert!(missed <= highest(1.0 - share, rate.fleets) + 1e-9, "{what}: {rate}");
}

#[test]
fn limits_are_those_of_the_binomial() {
    // By exact sums of binomial coefficients in Python.
    assert_eq!((highest(0.05, 150), highest(0.05, 60), highest(0.01, 60)), (17.0, 9.0, 4.0));
}

#[test]
fn no_effect_is_found_in_one_fleet_of_twenty_and_intervals_hold_the_truth() {
    for (name, scenario) in [
        ("plain", two(1.0, FLAT)),
        ("levels t3", Scenario { spread_tails: true, ..two(1.0, FLAT) }),
        (
            "staggered, common load",
            Scenario {
                starts: Starts::Staggered(3.0),
                load: Load { sd: 0.1, correlation: 0.98 },
                ..two(1.0, FLAT)
            },
        ),
        ("restarts, missing", Scenario { restarts_per_day: 0.1, missing: 0.1, ..two(1.0, FLAT) }),
    ] {
        let [found, covered] = rates(&scenario, FLEETS, 11, |_, analysis| {
            [measures::any_difference(analysis), ratios_covered(analysis, &[1.0, 1.0])]
        });
        at_most(&format!("{name}: difference"), &found, 0.05);
        at_least(&format!("{name}: interval"), &covered, 0.95);
    }
}

#[test]
fn several_arms_have_five_percent_together() {
    let [found] = rates(&short(vec![Arm::new(6, 1.0); 4]), FLEETS, 12, |_, analysis| {
        [measures::any_difference(analysis)]
    });
    at_most("4 arms", &found, 0.05);
}

#[test]
fn a_true_ratio_lies_in_its_interval_and_is_found() {
    let [covered, found] = rates(&two(0.8, FLAT), FLEETS, 13, |_, analysis| {
        [ratios_covered(analysis, &[1.0, 0.8]), measures::any_difference(analysis)]
    });
    at_least("ratio 0.8: interval", &covered, 0.95);
    at_least("ratio 0.8: power", &found, 0.98);
}

#[test]
fn growth_lies_in_its_interval_and_verdicts_are_rarely_wrong() {
    let load = Load { sd: 0.05, correlation: 0.98 };
    for (name, scenario, truth) in [
        ("none", two(1.0, FLAT), 0.0),
        ("none, common load", Scenario { load, ..two(1.0, FLAT) }, 0.0),
        ("none, restarts", Scenario { restarts_per_day: 0.1, ..two(1.0, FLAT) }, 0.0),
        ("8% a day", two(1.0, Course::Steady(0.08)), 0.08),
    ] {
        let [covered, stable, growing, bloating] = rates(&scenario, FLEETS, 14, |_, analysis| {
            [
                growth_covered(analysis, 1, truth),
                verdict(analysis, 1, "stable"),
                verdict(analysis, 1, "growing"),
                verdict(analysis, 1, "bloating"),
            ]
        });
        at_least(&format!("{name}: interval"), &covered, 0.95);
        if truth == 0.0 {
            at_most(&format!("{name}: growing"), &growing, 0.05);
            at_most(&format!("{name}: bloating"), &bloating, 0.02);
        } else {
            at_most(&format!("{name}: stable"), &stable, 0.025);
        }
        if truth > 0.05 {
            at_least(&format!("{name}: bloating"), &bloating, 0.98);
        }
    }
}

#[test]
fn growth_that_levels_off_is_not_bloating() {
    let [bloating] = rates(&two(1.0, Course::Saturating(1.0, 2.0)), FLEETS, 15, |_, analysis| {
        [verdict(analysis, 1, "bloating")]
    });
    at_most("saturating: bloating", &bloating, 0.05);
}

#[test]
fn off_treatment_are_told_and_others_are_not() {
    let arms = || short(vec![Arm::new(12, 1.0), Arm::new(12, 0.4)]);
    for services in [1, 3] {
        let odd = arms().with(Oddity::Contaminated { services, like: 0 });
        let [found, strange, others] = rates(&odd, 15, 16, |simulated, analysis| {
            [
                measures::found(analysis, FindingKind::NearerToAnotherArm),
                measures::off_treatment(simulated, analysis),
                measures::any_false_off_treatment(simulated, analysis),
            ]
        });
        at_least(&format!("{services} off-treatment services: told"), &found, 0.97);
        at_least(&format!("{services} off-treatment services: left out"), &strange, 0.97);
        at_most(&format!("{services} off-treatment services: others"), &others, 0.05);
    }
    let [none] = rates(&arms(), 15, 16, |simulated, analysis| {
        [measures::any_false_off_treatment(simulated, analysis)]
    });
    at_most("no off-treatment services", &none, 0.03);
}

#[test]
fn what_else_is_wrong_is_told_and_nothing_else() {
    use FindingKind as Kind;
    let arms = || two(0.5, FLAT);
    for (oddity, kind) in [
        (Oddity::Vanished { services: 2, day: 5.0 }, Kind::EndsEarly),
        (Oddity::LacksSamples { services: 1, share: 0.7 }, Kind::LacksSamples),
        (Oddity::AgeUnknown { services: 2 }, Kind::AgeUnknown),
        (Oddity::Spanned { day: 3.0 }, Kind::TreatmentUncertain),
        (Oddity::ListedTwice { services: 2, like: 0 }, Kind::TreatmentUncertain),
    ] {
        let [found, named] = rates(&arms().with(oddity), 12, 17, |simulated, analysis| {
            [measures::found(analysis, kind), measures::named(simulated, analysis, kind)]
        });
        at_least(&format!("{kind:?}"), &found, 0.95);
        at_least(&format!("{kind:?}"), &named, 0.95);
    }
    let noisy = Scenario { missing: 0.1, ..arms() };
    let kinds = [Kind::EndsEarly, Kind::LacksSamples, Kind::AgeUnknown, Kind::TreatmentUncertain];
    let clean = rates(&noisy, 40, 18, |_, analysis| kinds.map(|kind| measures::found(analysis, kind)));
    for (kind, rate) in kinds.iter().zip(&clean) {
        at_most(&format!("{kind:?}"), rate, 0.02);
    }
}

#[test]
fn hosts_that_differ_otherwise_are_in_no_interval() {
    let on = |ratio: f64, effect_sd: f64| Scenario {
        blocks: Some(Blocks { services: 4, sd: 0.1 }),
        hosts: Some(Hosts { count: 3, sd: 0.5, effect_sd, spread_factor: 1.0 }),
        ..short(vec![Arm::new(12, 1.0), Arm::new(12, ratio)])
    };
    let found = |scenario: &Scenario, ratio: f64| {
        rates(scenario, FLEETS, 1, |simulated, analysis| {
            [
                measures::any_difference(analysis),
                measures::mean_covered(simulated, analysis, &[1.0, ratio]),
                measures::differs_by_host(simulated, analysis),
            ]
        })
    };
    let [difference, covered, differs] = &found(&on(1.0, 0.0), 1.0)[..] else { panic!() };
    at_most("a difference", difference, 0.05);
    at_least("coverage", covered, 0.95);
    at_most("differs by host", differs, 0.05);
    let [difference, covered, differs] = &found(&on(0.5, 0.3), 0.5)[..] else { panic!() };
    at_least("a difference", difference, 0.9);
    at_least("coverage of the mean", covered, 0.9);
    at_least("differs by host", differs, 0.7);
}
