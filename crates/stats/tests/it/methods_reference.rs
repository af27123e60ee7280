//! The methods beside the ratio against SciPy, statsmodels and NumPy (`reference/make_methods_reference.py`).

use heaptrial_stats::{
    arm_shape, days_needed, find_clusters, growth_shape, holm, median_interval, time_average,
    trajectory_distance,
};
use serde::Deserialize;

type Points = Vec<(f64, f64)>;

#[derive(Deserialize)]
struct Reference {
    holm: Vec<PValues>,
    medians: Vec<Median>,
    shapes: Vec<Curve>,
    sign_tests: Vec<SignTest>,
    curve: Points,
    line: Points,
    time_averages: Vec<Average>,
    distances: Vec<Distance>,
    days: Vec<Days>,
    splits: Vec<Split>,
}

#[derive(Deserialize)]
struct PValues {
    p_values: Vec<f64>,
    expected: Vec<f64>,
}

#[derive(Deserialize)]
struct Median {
    values: Vec<f64>,
    level: f64,
    median: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Curve {
    points: Points,
    slope: f64,
    linear_aicc: f64,
    tau: f64,
    rise: f64,
    asymptote: f64,
    saturating_aicc: f64,
}

#[derive(Deserialize)]
struct SignTest {
    saturating: usize,
    straight: usize,
    p_value: f64,
}

#[derive(Deserialize)]
struct Average {
    points: Points,
    gap: f64,
    expected: f64,
}

#[derive(Deserialize)]
struct Distance {
    first: Points,
    second: Points,
    gap: f64,
    expected: f64,
}

#[derive(Deserialize)]
struct Days {
    widths: Points,
    estimate: f64,
    margin: f64,
    expected: f64,
}

#[derive(Deserialize)]
struct Split {
    values: Vec<f64>,
    below: f64,
    above: f64,
    assignment: Vec<usize>,
    means: [f64; 2],
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/methods.json")).unwrap()
}

#[track_caller]
fn assert_within(found: f64, expected: f64, share: f64) {
    let scale = expected.abs().max(1.0);
    assert!((found - expected).abs() <= share * scale, "found {found}, expected {expected}");
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert_within(found, expected, 1e-9);
}

#[test]
fn adjusted_p_values_are_those_of_statsmodels() {
    for case in reference().holm {
        let p_values: Vec<Option<f64>> = case.p_values.into_iter().map(Some).collect();
        for (found, expected) in holm(&p_values).into_iter().zip(case.expected) {
            assert_close(found.unwrap(), expected);
        }
    }
}

#[test]
fn median_intervals_are_those_of_scipy() {
    for case in reference().medians {
        let found = median_interval(&case.values, case.level).unwrap();
        let (low, high) = found.interval.unwrap();
        assert_close(found.median, case.median);
        assert_close(low, case.low);
        assert_close(high, case.high);
    }
}

/// What depends on tau to 1e-6: a minimum is only as sharp as the square root of the precision.
#[test]
fn lines_and_curves_are_those_of_scipy() {
    for case in reference().shapes {
        let found = growth_shape(&case.points).unwrap();
        assert_close(found.slope, case.slope);
        assert_close(found.linear_aicc, case.linear_aicc);
        assert_within(found.tau, case.tau, 1e-6);
        assert_within(found.rise, case.rise, 1e-6);
        assert_within(found.asymptote, case.asymptote, 1e-6);
        assert_within(found.saturating_aicc, case.saturating_aicc, 1e-6);
    }
}

#[test]
fn sign_tests_are_scipys_exact_binomial_test() {
    let reference = reference();
    let (curve, line) = (growth_shape(&reference.curve).unwrap(), growth_shape(&reference.line).unwrap());
    for case in reference.sign_tests {
        let services = [vec![curve; case.saturating], vec![line; case.straight]].concat();
        let arm = arm_shape(&services, 0.05);
        assert_eq!(arm.saturating, case.saturating);
        assert_close(arm.p_value, case.p_value);
    }
}

#[test]
fn averages_over_time_are_numpys_trapezoids() {
    for case in reference().time_averages {
        assert_close(time_average(&case.points, case.gap).unwrap(), case.expected);
    }
}

#[test]
fn distances_of_trajectories_are_those_of_numpys_interpolation() {
    for case in reference().distances {
        assert_close(trajectory_distance(&case.first, &case.second, case.gap).unwrap(), case.expected);
    }
}

#[test]
fn days_needed_follow_numpys_fit() {
    for case in reference().days {
        assert_close(days_needed(&case.widths, case.estimate, case.margin).unwrap(), case.expected);
    }
}

#[test]
fn clusters_are_cut_where_trying_all_splits_with_numpy_cuts_them() {
    for case in reference().splits {
        let found = find_clusters(&case.values, 0.05, 0.1, 1).unwrap();
        assert_eq!(found.assignment, case.assignment);
        assert_eq!((found.splits[0].below, found.splits[0].above), (case.below, case.above));
        for (cluster, mean) in found.clusters.iter().zip(case.means) {
            assert_close(cluster.mean, mean);
        }
    }
}
