//! What follows for an operator.

mod build;

use build::*;
use heaptrial_analysis::{Analysis, FindingKind, FleetEvent, LimitKind, Verdict};
use heaptrial_model::KnownEvent;

fn verdict(analysis: &Analysis) -> &Verdict {
    analysis.arms[1].verdict.as_ref().unwrap()
}

/// 8 services of 1 GiB beside 8 that grow by a share of a GiB a day.
fn growing(share: f64) -> heaptrial_analysis::Fleet {
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
fn growth_of_all_arms_is_told_as_shared() {
    let fleet = fleet(&[(8, &|age| 1.0 + 0.05 * age), (8, &|age| 0.5 + 0.025 * age)]);
    assert_eq!(find(&run(&fleet), FindingKind::AllArmsGrow).unwrap().arms, [0, 1]);
}

#[test]
fn a_sudden_expansion_is_dated_in_its_arm() {
    let fleet = fleet(&[(20, &|_| 1.0), (20, &|age| if age < 4.9 { 1.0 } else { 1.18 })]);
    let analysis = run(&fleet);
    let [change] = analysis.arms[1].level_changes.as_slice() else { panic!("{:?}", analysis.arms[1]) };
    assert!(
        ((change.at - BEGIN) / DAY - 4.9).abs() < 0.5 && (change.factor - 1.18).abs() < 0.02,
        "{change:?}"
    );
    assert_eq!((change.services_agreeing, change.services), (20, 20));
    assert!(analysis.arms[0].level_changes.is_empty());
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
    let finding = find(&analysis, FindingKind::SpansTreatmentChange).unwrap();
    assert_eq!((finding.arms.as_slice(), finding.services.len()), (&[1][..], 7));
    assert!(!finding.services.contains(&"s9".to_owned()));
}

/// The same fleet with all of its time so many times as short.
fn hastened(mut fleet: heaptrial_analysis::Fleet, times: f32) -> heaptrial_analysis::Fleet {
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
            let services = arm.services.as_ref().unwrap();
            assert_eq!((services.stable, services.growing, services.bloating), (0, 0, 0));
        }
    }
}

#[test]
fn memory_that_runs_out_within_hours_bloats_whatever_the_length_of_the_trial() {
    let mut fleet = hastened(growing(0.5), 24.0);
    // 5 GiB by now, half a GiB in each twentieth of the time.
    fleet.limit.service_bytes = Some(6.0 * GIB);
    let (days, limit) = bloating(&run(&fleet));
    assert!(limit == LimitKind::Service && (0.05..0.15).contains(&days), "{days}");
}

#[test]
fn memory_that_was_as_high_before_does_not_bloat() {
    // A week's rhythm, seen for nine days: after warm-up it rises to where it was on the second day.
    let week = |age: f64| 6.0 * (1.0 + 0.15 * ((age - 1.75) / 7.0 * std::f64::consts::TAU).cos());
    let mut fleet = heaptrial_analysis::Fleet { seed: 1, ..Default::default() };
    for _ in 0..2 {
        add_arm(&mut fleet, 8, |seed| vec![life(seed, 0.0, 9.25, |age| own(seed) * week(age))]);
    }
    let analysis = run(&fleet);
    let growth = analysis.arms[1].growth.as_ref().unwrap().share_per_day;
    assert!(growth.low.unwrap() > 0.0, "{growth:?}");
    let Verdict::Inconclusive { why, .. } = verdict(&analysis) else { panic!("{:?}", verdict(&analysis)) };
    assert!(why.contains("on day 2 of the same lives it was as high as at the end"), "{why}");
}
