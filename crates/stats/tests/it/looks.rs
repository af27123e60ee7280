//! Several looks at a trial: spending of error against SciPy (`reference/make_looks_reference.py`), and how often a trial
//! without any effect shows one.

use heaptrial_stats::{Block, fisher_fewer, look_alphas, ratio_to_control, spent, student_p_value};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    spending: Vec<Spending>,
    fisher: Vec<Counts>,
    student: Vec<Student>,
}

#[derive(Deserialize)]
struct Spending {
    alpha: f64,
    fractions: Vec<f64>,
    spent: Vec<f64>,
    alphas: Vec<f64>,
}

#[derive(Deserialize)]
struct Counts {
    a: (usize, usize),
    b: (usize, usize),
    p_value: f64,
}

#[derive(Deserialize)]
struct Student {
    blocks: Vec<(Vec<f64>, Vec<f64>)>,
    p_value: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/looks.json")).unwrap()
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3),
        "found {found}, expected {expected}"
    );
}

#[test]
fn spending_is_that_of_scipys_normal_quantiles() {
    for case in reference().spending {
        let alphas = look_alphas(&case.fractions, case.alpha).unwrap();
        for (fraction, expected) in case.fractions.iter().zip(&case.spent) {
            assert_close(spent(*fraction, case.alpha).unwrap(), *expected);
        }
        assert_eq!(alphas.len(), case.alphas.len());
        for (found, expected) in alphas.iter().zip(&case.alphas) {
            assert_close(*found, *expected);
        }
    }
}

#[test]
fn exact_tests_and_students_t_are_those_of_scipy() {
    let reference = reference();
    for case in reference.fisher {
        assert_close(fisher_fewer(case.a, case.b), case.p_value);
    }
    for case in reference.student {
        let block = |(control, treated): &(Vec<f64>, Vec<f64>)| Block {
            control: control.clone(),
            treated: treated.clone(),
        };
        let blocks: Vec<Block> = case.blocks.iter().map(block).collect();
        assert_close(student_p_value(&blocks).unwrap(), case.p_value);
    }
}

/// Five looks at services whose levels are averages over ever longer times, as those of a trial are. No effect.
#[test]
fn repeated_looks_err_no_more_than_one_and_naive_ones_do() {
    const TRIALS: u32 = if cfg!(debug_assertions) { 1500 } else { 10_000 };
    const SERVICES: usize = 5;
    let fractions = [0.2, 0.4, 0.6, 0.8, 1.0];
    let alphas = look_alphas(&fractions, 0.05).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(20_261_122);
    let (mut planned, mut naive) = (0, 0);
    for trial in 0..TRIALS {
        let mut sums = [0.0; 2 * SERVICES];
        let (mut at_any, mut at_any_naive) = (false, false);
        for (look, alpha) in alphas.iter().enumerate() {
            for sum in &mut sums {
                let step: f64 = StandardNormal.sample(&mut random);
                *sum += step;
            }
            let level = |sum: &f64| (20.0 + 0.1 * sum / (look + 1) as f64).exp();
            let block = Block {
                control: sums[..SERVICES].iter().map(level).collect(),
                treated: sums[SERVICES..].iter().map(level).collect(),
            };
            let differs = |alpha: f64| {
                let ratio =
                    ratio_to_control(std::slice::from_ref(&block), 1.0 - alpha, u64::from(trial)).unwrap();
                let p = ratio.p_value.or_else(|| student_p_value(std::slice::from_ref(&block)));
                p.is_some_and(|p| p <= alpha)
            };
            at_any |= differs(*alpha);
            at_any_naive |= differs(0.05);
        }
        planned += u32::from(at_any);
        naive += u32::from(at_any_naive);
    }
    let share = |count: u32| f64::from(count) / f64::from(TRIALS);
    let error = (0.05 * 0.95 / f64::from(TRIALS)).sqrt();
    println!(
        "false alarms: planned looks {:.4}, naive looks {:.4}, {TRIALS} trials",
        share(planned),
        share(naive)
    );
    assert!(share(planned) <= 0.05 + 2.5 * error, "{planned} of {TRIALS}");
    assert!(share(naive) > 0.08, "{naive} of {TRIALS}");
}
