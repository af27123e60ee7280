//! How good the winners of simulated searches are: `cargo run --release -p heaptrial-tune --example simulate -- 200`.

#[path = "../tests/it/lab/mod.rs"]
mod lab;

use heaptrial_tune::{Candidate, DropReason, Dropped, Goal, Length, Rules, Search, Standing};
use lab::{Alike, Early, Lab, Landscape, Relays, drawn, regret, rules, searched};

fn main() {
    let searches: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100);
    short_runs_first(searches);
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

/// How often a winner is named in any of the rounds, where all candidates are as good as the control.
fn named_where_nothing_is_better(searches: u64) {
    println!("noise  mode  goals  winners  named in 1 round  in 2  in 4");
    for (noise, mode) in [(0.01, None), (0.05, None), (0.05, Some(0.05)), (0.2, Some(0.1))] {
        for (goals, winners) in [(vec![Goal::Level], 2), (vec![Goal::Level, Goal::Growth], 4)] {
            let (lab, rules) = (Alike::new(noise, mode), Rules { goals, winners, ..rules(3) });
            let rounds: Vec<usize> = (0..searches).filter_map(|seed| lab.named(&rules, 4, seed)).collect();
            let within = |most: usize| {
                100.0 * rounds.iter().filter(|round| **round <= most).count() as f64 / searches as f64
            };
            println!(
                "{noise:5} {:5} {:6} {winners:8} {:16.1}% {:4.1}% {:4.1}%",
                mode.unwrap_or(0.0),
                rules.goals.len(),
                within(1),
                within(2),
                within(4)
            );
        }
    }
}

/// Whether the best of those with any figure is out.
fn is_best_dropped(search: &Search, lab: &dyn Lab) -> bool {
    let standings = search.standings();
    let truth = |one: &Standing| lab.truth(&search.candidates()[one.candidate]);
    let best = standings.iter().min_by(|a, b| truth(a).total_cmp(&truth(b)));
    best.is_some_and(|best| best.dropped.is_some())
}

/// What short runs bring at an equal budget.
fn short_runs_first(searches: u64) {
    println!(
        "short runs, noise and runs  short blocks  within 5% with  without  mean regret with  without  out by them  best dropped"
    );
    let early = |part: f64, sd: f64, others: f64, by: f64| Early { part, sd, others, by, cost: 0.3 };
    let kinds = [
        ("tell all", 0.03, early(1.0, 0.0, 0.0, 0.0)),
        ("tell all", 0.2, early(1.0, 0.0, 0.0, 0.0)),
        ("tell much", 0.03, early(0.7, 0.05, 0.0, 0.0)),
        ("tell much", 0.2, early(0.7, 0.05, 0.0, 0.0)),
        ("tell something", 0.03, early(0.7, 0.15, 0.0, 0.0)),
        ("tell something", 0.2, early(0.7, 0.15, 0.0, 0.0)),
        ("tell little", 0.03, early(0.5, 0.3, 0.0, 0.0)),
        ("a third bloats late", 0.03, early(0.7, 0.05, 0.33, -0.5)),
        ("a tenth gives back late", 0.03, early(0.7, 0.05, 0.1, 0.5)),
        ("a tenth gives back late", 0.2, early(0.7, 0.05, 0.1, 0.5)),
    ];
    for userland in ["bookworm", "trixie"] {
        for runs in [20, 30, 40] {
            let name = format!("relays, {userland}, 3%, {runs} runs");
            compared(&name, searches, 9, runs, |_| Relays::of(userland, 0.03));
        }
    }
    for (name, own, early) in kinds {
        for noise in [0.03, 0.1] {
            for runs in [40, 80] {
                let told = format!("{name}, own {own}, {:.0}%, {runs} runs", 100.0 * noise);
                compared(&told, searches, 6, runs, |number| {
                    let mut lab = Landscape::new(number, noise, None);
                    (lab.own, lab.early) = (own, Some(early));
                    lab
                });
            }
        }
    }
}

/// Searches with short runs beside searches without.
fn compared<L: Lab>(name: &str, searches: u64, arms: usize, runs: usize, of: impl Fn(u64) -> L) {
    let (mut with, mut without, mut blocks, mut out, mut dropped) = ((0, 0.0), (0, 0.0), 0, 0, 0);
    for number in 0..searches {
        let lab = of(number);
        let tally = |sums: &mut (i32, f64), winner: Option<Candidate>| {
            let regret = winner.map_or(1.0, |winner| regret(&lab, &winner));
            *sums = (sums.0 + i32::from(regret <= 1.05_f64.ln()), sums.1 + regret);
        };
        let (search, winner) = searched(&lab, Rules { short: true, ..rules(arms) }, runs, number);
        tally(&mut with, winner);
        tally(&mut without, searched(&lab, rules(arms), runs, number).1);
        blocks += search.blocks().iter().filter(|block| block.length == Length::Short).count();
        let by_short = |one: &&&Dropped| matches!(one.reason, DropReason::Short { .. });
        out += search.dropped().iter().filter(by_short).count();
        dropped += i32::from(is_best_dropped(&search, &lab));
    }
    let of = |sum: f64| sum / searches as f64;
    let share = |count: i32| 100.0 * of(f64::from(count));
    let mean = |sum: f64| 100.0 * of(sum).exp_m1();
    println!(
        "{name:46} {:6.1} {:8.1}% {:7.1}% {:8.1}% {:7.1}% {:6.1} {:6.1}%",
        of(blocks as f64),
        share(with.0),
        share(without.0),
        mean(with.1),
        mean(without.1),
        of(out as f64),
        share(dropped)
    );
}
