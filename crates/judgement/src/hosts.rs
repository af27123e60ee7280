//! A trial over several hosts: what of the plan is in a database.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_analysis::{Finding, FindingKind, Severity};
use heaptrial_model::{Identity, units};
use heaptrial_store::{ArmRecord, own_host, planned_hosts};

use crate::Rows;

/// Hosts that a finding names.
const NAMED: usize = 8;
/// Digits of a digest that are told.
const DIGITS: usize = 12;

/// An allocator with the digest of its very file.
fn build(identity: &Identity) -> String {
    let digest = identity.sha256.as_ref().or(identity.build_id.as_ref());
    let digest = digest.map(|digest| format!(" ({})", digest.chars().take(DIGITS).collect::<String>()));
    format!("{}{}", identity.label(), digest.unwrap_or_default())
}

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

    /// Arms whose services were proved to run another build on other hosts, as where systems differ.
    pub(crate) fn builds_by_host(&self) -> Vec<Finding> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let of_arm = |(arm, record): (usize, &ArmRecord)| {
            let mut hosts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
            for service in self.services.iter().filter(|service| service.arm_id == record.id) {
                let Some(host) = service.host() else { continue };
                let own = self.lives.iter().filter(|life| life.service_id == service.id);
                let proved =
                    own.filter(|life| life.contamination.is_none()).filter_map(|life| life.identity.as_ref());
                for identity in proved {
                    hosts.entry(build(identity)).or_default().insert(host);
                }
            }
            let all: BTreeSet<&BTreeSet<&str>> = hosts.values().collect();
            // Builds that every host runs are no difference between hosts.
            if all.len() < 2 {
                return None;
            }
            let told = hosts.iter().map(|(build, hosts)| {
                let named: Vec<&str> = hosts.iter().take(NAMED).copied().collect();
                let more = hosts.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{build} on {}{more}", named.join(", "))
            });
            Some(Finding {
                kind: FindingKind::BuildsByHost,
                severity: Severity::Caution,
                arms: vec![arm],
                services: Vec::new(),
                evidence: format!("its services ran {}", told.collect::<Vec<_>>().join("; ")),
                effect: "Services are compared within their host, so the ratio is of like with like; where it differs between these \
                         hosts, that may come from the build."
                    .to_owned(),
            })
        };
        self.arms.iter().enumerate().filter_map(of_arm).collect()
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
