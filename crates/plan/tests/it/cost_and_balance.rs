//! What is told of a plan.

use crate::support;

use heaptrial_model::TrialPlan;
use heaptrial_plan::{Candidate, balance, restart_cost, smallest_p_value};
use support::{candidate, drawn, trial};

fn candidates(services: usize) -> Vec<Candidate> {
    (0..services).map(candidate).collect()
}

/// 35 s and 3 s of settling are longer than the pause of 30 s.
#[test]
fn restarts_one_after_the_other_take_as_long_as_they_take() {
    let candidates = candidates(20);
    let cost = restart_cost(&drawn(&trial(4), &candidates, 1), &candidates);
    assert_eq!(cost.total_seconds, 20.0 * 38.0);
    assert_eq!(cost.downtime_seconds, 20.0 * 35.0);
    assert_eq!((cost.restarts, cost.at_once), (20, 1));
}

#[test]
fn two_at_once_halve_the_time_until_the_pause_limits_it() {
    let candidates = candidates(20);
    let mut trial = trial(4);
    trial.pace.at_once = 2;
    trial.pace.pause = "1s".parse().unwrap();
    let total = |trial: &TrialPlan| restart_cost(&drawn(trial, &candidates, 1), &candidates).total_seconds;
    // Pairs, the second one second later.
    assert_eq!(total(&trial), 10.0 * 38.0 + 1.0);
    trial.pace.pause = "1m".parse().unwrap();
    assert_eq!(total(&trial), 19.0 * 60.0 + 38.0);
}

#[test]
fn one_family_is_restarted_one_by_one_whatever_the_pace_says() {
    let one_family: Vec<Candidate> = candidates(10)
        .into_iter()
        .map(|candidate| Candidate { family: Some("f".to_owned()), ..candidate })
        .collect();
    let mut trial = trial(2);
    trial.pace.at_once = 5;
    let cost = restart_cost(&drawn(&trial, &one_family, 1), &one_family);
    assert_eq!(cost.at_once, 5);
    assert_eq!(cost.total_seconds, 10.0 * 38.0);
}

/// In 10 days 4 restarts every 2 days: the one at the end is not made.
#[test]
fn restarts_by_timer_are_counted() {
    let candidates = candidates(10);
    let mut trial = trial(2);
    trial.arms[1].treatment.restart_every = Some("2d".parse().unwrap());
    assert_eq!(restart_cost(&drawn(&trial, &candidates, 1), &candidates).timer_restarts, 5 * 4);
}

#[test]
fn balance_counts_and_compares_in_standard_deviations() {
    let mut candidates = candidates(4);
    for (candidate, mib) in candidates.iter_mut().zip([100, 200, 400, 800]) {
        candidate.baseline_bytes = Some(mib << 20);
    }
    candidates[3].role = "exit".to_owned();
    let mut plan = drawn(&trial(2), &candidates, 1);
    for assigned in &mut plan.services {
        let high = assigned.service.as_str() > "tor@r001.service";
        assigned.arm = if high { "arm1" } else { "arm0" }.to_owned();
    }
    let balance = balance(&plan, &candidates);
    let control = &balance.arms[0];
    let memory = control.baseline_bytes.unwrap();
    assert!((memory.mean / 1_048_576.0 - (100.0_f64 * 200.0).sqrt()).abs() < 1e-6);
    assert_eq!((memory.low, memory.high), (100.0 * 1_048_576.0, 200.0 * 1_048_576.0));
    assert_eq!(balance.arms[1].roles["exit"], 1);
    // Logs are equally spaced: two steps of the deviation of 0, 1, 2, 3.
    let largest = &balance.differences[0];
    assert_eq!((largest.arm.as_str(), largest.what), ("arm1", "memory"));
    assert!((largest.standardised - 2.0 / (5.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{largest:?}");
    // Ages are all the same: there is nothing to compare.
    assert!(balance.differences.iter().all(|difference| difference.what != "age"));
}

#[test]
fn the_smallest_p_value_follows_from_the_blocks() {
    let seven = candidates(14);
    let plan = drawn(&trial(2), &seven, 1);
    // Of services that are far apart seven pairs.
    assert_eq!(smallest_p_value(&plan, "arm1"), Some(2.0 / 128.0));
    // Of services that are alike one block: of the 128 assignments of pairs the last look's error would take the most extreme alone.
    let mut alike = candidates(14);
    alike.iter_mut().for_each(|candidate| candidate.baseline_bytes = Some(1 << 30));
    let smallest = smallest_p_value(&drawn(&trial(2), &alike, 1), "arm1").unwrap();
    assert!((smallest - 2.0 / 3432.0).abs() < 1e-12, "{smallest}");
    assert_eq!(smallest_p_value(&plan, "arm0"), None);
    assert_eq!(smallest_p_value(&plan, "no such"), None);
    // One of 10 against 10 in 252 ways is sharper than five pairs in 32.
    let five_arms = drawn(&trial(5), &candidates(25), 1);
    assert_eq!(smallest_p_value(&five_arms, "arm3"), Some(2.0 / 252.0));
    // Eight in a block are sharper than six in one and two in another, of which the last look could reject none.
    let four = drawn(&trial(2), &candidates(8), 1);
    assert_eq!(smallest_p_value(&four, "arm1"), Some(2.0 / 70.0));
    let pairs = drawn(&trial(2), &candidates(16), 1);
    assert_eq!(smallest_p_value(&pairs, "arm1"), Some(2.0 / 256.0));
    // One service an arm: nothing can be found.
    let pair = drawn(&trial(2), &candidates(2), 1);
    assert_eq!(smallest_p_value(&pair, "arm1"), Some(1.0));
}
