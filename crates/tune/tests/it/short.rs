//! Short runs first, in labs on paper.

use crate::lab;

use heaptrial_tune::{Block, DropReason, Dropped, Goal, Length, Next, Rules, Search, Standing, effects};
use lab::{Early, Lab, Landscape, block, rules, searched, short_block};

const TELLS_ALL: Early = Early { part: 1.0, sd: 0.0, others: 0.0, by: 0.0, cost: 0.3 };

fn lab(number: u64, noise: f64, early: Early) -> Landscape {
    let mut lab = Landscape::new(number, noise, None);
    // Each candidate for itself: how settings act tells little of it.
    (lab.own, lab.early) = (0.2, Some(early));
    lab
}

fn with_short_runs(arms: usize) -> Rules {
    Rules { short: true, ..rules(arms) }
}

fn shorts(search: &Search) -> usize {
    search.blocks().iter().filter(|block| block.length == Length::Short).count()
}

fn out_by_short_runs(search: &Search) -> Vec<Dropped> {
    let by_short = |one: &&Dropped| matches!(one.reason, DropReason::Short { .. });
    search.dropped().into_iter().filter(by_short).cloned().collect()
}

/// A search that goes on to its first block of short runs, which it takes in.
fn until_short(lab: &Landscape) -> (Search, u64) {
    let mut search = Search::new(lab.space().clone(), with_short_runs(4), None, 2);
    for number in 0..20 {
        match search.next_step() {
            Next::Measure(arms) => {
                let block = block(lab, &search, &arms, number);
                search.take(block);
            }
            Next::Short(arms) => {
                let block = short_block(lab, &search, &arms, number);
                search.take(block);
                return (search, number + 1);
            }
            Next::Exhausted => break,
        }
    }
    panic!("no short runs: {:?}", search.prediction())
}

#[test]
fn the_best_is_hardly_ever_dropped_by_short_runs() {
    // A tenth of the candidates is a half larger early than it will be.
    let late = Early { part: 0.8, sd: 0.03, others: 0.1, by: 0.4, cost: 0.3 };
    for early in [TELLS_ALL, late] {
        let (mut dropped, mut out) = (0, 0);
        for number in 0..40 {
            let lab = lab(number, 0.03, early);
            let (search, _) = searched(&lab, with_short_runs(4), 60, number);
            let standings = search.standings();
            let truth = |one: &Standing| lab.truth(&search.candidates()[one.candidate]);
            let best = standings.iter().min_by(|a, b| truth(a).total_cmp(&truth(b))).unwrap();
            dropped += usize::from(best.dropped.is_some());
            out += out_by_short_runs(&search).len();
        }
        println!("{early:?}: the best dropped in {dropped} of 40, {out} dropped by short runs");
        // Below 5%, by the tails of a binomial.
        assert!(dropped <= 5, "{early:?}: {dropped} of 40");
        assert!(out > 0, "{early:?}");
    }
}

#[test]
fn where_short_runs_mislead_none_are_run() {
    // A third has its memory late: small early, and a half larger than it looked at the end.
    let bloats = Early { part: 0.7, sd: 0.05, others: 0.33, by: -0.5, cost: 0.3 };
    let none = Early { part: 0.0, sd: 0.3, others: 0.0, by: 0.0, cost: 0.3 };
    for early in [bloats, none] {
        for number in 0..10 {
            let (search, _) = searched(&lab(number, 0.03, early), with_short_runs(4), 60, number);
            assert!(shorts(&search) <= 1, "{early:?} {number}: {:?}", search.prediction());
        }
    }
}

#[test]
fn what_costs_as_much_as_a_whole_run_is_not_run_again() {
    for (cost, more) in [(0.2, true), (1.0, false)] {
        let (search, _) = searched(&lab(3, 0.03, Early { cost, ..TELLS_ALL }), with_short_runs(4), 80, 3);
        // What the first one costs is not known before.
        assert_eq!(shorts(&search) > 1, more, "{cost}: {}", shorts(&search));
    }
}

#[test]
fn who_was_in_short_runs_alone_is_in_no_front_and_in_no_effect() {
    let lab = lab(2, 0.02, TELLS_ALL);
    let (search, _) = until_short(&lab);
    assert!(search.acts_on_short_runs());
    let standings = search.standings();
    let alone: Vec<&Standing> = standings.iter().filter(|one| one.blocks == 0).collect();
    assert_eq!(alone.len(), 4);
    assert!(alone.iter().all(|one| one.short_blocks == 1));
    let measured = search.measured();
    for one in &alone {
        assert!(search.front().iter().all(|front| front.candidate != one.candidate));
        assert!(!search.winners().contains(&one.candidate));
        assert!(!measured.contains(&search.candidates()[one.candidate]));
        // What is believed of it is what short runs foretell, by and large.
        let truth = lab.truth(&search.candidates()[one.candidate]);
        assert!((one.believed[0].0 - truth).abs() < 0.25, "{one:?} {truth}");
    }
    let (found, _) = effects(search.space(), &search.model(Goal::Level).unwrap(), &measured);
    assert!(!found.is_empty());
    for effect in &found {
        let whole = measured.iter().filter(|candidate| {
            let mut values = search.space().values(candidate);
            candidate.base == effect.base
                && values.any(|(name, value)| name == effect.setting && value == effect.value)
        });
        assert_eq!(effect.candidates, whole.count(), "{effect:?}");
    }
}

#[test]
fn nothing_is_run_short_that_no_whole_run_can_follow() {
    let lab = lab(2, 0.02, TELLS_ALL);
    let (mut search, _) = until_short(&lab);
    let mut other = search.clone();
    assert!(matches!(search.next_within(1.2), Next::Measure(_)));
    assert!(matches!(other.next_within(2.0), Next::Short(_)), "{:?}", other.next_within(2.0));
}

#[test]
fn whole_runs_after_short_ones_are_of_those_that_were_in_them() {
    let lab = lab(2, 0.02, TELLS_ALL);
    let (mut search, number) = until_short(&lab);
    let seen = search.candidates().len();
    let Next::Measure(arms) = search.next_within(1.0) else { panic!("no whole block") };
    assert!(arms.iter().all(|arm| *arm < seen), "{arms:?}");
    // Who has no figure of a short run is not run short again, and not out.
    let Next::Short(arms) = search.next_step() else { panic!("no short block") };
    search.fail_short(arms[0], "it aborted");
    let block = short_block(&lab, &search, &arms[1..], number);
    search.take(block);
    assert!(search.dropped().iter().all(|dropped| dropped.candidate != arms[0]));
    let standings = search.standings();
    let failed = standings.iter().find(|standing| standing.candidate == arms[0]).unwrap();
    assert_eq!((failed.without_short.as_deref(), failed.blocks), (Some("it aborted"), 0));
    for _ in 0..2 {
        let Next::Short(next) = search.next_step() else { break };
        assert!(!next.contains(&arms[0]));
        let block = short_block(&lab, &search, &next, number + 1);
        search.take(block);
    }
}

#[test]
fn the_same_seed_and_blocks_give_the_same_search_with_short_runs_too() {
    let lab = lab(5, 0.03, TELLS_ALL);
    let (first, winner) = searched(&lab, with_short_runs(4), 60, 5);
    let (second, again) = searched(&lab, with_short_runs(4), 60, 5);
    assert!(shorts(&first) > 0);
    assert_eq!((first.blocks(), &winner), (second.blocks(), &again));
}

#[test]
fn who_does_not_ask_for_short_runs_gets_the_search_that_he_got() {
    let early = lab(5, 0.03, TELLS_ALL);
    let mut plain = lab(5, 0.03, TELLS_ALL);
    plain.early = None;
    let levels = |search: &Search| {
        let of = |block: &Block| block.arms.iter().map(|(arm, of)| (*arm, of.level)).collect::<Vec<_>>();
        search.blocks().iter().map(of).collect::<Vec<_>>()
    };
    let (with, _) = searched(&early, rules(4), 60, 5);
    assert_eq!(levels(&with), levels(&searched(&plain, rules(4), 60, 5).0));
    assert_eq!(shorts(&with), 0);
    assert!(with.prediction().is_some());
}

/// Whole runs that tell that short ones say nothing.
#[test]
fn a_prediction_that_whole_runs_contradict_is_not_used_any_more_and_nobody_is_out_by_it() {
    let mut search = (0..30).find_map(|number| {
        let (search, _) = searched(&lab(number, 0.02, TELLS_ALL), with_short_runs(4), 60, number);
        (!out_by_short_runs(&search).is_empty()).then_some(search)
    });
    let search = search.as_mut().expect("nobody was dropped by short runs");
    let out = out_by_short_runs(search);
    let DropReason::Short { log_ratio, least, .. } = out[0].reason else { panic!("{out:?}") };
    assert!(-0.01 < least && least < log_ratio, "{out:?}");
    // Candidates for which the order turns round.
    let control = search.blocks()[0].control;
    let all = search.space().all(1000).unwrap();
    let fresh: Vec<usize> = all.iter().rev().take(40).map(|candidate| search.position(candidate)).collect();
    for (number, arms) in fresh.chunks(4).enumerate() {
        let arms = arms.iter().enumerate().map(|(at, arm)| {
            let off = (number * 4 + at) as f64 / 20.0;
            let turned = heaptrial_tune::ArmFigures {
                level: control.level + off,
                early: Some(control.level - off),
                ..control
            };
            (*arm, turned)
        });
        let control = heaptrial_tune::ArmFigures { early: Some(control.level), ..control };
        search.take(Block { control, arms: arms.collect(), seconds: 1.0, ..Block::default() });
    }
    assert!(!search.acts_on_short_runs(), "{:?}", search.prediction());
    assert_eq!(out_by_short_runs(search), []);
    assert!(matches!(search.next_step(), Next::Measure(_)));
}
