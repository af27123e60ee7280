//! How good the winners of simulated searches are: `cargo run --release -p heaptrial-bench --bin calibrate_tune -- 200`.

#[path = "../../../crates/search/tests/tune/lab/mod.rs"]
mod lab;

use heaptrial_search::tune::{Rules, Search, Standing};
use lab::{Alike, Lab, Landscape, drawn, regret, rules, searched};

fn main() {
    let searches: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100);
    named_where_nothing_is_better(searches);
    println!("noise  mode  arms  runs  within 5%  mean regret  random within 5%  mean regret  best dropped");
    for (noise, mode) in
        [(0.01, None), (0.03, None), (0.05, None), (0.05, Some(0.05)), (0.1, None), (0.2, Some(0.1))]
    {
        for arms in [3, 4, 6] {
            for runs in [20, 40, 80] {
                let mut found = (0, 0.0, 0, 0.0, 0);
                for number in 0..searches {
                    let lab = Landscape::new(number, noise, mode);
                    let (search, winner) = searched(&lab, rules(arms), runs, number);
                    let of_search = winner.map_or(1.0, |winner| regret(&lab, &winner));
                    let of_random = regret(&lab, &drawn(&lab, arms, runs, number));
                    let within = |regret: f64| i32::from(regret <= 1.05_f64.ln());
                    let dropped = is_best_dropped(&search, &lab);
                    found = (
                        found.0 + within(of_search),
                        found.1 + of_search,
                        found.2 + within(of_random),
                        found.3 + of_random,
                        found.4 + i32::from(dropped),
                    );
                }
                let share = |count: i32| 100.0 * f64::from(count) / searches as f64;
                let mean = |sum: f64| 100.0 * ((sum / searches as f64).exp() - 1.0);
                println!(
                    "{noise:5} {:5} {arms:5} {runs:5} {:9.1}% {:11.1}% {:16.1}% {:11.1}% {:11.1}%",
                    mode.map_or(0.0, |mode| mode),
                    share(found.0),
                    mean(found.1),
                    share(found.2),
                    mean(found.3),
                    share(found.4)
                );
            }
        }
    }
}

/// How often a winner is named where all candidates are as good as the control.
fn named_where_nothing_is_better(searches: u64) {
    println!("noise  mode  winner named");
    for (noise, mode) in [(0.01, None), (0.05, None), (0.05, Some(0.05)), (0.2, Some(0.1))] {
        let (lab, rules) = (Alike::new(noise, mode), Rules { winners: 2, ..rules(3) });
        let named = (0..searches).filter(|seed| lab.is_named(&rules, *seed)).count();
        let share = 100.0 * named as f64 / searches as f64;
        println!("{noise:5} {:5} {share:12.1}%", mode.unwrap_or(0.0));
    }
}

/// Whether the best of those with any figure is out.
fn is_best_dropped(search: &Search, lab: &dyn Lab) -> bool {
    let standings = search.standings();
    let truth = |one: &Standing| lab.truth(&search.candidates()[one.candidate]);
    let best = standings.iter().min_by(|a, b| truth(a).total_cmp(&truth(b)));
    best.is_some_and(|best| best.dropped.is_some())
}
