use super::*;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal, StudentT};

const FLOOR: f64 = 0.095_310_179_804_324_9; // ln 1.1

fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.ln()).collect()
}

fn sizes(found: &Clusters) -> Vec<usize> {
    found.clusters.iter().map(|cluster| cluster.size).collect()
}

/// Last readings in GiB of 20 Tor relays of which some did not run their group's allocator.
const MIXED: [f64; 20] = [
    1.28, 1.30, 1.33, 1.36, 1.29, 1.31, 2.72, 2.75, 2.80, 5.80, 6.1, 6.2, 6.25, 6.3, 6.33, 6.35, 6.38, 6.4,
    6.41, 6.43,
];
/// Last readings in GiB of 20 Tor relays.
const TWO_LEVELS: [f64; 20] = [
    1.18, 1.22, 1.23, 1.26, 1.26, 1.27, 1.27, 1.27, 1.28, 1.28, 1.29, 1.32, 1.32, 1.34, 1.36, 1.39, 1.83,
    1.86, 1.92, 1.97,
];

#[test]
fn real_groups_fall_into_their_levels() {
    for alpha in [0.05, 0.01] {
        let mixed = find_clusters(&logs(&MIXED), alpha, FLOOR, 1).unwrap();
        println!("{:?}", mixed.splits);
        assert_eq!(sizes(&mixed), [6, 3, 11]);
        assert_eq!(mixed.assignment[..10], [0, 0, 0, 0, 0, 0, 1, 1, 1, 2]);
        assert!((mixed.splits[1].below.exp() - 2.80).abs() < 1e-9);
        assert!((mixed.splits[1].above.exp() - 5.80).abs() < 1e-9);
        let two = find_clusters(&logs(&TWO_LEVELS), alpha, FLOOR, 1).unwrap();
        println!("{:?}", two.splits);
        assert_eq!(sizes(&two), [16, 4]);
    }
}

#[test]
fn nearly_identical_values_are_one_cluster() {
    let values = logs(&[1.000, 1.001, 1.002, 1.051, 1.052, 1.053, 1.051, 1.001]);
    assert_eq!(sizes(&find_clusters(&values, 0.05, FLOOR, 1).unwrap()), [8]);
    assert_eq!(sizes(&find_clusters(&values, 0.05, 0.0, 1).unwrap()), [4, 4]);
    assert_eq!(sizes(&find_clusters(&[1.0; 30], 0.05, 0.0, 1).unwrap()), [30]);
}

/// A split into two of three levels at equal distances is no better than that of uniform values.
#[test]
fn three_levels_at_equal_distances_do_not_mask_each_other() {
    let values: Vec<f64> = (0..18).map(|i| f64::from(i / 6) * 0.5 + f64::from(i % 6) * 0.01).collect();
    assert_eq!(sizes(&find_clusters(&values, 0.05, FLOOR, 1).unwrap()), [6, 6, 6]);
}

#[test]
fn few_values_and_single_outliers_do_not_split() {
    assert_eq!(find_clusters(&[], 0.05, FLOOR, 1), None);
    assert_eq!(find_clusters(&[1.0, f64::NAN], 0.05, FLOOR, 1), None);
    assert_eq!(sizes(&find_clusters(&[1.0, 9.0, 9.1], 0.05, FLOOR, 1).unwrap()), [3]);
    let outlier = logs(&[1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 9.0]);
    assert_eq!(sizes(&find_clusters(&outlier, 0.05, FLOOR, 1).unwrap()), [8]);
}

#[test]
fn a_large_group_is_cut_at_its_gap() {
    let normal = Normal::new(0.0, 0.05).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let values: Vec<f64> =
        (0..3_000).map(|i| normal.sample(&mut random) + if i < 1_234 { 0.0 } else { 0.7 }).collect();
    assert_eq!(sizes(&find_clusters(&values, 0.05, FLOOR, 1).unwrap()), [1_234, 1_766]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn clusters_are_ordered_and_complete(values in prop::collection::vec(-3.0f64..3.0, 1..25)) {
        let found = clusters_by(&values, 0.5, 0.0, &mut Nulls::new(1)).unwrap();
        prop_assert_eq!(found.clusters.len(), found.splits.len() + 1);
        prop_assert_eq!(sizes(&found).iter().sum::<usize>(), values.len());
        for (value, cluster) in values.iter().zip(&found.assignment) {
            let cluster = found.clusters[*cluster];
            prop_assert!(cluster.min <= *value && *value <= cluster.max);
        }
        prop_assert!(found.clusters.windows(2).all(|pair| pair[0].max < pair[1].min));
    }
}

const TRIALS: usize = if cfg!(debug_assertions) { 100 } else { 10_000 };

/// Share of samples in which more than one cluster is found; any gap counts.
fn alarms(n: usize, alpha: f64, nulls: &mut Nulls, draw: impl Fn(&mut ChaCha8Rng) -> f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let alarm = |_: &usize| {
        let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
        clusters_by(&values, alpha, 0.0, nulls).unwrap().clusters.len() > 1
    };
    (0..TRIALS).filter(alarm).count() as f64 / TRIALS as f64
}

/// With 10,000 samples the Monte Carlo error of 5% is 0.2 points; the bounds leave room for the 100 of a
/// build for debugging (2.2 points).
#[test]
fn groups_of_one_level_rarely_fall_apart() {
    let mut nulls = Nulls::new(1);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let (t5, t3) = (StudentT::new(5.0).unwrap(), StudentT::new(3.0).unwrap());
    for n in [5, 10, 20, 80] {
        for alpha in [0.05, 0.01] {
            let uniform = alarms(n, alpha, &mut nulls, rand::Rng::random);
            let normal_rate = alarms(n, alpha, &mut nulls, |random| normal.sample(random));
            let t5 = alarms(n, alpha, &mut nulls, |random| t5.sample(random));
            let t3 = alarms(n, alpha, &mut nulls, |random| t3.sample(random));
            // Skewness 1.75.
            let skewed = alarms(n, alpha, &mut nulls, |random| (0.5 * normal.sample(random)).exp());
            println!(
                "n {n}, alpha {alpha}: uniform {uniform}, normal {normal_rate}, t5 {t5}, t3 {t3}, skewed {skewed}"
            );
            let room = 4.0 * (alpha / TRIALS as f64).sqrt();
            for rate in [uniform, normal_rate, t5] {
                assert!(rate <= alpha * 1.15 + room, "n {n}, alpha {alpha}: {rate}");
            }
            // Tails heavier than the null's.
            assert!(t3.max(skewed) <= 2.0 * alpha + room, "n {n}, alpha {alpha}: {t3} {skewed}");
        }
    }
}

/// Two levels apart by some SDs within a level, the upper one with a third of the services.
#[test]
fn separate_levels_are_found() {
    let mut nulls = Nulls::new(1);
    let normal = Normal::new(0.0, 1.0).unwrap();
    for (n, distance, least) in [
        (6, 10.0, 0.2),
        (10, 6.0, 0.3),
        (10, 10.0, 0.9),
        (20, 6.0, 0.6),
        (20, 8.0, 0.9),
        (80, 5.0, 0.5),
        (80, 6.0, 0.9),
    ] {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let trials = TRIALS / 2;
        let found = (0..trials).filter(|_| {
            let values: Vec<f64> =
                (0..n).map(|i| normal.sample(&mut random) + if i < n / 3 { distance } else { 0.0 }).collect();
            clusters_by(&values, 0.05, 0.0, &mut nulls).unwrap().clusters.len() > 1
        });
        let share = found.count() as f64 / trials as f64;
        println!("n {n}, {distance} SD apart: found {share}");
        assert!(share >= least, "n {n}, {distance} SD: {share}");
    }
}
