//! Kendall's tau-b against SciPy's (`reference/make_kendall_reference.py`).

use heaptrial_stats::kendall;
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    a: Vec<f64>,
    b: Vec<f64>,
    tau_b: Option<f64>,
}

#[test]
fn tau_b_is_that_of_scipy() {
    let reference: Reference = serde_json::from_str(include_str!("../reference/kendall.json")).unwrap();
    assert!(reference.cases.len() > 20);
    for case in &reference.cases {
        let found = kendall(&case.a, &case.b).unwrap().tau_b;
        match (found, case.tau_b) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-12, "{found} {expected}"),
            (found, expected) => assert_eq!(found, expected),
        }
    }
}
