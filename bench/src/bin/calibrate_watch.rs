//! Months of services of which the truth is known: which events a watch finds, on which day, and how often a quiet
//! month is loud. Prints the Markdown tables of `docs/calibration.md`.
//!
//! `calibrate_watch [MONTHS] [SEED] [quiet|found]`: quiet months of each cell (100), half as many with an event; seed (1);
//! one of the tables alone.

#[path = "../../../crates/fleet/tests/watch/simulation/mod.rs"]
mod simulation;

use std::collections::BTreeMap;

use heaptrial_fleet::watch::{AlertChange, AlertKind};
use heaptrial_stats::quantile;
use rayon::prelude::*;
use simulation::{Event, Month, Noise, Reported, first};

const SIZES: [usize; 4] = [5, 10, 20, 40];
/// When something goes wrong: between the looks of days 7 and 10.
const SINCE: f64 = 8.0;

fn main() {
    let mut given = std::env::args().skip(1);
    let mut number = |otherwise: u64| given.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (months, seed) = (number(100), number(1));
    println!("{months} quiet months per cell and half as many with an event, seed {seed}.\n");
    let only = std::env::args().nth(3);
    if only.as_deref().is_none_or(|only| only == "quiet") {
        quiet(months, seed);
    }
    if only.as_deref().is_none_or(|only| only == "found") {
        found(months.div_ceil(2), seed);
    }
}

/// Quiet months in which anything was alerted, and in brackets those in which a gap left a look without data.
fn quiet(months: u64, seed: u64) {
    let usual = Noise::default();
    let noises = [
        ("as above", usual),
        ("twice the daily load (6%)", Noise { daily: 0.06, ..usual }),
        ("twice the common load (2%)", Noise { load: 0.02, ..usual }),
        ("wandering 4%, 0.98 over an hour", Noise { wander: 0.04, correlation: 0.98, ..usual }),
        ("a restart each 5 days", Noise { restarts: 0.2, ..usual }),
        ("no gaps, no restarts, no load", Noise { daily: 0.0, load: 0.0, restarts: 0.0, gaps: 0.0, ..usual }),
    ];
    println!("| noise | {} |", SIZES.map(|size| format!("{size} services")).join(" | "));
    println!("|---|{}", "---|".repeat(SIZES.len()));
    let mut by_kind: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, noise) in noises {
        let cells = SIZES.map(|size| {
            let reported: Vec<_> = (0..months)
                .into_par_iter()
                .map(|month| {
                    let restarted = month % 2 == 0;
                    Month { noise, restarted, ..Month::quiet(size) }.live(seed * 1_000_000 + month)
                })
                .filter(|reported| !reported.is_empty())
                .collect();
            let raised = |of: &Reported| -> Vec<AlertKind> {
                of.iter().filter(|alert| alert.1 == AlertChange::Raised).map(|alert| alert.2).collect()
            };
            let kinds: Vec<Vec<AlertKind>> = reported.iter().map(raised).collect();
            for kind in kinds.iter().flatten() {
                *by_kind.entry(kind.as_str()).or_default() += 1;
            }
            let gaps =
                kinds.iter().filter(|kinds| kinds.iter().all(|kind| *kind == AlertKind::NoData)).count();
            format!("{} ({gaps})", kinds.len() - gaps)
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!("\nAlerts in them by kind: {by_kind:?}\n");
}

/// Days from the event to its alert.
fn found(months: u64, seed: u64) {
    println!("| event on day {SINCE} | {} |", SIZES.map(|size| format!("{size} services")).join(" | "));
    println!("|---|{}", "---|".repeat(SIZES.len()));
    for (name, event) in [
        ("level 1.1 times", Event::Level(1.1)),
        ("level 1.2 times", Event::Level(1.2)),
        ("level 1.5 times", Event::Level(1.5)),
        ("one service 1.5 times", Event::OneLevel(1.5)),
        ("one service 3 times", Event::OneLevel(3.0)),
        ("growth 2% a day", Event::Growth(0.02)),
        ("growth 5% a day", Event::Growth(0.05)),
        ("growth 3% a day to a MemoryMax of 2 times", Event::Full(0.03, 2.0)),
        ("a process runs another build", Event::Library),
        ("another file on disk", Event::File),
        ("drop-in gone", Event::DropIn),
        ("a new instance", Event::NewService),
        ("a crash a day of each", Event::Crashes(1.0)),
        ("one service killed 6 times a day", Event::OneIsKilled(6.0)),
        ("no readings of one", Event::OneSilent),
        ("no readings", Event::NoData),
    ] {
        let cells = SIZES.map(|size| cell(size, event, months, seed));
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// Days on which it was found (median, latest), and in how many of the months.
fn cell(size: usize, event: Event, months: u64, seed: u64) -> String {
    let days: Vec<f64> = (0..months)
        .into_par_iter()
        .filter_map(|month| {
            let restarted = month % 2 == 0;
            let reported =
                Month { restarted, ..Month::quiet(size) }.with(event, SINCE).live(seed * 1_000_000 + month);
            first(&reported, event.kind()).filter(|day| *day >= SINCE)
        })
        .collect();
    match (quantile(&days, 0.5), quantile(&days, 1.0)) {
        (Some(median), Some(latest)) if days.len() as u64 == months => format!("{median:.1} ({latest:.1})"),
        (Some(median), Some(latest)) => format!("{median:.1} ({latest:.1}), {} of {months}", days.len()),
        _ => format!("0 of {months}"),
    }
}
