//! From rows of a database to an alert: a trial and the watch after it, stored as the agent stores them.

use crate::simulation;

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_evaluate::analysis::{DAY, Fleet, UsualWork};
use heaptrial_evaluate::judgement::{Judgement, Options, read_fleet};
use heaptrial_fleet::rollout::{Ratio, usual_level};
use heaptrial_fleet::watch::{AlertKind, FailuresBefore, WatchState, see, stored_name};
use heaptrial_host::systemd::SystemdError;
use heaptrial_model::{Arm, LifeKey, Metric, Sample, Treatment, TrialKind};
use heaptrial_store::{NewService, NewTrial, Store, TickInput};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use simulation::{ARM, BEGIN, Month, Noise, identity, plan, simulate};

const SERVICES: usize = 8;
const TRAFFIC: [&str; 2] = ["tor_read_bytes", "tor_written_bytes"];
/// The boot of the host, in days of the watch.
const BOOT_DAY: f64 = -20.0;

/// So much the wall clock was behind when the lives of a watch began, as after a boot without a battery of the clock.
const BEHIND_US: i64 = 7 * 3_600_000_000;

/// Stores a fleet as a trial of this kind, from a day of the watch on. The first services of it are relays.
fn store_fleet(
    store: &mut Store,
    (name, kind): (&str, TrialKind),
    fleet: &Fleet,
    relays: usize,
    from_day: f64,
) -> i64 {
    let behind_us = if kind == TrialKind::Watch { BEHIND_US } else { 0 };
    let boottime_us = |wall_us: i64| wall_us - ((BEGIN + BOOT_DAY * DAY) * 1e6) as i64;
    let started_wall_us = ((BEGIN + from_day * DAY) * 1e6) as i64;
    let trial = NewTrial {
        name: name.into(),
        kind,
        boot_id: "boot".into(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 1,
        repeats: 1,
        planned_us: 30 * 86_400_000_000,
        arms: vec![Arm { name: ARM.into(), control: true, treatment: Treatment::default() }],
        parameters: serde_json::json!({ "started_boottime_us": boottime_us(started_wall_us) }),
        command: String::new(),
        tool_version: String::new(),
        started_wall_us,
    };
    let service = |(position, of): (usize, &heaptrial_evaluate::analysis::FleetService)| NewService {
        name: of.name.clone(),
        arm: 0,
        block: 0,
        position: position as u32,
        attributes: serde_json::Value::Null,
    };
    let services: Vec<NewService> = fleet.services.iter().enumerate().map(service).collect();
    let trial_id = store.begin_field_trial(&trial, &[None], &services).unwrap();
    let host_id = store.add_host("boot", &serde_json::json!({})).unwrap();
    let mut ticks: BTreeMap<i64, Vec<(i64, Sample)>> = BTreeMap::new();
    let mut pid = 0;
    let mut relaying = BTreeSet::new();
    for (number, (record, of)) in store.services(trial_id).unwrap().iter().zip(&fleet.services).enumerate() {
        for life in &of.lives {
            pid += 1;
            let key = LifeKey { boot_id: "boot".into(), pid, start_ticks: 1 };
            let wall_us = (life.started_at * 1e6) as i64;
            let id = store
                .add_life(
                    record.id,
                    &key,
                    (wall_us - behind_us, boottime_us(wall_us)),
                    Some(&identity()),
                    None,
                )
                .unwrap();
            if number < relays {
                relaying.insert(id);
            }
            for reading in &life.readings {
                // All services are read at the same seconds.
                let second = (life.started_at + f64::from(reading.age_seconds)).round() as i64;
                let rss_bytes = u64::from(reading.kib) * 1024;
                ticks.entry(second).or_default().push((id, Sample { rss_bytes, ..Sample::default() }));
            }
        }
    }
    for ((second, samples), sequence) in ticks.into_iter().zip(0..) {
        let wall_us = second * 1_000_000;
        let tick = TickInput {
            sequence,
            wall_us,
            boottime_us: boottime_us(wall_us),
            // A kilobyte a second each way.
            observations: samples
                .iter()
                .filter(|(id, _)| relaying.contains(id))
                .flat_map(|(id, _)| TRAFFIC.map(|name| (*id, name, second as f64 * 1e3)))
                .collect(),
            samples,
            host_id: Some(host_id),
            ..TickInput::default()
        };
        store.write_tick(trial_id, &tick).unwrap();
    }
    trial_id
}

#[test]
fn a_level_above_the_forecast_is_found_in_stored_readings() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let noise = Noise { restarts: 0.0, gaps: 0.0, ..Noise::default() };
    let raised = |_: usize, day: f64| if day >= 4.0 { 1.4 } else { 1.0 };
    let mut watched = simulate(SERVICES, -10.0, 8.0, &noise, &raised, &mut random);
    let mut trial = watched.clone();
    trial.until(BEGIN);
    let trial_id = store_fleet(&mut store, ("five-way", TrialKind::Field), &trial, SERVICES, -10.0);
    let before = read_fleet(&store, trial_id, &Options::default()).unwrap();
    let ratio = Ratio::of_their_own(&before, 0);
    let bytes: Vec<f64> = before.services.iter().map(|service| usual_level(service).unwrap()).collect();
    assert_eq!(ratio.as_ref().unwrap().services() as usize, SERVICES);

    // The same processes go on, so the watch's ledger has lives older than itself.
    for life in watched.services.iter_mut().flat_map(|service| &mut service.lives) {
        life.readings.retain(|reading| f64::from(reading.age_seconds) >= 10.0 * DAY);
    }
    let name = stored_name("five-way");
    let watch_id = store_fleet(&mut store, (&name, TrialKind::Watch), &watched, SERVICES, 0.0);
    let running: Vec<i64> = store.running_trials().unwrap().iter().map(|trial| trial.id).collect();
    assert_eq!(running, [trial_id, watch_id]);
    let mut plan = plan((ratio, &bytes), FailuresBefore::default());
    plan.trial_id = watch_id;

    let fleet = read_fleet(&store, watch_id, &Options::default()).unwrap();
    let mut state = WatchState::default();
    let mut kinds_on = |day: f64| -> Vec<AlertKind> {
        let seen = Month::quiet(SERVICES).seen(&plan, &fleet, &[], day);
        state.check(&plan, &seen, Some(&fleet));
        state.pending.drain(..).map(|own| own.alert.kind).collect()
    };
    assert_eq!(kinds_on(3.0), []);
    assert_eq!(kinds_on(5.0), [AlertKind::Level]);
    assert_eq!(kinds_on(6.0), [], "it stands and is not reported again");

    let found = Judgement::of(&store, watch_id, &Options::default()).unwrap();
    assert_eq!((found.rows.trial.plan.name.as_str(), found.arms.len()), ("five-way+watch", 1));
}

#[test]
fn a_check_sees_what_lies_in_swap_and_since_when_a_relay_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let noise = Noise { restarts: 0.0, gaps: 0.0, ..Noise::default() };
    let mut watched = simulate(3, 0.0, 1.0, &noise, &|_, _| 1.0, &mut random);
    watched.services.iter_mut().for_each(|service| service.lives.truncate(1));
    // The first is a relay, which reports nothing from then on. The second one was a relay before, and the third never.
    let name = stored_name("five-way");
    let trial_id = store_fleet(&mut store, (&name, TrialKind::Watch), &watched, 1, 0.0);
    let lives = store.lives(trial_id).unwrap();
    let last = store.last_tick(trial_id).unwrap().unwrap();
    let tick = TickInput {
        sequence: last.sequence + 1,
        wall_us: last.wall_us + 7_200_000_000,
        boottime_us: last.boottime_us + 7_200_000_000,
        samples: lives
            .iter()
            .map(|life| {
                (life.id, Sample { rss_bytes: 500, anon_bytes: 400, swap_bytes: 550, ..Sample::default() })
            })
            .collect(),
        ..TickInput::default()
    };
    store.write_tick(trial_id, &tick).unwrap();
    let mut plan = plan((None, &[1e9; 3]), FailuresBefore::default());
    (plan.trial_id, plan.metric) = (trial_id, Metric::Anon);
    plan.services[1].usual_work = Some(UsualWork { bytes_per_second: 2e3, by_hour: Vec::new() });
    let unreachable = SystemdError::Connect("none".into());
    let seen = see(&plan, Err(&unreachable), Ok(&store), tick.wall_us as f64 / 1e6);
    let first = &seen.services[0];
    assert_eq!((first.bytes, first.swap_bytes), (Some(950.0), 550.0));
    let since: Vec<Option<f64>> = seen.services.iter().map(|service| service.unanswered_since).collect();
    // The last answer; the start of a life that never gave one though the relay did before; nothing of what is no relay.
    assert_eq!(since, [Some(last.wall_us as f64 / 1e6), Some(BEGIN), None]);
    let answered = |life: usize| store.was_observed(lives[life].id, TRAFFIC[0]).unwrap();
    assert_eq!([answered(0), answered(1), answered(2)], [true, false, false]);
    // Another metric is of what lies in memory alone.
    plan.metric = Metric::Rss;
    let seen = see(&plan, Err(&unreachable), Ok(&store), tick.wall_us as f64 / 1e6);
    assert_eq!((seen.services[0].bytes, seen.services[0].swap_bytes), (Some(500.0), 0.0));
}
