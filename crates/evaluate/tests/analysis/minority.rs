//! A minority that bloats is a verdict.

use crate::build;
use crate::simulation;

use build::*;
use heaptrial_evaluate::analysis::{Analysis, FindingKind, Fleet, Verdict};
use simulation::measures;
use simulation::{Course, Load, Oddity, Scenario, Starts, rates};

/// Of an arm of 20 services so many grow by a share of their level a day.
fn leaking(services: usize, leak: f64) -> Fleet {
    let mut fleet = Fleet { seed: 1, randomised: true, ..Fleet::default() };
    add_arm(&mut fleet, 20, |seed| vec![life(seed, 0.0, 8.0, |_| own(seed))]);
    add_arm(&mut fleet, 20, |seed| {
        let leak = if seed - 20 < services { leak } else { 0.0 };
        vec![life(seed, 0.0, 8.0, |age| own(seed) * (1.0 + leak * age))]
    });
    fleet
}

fn of(analysis: &Analysis) -> (&Verdict, &heaptrial_evaluate::analysis::ServiceVerdicts) {
    (analysis.arms[1].verdict.as_ref().unwrap(), analysis.arms[1].service_verdicts.as_ref().unwrap())
}

#[test]
fn three_services_that_leak_are_not_hidden_in_a_median() {
    let analysis = run(&leaking(3, 0.2));
    let (verdict, services) = of(&analysis);
    let Verdict::SomeBloat { services: 3, of: 20, days_until_full: Some(days), .. } = verdict else {
        panic!("{verdict:?}")
    };
    // From 2.6 times the level to twice that at 0.2 a day.
    assert!((11.0..16.0).contains(days), "{days}");
    assert_eq!((services.bloating, services.services), (3, 20));
    let (low, high) = services.bloating_share.interval().unwrap();
    // By SciPy's binomtest(3, 20).proportion_ci.
    assert!((low - 0.032_070_937_185).abs() < 1e-9 && (high - 0.378_926_826_545).abs() < 1e-9);
    let finding = find(&analysis, FindingKind::SomeBloat).unwrap();
    assert_eq!(
        {
            let mut names = names(finding);
            names.sort_unstable();
            names
        },
        ["s20", "s21", "s22"]
    );
    assert!(
        finding.evidence.starts_with("3 of 20 services of arm 1 (3.2% to 38% of services like these) bloat"),
        "{}",
        finding.evidence
    );
    assert_eq!(analysis.arms[0].verdict, Some(Verdict::Stable));
}

#[test]
fn an_arm_that_bloats_as_a_whole_has_its_own_word() {
    let analysis = run(&leaking(20, 0.2));
    let (verdict, services) = of(&analysis);
    assert!(matches!(verdict, Verdict::Bloating { .. }), "{verdict:?}");
    assert_eq!(services.bloating, 0, "none grows away from the others");
}

#[test]
fn growth_that_levels_off_or_lasts_for_long_is_growing() {
    let mut levels_off = leaking(0, 0.0);
    for index in [20, 21] {
        levels_off.services[index].lives[0] =
            life(index, 0.0, 8.0, |age| own(index) * (1.0 + 2.0 * (1.0 - (-age / 2.0).exp())));
    }
    let analysis = run(&levels_off);
    let (verdict, services) = of(&analysis);
    assert_eq!((verdict, services.bloating), (&Verdict::Stable, 0));
    // The host has room for years.
    let mut roomy = leaking(2, 0.1);
    roomy.limit.host_available_bytes = Some(20_000.0 * GIB);
    let analysis = run(&roomy);
    assert_eq!(of(&analysis).1.bloating, 0);
    roomy.services[20].limit_bytes = Some(2.5 * GIB);
    // A limit is of the service that has it.
    let analysis = run(&roomy);
    assert_eq!(of(&analysis).1.bloating, 1);
}

/// The share of fleets of two arms of 20 stable services of which an arm is told to have services that bloat.
fn told(scenario: &Scenario, fleets: u32) -> f64 {
    // Both arms are alike.
    let found =
        rates(scenario, fleets, 31, |_, analysis| [0, 1].map(|arm| measures::any_bloats(analysis, arm)));
    (found[0].mean() + found[1].mean()) / 2.0
}

fn equal() -> Scenario {
    Scenario { every_hours: 4.0, ..Scenario::of_equal(2, 20) }
}

const LOAD: Load = Load { sd: 0.1, correlation: 0.98 };

#[test]
fn stable_arms_are_seldom_told_to_have_a_minority_that_bloats() {
    let slow = |sd: f64| Scenario { spread: 0.01, wander: sd, correlation: 0.99, ..equal() };
    let (fleets, most) = if cfg!(debug_assertions) { (20, 0.075) } else { (300, 0.02) };
    for (name, scenario) in [
        ("plain", equal()),
        ("common load", Scenario { load: LOAD, ..equal() }),
        ("wandering 0.05 at 0.99", slow(0.05)),
        ("wandering t3", Scenario { wander: 0.05, wander_tails: true, ..equal() }),
        ("restarts", Scenario { restarts_per_day: 0.1, ..equal() }),
        ("staggered, common load", Scenario { starts: Starts::Staggered(4.0), load: LOAD, ..equal() }),
        ("20 days, common load", Scenario { days: 20.0, every_hours: 8.0, load: LOAD, ..equal() }),
        ("settling 1.5 days", Scenario { settling_days: 1.5, ..equal() }),
        ("daily, 10% missing", Scenario { every_hours: 24.0, missing: 0.1, days: 20.0, ..equal() }),
    ] {
        let share = told(&scenario, fleets);
        println!("{name}: {:.2}%", 100.0 * share);
        assert!(share <= most, "{name}: {share}");
    }
}

#[test]
fn services_that_leak_are_named_also_under_a_load_that_all_share() {
    let fleets = if cfg!(debug_assertions) { 12 } else { 300 };
    for (name, scenario, leak, least) in [
        ("3 of 20 by 10% of the level a day", equal(), 0.1, 0.6),
        ("3 of 20 by 20% a day", equal(), 0.2, 0.6),
        ("3 of 20 by 20% a day, common load", Scenario { load: LOAD, ..equal() }, 0.2, 0.5),
    ] {
        let scenario = scenario.with(Oddity::Leaks { services: 3, course: Course::Straight(leak) });
        let [found, others] = rates(&scenario, fleets, 32, |simulated, analysis| {
            let told = analysis.arms[1].service_verdicts.iter().flat_map(|own| &own.bloating_services);
            let odd: Vec<&str> =
                simulated.odd.iter().map(|index| simulated.fleet.services[*index].name.as_str()).collect();
            let others = told.filter(|service| !odd.contains(&service.name.as_str())).count();
            [measures::leaks_named(simulated, analysis), Some(f64::from(u8::from(others > 0)))]
        });
        println!("{name}: named {found}, others {others}");
        assert!(found.mean() >= least && others.mean() <= 0.05, "{name}: {found} {others}");
    }
}
