//! What a rollout must have measured before it may start.

use std::collections::BTreeMap;

use heaptrial_allocator::Obtained;
use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_inspect::Service;
use heaptrial_model::units;
use heaptrial_rollout::{Evidence, HostNow, RolloutPlan};

use super::options::StartOptions;
use super::target::Target;
use crate::exit::Failure;

/// Whether this very treatment was measured; refuses one that was not, unless that is wanted.
pub(super) fn is_measured(
    options: &StartOptions,
    target: &Target,
    obtained: &BTreeMap<String, Obtained>,
    evidence: &Evidence,
) -> Result<bool, Failure> {
    let library = obtained.get(&target.arm.name).filter(|obtained| obtained.library.is_some());
    if *evidence == Evidence::Measured || options.unmeasured {
        return Ok(*evidence == Evidence::Measured);
    }
    let arm = &target.arm.name;
    let whose = match &target.verdict {
        Some((verdict, _)) => format!("trial `{}`, whose verdict this is, did not measure", verdict.trial),
        None => "no trial of this host measured".to_owned(),
    };
    let what = match evidence {
        Evidence::Other { nearest, differences } => {
            format!("{arm} as it would be rolled out. The nearest is {nearest}: {}", differences.join("; "))
        }
        _ => match library {
            Some(library) => format!("the build {} of {arm}", library.sha256),
            None => format!("this treatment of {arm}"),
        },
    };
    let how = match &target.verdict {
        Some(_) => {
            "Install the package of it that the trial ran, or make one on a host of the trial (`heaptrial allocators package`)"
        }
        None => "Measure it with `heaptrial trial`, or say --unmeasured, which reports will tell",
    };
    Err(Failure::refused(format!(
        "{whose} {what}. A build flag or a setting can matter more than the version: mimalloc 2.0.9 in secure mode needs 2.7 times the memory of the plain build in our lab. {how}"
    )))
}

/// Refuses an arm against which its trial speaks, unless that is wanted.
pub(super) fn refuse_findings(options: &StartOptions, target: &Target) -> Result<(), Failure> {
    if target.against.is_empty() || options.despite_findings {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "what was measured speaks against a rollout of {}: {}. Look into the report, and observe it longer or take another arm; where you \
         know why this does no harm, --despite-findings goes on and keeps it in the rollout's record",
        target.arm.name,
        target.against.join("; ")
    )))
}

/// This host with some of its services.
pub(in crate::commands) fn host_now(services: &[Service]) -> Result<HostNow, Failure> {
    let identities = services.iter().filter_map(|service| service.process.as_ref()?.identity.as_ref());
    Ok(HostNow {
        facts: HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?,
        libraries: identities.flat_map(|identity| identity.libraries.iter().cloned()).collect(),
    })
}

/// In what this host is unlike those of a verdict; refuses one that is, unless a canary is to be the first of its kind.
pub(super) fn refuse_unlike(
    options: &StartOptions,
    target: &Target,
    host: &HostNow,
) -> Result<Vec<String>, Failure> {
    let Some((verdict, _)) = &target.verdict else { return Ok(Vec::new()) };
    let unlike = verdict.differences(host);
    if unlike.is_empty() || options.new_stratum && options.canary == 1 {
        return Ok(unlike);
    }
    let how = if options.new_stratum {
        "--new-stratum goes with --canary 1"
    } else {
        "An allocator may do otherwise here. --new-stratum goes on with one canary of this kind, held to the trial's forecast before anything else is changed"
    };
    Err(Failure::refused(format!(
        "this host is unlike all hosts of trial `{}`: {}. {how}",
        verdict.trial,
        unlike.join("; ")
    )))
}

/// Whether the trial saw services as old as they will be when a gate looks at them.
pub(super) fn reaches(plan: &RolloutPlan) -> Result<(), Failure> {
    let shortest = plan.forecasts().min_by(|a, b| a.1.end_age().total_cmp(&b.1.end_age()));
    let Some((stratum, forecast)) = shortest else { return Ok(()) };
    let soak = (0..plan.waves.len()).map(|wave| plan.soak_of(wave)).max();
    let Some(soak) = soak.filter(|soak| soak.0.as_secs_f64() > forecast.end_age()) else { return Ok(()) };
    Err(Failure::refused(format!(
        "waves are watched for {soak}, and the trial's forecast for {stratum} reaches to an age of {}: gates would miss data. Give a shorter --soak, or --no-forecast, which holds memory to what each service used before",
        units::duration(forecast.end_age())
    )))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use heaptrial_rollout::Verdict;
    use serde_json::json;

    use super::*;
    use crate::commands::rollout::target;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: StartOptions,
    }

    /// Whether a verdict is taken, and what is said where it is not.
    fn taken(verdict: &str, findings: &[&str], further: &[&str]) -> Result<(), String> {
        let told = json!({
            "schema_version": Verdict::VERSION, "tool_version": "0.1.0", "written_at": "2026-11-23T12:00:00Z",
            "trial": "five-way", "plan_id": "0123",
            "arm": { "name": "mimalloc@2.0.9", "control": false, "allocator": "mimalloc@2.0.9" },
            "control": "glibc", "metric": "rss", "kinds": [], "hosts": [], "borne": [],
            "ratio": null, "verdict": verdict, "findings": findings,
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("verdict.json");
        let sealed = serde_json::from_value::<Verdict>(told).unwrap().sealed().unwrap().0;
        std::fs::write(&file, sealed).unwrap();
        let words = ["start", "--verdict", "verdict.json", "--services", "tor@*"];
        let options = Command::parse_from(words.iter().chain(further)).options;
        let target = target::of_verdict(&file, None, &options.services).unwrap();
        refuse_findings(&options, &target).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_verdict_that_speaks_against_its_arm_is_taken_only_where_that_is_wanted() {
        assert_eq!(taken("growing", &[], &[]), Ok(()));
        for (verdict, findings, why) in [
            ("bloating", &[][..], "found mimalloc@2.0.9 bloating"),
            ("some_bloat", &[], "found mimalloc@2.0.9 some_bloat"),
            ("stable", &["9 of 20 services failed"], "9 of 20 services failed"),
        ] {
            let said = taken(verdict, findings, &[]).unwrap_err();
            for word in [why, "trial `five-way`", "--despite-findings"] {
                assert!(said.contains(word), "`{word}` is not in: {said}");
            }
            assert_eq!(taken(verdict, findings, &["--despite-findings"]), Ok(()));
        }
    }
}
