//! Studentised permutation tests and intervals of shares against SciPy and NumPy
//! (`reference/make_permutation_reference.py`).

use heaptrial_stats::{Block, IntervalMethod, ratio_to_control, share_interval};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    studentised: Vec<TwoArms>,
    blocked: Vec<Blocked>,
    shares: Vec<Share>,
}

#[derive(Deserialize)]
struct TwoArms {
    control: Vec<f64>,
    treated: Vec<f64>,
    p_value: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Blocked {
    blocks: Vec<(Vec<f64>, Vec<f64>)>,
    p_value: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Share {
    count: usize,
    of: usize,
    low: f64,
    high: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/permutation.json")).unwrap()
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-8 * expected.abs().max(1.0), "found {found}, expected {expected}");
}

fn block(control: &[f64], treated: &[f64]) -> Block {
    Block { control: control.to_vec(), treated: treated.to_vec() }
}

fn blocks(of: &[(Vec<f64>, Vec<f64>)]) -> Vec<Block> {
    of.iter().map(|(control, treated)| block(control, treated)).collect()
}

#[track_caller]
fn check(blocks: &[Block], p_value: f64, low: f64, high: f64) {
    let found = ratio_to_control(blocks, 0.95, 1).unwrap();
    assert_eq!(found.method, IntervalMethod::Permutation);
    assert_close(found.p_value.unwrap(), p_value);
    let interval = found.interval.unwrap();
    assert_close(interval.0, low);
    assert_close(interval.1, high);
}

#[test]
fn arms_of_unequal_size_invert_scipys_test_of_welchs_t() {
    for case in reference().studentised {
        check(&[block(&case.control, &case.treated)], case.p_value, case.low, case.high);
    }
}

#[test]
fn blocks_invert_the_studentised_test_over_all_assignments_within_them() {
    for case in reference().blocked {
        check(&blocks(&case.blocks), case.p_value, case.low, case.high);
    }
}

#[test]
fn intervals_of_shares_are_those_of_scipy() {
    for case in reference().shares {
        let (low, high) = share_interval(case.count, case.of, 0.95);
        assert_close(low, case.low);
        assert_close(high, case.high);
    }
}
