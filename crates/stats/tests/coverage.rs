//! Simulation: how often the interval of the ratio holds the true ratio.

use heaptrial_stats::{Block, IntervalMethod, TwoByTwo, factorial, ratio_to_control, student_interval};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal, StudentT};

const TRIALS: u32 = 2_000;

/// Runs trials of `repeats` blocks with one service per arm and a true ratio of 0.5; gives the share
/// of intervals that hold it. The spread between blocks is larger than within, as between lab repeats.
fn coverage(repeats: usize, method: IntervalMethod) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let block_effect = LogNormal::new(5.0, 0.3).unwrap();
    let noise = LogNormal::new(0.0, 0.05).unwrap();
    let mut held = 0;
    for trial in 0..TRIALS {
        let blocks: Vec<Block> = (0..repeats)
            .map(|_| {
                let level = block_effect.sample(&mut random);
                Block {
                    control: vec![level * noise.sample(&mut random)],
                    treated: vec![0.5 * level * noise.sample(&mut random)],
                }
            })
            .collect();
        let ratio = ratio_to_control(&blocks, 0.95, u64::from(trial)).unwrap();
        assert_eq!(ratio.method, method);
        let (low, high) = ratio.interval.unwrap();
        held += u32::from(low <= 0.5 && 0.5 <= high);
    }
    let share = f64::from(held) / f64::from(TRIALS);
    println!("{repeats} repeats, {method:?}: {share}");
    share
}

// The Monte Carlo error of a share of 0.95 over 2,000 trials is 0.0049; the bounds are four of them.

#[test]
fn few_repeats_are_covered_by_student() {
    for repeats in [3, 5] {
        let share = coverage(repeats, IntervalMethod::StudentT);
        assert!((0.930..=0.970).contains(&share), "{share}");
    }
}

/// A permutation interval may be wider than asked for: with 6 blocks its level is 1 - 2/64.
#[test]
fn more_repeats_are_covered_by_permutation() {
    for repeats in [6, 8] {
        let share = coverage(repeats, IntervalMethod::Permutation);
        assert!((0.930..=0.985).contains(&share), "{share}");
    }
}

/// Arms of one block without a difference, the treated one's spread `wide` times the control's: the share of trials in
/// which one is found at 5%.
fn found(control: usize, treated: usize, wide: f64, tails: bool, trials: u32) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let (normal, heavy) = (Normal::new(0.0, 1.0).unwrap(), StudentT::new(3.0).unwrap());
    let mut arm = |services: usize, spread: f64| -> Vec<f64> {
        let mut standard = || {
            if tails { heavy.sample(&mut random) / 3.0_f64.sqrt() } else { normal.sample(&mut random) }
        };
        (0..services).map(|_| (5.0 + spread * standard()).exp()).collect()
    };
    let mut found = 0;
    for trial in 0..trials {
        let block = Block { control: arm(control, 0.06), treated: arm(treated, wide * 0.06) };
        let ratio = ratio_to_control(&[block], 0.95, u64::from(trial)).unwrap();
        let (low, high) = ratio.interval.unwrap();
        let rejected = ratio.p_value.unwrap() <= 0.05;
        // Test and interval say the same.
        assert_eq!(rejected, !(low <= 1.0 && 1.0 <= high), "{ratio:?}");
        found += u32::from(rejected);
    }
    let share = f64::from(found) / f64::from(trials);
    println!("{control} and {treated}, spread {wide} times, heavy tails {tails}: {share}");
    share
}

/// Optimised, or as the tests of a contributor are.
const OPTIMISED: bool = !cfg!(debug_assertions);

/// A plain permutation test finds a difference in 36% of such trials, or never where the small arm's spread is the
/// narrow one.
#[test]
fn unequal_sizes_and_spreads_leave_the_test_at_its_level() {
    let trials = if OPTIMISED { 4_000 } else { 200 };
    for (control, treated, wide) in [(80, 10, 4.0), (80, 10, 0.25), (10, 80, 4.0), (20, 40, 2.0)] {
        let share = found(control, treated, wide, false, trials);
        let bounds = if OPTIMISED { 0.020..=0.065 } else { 0.0..=0.105 };
        assert!(bounds.contains(&share), "{share}");
    }
}

/// Where services can be exchanged the test is exact however few there are.
#[test]
fn small_unequal_arms_are_exact() {
    let trials = if OPTIMISED { 20_000 } else { 1_000 };
    for (control, treated, tails) in [(4, 5, false), (3, 8, false), (4, 9, true), (6, 5, true)] {
        let share = found(control, treated, 1.0, tails, trials);
        assert!(share <= 0.05 + 4.0 * (0.05 * 0.95 / f64::from(trials)).sqrt(), "{share}");
    }
}

/// How often the intervals of a factorial hold the truth: total, version, setting, interaction, and the share of the
/// settings where it has one.
fn factorial_coverage(blocks: usize, tails: bool, trials: u32) -> [f64; 5] {
    let mut random = ChaCha8Rng::seed_from_u64(23);
    let (normal, heavy) = (Normal::new(0.0, 1.0).unwrap(), StudentT::new(3.0).unwrap());
    let mut draw = |spread: f64| {
        let standard =
            if tails { heavy.sample(&mut random) / 3.0_f64.sqrt() } else { normal.sample(&mut random) };
        spread * standard
    };
    // Logs of the four cells; the bad setting alone triples, with the bad version it does more.
    let truth = [0.0, 1.1, 0.4, 1.8];
    let expected = [
        1.8,
        0.5 * (0.4 + 1.8 - 1.1),
        0.5 * (1.1 + 1.8 - 0.4),
        1.8 - 0.4 - 1.1,
        0.5 * (1.1 + 1.8 - 0.4) / 1.8,
    ];
    let (mut held, mut shares) = ([0_u32; 5], 0);
    for _ in 0..trials {
        let cells: Vec<TwoByTwo> = (0..blocks)
            .map(|_| {
                // A repeat has its own load, and services of one cell are further apart than those of another.
                let level = 5.0 + draw(0.3);
                let [good, good_with_bad_setting, bad_with_good_setting, bad] =
                    [0.05, 0.1, 0.05, 0.2].map(&mut draw);
                TwoByTwo {
                    good: (level + truth[0] + good).exp(),
                    good_with_bad_setting: (level + truth[1] + good_with_bad_setting).exp(),
                    bad_with_good_setting: (level + truth[2] + bad_with_good_setting).exp(),
                    bad: (level + truth[3] + bad).exp(),
                }
            })
            .collect();
        let found = factorial(&cells, 0.95).unwrap();
        for (place, effect) in
            [found.total, found.version, found.setting, found.interaction].into_iter().enumerate()
        {
            let (low, high) = effect.interval.unwrap();
            held[place] += u32::from((low.ln()..=high.ln()).contains(&expected[place]));
        }
        // Where the whole is not shown the share has no interval, and nothing wrong is said.
        let share = found.setting_share.unwrap().interval;
        held[4] += u32::from(share.is_none_or(|(low, high)| (low..=high).contains(&expected[4])));
        shares += u32::from(share.is_some());
    }
    let covered = held.map(|held| f64::from(held) / f64::from(trials));
    println!("factorial, {blocks} repeats, heavy tails {tails}: {covered:?}, {shares} have a share");
    covered
}

#[test]
fn intervals_of_a_factorial_hold_the_truth() {
    let trials = if OPTIMISED { 20_000 } else { 2_000 };
    for (blocks, tails) in [(2, false), (3, false), (5, false), (10, false), (3, true), (5, true)] {
        let error = (0.05 * 0.95 / f64::from(trials)).sqrt();
        for (place, share) in factorial_coverage(blocks, tails, trials).into_iter().enumerate() {
            // Heavy tails make intervals of few repeats wider than they need be, never narrower; shares that are left
            // open hold too.
            let high = if tails || place == 4 { 1.0 } else { 0.95 + 4.0 * error };
            assert!(share >= 0.95 - 4.0 * error && share <= high, "{share}");
        }
    }
}

/// How often Student's interval of `count` slopes holds the true one.
fn slopes_held(count: usize, slope: impl Fn(&mut ChaCha8Rng) -> f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut held = |_: &u32| {
        let slopes: Vec<f64> = (0..count).map(|_| slope(&mut random)).collect();
        let (low, high) = student_interval(&slopes, 0.95).unwrap();
        low <= 0.0 && 0.0 <= high
    };
    (0..TRIALS).filter(|trial| held(trial)).count() as f64 / f64::from(TRIALS)
}

#[test]
fn slopes_of_few_services_are_covered_by_student() {
    let (normal, heavy) = (Normal::new(0.0, 1.0).unwrap(), StudentT::new(3.0).unwrap());
    for count in 3..=5 {
        let share = slopes_held(count, |random| normal.sample(random));
        assert!((0.930..=0.970).contains(&share), "{count}: {share}");
        // Heavy tails make it wider than asked for.
        let share = slopes_held(count, |random| heavy.sample(random));
        assert!(share >= 0.930, "{count}, heavy tails: {share}");
    }
}
