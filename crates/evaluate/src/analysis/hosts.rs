//! Whether arms do the same on every host.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::units;
use heaptrial_stats::{ALPHA, geometric_mean, holm, interaction_p_value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::figures::{blocks, memory, ratio_of};
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Analysis, Finding, FindingKind, RatioToControl, Severity};

/// What an arm does on each host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByHost {
    pub arm: usize,
    /// Its figures by host, in order of names.
    pub hosts: Vec<OnHost>,
    /// p-value of one ratio on all hosts; `None` where services are too few, and of the control.
    pub p_value: Option<f64>,
    /// The same adjusted for the number of arms (Holm).
    pub p_value_adjusted: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnHost {
    pub host: String,
    pub services: u32,
    /// The geometric mean of what is compared, in bytes.
    pub level_bytes: Option<f64>,
    /// In proportion to the control's services of the same host and blocks.
    pub ratio: Option<RatioToControl>,
}

/// Figures of arms by host, of a fleet over several hosts; nothing of others. Off-treatment services are left out.
pub fn by_host(fleet: &Fleet, analysis: &Analysis) -> Vec<ByHost> {
    let hosts: BTreeSet<&String> =
        fleet.services.iter().filter_map(|service| service.host.as_ref()).collect();
    let (Some(control), true) = (fleet.control(), hosts.len() > 1) else { return Vec::new() };
    let members = |arm: usize, host: &String| -> Vec<usize> {
        let own = |index: &usize| fleet.services[*index].host.as_ref() == Some(host);
        analysis.members(arm).into_iter().filter(own).collect()
    };
    let of_arm = |arm: usize| {
        let value = memory(fleet, &analysis.services, control, arm);
        let on_host = |host: &&String| {
            let own = members(arm, host);
            let values: Vec<f64> = own.iter().filter_map(|index| value(*index)).collect();
            OnHost {
                host: (*host).clone(),
                services: values.len() as u32,
                level_bytes: geometric_mean(&values),
                ratio: (arm != control)
                    .then(|| ratio_of(fleet, &analysis.settings, &value, &members(control, host), &own))
                    .flatten(),
            }
        };
        let groups: Vec<_> = hosts
            .iter()
            .map(|host| blocks(fleet, &value, &members(control, host), &members(arm, host)))
            .collect();
        ByHost {
            arm,
            hosts: hosts.iter().map(on_host).collect(),
            p_value: (arm != control).then(|| interaction_p_value(&groups, fleet.seed)).flatten(),
            p_value_adjusted: None,
        }
    };
    let mut arms: Vec<ByHost> = (0..fleet.arms.len()).map(of_arm).collect();
    let p_values: Vec<Option<f64>> = arms.iter().map(|arm| arm.p_value).collect();
    for (arm, adjusted) in arms.iter_mut().zip(holm(&p_values)) {
        arm.p_value_adjusted = adjusted;
    }
    arms
}

/// Arms that do not do the same on every host.
pub fn differing_hosts(fleet: &Fleet, arms: &[ByHost]) -> Vec<Finding> {
    let differs = |arm: &&ByHost| arm.p_value_adjusted.is_some_and(|p_value| p_value <= ALPHA);
    let finding = |arm: &ByHost| {
        let ratios: BTreeMap<&str, f64> = arm
            .hosts
            .iter()
            .filter_map(|on| Some((on.host.as_str(), on.ratio.as_ref()?.estimate.value)))
            .collect();
        let ratios: Vec<String> =
            ratios.into_iter().map(|(host, ratio)| format!("{} on {host}", units::ratio(ratio))).collect();
        let evidence = format!(
            "in proportion to the control {} is {} (p {:.3} of one ratio on all hosts)",
            fleet.arms[arm.arm].name,
            ratios.join(", "),
            arm.p_value_adjusted.unwrap_or(1.0)
        );
        Finding::new(FindingKind::DiffersByHost, Severity::Caution, evidence).of_arm(arm.arm)
    };
    arms.iter().filter(differs).map(finding).collect()
}
