//! Differences of candidates within blocks.

use heaptrial_search::tune::Comparison;

#[test]
fn whole_blocks_give_the_means_of_differences() {
    let blocks = vec![
        (1.0, vec![(0, 1.5), (1, 0.9)]),
        (3.0, vec![(0, 3.7), (1, 3.1)]),
        (2.0, vec![(0, 2.6), (1, 2.0)]),
    ];
    let found = Comparison::of(2, &blocks).unwrap();
    assert!((found.to_control(0) - 0.6).abs() < 1e-12 && found.to_control(1).abs() < 1e-12);
    // What is left of two blocks is 1/15, -1/30, -1/30, of the third nothing.
    let (noise, freedom) = found.noise().unwrap();
    assert_eq!(freedom, 4);
    assert!((noise * noise - 2.0 / 150.0 / 4.0).abs() < 1e-12, "{}", noise * noise);
    let (difference, error) = found.difference(0, Some(1));
    assert!((difference - 0.6).abs() < 1e-12);
    assert!((error.unwrap() - (noise * noise * 2.0 / 3.0).sqrt()).abs() < 1e-12);
}

#[test]
fn runs_that_agree_have_no_noise_but_that_of_their_readings() {
    let blocks: Vec<_> =
        (1..5).map(|at| (f64::from(at) / 7.0, vec![(0, f64::from(at) / 7.0 + 0.1)])).collect();
    let found = Comparison::of(1, &blocks).unwrap();
    assert_eq!(found.clone().at_least(0.0).noise(), None);
    let (noise, freedom) = found.at_least(0.01).noise().unwrap();
    assert!((noise - 0.01).abs() < 1e-12 && freedom == 3);
}
