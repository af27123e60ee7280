//! Doing less is not winning.

use crate::build;

use build::*;
use heaptrial_evaluate::analysis::{
    Analysis, FindingKind, Fleet, Measure, MeasureResult, Severity, WorkStanding,
};

/// Gives each service of an arm a measure, by its number in the fleet.
fn works(fleet: &mut Fleet, arm: usize, measure: impl Fn(usize) -> Measure) {
    for (index, service) in fleet.services.iter_mut().enumerate().filter(|(_, of)| of.arms == [arm]) {
        service.lives.iter_mut().for_each(|life| life.work.measures.push(measure(index)));
    }
}

/// Two readings of a counter: its beginning and what it was after 8 days.
fn counted(total: f64) -> Vec<(f32, f64)> {
    vec![(0.0, 0.0), ((8.0 * DAY) as f32, total)]
}

fn documents(total: f64) -> impl Fn(usize) -> Measure {
    move |index| Measure::done("documents", counted(total * own(index * 3 + 1)))
}

fn of(analysis: &Analysis, arm: usize) -> &MeasureResult {
    &analysis.arms[arm].work.as_ref().unwrap().measures[0]
}

fn is(analysis: &Analysis, arm: usize, standing: WorkStanding) {
    let found = of(analysis, arm);
    assert_eq!(found.standing, standing, "{found:?}");
    assert_eq!(analysis.arms[arm].work.as_ref().unwrap().standing, standing);
}

#[test]
fn an_arm_that_answers_nothing_is_no_extreme_and_says_so() {
    for services in [1, 6] {
        let mut fleet = fleet(&[(services, &|_| 4.0), (services, &|_| 0.3), (services, &|_| 2.0)]);
        works(&mut fleet, 0, documents(3_686.0));
        works(&mut fleet, 1, documents(0.0));
        works(&mut fleet, 2, documents(3_700.0));
        let analysis = run(&fleet);
        is(&analysis, 0, WorkStanding::DoesItsWork);
        is(&analysis, 1, WorkStanding::ClearlyLess);
        is(&analysis, 2, WorkStanding::DoesItsWork);
        let extremes = &analysis.extremes;
        assert_eq!((extremes.least, extremes.most), (Some(2), Some(0)));
        // It is shown all the same, with what it is.
        assert_eq!(extremes.order[0].arm, 1);
        assert!(!extremes.order[0].ranked && extremes.order[1].ranked);
        let finding = find(&analysis, FindingKind::WorkBelowControl).unwrap();
        assert_eq!((finding.severity, finding.arms.as_slice()), (Severity::Grave, &[1][..]));
        assert_eq!(
            finding.evidence,
            "services of arm 1 had no documents at all, and those of the control did"
        );
        // Nothing is no unit of work to share memory among.
        assert!(of(&analysis, 1).memory_ratio.is_none() && of(&analysis, 1).memory_for_each.is_none());
        assert_eq!(of(&analysis, 1).idle, services as u32);
    }
}

#[test]
fn memory_is_told_for_each_unit_of_work() {
    let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0)]);
    works(&mut fleet, 0, documents(8_000.0));
    works(&mut fleet, 1, documents(1_000.0));
    let analysis = run(&fleet);
    is(&analysis, 1, WorkStanding::ClearlyLess);
    let measure = of(&analysis, 1);
    // A quarter of the memory for an eighth of the work: twice as much for the same.
    let ratio = measure.memory_ratio.as_ref().unwrap().estimate;
    let (low, high) = ratio.interval().unwrap();
    assert!((ratio.value - 2.0).abs() < 0.1 && low > 1.8 && high < 2.2, "{ratio:?}");
    let finding = find(&analysis, FindingKind::WorkBelowControl).unwrap();
    assert!(finding.evidence.contains("times the documents of those of the control"), "{}", finding.evidence);
    assert!(finding.evidence.contains("of it for the same work"), "{}", finding.evidence);
    assert_eq!(analysis.extremes.least, None);
}

#[test]
fn a_tenth_less_of_a_few_services_is_not_clearly_less() {
    for (services, share) in [(8, 0.95), (2, 0.95), (1, 0.7)] {
        let mut fleet = fleet(&[(services, &|_| 4.0), (services, &|_| 1.0)]);
        works(&mut fleet, 0, documents(1_000.0));
        works(&mut fleet, 1, documents(1_000.0 * share));
        let analysis = run(&fleet);
        assert_ne!(of(&analysis, 1).standing, WorkStanding::ClearlyLess, "{share}: {:?}", of(&analysis, 1));
        assert_eq!(analysis.extremes.least, Some(1));
    }
    // Less than half by each of them is.
    for services in [1, 2, 3] {
        let mut fleet = fleet(&[(services, &|_| 4.0), (services, &|_| 1.0)]);
        works(&mut fleet, 0, documents(1_000.0));
        works(&mut fleet, 1, documents(300.0));
        let analysis = run(&fleet);
        assert_eq!(of(&analysis, 1).standing, WorkStanding::ClearlyLess, "{:?}", of(&analysis, 1));
    }
}

#[test]
fn work_that_was_not_measured_is_unknown_and_said_so() {
    let mut fleet = fleet(&[(6, &|_| 4.0), (6, &|_| 1.0), (6, &|_| 2.0)]);
    works(&mut fleet, 0, documents(1_000.0));
    works(&mut fleet, 2, documents(1_000.0));
    let analysis = run(&fleet);
    is(&analysis, 1, WorkStanding::Unknown);
    let finding = find(&analysis, FindingKind::WorkUnknown).unwrap();
    assert_eq!(finding.arms, [1]);
    assert_eq!(
        finding.evidence,
        "documents of the control were counted, and not of half of the services of arm 1"
    );
    // It is ranked: nothing says that it does less. Whoever recommends it has to say that it is not known.
    assert_eq!(analysis.extremes.least, Some(1));
    assert_eq!(analysis.extremes.place(1).unwrap().work, Some(WorkStanding::Unknown));
    // Where no arm's work is known there is nothing to say.
    fleet.services.iter_mut().for_each(|service| service.lives[0].work.measures.clear());
    let analysis = run(&fleet);
    assert!(analysis.arms.iter().all(|arm| arm.work.is_none()));
    assert!(analysis.extremes.order.iter().all(|place| place.work.is_none()));
    assert!(find(&analysis, FindingKind::WorkUnknown).is_none());
}

#[test]
fn failures_count_as_a_share_of_what_was_tried() {
    let clients =
        |failed: f64, tried: f64| move |_: usize| Measure::failed("clients", counted(failed), counted(tried));
    // Ten times as many failures, of 1 in 1,000: the work is done.
    let mut few = fleet(&[(6, &|_| 4.0), (6, &|_| 1.0)]);
    works(&mut few, 0, clients(1.0, 10_000.0));
    works(&mut few, 1, clients(10.0, 10_000.0));
    is(&run(&few), 1, WorkStanding::DoesItsWork);
    // Half of them.
    let mut many = fleet(&[(6, &|_| 4.0), (6, &|_| 1.0)]);
    works(&mut many, 0, clients(1.0, 10_000.0));
    works(&mut many, 1, |index| {
        Measure::failed("clients", counted(5_000.0 + index as f64), counted(10_000.0))
    });
    let analysis = run(&many);
    is(&analysis, 1, WorkStanding::ClearlyLess);
    let finding = find(&analysis, FindingKind::WorkBelowControl).unwrap();
    // Over the window in which memory is compared, a day of 8.
    assert!(
        finding.evidence.starts_with("of 7,500 clients of arm 1 3,756 failed, of the control's 0 of 7,500"),
        "{}",
        finding.evidence
    );
    assert!(of(&analysis, 1).memory_ratio.is_none());
}

#[test]
fn one_measure_that_is_clearly_less_decides() {
    let mut fleet = fleet(&[(6, &|_| 4.0), (6, &|_| 1.0)]);
    for (arm, bytes, answered) in [(0, 1e9, 1e4), (1, 1e9, 10.0)] {
        works(&mut fleet, arm, move |i| Measure::traffic(counted(bytes * own(i))));
        works(&mut fleet, arm, move |i| Measure::done("documents", counted(answered * own(i))));
    }
    let work = run(&fleet).arms[1].work.clone().unwrap();
    assert_eq!(work.measures.len(), 2);
    assert_eq!(work.measures[0].standing, WorkStanding::DoesItsWork);
    assert_eq!(
        (work.measures[1].standing, work.standing),
        (WorkStanding::ClearlyLess, WorkStanding::ClearlyLess)
    );
}

#[test]
fn a_measure_by_which_the_control_did_nothing_decides_nothing() {
    let mut fleet = fleet(&[(6, &|_| 4.0), (6, &|_| 1.0)]);
    for arm in [0, 1] {
        works(&mut fleet, arm, documents(1_000.0));
        works(&mut fleet, arm, move |_| Measure::done("uploads", counted(5.0 * arm as f64)));
    }
    let work = run(&fleet).arms[1].work.clone().unwrap();
    assert_eq!(work.standing, WorkStanding::DoesItsWork);
}

/// Readings of a rate or a latency in the first and the second half of 8 days.
fn readings(value: f64) -> Vec<(f32, f64)> {
    (1..16).map(|half| ((f64::from(half) * DAY / 2.0) as f32, value)).collect()
}

#[test]
fn a_latency_above_the_margin_is_less_work() {
    let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0), (8, &|_| 2.0)]);
    for (arm, took) in [(0, 2.0), (1, 3.0), (2, 1.9)] {
        works(&mut fleet, arm, move |index| Measure::took("latency_ms", readings(took * own(index * 3 + 1))));
    }
    let analysis = run(&fleet);
    is(&analysis, 1, WorkStanding::ClearlyLess);
    is(&analysis, 2, WorkStanding::DoesItsWork);
    // It is told as it is, and judged as work: half as long again is two thirds of the work.
    let ratio = of(&analysis, 1).ratio.as_ref().unwrap().estimate;
    let work = of(&analysis, 1).of_work().unwrap();
    assert!((ratio.value - 1.5).abs() < 0.1 && ratio.low.unwrap() > 1.3, "{ratio:?}");
    assert!((work.value - 2.0 / 3.0).abs() < 0.05 && work.high.unwrap() < 0.8, "{work:?}");
    assert!(of(&analysis, 1).less_is_better && of(&analysis, 1).memory_for_each.is_none());
    assert_eq!(analysis.extremes.least, Some(2));
    let finding = find(&analysis, FindingKind::WorkBelowControl).unwrap();
    assert!(
        finding
            .evidence
            .starts_with("services of arm 1 had 1.49 times the latency_ms of those of the control ("),
        "{}",
        finding.evidence
    );
}

#[test]
fn a_number_of_all_the_time_until_then_is_the_one_after_the_window() {
    let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0)]);
    for (arm, took) in [(0, 2.0), (1, 3.0)] {
        // The load before it warms up takes as long under all.
        works(&mut fleet, arm, move |index| {
            let whole = took * own(index * 3 + 1);
            Measure::took("latency_ms", vec![((DAY / 2.0) as f32, 9.0), ((9.0 * DAY) as f32, whole)])
        });
    }
    let ratio = of(&run(&fleet), 1).ratio.as_ref().unwrap().estimate;
    assert!((ratio.value - 1.5).abs() < 0.1, "{ratio:?}");
}

#[test]
fn a_rate_is_a_mean_and_has_a_cost() {
    let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0)]);
    for arm in [0, 1] {
        works(&mut fleet, arm, |_| Measure::rate("tps", readings(50.0)));
    }
    // Half a CPU and a quarter of one, all the time.
    for service in &mut fleet.services {
        let share = if service.arms == [0] { 0.5 } else { 0.25 };
        service.lives.iter_mut().for_each(|life| life.work.spent.cpu_seconds = counted(share * 8.0 * DAY));
    }
    let analysis = run(&fleet);
    let control = of(&analysis, 0);
    assert!((control.amount.unwrap() - 50.0).abs() < 1e-9, "{control:?}");
    assert!((control.cpu_seconds_for_each.unwrap() - 0.01).abs() < 1e-6, "{control:?}");
    let ratio = of(&analysis, 1).cpu_ratio.as_ref().unwrap().estimate;
    assert!((ratio.value - 0.5).abs() < 1e-6, "{ratio:?}");
    assert_eq!(of(&analysis, 1).page_faults_for_each, None);
}

/// The load is over after two days: what the services do then is nothing, and costs nothing.
#[test]
fn a_load_that_is_over_soon_costs_what_it_took_while_it_ran() {
    for told in [vec![2.0], vec![0.5, 1.0, 1.5, 2.0], vec![7.0]] {
        let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0)]);
        let over = *told.last().unwrap();
        let readings: Vec<(f32, f64)> = told.iter().map(|day| ((day * DAY) as f32, 50.0)).collect();
        for arm in [0, 1] {
            works(&mut fleet, arm, |_| Measure::rate("tps", readings.clone()));
        }
        for service in &mut fleet.services {
            let cpu = (0..=16)
                .map(|half| f64::from(half) / 2.0 * DAY)
                .map(|age| (age as f32, 0.5 * age.min(over * DAY)));
            service.lives.iter_mut().for_each(|life| life.work.spent.cpu_seconds = cpu.clone().collect());
        }
        let analysis = run(&fleet);
        let each = of(&analysis, 0).cpu_seconds_for_each.unwrap();
        assert!((each - 0.01).abs() < 1e-6, "{told:?}: {each}");
    }
}

/// It is shown to take longer, and not by more than the margin.
#[test]
fn less_work_that_may_be_within_the_margin_is_a_caution() {
    let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0)]);
    for (arm, took, apart) in [(0, 2.0, 0.02), (1, 2.36, 0.05)] {
        works(&mut fleet, arm, move |index| {
            Measure::took("latency_ms", readings(took * (1.0 + apart * ((index % 8) as f64 - 3.5))))
        });
    }
    let analysis = run(&fleet);
    let work = of(&analysis, 1).of_work().unwrap();
    assert!(work.value < 0.9 && work.high.unwrap() > 0.9 && work.high.unwrap() < 1.0, "{work:?}");
    assert_eq!(find(&analysis, FindingKind::WorkBelowControl).unwrap().severity, Severity::Caution);
}

#[test]
fn one_number_at_the_end_stands_for_the_whole_time() {
    let mut fleet = fleet(&[(2, &|_| 4.0), (2, &|_| 1.0)]);
    for (arm, at) in [(0, 9.0), (1, 0.5)] {
        works(&mut fleet, arm, move |_| Measure::rate("tps", vec![((at * DAY) as f32, 40.0)]));
    }
    let analysis = run(&fleet);
    assert_eq!((of(&analysis, 0).amount, of(&analysis, 1).amount), (Some(40.0), Some(40.0)));
}
