//! A lab run of known order, level and growth against a trial in the field of known ones.

use std::path::Path;
use std::time::Duration;

use heaptrial_evaluate::analysis::Verdict;
use heaptrial_evaluate::judgement::score::{Score, ScoreError, Side};
use heaptrial_evaluate::judgement::{Judgement, Options};
use heaptrial_model::{Arm, Ending, Identity, LifeKey, Linkage, Metric, Sample, Treatment, TrialKind};
use heaptrial_stats::kendall;
use heaptrial_store::{NewTrial, Store, TickInput};
use proptest::prelude::*;
use serde_json::json;

pub const MIB: f64 = 1_048_576.0;
pub const START_US: i64 = 1_767_323_045_000_000;
/// Seconds of the lab between two rests.
const CYCLE: i64 = 20;

/// An arm whose services need so many MiB at the start and so many more each hour.
#[derive(Debug, Clone)]
struct Known {
    name: &'static str,
    level: f64,
    growth: f64,
}

impl Known {
    fn at(&self, hours: f64) -> f64 {
        self.level + self.growth * hours
    }

    /// The median from a window's begin to its end.
    fn middle(&self, from: f64, to: f64) -> f64 {
        self.at((from + to) / 2.0)
    }
}

struct Written {
    store: Store,
    trial: i64,
    _folder: tempfile::TempDir,
}

/// A number in -1..1 that looks random and is always the same.
pub fn noise(seed: u64, a: u64, b: u64) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ a.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ b;
    for _ in 0..3 {
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    }
    (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

pub fn identity(spec: &str) -> Identity {
    Identity {
        family: spec.split(['@', '?']).next().unwrap_or("").to_owned(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: None,
        linkage: Linkage::Preloaded,
        settings: Default::default(),
        evidence: Vec::new(),
        ..Identity::default()
    }
}

fn begin(path: &Path, kind: TrialKind, metric: Metric, arms: &[Known], seed: u64) -> (Store, i64, Vec<i64>) {
    let mut store = Store::create(path).unwrap();
    let arm = |(index, arm): (usize, &Known)| Arm {
        name: arm.name.to_owned(),
        control: index == 0,
        treatment: Treatment { allocator: arm.name.parse().ok(), ..Treatment::default() },
    };
    let (trial, ids) = store
        .begin_trial(&NewTrial {
            name: format!("{}-{seed}", if kind == TrialKind::LabTor { "lab" } else { "field" }),
            kind,
            boot_id: "boot".to_owned(),
            host_facts: json!({}),
            metric,
            seed,
            repeats: 1,
            planned_us: 0,
            arms: arms.iter().enumerate().map(arm).collect(),
            parameters: json!({}),
            command: String::new(),
            tool_version: "0.1.0".to_owned(),
            started_wall_us: START_US,
        })
        .unwrap();
    (store, trial, ids)
}

/// `on` gives the server of a service by its arm and number.
fn lives(
    store: &mut Store,
    trial: i64,
    arms: &[Known],
    ids: &[i64],
    services: usize,
    on: impl Fn(usize, usize) -> u32,
) -> Vec<i64> {
    let mut lives = Vec::new();
    for service in 0..services {
        for (arm, known) in arms.iter().enumerate() {
            let position = lives.len() as u32;
            let name = format!("{}-{service}", known.name);
            let id = store.add_service(trial, ids[arm], &name, on(arm, service), position).unwrap();
            let key = LifeKey { boot_id: "boot".into(), pid: 1000 + position as i32, start_ticks: 7 };
            lives.push(store.add_life(id, &key, (START_US, 0), Some(&identity(known.name)), None).unwrap());
        }
    }
    lives
}

fn sample(mib: f64) -> Sample {
    let anon = ((mib * 1024.0).round() as u64) * 1024;
    let file = 28 << 20;
    Sample { rss_bytes: anon + file, anon_bytes: anon, file_bytes: file, processes: 1, ..Sample::default() }
}

fn tick(sequence: i64, seconds: i64) -> TickInput {
    let boottime_us = seconds * 1_000_000;
    TickInput { sequence, wall_us: START_US + boottime_us, boottime_us, ..TickInput::default() }
}

/// Relays of a lab that take so many consensuses: high in the work, and at their level at the end of the rest.
fn lab(arms: &[Known], consensuses: i64, seed: u64) -> Written {
    lab_read(arms, (consensuses, 1), seed, (0.0, 0.01))
}

/// The same in several repeats, with the noise of relays and that of readings.
fn lab_read(
    arms: &[Known],
    (consensuses, repeats): (i64, usize),
    seed: u64,
    (spread, noisy): (f64, f64),
) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let (mut store, trial, ids) = begin(&path, TrialKind::LabTor, Metric::Anon, arms, seed);
    let lives = lives(&mut store, trial, arms, &ids, repeats, |_, repeat| repeat as u32);
    let mut sequence = 0;
    for k in 1..=consensuses {
        for part in 0..4 {
            let mut tick = tick(sequence, k * CYCLE + part * 4);
            for (place, life) in lives.iter().enumerate() {
                let own = 1.0 + spread * noise(seed, place as u64, 1);
                let rough = 1.0 + noisy * noise(seed, place as u64, k as u64 * 7 + 100);
                let level = arms[place % arms.len()].at(k as f64) * own * rough;
                tick.samples.push((*life, sample(if part == 1 { 3.0 * level } else { level })));
                tick.observations.push((*life, "consensuses", k as f64));
                if part == 3 {
                    tick.observations.push((*life, "rested_consensuses", k as f64));
                }
            }
            store.write_tick(trial, &tick).unwrap();
            sequence += 1;
        }
    }
    finish(store, trial, &lives, (consensuses + 1) * CYCLE, folder)
}

/// Relays in the field, read once an hour.
fn field(arms: &[Known], hours: i64, services: usize, seed: u64) -> Written {
    field_where(arms, (hours, services, seed), |_, _| 0, |_, _| true)
}

/// The same on two servers, of which relays of the second need three times as much: `on` gives the server of an arm's relay, and
/// `reads` whether an arm's relays were read in an hour.
fn field_where(
    arms: &[Known],
    (hours, services, seed): (i64, usize, u64),
    on: impl Fn(usize, usize) -> u32,
    reads: impl Fn(usize, i64) -> bool,
) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let (mut store, trial, ids) = begin(&path, TrialKind::ImportTorutils, Metric::Rss, arms, seed);
    let lives = lives(&mut store, trial, arms, &ids, services, &on);
    for hour in 0..=hours {
        let mut tick = tick(hour, hour * 3600);
        for (place, life) in lives.iter().enumerate() {
            let (arm, service) = (place % arms.len(), place / arms.len());
            let own = 1.0 + 0.03 * noise(seed, place as u64, 3);
            let rough = 1.0 + 0.005 * noise(seed, place as u64, hour as u64 + 50);
            let server = if on(arm, service) == 0 { 1.0 } else { 3.0 };
            if reads(arm, hour) {
                tick.samples.push((*life, sample(arms[arm].at(hour as f64) * own * rough * server)));
            }
        }
        store.write_tick(trial, &tick).unwrap();
    }
    finish(store, trial, &lives, hours * 3600, folder)
}

fn finish(mut store: Store, trial: i64, lives: &[i64], seconds: i64, folder: tempfile::TempDir) -> Written {
    let end = START_US + seconds * 1_000_000;
    for life in lives {
        store.end_life(*life, (end, end - START_US), &Ending::Planned).unwrap();
    }
    store.end_trial(trial, end, "completed").unwrap();
    Written { store, trial, _folder: folder }
}

fn of_lab(run: &Written) -> Result<Side, ScoreError> {
    Side::of_lab(&run.store, run.trial, None, &Options::default())
}

fn of_field(trial: &Written) -> Side {
    Side::of_field(&trial.store, trial.trial, &Options::default()).unwrap()
}

const NAMES: [&str; 4] = ["glibc", "jemalloc", "mimalloc@2.0.9", "mimalloc@3.0.1"];

fn known(levels: &[f64], growth: &[f64]) -> Vec<Known> {
    let arms = NAMES.iter().zip(levels).zip(growth);
    arms.map(|((name, level), growth)| Known { name, level: *level, growth: *growth }).collect()
}

#[test]
fn relay_hours_are_judged_as_a_field_trial() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0, 0.0, 0.0, 20.0]);
    let run = lab(&arms, 36, 1);
    let judgement = Judgement::of(&run.store, run.trial, &Options::default()).unwrap();
    let clock = judgement.consensuses.as_ref().unwrap();
    assert_eq!(clock.taken, 36);
    // A cycle of 20 s for an hour.
    assert!((clock.pace.unwrap() / 180.0 - 1.0).abs() < 0.05, "{clock:?}");
    assert_eq!(judgement.analysis.matched_age_seconds, Some(36.0 * 3600.0));
    let growing = &judgement.analysis.arms[3];
    let growth = growing.growth.as_ref().unwrap();
    assert!((growth.bytes_per_day.value / 24.0 / MIB / 20.0 - 1.0).abs() < 0.1, "{growth:?}");
    // One relay has no interval, and so no verdict.
    assert!(matches!(growing.verdict, Some(Verdict::Inconclusive { .. })), "{:?}", growing.verdict);
    // Peaks are of the work, which no level has.
    let rest = judgement.services[0].rests[10];
    assert_eq!(rest.consensuses, 11);
    assert!((rest.peak_bytes as f64 / rest.level_bytes as f64 - 3.0).abs() < 0.01, "{rest:?}");
    assert!(judgement.arms[0].peak_bytes.unwrap() > 2.9 * 600.0 * MIB);
    let level = judgement.analysis.arms[0].as_assigned.level_bytes.unwrap();
    assert!((level / MIB / 600.0 - 1.0).abs() < 0.02, "{level}");
    // Warm-up is in hours of a relay's life too.
    assert_eq!(growth.warm_up_seconds, 12.0 * 3600.0);
    let longer = Options { warm_up: Some(Duration::from_secs(20 * 3600)), ..Options::default() };
    let judgement = Judgement::of(&run.store, run.trial, &longer).unwrap();
    let growth = judgement.analysis.arms[3].growth.as_ref().unwrap();
    assert_eq!(growth.warm_up_seconds, 20.0 * 3600.0);
}

#[test]
fn a_peak_is_of_the_work_that_a_rest_ended() {
    // The lab stops in the midst of the work after the last rest.
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let mut run = lab(&arms, 12, 1);
    let services = run.store.services(run.trial).unwrap();
    let mut last = tick(1000, 13 * CYCLE);
    for service in services {
        let life = run.store.lives_of(service.id).unwrap()[0].id;
        last.samples.push((life, sample(9000.0)));
    }
    run.store.write_tick(run.trial, &last).unwrap();
    let judgement = Judgement::of(&run.store, run.trial, &Options::default()).unwrap();
    let seen = judgement.services[0].observed.as_ref().unwrap();
    let highest = judgement.services[0].rests.iter().map(|rest| rest.peak_bytes).max().unwrap();
    assert!(seen.peak_bytes == highest && seen.peak_bytes < 2000 << 20, "{seen:?}");
    assert_eq!(judgement.services[0].rests.len(), 12);
}

#[test]
fn three_repeats_have_intervals_and_verdicts() {
    let in_lab = known(&[600.0, 250.0, 100.0, 200.0], &[0.0, 0.0, 0.0, 20.0]);
    let in_field = known(&[6000.0, 2700.0, 1200.0, 1900.0], &[0.0, 0.0, 0.0, 40.0]);
    let trial = field(&in_field, 130, 8, 9);
    let repeated = of_lab(&lab_read(&in_lab, (72, 3), 1, (0.02, 0.01))).unwrap();
    check_intervals(&Score::of(&repeated, &of_field(&trial), &[], &[]).unwrap());
    // Three seeds are as good.
    let [mut lab, second, third] =
        [1, 2, 3].map(|seed| of_lab(&lab_read(&in_lab, (72, 1), seed, (0.02, 0.01))).unwrap());
    lab.join(second, &Options::default()).unwrap();
    lab.join(third, &Options::default()).unwrap();
    let score = Score::of(&lab, &of_field(&trial), &[], &[]).unwrap();
    assert_eq!(score.lab.iter().filter_map(|run| run.seed).collect::<Vec<_>>(), [1, 2, 3]);
    check_intervals(&score);
}

fn check_intervals(score: &Score) {
    assert!(score.ages.iter().all(|at| at.arms.len() == 4), "{:?}", score.ages);
    assert_eq!(score.ages.iter().map(|at| at.consensuses).collect::<Vec<_>>(), [24.0, 72.0]);
    assert_eq!(score.not_compared.iter().map(|(age, _)| *age).collect::<Vec<_>>(), [120.0]);
    let growth = &score.growth[3];
    assert!(matches!(growth.lab_verdict, Some(Verdict::Bloating { .. })), "{growth:?}");
    assert!(matches!(growth.field_verdict, Some(Verdict::Bloating { .. })), "{growth:?}");
    let factor = growth.factor.unwrap();
    assert!(factor.low.unwrap() < 0.5 && 0.5 < factor.high.unwrap(), "{factor:?}");
    // What is not shown to grow in the field has no factor.
    assert!(score.growth[..3].iter().all(|growth| growth.factor.is_none()));
    let ratio = score.ages[1].arms.iter().find(|arm| arm.arm == 1).unwrap().lab.ratio.unwrap();
    assert!((ratio.value * 600.0 / 250.0 - 1.0).abs() < 0.04, "{ratio:?}");
    assert!(ratio.low.unwrap() < ratio.value && ratio.value < ratio.high.unwrap(), "{ratio:?}");
}

#[test]
fn the_field_is_ordered_within_its_servers() {
    let arms = known(&[600.0, 460.0, 300.0], &[0.0; 3]);
    let lab = of_lab(&lab(&arms, 30, 1)).unwrap();
    // Most relays of the second arm are on the server on which relays need three times as much.
    let uneven = |arm: usize, service: usize| u32::from(if arm == 1 { service < 6 } else { service < 2 });
    let trial = field_where(&arms, (60, 8, 9), uneven, |_, _| true);
    let score = Score::of(&lab, &of_field(&trial), &[24.0], &[]).unwrap();
    let at = &score.ages[0];
    assert_eq!((at.pairs, at.pairs_alike), (3, 3), "{at:?}");
    assert_eq!(at.arms.iter().map(|arm| arm.arm).collect::<Vec<_>>(), [2, 1, 0]);
    assert!(at.arms[1].field.level_bytes > at.arms[2].field.level_bytes);
}

#[test]
fn who_shares_no_server_with_the_control_has_no_place_in_the_order() {
    let arms = known(&[600.0, 460.0, 300.0], &[0.0; 3]);
    let run = lab(&arms, 30, 1);
    let trial = field_where(&arms, (60, 8, 9), |arm, _| u32::from(arm == 2), |_, _| true);
    let score = Score::of(&of_lab(&run).unwrap(), &of_field(&trial), &[24.0], &[]).unwrap();
    let at = &score.ages[0];
    assert_eq!(at.pairs, 1, "{at:?}");
    assert!(at.arms.iter().any(|arm| arm.arm == 2 && arm.field.ratio.is_none()), "{at:?}");
    assert!(!score.findings.is_empty(), "arm and server cannot be distinguished");
}

#[test]
fn an_arm_without_a_level_on_one_side_is_not_compared() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let lab = lab(&arms, 30, 1);
    let trial = field_where(&arms, (60, 3, 9), |_, _| 0, |arm, hour| arm != 2 || hour > 12);
    let score = Score::of(&of_lab(&lab).unwrap(), &of_field(&trial), &[12.0, 28.0], &[]).unwrap();
    let [early, late] = score.ages.as_slice() else { panic!("{:?}", score.ages) };
    assert_eq!((early.pairs, early.arms.len()), (3, 3));
    assert!(early.arms.iter().all(|arm| arm.arm != 2), "{early:?}");
    assert_eq!((late.pairs, late.arms.len()), (6, 4));
}

#[test]
fn lab_and_field_need_not_have_the_same_control() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let in_field = known(&[6000.0, 2000.0, 1200.0, 3000.0], &[0.0; 4]);
    let trial = of_field(&field(&in_field, 60, 6, 9));
    let lab = |order: [usize; 4], seed| lab(&order.map(|arm| arms[arm].clone()), 30, seed);
    let (usual, turned) = (lab([0, 1, 2, 3], 1), lab([2, 0, 1, 3], 2));
    let names = |score: &Score| score.arms.iter().map(|arm| arm.lab.clone()).collect::<Vec<_>>();
    for run in [&usual, &turned] {
        let score = Score::of(&of_lab(run).unwrap(), &trial, &[], &[]).unwrap();
        assert_eq!(names(&score)[0], "glibc");
        let jemalloc = score.ages[0].arms.iter().find(|arm| score.arms[arm.arm].lab == "jemalloc").unwrap();
        let truth = 250.0 / 600.0 / (2028.0 / 6028.0);
        assert!((jemalloc.factor.unwrap().value / truth - 1.0).abs() < 0.05, "{jemalloc:?}");
        // In the field 3.0.1 is above jemalloc, in the lab below.
        assert_eq!((score.ages[0].pairs_alike, score.ages[0].pairs), (5, 6));
    }
    // The field's control has no partner, then the lab's serves, and then any.
    let stranger = Known { name: "tcmalloc", ..in_field[0].clone() };
    for (others, first) in [(&[1, 0][..], "glibc"), (&[3, 2], "mimalloc@2.0.9")] {
        let others = others.iter().map(|arm| in_field[*arm].clone());
        let arms: Vec<Known> = [stranger.clone()].into_iter().chain(others).collect();
        let trial = of_field(&field(&arms, 60, 6, 9));
        let score = Score::of(&of_lab(&usual).unwrap(), &trial, &[], &[]).unwrap();
        assert_eq!(names(&score)[0], first);
        assert_eq!(score.ages[0].arms.iter().filter(|arm| arm.factor.is_none()).count(), 1);
    }
}

#[test]
fn a_short_trial_is_compared_at_the_age_that_it_reached() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let lab = of_lab(&lab(&arms, 40, 1)).unwrap();
    let trial = of_field(&field(&arms, 15, 3, 9));
    let score = Score::of(&lab, &trial, &[], &[]).unwrap();
    assert_eq!(score.ages.iter().map(|at| at.consensuses).collect::<Vec<_>>(), [15.0]);
    assert_eq!(score.not_compared.len(), 3);
    // An age that is asked for twice is one.
    let score = Score::of(&lab, &trial, &[12.0, 6.0, 12.0], &[]).unwrap();
    assert_eq!(score.ages.iter().map(|at| at.consensuses).collect::<Vec<_>>(), [6.0, 12.0]);
}

#[test]
fn arms_that_need_the_same_are_in_no_other_order() {
    let arms = known(&[600.0, 200.0, 200.0, 100.0], &[0.0; 4]);
    let run = lab_read(&arms, (30, 2), 1, (0.0, 0.0));
    let trial = field(&known(&[6000.0, 2000.0, 1500.0, 1800.0], &[0.0; 4]), 60, 6, 9);
    let score = Score::of(&of_lab(&run).unwrap(), &of_field(&trial), &[], &[]).unwrap();
    let at = &score.ages[0];
    assert_eq!((at.pairs, at.pairs_alike, at.pairs_tied), (6, 4, 1));
    assert_eq!(at.arms.iter().map(|arm| arm.arm).collect::<Vec<_>>(), [3, 1, 2, 0]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let trial = field(&arms, 60, 6, 9);
    let field_side = of_field(&trial);
    let said = |error: ScoreError| error.to_string();

    let silent = lab(&arms, 0, 1);
    assert!(said(of_lab(&silent).unwrap_err()).contains("got a consensus"));

    let stranger = [arms[0].clone(), Known { name: "tcmalloc", ..arms[1].clone() }];
    let stranger = of_lab(&lab(&stranger, 30, 1)).unwrap();
    let error = said(Score::of(&stranger, &field_side, &[], &[]).unwrap_err());
    assert!(error.contains("1 of the arms") && error.contains("--match LAB=FIELD"), "{error}");
    let by_hand = Score::of(&stranger, &field_side, &[], &["tcmalloc=jemalloc".to_owned()]).unwrap();
    assert_eq!((by_hand.arms[1].lab.as_str(), by_hand.arms[1].field.as_str()), ("tcmalloc", "jemalloc"));
    assert_eq!(by_hand.only_in_field, &NAMES[2..]);
    for unknown in ["tcmalloc", "tcmalloc=none"] {
        assert!(matches!(
            Score::of(&stranger, &field_side, &[], &[unknown.to_owned()]),
            Err(ScoreError::Match(_))
        ));
    }

    let good = lab(&arms, 30, 1);
    let error = said(Score::of(&of_lab(&good).unwrap(), &field_side, &[48.0], &[]).unwrap_err());
    assert!(error.contains("48 consensuses: glibc of the lab"), "{error}");

    let error = of_lab(&trial).unwrap_err();
    assert!(said(error).contains("a lab run of relays"));
    let error = Side::of_field(&good.store, good.trial, &Options::default()).unwrap_err();
    assert!(said(error).contains("against an import or a field trial"));

    // Runs are repeats of one another where they differ in nothing but the seed.
    let refused = |other: &Written| {
        let mut first = of_lab(&good).unwrap();
        said(first.join(of_lab(other).unwrap(), &Options::default()).unwrap_err())
    };
    let error = refused(&lab(&arms, 30, 1));
    assert!(error.contains("the same run"), "{error}");
    let error = refused(&lab(&arms[..3], 30, 2));
    assert!(error.contains("they differ in `arm mimalloc@3.0.1`"), "{error}");
    let mut other = lab(&arms, 30, 2);
    let of_other = other.store.arms(other.trial).unwrap();
    other.store.set_obtained(of_other[1].id, &json!({ "version": "5.2.1" })).unwrap();
    let error = refused(&other);
    assert!(error.contains("they differ in `arm jemalloc`"), "{error}");

    // A lab that read RSS beside RssAnon can be compared by it.
    let rss = Side::of_lab(&good.store, good.trial, Some(Metric::Rss), &Options::default()).unwrap();
    let score = Score::of(&rss, &field_side, &[], &[]).unwrap();
    assert_eq!(score.lab[0].metric, Metric::Rss);
    assert!(
        (score.ages[0].arms.iter().find(|arm| arm.arm == 2).unwrap().lab.level_bytes as f64 / MIB / 128.0
            - 1.0)
            .abs()
            < 0.03
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn what_is_known_is_found(
        lab_levels in proptest::collection::vec(60.0f64..600.0, 4),
        field_levels in proptest::collection::vec(600.0f64..6000.0, 4),
        lab_growth in proptest::collection::vec(prop_oneof![Just(0.0), 4.0..40.0], 4),
        field_growth in proptest::collection::vec(prop_oneof![Just(0.0), 20.0..60.0], 4),
        seed in 0u64..1000,
    ) {
        let (in_lab, in_field) = (known(&lab_levels, &lab_growth), known(&field_levels, &field_growth));
        let run = lab(&in_lab, 50, seed);
        let trial = field(&in_field, 50, 6, seed);
        let score = Score::of(&of_lab(&run).unwrap(), &of_field(&trial), &[30.0, 48.0], &[]).unwrap();
        prop_assert_eq!(score.arms.iter().map(|arm| arm.lab.as_str()).collect::<Vec<_>>(), NAMES);
        for at in &score.ages {
            let from = at.consensuses - 24f64.min(at.consensuses / 2.0);
            let truth = |arms: &[Known], file: f64| -> Vec<f64> {
                arms.iter().map(|arm| arm.middle(from, at.consensuses) + file).collect()
            };
            let (l, f) = (truth(&in_lab, 0.0), truth(&in_field, 28.0));
            for arm in &at.arms {
                let found = (arm.lab.level_bytes as f64 / MIB / l[arm.arm], arm.field.level_bytes as f64 / MIB / f[arm.arm]);
                prop_assert!((found.0 - 1.0).abs() < 0.06 && (found.1 - 1.0).abs() < 0.05, "{:?} {:?}", found, arm);
                if let Some(factor) = arm.factor {
                    let known = (l[arm.arm] / l[0]) / (f[arm.arm] / f[0]);
                    prop_assert!((factor.value / known - 1.0).abs() < 0.15, "{} {}", factor.value, known);
                }
            }
            // Where no two levels are near each other, the order is that of what is known.
            let apart = |values: &[f64]| (0..4).all(|i| (0..i).all(|j| (values[i] / values[j]).ln().abs() > 0.15));
            if apart(&l) && apart(&f) {
                let order = kendall(&l, &f).unwrap();
                prop_assert_eq!(at.pairs_alike as usize, order.concordant);
                prop_assert!((at.tau_b.unwrap() - order.tau_b.unwrap()).abs() < 1e-12);
            }
        }
        for (arm, growth) in score.growth.iter().enumerate() {
            let (l, f) = (in_lab[arm].growth, in_field[arm].growth);
            let found = growth.lab_bytes_per_hour.unwrap().value / MIB;
            // Noise of 1% of the level over 30 hours.
            prop_assert!((found - l).abs() < 0.1 * l + 0.0006 * in_lab[arm].at(50.0), "{} {}", found, l);
            let found = growth.field_bytes_per_hour.unwrap().value / MIB;
            prop_assert!((found - f).abs() < 0.1 * f + 0.0006 * in_field[arm].at(50.0), "{} {}", found, f);
        }
    }
}
