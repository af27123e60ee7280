//! Lab runs of known order, level and growth against a trial in the field of known ones.

use std::path::Path;
use std::time::Duration;

use heaptrial_analysis::Verdict;
use heaptrial_judgement::score::{LeftOut, MatchedBy, Partners, Score, ScoreError, Side, WithoutLevel};
use heaptrial_judgement::{Judgement, Options};
use heaptrial_model::{Arm, Ending, Identity, LifeKey, Linkage, Metric, Sample, Treatment, TrialKind};
use heaptrial_stats::kendall;
use heaptrial_store::{NewTrial, Store, TickInput};
use proptest::prelude::*;
use serde_json::json;

const MIB: f64 = 1_048_576.0;
const START_US: i64 = 1_767_323_045_000_000;
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

/// How a lab tells its consensuses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tells {
    Rests,
    Nothing,
}

struct Written {
    store: Store,
    trial: i64,
    _folder: tempfile::TempDir,
}

/// A number in -1..1 that looks random and is always the same.
fn noise(seed: u64, a: u64, b: u64) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ a.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ b;
    for _ in 0..3 {
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    }
    (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

fn identity(spec: &str) -> Identity {
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
        libraries: Vec::new(),
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
            // What each arm makes of a number of processors; runs need not have the same arms.
            parameters: json!({ "processors": { "as_on": 64, "arms": { arms[arms.len() - 1].name: "as it comes" } } }),
            command: String::new(),
            tool_version: "0.1.0".to_owned(),
            started_wall_us: START_US,
        })
        .unwrap();
    (store, trial, ids)
}

/// `on` tells the server of a service by its arm and number.
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
fn lab(arms: &[Known], consensuses: i64, seed: u64, spread: f64, tells: Tells) -> Written {
    lab_read(arms, consensuses, seed, (spread, 0.01), tells)
}

/// The same, with the noise of relays and that of readings.
fn lab_read(
    arms: &[Known],
    consensuses: i64,
    seed: u64,
    (spread, noisy): (f64, f64),
    tells: Tells,
) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let (mut store, trial, ids) = begin(&path, TrialKind::LabTor, Metric::Anon, arms, seed);
    let lives = lives(&mut store, trial, arms, &ids, 1, |_, _| 0);
    let mut sequence = 0;
    for k in 1..=consensuses {
        for part in 0..4 {
            let mut tick = tick(sequence, k * CYCLE + part * 4);
            for (arm, life) in lives.iter().enumerate() {
                let own = 1.0 + spread * noise(seed, arm as u64, 1);
                let rough = 1.0 + noisy * noise(seed, arm as u64, k as u64 * 7 + 100);
                let level = arms[arm].at(k as f64) * own * rough;
                tick.samples.push((
                    *life,
                    sample(if part == 1 && tells == Tells::Rests { 3.0 * level } else { level }),
                ));
                match tells {
                    Tells::Rests if part == 3 => {
                        tick.observations.push((*life, "consensuses", k as f64));
                        tick.observations.push((*life, "rested_consensuses", k as f64));
                    }
                    Tells::Rests => tick.observations.push((*life, "consensuses", k as f64)),
                    Tells::Nothing => {}
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
    field_read(arms, hours, services, seed, |_, _| true)
}

/// The same on two servers, of which relays of the second need three times as much; `on` tells the server of an arm's relay.
fn field_on_servers(
    arms: &[Known],
    hours: i64,
    services: usize,
    on: impl Fn(usize, usize) -> u32,
) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let (mut store, trial, ids) = begin(&path, TrialKind::ImportTorutils, Metric::Rss, arms, 9);
    let lives = lives(&mut store, trial, arms, &ids, services, &on);
    for hour in 0..=hours {
        let mut tick = tick(hour, hour * 3600);
        for (place, life) in lives.iter().enumerate() {
            let (arm, service) = (place % arms.len(), place / arms.len());
            let own = 1.0 + 0.02 * noise(9, place as u64, 3);
            let server = if on(arm, service) == 0 { 1.0 } else { 3.0 };
            tick.samples.push((*life, sample(arms[arm].at(hour as f64) * own * server)));
        }
        store.write_tick(trial, &tick).unwrap();
    }
    finish(store, trial, &lives, hours * 3600, folder)
}

/// The same, where `reads` tells of an arm's position and an hour whether its relays were read then.
fn field_read(
    arms: &[Known],
    hours: i64,
    services: usize,
    seed: u64,
    reads: impl Fn(usize, i64) -> bool,
) -> Written {
    field_running((arms, hours, services, seed), reads, |arm, _| arm)
}

/// The same, where `runs` tells by position whose memory an arm's relay has.
fn field_running(
    (arms, hours, services, seed): (&[Known], i64, usize, u64),
    reads: impl Fn(usize, i64) -> bool,
    runs: impl Fn(usize, usize) -> usize,
) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heaptrial.db");
    let (mut store, trial, ids) = begin(&path, TrialKind::ImportTorutils, Metric::Rss, arms, seed);
    let lives = lives(&mut store, trial, arms, &ids, services, |_, _| 0);
    for hour in 0..=hours {
        let mut tick = tick(hour, hour * 3600);
        let read = |(place, _): &(usize, &i64)| reads(place % arms.len(), hour);
        for (place, life) in lives.iter().enumerate().filter(read) {
            let own = 1.0 + 0.03 * noise(seed, place as u64, 3);
            let rough = 1.0 + 0.005 * noise(seed, place as u64, hour as u64 + 50);
            let known = &arms[runs(place % arms.len(), place / arms.len())];
            tick.samples.push((*life, sample(known.at(hour as f64) * own * rough)));
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

fn of_lab(runs: &[&Written]) -> Result<Side, ScoreError> {
    let runs: Vec<(&Store, i64)> = runs.iter().map(|run| (&run.store, run.trial)).collect();
    Side::of_lab(&runs, None, &Options::default())
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
    let run = lab(&arms, 36, 1, 0.0, Tells::Rests);
    let judgement = Judgement::of(&run.store, run.trial, &Options::default()).unwrap();
    let clock = judgement.consensuses.as_ref().unwrap();
    assert_eq!(clock.consensuses, 36);
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
    let mut run = lab(&arms, 12, 1, 0.0, Tells::Rests);
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
fn three_seeds_have_intervals_and_verdicts() {
    let in_lab = known(&[600.0, 250.0, 100.0, 200.0], &[0.0, 0.0, 0.0, 20.0]);
    let in_field = known(&[6000.0, 2700.0, 1200.0, 1900.0], &[0.0, 0.0, 0.0, 40.0]);
    let runs = [1, 2, 3].map(|seed| lab(&in_lab, 72, seed, 0.02, Tells::Rests));
    let trial = field(&in_field, 130, 8, 9);
    let lab = of_lab(&runs.iter().collect::<Vec<_>>()).unwrap();
    let score = Score::of(&lab, &of_field(&trial), &[], &[]).unwrap();
    assert!(score.ages.iter().all(|at| at.without.is_empty()), "{:?}", score.ages);
    assert_eq!(score.ages.iter().map(|at| at.consensuses).collect::<Vec<_>>(), [24.0, 72.0]);
    assert_eq!(score.left_out.len(), 1);
    assert!(score.left_out[0].why.contains("reached 72 h"), "{:?}", score.left_out);
    let growth = &score.growth[3];
    assert!(matches!(growth.lab_verdict, Some(Verdict::Bloating { .. })), "{growth:?}");
    assert!(matches!(growth.field_verdict, Some(Verdict::Bloating { .. })), "{growth:?}");
    let factor = growth.factor.unwrap();
    assert!(factor.low.unwrap() < 0.5 && 0.5 < factor.high.unwrap(), "{factor:?}");
    // What is not shown to grow in the field has no factor.
    assert!(score.growth[..3].iter().all(|growth| growth.factor.is_none()));
    let ratio = score.ages[1].arms[1].lab.ratio.unwrap();
    assert!((ratio.value * 600.0 / 250.0 - 1.0).abs() < 0.04, "{ratio:?}");
    assert!(ratio.low.unwrap() < ratio.value && ratio.value < ratio.high.unwrap(), "{ratio:?}");
}

#[test]
fn a_few_consensuses_do_not_tell_growth_from_caches_that_fill() {
    let in_lab = known(&[600.0, 250.0, 100.0, 200.0], &[0.0, 0.0, 0.0, 4.0]);
    let trial = field(&known(&[6000.0, 2700.0, 1200.0, 1900.0], &[0.0; 4]), 130, 8, 9);
    for (consensuses, is_told) in [(10, false), (40, true)] {
        let runs = [1, 2, 3].map(|seed| lab(&in_lab, consensuses, seed, 0.002, Tells::Rests));
        let lab = of_lab(&runs.iter().collect::<Vec<_>>()).unwrap();
        let score = Score::of(&lab, &of_field(&trial), &[8.0], &[]).unwrap();
        let verdict = score.growth[3].lab_verdict.as_ref().unwrap();
        match verdict {
            Verdict::Inconclusive { why, .. } => {
                assert!(
                    !is_told && why.contains("7 readings, do not distinguish growth from caches"),
                    "{why}"
                );
            }
            verdict => assert!(is_told && matches!(verdict, Verdict::Bloating { .. }), "{verdict:?}"),
        }
    }
}

#[test]
fn a_run_repeats_nothing_of_itself() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let run = lab(&arms, 30, 1, 0.0, Tells::Rests);
    let copy = lab(&arms, 30, 1, 0.0, Tells::Rests);
    for again in [&run, &copy] {
        let error = of_lab(&[&run, again]).unwrap_err();
        assert!(error.to_string().contains("same run"), "{error}");
    }
}

#[test]
fn the_field_is_ordered_within_its_servers() {
    let arms = known(&[600.0, 460.0, 300.0], &[0.0; 3]);
    let labs: Vec<Written> = (1..=2).map(|seed| lab(&arms, 30, seed, 0.0, Tells::Rests)).collect();
    let lab = of_lab(&labs.iter().collect::<Vec<_>>()).unwrap();
    // Most relays of the second arm are on the server on which relays need three times as much.
    let uneven = |arm: usize, service: usize| u32::from(if arm == 1 { service < 6 } else { service < 2 });
    let trial = field_on_servers(&arms, 60, 8, uneven);
    let score = Score::of(&lab, &of_field(&trial), &[24.0], &[]).unwrap();
    let at = &score.ages[0];
    assert_eq!((at.pairs, at.pairs_alike, at.unlike.len()), (3, 3, 0), "{at:?}");
    assert_eq!(at.order_in_field, [vec![2], vec![1], vec![0]]);
    assert!(at.arms[1].field.level_bytes > at.arms[0].field.level_bytes);
}

#[test]
fn who_shares_no_server_with_the_control_has_no_place_in_the_order() {
    let arms = known(&[600.0, 460.0, 300.0], &[0.0; 3]);
    let run = lab(&arms, 30, 1, 0.0, Tells::Rests);
    let trial = field_on_servers(&arms, 60, 8, |arm, _| u32::from(arm == 2));
    let score = Score::of(&of_lab(&[&run]).unwrap(), &of_field(&trial), &[24.0], &[]).unwrap();
    let at = &score.ages[0];
    assert_eq!((at.pairs, &at.unordered[..]), (1, &[2][..]), "{at:?}");
    assert!(!score.grave_in_field.is_empty(), "arm and server cannot be told apart");
}

#[test]
fn a_version_that_was_proved_stands_where_the_spec_tells_none() {
    let specs = [("glibc", 600.0), ("jemalloc", 250.0), ("mimalloc", 200.0)];
    let arms = specs.map(|(name, level)| Known { name, level, growth: 0.0 });
    let proved = |seed: u64, versions: [&str; 3]| {
        let mut run = lab(&arms, 30, seed, 0.0, Tells::Rests);
        let rows = run.store.arms(run.trial).unwrap();
        for (arm, version) in rows.iter().zip(versions) {
            run.store.set_obtained(arm.id, &json!({ "version": version })).unwrap();
        }
        run
    };
    let run = proved(1, ["2.41", "5.3.0", "2.0.9"]);
    let named = [("glibc", 6000.0), ("jemalloc@5.2.1", 2500.0), ("mimalloc@2.0.9", 2000.0)];
    let trial = field(&named.map(|(name, level)| Known { name, level, growth: 0.0 }), 60, 4, 9);
    let score = Score::of(&of_lab(&[&run]).unwrap(), &of_field(&trial), &[24.0], &[]).unwrap();
    let partners: Vec<&str> = score.arms.iter().map(|pair| pair.field.as_str()).collect();
    assert_eq!(partners, ["glibc", "mimalloc@2.0.9"]);
    let other = proved(2, ["2.41", "5.3.0", "3.0.1"]);
    let error = of_lab(&[&run, &other]).unwrap_err();
    assert!(error.to_string().contains("`mimalloc` is one treatment in the first"), "{error}");
}

#[test]
fn an_arm_that_one_side_has_no_level_of_is_named() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let lab = lab(&arms, 30, 1, 0.0, Tells::Rests);
    let trial = field_read(&arms, 60, 3, 9, |arm, hour| arm != 2 || hour > 12);
    let score = Score::of(&of_lab(&[&lab]).unwrap(), &of_field(&trial), &[12.0, 28.0], &[]).unwrap();
    let [early, late] = score.ages.as_slice() else { panic!("{:?}", score.ages) };
    assert_eq!(early.without, [WithoutLevel { arm: 2, in_lab: false, hours: Some((13.0, 60.0)) }]);
    assert_eq!((early.pairs, early.arms.len()), (3, 3));
    assert_eq!((late.without.len(), late.pairs), (0, 6));
}

#[test]
fn groups_with_the_same_control_are_one_lab() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let first = lab(&arms[..2], 30, 1, 0.0, Tells::Rests);
    let second = lab(&[arms[0].clone(), arms[2].clone(), arms[3].clone()], 30, 2, 0.0, Tells::Rests);
    let trial = field(&known(&[6000.0, 2500.0, 1000.0, 2000.0], &[0.0; 4]), 60, 6, 9);
    let score = Score::of(&of_lab(&[&first, &second]).unwrap(), &of_field(&trial), &[], &[]).unwrap();
    assert_eq!(score.arms.len(), 4);
    assert_eq!((score.ages[0].pairs, score.ages[0].pairs_alike), (6, 6));
    for arm in &score.ages[0].arms[1..] {
        let factor = arm.factor.unwrap().value;
        assert!((factor - 1.0).abs() < 0.05, "{arm:?}");
    }
}

#[test]
fn lab_and_field_need_not_have_the_same_control() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let in_field = known(&[6000.0, 2000.0, 1200.0, 3000.0], &[0.0; 4]);
    let trial = of_field(&field(&in_field, 60, 6, 9));
    let lab = |order: [usize; 4], seed| lab(&order.map(|arm| arms[arm].clone()), 30, seed, 0.0, Tells::Rests);
    let (usual, turned) = (lab([0, 1, 2, 3], 1), lab([2, 0, 1, 3], 2));
    let names = |score: &Score| score.arms.iter().map(|arm| arm.lab.clone()).collect::<Vec<_>>();
    let together = Score::of(&of_lab(&[&usual, &turned]).unwrap(), &trial, &[], &[]).unwrap();
    let score = Score::of(&of_lab(&[&turned]).unwrap(), &trial, &[], &[]).unwrap();
    for score in [&score, &together] {
        assert_eq!(names(score)[0], "glibc");
        let jemalloc = score.ages[0].arms.iter().find(|arm| score.arms[arm.arm].lab == "jemalloc").unwrap();
        let truth = 250.0 / 600.0 / (2028.0 / 6028.0);
        assert!((jemalloc.factor.unwrap().value / truth - 1.0).abs() < 0.05, "{jemalloc:?}");
        // In the field 3.0.1 is above jemalloc, in the lab below.
        assert_eq!((score.ages[0].pairs_alike, score.ages[0].unlike.len()), (5, 1));
    }
    assert_eq!((score.lab_control.as_str(), score.field_control.as_str()), ("mimalloc@2.0.9", "glibc"));
    // The field's control has no partner, then the lab's serves, and then any.
    let stranger = Known { name: "tcmalloc", ..in_field[0].clone() };
    for (others, first) in [(&[1, 0][..], "glibc"), (&[3, 2], "mimalloc@2.0.9")] {
        let others = others.iter().map(|arm| in_field[*arm].clone());
        let arms: Vec<Known> = [stranger.clone()].into_iter().chain(others).collect();
        let trial = of_field(&field(&arms, 60, 6, 9));
        let score = Score::of(&of_lab(&[&usual]).unwrap(), &trial, &[], &[]).unwrap();
        assert_eq!((names(&score)[0].as_str(), score.field_control.as_str()), (first, "tcmalloc"));
        assert_eq!(score.ages[0].arms.iter().filter(|arm| arm.factor.is_none()).count(), 1);
    }
}

#[test]
fn services_in_no_figure_are_counted() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let runs = [1, 2].map(|seed| lab(&arms, 30, seed, 0.0, Tells::Rests));
    let mut trial = field(&arms, 60, 8, 9);
    // The first of glibc runs something else.
    let first = trial.store.services(trial.trial).unwrap()[0].id;
    let life = trial.store.lives_of(first).unwrap()[0].id;
    trial.store.contaminate(life, "maps jemalloc").unwrap();
    let score = Score::of(&of_lab(&[&runs[0], &runs[1]]).unwrap(), &of_field(&trial), &[], &[]).unwrap();
    let left = |of: fn(&Partners) -> &LeftOut| score.arms.iter().map(of).cloned().collect::<Vec<_>>();
    assert_eq!(left(|pair| &pair.lab_left_out), vec![LeftOut::default(); 4]);
    let proved = LeftOut { proved: vec!["glibc-0".to_owned()], ..LeftOut::default() };
    let none = LeftOut::default();
    assert_eq!(left(|pair| &pair.field_left_out), [proved, none.clone(), none.clone(), none]);
    assert_eq!(score.ages[0].arms[0].field.services, 7);
    // What is proved needs no other figures beside.
    assert_eq!(score.ages[0].as_listed, None);
}

#[test]
fn of_services_that_memory_alone_leaves_out_it_is_told_what_they_would_change() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let lab = of_lab(&[&lab(&arms, 30, 1, 0.0, Tells::Rests)]).unwrap();
    let of = |as_jemalloc: usize, arms: &[Known]| {
        let runs = |arm, service| if arm == 0 && service < as_jemalloc { 1 } else { arm };
        let trial = field_running((arms, 60, 8, 9), |_, _| true, runs);
        Score::of(&lab, &of_field(&trial), &[24.0], &[]).unwrap()
    };
    let score = of(1, &arms);
    let inferred = vec![("glibc-0".to_owned(), Some("jemalloc".to_owned()))];
    assert_eq!(score.arms[0].field_left_out, LeftOut { inferred, ..LeftOut::default() });
    let (at, listed) = (&score.ages[0], score.ages[0].as_listed.as_ref().unwrap());
    assert_eq!(listed.order, at.order_in_field);
    // Of eight relays of glibc one has jemalloc's memory; both with 28 MiB of files.
    let moved = (278.0_f64 / 628.0).powf(1.0 / 8.0);
    assert_eq!(listed.ratios.iter().map(|ratio| ratio.0).collect::<Vec<_>>(), [1, 2, 3]);
    for (arm, ratio) in &listed.ratios {
        let without = at.arms[*arm].field.ratio.unwrap().value;
        assert!((ratio * moved / without - 1.0).abs() < 0.02, "{ratio} {without}");
    }
    // Nothing is hinted at where all have their own arm's memory.
    assert_eq!(of(0, &arms).ages[0].as_listed, None);
}

#[test]
fn a_short_trial_is_compared_at_the_age_that_it_reached() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let lab = of_lab(&[&lab(&arms, 40, 1, 0.0, Tells::Rests)]).unwrap();
    let trial = of_field(&field(&arms, 15, 3, 9));
    let score = Score::of(&lab, &trial, &[], &[]).unwrap();
    assert_eq!(score.ages.iter().map(|at| at.consensuses).collect::<Vec<_>>(), [15.0]);
    assert_eq!(score.left_out.len(), 3);
    // An age that is asked for twice is one.
    let score = Score::of(&lab, &trial, &[12.0, 6.0, 12.0], &[]).unwrap();
    assert_eq!(score.ages.iter().map(|at| at.consensuses).collect::<Vec<_>>(), [6.0, 12.0]);
}

#[test]
fn arms_that_need_the_same_are_in_no_other_order() {
    let arms = known(&[600.0, 200.0, 200.0, 100.0], &[0.0; 4]);
    let runs = [1, 2].map(|seed| lab_read(&arms, 30, seed, (0.0, 0.0), Tells::Rests));
    let trial = field(&known(&[6000.0, 2000.0, 1500.0, 1800.0], &[0.0; 4]), 60, 6, 9);
    let score = Score::of(&of_lab(&[&runs[0], &runs[1]]).unwrap(), &of_field(&trial), &[], &[]).unwrap();
    let at = &score.ages[0];
    assert_eq!((at.pairs, at.pairs_alike, at.pairs_tied), (6, 4, 1));
    assert_eq!(at.order_in_lab, [vec![3], vec![1, 2], vec![0]]);
    assert_eq!(at.unlike.iter().map(|pair| (pair.less, pair.more)).collect::<Vec<_>>(), [(2, 3)]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let arms = known(&[600.0, 250.0, 100.0, 200.0], &[0.0; 4]);
    let trial = field(&arms, 60, 6, 9);
    let field_side = of_field(&trial);
    let said = |error: ScoreError| error.to_string();

    let silent = lab(&arms, 10, 1, 0.0, Tells::Nothing);
    assert!(said(of_lab(&[&silent]).unwrap_err()).contains("how many consensuses"));

    let stranger = [arms[0].clone(), Known { name: "tcmalloc", ..arms[1].clone() }];
    let stranger = of_lab(&[&lab(&stranger, 30, 1, 0.0, Tells::Rests)]).unwrap();
    let error = said(Score::of(&stranger, &field_side, &[], &[]).unwrap_err());
    assert!(error.contains("partner in the field: 1;") && error.contains("\n- `jemalloc` of"), "{error}");
    let by_hand = Score::of(&stranger, &field_side, &[], &["tcmalloc=jemalloc".to_owned()]).unwrap();
    assert_eq!(by_hand.arms[1].by, MatchedBy::Hand);
    assert_eq!(by_hand.alone.iter().map(|arm| arm.arm.as_str()).collect::<Vec<_>>(), &NAMES[2..]);

    let good = lab(&arms, 30, 1, 0.0, Tells::Rests);
    let error = said(Score::of(&of_lab(&[&good]).unwrap(), &field_side, &[48.0], &[]).unwrap_err());
    assert!(error.contains("48 consensuses: glibc of the lab has no level there"), "{error}");

    let error = of_lab(&[&trial]).unwrap_err();
    assert!(said(error).contains("only a lab run of relays"));
    let error = Side::of_field(&good.store, good.trial, &Options::default()).unwrap_err();
    assert!(said(error).contains("against an import or a field trial"));

    // A lab that read RSS beside RssAnon can be compared by it.
    let rss = Side::of_lab(&[(&good.store, good.trial)], Some(Metric::Rss), &Options::default()).unwrap();
    let score = Score::of(&rss, &field_side, &[], &[]).unwrap();
    assert_eq!(score.lab[0].metric, Metric::Rss);
    assert!((score.ages[0].arms[2].lab.level_bytes as f64 / MIB / 128.0 - 1.0).abs() < 0.03);
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
        let run = lab(&in_lab, 50, seed, 0.0, Tells::Rests);
        let trial = field(&in_field, 50, 6, seed);
        let score = Score::of(&of_lab(&[&run]).unwrap(), &of_field(&trial), &[30.0, 48.0], &[]).unwrap();
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
                prop_assert_eq!(at.unlike.len(), order.discordant);
                prop_assert!((at.tau_b.unwrap() - order.tau_b.unwrap()).abs() < 1e-12);
            }
        }
        for growth in &score.growth {
            let (l, f) = (in_lab[growth.arm].growth, in_field[growth.arm].growth);
            let found = growth.lab_bytes_per_hour.unwrap().value / MIB;
            // Noise of 1% of the level over 30 hours.
            prop_assert!((found - l).abs() < 0.1 * l + 0.0006 * in_lab[growth.arm].at(50.0), "{} {}", found, l);
            let found = growth.field_bytes_per_hour.unwrap().value / MIB;
            prop_assert!((found - f).abs() < 0.1 * f + 0.0006 * in_field[growth.arm].at(50.0), "{} {}", found, f);
        }
    }
}
