//! What is told of a rollout before it is confirmed.

use std::io::IsTerminal as _;

use heaptrial_inspect::Service;
use heaptrial_model::{AllocatorSpec, ServiceName, units};
use heaptrial_rollout::{RolloutPlan, Stratum};

use super::target::Target;
use super::{before, mitigations};
use crate::commands::trial::verdict;

/// Warnings, the forecast, and what each wave has.
pub(super) fn tell(target: &Target, plan: &RolloutPlan, services: &[Service]) {
    if let Some(to) = &target.arm.treatment.allocator {
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
    if !plan.measured {
        eprintln!("warning: this was not measured in a trial of this host, and the report will say so");
    }
    if let Some((verdict, _)) = &target.verdict {
        verdict::lines(verdict).iter().for_each(|line| eprintln!("{line}"));
    }
    plan.despite.iter().chain(&target.warnings).for_each(|line| eprintln!("warning: {line}"));
    for line in forecast_lines(plan) {
        eprintln!("{line}");
    }
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
    if let Some(untold) = before::untold(plan) {
        eprintln!("{untold}");
    }
    if !plan.already.is_empty() && std::io::stderr().is_terminal() {
        eprintln!("left alone, since they run it already: {}", plan.already.len());
    }
}

/// What gates hold the memory of each kind of services to.
pub fn forecast_lines(plan: &RolloutPlan) -> Vec<String> {
    let line = |stratum: &Stratum| {
        let name =
            format!("forecast for {} ({})", units::counted(stratum.services.len(), "service"), stratum.name);
        let last = stratum.forecast.as_ref().and_then(|forecast| {
            let expected = forecast.at(forecast.last_age(), 0.95)?;
            Some((forecast, expected))
        });
        match (last, &stratum.why_not) {
            (Some((forecast, expected)), _) => format!(
                "{name}: {} ({} to {}, 95%) at age {}, from {} of the trial",
                units::memory(expected.median_bytes),
                units::memory(expected.low_bytes),
                units::memory(expected.high_bytes),
                units::duration(forecast.last_age()),
                units::counted(forecast.services() as usize, "service")
            ),
            (None, why) => {
                let why = why.as_deref().unwrap_or("its levels are not known");
                format!("{name}: none, so that memory is held to what each used before: {why}")
            }
        }
    };
    plan.strata.iter().map(line).collect()
}
