//! The methods beside the ratio against SciPy, statsmodels and NumPy (`reference/make_methods_reference.py`).

use heaptrial_stats::{days_needed, holm, kendall, median_interval, time_average, trajectory_distance};
use serde::Deserialize;

type Points = Vec<(f64, f64)>;

#[derive(Deserialize)]
struct Reference {
    holm: Vec<PValues>,
    medians: Vec<Median>,
    time_averages: Vec<Average>,
    distances: Vec<Distance>,
    days: Vec<Days>,
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

#[derive(Deserialize)]
struct Orders {
    cases: Vec<Order>,
}

#[derive(Deserialize)]
struct Order {
    a: Vec<f64>,
    b: Vec<f64>,
    tau_b: Option<f64>,
}

#[test]
fn tau_b_is_that_of_scipy() {
    let reference: Orders = serde_json::from_str(include_str!("../reference/kendall.json")).unwrap();
    for case in reference.cases {
        let found = kendall(&case.a, &case.b).unwrap().tau_b;
        assert_eq!(found.is_some(), case.tau_b.is_some());
        assert_close(found.unwrap_or_default(), case.tau_b.unwrap_or_default());
    }
}
