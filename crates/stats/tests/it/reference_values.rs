//! Every estimator against the values that SciPy and NumPy give (`reference/make_reference.py`).

use heaptrial_stats::{Block, IntervalMethod, geometric_mean, quantile, ratio_to_control, theil_sen_slope};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    quantiles: Vec<Values<Vec<(f64, f64)>>>,
    geometric_means: Vec<Values<f64>>,
    theil_sen: Vec<Line>,
    welch: Vec<TwoArms>,
    paired: Vec<TwoArms>,
    permutation: Vec<TwoArms>,
    paired_permutation: Vec<TwoArms>,
}

#[derive(Deserialize)]
struct Values<T> {
    values: Vec<f64>,
    expected: T,
}

#[derive(Deserialize)]
struct Line {
    points: Vec<(f64, f64)>,
    slope: f64,
}

#[derive(Deserialize)]
struct TwoArms {
    control: Vec<f64>,
    treated: Vec<f64>,
    p_value: Option<f64>,
    low: f64,
    high: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/reference.json")).unwrap()
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    let scale = expected.abs().max(1.0);
    assert!((found - expected).abs() <= 1e-9 * scale, "found {found}, expected {expected}");
}

#[test]
fn quantiles_are_those_of_numpy() {
    for case in reference().quantiles {
        for (q, expected) in case.expected {
            assert_close(quantile(&case.values, q).unwrap(), expected);
        }
    }
}

#[test]
fn geometric_means_are_those_of_scipy() {
    for case in reference().geometric_means {
        assert_close(geometric_mean(&case.values).unwrap(), case.expected);
    }
}

#[test]
fn theil_sen_slopes_are_those_of_scipy() {
    for case in reference().theil_sen {
        assert_close(theil_sen_slope(&case.points).unwrap(), case.slope);
    }
}

fn check(blocks: &[Block], case: &TwoArms, method: IntervalMethod) {
    let ratio = ratio_to_control(blocks, 0.95, 1).unwrap();
    assert_eq!(ratio.method, method);
    let (low, high) = ratio.interval.unwrap();
    assert_close(low, case.low);
    assert_close(high, case.high);
    if let Some(p_value) = case.p_value {
        assert_close(ratio.p_value.unwrap(), p_value);
    }
}

#[test]
fn intervals_of_two_small_arms_are_welchs() {
    for case in reference().welch {
        let block = Block { control: case.control.clone(), treated: case.treated.clone() };
        check(&[block], &case, IntervalMethod::StudentT);
    }
}

#[test]
fn intervals_of_few_blocks_are_those_of_the_paired_t_test() {
    for case in reference().paired {
        check(&pairs(&case), &case, IntervalMethod::StudentT);
    }
}

fn pairs(case: &TwoArms) -> Vec<Block> {
    let pair = |(c, t): (&f64, &f64)| Block { control: vec![*c], treated: vec![*t] };
    case.control.iter().zip(&case.treated).map(pair).collect()
}

#[test]
fn permutation_intervals_of_blocks_invert_scipys_exact_test_of_signs() {
    for case in reference().paired_permutation {
        check(&pairs(&case), &case, IntervalMethod::Permutation);
    }
}

/// The reference inverts SciPy's exact test by bisection; here the ends are found directly.
#[test]
fn permutation_intervals_invert_scipys_exact_test() {
    for case in reference().permutation {
        let block = Block { control: case.control.clone(), treated: case.treated.clone() };
        check(&[block], &case, IntervalMethod::Permutation);
    }
}
