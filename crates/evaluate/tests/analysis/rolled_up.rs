//! Fleets whose older readings were rolled up are judged as those of which none was.

use crate::build;

use build::{BEGIN, DAY, GIB, add_arm, find, names, own, run};
use heaptrial_evaluate::analysis::{FindingKind, Fleet, FleetLife, Work};
use heaptrial_model::{LifeStart, Reading};

const MINUTES_A_DAY: usize = 1440;
/// Days of which readings are medians of 15 minutes, and of all.
const ROLLED_UP_DAYS: usize = 16;
const DAYS: usize = 30;

/// A life from a day on, read every so many minutes, with memory in GiB by day.
fn life(seed: usize, from_day: usize, every: usize, gib: impl Fn(f64) -> f64) -> FleetLife {
    let raw_from = ROLLED_UP_DAYS * MINUTES_A_DAY;
    let kept = (from_day * MINUTES_A_DAY..DAYS * MINUTES_A_DAY)
        .filter(|minute| if *minute < raw_from { minute % 15 == 7 } else { minute % every == 0 });
    let reading = |minute: usize| {
        let wiggle = 0.002 * ((seed * 7919 + minute * 104_729) as f64 * 0.618).sin();
        let gib = gib(minute as f64 / MINUTES_A_DAY as f64) * own(seed) * (1.0 + wiggle);
        Reading {
            age_seconds: (minute - from_day * MINUTES_A_DAY) as f32 * 60.0,
            kib: (gib * GIB / 1024.0) as u32,
        }
    };
    FleetLife {
        started_at: BEGIN + from_day as f64 * DAY,
        start: LifeStart::Observed,
        contamination: None,
        proved: false,
        readings: kept.map(reading).collect(),
        rolled_up_seconds: if from_day < ROLLED_UP_DAYS { 900.0 } else { 0.0 },
        peaks: Vec::new(),
        work: Work::default(),
    }
}

#[test]
fn a_service_lacks_no_samples_for_having_been_rolled_up() {
    let mut fleet = Fleet { randomised: true, seed: 7, ..Fleet::default() };
    // Most were restarted when nothing of today was rolled up yet; one is read every second time.
    let lives = |seed| match seed {
        0..5 => vec![life(seed, 25, 1, |_| 2.0)],
        5 => vec![life(seed, 25, 2, |_| 2.0)],
        _ => vec![life(seed, 0, 1, |_| 2.0)],
    };
    add_arm(&mut fleet, 9, lives);
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::LacksSamples).expect("one lacks samples");
    assert_eq!(names(found), ["s5"]);
}

/// A store of series has all readings at one distance: what is missing there is missing.
#[test]
fn where_all_was_rolled_up_a_service_may_lack_samples() {
    let mut fleet = Fleet { randomised: true, seed: 7, ..Fleet::default() };
    let lives = |seed| {
        let mut life = life(seed, 0, 1, |_| 2.0);
        let kept = |reading: &Reading| {
            let span = (reading.age_seconds / 900.0) as usize;
            (reading.age_seconds as usize / 60) % 15 == 7 && (seed != 3 || span % 2 == 0)
        };
        life.readings.retain(kept);
        vec![life]
    };
    add_arm(&mut fleet, 6, lives);
    let analysis = run(&fleet);
    let found = find(&analysis, FindingKind::LacksSamples).expect("one lacks samples");
    assert_eq!(names(found), ["s3"]);
}
