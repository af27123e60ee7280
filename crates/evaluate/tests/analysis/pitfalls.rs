//! Fleets on which a careless procedure goes wrong.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{
    Analysis, FindingKind, Fleet, FleetEvent, LimitKind, MemoryLimit, Severity, Verdict,
};
use heaptrial_model::KnownEvent;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn settling(level: f64) -> impl Fn(f64) -> f64 {
    move |age| level * (1.0 - 0.6 * (-age / 0.3).exp())
}

#[test]
fn services_that_bloat_are_no_off_treatment_unless_they_are_as_another_arm() {
    let mut fleet = fleet(&[(10, &settling(6.0))]);
    let arm = add_arm(&mut fleet, 20, |seed| {
        let bloats = seed % 4 == 0;
        vec![life(seed, 0.0, 8.0, |age| own(seed) * (1.9 + if bloats { 3.0 * age } else { 0.0 }))]
    });
    let analysis = run(&fleet);
    assert!(analysis.services.iter().all(|service| service.off_treatment_in.is_empty()));
    assert_eq!(analysis.arms[arm].as_treated, None);
}

#[test]
fn a_few_late_restarts_do_not_bring_all_others_to_their_age() {
    for restarted in [1, 2] {
        let mut fleet = fleet(&[]);
        for level in [6.0, 1.5] {
            add_arm(&mut fleet, 9, |seed| {
                let again = level > 2.0 && seed < restarted;
                let whole =
                    life(seed, 0.0, if again { 7.75 } else { 8.0 }, |age| own(seed) * settling(level)(age));
                let young = life(seed, 7.75, 8.0, |age| own(seed) * settling(level)(age));
                if again { vec![whole, young] } else { vec![whole] }
            });
        }
        let analysis = run(&fleet);
        assert_eq!(analysis.matched_age_seconds, Some(8.0 * DAY), "{restarted}");
        let ratio = analysis.arms[1].as_assigned.ratio.as_ref().unwrap().estimate.value;
        assert!((ratio - 0.25).abs() < 0.02, "{ratio}");
    }
}

#[test]
fn an_arm_that_is_young_as_a_whole_is_a_grave_finding() {
    let mut fleet = fleet(&[(8, &settling(6.0))]);
    add_arm(&mut fleet, 8, |seed| vec![life(seed, 7.0, 8.0, |age| own(seed) * settling(1.5)(age))]);
    let found = run(&fleet);
    assert_eq!(find(&found, FindingKind::UnequalAge).unwrap().severity, Severity::Grave);
    let even = run(&build::fleet(&[(8, &settling(6.0)), (8, &settling(1.5))]));
    assert!(find(&even, FindingKind::UnequalAge).is_none());
}

#[test]
fn a_crash_loop_is_no_treatment() {
    let mut fleet = fleet(&[(8, &settling(6.0))]);
    add_arm(&mut fleet, 8, |seed| {
        let day = |day: u32| life(seed, f64::from(day), f64::from(day) + 0.75, |age| own(seed) * (2.0 + age));
        (0..8).map(day).collect()
    });
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::FailsMoreOften).unwrap();
    assert_eq!((found.severity, found.services.len()), (Severity::Grave, 8));
    assert!(analysis.arms[1].sawtooth.is_none());
    fleet.arms[1].restarted = true;
    assert!(find(&run(&fleet), FindingKind::FailsMoreOften).is_none());
}

#[test]
fn some_services_that_are_killed_again_and_again_do_not_make_their_arm_small() {
    let mut fleet = fleet(&[(20, &|_| 4.0)]);
    // A quarter leaks and is killed thrice; what is left stands at 2.4 GiB.
    add_arm(&mut fleet, 20, |seed| match seed % 4 {
        0 => [(0.0, 2.5), (2.6, 5.0), (5.1, 7.0), (7.1, 8.0)]
            .map(|(from, to)| life(seed, from, to, |age| own(seed) * (2.4 + 3.0 * age)))
            .into(),
        _ => vec![life(seed, 0.0, 8.0, |_| 2.4 * own(seed))],
    });
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::FailsMoreOften).unwrap();
    assert_eq!((found.severity, found.services.len(), found.arms.as_slice()), (Severity::Grave, 5, &[1][..]));
    assert!(
        found.evidence.contains("5 of 20 of its services 2 times or more, and 5 of these are in no level"),
        "{found:?}"
    );
    // As many of the control, or one restart of each by whoever switched them, tell nothing.
    let once = |seed: usize| {
        let cut = 0.5 + (seed % 5) as f64 * 0.1;
        vec![life(seed, 0.0, cut, |_| own(seed)), life(seed, cut, 8.0, |_| own(seed))]
    };
    let mut switched = build::fleet(&[(20, &|_| 4.0)]);
    add_arm(&mut switched, 20, once);
    assert!(find(&run(&switched), FindingKind::FailsMoreOften).is_none());
}

/// A control that leaks and is killed: what is left of it is small, and a real saving disappears.
#[test]
fn a_control_whose_services_are_killed_again_and_again_is_no_measure() {
    let mut fleet = Fleet { randomised: true, ..Fleet::default() };
    let killed = |seed: usize| match seed % 3 {
        0 => (0..8)
            .map(|day| life(seed, f64::from(day), f64::from(day) + 0.95, |age| own(seed) * (2.0 + 6.0 * age)))
            .collect(),
        _ => vec![life(seed, 0.0, 8.0, |_| 2.0 * own(seed))],
    };
    add_arm(&mut fleet, 12, killed);
    add_arm(&mut fleet, 12, |seed| vec![life(seed, 0.0, 8.0, |_| 2.2 * own(seed))]);
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::FailsMoreOften).unwrap();
    assert_eq!((found.severity, found.arms.as_slice(), found.services.len()), (Severity::Grave, &[0][..], 4));
    assert!(found.evidence.contains("of the other arms 0.0 times"), "{}", found.evidence);
}

/// Servers whose services all run one arm: the second needs 0.7 of the first, and servers differ by factors of up to 1.8.
fn whole_servers(draw: usize, servers: usize) -> Fleet {
    let mut fleet = Fleet { seed: draw as u64, ..Fleet::default() };
    let mut random = ChaCha8Rng::seed_from_u64(draw as u64);
    let own_of: Vec<f64> = (0..2 * servers).map(|_| random.random_range(-0.3..0.3)).collect();
    for (arm, ratio) in [1.0, 0.7].into_iter().enumerate() {
        let server = |seed: usize| arm * servers + seed % servers;
        add_arm(&mut fleet, 6 * servers, |seed| {
            vec![life(seed, 0.0, 8.0, |_| ratio * own(seed) * own_of[server(seed)].exp())]
        });
        let added = fleet.services.len() - 6 * servers;
        for (seed, service) in fleet.services.iter_mut().enumerate().skip(added) {
            service.block = server(seed) as u32;
        }
    }
    fleet
}

#[test]
fn where_whole_servers_run_an_arm_each_server_counts_as_one() {
    let covered = |draw: &usize| {
        let ratio = run(&whole_servers(*draw, 6)).arms[1].as_assigned.ratio.clone().unwrap().estimate;
        ratio.low.unwrap() <= 0.7 && 0.7 <= ratio.high.unwrap()
    };
    let covered = (1..=60).filter(covered).count();
    assert!(covered >= 52, "{covered} of 60 intervals of 95% hold what is true");
    let finding = |servers: usize| {
        let analysis = run(&whole_servers(1, servers));
        let finding = find(&analysis, FindingKind::NotCompared).unwrap();
        (finding.severity, finding.evidence.clone(), analysis.arms[1].as_assigned.ratio.is_some())
    };
    let told = |servers| {
        format!("arm 1 and the control have no block or server in common: {servers} against {servers}")
    };
    assert_eq!(finding(6), (Severity::Caution, told(6), true));
    assert_eq!(finding(1), (Severity::Grave, told(1), false));
}

/// Keeps one reading a day, at this hour of age.
fn once_a_day(fleet: &mut Fleet, arm: usize, hour: f64) {
    for service in fleet.services.iter_mut().filter(|service| service.arms == [arm]) {
        let life = &mut service.lives[0];
        let last = life.readings.len() - 1;
        let wanted = |age: f32| (f64::from(age) / 3600.0 - hour).rem_euclid(24.0) < 0.5;
        let kept = life.readings.iter().enumerate();
        let kept = kept.filter(|(place, reading)| *place == last || wanted(reading.age_seconds));
        life.readings = kept.map(|(_, reading)| *reading).collect();
    }
}

#[test]
fn the_moments_of_few_readings_do_not_decide_the_age_of_a_level() {
    // Both arms grow alike, by a tenth of a doubling each day; readings are once a day at different hours.
    let grows = |age: f64| 2.0 * (0.07 * age).exp();
    let mut fleet = fleet(&[(10, &grows), (10, &grows)]);
    once_a_day(&mut fleet, 0, 0.0);
    once_a_day(&mut fleet, 1, 12.0);
    let ratio = run(&fleet).arms[1].as_assigned.ratio.clone().unwrap().estimate;
    assert!((ratio.value - 1.0).abs() < 0.02, "{ratio:?}");
}

#[test]
fn an_event_about_one_service_is_told_of_no_other() {
    let mut fleet = fleet(&[(6, &settling(6.0)), (6, &settling(2.0))]);
    fleet.events.push(FleetEvent {
        host: None,
        at: BEGIN + 3.0 * DAY,
        arm: None,
        service: Some(8),
        kind: KnownEvent::Migration.into(),
        changes_treatment: true,
        text: "migration".into(),
    });
    let analysis = run(&fleet);
    assert_eq!(names(find(&analysis, FindingKind::TreatmentUncertain).unwrap()), ["s8"]);
}

#[test]
fn what_happened_to_the_host_is_counted_for_all_its_services() {
    let mut fleet = fleet(&[(6, &settling(6.0)), (6, &settling(2.0))]);
    for (kind, service) in
        [("gap", None), ("reboot", None), ("reboot", None), ("clock_jump", None), ("crash", Some(8))]
    {
        let (at, text) = (BEGIN + 3.0 * DAY, kind.to_owned());
        fleet.events.push(FleetEvent {
            host: None,
            at,
            arm: None,
            service,
            kind: kind.into(),
            changes_treatment: false,
            text,
        });
    }
    let counts = run(&fleet)
        .arms
        .iter()
        .map(|arm| &arm.events)
        .map(|events| (events.gaps, events.reboots, events.clock_jumps, events.crashes))
        .collect::<Vec<_>>();
    assert_eq!(counts, [(1, 2, 1, 0), (1, 2, 1, 1)]);
}

#[test]
fn the_host_runs_out_sooner_than_any_arm_alone() {
    let grows = |age: f64| 2.0 + 0.2 * age;
    let mut fleet = fleet(&[(6, &grows), (6, &grows)]);
    fleet.limit = MemoryLimit { host_available_bytes: Some(48.0 * GIB), ..MemoryLimit::default() };
    let found = run(&fleet);
    let told = find(&found, FindingKind::MemoryRunsShort).unwrap();
    assert!(told.evidence.contains("20 days"), "{}", told.evidence);
}

#[test]
fn a_long_gap_is_named_and_a_level_inside_it_is_not_made_up() {
    let mut fleet = fleet(&[(6, &settling(6.0)), (6, &settling(2.0))]);
    for service in fleet.services.iter_mut().filter(|service| service.arms == [1]) {
        let life = &mut service.lives[0];
        let last = life.readings.len() - 1;
        let kept = life.readings.iter().enumerate();
        let kept =
            kept.filter(|(place, reading)| *place == last || f64::from(reading.age_seconds) < 2.0 * DAY);
        life.readings = kept.map(|(_, reading)| *reading).collect();
    }
    let analysis = run(&fleet);
    assert_eq!(find(&analysis, FindingKind::LacksSamples).unwrap().arms, [1]);
    assert_eq!(analysis.arms[1].as_assigned.services_compared, 0);
}

/// What is read no more takes no more memory of the host.
#[test]
fn services_that_vanished_do_not_go_on_filling_the_host() {
    let grows = |age: f64| 2.0 + 0.2 * age;
    let mut fleet = fleet(&[(8, &|_| 1.0), (8, &grows)]);
    let days = |fleet: &Fleet| {
        let analysis = run(fleet);
        match analysis.arms[1].verdict.clone() {
            Some(Verdict::Bloating { days_until_full, limit: LimitKind::Host }) => days_until_full.value,
            verdict => panic!("{verdict:?}"),
        }
    };
    fleet.limit = MemoryLimit { host_available_bytes: Some(16.0 * GIB), ..MemoryLimit::default() };
    let before = days(&fleet);
    for service in &mut fleet.services[12..16] {
        service.lives[0].readings.retain(|reading| f64::from(reading.age_seconds) < 6.0 * DAY);
    }
    let after = days(&fleet);
    assert!((after / before - 2.0).abs() < 0.15, "{before} {after}");
}

#[test]
fn a_service_that_a_person_took_out_counts_until_then_and_is_told() {
    let taken_out = |after: f32| {
        let mut fleet = fleet(&[(6, &settling(6.0)), (6, &settling(2.0))]);
        for reading in &mut fleet.services[8].lives[0].readings {
            if f64::from(reading.age_seconds) > 3.0 * DAY {
                reading.kib = (f64::from(after) * GIB / 1024.0) as _;
            }
        }
        fleet.events.push(FleetEvent {
            host: None,
            at: BEGIN + 3.0 * DAY,
            arm: None,
            service: Some(8),
            kind: KnownEvent::Dropped.into(),
            changes_treatment: false,
            text: "its operator needs it".into(),
        });
        fleet.service_until(8, BEGIN + 3.0 * DAY);
        run(&fleet)
    };
    let analysis = taken_out(40.0);
    // Whatever it does afterwards changes nothing.
    assert_eq!(analysis.arms[1].as_assigned, taken_out(0.1).arms[1].as_assigned);
    let told = find(&analysis, FindingKind::EndsEarly).unwrap();
    assert_eq!((names(told), told.arms.as_slice()), (vec!["s8"], [1].as_slice()));
    assert!(told.evidence.starts_with("dropped"), "{told:?}");
    let of_it = analysis.findings.iter().filter(|finding| finding.kind == FindingKind::EndsEarly);
    assert_eq!(of_it.count(), 1);
}

#[test]
fn services_of_a_host_that_ends_before_another_have_not_vanished() {
    let mut fleet = fleet(&[(12, &settling(6.0)), (12, &settling(2.0))]);
    for (index, service) in fleet.services.iter_mut().enumerate() {
        let second = index % 2 == 1;
        service.host = Some(if second { "beta" } else { "alpha" }.to_owned());
        let until = if second { 6.0 } else { 8.0 } - if index == 3 { 2.0 } else { 0.0 };
        service.lives[0].readings.retain(|reading| f64::from(reading.age_seconds) < until * DAY);
    }
    let analysis = run(&fleet);
    // Within its host one has.
    assert_eq!(names(find(&analysis, FindingKind::EndsEarly).unwrap()), ["s3"]);
    for service in &mut fleet.services {
        service.host = None;
    }
    let analysis = run(&fleet);
    assert_eq!(find(&analysis, FindingKind::EndsEarly).unwrap().services.len(), 12);
}

/// A control of 20 services of which `wrong` go as the arm beside it, which has an eighth more than 1.3 GiB.
fn mostly(wrong: usize) -> Fleet {
    let mut fleet = fleet(&[]);
    add_arm(&mut fleet, 20, |seed| {
        let level = if seed < wrong { 1.3 } else { 6.0 };
        vec![life(seed, 0.0, 8.0, |age| own(seed) * settling(level)(age))]
    });
    add_arm(&mut fleet, 12, |seed| vec![life(seed, 0.0, 8.0, |age| own(seed) * settling(1.35)(age))]);
    fleet
}

#[test]
fn a_list_that_is_wrong_for_few_of_its_services_is_mended_as_before() {
    let analysis = run(&mostly(6));
    let off = analysis.services.iter().filter(|service| !service.off_treatment_in.is_empty()).count();
    assert_eq!(off, 6);
}

#[test]
fn a_memory_limit_that_services_reach_is_told() {
    let mut fleet = fleet(&[(8, &|_| 1.0), (8, &|_| 2.0)]);
    let reached = |fleet: &Fleet| -> Vec<(Vec<usize>, usize)> {
        let findings = run(fleet).findings;
        let told = findings.iter().filter(|finding| finding.kind == FindingKind::MemoryRunsShort);
        told.map(|finding| (finding.arms.clone(), finding.services.len())).collect()
    };
    fleet.limit.service_bytes = Some(3.0 * GIB);
    assert_eq!(reached(&fleet), []);
    // Memory that is stable grows to no limit, and is above it all the time.
    fleet.limit.service_bytes = Some(1.5 * GIB);
    assert_eq!(reached(&fleet), [(vec![1], 8)]);
    fleet.limit.service_bytes = None;
    for index in [3, 9] {
        fleet.services[index].limit_bytes = Some(2.0 * GIB);
        fleet.services[index].lives[0] = life(index, 0.0, 8.0, |age| (1.0 + age).min(1.99));
    }
    assert_eq!(reached(&fleet), [(vec![0], 1), (vec![1], 1)]);
}

#[test]
fn a_mixture_is_found_also_where_the_services_of_another_arm_are_of_two_sizes() {
    let mut fleet = mostly(6);
    add_arm(&mut fleet, 20, |seed| {
        let size = if seed % 20 < 8 { 3.0 } else { 0.3 };
        vec![life(seed, 0.0, 8.0, |age| size * own(seed) * settling(1.0)(age))]
    });
    let off = |fleet: &Fleet| {
        let found = run(fleet).services;
        found
            .into_iter()
            .filter(|own| !own.off_treatment_in.is_empty())
            .map(|own| own.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(off(&fleet), ["s0", "s1", "s2", "s3", "s4", "s5"]);
}

/// Names of the services that are off treatment in some arm.
fn off_treatment(analysis: &Analysis) -> Vec<&str> {
    let off = analysis.services.iter().filter(|service| !service.off_treatment_in.is_empty());
    off.map(|service| service.name.as_str()).collect()
}

#[test]
fn services_that_leak_up_to_the_level_of_another_arm_are_not_taken_for_its() {
    let courses: [&dyn Fn(f64) -> f64; 3] =
        [&|age| 1.0 + age / 7.5, &|age| 1.0 + (age - 4.0).max(0.0) / 3.5, &|age| (0.09 * age).exp()];
    for (number, course) in courses.iter().enumerate() {
        for leaking in [1, 3, 6] {
            let mut fleet = fleet(&[(20, &|_| 2.0)]);
            add_arm(&mut fleet, 20, |seed| {
                let leaks = seed - 20 < leaking;
                vec![life(seed, 0.0, 8.0, |age| own(seed) * if leaks { course(age) } else { 1.0 })]
            });
            let analysis = run(&fleet);
            let off = off_treatment(&analysis);
            assert!(off.is_empty(), "course {number}, {leaking} services: {off:?}");
        }
    }
}

/// An arm of small and large relays, the large ones of which need twice as much.
fn of_two_sizes(fleet: &mut Fleet, gib: f64, (small, large): (usize, usize)) {
    let before = fleet.services.len();
    add_arm(fleet, small + large, |seed| {
        let size = if seed - before < small { 1.0 } else { 2.0 };
        vec![life(seed, 0.0, 8.0, |_| own(seed) * size * gib)]
    });
}

#[test]
fn services_of_two_sizes_in_both_arms_are_no_off_treatment() {
    // Large relays of the second arm need about what small ones of the first do, by either factor.
    for factor in [0.6, 0.55, 0.5, 0.45] {
        for (small, large) in [(8, 4), (12, 8), (14, 3), (19, 1)] {
            let mut fleet = Fleet { randomised: true, seed: 7, ..Fleet::default() };
            of_two_sizes(&mut fleet, 1.0, (small, large));
            of_two_sizes(&mut fleet, factor, (small, large));
            let analysis = run(&fleet);
            let off = off_treatment(&analysis);
            assert!(off.is_empty(), "{factor} {small} {large}: {off:?}");
            let ratio = analysis.arms[1].as_assigned.ratio.as_ref().unwrap().estimate;
            assert!((ratio.value / factor - 1.0).abs() < 0.05, "{factor} {small} {large}: {ratio:?}");
        }
    }
}

#[test]
fn services_that_run_another_arms_allocator_are_found_beside_two_sizes() {
    let mut fleet = Fleet { randomised: true, seed: 7, ..Fleet::default() };
    of_two_sizes(&mut fleet, 5.0, (18, 2));
    of_two_sizes(&mut fleet, 1.0, (18, 2));
    // Of the first arm five small ones run what the second does.
    for service in &mut fleet.services[..5] {
        for reading in &mut service.lives[0].readings {
            reading.kib /= 5;
        }
    }
    let analysis = run(&fleet);
    let off = |range: std::ops::Range<usize>| {
        analysis.services[range].iter().filter(|service| !service.off_treatment_in.is_empty()).count()
    };
    assert_eq!((off(0..5), off(5..40)), (5, 0));
}

#[test]
fn arms_that_do_the_same_and_have_services_of_two_sizes_have_no_off_treatment() {
    for (first, second) in [((9, 11), (11, 9)), ((13, 7), (7, 13))] {
        let mut fleet = Fleet { randomised: true, seed: 7, ..Fleet::default() };
        of_two_sizes(&mut fleet, 1.0, first);
        of_two_sizes(&mut fleet, 1.0, second);
        assert!(off_treatment(&run(&fleet)).is_empty(), "{first:?} {second:?}");
    }
}
