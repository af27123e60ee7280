//! What is shown of a rollout before it is confirmed.

use std::io::IsTerminal as _;

use heaptrial_fleet::rollout::{RolloutPlan, Stratum};
use heaptrial_inspect::Service;
use heaptrial_model::{AllocatorSpec, ServiceName, units};

use super::target::Target;
use super::{before, mitigations};
use crate::commands::trial::verdict;

/// Warnings, what memory is held to, and what each wave has.
pub(super) fn show(target: &Target, plan: &RolloutPlan, services: &[Service]) {
    if let Some(to) = &target.verdict.arm.treatment.allocator {
        let mut present: Vec<AllocatorSpec> = services
            .iter()
            .filter_map(|service| service.process.as_ref()?.identity.as_ref())
            .map(|identity| AllocatorSpec::family(&identity.family))
            .collect();
        present.sort_by_key(ToString::to_string);
        present.dedup();
        for warning in mitigations::warnings(&present, to) {
            eprintln!("warning: {warning}");
        }
    }
    if target.verdict.trial.is_some() {
        verdict::lines(&target.verdict).iter().for_each(|line| eprintln!("{line}"));
    }
    let objections = plan.forced.iter().flat_map(|forced| &forced.objections);
    objections.chain(&target.verdict.caveats).for_each(|line| eprintln!("warning: {line}"));
    ratio_lines(plan).iter().for_each(|line| eprintln!("{line}"));
    for (number, wave) in plan.waves.iter().enumerate() {
        let names: Vec<&str> = wave.iter().take(4).map(ServiceName::as_str).collect();
        let more = if wave.len() > 4 { ", ..." } else { "" };
        eprintln!(
            "wave {}: {} ({}{more}), then watched for {}",
            number + 1,
            units::counted(wave.len(), "service"),
            names.join(", "),
            plan.soak_of(number)
        );
    }
    if let Some(hours) = plan.quiet_hours {
        eprintln!("no service is changed within {hours}");
    }
    if let Some(unjudged) = before::unjudged(plan) {
        eprintln!("{unjudged}");
    }
    if !plan.already.is_empty() && std::io::stderr().is_terminal() {
        eprintln!("left alone, since they run it already: {}", plan.already.len());
    }
}

/// What gates hold the memory of each kind of services to.
pub fn ratio_lines(plan: &RolloutPlan) -> Vec<String> {
    let line = |stratum: &Stratum| {
        let name =
            format!("memory of {} ({})", units::counted(stratum.services.len(), "service"), stratum.name);
        let ratio =
            stratum.ratio.as_ref().and_then(|ratio| Some((ratio, ratio.expected(1.0, ratio.last_age())?)));
        match ratio {
            Some((ratio, expected)) => format!(
                "{name} is held to {:.2} of that of before at age {}, from {} of the trial",
                expected.bytes,
                units::duration(ratio.last_age()),
                units::counted(ratio.services() as usize, "service")
            ),
            None => format!(
                "{name} is held to what each used before: the trial has no ratio for services like them"
            ),
        }
    };
    plan.strata.iter().map(line).collect()
}
