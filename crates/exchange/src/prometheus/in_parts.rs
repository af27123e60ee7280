//! An import that goes on finds the lives that one import of everything finds.

use std::collections::BTreeSet;

use heaptrial_model::{LifeStart, Metric};
use heaptrial_store::ImportedLife;
use proptest::prelude::*;

use super::series::{Told, Values, changes, thinned, used};
use super::service::{Service, add};

const S: i64 = 1_000_000;
const STEP_S: i64 = 60;
/// How long a service is observed, in seconds.
const LASTS_S: i64 = 14_000;
const START_S: i64 = 1_790_000_000;

/// A service as it was, in seconds since it was first observed.
#[derive(Debug, Clone)]
struct Observed {
    restarts: Vec<i64>,
    /// Of memory, starts and the counter: every so many seconds, and when first.
    scraped: [(i64, i64); 3],
    /// By how much the clock of the host is ahead, and from when on by how much else.
    ahead: (i64, i64, i64),
    tells_starts: bool,
    counts: bool,
}

impl Observed {
    fn started_at(&self, at: i64) -> i64 {
        self.restarts.iter().copied().rfind(|restart| *restart <= at).unwrap_or(-5000)
    }

    fn scrape(&self, which: usize, asked: &std::ops::Range<i64>, value: impl Fn(i64) -> f64) -> Values {
        let (every, phase) = self.scraped[which];
        let times = (phase..LASTS_S).step_by(every as usize).filter(|at| asked.contains(at));
        times.map(|at| ((START_S + at) * S, value(at))).collect()
    }

    /// What a store tells of a time.
    fn told(&self, asked: std::ops::Range<i64>) -> Told {
        let (before, set_at, after) = self.ahead;
        let memory = self.scrape(0, &asked, |at| {
            let age = at - self.started_at(at);
            1e9 * (0.1 + 0.9 * (age as f64 / 3000.0).min(1.0)) + age as f64
        });
        let memory = thinned(memory, STEP_S * S);
        let start = self.scrape(1, &asked, |at| {
            let ahead = if at < set_at { before } else { after };
            (START_S + self.started_at(at) + ahead) as f64
        });
        // Hundredths of seconds, as a kernel counts them.
        let counter = self.scrape(2, &asked, |at| ((at - self.started_at(at)) as f64 * 3.7).round() / 100.0);
        Told {
            start: if self.tells_starts { changes(&start) } else { Values::new() },
            counter: if self.counts { used(counter, &memory) } else { Values::new() },
            memory,
            ..Told::default()
        }
    }

    /// What an import of each of these times one after the other finds.
    fn imported(&self, parts: &[std::ops::Range<i64>]) -> Vec<Found> {
        let service = imported(parts.iter().map(|part| self.told(part.clone())));
        let times = service.samples.times();
        let of = |life: &super::lives::Life| {
            let read = times[life.samples.clone()].iter().map(|at| at / S - START_S).collect();
            (life.started_us / S - START_S, life.start, read)
        };
        service.lives.lives.iter().map(of).collect()
    }
}

/// A service of which a store told this, import by import.
fn imported(told: impl Iterator<Item = Told>) -> Service {
    let mut service = Service::default();
    for told in told {
        let mut next = Service::default();
        for life in &service.lives.lives {
            let samples = life.samples.clone().map(|index| service.samples.get(index).unwrap()).collect();
            let (started_wall_us, start) = (life.started_us, life.start);
            next.add_stored(&ImportedLife { started_wall_us, start, contamination: None, samples });
        }
        add(&mut next, told, Metric::Rss, None, STEP_S * S);
        service = next;
    }
    service
}

/// Start, how it is known, and times of readings, in seconds.
type Found = (i64, LifeStart, Vec<i64>);

fn observed() -> impl Strategy<Value = Observed> {
    let scraped = |least: i64| {
        (prop_oneof![Just(15), Just(30), Just(60), Just(90)], 0..60i64)
            .prop_map(move |(every, phase)| (every.max(least), phase))
    };
    let ahead = prop_oneof![Just(0i64), -40..40i64, Just(-300), Just(-3600), Just(300), Just(7200)];
    let clock = prop_oneof![
        ahead.clone().prop_map(|ahead| (ahead, LASTS_S, ahead)),
        (ahead.clone(), 500..LASTS_S, ahead),
    ];
    (
        proptest::collection::vec(700..LASTS_S, 0..4),
        [scraped(15), scraped(15), scraped(15)],
        clock,
        prop_oneof![Just((true, false)), Just((true, true)), Just((false, true)), Just((false, false))],
    )
        .prop_map(|(mut restarts, scraped, ahead, (tells_starts, counts))| {
            restarts.sort_unstable();
            restarts.dedup_by(|next, last| *next - *last < 600);
            // A clock that is set while a service is restarted moves its start twice: how many restarts that is, nothing tells.
            restarts.retain(|restart| restart.abs_diff(ahead.1) > 300);
            Observed { restarts, scraped, ahead, tells_starts, counts }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parts_give_the_lives_of_the_whole(
        service in observed(),
        mut ends in proptest::collection::vec(900..LASTS_S, 1..5),
        late in 600..4000i64,
    ) {
        ends.sort_unstable();
        ends.push(LASTS_S);
        let first = 0..ends[0];
        let further = ends.windows(2).map(|pair| {
            // From the last reading on, in whole steps.
            let from = (pair[0] - late).max(0);
            let aligned = (START_S + from).div_euclid(STEP_S) * STEP_S - START_S;
            aligned..pair[1]
        });
        let parts: Vec<_> = std::iter::once(first).chain(further).collect();
        let (parts, whole) = (service.imported(&parts), service.imported(std::slice::from_ref(&(0..LASTS_S))));
        // Where evidence of a restart lies on both sides of a cut its time is known a little less well.
        let alike = |(parts, whole): (&Found, &Found)| {
            let off_s = (parts.0 - whole.0).abs();
            match (parts.1, whole.1) {
                (LifeStart::Inferred { uncertainty_us: one }, LifeStart::Inferred { uncertainty_us: other }) => {
                    off_s * S <= one + other + S
                }
                (one, other) => one == other && off_s == 0,
            }
        };
        let same = parts.len() == whole.len()
            && parts.iter().zip(&whole).all(|pair| pair.0.2 == pair.1.2 && alike(pair));
        prop_assert!(same, "in parts: {:?}\nat once: {:?}", parts, whole);
    }

    /// Times in any order, of which the store tells memory alone, or starts and counter too.
    #[test]
    fn each_reading_is_of_one_life_whatever_comes_late(
        service in observed(),
        parts in proptest::collection::vec((0..LASTS_S, 300..6000i64, any::<bool>(), any::<bool>()), 1..6),
    ) {
        let told: Vec<Told> = parts.iter().map(|(from, lasts, starts, counter)| {
            let mut told = service.told(*from..from + lasts);
            if !starts {
                told.start.clear();
            }
            if !counter {
                told.counter.clear();
            }
            told
        }).collect();
        // Each import keeps the first of each step that it was told.
        let step = |at: &i64| at.div_euclid(STEP_S * S);
        let read: BTreeSet<i64> = told.iter().flat_map(|told| &told.memory).map(|(at, _)| step(at)).collect();
        let service = imported(told.into_iter());
        prop_assert!(service.samples.times().iter().map(step).eq(read.iter().copied()));
        let mut next = 0;
        for life in &service.lives.lives {
            prop_assert!(life.samples.start == next && next < life.samples.end, "{:?}", service.lives);
            next = life.samples.end;
        }
        prop_assert_eq!(next, read.len());
    }
}
