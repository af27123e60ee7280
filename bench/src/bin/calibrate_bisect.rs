//! Simulated searches: how often the commit is found, in how many runs, beside plain bisection.
//!
//! `cargo run --release -p heaptrial-bench --bin calibrate_bisect -- 1000`

#[path = "../../../crates/search/tests/bisect/lab/mod.rs"]
mod lab;

use lab::{History, Lab, plain, searched};

fn main() {
    let times: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    println!(
        "| history of 200 | found | wrong, sure | not sure | runs, mean (most) | plain x1 | plain x3 | plain x5 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, lab, difference) in Lab::all() {
        let mut found = 0;
        let mut wrong = 0;
        let mut runs = Vec::new();
        let mut of_plain = [(0u64, 0u64); 3];
        for seed in 0..times {
            let history = History::with_change(200, difference, seed);
            let (answer, spent) = searched(&history, lab, seed);
            let right =
                answer.found && answer.changes.len() == 1 && answer.changes[0].to == history.changes[0].0;
            found += u64::from(right);
            wrong += u64::from(answer.found && !right);
            runs.push(spent);
            for (of, repeats) in of_plain.iter_mut().zip([1, 3, 5]) {
                let (at, spent) = plain(&history, lab, seed, repeats);
                of.0 += u64::from(at == history.changes[0].0);
                of.1 += spent as u64;
            }
        }
        let percent = |count: u64| count as f64 / times as f64 * 100.0;
        let mean = runs.iter().sum::<usize>() as f64 / times as f64;
        let most = runs.iter().max().unwrap_or(&0);
        let others: Vec<String> = of_plain
            .iter()
            .map(|(right, spent)| format!("{:.1}% in {:.0}", percent(*right), *spent as f64 / times as f64))
            .collect();
        println!(
            "| {name} | {:.1}% | {:.1}% | {:.1}% | {mean:.0} ({most}) | {} |",
            percent(found),
            percent(wrong),
            percent(times - found - wrong),
            others.join(" | ")
        );
    }
}
