//! The factorial against statsmodels, SciPy and NumPy (`reference/make_factorial_reference.py`).

use heaptrial_stats::{BlockEffect, TwoByTwo, factorial};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    designs: Vec<Design>,
}

#[derive(Deserialize)]
struct Design {
    blocks: Vec<[f64; 4]>,
    total: Contrast,
    version: Contrast,
    setting: Contrast,
    interaction: Contrast,
    /// p-values of version, setting and interaction.
    anova: [f64; 3],
    share: f64,
    share_interval: Option<(f64, f64)>,
}

#[derive(Deserialize)]
struct Contrast {
    ratio: f64,
    low: f64,
    high: f64,
    p_value: f64,
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-8 * expected.abs().max(1.0), "found {found}, expected {expected}");
}

#[track_caller]
fn assert_is(found: BlockEffect, expected: &Contrast) {
    let (low, high) = found.interval.unwrap();
    assert_close(found.ratio, expected.ratio);
    assert_close(low, expected.low);
    assert_close(high, expected.high);
    assert_close(found.p_value.unwrap(), expected.p_value);
}

#[test]
fn effects_are_those_of_statsmodels_and_scipy() {
    let reference: Reference = serde_json::from_str(include_str!("../reference/factorial.json")).unwrap();
    assert!(reference.designs.iter().any(|design| design.share_interval.is_none()));
    for design in reference.designs {
        let blocks: Vec<TwoByTwo> = design
            .blocks
            .iter()
            .map(|cells| TwoByTwo {
                good: cells[0],
                good_with_bad_setting: cells[1],
                bad_with_good_setting: cells[2],
                bad: cells[3],
            })
            .collect();
        let found = factorial(&blocks, 0.95).unwrap();
        assert_is(found.total, &design.total);
        assert_is(found.version, &design.version);
        assert_is(found.setting, &design.setting);
        assert_is(found.interaction, &design.interaction);
        for (effect, p_value) in [found.version, found.setting, found.interaction].iter().zip(design.anova) {
            assert_close(effect.p_value.unwrap(), p_value);
        }
        let share = found.setting_share.unwrap();
        assert_close(share.estimate, design.share);
        assert_eq!(share.interval.is_some(), design.share_interval.is_some());
        for (found, expected) in share.interval.iter().zip(&design.share_interval) {
            assert_close(found.0, expected.0);
            assert_close(found.1, expected.1);
        }
    }
}
