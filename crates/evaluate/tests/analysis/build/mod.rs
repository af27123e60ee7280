//! Fleets made by hand, one piece at a time.
#![allow(dead_code, reason = "shared by several tests, each of which uses a part")]

use heaptrial_evaluate::analysis::{
    Analysis, Finding, FindingKind, Fleet, FleetArm, FleetLife, FleetService, Settings, analyse,
};
use heaptrial_model::Reading;

pub const DAY: f64 = 86_400.0;
pub const BEGIN: f64 = 1_760_000_000.0;
pub const GIB: f64 = 1_073_741_824.0;

/// A life that starts `start` days after the fleet, read every 6 hours until `end`, with memory in GiB by age in days.
/// It wiggles by up to 0.2%, each service in its own way.
pub fn life(seed: usize, start: f64, end: f64, gib: impl Fn(f64) -> f64) -> FleetLife {
    let count = ((end - start) / 0.25).floor().max(0.0) as usize;
    let readings = (0..=count)
        .map(|i| {
            let age = i as f64 * 0.25;
            let wiggle = 0.002 * ((seed * 7919 + i * 104_729) as f64 * 0.618).sin();
            Reading {
                age_seconds: (age * DAY) as f32,
                kib: (gib(age) * (1.0 + wiggle) * GIB / 1024.0) as u32,
            }
        })
        .collect();
    FleetLife { started_at: BEGIN + start * DAY, readings, ..FleetLife::default() }
}

/// A factor around 1 that differs between services, by 5% at most.
pub fn own(seed: usize) -> f64 {
    1.0 + 0.05 * ((seed * 37 % 101) as f64 / 50.0 - 1.0)
}

/// A fleet of arms, the first the control, each of services with one life of 8 days and its own memory by age.
pub fn fleet(arms: &[(usize, &dyn Fn(f64) -> f64)]) -> Fleet {
    let mut fleet = Fleet { randomised: true, seed: 7, ..Fleet::default() };
    for (services, gib) in arms {
        add_arm(&mut fleet, *services, |seed| vec![life(seed, 0.0, 8.0, |age| own(seed) * gib(age))]);
    }
    fleet
}

/// Adds an arm whose services have these lives; returns its position.
pub fn add_arm(fleet: &mut Fleet, services: usize, lives: impl Fn(usize) -> Vec<FleetLife>) -> usize {
    let arm = fleet.arms.len();
    fleet.arms.push(FleetArm { name: format!("arm {arm}"), control: arm == 0, ..FleetArm::default() });
    for _ in 0..services {
        let seed = fleet.services.len();
        fleet.services.push(FleetService {
            name: format!("s{seed}"),
            arms: vec![arm],
            lives: lives(seed),
            ..FleetService::default()
        });
    }
    arm
}

pub fn run(fleet: &Fleet) -> Analysis {
    analyse(fleet, &Settings::default())
}

pub fn find(analysis: &Analysis, kind: FindingKind) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.kind == kind)
}

pub fn names(finding: &Finding) -> Vec<&str> {
    finding.services.iter().map(String::as_str).collect()
}
