//! Field trials as their hosts recorded them, one by one and gathered: what is known of their readings.

use std::path::{Path, PathBuf};

use heaptrial_evaluate::analysis::FindingKind;
use heaptrial_evaluate::judgement::look::{Gaps, take};
use heaptrial_evaluate::judgement::{Judgement, JudgementError, Options, Rows};
use heaptrial_model::{LifeKey, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, PartOf, RollupHorizon, Store, TickInput};
use serde_json::{Value, json};

const START_US: i64 = 1_800_000_000_000_000;
const MINUTE_US: i64 = 60_000_000;
const ARMS: [&str; 2] = ["glibc", "glibc?arena_max=1"];

fn plan(hosts: &[&str]) -> Value {
    let services = hosts.iter().flat_map(|host| {
        ARMS.iter().enumerate().map(move |(number, arm)| {
            json!({ "service": format!("tor@{number}.service"), "host": host, "arm": arm, "block": 0, "stratum": "relay" })
        })
    });
    json!({ "name": "fleet", "id": "0123456789abcdef", "tool_version": "", "seed": 7, "metric": "rss", "pace": {}, "arms": [], "builds": {},
            "services": services.collect::<Vec<_>>(), "looks": ["10h"], "duration": "10h" })
}

/// A boot: its number, when its services began, and when they were read, in minutes since the start.
type Boot = (u32, i64, Vec<i64>);

/// The database of a host that was read at these minutes since the start.
fn host(folder: &Path, plan: &Value, name: &str, minutes: impl Iterator<Item = i64>) -> PathBuf {
    host_of_boots(&folder.join(format!("{name}.db")), plan, name, 0, &[(0, 0, minutes.collect())])
}

/// The database of a host that recorded the trial from a minute on.
fn host_of_boots(path: &Path, plan: &Value, name: &str, recorded_from: i64, boots: &[Boot]) -> PathBuf {
    host_by_clock(path, plan, name, recorded_from, boots, &|minute| minute)
}

/// The same of a host whose clock tells some minutes as others.
fn host_by_clock(
    path: &Path,
    plan: &Value,
    name: &str,
    recorded_from: i64,
    boots: &[Boot],
    clock: &dyn Fn(i64) -> i64,
) -> PathBuf {
    let specs = ARMS.map(|arm| arm.parse().unwrap());
    let boot_id = |boot: u32| format!("boot {boot} of {name}");
    let trial = NewTrial {
        name: "fleet".into(),
        kind: TrialKind::Field,
        boot_id: boot_id(0),
        host_facts: json!({}),
        metric: Metric::Rss,
        seed: 7,
        repeats: 1,
        planned_us: 600 * MINUTE_US,
        arms: TrialPlan::from_specs("fleet", &specs).unwrap().arms,
        parameters: json!({ "plan": plan, "host": name }),
        command: "heaptrial trial start fleet".into(),
        tool_version: "0.1.0".into(),
        started_wall_us: START_US + recorded_from * MINUTE_US,
    };
    let service = |number: usize| NewService {
        name: format!("tor@{number}.service"),
        arm: number,
        block: 0,
        position: number as u32,
        attributes: Value::Null,
    };
    let mut store = Store::create(path).unwrap();
    let trial_id = store.begin_field_trial(&trial, &[None, None], &[service(0), service(1)]).unwrap();
    let services = store.services(trial_id).unwrap();
    let mut sequence = 0;
    for (boot, start, minutes) in boots {
        let host_id = store.add_host(&boot_id(*boot), &json!({})).unwrap();
        let begin = |service: &heaptrial_store::ServiceRecord| {
            let key = LifeKey { boot_id: boot_id(*boot), pid: service.id as i32, start_ticks: 1 };
            let at = (START_US + clock(*start) * MINUTE_US, start * MINUTE_US);
            store.add_life(service.id, &key, at, None, None).unwrap()
        };
        let lives: Vec<i64> = services.iter().map(begin).collect();
        for minute in minutes {
            let sample = |life: &i64| (*life, Sample { rss_bytes: 1 << 30, ..Sample::default() });
            let tick = TickInput {
                sequence,
                wall_us: START_US + clock(*minute) * MINUTE_US,
                boottime_us: minute * MINUTE_US,
                samples: lives.iter().map(sample).collect(),
                observations: lives.iter().map(|life| (*life, "tor_read_bytes", *minute as f64)).collect(),
                host_id: Some(host_id),
                ..TickInput::default()
            };
            store.write_tick(trial_id, &tick).unwrap();
            sequence += 1;
        }
    }
    path.to_owned()
}

/// Takes a host's database into that of all.
fn gather(store: &mut Store, plan: &Value, host: &str, path: &Path) -> i64 {
    let part = PartOf {
        host,
        trial_id: 1,
        plan: &serde_json::from_value(plan.clone()).unwrap(),
        now_us: START_US + 900 * MINUTE_US,
        verified: false,
        replace: false,
    };
    store.gather(path, &part).unwrap().trial_id
}

/// Whether a look after ten hours is taken of two hosts that were read at these minutes.
fn is_taken(of_a: impl Iterator<Item = i64>, of_b: impl Iterator<Item = i64>) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&["a", "b"]);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    gather(&mut store, &plan, "a", &host(folder.path(), &plan, "a", of_a));
    let trial_id = gather(&mut store, &plan, "b", &host(folder.path(), &plan, "b", of_b));
    match take(&store, trial_id, 1, START_US + 900 * MINUTE_US, Gaps::Refused, &Options::default()) {
        Ok(look) => {
            assert_eq!(look.reach.gap_seconds, None);
            true
        }
        Err(JudgementError::LookGap { what, .. }) => {
            assert!(what.contains("on host `b`"), "{what}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_look_reaches_as_far_as_the_readings_of_each_host_by_itself() {
    let hourly = |minutes: std::ops::RangeInclusive<i64>| minutes.step_by(60);
    // Three of its own hours, though the two together are read every half an hour.
    assert!(is_taken(hourly(0..=660), hourly(30..=420)));
    assert!(!is_taken(hourly(0..=660), hourly(30..=240)));
    // It was read again when the look was over, and not before it.
    assert!(!is_taken(hourly(0..=660), hourly(30..=210).chain(hourly(630..=690))));
}

#[test]
fn lives_are_rolled_up_where_their_readings_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = host(folder.path(), &plan(&["a"]), "a", 0..120);
    let mut store = Store::create(&path).unwrap();
    let spans = |store: &Store| -> Vec<f64> {
        let fleet = Rows::read(store, 1).unwrap().fleet(store, &Options::default()).unwrap();
        fleet.services.iter().flat_map(|service| &service.lives).map(|life| life.rolled_up_seconds).collect()
    };
    assert_eq!(spans(&store), [0.0, 0.0]);
    let horizon =
        RollupHorizon { wall_us: START_US + 60 * MINUTE_US, host_id: 1, boottime_us: 60 * MINUTE_US };
    while store.roll_up(1, &horizon, 1000).unwrap().more {}
    assert_eq!(spans(&store), [900.0, 900.0]);
}

/// Boots of different hosts have clocks of their own.
#[test]
fn a_gap_of_one_host_is_none_that_services_of_another_fill() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&["a", "b"]);
    let minutes = |range: std::ops::RangeInclusive<i64>| range.step_by(10);
    let a = host(folder.path(), &plan, "a", minutes(0..=60).chain(minutes(360..=400)));
    let b = [(0, 200, minutes(200..=400).collect())];
    let b = host_of_boots(&folder.path().join("b.db"), &plan, "b", 0, &b);
    let mut store = Store::create(&folder.path().join("all.db")).unwrap();
    gather(&mut store, &plan, "a", &a);
    let trial_id = gather(&mut store, &plan, "b", &b);
    assert_eq!(store.tick_summary(trial_id).unwrap().longest_gap_us, 300 * 60_000_000);
}

/// What was read before the trial's end on a host is taken in, whatever its clock said; what was read after it is not.
#[test]
fn the_end_on_a_host_is_told_by_order_and_not_by_its_clock() {
    let plan = plan(&["a"]);
    let right: fn(i64) -> i64 = |minute| minute;
    let ahead_at_first: fn(i64) -> i64 = |minute| minute + if minute < 40 { 14_400 } else { 0 };
    let behind_at_last: fn(i64) -> i64 = |minute| minute - if minute > 90 { 43_200 } else { 0 };
    for (clock, boots, ended, taken) in [
        (right, vec![(0, 0, (0..=100).step_by(10).collect())], 60, 7),
        (
            ahead_at_first,
            vec![(0, 0, (0..=30).step_by(10).collect()), (1, 35, (40..=100).step_by(10).collect())],
            100,
            11,
        ),
        (behind_at_last, vec![(0, 0, (0..=90).step_by(10).collect()), (1, 92, vec![100, 110])], 110, 12),
        // It was ended before anything was read by that clock.
        (behind_at_last, vec![(0, 0, (0..=90).step_by(10).collect())], 95, 10),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let own = host_by_clock(&folder.path().join("a.db"), &plan, "a", 0, &boots, &clock);
        Store::open_for_writing(&own)
            .unwrap()
            .end_trial(1, START_US + clock(ended) * MINUTE_US, "completed")
            .unwrap();
        let mut store = Store::create(&folder.path().join("all.db")).unwrap();
        let trial_id = gather(&mut store, &plan, "a", &own);
        let samples = store.tick_summary(trial_id).unwrap().samples;
        assert_eq!(samples, 2 * taken, "{boots:?}");
        assert_eq!(store.lives(trial_id).unwrap().len(), 2 * boots.len());
    }
}

#[test]
fn a_host_that_was_never_read_or_no_more_is_missing() {
    let plan = plan(&["a", "b"]);
    let days = |last: i64| (0..=last).step_by(60).collect::<Vec<i64>>();
    for (read, told) in [
        (days(9_000), None),
        (days(8_900), None),
        (days(3_000), Some("there are no readings of b for the last 4 d 4 h before its end")),
        (Vec::new(), Some("there are no readings of b")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(&folder.path().join("all.db")).unwrap();
        let mut trial_id = 0;
        for (name, read) in [("a", days(9_000)), ("b", read)] {
            // Services go on where nobody reads them; a life is known by its first reading.
            let boots = if read.is_empty() { Vec::new() } else { vec![(0, 0, read)] };
            let own = host_of_boots(&folder.path().join(format!("{name}.db")), &plan, name, 0, &boots);
            Store::open_for_writing(&own)
                .unwrap()
                .end_trial(1, START_US + 9_000 * MINUTE_US, "completed")
                .unwrap();
            trial_id = gather(&mut store, &plan, name, &own);
        }
        let judgement = Judgement::of(&store, trial_id, &Options::default()).unwrap();
        let mut findings = judgement.analysis.findings.iter();
        let missing = findings.find(|finding| finding.kind == FindingKind::DataMissing);
        assert_eq!(missing.map(|finding| finding.evidence.as_str()), told);
    }
}
