//! The procedure on simulated fleets: how often it is right. Prints Markdown tables for `docs/calibration.md`.
//!
//! `calibrate_analysis [FLEETS] [SEED] [SECTION]`: fleets per scenario (1000), seed (1), one section (all).

#[path = "../../../crates/evaluate/tests/analysis/simulation/mod.rs"]
mod simulation;

use std::time::Instant;

use heaptrial_evaluate::analysis::{Clock, FindingKind};
use simulation::measures::{self, growth_covered, ratios_covered, verdict};
use simulation::{Arm, Blocks, Course, Hosts, Load, Oddity, Rate, Scenario, Starts, rates, rates_by};

fn main() {
    let mut given = std::env::args().skip(1);
    let mut number = |otherwise: u64| given.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (fleets, seed) = (number(1000), number(1));
    let only = given.next();
    let fleets = u32::try_from(fleets).expect("fewer fleets");
    let begin = Instant::now();
    println!(
        "{fleets} fleets per scenario, seed {seed}; shares in percent with their Monte Carlo standard errors."
    );
    type Section = fn(u32, u64);
    let sections: [(&str, Section); 9] = [
        ("none", no_effect),
        ("ratio", true_ratio),
        ("growth", growth),
        ("shape", shapes),
        ("verdict", verdicts),
        ("minority", minority),
        ("oddity", oddities),
        ("clean", clean),
        ("hosts", hosts),
    ];
    for (name, section) in sections {
        if only.as_deref().is_none_or(|only| only == name) {
            section(fleets, seed);
        }
    }
    eprintln!("{:.0} s", begin.elapsed().as_secs_f64());
}

fn row(name: &str, rates: &[Rate]) {
    let cells: Vec<String> = rates.iter().map(Rate::to_string).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

fn heading(title: &str, columns: &[&str]) {
    println!("\n## {title}\n\n| scenario | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// Fleets in which services can be exchanged between arms, and some in which they cannot.
fn exchangeable() -> Vec<(&'static str, Scenario)> {
    let equal = Scenario::of_equal;
    vec![
        ("2 arms of 5", equal(2, 5)),
        ("2 arms of 10", equal(2, 10)),
        ("3 arms of 20", equal(3, 20)),
        ("5 arms of 20", equal(5, 20)),
        ("2 arms of 80", equal(2, 80)),
        (
            "arms of 20, 80, 60, 20, 20",
            Scenario::new([20, 80, 60, 20, 20].map(|n| Arm::new(n, 1.0)).to_vec()),
        ),
        ("3 arms of 10, spread 0.3", Scenario { spread: 0.3, ..equal(3, 10) }),
        ("3 arms of 20, spread 0.3", Scenario { spread: 0.3, ..equal(3, 20) }),
        ("3 arms of 10, spread 0.01, wandering 0.05 at 0.99", slow(0.05, equal(3, 10))),
        ("3 arms of 20, levels t3", Scenario { spread_tails: true, ..equal(3, 20) }),
        ("3 arms of 20, wandering t3", Scenario { wander: 0.1, wander_tails: true, ..equal(3, 20) }),
        (
            "3 arms of 10, staggered over 4 days, load 0.1 at 0.98",
            Scenario { starts: Starts::Staggered(4.0), load: load(), ..equal(3, 10) },
        ),
        ("3 arms of 20, 0.1 restarts a day", Scenario { restarts_per_day: 0.1, ..equal(3, 20) }),
        ("3 arms of 10, once a day, 10% missing", daily(equal(3, 10))),
        (
            "3 arms of 12 in blocks of 6 (SD 0.3)",
            Scenario { blocks: Some(Blocks { services: 6, sd: 0.3 }), ..equal(3, 12) },
        ),
        (
            "3 arms of 5 in blocks of 3 (SD 0.3)",
            Scenario { blocks: Some(Blocks { services: 3, sd: 0.3 }), ..equal(3, 5) },
        ),
    ]
}

fn load() -> Load {
    Load { sd: 0.1, correlation: 0.98 }
}

fn slow(wander: f64, scenario: Scenario) -> Scenario {
    Scenario { spread: 0.01, wander, correlation: 0.99, ..scenario }
}

fn settling(settling_days: f64, scenario: Scenario) -> Scenario {
    Scenario { settling_days, ..scenario }
}

fn daily(scenario: Scenario) -> Scenario {
    Scenario { every_hours: 24.0, missing: 0.1, days: 14.0, ..scenario }
}

/// Fleets without an effect of which services cannot be exchanged.
fn not_exchangeable() -> Vec<(&'static str, Scenario)> {
    let with_spreads = |small: usize, large: usize, factor: f64| {
        let wide = Arm { spread_factor: factor, ..Arm::new(small, 1.0) };
        Scenario::new(vec![Arm::new(large, 1.0), wide])
    };
    vec![
        ("20 and 20, the second's spread 4 times as wide", with_spreads(20, 20, 4.0)),
        ("80 and 10, the small arm's spread 4 times as wide", with_spreads(10, 80, 4.0)),
        ("80 and 10, the small arm's spread a quarter", with_spreads(10, 80, 0.25)),
        (
            "3 arms of 20 that start 1 day apart, load 0.1 at 0.98",
            Scenario { starts: Starts::ByArm(1.0), load: load(), ..Scenario::of_equal(3, 20) },
        ),
        (
            "3 arms of 20 that start 1 day apart, no common load",
            Scenario { starts: Starts::ByArm(1.0), ..Scenario::of_equal(3, 20) },
        ),
    ]
}

fn no_effect(fleets: u32, seed: u64) {
    let columns = ["a difference is found", "95% intervals that hold 1", "a service is called off treatment"];
    for (title, scenarios) in [
        ("No effect, services exchangeable", exchangeable()),
        ("No effect, services not exchangeable", not_exchangeable()),
    ] {
        heading(title, &columns);
        for (name, scenario) in scenarios {
            let truth = vec![1.0; scenario.arms.len()];
            let found = rates(&scenario, fleets, seed, |simulated, analysis| {
                [
                    measures::any_difference(analysis),
                    ratios_covered(analysis, &truth),
                    measures::any_false_off_treatment(simulated, analysis),
                ]
            });
            row(name, &found);
        }
    }
}

fn true_ratio(fleets: u32, seed: u64) {
    heading(
        "A true ratio",
        &["95% intervals that hold it", "power (Holm over the arms)", "a service is called off treatment"],
    );
    let arms =
        |ratio: f64, services: usize| Scenario::new(vec![Arm::new(services, 1.0), Arm::new(services, ratio)]);
    for (name, scenario) in [
        ("0.5, 5 and 5", arms(0.5, 5)),
        ("0.5, 20 and 20", arms(0.5, 20)),
        ("0.5, 20 and 20, levels t3", Scenario { spread_tails: true, ..arms(0.5, 20) }),
        ("0.8, 5 and 5", arms(0.8, 5)),
        ("0.8, 20 and 20", arms(0.8, 20)),
        ("0.8, 20 and 20, levels t3", Scenario { spread_tails: true, ..arms(0.8, 20) }),
        ("0.8, 80 and 80", arms(0.8, 80)),
        ("0.95, 5 and 5", arms(0.95, 5)),
        ("0.95, 10 and 10", arms(0.95, 10)),
        ("0.95, 20 and 20", arms(0.95, 20)),
        ("0.95, 80 and 80", arms(0.95, 80)),
        ("0.8, 20 and 20, spread 0.3", Scenario { spread: 0.3, ..arms(0.8, 20) }),
        ("0.8, 20 and 20, 0.1 restarts a day", Scenario { restarts_per_day: 0.1, ..arms(0.8, 20) }),
        (
            "0.2, 0.28, 0.44, 1.13 (20, 80, 60, 20, 20)",
            Scenario::new(
                [(20, 1.0), (80, 0.2), (60, 0.28), (20, 0.44), (20, 1.13)]
                    .map(|(n, ratio)| Arm::new(n, ratio))
                    .to_vec(),
            ),
        ),
    ] {
        let truth: Vec<f64> = scenario.arms.iter().map(|arm| arm.ratio).collect();
        let found = rates(&scenario, fleets, seed, |simulated, analysis| {
            [
                ratios_covered(analysis, &truth),
                measures::differences(analysis),
                measures::any_false_off_treatment(simulated, analysis),
            ]
        });
        row(name, &found);
    }
}

/// Two arms, of which the second has a course of growth.
fn course(services: usize, course: Course) -> Scenario {
    Scenario::new(vec![Arm::new(services, 1.0), Arm::new(services, 1.0).growing(course)])
}

fn growth(fleets: u32, seed: u64) {
    heading(
        "Growth of an arm: coverage and verdicts",
        &["95% intervals that hold it", "stable", "growing", "bloating", "inconclusive"],
    );
    let long = |scenario| Scenario { days: 20.0, ..scenario };
    let for_days = |days: f64, scenario| Scenario { days, ..scenario };
    let shared =
        |sd: f64, correlation: f64, scenario| Scenario { load: Load { sd, correlation }, ..scenario };
    let (none, one) = (Course::Steady(0.0), Course::Steady(0.01));
    let edge = Course::Steady(0.005);
    for (name, scenario, truth) in [
        ("0, 20 services, 8 days", course(20, none), 0.0),
        ("0, 8 services, 8 days", course(8, none), 0.0),
        ("0, 20 services, 20 days", long(course(20, none)), 0.0),
        ("0, wandering 0.05 at 0.99", slow(0.05, course(20, none)), 0.0),
        ("0, wandering t3", Scenario { wander_tails: true, wander: 0.05, ..course(20, none) }, 0.0),
        ("0, 0.1 restarts a day", Scenario { restarts_per_day: 0.1, ..course(20, none) }, 0.0),
        ("0, 0.3 restarts a day", Scenario { restarts_per_day: 0.3, ..course(20, none) }, 0.0),
        ("0, staggered over 6 days", Scenario { starts: Starts::Staggered(6.0), ..course(20, none) }, 0.0),
        ("0, once a day, 10% missing, 14 days", daily(course(20, none)), 0.0),
        ("0, slow settling (1.5 days)", settling(1.5, course(20, none)), 0.0),
        ("0, common load 0.1 at 0.98", Scenario { load: load(), ..course(20, none) }, 0.0),
        (
            "0, common load 0.02 at 0.98",
            Scenario { load: Load { sd: 0.02, ..load() }, ..course(20, none) },
            0.0,
        ),
        ("0, common load 0.005 at 0.98", shared(0.005, 0.98, course(20, none)), 0.0),
        ("0, common load 0.01 at 0.98", shared(0.01, 0.98, course(20, none)), 0.0),
        ("0, common load 0.1 at 0.9", shared(0.1, 0.9, course(20, none)), 0.0),
        ("0, common load 0.1 at 0.995", shared(0.1, 0.995, course(20, none)), 0.0),
        ("0, common load 0.02 at 0.98, 8 services", shared(0.02, 0.98, course(8, none)), 0.0),
        ("0, common load 0.02 at 0.98, 4 days", for_days(4.0, shared(0.02, 0.98, course(20, none))), 0.0),
        ("0, common load 0.02 at 0.98, 14 days", for_days(14.0, shared(0.02, 0.98, course(20, none))), 0.0),
        ("0, common load 0.02 at 0.98, 30 days", for_days(30.0, shared(0.02, 0.98, course(20, none))), 0.0),
        (
            "0, common load 0.05 at 0.98, arms 1 day apart",
            Scenario { starts: Starts::ByArm(1.0), ..shared(0.05, 0.98, course(20, none)) },
            0.0,
        ),
        (
            "0, common load 0.05 at 0.98, staggered over 6 days",
            Scenario { starts: Starts::Staggered(6.0), ..shared(0.05, 0.98, course(20, none)) },
            0.0,
        ),
        ("5% a day, common load 0.02 at 0.98", shared(0.02, 0.98, course(20, Course::Steady(0.05))), 0.05),
        ("0.5% a day (the margin)", course(20, edge), 0.005),
        ("1% a day", course(20, one), 0.01),
        ("1% a day, 20 days", long(course(20, one)), 0.01),
        ("1% a day, 0.1 restarts a day", Scenario { restarts_per_day: 0.1, ..course(20, one) }, 0.01),
        ("1% a day, common load 0.1 at 0.98", Scenario { load: load(), ..course(20, one) }, 0.01),
        ("10% a day", course(20, Course::Steady(0.1)), 0.1),
    ] {
        let found = rates(&scenario, fleets, seed, |_, analysis| {
            [
                growth_covered(analysis, 1, truth),
                verdict(analysis, 1, "stable"),
                verdict(analysis, 1, "growing"),
                verdict(analysis, 1, "bloating"),
                verdict(analysis, 1, "inconclusive"),
            ]
        });
        row(name, &found);
    }
}

/// Courses of several shapes, alone and under load that services share. Three services are relays of a lab.
fn shapes(fleets: u32, seed: u64) {
    heading(
        "Growth of several shapes",
        &[
            "intervals that hold it",
            "the same in bytes",
            "half of the width, of the truth",
            "growing",
            "bloating",
            "inconclusive",
        ],
    );
    let loads = [("", 0.0), (", load 0.02 at 0.98", 0.02), (", load 0.05 at 0.98", 0.05)];
    for (shape, growth) in [
        ("straight in bytes, 10% of the level a day", Course::Straight(0.1)),
        ("straight in bytes, 30%", Course::Straight(0.3)),
        ("by a factor, 10% a day", Course::Steady(0.1)),
        ("up to 2 times, time constant 3 days", Course::Saturating(1.0, 3.0)),
        ("up to 3 times, time constant 6 days", Course::Saturating(2.0, 6.0)),
        ("steps of 10% each day", Course::Steps(0.1, 1.0)),
    ] {
        for (with, sd) in loads {
            for services in [3, 6, 20] {
                let scenario = Scenario { load: Load { sd, correlation: 0.98 }, ..course(services, growth) };
                let clock = if services < 6 { Clock::Hastened } else { Clock::Calendar };
                // What the slope of a course that bends comes to depends on its noise.
                let alone = Scenario { load: Load::default(), ..scenario.clone() };
                let [share, bytes] = rates(&alone, fleets, seed + 1, |_, analysis| {
                    let growth = analysis.arms[1].growth.as_ref();
                    [growth.map(|of| of.share_per_day.value), growth.map(|of| of.bytes_per_day.value)]
                })
                .map(|rate| rate.mean());
                let found = rates_by(clock, &scenario, fleets, seed, |_, analysis| {
                    [
                        growth_covered(analysis, 1, share),
                        measures::bytes_covered(analysis, 1, bytes),
                        measures::growth_half_width(analysis, 1, share),
                        verdict(analysis, 1, "growing"),
                        verdict(analysis, 1, "bloating"),
                        verdict(analysis, 1, "inconclusive"),
                    ]
                });
                row(&format!("{shape}{with}, {services} services"), &found);
            }
        }
    }
}

fn verdicts(fleets: u32, seed: u64) {
    heading("Growth that goes on or levels off", &["stable", "growing", "bloating", "inconclusive"]);
    for (name, scenario) in [
        ("straight, 10% of the level a day", course(20, Course::Straight(0.1))),
        ("straight, 10% a day, 8 services", course(8, Course::Straight(0.1))),
        ("straight, 10% a day, wandering 0.1 at 0.99", slow(0.1, course(20, Course::Straight(0.1)))),
        ("straight, 20% of the level a day", course(20, Course::Straight(0.2))),
        ("straight, 3% of the level a day", course(20, Course::Straight(0.03))),
        ("by a factor, 10% a day", course(20, Course::Steady(0.1))),
        ("10% a day beside settling in 2 days", settling(2.0, course(20, Course::Straight(0.1)))),
        ("5% a day beside settling in 2 days", settling(2.0, course(20, Course::Straight(0.05)))),
        ("up to 1.5 times, time constant 2 days", course(20, Course::Saturating(0.5, 2.0))),
        ("up to 2 times, time constant 2 days", course(20, Course::Saturating(1.0, 2.0))),
        ("up to 2 times, time constant 3 days", course(20, Course::Saturating(1.0, 3.0))),
        ("up to 3 times, time constant 3 days", course(20, Course::Saturating(2.0, 3.0))),
        ("up to 3 times, time constant 6 days", course(20, Course::Saturating(2.0, 6.0))),
        (
            "up to 3 times, time constant 3 days, wandering 0.1 at 0.99",
            slow(0.1, course(20, Course::Saturating(2.0, 3.0))),
        ),
    ] {
        let found = rates(&scenario, fleets, seed, |_, analysis| {
            ["stable", "growing", "bloating", "inconclusive"].map(|word| verdict(analysis, 1, word))
        });
        row(name, &found);
    }
}

fn minority(fleets: u32, seed: u64) {
    heading(
        "A minority that bloats",
        &["an arm of stable services is told to have one", "of the services that leak, named"],
    );
    let equal = || Scenario { every_hours: 4.0, ..Scenario::of_equal(2, 20) };
    let leak = |scenario: Scenario, share: f64| {
        scenario.with(Oddity::Leaks { services: 3, course: Course::Straight(share) })
    };
    for (name, scenario) in [
        ("plain", equal()),
        ("common load 0.1 at 0.98", Scenario { load: load(), ..equal() }),
        ("wandering 0.05 at 0.99", slow(0.05, equal())),
        ("wandering t3", Scenario { wander: 0.05, wander_tails: true, ..equal() }),
        ("0.1 restarts a day", Scenario { restarts_per_day: 0.1, ..equal() }),
        (
            "staggered over 4 days, common load",
            Scenario { starts: Starts::Staggered(4.0), load: load(), ..equal() },
        ),
        ("3 of 20 by 10% of the level a day", leak(equal(), 0.1)),
        ("3 of 20 by 20% a day", leak(equal(), 0.2)),
        ("3 of 20 by 20% a day, common load", leak(Scenario { load: load(), ..equal() }, 0.2)),
    ] {
        let found = rates(&scenario, fleets, seed, |simulated, analysis| {
            [measures::any_bloats(analysis, 0), measures::leaks_named(simulated, analysis)]
        });
        row(name, &found);
    }
}

fn oddities(fleets: u32, seed: u64) {
    use FindingKind as Kind;
    heading(
        "What is wrong, and what is told",
        &["check", "told by it", "of the services, named", "another service is called off treatment"],
    );
    let two = |ratio: f64| Scenario::new(vec![Arm::new(20, 1.0), Arm::new(20, ratio)]);
    let strange = |services, ratio| two(ratio).with(Oddity::Contaminated { services, like: 0 });
    let twice = |services, ratio| two(ratio).with(Oddity::ListedTwice { services, like: 0 });
    let plain = |oddity| two(0.5).with(oddity);
    let nearer = Kind::NearerToAnotherArm;
    for (name, scenario, kind) in [
        ("1 off-treatment service of 20, ratio 0.5", strange(1, 0.5), nearer),
        ("1 off-treatment service of 20, ratio 0.7", strange(1, 0.7), nearer),
        ("1 off-treatment service of 20, ratio 0.8", strange(1, 0.8), nearer),
        ("2 off-treatment services of 20, ratio 0.5", strange(2, 0.5), nearer),
        ("4 off-treatment services of 20, ratio 0.5", strange(4, 0.5), nearer),
        ("4 off-treatment services of 20, ratio 0.7", strange(4, 0.7), nearer),
        ("4 off-treatment services of 20, ratio 0.8", strange(4, 0.8), nearer),
        ("9 off-treatment services of 20, ratio 0.5", strange(9, 0.5), nearer),
        ("4 of 20, ratio 0.5, spread 0.15", Scenario { spread: 0.15, ..strange(4, 0.5) }, nearer),
        ("4 of 20, ratio 0.5, levels t3", Scenario { spread_tails: true, ..strange(4, 0.5) }, nearer),
        ("3 listed twice, ratio 0.5", twice(3, 0.5), Kind::TreatmentUncertain),
        ("3 listed twice, ratio 0.8", twice(3, 0.8), Kind::TreatmentUncertain),
        (
            "a change of treatment on day 3 that nothing was restarted for",
            plain(Oddity::Spanned { day: 3.0 }),
            Kind::TreatmentUncertain,
        ),
        ("2 services vanish on day 5", plain(Oddity::Vanished { services: 2, day: 5.0 }), Kind::EndsEarly),
        (
            "half of the readings of 2 services missing",
            plain(Oddity::LacksSamples { services: 2, share: 0.5 }),
            Kind::LacksSamples,
        ),
        (
            "30% of the readings of 2 services missing",
            plain(Oddity::LacksSamples { services: 2, share: 0.3 }),
            Kind::LacksSamples,
        ),
        ("the age of 3 services unknown", plain(Oddity::AgeUnknown { services: 3 }), Kind::AgeUnknown),
        (
            "the second arm starts 2 days later",
            Scenario { starts: Starts::ByArm(2.0), ..two(0.5) },
            Kind::UnequalAge,
        ),
    ] {
        let found = rates(&scenario, fleets, seed, |simulated, analysis| {
            let strange =
                matches!(scenario.oddity, Some(Oddity::Contaminated { .. } | Oddity::ListedTwice { .. }));
            let named = if strange {
                measures::off_treatment(simulated, analysis)
            } else {
                measures::named(simulated, analysis, kind)
            };
            [measures::found(analysis, kind), named, measures::any_false_off_treatment(simulated, analysis)]
        });
        row(&format!("{name} | {kind:?}"), &found);
    }
}

fn clean(fleets: u32, seed: u64) {
    use FindingKind as Kind;
    heading(
        "Nothing is wrong, and what is told",
        &["nearer to another arm", "vanished", "lacks samples", "unequal age"],
    );
    let real = || {
        Scenario::new(
            [(20, 1.0), (80, 0.2), (60, 0.28), (20, 0.44), (20, 1.13)]
                .map(|(n, ratio)| Arm::new(n, ratio))
                .to_vec(),
        )
    };
    let near = |ratio: f64| Scenario::new(vec![Arm::new(20, 1.0), Arm::new(20, ratio)]);
    for (name, scenario) in [
        ("3 arms of 20", Scenario::of_equal(3, 20)),
        ("3 arms of 20, spread 0.3", Scenario { spread: 0.3, ..Scenario::of_equal(3, 20) }),
        ("3 arms of 20, levels t3", Scenario { spread_tails: true, ..Scenario::of_equal(3, 20) }),
        ("as the real trial", real()),
        ("as the real trial, levels t3", Scenario { spread_tails: true, ..real() }),
        ("ratio 0.8, levels t3", Scenario { spread_tails: true, ..near(0.8) }),
        ("ratio 0.7, spread 0.15", Scenario { spread: 0.15, ..near(0.7) }),
        ("3 arms of 20, 10% missing", Scenario { missing: 0.1, ..Scenario::of_equal(3, 20) }),
        ("3 arms of 20, once a day, 10% missing", daily(Scenario::of_equal(3, 20))),
        ("2 arms of 80, 20% missing", Scenario { missing: 0.2, ..Scenario::of_equal(2, 80) }),
        ("3 arms of 20, 0.1 restarts a day", Scenario { restarts_per_day: 0.1, ..Scenario::of_equal(3, 20) }),
        (
            "3 arms of 20, staggered over 4 days",
            Scenario { starts: Starts::Staggered(4.0), ..Scenario::of_equal(3, 20) },
        ),
        (
            "10% growth a day, half of the services 4 days later",
            Scenario { starts: Starts::Batches(4.0), ..course(20, Course::Straight(0.1)) },
        ),
        ("common load 0.1 at 0.98", Scenario { load: load(), ..Scenario::of_equal(3, 20) }),
    ] {
        let found = rates(&scenario, fleets, seed, |_, analysis| {
            [
                measures::found(analysis, Kind::NearerToAnotherArm),
                measures::found(analysis, Kind::EndsEarly),
                measures::found(analysis, Kind::LacksSamples),
                measures::found(analysis, Kind::UnequalAge),
            ]
        });
        row(name, &found);
    }
}

/// Trials over several hosts, drawn within them.
fn hosts(fleets: u32, seed: u64) {
    heading(
        "Several hosts",
        &[
            "a difference is found",
            "95% intervals that hold the mean over the hosts",
            "the arm is said to differ between hosts",
        ],
    );
    let on = |count: usize, services: usize, ratio: f64, effect_sd: f64| Scenario {
        blocks: Some(Blocks { services: 4, sd: 0.1 }),
        hosts: Some(Hosts { count, sd: 0.5, effect_sd, spread_factor: 1.0 }),
        ..Scenario::new(vec![Arm::new(services, 1.0), Arm::new(services, ratio)])
    };
    let uneven = |scenario: Scenario| Scenario {
        hosts: scenario.hosts.map(|hosts| Hosts { spread_factor: 4.0, ..hosts }),
        ..scenario
    };
    for (name, scenario) in [
        ("no effect, 2 hosts of 8", on(2, 8, 1.0, 0.0)),
        ("no effect, 4 hosts of 8", on(4, 16, 1.0, 0.0)),
        ("no effect, 10 hosts of 8", on(10, 40, 1.0, 0.0)),
        ("no effect, 4 hosts of 8, the last's spread 4 times the first's", uneven(on(4, 16, 1.0, 0.0))),
        ("0.5 on all, 4 hosts of 8", on(4, 16, 0.5, 0.0)),
        ("0.5 on all, 4 hosts of 8, the last's spread 4 times the first's", uneven(on(4, 16, 0.5, 0.0))),
        ("0.5, apart by 0.05 (SD), 4 hosts of 8", on(4, 16, 0.5, 0.05)),
        ("0.5, apart by 0.2, 4 hosts of 8", on(4, 16, 0.5, 0.2)),
        ("0.5, apart by 0.2, 10 hosts of 8", on(10, 40, 0.5, 0.2)),
        ("1 in the mean, apart by 0.2, 10 hosts of 8", on(10, 40, 1.0, 0.2)),
    ] {
        let ratios: Vec<f64> = scenario.arms.iter().map(|arm| arm.ratio).collect();
        let found = rates(&scenario, fleets, seed, |simulated, analysis| {
            [
                measures::any_difference(analysis),
                measures::mean_covered(simulated, analysis, &ratios),
                measures::differs_by_host(simulated, analysis),
            ]
        });
        row(name, &found);
    }
}
