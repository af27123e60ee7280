//! Trials on a fleet: begun whole, read while they run, rolled up when old.

use heaptrial_model::{KnownEvent, LifeKey, Metric, Sample, SlowSample, TrialKind};
use heaptrial_store::{LookRecord, NewService, NewTrial, RollupHorizon, Store, StoreError, TickInput};

use crate::database::{self, identity};

const MINUTE_US: i64 = 60_000_000;
const DAY_US: i64 = 1440 * MINUTE_US;
const START_US: i64 = 1_800_000_000_000_000;

fn trial(name: &str) -> NewTrial {
    NewTrial {
        name: name.into(),
        kind: TrialKind::Field,
        metric: Metric::Rss,
        started_wall_us: START_US,
        ..database::trial()
    }
}

fn services(count: usize) -> Vec<NewService> {
    let service = |number: usize| NewService {
        name: format!("tor@{number}.service"),
        arm: number % 2,
        block: 0,
        position: number as u32,
        attributes: serde_json::json!({ "server": "one" }),
    };
    (0..count).map(service).collect()
}

fn key(pid: usize) -> LifeKey {
    LifeKey { boot_id: "boot".into(), pid: pid as i32, start_ticks: 77 }
}

/// Memory that jumps about, so that a median is neither the mean nor the middle.
fn bytes(life: usize, tick: i64) -> u64 {
    let noise = (tick as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(life as u64 * 977) >> 33;
    100_000_000 + noise % 50_000_000
}

fn tick(host_id: i64, lives: &[i64], number: i64) -> TickInput {
    let sample = |(index, life): (usize, &i64)| {
        let rss_bytes = bytes(index, number);
        let sample = Sample {
            rss_bytes,
            anon_bytes: rss_bytes / 2,
            swap_bytes: rss_bytes % 1000,
            cpu_us: number as u64 * 100,
            cgroup_current_bytes: Some(rss_bytes + 5),
            ..Sample::default()
        };
        (*life, sample)
    };
    TickInput {
        sequence: number,
        wall_us: START_US + number * MINUTE_US,
        boottime_us: number * MINUTE_US,
        samples: lives.iter().enumerate().map(sample).collect(),
        slow_samples: vec![(
            lives[number as usize % lives.len()],
            SlowSample { pss_bytes: number as u64, ..SlowSample::default() },
        )],
        observations: if number % 10 == 0 {
            lives
                .iter()
                .flat_map(|life| {
                    [(*life, "tor_read_bytes", number as f64), (*life, "up", f64::from(number > 15))]
                })
                .collect()
        } else {
            Vec::new()
        },
        host_id: Some(host_id),
        ..TickInput::default()
    }
}

/// A trial with a life of each service; gives its id, that of the boot and those of the lives.
fn begin(store: &mut Store, count: usize) -> (i64, i64, Vec<i64>) {
    let obtained = [Some(serde_json::json!({ "spec": "glibc" })), None];
    let trial_id = store.begin_field_trial(&trial("five-way"), &obtained, &services(count)).unwrap();
    let host_id = store.add_host("boot", &serde_json::json!({})).unwrap();
    let services = store.services(trial_id).unwrap();
    let lives = services.iter().enumerate().map(|(index, service)| {
        store.add_life(service.id, &key(index), (START_US, 0), Some(&identity()), None).unwrap()
    });
    let lives = lives.collect();
    (trial_id, host_id, lives)
}

#[test]
fn a_field_trial_begins_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let mut wrong = services(2);
    wrong[1].arm = 9;
    store.begin_field_trial(&trial("five-way"), &[None, None], &wrong).unwrap_err();
    assert!(store.trials().unwrap().is_empty());
    let (trial_id, ..) = begin(&mut store, 3);
    assert_eq!(store.arms(trial_id).unwrap()[0].obtained, Some(serde_json::json!({ "spec": "glibc" })));
    let found = store.services(trial_id).unwrap();
    assert_eq!((found.len(), found[1].name.as_str()), (3, "tor@1.service"));
    assert_eq!(found[1].attributes, Some(serde_json::json!({ "server": "one" })));
    let again = store.begin_field_trial(&trial("five-way"), &[], &[]).unwrap_err();
    assert!(matches!(&again, StoreError::NameTaken { name, .. } if name == "five-way"), "{again}");
    assert_eq!(store.running_trials().unwrap().len(), 1);
    store.end_trial(trial_id, START_US + 1, "completed").unwrap();
    assert!(store.running_trials().unwrap().is_empty());
    store.begin_field_trial(&trial("five-way"), &[], &[]).unwrap();
}

#[test]
fn a_name_that_goes_on_is_taken_for_whatever_is_found_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let of = |kind| NewTrial { kind, ..trial("relays") };
    // What the agent calls its own is found by its kind.
    store.begin_field_trial(&of(TrialKind::Host), &[], &[]).unwrap();
    store.begin_field_trial(&of(TrialKind::Field), &[], &[]).unwrap();
    let taken = store.begin_field_trial(&of(TrialKind::Rollout), &[], &[]).unwrap_err().to_string();
    assert!(taken.contains("(field trial)"), "{taken}");
}

#[test]
fn looks_are_kept_as_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let (trial_id, ..) = begin(&mut store, 1);
    let look = |number| LookRecord {
        number,
        planned_us: DAY_US * i64::from(number),
        taken_wall_us: START_US + DAY_US,
        alpha: 0.0125,
        outcome: serde_json::json!({ "ratio": 0.5 }),
    };
    store.add_look(trial_id, &look(2)).unwrap();
    store.add_look(trial_id, &look(1)).unwrap();
    store.add_look(trial_id, &look(1)).unwrap_err();
    assert_eq!(store.looks(trial_id).unwrap(), [look(1), look(2)]);
}

#[test]
fn the_newest_life_is_shown_even_before_its_first_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut store = Store::create(&path).unwrap();
    let (trial_id, host_id, lives) = begin(&mut store, 3);
    let reader = Store::open(&path).unwrap();
    let before = reader.data_version().unwrap();
    store.write_tick(trial_id, &tick(host_id, &lives, 0)).unwrap();
    store.write_tick(trial_id, &tick(host_id, &lives, 1)).unwrap();
    assert_ne!(reader.data_version().unwrap(), before);
    let latest = reader.latest(trial_id).unwrap();
    assert_eq!(latest.len(), 3);
    assert_eq!(latest[1].rss_bytes, Some(bytes(1, 1)));
    assert_eq!(latest[1].identity.as_deref(), Some("glibc ?"));
    assert_eq!(latest[1].age_seconds, 60.0);

    let service = store.services(trial_id).unwrap()[1].id;
    let life =
        store.add_life(service, &key(99), (START_US + 2 * MINUTE_US, 2 * MINUTE_US), None, None).unwrap();
    let latest = reader.latest(trial_id).unwrap();
    assert_eq!((latest[1].life_id, latest[1].rss_bytes, latest[1].age_seconds), (life, None, 0.0));
    store.set_identity(life, Some(&identity()), Some("not the treatment")).unwrap();
    assert_eq!(reader.latest(trial_id).unwrap()[1].contamination.as_deref(), Some("not the treatment"));
    store.add_event(trial_id, Some(service), 1, KnownEvent::Crash, "one").unwrap();
    store.add_event(trial_id, None, 2, KnownEvent::Gap, "two").unwrap();
    let events = reader.events(trial_id).unwrap();
    assert_eq!((events.len(), events[1].kind.as_str()), (2, "gap"));
}

#[test]
fn the_last_events_are_the_last_in_time_and_not_the_last_that_came() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let (trial_id, ..) = begin(&mut store, 1);
    // Of a host that was gathered first, and of one that came later.
    for at in [50, 1, 2, 3] {
        store.add_event(trial_id, None, at, KnownEvent::Note, "told").unwrap();
    }
    let last: Vec<i64> =
        store.recent_events_and(trial_id, 2, &[]).unwrap().iter().map(|event| event.wall_us).collect();
    assert_eq!(last, [50, 3]);
}

/// What the rollup must give, from the generated figures alone.
fn naive(life: usize, ticks: std::ops::Range<i64>) -> (i64, u64, u64) {
    let mut values: Vec<u64> = ticks.clone().map(|number| bytes(life, number)).collect();
    values.sort_unstable();
    let middle = (ticks.start + ticks.end - 1).div_euclid(2);
    let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2;
    (middle, median, *values.last().unwrap())
}

fn roll_up_all(store: &mut Store, trial_id: i64, horizon: &RollupHorizon, limit: u64) -> usize {
    let mut steps = 0;
    while store.roll_up(trial_id, horizon, limit).unwrap().more {
        steps += 1;
        assert!(steps < 10_000, "the rollup never ends");
    }
    steps
}

#[test]
fn old_samples_become_medians_and_maxima() {
    // The limits make a step end within a span of 15 minutes, after one, or after some.
    for limit in [20, 60, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut store = Store::create(&path).unwrap();
        let (trial_id, host_id, lives) = begin(&mut store, 4);
        for number in 0..100 {
            store.write_tick(trial_id, &tick(host_id, &lives, number)).unwrap();
        }
        // Tick 63 lies in the span of ticks 60 to 74, which is therefore left alone.
        let horizon =
            RollupHorizon { wall_us: START_US + 63 * MINUTE_US, host_id, boottime_us: 63 * MINUTE_US };
        // Killed after the first step.
        store.roll_up(trial_id, &horizon, limit).unwrap();
        drop(store);
        let mut store = Store::create(&path).unwrap();
        roll_up_all(&mut store, trial_id, &horizon, limit);
        assert_eq!(store.roll_up(trial_id, &horizon, limit).unwrap(), Default::default());

        for (index, life) in store.lives(trial_id).unwrap().iter().enumerate() {
            let expected: Vec<(f64, u64)> = [0..15, 15..30, 30..45, 45..60]
                .map(|span| naive(index, span))
                .map(|(middle, median, _)| (middle as f64 * 60.0, median))
                .into_iter()
                .chain((60..100).map(|number| (number as f64 * 60.0, bytes(index, number))))
                .collect();
            let series = store.series(life, Metric::Rss).unwrap();
            let found: Vec<(f64, u64)> =
                series.iter().map(|point| (point.age_seconds, point.metric_bytes)).collect();
            assert_eq!(found, expected);
            // A counter is the middle tick's own.
            assert_eq!(series[1].cpu_us, 22 * 100);
            // So is that of observations, of which a span has one or two: it rises by 1 a minute, across all borders.
            let observed = store.observations(life, "tor_read_bytes").unwrap();
            let per_minute = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0) * 60.0;
            let rates: Vec<f64> = observed.windows(2).map(per_minute).collect();
            assert_eq!((observed.len(), rates), (8, vec![1.0; 7]));
            let up = store.observations(life, "up").unwrap();
            assert_eq!(up[..2], [(0.0, 0.0), (20.0 * 60.0, 1.0)]);
            let slow = store.series(life, Metric::Pss).unwrap();
            assert_eq!(slow[0].age_seconds, 7.0 * 60.0);
        }
        let rollups: Vec<(i64, i64, u64)> = {
            let connection = rusqlite::Connection::open(&path).unwrap();
            let sql =
                "SELECT t.sequence, r.samples, r.rss_max_bytes FROM rollup r JOIN tick t ON t.id = r.tick_id
                       WHERE r.life_id = ?1 ORDER BY r.tick_id";
            let mut statement = connection.prepare(sql).unwrap();
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)? as u64));
            statement.query_map([lives[2]], row).unwrap().map(Result::unwrap).collect()
        };
        let expected = [0..15, 15..30, 30..45, 45..60].map(|span| {
            let (middle, _, max) = naive(2, span);
            (middle, 15, max)
        });
        assert_eq!(rollups, expected);
    }
}

#[test]
fn a_clock_set_ahead_rolls_up_nothing_of_the_running_boot() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let (trial_id, host_id, lives) = begin(&mut store, 1);
    for number in 0..40 {
        store.write_tick(trial_id, &tick(host_id, &lives, number)).unwrap();
    }
    let ahead = RollupHorizon {
        wall_us: START_US + 900 * DAY_US,
        host_id,
        boottime_us: 40 * MINUTE_US - 14 * DAY_US,
    };
    assert_eq!(store.roll_up(trial_id, &ahead, 1000).unwrap(), Default::default());
    let next_boot = store.add_host("another", &serde_json::json!({})).unwrap();
    assert!(store.roll_up(trial_id, &RollupHorizon { host_id: next_boot, ..ahead }, 1000).unwrap().more);
}

/// A clock that was wrong for a minute dates a tick in a time to come.
#[test]
fn a_tick_of_a_wrong_clock_stops_no_rolling_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("db")).unwrap();
    let (trial_id, host_id, lives) = begin(&mut store, 1);
    for number in 0..60 {
        let mut tick = tick(host_id, &lives, number);
        if number == 20 {
            tick.wall_us += 3650 * DAY_US;
        }
        store.write_tick(trial_id, &tick).unwrap();
    }
    let next_boot = store.add_host("another", &serde_json::json!({})).unwrap();
    let horizon = RollupHorizon { wall_us: START_US + DAY_US, host_id: next_boot, boottime_us: 0 };
    let mut steps = 0;
    while store.roll_up(trial_id, &horizon, 1000).unwrap().more {
        steps += 1;
    }
    assert_eq!(steps, 4);
}

#[test]
fn two_writers_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut store = Store::create(&path).unwrap();
    let (trial_id, host_id, lives) = begin(&mut store, 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Store::create(&path).unwrap();
            for number in 0..200 {
                other.add_event(trial_id, None, number, KnownEvent::Note, "by another process").unwrap();
                other.latest(trial_id).unwrap();
            }
        });
        for number in 0..200 {
            store.write_tick(trial_id, &tick(host_id, &lives, number)).unwrap();
        }
    });
    assert_eq!(store.events(trial_id).unwrap().len(), 200);
    assert_eq!(store.tick_summary(trial_id).unwrap().ticks, 200);
}
