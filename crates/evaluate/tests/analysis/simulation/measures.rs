//! What is counted of an analysis: shares from 0 to 1, `None` where a fleet does not count.

use heaptrial_evaluate::analysis::{Analysis, Finding, FindingKind, RatioToControl, Verdict};

use super::Simulated;

fn yes(happened: bool) -> Option<f64> {
    Some(f64::from(u8::from(happened)))
}

fn share(of: impl Iterator<Item = bool>) -> Option<f64> {
    let (some, all) = of.fold((0.0, 0.0), |(some, all), is| (some + f64::from(u8::from(is)), all + 1.0));
    (all > 0.0).then(|| some / all)
}

fn ratios(analysis: &Analysis) -> impl Iterator<Item = (usize, &RatioToControl)> {
    analysis.arms.iter().enumerate().filter_map(|(arm, result)| Some((arm, result.treated().ratio.as_ref()?)))
}

/// Whether the procedure finds a difference of any arm to the control at 5%, off-treatment services left out.
pub fn any_difference(analysis: &Analysis) -> Option<f64> {
    yes(ratios(analysis).any(|(_, ratio)| ratio.p_value_adjusted.is_some_and(|p| p <= 0.05)))
}

/// Share of arms of which it finds one.
pub fn differences(analysis: &Analysis) -> Option<f64> {
    share(ratios(analysis).map(|(_, ratio)| ratio.p_value_adjusted.is_some_and(|p| p <= 0.05)))
}

/// Share of 95% intervals of the ratio that hold the truth, of those that there are.
pub fn ratios_covered(analysis: &Analysis, truth: &[f64]) -> Option<f64> {
    share(ratios(analysis).filter_map(|(arm, ratio)| {
        let (low, high) = ratio.estimate.interval()?;
        Some(low <= truth[arm] && truth[arm] <= high)
    }))
}

/// Share of 95% intervals of the ratio that hold what the arm does in the mean over the hosts.
pub fn mean_covered(simulated: &Simulated, analysis: &Analysis, ratios: &[f64]) -> Option<f64> {
    let truth: Vec<f64> =
        ratios.iter().zip(&simulated.effects).map(|(ratio, effect)| ratio * effect.exp()).collect();
    ratios_covered(analysis, &truth)
}

/// Whether any arm is said not to do the same on all hosts.
pub fn differs_by_host(simulated: &Simulated, analysis: &Analysis) -> Option<f64> {
    let found = heaptrial_evaluate::analysis::by_host(&simulated.fleet, analysis);
    yes(found.iter().any(|arm| arm.p_value_adjusted.is_some_and(|p| p <= 0.05)))
}

/// Whether the 95% interval of an arm's growth holds the truth.
pub fn growth_covered(analysis: &Analysis, arm: usize, truth: f64) -> Option<f64> {
    let (low, high) = analysis.arms[arm].growth.as_ref()?.share_per_day.interval()?;
    yes(low <= truth && truth <= high)
}

/// The same of its growth in bytes.
pub fn bytes_covered(analysis: &Analysis, arm: usize, truth: f64) -> Option<f64> {
    let (low, high) = analysis.arms[arm].growth.as_ref()?.bytes_per_day.interval()?;
    yes(low <= truth && truth <= high)
}

/// Half of the width of the 95% interval of an arm's growth, in proportion to the truth.
pub fn growth_half_width(analysis: &Analysis, arm: usize, truth: f64) -> Option<f64> {
    let (low, high) = analysis.arms[arm].growth.as_ref()?.share_per_day.interval()?;
    Some((high - low) / 2.0 / truth)
}

/// Whether the verdict on an arm is this word.
pub fn verdict(analysis: &Analysis, arm: usize, word: &str) -> Option<f64> {
    yes(analysis.arms[arm].verdict.as_ref()?.as_str() == word)
}

/// Whether an arm that does not bloat as a whole is told to have services that do.
pub fn any_bloats(analysis: &Analysis, arm: usize) -> Option<f64> {
    yes(matches!(analysis.arms[arm].verdict, Some(Verdict::SomeBloat { .. })))
}

/// Of the services with which something is wrong, the share that is told to bloat.
pub fn leaks_named(simulated: &Simulated, analysis: &Analysis) -> Option<f64> {
    let told: Vec<&str> = analysis
        .arms
        .iter()
        .flat_map(|arm| &arm.service_verdicts)
        .flat_map(|services| &services.bloating_services)
        .map(|service| service.name.as_str())
        .collect();
    share(simulated.odd.iter().map(|index| told.contains(&simulated.fleet.services[*index].name.as_str())))
}

/// The findings of a kind.
pub fn of_kind(analysis: &Analysis, kind: FindingKind) -> impl Iterator<Item = &Finding> {
    analysis.findings.iter().filter(move |finding| finding.kind == kind)
}

/// Whether there is a finding of a kind.
pub fn found(analysis: &Analysis, kind: FindingKind) -> Option<f64> {
    yes(of_kind(analysis, kind).next().is_some())
}

/// Of the services with which something is wrong, the share that findings of a kind name.
pub fn named(simulated: &Simulated, analysis: &Analysis, kind: FindingKind) -> Option<f64> {
    let names: Vec<&String> = of_kind(analysis, kind).flat_map(|finding| &finding.services).collect();
    share(simulated.odd.iter().map(|index| names.contains(&&simulated.fleet.services[*index].name)))
}

/// Of the services with which something is wrong, the share that is told to be off treatment of the second arm.
pub fn off_treatment(simulated: &Simulated, analysis: &Analysis) -> Option<f64> {
    share(simulated.odd.iter().map(|index| {
        analysis.services[*index].off_treatment_in.iter().any(|off_treatment| off_treatment.arm == 1)
    }))
}

/// Whether any service with which nothing is wrong is told to be off treatment.
pub fn any_false_off_treatment(simulated: &Simulated, analysis: &Analysis) -> Option<f64> {
    let mut services = analysis.services.iter().enumerate();
    yes(services
        .any(|(index, service)| !simulated.odd.contains(&index) && !service.off_treatment_in.is_empty()))
}
