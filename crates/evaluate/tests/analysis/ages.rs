//! At which age services are compared, and which of them.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{Analysis, Clock, FindingKind, Fleet, Severity};
use heaptrial_model::LifeStart;

/// Memory that rises for ever, so that age matters.
fn rising(age: f64) -> f64 {
    1.0 + 0.1 * age
}

#[test]
fn arms_of_unequal_age_are_compared_at_the_age_that_both_reached() {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 0.0, 8.0, |age| own(seed) * rising(age))]);
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 3.0, 8.0, |age| own(seed) * rising(age))]);
    let analysis = run(&fleet);
    assert_eq!(analysis.matched_age_seconds, Some(5.0 * DAY));
    let ratio = analysis.arms[1].as_assigned.ratio.as_ref().unwrap();
    assert!((ratio.estimate.value - 1.0).abs() < 0.05, "{ratio:?}");
    // By last readings the older arm would look worse by a fifth.
    let last = |arm: usize| analysis.arms[arm].as_assigned.final_mean_bytes.unwrap();
    assert!(last(1) / last(0) < 0.86);
    assert!(find(&analysis, FindingKind::UnequalAge).is_some());
}

#[test]
fn services_that_are_too_young_have_no_level_and_say_why() {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    for _ in 0..2 {
        // The last of 20 was restarted a day before the end.
        add_arm(&mut fleet, 20, |seed| {
            let until = if seed % 20 == 19 { 7.0 } else { 8.0 };
            let first = life(seed, 0.0, until, |age| own(seed) * rising(age));
            if seed % 20 == 19 { vec![first, life(seed, 7.0, 8.0, rising)] } else { vec![first] }
        });
    }
    let analysis = run(&fleet);
    assert_eq!(analysis.matched_age_seconds, Some(8.0 * DAY));
    let young = &analysis.services[19];
    assert_eq!((young.level_bytes, young.restarts), (None, 1));
    assert!(young.no_level.as_ref().unwrap().contains("too young"), "{young:?}");
    // Of its day a third would be its own warm-up; but it settles as long as the others did.
    assert_eq!(young.growth_log_per_day, None);
    assert_eq!(analysis.arms[0].as_assigned.services_compared, 19);
    assert_eq!(analysis.arms[0].growth.as_ref().unwrap().services, 19);
}

#[test]
fn whose_load_was_done_soonest_is_compared_as_the_others_are() {
    let until = |end: f64| {
        let mut fleet = Fleet { seed: 1, clock: Clock::ByLoad, ..Fleet::default() };
        for _ in 0..2 {
            add_arm(&mut fleet, 4, |seed| {
                vec![life(seed, 0.0, if seed == 5 { end } else { 8.0 }, |age| own(seed) * rising(age))]
            });
        }
        run(&fleet)
    };
    let compared = |analysis: &Analysis| {
        let compared = analysis.arms.iter().map(|arm| arm.as_assigned.services_compared);
        (analysis.matched_age_seconds, compared.collect::<Vec<_>>())
    };
    let analysis = until(5.0);
    assert_eq!(compared(&analysis), (Some(5.0 * DAY), vec![4, 4]));
    assert!(find(&analysis, FindingKind::NotCompared).is_none());
    // One that was done at once would have all of them compared by how they begin: it is left out, and told.
    let analysis = until(2.0);
    assert_eq!(compared(&analysis), (Some(8.0 * DAY), vec![4, 3]));
    assert_eq!(names(find(&analysis, FindingKind::NotCompared).unwrap()), ["s5"]);
}

fn with_unknown_starts(unknown: usize) -> Fleet {
    let mut fleet = fleet(&[(8, &rising), (8, &rising)]);
    for service in fleet.services.iter_mut().step_by(2).take(unknown) {
        service.lives[0].start = LifeStart::Unknown;
    }
    fleet
}

#[test]
fn few_unknown_starts_are_left_out_of_the_comparison() {
    let analysis = run(&with_unknown_starts(2));
    assert!(!analysis.ages_are_lower_bounds);
    assert_eq!(analysis.services[0].level_bytes, None);
    assert_eq!(analysis.arms[0].as_assigned.services_compared, 6);
    // Last readings and growth do not need an age.
    assert_eq!(analysis.arms[0].as_assigned.services, 8);
    assert!(analysis.services[0].growth_log_per_day.is_some());
    assert_eq!(names(find(&analysis, FindingKind::AgeUnknown).unwrap()), ["s0", "s2"]);
}

#[test]
fn where_most_starts_are_unknown_ages_count_from_first_readings() {
    let mut fleet = with_unknown_starts(8);
    fleet.services[1].lives[0].start = LifeStart::Unknown;
    let analysis = run(&fleet);
    assert!(analysis.ages_are_lower_bounds);
    assert_eq!(analysis.arms[0].as_assigned.services_compared, 8);
    assert!(find(&analysis, FindingKind::AgeUnknown).is_some());
}

#[test]
fn growth_is_measured_over_days_common_to_all_arms() {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    // Load rises on the first 4 days only. The first arm is past its warm-up then, the second starts on day 3.
    let load = |day: f64| 1.0 + 0.1 * day.min(4.0);
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 0.0, 9.0, |age| own(seed) * load(age))]);
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 3.0, 9.0, |age| own(seed) * load(age + 3.0))]);
    let analysis = run(&fleet);
    let growth = |arm: usize| analysis.arms[arm].growth.as_ref().unwrap();
    // A third of the second arm's 6 days after its start on day 3: day 5 for both.
    assert!((growth(0).warm_up_seconds / DAY - 5.0).abs() < 0.26, "{:?}", growth(0));
    assert!(growth(0).share_per_day.value.abs() < 0.001 && growth(1).share_per_day.value.abs() < 0.001);
}

#[test]
fn an_arm_that_began_very_late_does_not_take_the_others_time() {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 0.0, 9.0, |age| own(seed) * rising(age))]);
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 8.0, 9.5, |age| own(seed) * rising(age))]);
    let growth = run(&fleet).arms[0].growth.clone().unwrap();
    assert!((growth.warm_up_seconds / DAY - 3.0).abs() < 0.26, "{growth:?}");
}

#[test]
fn arms_that_never_ran_at_the_same_time_are_told() {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    add_arm(&mut fleet, 6, |seed| vec![life(seed, 0.0, 4.0, |_| own(seed))]);
    add_arm(&mut fleet, 6, |seed| vec![life(seed, 4.25, 8.0, |_| own(seed))]);
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::UnequalAge).unwrap();
    assert!(found.arms == [0, 1] && found.evidence.contains("was first read after"), "{found:?}");
}

#[test]
fn arms_restarted_at_intervals_are_compared_by_their_average_over_time() {
    let mut fleet = fleet(&[(8, &|_| 2.0)]);
    // Restarted every day, memory rises from 1 to 2 within it; days do not differ.
    let arm = add_arm(&mut fleet, 8, |seed| {
        (0..8)
            .map(|day| life(seed, f64::from(day), f64::from(day) + 0.75, |age| own(seed) * (1.0 + age)))
            .collect()
    });
    fleet.arms[arm].restarted = true;
    let analysis = run(&fleet);
    let sawtooth = analysis.arms[arm].sawtooth.unwrap();
    assert!((sawtooth.time_average_bytes / GIB - 1.375).abs() < 0.05, "{sawtooth:?}");
    assert_eq!(sawtooth.restarts, 8 * 7);
    let ratio = &analysis.arms[arm].as_assigned.ratio.as_ref().unwrap().estimate;
    assert!((ratio.value - 1.375 / 2.0).abs() < 0.03, "{ratio:?}");
    // What grows between restarts is lost at the next one: the arm does not bloat.
    assert_eq!(
        analysis.arms[arm].verdict.as_ref().unwrap().as_str(),
        "stable",
        "{:?}",
        analysis.arms[arm].growth
    );
    assert!(analysis.arms[0].sawtooth.is_none());
}

#[test]
fn a_restart_of_all_near_the_end_is_told_and_not_passed_over() {
    let mut fleet = Fleet { seed: 1, ..Fleet::default() };
    // The control settles within some days, the other arm at once; all are restarted half a day before the end.
    let settling = |age: f64| 2.0 + 4.0 * (1.0 - (-age).exp());
    let lives = |seed, gib: &dyn Fn(f64) -> f64| {
        vec![
            life(seed, 0.0, 11.5, |age| own(seed) * gib(age)),
            life(seed, 11.5, 12.0, |age| own(seed) * gib(age)),
        ]
    };
    add_arm(&mut fleet, 8, |seed| lives(seed, &settling));
    add_arm(&mut fleet, 8, |seed| lives(seed, &|_| 4.0));
    let young = run(&fleet);
    let finding = find(&young, FindingKind::UnequalAge).unwrap();
    assert!(
        finding.arms == [0, 1]
            && finding.evidence.contains("process lifetimes before that reached 11 d 12 h"),
        "{finding:?}"
    );
    fleet.until(BEGIN + 11.4 * DAY);
    let before = run(&fleet);
    assert!(find(&before, FindingKind::UnequalAge).is_none());
    let ratio = |analysis: &Analysis| analysis.arms[1].as_assigned.ratio.as_ref().unwrap().estimate.value;
    assert!(
        ratio(&young) > 1.2 && (ratio(&before) - 4.0 / 6.0).abs() < 0.02,
        "{} {}",
        ratio(&young),
        ratio(&before)
    );
}

#[test]
fn an_arm_of_unknown_age_beside_one_of_a_known_one_is_grave() {
    let mut fleet = fleet(&[(8, &rising), (8, &rising)]);
    let unknown = |fleet: &mut Fleet, from: usize| {
        fleet.services[from..from + 8]
            .iter_mut()
            .for_each(|service| service.lives[0].start = LifeStart::Unknown);
    };
    unknown(&mut fleet, 0);
    assert_eq!(find(&run(&fleet), FindingKind::AgeUnknown).unwrap().severity, Severity::Grave);
    unknown(&mut fleet, 8);
    assert_eq!(find(&run(&fleet), FindingKind::AgeUnknown).unwrap().severity, Severity::Caution);
}
