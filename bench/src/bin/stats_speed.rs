//! Times of what is costly: facts about a machine, best of five.
//!
//! `cargo run --release -p heaptrial-bench --bin stats_speed`

use std::hint::black_box;
use std::time::Instant;

use heaptrial_stats::{
    Block, SimulatedTrials, aa_check, median_interval, power_of_ratio, ratio_to_control, services_needed,
    theil_sen_slope,
};

fn main() {
    ratios_of_large_arms();
    slopes_of_200_points();
    power_of_a_grid();
    checks_of_groups();
}

/// Services of one size each, spread over about 30%.
fn services(count: usize) -> Vec<f64> {
    (0..count).map(|i| 1e9 * (1.0 + 0.3 * ((i * 7919 % 1009) as f64 / 1009.0))).collect()
}

fn fastest(what: &str, mut work: impl FnMut()) {
    let time = |()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    if let Some(best) = [(); 5].map(time).into_iter().min() {
        println!("{what}: {best:?}");
    }
}

fn ratios_of_large_arms() {
    for (control, treated) in [(2_000, 2_000), (80, 20), (20, 20)] {
        let block = [Block { control: services(control), treated: services(treated) }];
        fastest(&format!("ratio_to_control {control}+{treated}"), || {
            black_box(ratio_to_control(black_box(&block), 0.95, 1));
        });
    }
}

fn slopes_of_200_points() {
    let points: Vec<(f64, f64)> = services(200).into_iter().enumerate().map(|(i, y)| (i as f64, y)).collect();
    fastest("theil_sen_slope 200", || {
        black_box(theil_sen_slope(black_box(&points)));
    });
}

fn power_of_a_grid() {
    let levels = services(40);
    fastest("power, 8 sizes x 6 durations x 1,000 simulations", || {
        for services in [4, 5, 6, 8, 10, 15, 20, 40] {
            for duration in 0..6 {
                let rounds = if services < 8 { services } else { 1 };
                let trials = SimulatedTrials { ratio: 1.1, alpha: 0.05, simulations: 1_000, seed: duration };
                black_box(power_of_ratio(black_box(&levels), services, rounds, &trials));
            }
        }
    });
    fastest("services_needed up to 500, 1,000 simulations", || {
        let trials = SimulatedTrials { ratio: 1.05, alpha: 0.05, simulations: 1_000, seed: 1 };
        black_box(services_needed(black_box(&levels), |_| 1, &trials, 0.8, 500));
    });
}

fn checks_of_groups() {
    for count in [20, 2_000] {
        let values = services(count);
        fastest(&format!("aa_check {count}, 1,000 halvings"), || {
            black_box(aa_check(black_box(&values), 1_000, 1));
        });
    }
    let values = services(10_000);
    fastest("median_interval 10,000", || {
        black_box(median_interval(black_box(&values), 0.95));
    });
}
