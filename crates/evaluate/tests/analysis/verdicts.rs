//! What follows for an operator.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{Analysis, FindingKind, FleetEvent, LimitKind, ServiceResult, Verdict};
use heaptrial_model::KnownEvent;

fn verdict(analysis: &Analysis) -> &Verdict {
    analysis.arms[1].verdict.as_ref().unwrap()
}

/// 8 services of 1 GiB beside 8 that grow by a share of a GiB a day.
fn growing(share: f64) -> heaptrial_evaluate::analysis::Fleet {
    fleet(&[(8, &|_| 1.0), (8, &move |age| 1.0 + share * age)])
}

#[test]
fn flat_memory_is_stable() {
    assert_eq!(verdict(&run(&growing(0.0))), &Verdict::Stable);
}

#[test]
fn slow_growth_is_growing_and_a_far_limit_is_dated() {
    let mut fleet = growing(0.02);
    assert_eq!(verdict(&run(&fleet)), &Verdict::Growing { days_until_full: None, limit: None });
    // 1.16 GiB by now: 2.84 GiB are left, for 142 days.
    fleet.limit.service_bytes = Some(4.0 * GIB);
    let analysis = run(&fleet);
    let Verdict::Growing { days_until_full: Some(days), .. } = verdict(&analysis) else {
        panic!("{:?}", verdict(&analysis))
    };
    assert!((130.0..155.0).contains(&days.value), "{days:?}");
}

fn bloating(analysis: &Analysis) -> (f64, LimitKind) {
    match verdict(analysis) {
        Verdict::Bloating { days_until_full, limit } => (days_until_full.value, *limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fast_growth_bloats_to_the_first_limit_that_is_known() {
    let mut fleet = growing(0.1);
    // 1.8 GiB by now, and none is known: twice that stands for it.
    let (days, limit) = bloating(&run(&fleet));
    assert!(limit == LimitKind::Doubling && (16.0..20.0).contains(&days), "{days}");
    // 8 services share 8 GiB: 1 GiB for each.
    fleet.limit.host_available_bytes = Some(8.0 * GIB);
    let (days, limit) = bloating(&run(&fleet));
    assert!(limit == LimitKind::Host && (9.0..11.0).contains(&days), "{days}");
    fleet.limit.service_bytes = Some(2.3 * GIB);
    let (days, limit) = bloating(&run(&fleet));
    assert!(limit == LimitKind::Service && (4.0..6.0).contains(&days), "{days}");
}

#[test]
fn growth_that_levels_off_does_not_bloat() {
    let fleet = fleet(&[(8, &|_| 1.0), (8, &|age| 3.0 - 2.0 * (-age / 2.5).exp())]);
    assert!(matches!(verdict(&run(&fleet)), Verdict::Growing { .. }), "{:?}", run(&fleet).arms[1]);
}

#[test]
fn growth_that_will_level_off_before_the_limit_does_not_bloat() {
    // 2.47 GiB after 8 days, and 0.53 are still to come: by the pace of the later half it would double in 27 days.
    let mut fleet = fleet(&[(8, &|_| 1.0), (8, &|age| 3.0 - 2.0 * (-age / 6.0).exp())]);
    let analysis = run(&fleet);
    let growth = analysis.arms[1].growth.as_ref().unwrap();
    let rise = growth.rise_to_come_bytes.unwrap() / GIB;
    assert!((0.5..1.3).contains(&rise), "{growth:?}");
    assert_eq!(verdict(&analysis), &Verdict::Growing { days_until_full: None, limit: None });
    // A limit that lies nearer is reached.
    fleet.limit.service_bytes = Some(2.7 * GIB);
    let (days, limit) = bloating(&run(&fleet));
    assert!(limit == LimitKind::Service && (1.0..3.0).contains(&days), "{days}");
}

#[test]
fn lines_and_steps_do_not_level_off() {
    let line = |age: f64| 1.0 + 0.3 * age;
    let step = |age: f64| 1.0 + 0.3 * age.floor();
    for course in [&line as &dyn Fn(f64) -> f64, &step] {
        let analysis = run(&fleet(&[(8, &|_| 1.0), (8, course)]));
        let growth = analysis.arms[1].growth.as_ref().unwrap();
        assert_eq!(growth.rise_to_come_bytes, None, "{growth:?}");
        bloating(&analysis);
    }
    // Two steps soon and one late are not shown to be anything.
    let few = |age: f64| 1.0 + [3.0, 4.5, 7.0].iter().filter(|step| age >= **step).count() as f64;
    let analysis = run(&fleet(&[(8, &|_| 1.0), (8, &few)]));
    let growth = analysis.arms[1].growth.as_ref().unwrap();
    assert!(growth.rise_to_come_bytes.is_none(), "{growth:?}");
}

#[test]
fn a_leak_beside_growth_that_settles_has_no_end() {
    // It slows down, and not to a level: 3.3 GiB by now, and 4 GiB a week later.
    for (part, tau) in [(1.5, 2.0), (1.0, 1.5), (2.0, 1.0)] {
        let course = |age: f64| 1.0 + part * (1.0 - (-age / tau).exp()) + 0.1 * age;
        let mut fleet = fleet(&[(8, &|_| 1.0), (8, &course)]);
        fleet.limit.service_bytes = Some((course(8.0) + 0.7) * GIB);
        let analysis = run(&fleet);
        let (days, _) = bloating(&analysis);
        assert!((4.0..10.0).contains(&days), "{part} {tau}: {days} {:?}", analysis.arms[1].growth);
    }
}

#[test]
fn days_are_those_of_the_growth_beside_them_where_it_is_not_shown_to_slow_down() {
    // Half of the services slow down and half do not.
    let mut fleet = growing(0.0);
    for (seed, service) in fleet.services[8..].iter_mut().enumerate() {
        let late = if seed % 2 == 0 { 0.07 } else { 0.12 };
        service.lives[0] =
            life(seed, 0.0, 8.0, |age| 1.0 + 0.12 * age.min(5.33) + late * (age - 5.33).max(0.0));
    }
    fleet.limit.service_bytes = Some(3.0 * GIB);
    let analysis = run(&fleet);
    let arm = &analysis.arms[1];
    let growth = arm.growth.as_ref().unwrap();
    assert!(growth.rise_to_come_bytes.is_none(), "{growth:?}");
    let Verdict::Bloating { days_until_full: days, .. } = verdict(&analysis) else {
        panic!("{:?}", verdict(&analysis))
    };
    let way = 3.0 * GIB - arm.as_assigned.final_median_bytes.unwrap();
    assert!((days.value * growth.bytes_per_day.value / way - 1.0).abs() < 1e-9, "{days:?} {growth:?}");
}

/// The interval of growth that takes services as independent: of 20 the sixth and the fifteenth.
fn of_ranks(analysis: &Analysis, of: fn(&ServiceResult) -> Option<f64>) -> (f64, f64) {
    let mut slopes: Vec<f64> =
        analysis.members(1).iter().filter_map(|index| of(&analysis.services[*index])).collect();
    slopes.sort_by(f64::total_cmp);
    assert_eq!(slopes.len(), 20);
    (slopes[5], slopes[14])
}

#[test]
fn a_course_that_services_have_by_growing_is_no_load_that_they_share() {
    // In bytes, by a factor, and towards a level: each bends on some scale, alike in all services.
    for course in
        [&(|age: f64| 0.3 + 0.9 * age) as &dyn Fn(f64) -> f64, &|age| 0.3 * (0.3 * age).exp(), &|age| {
            3.0 - 2.0 * (-age / 6.0).exp()
        }]
    {
        let analysis = run(&fleet(&[(20, &|_| 1.0), (20, course)]));
        let growth = analysis.arms[1].growth.as_ref().unwrap();
        for estimate in [growth.share_per_day, growth.bytes_per_day] {
            let width = estimate.high.unwrap() - estimate.low.unwrap();
            assert!(width <= 0.1 * estimate.value, "{estimate:?}");
        }
    }
    // Load is: a fleet's day, and a slower one.
    let load = |age: f64| 0.02 * ((age * 6.0).sin() + (age * 1.3).sin());
    let analysis = run(&fleet(&[(20, &|_| 1.0), (20, &|age| (0.3 + 0.9 * age) * (1.0 + load(age)))]));
    let growth = analysis.arms[1].growth.as_ref().unwrap().share_per_day;
    let (low, high) = of_ranks(&analysis, |service| service.growth_log_per_day);
    assert!(growth.high.unwrap() - growth.low.unwrap() > 3.0 * (high - low), "{growth:?} {low} {high}");
}

#[test]
fn what_is_not_decided_takes_a_day_more_at_least() {
    // Their interval is wider than the margin on one side alone, and by its width it would be decided.
    let mut fleet = growing(0.0);
    for (seed, service) in fleet.services[8..].iter_mut().enumerate() {
        let share = [-0.001, 0.008].get(seed).copied().unwrap_or(0.004);
        service.lives[0] = life(seed, 0.0, 8.0, |age| 2.0 * (share * age).exp());
    }
    let analysis = run(&fleet);
    let Verdict::Inconclusive { days_needed, .. } = verdict(&analysis) else {
        panic!("{:?}", verdict(&analysis))
    };
    assert_eq!(*days_needed, Some(1.0));
}

#[test]
fn falling_memory_has_not_settled() {
    let analysis = run(&growing(-0.05));
    let Verdict::Inconclusive { why, days_needed } = verdict(&analysis) else { panic!() };
    assert!(why.contains("still falls") && days_needed.is_none());
}

#[test]
fn noise_is_inconclusive_and_tells_the_days_that_it_takes() {
    let mut fleet = growing(0.0);
    for (seed, service) in fleet.services.iter_mut().enumerate() {
        // Each goes its own way, by up to 3% a day.
        let own = 0.03 * ((seed * 53 % 97) as f64 / 48.0 - 1.0);
        service.lives[0] = life(seed, 0.0, 8.0, |age| 2.0 + own * age);
    }
    let analysis = run(&fleet);
    let Verdict::Inconclusive { days_needed: Some(days), .. } = verdict(&analysis) else {
        panic!("{:?}", verdict(&analysis))
    };
    assert!(*days > 0.0 && days.is_finite());
}

#[test]
fn a_life_spans_a_change_unless_it_began_with_it() {
    let mut fleet = growing(0.0);
    fleet.services[9].lives[0] = life(9, 3.0, 8.0, |_| 1.0);
    let text = "experiment: another allocator".to_owned();
    fleet.events.push(FleetEvent {
        host: None,
        service: None,
        kind: KnownEvent::Experiment.into(),
        at: BEGIN + 3.0 * DAY + 600.0,
        arm: Some(1),
        changes_treatment: true,
        text,
    });
    let analysis = run(&fleet);
    let finding = find(&analysis, FindingKind::TreatmentUncertain).unwrap();
    assert_eq!((finding.arms.as_slice(), finding.services.len()), (&[1][..], 7));
    assert!(!finding.services.contains(&"s9".to_owned()));
}

/// The same fleet with all of its time so many times as short.
fn hastened(
    mut fleet: heaptrial_evaluate::analysis::Fleet,
    times: f32,
) -> heaptrial_evaluate::analysis::Fleet {
    for reading in fleet.services.iter_mut().flat_map(|service| &mut service.lives[0].readings) {
        reading.age_seconds /= times;
    }
    fleet
}

#[test]
fn a_part_of_a_day_tells_nothing_of_days_to_come() {
    // 8 hours, 5 of them after warm-up: memory settles, leaks slowly, and stays.
    for course in [
        &(|age: f64| 1.0 - 0.5 * (-age / 6.0).exp()) as &dyn Fn(f64) -> f64,
        &|age| 1.0 + 0.005 * age,
        &|_| 1.0,
    ] {
        let fleet = hastened(fleet(&[(8, &|_| 1.0), (8, course)]), 24.0);
        let analysis = run(&fleet);
        for arm in &analysis.arms {
            let Some(Verdict::Inconclusive { why, days_needed: Some(days) }) = &arm.verdict else {
                panic!("{:?}", arm.verdict)
            };
            assert!(why.contains("part of a day") && (1.1..1.3).contains(days), "{why} {days}");
            let services = arm.service_verdicts.as_ref().unwrap();
            assert_eq!(services.bloating, 0);
        }
    }
}

/// A leak beside growth that settles: the curve is that of what settles, and the limit is reached all the same.
#[test]
fn growth_that_slows_down_reaches_a_limit_below_what_is_to_come() {
    let mut fleet =
        fleet(&[(8, &|_| 1.0), (8, &|age| 2.0 * (1.0 + 0.8 * (1.0 - (-age / 3.0).exp()) + 0.03 * age))]);
    let analysis = run(&fleet);
    let rise = analysis.arms[1].growth.as_ref().unwrap().rise_to_come_bytes;
    assert_eq!(verdict(&analysis), &Verdict::Growing { days_until_full: None, limit: None });
    fleet.limit.service_bytes = Some(4.2 * GIB);
    let told = run(&fleet).arms[1].verdict.clone();
    assert!(
        matches!(
            told,
            Some(
                Verdict::Growing { days_until_full: Some(_), limit: Some(LimitKind::Service) }
                    | Verdict::Bloating { limit: LimitKind::Service, .. }
            )
        ),
        "{told:?}, {rise:?}"
    );
}

#[test]
fn memory_that_runs_out_within_hours_bloats_whatever_the_length_of_the_trial() {
    let mut fleet = hastened(growing(0.5), 24.0);
    // 5 GiB by now, half a GiB in each twentieth of the time.
    fleet.limit.service_bytes = Some(6.0 * GIB);
    let (days, limit) = bloating(&run(&fleet));
    assert!(limit == LimitKind::Service && (0.05..0.15).contains(&days), "{days}");
}
