//! Looks at a trial: what is cut off, what takes a service out of its arm, and how often looks err.

use crate::build;

use build::{BEGIN, DAY, add_arm, fleet, life, own, run};
use heaptrial_evaluate::analysis::{
    Counts, Decision, Flag, Fleet, FleetEvent, LimitKind, LookStanding, Measure, Settings, Verdict, Work,
    look,
};
use heaptrial_model::{Reading, TorFlag};
use heaptrial_stats::look_alphas;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

fn event(service: usize, days: f64, kind: &str) -> FleetEvent {
    FleetEvent {
        host: None,
        at: BEGIN + days * DAY,
        arm: None,
        service: Some(service),
        kind: kind.into(),
        changes_treatment: false,
        text: String::new(),
    }
}

#[test]
fn what_came_after_a_look_is_left_out() {
    let mut whole = fleet(&[(4, &|_| 4.0), (4, &|_| 1.0)]);
    whole.services[0].lives.push(life(0, 6.0, 8.0, |_| 4.0));
    whole.services[1].lives[0].contamination = Some("since day 5".to_owned());
    whole.events = vec![event(1, 5.0, "identity_change"), event(2, 2.0, "crash"), event(2, 4.0, "crash")];
    whole.services[3].lives[0].contamination = Some("from its start".to_owned());
    whole.services[4].lives[0].work = Work {
        measures: vec![
            Measure::traffic(vec![(1e5, 1.0), (3e5, 2.0)]),
            Measure::failed("clients", vec![(1e5, 0.0)], vec![(1e5, 7.0), (3e5, 9.0)]),
        ],
        oom_bytes: vec![(1.0, 0.0), (4e5, 9.0)],
        flags: vec![
            Flag { name: TorFlag::Guard, changes: vec![(1e5, true), (3e5, false)] },
            Flag { name: TorFlag::HSDir, changes: vec![(4e5, true)] },
        ],
        ..Work::default()
    };
    let mut cut = whole.clone();
    cut.until(BEGIN + 3.0 * DAY);
    assert!(
        cut.services.iter().flat_map(|service| &service.lives).all(|life| life.last_age() <= Some(3.0 * DAY))
    );
    assert_eq!(cut.services[0].lives.len(), 1);
    assert_eq!(cut.services[0].lives[0].readings.len(), 13);
    assert_eq!((&cut.services[1].lives[0].contamination, cut.events.len()), (&None, 1));
    assert_eq!(cut.services[3].lives[0].contamination.as_deref(), Some("from its start"));
    let work = &cut.services[4].lives[0].work;
    assert_eq!((work.measures[0].counter.len(), work.oom_bytes.len(), work.flags.len()), (1, 1, 1));
    assert_eq!(work.measures[1].counts, Counts::Failed { tried: vec![(1e5, 7.0)] });
    assert_eq!(work.flags[0].changes, [(1e5, true)]);
    // Later, the change had happened.
    whole.until(BEGIN + 5.5 * DAY);
    assert!(whole.services[1].lives[0].contamination.is_some());
}

#[test]
fn only_proof_takes_a_service_out_of_an_arm_that_was_drawn() {
    let mut fleet = fleet(&[(8, &|_| 4.0), (8, &|_| 1.0)]);
    for service in 8..10 {
        fleet.services[service].lives = vec![life(service, 0.0, 8.0, |_| own(service) * 4.0)];
    }
    let off_treatment =
        |fleet: &Fleet| run(fleet).services.iter().filter(|s| !s.off_treatment_in.is_empty()).count();
    assert_eq!(off_treatment(&fleet), 2);
    fleet.identities_proved = true;
    assert_eq!(off_treatment(&fleet), 0);
    fleet.services[8].lives[0].contamination = Some("glibc".to_owned());
    assert_eq!(off_treatment(&fleet), 1);
}

#[test]
fn an_average_over_time_never_holds_a_contaminated_life() {
    let mut fleet = fleet(&[(6, &|_| 4.0)]);
    let restarted = add_arm(&mut fleet, 6, |seed| {
        (0..4).map(|n| life(seed, f64::from(n) * 2.0, f64::from(n) * 2.0 + 1.9, |_| 3.0)).collect()
    });
    fleet.arms[restarted].restarted = true;
    fleet.identities_proved = true;
    fleet.services[7].lives[1].contamination = Some("another build".to_owned());
    let analysis = run(&fleet);
    assert!(analysis.services[7].off_treatment_in[0].proved);
    assert_eq!((analysis.arms[1].events.lives, analysis.arms[1].events.contaminated_lives), (24, 1));
}

#[test]
fn a_limit_is_held_against_the_memory_of_whoever_has_it() {
    let mut fleet = fleet(&[(6, &|_| 4.0), (6, &|age| 4.0 + 0.5 * age)]);
    for service in &mut fleet.services {
        service.limit_bytes = Some(60.0 * build::GIB);
    }
    // Half the memory of its arm, and a limit that is below what the others have.
    let last = fleet.services.len() - 1;
    for reading in fleet.services[last].lives.iter_mut().flat_map(|life| &mut life.readings) {
        reading.kib /= 2;
    }
    fleet.services[last].limit_bytes = Some(7.0 * build::GIB);
    let verdict = run(&fleet).arms[1].verdict.clone();
    let Some(Verdict::Bloating { days_until_full: days, limit: LimitKind::OwnLimit }) = verdict else {
        panic!("{verdict:?}");
    };
    // The 3 GiB that it has left, at half a GiB a day.
    assert!((5.0..7.5).contains(&days.value), "{days:?}");
}

#[test]
fn the_least_limit_of_its_services_is_an_arms() {
    let mut fleet = fleet(&[(6, &|_| 4.0), (6, &|age| 4.0 + 0.5 * age)]);
    for (index, service) in fleet.services.iter_mut().enumerate() {
        service.limit_bytes = Some((20.0 + index as f64) * build::GIB);
    }
    let verdict = run(&fleet).arms[1].verdict.clone();
    let Some(Verdict::Growing { days_until_full: Some(days), limit: Some(LimitKind::OwnLimit) }) = verdict
    else {
        panic!("{verdict:?}");
    };
    // From about 8 GiB at half a GiB a day to the 26 GiB of the arm's first service, not to the 20 of the control's.
    assert!((33.0..40.0).contains(&days.value), "{days:?}");
}

/// A trial of three arms in blocks, without any difference, looked at four times. Levels wander, so that a look sees
/// something else than the one before.
fn trial_without_effect(random: &mut ChaCha8Rng, blocks: usize) -> Fleet {
    let mut fleet =
        Fleet { randomised: true, identities_proved: true, seed: random.random(), ..Fleet::default() };
    for _ in 0..3 {
        add_arm(&mut fleet, blocks, |_| Vec::new());
    }
    let mut normal = |spread: f64| -> f64 {
        let value: f64 = StandardNormal.sample(random);
        spread * value
    };
    let levels: Vec<f64> = (0..blocks).map(|_| normal(0.5)).collect();
    for (index, service) in fleet.services.iter_mut().enumerate() {
        service.block = (index % blocks) as u32;
        let mut log = 14.0 + levels[index % blocks] + normal(0.03);
        let readings = (1..=32).map(|step| {
            log += normal(0.02);
            Reading { age_seconds: step as f32 * 21_600.0, kib: log.exp() as u32 }
        });
        let mut new = life(index, 0.0, 0.0, |_| 1.0);
        new.readings = readings.collect();
        new.proved = true;
        service.lives.push(new);
    }
    fleet
}

#[test]
fn the_looks_of_a_trial_without_effect_err_in_at_most_a_twentieth() {
    const TRIALS: u32 = if cfg!(debug_assertions) { 40 } else { 1500 };
    let days = [2.0, 4.0, 6.0, 8.0];
    let alphas = look_alphas(&days.map(|day| day / 8.0), 0.05).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(20_261_123);
    let settings = Settings { window_seconds: DAY, ..Settings::default() };
    let (mut wrong, mut naive) = (0, 0);
    for _ in 0..TRIALS {
        let fleet = trial_without_effect(&mut random, 7);
        let mut before = Vec::new();
        let mut at_any_naive = false;
        for (day, alpha) in days.iter().zip(&alphas) {
            let mut now = fleet.clone();
            now.until(BEGIN + day * DAY);
            let found = look(&now, &settings, *alpha, false, &before);
            before = found.arms.iter().map(|arm| arm.standing).collect();
            at_any_naive |= look(&now, &settings, 0.05, false, &[]).decision == Decision::Difference;
        }
        let shown = |standing: &LookStanding| matches!(standing, LookStanding::Less | LookStanding::More);
        wrong += u32::from(before.iter().any(shown));
        naive += u32::from(at_any_naive);
    }
    let share = |count: u32| f64::from(count) / f64::from(TRIALS);
    println!(
        "two arms, four looks: planned looks {:.4}, naive looks {:.4} of {TRIALS}",
        share(wrong),
        share(naive)
    );
    let error = (0.05 * 0.95 / f64::from(TRIALS)).sqrt();
    assert!(share(wrong) <= 0.05 + 2.5 * error, "{wrong} of {TRIALS}");
    assert!(naive > wrong, "{naive} and {wrong} of {TRIALS}");
}
