//! Trials and candidates to draw from.
#![allow(dead_code)] // each test file uses a part of it

use std::collections::BTreeMap;

use heaptrial_model::{Build, DrawnPlan, TrialPlan};
use heaptrial_plan::{Candidate, DrawRequest, PlanError, draw};

/// A trial of ten days with arms named `arm0` (the control), `arm1`, ...
pub fn trial(arms: usize) -> TrialPlan {
    let mut text = "name = \"t\"\nduration = \"10d\"\n".to_owned();
    for arm in 0..arms {
        text.push_str(&format!("[[arm]]\nname = \"arm{arm}\"\ncontrol = {}\n", arm == 0));
    }
    TrialPlan::from_toml(&text).unwrap()
}

/// A service; numbers that are not given follow from `number`.
pub fn candidate(number: usize) -> Candidate {
    Candidate {
        service: format!("tor@r{number:03}.service").parse().unwrap(),
        host: "alpha".to_owned(),
        system: String::new(),
        role: "relay".to_owned(),
        family: None,
        baseline_bytes: Some((1000 + 37 * (number as u64 * 7919 % 101)) << 20),
        age_seconds: Some(20.0 * 86_400.0),
        restart_seconds: 35.0,
    }
}

/// Services of two hosts, two roles and three ages, some of unknown memory.
pub fn fleet(services: usize) -> Vec<Candidate> {
    (0..services)
        .map(|number| Candidate {
            host: ["alpha", "beta"][usize::from(number % 5 > 2)].to_owned(),
            role: ["relay", "exit"][usize::from(number % 7 > 4)].to_owned(),
            age_seconds: Some([0.2, 3.0, 40.0][number % 3] * 86_400.0),
            baseline_bytes: candidate(number).baseline_bytes.filter(|_| number % 11 != 3),
            ..candidate(number)
        })
        .collect()
}

/// Draws without builds.
pub fn drawn(trial: &TrialPlan, candidates: &[Candidate], seed: u64) -> DrawnPlan {
    try_draw(trial, candidates, seed).unwrap()
}

/// The same where it may be refused.
pub fn try_draw(trial: &TrialPlan, candidates: &[Candidate], seed: u64) -> Result<DrawnPlan, PlanError> {
    let builds = BTreeMap::new();
    draw(&DrawRequest { trial, candidates, builds: &builds, seed, tool_version: "1.2.3" })
}

/// A build.
pub fn build(file: &str) -> Build {
    Build { sha256: "ab".repeat(32), version: Some("2.0.9".to_owned()), file: file.to_owned() }
}
