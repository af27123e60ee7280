//! Simulation: how often the interval of the ratio holds the true ratio.

use heaptrial_stats::{Block, IntervalMethod, RatioEstimate, median, quotient, ratio_to_control};
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

/// A lab and a trial in the field that it is scored against: arms of two treatments on both sides.
#[derive(Debug, Clone, Copy)]
struct LabAndField {
    /// Blocks of the lab with a relay of each arm: seeds or repeats.
    blocks: usize,
    /// Standard deviation of a lab's relay within its block.
    lab: f64,
    /// Services in the field under the control, and under the arm.
    services: (usize, usize),
    /// Standard deviation of a service in the field.
    field: f64,
}

impl LabAndField {
    /// How often the interval of the lab's ratio over the field's holds the true 0.4 / 0.5, and its median width: upper over lower end.
    fn covered(self, trials: u32) -> (f64, f64) {
        let mut random = ChaCha8Rng::seed_from_u64(31);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut draw = |spread: f64| spread * normal.sample(&mut random);
        let (mut held, mut widths) = (0, Vec::new());
        for trial in 0..trials {
            let in_lab: Vec<Block> = (0..self.blocks)
                .map(|_| {
                    let level = 5.0 + draw(0.1);
                    Block {
                        control: vec![(level + draw(self.lab)).exp()],
                        treated: vec![0.4 * (level + draw(self.lab)).exp()],
                    }
                })
                .collect();
            let mut arm = |services: usize, level: f64, spread: f64| -> Vec<f64> {
                (0..services).map(|_| level * draw(spread).exp()).collect()
            };
            let control = arm(self.services.0, 5000.0, self.field);
            let in_field = Block { control, treated: arm(self.services.1, 2500.0, self.field) };
            let ends = |ratio: RatioEstimate| {
                let (low, high) = ratio.interval.unzip();
                (ratio.estimate, low, high)
            };
            let ratio = |blocks: &[Block]| ends(ratio_to_control(blocks, 0.95, u64::from(trial)).unwrap());
            let (_, low, high) = quotient(ratio(&in_lab), ratio(&[in_field])).unwrap();
            // Nothing is told where one side has no interval.
            let Some((low, high)) = low.zip(high) else { continue };
            held += u32::from((low..=high).contains(&(0.4 / 0.5)));
            widths.push(high / low);
        }
        let share = f64::from(held) / widths.len() as f64;
        let width = median(&widths).unwrap_or(f64::NAN);
        println!("{self:?}: {share:.4} of {} intervals, width {width:.2}", widths.len());
        (share, width)
    }
}

/// By how much each side misses is known to neither, so the factor's interval has the errors of both.
#[test]
fn a_labs_ratio_over_the_fields_is_covered() {
    let trials = if OPTIMISED { TRIALS } else { 300 };
    let services = [(3, 3), (5, 5), (10, 10), (20, 20), (20, 5)];
    // Where assignments are drawn a build for debugging takes minutes.
    let services = if OPTIMISED { &services[..] } else { &services[..2] };
    let error = (0.05 * 0.95 / f64::from(trials)).sqrt();
    for blocks in [1, 3, 5] {
        for services in services.iter().copied() {
            for (lab, field) in [(0.05, 0.1), (0.01, 0.1), (0.1, 0.02)] {
                let scored = LabAndField { blocks, lab, services, field };
                if blocks == 1 {
                    let (_, width) = scored.covered(1);
                    assert!(width.is_nan(), "one block has an interval: {scored:?}");
                    continue;
                }
                let (share, _) = scored.covered(trials);
                assert!(share >= 0.95 - 4.0 * error, "{scored:?}: {share}");
            }
        }
    }
}
