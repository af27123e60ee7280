//! Who gets what, and in which order.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{DrawnPlan, TrialPlan};
use heaptrial_plan::{Candidate, MAX_SEED, PlanError};
use proptest::prelude::*;
use support::{candidate, drawn, fleet, trial, try_draw};

fn sizes<'a>(plan: &DrawnPlan, arms: impl Iterator<Item = &'a str>) -> (usize, usize) {
    let mut counts: BTreeMap<&str, usize> = plan.arms.iter().map(|arm| (arm.name.as_str(), 0)).collect();
    arms.for_each(|arm| *counts.entry(arm).or_default() += 1);
    (counts.values().copied().min().unwrap(), counts.values().copied().max().unwrap())
}

prop_compose! {
    fn any_candidates()(
        facts in prop::collection::vec(
            (0..3usize, 0..3usize, prop::option::of(1u64..1 << 34), prop::option::of(0.0..1e7f64), prop::option::of(0..8u8)),
            6..90,
        ),
        own_system: bool,
    ) -> Vec<Candidate> {
        facts
            .into_iter()
            .enumerate()
            .map(|(number, (host, role, baseline_bytes, age_seconds, family))| Candidate {
                host: ["a", "b", "c"][host].to_owned(),
                system: ["12", "12", "13"][if own_system { host } else { 0 }].to_owned(),
                role: ["relay", "exit", "bridge"][role].to_owned(),
                baseline_bytes,
                age_seconds,
                family: family.map(|family| format!("family{family}")),
                ..candidate(number)
            })
            .collect()
    }
}

proptest! {
    #[test]
    fn every_plan_is_whole(candidates in any_candidates(), arms in 2..7usize, seed in 0..MAX_SEED) {
        let trial = trial(arms);
        let plan = drawn(&trial, &candidates, seed);
        // Each service once.
        let services: BTreeSet<_> = plan.services.iter().map(|assigned| &assigned.service).collect();
        prop_assert_eq!(services.len(), candidates.len());
        prop_assert_eq!(plan.services.len(), candidates.len());
        // Arms of the same size, also in every block and up to every moment of the restarts.
        let (least, most) = sizes(&plan, plan.services.iter().map(|assigned| assigned.arm.as_str()));
        prop_assert!(most - least <= 1);
        let blocks: BTreeSet<u32> = plan.services.iter().map(|assigned| assigned.block).collect();
        for block in blocks {
            let own = plan.services.iter().filter(|assigned| assigned.block == block);
            let (least, most) = sizes(&plan, own.map(|assigned| assigned.arm.as_str()));
            prop_assert!(least >= 1 && most - least <= 1, "block {}: {} to {}", block, least, most);
        }
        // Blocks are of one system where each has enough services.
        let mut systems: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for candidate in &candidates {
            let assigned = plan.services.iter().find(|assigned| assigned.service == candidate.service).unwrap();
            systems.entry(&candidate.system).or_default().insert(assigned.block);
        }
        let of_system = |system: &str| candidates.iter().filter(|candidate| candidate.system == system).count();
        if let [one, other] = systems.iter().collect::<Vec<_>>()[..]
            && of_system(one.0) >= arms && of_system(other.0) >= arms
        {
            prop_assert!(one.1.is_disjoint(other.1), "{:?}", systems);
        }
        // Each host has every arm as often as its services allow, but for one whose block took in a host of fewer services than arms.
        let hosts: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.host.as_str()).collect();
        let of_host = |host: &str| plan.services.iter().filter(|assigned| assigned.host == host).count();
        for host in hosts.iter().filter(|_| hosts.len() > 1) {
            let own: Vec<_> = plan.services.iter().filter(|assigned| assigned.host == *host).collect();
            let took_in = |block: u32| {
                plan.services.iter().any(|other| other.block == block && other.host != *host && of_host(&other.host) < arms)
            };
            if own.iter().filter(|assigned| took_in(assigned.block)).count() >= arms {
                continue;
            }
            let (least, _) = sizes(&plan, own.iter().map(|assigned| assigned.arm.as_str()));
            prop_assert!(least >= own.len() / arms, "{}: {} of {}", host, least, own.len());
        }
        for restarted in 1..plan.services.len() {
            let (least, most) = sizes(&plan, plan.services[..restarted].iter().map(|assigned| assigned.arm.as_str()));
            prop_assert!(most - least <= 1, "after {} restarts: {} to {}", restarted, least, most);
        }
        // The same again, from candidates in another order, and from its file.
        let mut reversed = candidates.clone();
        reversed.reverse();
        prop_assert_eq!(&drawn(&trial, &reversed, seed), &plan);
        let text = plan.to_toml();
        let read = DrawnPlan::from_toml(&text).unwrap();
        prop_assert!(read.by_hand().is_empty());
        prop_assert_eq!(read.to_toml(), text);
        prop_assert_eq!(read, plan);
    }
}

/// Each service is as likely to get one arm as any other, also where arms are of unequal size and strata are too small
/// for blocks of their own. 1,200 plans; five standard errors.
#[test]
fn every_service_is_as_likely_to_get_any_arm() {
    let plans = 1_200_u32;
    for (services, arms) in [(12, 3), (13, 4), (33, 5)] {
        let (trial, candidates) = (trial(arms), fleet(services));
        let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
        for seed in 0..u64::from(plans) {
            for assigned in drawn(&trial, &candidates, seed).services {
                *counts.entry((assigned.service.to_string(), assigned.arm)).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), services * arms);
        let share = 1.0 / arms as f64;
        let error = (share * (1.0 - share) / f64::from(plans)).sqrt();
        for ((service, arm), count) in counts {
            let found = f64::from(count) / f64::from(plans);
            assert!((found - share).abs() < 5.0 * error, "{service} in {arm}: {found:.3} of {share:.3}");
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let error = try_draw(&trial(3), &fleet(2), 1).unwrap_err();
    assert_eq!(error, PlanError::TooFewServices { services: 2, arms: 3 });
    let mut endless = TrialPlan { duration: None, ..trial(2) };
    let mut never = trial(2);
    never.arms[1].treatment.restart_every = Some("10d".parse().unwrap());
    let unsafe_name = TrialPlan { name: "../etc".to_owned(), ..trial(2) };
    let twice = [candidate(1), candidate(2), candidate(1)];
    for (trial, candidates, seed, why) in [
        (&trial(3), &[][..], 1, "no services take part"),
        (&trial(1), &fleet(9), 1, "only its control"),
        (&trial(2), &fleet(9), u64::MAX, "the seed must be at most 9223372036854775807"),
        (&trial(2), &twice, 1, "is there twice"),
        (&endless, &fleet(9), 1, "no duration"),
        (&never, &fleet(9), 1, "restart_every must be"),
        (&unsafe_name, &fleet(9), 1, "cannot name a trial"),
    ] {
        let error = try_draw(trial, candidates, seed).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let elsewhere = Candidate { host: "beta".to_owned(), ..candidate(1) };
    assert!(try_draw(&trial(2), &[candidate(1), candidate(2), elsewhere], 1).is_ok());
    endless.looks = vec!["1d".parse().unwrap(), "4d".parse().unwrap()];
    assert_eq!(drawn(&endless, &fleet(9), 1).duration.to_string(), "4d");
}
