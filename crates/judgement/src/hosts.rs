//! A trial over several hosts: what of the plan is in a database.

use std::collections::BTreeSet;

use heaptrial_analysis::{Finding, FindingKind, Severity};
use heaptrial_model::units;
use heaptrial_store::{own_host, planned_hosts};

use crate::Rows;

/// Hosts that a finding names.
const NAMED: usize = 8;

impl Rows {
    /// Hosts of the plan of which nothing is here, with the number of their services; none where the plan has one host.
    pub fn missing_hosts(&self) -> Vec<(String, usize)> {
        let parameters = &self.trial.plan.parameters;
        let hosts = planned_hosts(parameters);
        if hosts.len() < 2 {
            return Vec::new();
        }
        let names: BTreeSet<&str> = self.services.iter().map(|service| service.name.as_str()).collect();
        let here: BTreeSet<&str> = match self.parts.as_slice() {
            [] => own_host(parameters, &names).into_iter().collect(),
            parts => parts.iter().map(|part| part.host.as_str()).collect(),
        };
        let missing = hosts.into_iter().filter(|(host, _)| !here.contains(host));
        missing.map(|(host, services)| (host.to_owned(), services.len())).collect()
    }

    /// That hosts are missing, where some are.
    pub(crate) fn hosts_missing(&self) -> Option<Finding> {
        let missing = self.missing_hosts();
        if missing.is_empty() {
            return None;
        }
        let all = planned_hosts(&self.trial.plan.parameters).len();
        let told: Vec<String> = missing
            .iter()
            .take(NAMED)
            .map(|(host, services)| format!("{host} ({})", units::counted(*services, "service")))
            .collect();
        let more = missing.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(Finding {
            kind: FindingKind::HostsMissing,
            severity: Severity::Grave,
            arms: Vec::new(),
            services: Vec::new(),
            evidence: format!(
                "{} of the {all} hosts of the plan are not in this database: {}{more}",
                missing.len(),
                told.join(", ")
            ),
            effect: "Every figure is of the other hosts only; `heaptrial import heaptrial` takes in what a host's \
                     `heaptrial export` wrote."
                .to_owned(),
        })
    }
}
