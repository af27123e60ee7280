//! Whole searches in simulated histories, with noise as in the lab.

mod lab;

use heaptrial_search::bisect::{Answer, Rules, Search};
use lab::{History, Lab, searched};

const HALF_AGAIN: f64 = 0.405;

#[test]
fn a_commit_among_200_is_found_in_95_of_100_searches_of_less_than_92_runs() {
    let mut found = 0;
    for seed in 0..100 {
        let history = History::with_change(200, HALF_AGAIN, seed);
        let (answer, runs) = searched(&history, Lab::USUAL, seed);
        assert!(runs < 92, "seed {seed}: {runs} runs");
        found += u32::from(
            answer.found && answer.changes.len() == 1 && answer.changes[0].to == history.changes[0].0,
        );
    }
    assert!(found >= 95, "found {found}");
}

#[test]
fn two_changes_are_both_found() {
    let mut both = 0;
    for seed in 0..20 {
        let history = History { last: 200, changes: vec![(40, 0.5), (150, 0.4)], untestable: Vec::new() };
        let (answer, _) = searched(&history, Lab::USUAL, seed);
        let mut at: Vec<usize> = answer.changes.iter().map(|change| change.to).collect();
        at.sort_unstable();
        both += u32::from(answer.found && at == [40, 150]);
    }
    assert!(both >= 18, "{both} of 20");
}

#[test]
fn commits_that_cannot_be_measured_widen_the_answer() {
    for seed in 0..10 {
        let history = History { last: 120, changes: vec![(61, HALF_AGAIN)], untestable: (55..64).collect() };
        let (answer, _) = searched(&history, Lab::USUAL, seed);
        let change = answer.changes.first().copied().unwrap();
        assert!(answer.found && change.narrowest, "{answer:?}");
        assert_eq!((change.after, change.to), (54, 64), "{answer:?}");
    }
}

#[test]
fn ends_that_do_not_differ_are_told_with_figures() {
    let mut alike = 0;
    for seed in 0..100 {
        let history = History { last: 200, changes: Vec::new(), untestable: Vec::new() };
        let (answer, _) = searched(&history, Lab { commit: 0.005, ..Lab::USUAL }, seed);
        alike += u32::from(!answer.found && answer.changes.is_empty());
        assert!(answer.ends.interval[0] <= answer.ends.log_ratio, "{answer:?}");
    }
    assert!(alike >= 90, "{alike} of 100");
}

#[test]
fn a_stretch_that_cannot_be_measured_is_left_and_not_walked_through() {
    let untestable: Vec<usize> = (88..=116).collect();
    for change in [30, 150] {
        let history =
            History { last: 200, changes: vec![(change, HALF_AGAIN)], untestable: untestable.clone() };
        let mut search = Search::new(history.last, [], Rules::for_history(history.last));
        let (mut tried, mut blocks) = (0, 0);
        let answer = loop {
            match search.next() {
                None => break search.answer(),
                Some(position) if history.untestable.contains(&position) => {
                    tried += 1;
                    search.skip(position);
                }
                Some(position) => {
                    search.take(position, Lab::USUAL.block(&history, position, 5, blocks));
                    blocks += 1;
                }
            }
        };
        assert!(answer.found && answer.changes.first().unwrap().to == change, "{answer:?}");
        assert!(tried <= 4, "{tried} of {} tried", untestable.len());
    }
}

#[test]
fn releases_are_asked_first() {
    let mut search = Search::new(100, [0, 30, 60, 80, 100], Rules::for_history(100));
    let mut asked = Vec::new();
    while let Some(position) = search.next() {
        asked.push(position);
        search.take(position, if position >= 71 { 0.5 } else { 0.0 });
    }
    let others = asked.iter().position(|at| ![30, 60, 80, 100].contains(at)).unwrap();
    let releases: std::collections::BTreeSet<_> = asked[..others].iter().copied().collect();
    assert!(releases.contains(&60) && releases.contains(&80), "{asked:?}");
}

/// A search over builds of which some are the same, as the command carries it out: a position whose build is that of one that is
/// known is told to be the same, and not measured.
fn over_builds(builds: &[u32], level: impl Fn(u32) -> f64) -> (Answer, Vec<usize>) {
    let mut search = Search::new(builds.len() - 1, [], Rules::for_history(builds.len() - 1));
    let mut measured = vec![0];
    let mut asked = Vec::new();
    for _ in 0..500 {
        let Some(position) = search.next() else { return (search.answer(), asked) };
        asked.push(position);
        let known = measured.iter().find(|at| **at != position && builds[**at] == builds[position]);
        match known {
            Some(with) => search.same(position, *with),
            None => {
                measured.push(position);
                // Repeats differ a little, so that no one measurement settles it.
                let noise = if asked.len() % 2 == 0 { 0.03 } else { -0.03 };
                search.take(position, level(builds[position]) + noise);
            }
        }
    }
    panic!("no end: {:?}", &asked[asked.len() - 20..]);
}

#[test]
fn builds_alike_in_any_order_do_not_keep_a_search_from_its_end() {
    let level = |build: u32| if build >= 2 { 0.2 } else { 0.0 };
    for builds in
        [vec![0, 1, 1, 1, 1, 2, 2, 2, 3], vec![0, 0, 0, 0, 2, 2, 2, 2, 2], vec![0, 1, 1, 2], vec![0, 0, 2, 2]]
    {
        let first = builds.iter().position(|build| *build >= 2).unwrap();
        let (answer, asked) = over_builds(&builds, level);
        let change = answer.changes.first().unwrap();
        assert!(answer.found && change.to == first && change.after == first - 1, "{builds:?}: {asked:?}");
    }
}

#[test]
fn ends_that_are_the_same_build_end_a_search() {
    let (answer, asked) = over_builds(&[0, 1, 2, 0], |_| 0.0);
    assert!(answer.same_ends && !answer.found && answer.changes.is_empty(), "{answer:?}");
    assert_eq!(asked, [3]);
}

#[test]
fn of_builds_alike_the_measured_one_is_asked_until_its_level_is_known() {
    // Its level lies between those of the ends, and two builds of it are neighbours.
    for builds in [vec![0, 1, 1, 2], vec![0, 1, 1, 1, 1, 2], vec![0, 1, 1, 3, 3, 2]] {
        let (_, asked) = over_builds(&builds, |build| [0.0, 0.15, 0.3, 0.2][build as usize]);
        let of_alike = asked.iter().filter(|at| builds[**at] == 1).count();
        assert!(of_alike > 2, "{builds:?}: {asked:?}");
    }
}
