//! The gate over generated services: relays and others, alone and in waves, with each measure there or missing.

use heaptrial_change::Standing;
use heaptrial_evaluate::analysis::{UsualWork, Worked};
use heaptrial_fleet::rollout::{
    Before, Course, Gate, Grounds, Judged, Observed, Outcome, Ratio, Reason, Reports, Stratum, Subject,
    judge, pool,
};
use heaptrial_model::{LifeKey, ServiceName, TorFlag};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trial::{ARM, HOUR, trial};

const MIB: f64 = 1_048_576.0;
const RATE: f64 = 1e6;
const GROUNDS: Grounds = Grounds { work_seconds: HOUR, judges_work: true };

/// A service with all that a gate looks at.
#[derive(Debug, Clone)]
struct Case {
    service: ServiceName,
    standing: Standing,
    observed: Observed,
    before: Before,
    stratum: Stratum,
    is_new: bool,
}

/// Bytes at a rate over hours, from a midnight on.
fn worked(rate: f64, hours: f64) -> Worked {
    let points: Vec<(f64, f64)> =
        (0..=(hours * 6.0) as usize).map(|i| (i as f64 * 600.0, i as f64 * 600.0 * rate)).collect();
    Worked::of_counter(&points).unwrap()
}

fn relay(number: usize) -> Case {
    Case {
        service: format!("tor@r{number}.service").parse().unwrap(),
        standing: Standing::Well { life: LifeKey { boot_id: "b".into(), pid: 7, start_ticks: 1 } },
        observed: Observed {
            level: Some((100.0 * MIB, 24.0 * HOUR)),
            last_reading_seconds: Some(10.0),
            work: Some(worked(RATE, 23.0)),
            flags: Some(vec![TorFlag::Guard, TorFlag::V2Dir]),
            ..Observed::default()
        },
        before: Before {
            bytes: Some(100.0 * MIB),
            work: Some(UsualWork { bytes_per_second: RATE, by_hour: vec![Some(RATE); 24] }),
            flags: Some(vec![TorFlag::Guard, TorFlag::HSDir]),
            reports: Reports { work: true, flags: true },
        },
        stratum: stratum(None),
        is_new: true,
    }
}

fn stratum(ratio: Option<Ratio>) -> Stratum {
    Stratum { name: "web@*".to_owned(), services: Vec::new(), ratio }
}

/// A service that is no relay.
fn plain(number: usize) -> Case {
    let case = relay(number);
    Case {
        service: format!("web@{number}.service").parse().unwrap(),
        observed: Observed { work: None, flags: None, ..case.observed },
        before: Before { bytes: case.before.bytes, ..Before::default() },
        ..case
    }
}

fn judged_by(cases: &[Case], grounds: &Grounds) -> Gate {
    let subjects: Vec<Subject<'_>> = cases
        .iter()
        .map(|case| Subject {
            service: &case.service,
            standing: &case.standing,
            observed: Some(&case.observed),
            before: Some(&case.before),
            stratum: &case.stratum,
            is_new: case.is_new,
        })
        .collect();
    judge(&subjects, grounds)
}

fn judged(cases: &[Case]) -> Gate {
    judged_by(cases, &GROUNDS)
}

/// What is wrong with a service, and the words that say so.
type Fault = (fn(&mut Case), &'static str);

const AGAINST: [Fault; 7] = [
    (|case| case.standing = Standing::Failed("it is failed".into()), "it is failed"),
    (
        |case| case.observed.failures = vec!["exit code 3".into(), "no memory".into()],
        "exit code 3; no memory",
    ),
    (|case| case.observed.level = Some((126.0 * MIB, HOUR)), "uses 126 MiB"),
    (|case| case.observed.flags = Some(vec![TorFlag::V2Dir]), "lost the Guard flag"),
    (|case| case.observed.work = Some(worked(0.49 * RATE, 23.0)), "does 0.49 of its work of before"),
    (|case| case.observed.work = Some(worked(0.0, 2.0)), "does 0.00 of its work of before"),
    (
        |case| {
            case.before.work = UsualWork::since_start(9e9, 9e3);
            case.observed.work = Some(worked(0.3 * RATE, 5.0));
        },
        "before at other hours of the day",
    ),
];

/// What is missing of any service.
const MISSING: [Fault; 6] = [
    (|case| case.standing = Standing::Untreated, "does not have the treatment"),
    (|case| case.standing = Standing::NotReady("45%".into()), "45%"),
    (|case| case.observed.level = None, "no readings"),
    (|case| case.observed.last_reading_seconds = Some(301.0), "no readings"),
    (|case| case.observed.last_reading_seconds = None, "no readings"),
    (|case| case.before.bytes = None, "its memory before is not known"),
];

/// What is missing of a relay, and of no other service.
const MISSING_OF_A_RELAY: [Fault; 5] = [
    (|case| case.observed.flags = None, "its flags are not known yet"),
    (|case| case.before.flags = None, "its flags before the rollout are not known"),
    (|case| case.observed.work = None, "its work is known of 0 s, and 1 h are needed"),
    (|case| case.observed.work = Some(worked(RATE, 0.5)), "its work is known of 30 min, and 1 h are needed"),
    (|case| case.before.work = None, "its work before the rollout is not known"),
];

/// A fleet of so many services, of which every third is a relay at most, and the place of one of them.
fn fleets() -> impl Strategy<Value = (Vec<Case>, usize)> {
    (1_usize..40, any::<u64>()).prop_flat_map(|(count, kinds)| {
        let case =
            move |number: usize| if kinds >> (number % 64) & 1 == 1 { relay(number) } else { plain(number) };
        let cases: Vec<Case> = (0..count).map(case).collect();
        (Just(cases), 0..count)
    })
}

fn names(gate: &Gate, service: &ServiceName, words: &str) -> bool {
    gate.reasons.iter().any(|reason| reason.service.as_ref() == Some(service) && reason.what.contains(words))
}

proptest! {
    #[test]
    fn a_fleet_of_which_all_is_known_and_as_before_goes_on((cases, _) in fleets()) {
        let gate = judged(&cases);
        prop_assert_eq!((gate.outcome, gate.reasons.len()), (Outcome::Go, 0));
    }

    #[test]
    fn one_service_that_is_worse_stops_a_wave_of_any_size_and_is_named(
        (mut cases, place) in fleets(), fault in 0..AGAINST.len(), is_new: bool,
    ) {
        let (apply, words) = AGAINST[fault];
        cases[place] = relay(place);
        apply(&mut cases[place]);
        cases[place].is_new = is_new;
        let gate = judged(&cases);
        prop_assert_eq!(gate.outcome, Outcome::Stop);
        prop_assert!(names(&gate, &cases[place].service, words), "{:?}", gate);
        let of_another = |reason: &&Reason| reason.service.as_ref().is_some_and(|name| *name != cases[place].service);
        prop_assert_eq!(gate.reasons.iter().find(of_another), None);
    }

    #[test]
    fn one_measure_that_is_missing_holds_a_wave_of_any_size_and_is_named(
        (mut cases, place) in fleets(), fault in 0..MISSING.len() + MISSING_OF_A_RELAY.len(),
    ) {
        let of_a_relay = fault.checked_sub(MISSING.len()).map(|fault| MISSING_OF_A_RELAY[fault]);
        let (apply, words) = of_a_relay.unwrap_or_else(|| MISSING[fault]);
        if of_a_relay.is_some() {
            cases[place] = relay(place);
        }
        apply(&mut cases[place]);
        let gate = judged(&cases);
        prop_assert_eq!(gate.outcome, Outcome::NotEnough);
        prop_assert!(names(&gate, &cases[place].service, words), "{:?}", gate);
        prop_assert_eq!(gate.reasons.len(), 1);
    }

    #[test]
    fn what_a_service_cannot_report_is_not_missing((mut cases, place) in fleets(), fault in 0..MISSING_OF_A_RELAY.len()) {
        let (apply, _) = MISSING_OF_A_RELAY[fault];
        cases[place] = plain(place);
        apply(&mut cases[place]);
        let gate = judged(&cases);
        prop_assert_eq!(gate.outcome, Outcome::Go, "{:?}", gate);
        prop_assert!(gate.evidence.iter().any(|line| line.starts_with("work and flags: ")), "{:?}", gate);
    }

    #[test]
    fn work_over_half_of_before_stops_only_where_all_of_a_wave_do_less(
        count in 1_usize..40, share in 0.51_f64..1.5, of_wave: bool,
    ) {
        let mut cases: Vec<Case> = (0..count).map(relay).collect();
        for case in &mut cases {
            case.observed.work = Some(worked(share * RATE, 23.0));
            case.is_new = of_wave;
        }
        let limit = 0.5_f64.powf((count as f64).sqrt().recip().max(0.5));
        let gate = judged(&cases);
        // Services of earlier waves passed a gate of their own.
        let stops = of_wave && share < limit;
        if (share / limit - 1.0).abs() > 1e-9 {
            prop_assert_eq!(gate.outcome == Outcome::Stop, stops, "{:?}", gate);
            prop_assert_eq!(gate.outcome == Outcome::Go, !stops);
        }
        if stops {
            prop_assert!(gate.reasons[0].what.contains("(tor@r0.service)"), "{:?}", gate);
        }
    }
}

#[test]
fn nothing_and_nobody_known_never_pass() {
    assert_eq!(judged(&[]).outcome, Outcome::NotEnough);
    let case = relay(0);
    let bare = Subject {
        service: &case.service,
        standing: &case.standing,
        observed: Some(&case.observed),
        before: None,
        stratum: &case.stratum,
        is_new: true,
    };
    let gate = judge(&[bare], &GROUNDS);
    assert_eq!(gate.outcome, Outcome::NotEnough);
    assert!(names(&gate, &case.service, "nothing is known of it from before"), "{gate:?}");
}

/// Services of very unlike sizes whose memory is what a trial makes of it, times a factor each.
fn by_ratio(ratio: &Ratio, sizes: &[f64], factor: impl Fn(usize) -> f64) -> Vec<Case> {
    let case = |(number, size): (usize, &f64)| {
        let case = plain(number);
        let expected = ratio.expected(*size, 24.0 * HOUR).unwrap().bytes;
        Case {
            observed: Observed { level: Some((expected * factor(number), 24.0 * HOUR)), ..case.observed },
            before: Before { bytes: Some(*size), ..case.before },
            stratum: stratum(Some(ratio.clone())),
            ..case
        }
    };
    sizes.iter().enumerate().map(case).collect()
}

/// Trials and rollouts of which nothing is wrong, and of which all services use more: how often a gate stops. Services go
/// apart by 10% each way, in the trial as in the rollout.
#[test]
fn a_gate_stops_seldom_where_nothing_is_wrong_and_finds_what_is() {
    let stops = |blocks: usize, services: usize, factor: f64| {
        let count = (0..200_u64).filter(|seed| {
            let mut random = ChaCha8Rng::seed_from_u64(!seed);
            let sizes: Vec<f64> = (0..blocks.max(services)).map(|_| random.random_range(1e8..2e9)).collect();
            let ratio = Ratio::between(&trial(&sizes[..blocks], 0.4, 0.17, *seed), ARM, 0).unwrap();
            let noises: Vec<f64> =
                (0..services).map(|_| random.random_range(-0.17..0.17_f64).exp()).collect();
            // By the true ratio, and not by that which the trial found.
            let found = ratio.expected(1.0, 24.0 * HOUR).unwrap().bytes;
            let cases = by_ratio(&ratio, &sizes[..services], |index| factor * noises[index] * 0.4 / found);
            judged(&cases).outcome == Outcome::Stop
        });
        count.count() as f64 / 200.0
    };
    for (blocks, services, found) in [(4, 10, 0.4), (10, 1, 0.4), (10, 20, 0.95), (20, 40, 0.95)] {
        let (quiet, loud) = (stops(blocks, services, 1.0), stops(blocks, services, 1.6));
        println!("{blocks} blocks, {services} services: {quiet} of quiet gates stop, {loud} at 1.6 times");
        assert!(quiet <= 0.02 && loud >= found, "{blocks} blocks, {services} services: {quiet} {loud}");
    }
}

const NOW_US: i64 = 1_700_000_000_000_000;

fn host(name: &str, cases: &[Case]) -> Judged {
    let judged = Judged {
        host: name.into(),
        rollout: "r".into(),
        arm: "a".into(),
        verdict: Some("digest".into()),
        wall_us: NOW_US,
        standing: Course::InProgress,
        services: cases.len(),
        reasons: Vec::new(),
        gate: judged(cases),
    };
    // As it travels.
    serde_json::from_value(serde_json::to_value(judged).unwrap()).unwrap()
}

fn pooled(hosts: &[Judged]) -> Gate {
    pool(hosts, NOW_US).unwrap()
}

/// The same services spread over so many hosts, none of which is without any.
fn spread(cases: &[Case], hosts: usize) -> Vec<Judged> {
    let each = cases.len().div_ceil(hosts).max(1);
    let parts = cases.chunks(each).enumerate();
    parts.map(|(number, part)| host(&format!("h{number}"), part)).collect()
}

proptest! {
    /// Nothing about a gate's decision depends on where services run: what one host with all of them would say is known from
    /// a judge who never heard of hosts.
    #[test]
    fn hosts_together_are_judged_as_one_host_with_all_their_services_would_be(
        (mut cases, place) in fleets(), hosts in 1_usize..6,
        memory in 0.8_f64..1.24, work in 0.55_f64..1.2, against in 0..3 * AGAINST.len(), missing in 0..3 * MISSING.len(),
    ) {
        for case in &mut cases {
            case.observed.level = Some((memory * 100.0 * MIB, HOUR));
            if case.observed.work.is_some() {
                case.observed.work = Some(worked(work * RATE, 23.0));
            }
        }
        if let Some((apply, _)) = AGAINST.get(against) {
            cases[place] = relay(place);
            apply(&mut cases[place]);
        }
        if let Some((apply, _)) = MISSING.get(missing) {
            apply(&mut cases[0]);
        }
        let whole = judged(&cases);
        let parts = spread(&cases, hosts);
        let gate = pooled(&parts);
        prop_assert_eq!(gate.outcome, whole.outcome, "{:#?}\n{:#?}", gate, whole);
        for reason in whole.reasons.iter().filter(|reason| reason.service.is_some()) {
            prop_assert!(gate.reasons.iter().any(|own| own.what.contains(&reason.to_string())), "{:#?}", gate);
        }
    }

    #[test]
    fn a_host_that_is_not_well_holds_all_and_is_named((cases, _) in fleets(), place in 0_usize..4, how in 0..3_usize) {
        let mut parts: Vec<Judged> = (0..4).map(|number| host(&format!("h{number}"), &cases)).collect();
        prop_assert_eq!(pooled(&parts).outcome, Outcome::Go);
        let (standing, outcome) = [
            (Course::Stopped, Outcome::Stop),
            (Course::RolledBack, Outcome::Stop),
            (Course::CutShort, Outcome::NotEnough),
        ][how];
        parts[place].standing = standing;
        let gate = pooled(&parts);
        prop_assert_eq!(gate.outcome, outcome, "{:?}", gate);
        let name = format!("h{place}: ");
        prop_assert!(gate.reasons.iter().all(|reason| reason.what.starts_with(&name)), "{:?}", gate);
    }
}

#[test]
fn what_does_not_belong_together_or_was_seen_long_ago_is_refused() {
    let parts = [host("a", &[plain(0)]), host("b", &[plain(1)])];
    assert!(pool(&[], NOW_US).is_err());
    let refused = |change: fn(&mut Judged), why: &str| {
        let mut parts = parts.clone();
        change(&mut parts[1]);
        let error = pool(&parts, NOW_US).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(|judged| judged.host = "a".into(), "is there twice");
    refused(|judged| judged.verdict = Some("another".into()), "different verdicts");
    refused(|judged| judged.wall_us -= 601_000_000, "ask it again");
    refused(|judged| judged.wall_us += 601_000_000, "ask it again");
    // Nothing was changed yet on one of them.
    let [first, _] = parts;
    let none = Judged { standing: Course::NotBegun, ..host("b", &[]) };
    assert_eq!(pooled(&[first, none]).outcome, Outcome::NotEnough);
}
