//! Trials in variety, each judged and held against what can be computed from its readings directly.

use crate::simulation;

use heaptrial_evaluate::analysis::{Analysis, Basis, Fleet, Settings, WorkStanding, analyse};
use rayon::prelude::*;
use simulation::trials::{Trial, draw};

const KIB: f64 = 1024.0;

fn trials() -> u64 {
    if cfg!(debug_assertions) { 120 } else { 1_000 }
}

fn judged(plain: bool) -> Vec<(Trial, Analysis)> {
    let judge = |seed| {
        let trial = draw(seed, plain);
        let analysis = analyse(&trial.fleet, &Settings::default());
        (trial, analysis)
    };
    (0..trials()).into_par_iter().map(judge).collect()
}

/// Last readings of an arm's services that are no off-treatment services in it, by service, in bytes.
fn last_readings(fleet: &Fleet, analysis: &Analysis, arm: usize) -> Vec<(usize, f64)> {
    let belongs = |index: &usize| {
        let strange =
            analysis.services[*index].off_treatment_in.iter().any(|off_treatment| off_treatment.arm == arm);
        fleet.services[*index].arms.contains(&arm) && !strange
    };
    (0..fleet.services.len())
        .filter(belongs)
        .filter_map(|index| {
            let mut read = fleet.services[index].lives.iter().filter_map(|life| life.readings.last());
            Some((index, f64::from(read.next_back()?.kib) * KIB))
        })
        .filter(|(_, bytes)| *bytes > 0.0)
        .collect()
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

fn same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

/// A number that is none, in whatever place of the outcome.
fn odd_number(analysis: &Analysis) -> Option<String> {
    let text = format!("{analysis:?}");
    let word = |word: &&str| *word == "NaN" || *word == "inf";
    let found = text.split(|c: char| !c.is_alphanumeric()).find(word)?;
    let place = text.find(&format!(" {found}")).or_else(|| text.find(&format!("({found}")))?;
    Some(text[place.saturating_sub(300)..place + 10].to_owned())
}

#[test]
fn no_outcome_holds_a_number_that_is_none() {
    for (trial, analysis) in judged(false) {
        assert_eq!(odd_number(&analysis), None, "{}", trial.kind);
    }
}

#[test]
fn superlatives_agree_with_the_readings() {
    let mut seen = [0; 3];
    for (trial, analysis) in judged(false) {
        let (fleet, extremes) = (&trial.fleet, &analysis.extremes);
        let last: Vec<Vec<(usize, f64)>> =
            (0..fleet.arms.len()).map(|arm| last_readings(fleet, &analysis, arm)).collect();
        // Every arm with a reading has a place, every other one is named.
        for (arm, readings) in last.iter().enumerate() {
            assert_eq!(readings.is_empty(), extremes.without_reading.contains(&arm), "{}", trial.kind);
            assert_eq!(readings.is_empty(), extremes.place(arm).is_none(), "{}", trial.kind);
        }
        for place in &extremes.order {
            let bytes = |value: fn(&heaptrial_evaluate::analysis::ServiceResult) -> Option<f64>| -> Vec<f64> {
                last[place.arm].iter().filter_map(|(index, _)| value(&analysis.services[*index])).collect()
            };
            let geometric = |values: &[f64]| {
                (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
            };
            let expected = match extremes.basis {
                Basis::LastReadings => middle(last[place.arm].iter().map(|own| own.1).collect()),
                Basis::LevelAtEqualAge { .. } => geometric(&bytes(|service| service.level_bytes)),
                Basis::AverageOverTime => geometric(&bytes(|service| service.time_average_bytes)),
            };
            assert!(same(place.bytes, expected), "{place:?} {expected} {}", trial.kind);
            assert_eq!(place.ranked, place.work != Some(WorkStanding::ClearlyLess));
        }
        seen[match extremes.basis {
            Basis::LastReadings => 0,
            Basis::LevelAtEqualAge { .. } => 1,
            Basis::AverageOverTime => 2,
        }] += 1;
        // Within blocks arms stand by their ratios, where all have one.
        let ratio = |arm: usize| -> Option<f64> {
            let result = &analysis.arms[arm];
            let figures = result.as_treated.as_ref().unwrap_or(&result.as_assigned);
            if fleet.arms[arm].control { Some(1.0) } else { Some(figures.ratio.as_ref()?.estimate.value) }
        };
        let blocks: std::collections::BTreeSet<u32> = fleet.services.iter().map(|own| own.block).collect();
        let within = matches!(extremes.basis, Basis::LevelAtEqualAge { .. })
            && blocks.len() > 1
            && extremes.order.iter().all(|place| ratio(place.arm).is_some());
        let figure =
            |arm: usize| if within { ratio(arm).unwrap() } else { extremes.place(arm).unwrap().bytes };
        assert!(extremes.order.is_sorted_by(|a, b| figure(a.arm) <= figure(b.arm)));
        let ranked: Vec<_> = extremes.order.iter().filter(|place| place.ranked).collect();
        assert_eq!(extremes.least.is_some(), ranked.len() >= 2);
        if let (Some(least), Some(most)) = (extremes.least, extremes.most) {
            let between = |arm: usize| figure(least) <= figure(arm) && figure(arm) <= figure(most);
            assert!(ranked.iter().all(|place| between(place.arm)));
        }
        levels_lie_among_readings(&trial, &analysis);
    }
    // Of each kind there were many.
    assert!(seen.iter().all(|count| *count >= trials() / 20), "{seen:?}");
}

/// A level lies between the least and the highest reading around its window.
fn levels_lie_among_readings(trial: &Trial, analysis: &Analysis) {
    let Some(matched) = analysis.matched_age_seconds else { return };
    for (service, result) in trial.fleet.services.iter().zip(&analysis.services) {
        let restarted = service.arms.iter().any(|arm| trial.fleet.arms[*arm].restarted);
        let Some(level) = result.level_bytes.filter(|_| !restarted) else { continue };
        let life = service.lives.iter().rev().find(|life| !life.readings.is_empty()).unwrap();
        let from = matched - analysis.settings.window_seconds.min(matched / 2.0);
        let first = life.readings.partition_point(|r| f64::from(r.age_seconds) < from).saturating_sub(1);
        let end = life.readings.partition_point(|r| f64::from(r.age_seconds) <= matched * 1.01) + 1;
        let near = life.readings[first..end.min(life.readings.len())].iter().map(|r| f64::from(r.kib) * KIB);
        let (low, high) = near.fold((f64::INFINITY, 0.0_f64), |ends, b| (ends.0.min(b), ends.1.max(b)));
        assert!(low * 0.999 <= level && level <= high * 1.001, "{level} {low} {high} {}", trial.kind);
    }
}

/// Counts of a share that is promised, against the limit that a binomial count exceeds once in 1,000 times.
#[derive(Default)]
struct Held {
    held: f64,
    of: f64,
}

impl Held {
    fn add(&mut self, held: bool) {
        self.held += f64::from(u8::from(held));
        self.of += 1.0;
    }

    #[track_caller]
    fn at_least(&self, what: &str, share: f64) {
        println!("{what}: {} of {} ({:.2}%)", self.held, self.of, 100.0 * self.held / self.of);
        let error = (share * (1.0 - share) / self.of).sqrt();
        assert!(self.of >= 20.0 && self.held / self.of >= share - 3.1 * error, "{what}");
    }
}

#[test]
fn known_truths_are_held() {
    let (mut ratios, mut slopes, mut works) = (Held::default(), Held::default(), Held::default());
    let (mut less, mut wrongly_less) = (Held::default(), 0);
    for (trial, analysis) in judged(true) {
        for (arm, result) in analysis.arms.iter().enumerate() {
            let (truth, control) = (trial.truth[arm], trial.truth[0]);
            if let (Some(slope), Some((low, high))) =
                (truth.slope, result.growth.as_ref().and_then(|growth| growth.share_per_day.interval()))
            {
                slopes.add(low <= slope && slope <= high);
            }
            if arm == 0 {
                continue;
            }
            let interval = |ratio: &heaptrial_evaluate::analysis::RatioToControl| ratio.estimate.interval();
            if let (Some(a), Some(b), Some((low, high))) =
                (truth.log_level, control.log_level, result.treated().ratio.as_ref().and_then(interval))
            {
                ratios.add(low.ln() <= a - b && a - b <= high.ln());
            }
            if let (Some(a), Some(b)) = (truth.work, control.work) {
                let work = result.work.as_ref().unwrap();
                let (low, high) = work.measures[0].ratio.as_ref().and_then(interval).unwrap();
                works.add(low <= a / b && a / b <= high);
                let told = work.standing == WorkStanding::ClearlyLess;
                if a / b < 0.5 {
                    less.add(told);
                }
                wrongly_less += u32::from(told && a / b >= 0.9);
            }
        }
    }
    ratios.at_least("ratio", 0.95);
    slopes.at_least("growth", 0.95);
    works.at_least("work", 0.95);
    less.at_least("less than half of the work", 0.99);
    assert_eq!(wrongly_less, 0);
}
