//! A trial over several hosts: what of the plan is in a database, and as it was drawn.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{Finding, FindingKind, Fleet, SILENT_SHARE, Severity};
use heaptrial_model::units::{self, DAY, HOUR};
use heaptrial_model::{BUILD_ID_DIGITS, Identity, TrialKind};
use heaptrial_store::{ArmRecord, PartRecord, ServiceRecord, Store};

use crate::judgement::{JudgementError, Rows};

/// Hosts that a finding names.
const NAMED: usize = 8;

/// An allocator with the digest of its very file.
fn build(identity: &Identity) -> String {
    let digest = identity.sha256.as_ref().or(identity.build_id.as_ref());
    let digest =
        digest.map(|digest| format!(" ({})", digest.chars().take(BUILD_ID_DIGITS).collect::<String>()));
    format!("{}{}", identity.label(), digest.unwrap_or_default())
}

/// The first names, and how many more there are.
fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let listed = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

impl Rows {
    /// Hosts of the plan of which nothing is here, with the number of their services; none where the plan has one host.
    pub fn missing_hosts(&self) -> Vec<(String, usize)> {
        let hosts = self.trial.hosts();
        if hosts.len() < 2 {
            return Vec::new();
        }
        let here: BTreeSet<&str> = match self.parts.as_slice() {
            [] => self.trial.own_host().into_iter().collect(),
            parts => parts.iter().map(|part| part.host.as_str()).collect(),
        };
        let missing = hosts.into_iter().filter(|(host, _)| !here.contains(host));
        missing.map(|(host, services)| (host.to_owned(), services.len())).collect()
    }

    /// Arms whose services were proved to run several builds, or with several settings.
    pub(crate) fn several_builds(&self) -> Vec<Finding> {
        if self.kind != TrialKind::Field && self.parts.is_empty() {
            return Vec::new();
        }
        let of_arm = |(arm, record): (usize, &ArmRecord)| {
            let mut ran: BTreeMap<String, Vec<&ServiceRecord>> = BTreeMap::new();
            for service in self.services.iter().filter(|service| service.arm_id == record.id) {
                let own = self.lives.iter().rev().filter(|life| life.service_id == service.id);
                let mut proved =
                    own.filter(|life| life.contamination.is_none()).filter_map(|life| life.identity.as_ref());
                let Some(identity) = proved.next() else { continue };
                let settings = identity.settings.iter().map(|(name, value)| format!(" {name}={value}"));
                let what = format!("{}{}", build(identity), settings.collect::<String>());
                ran.entry(what).or_default().push(service);
            }
            if ran.len() < 2 {
                return None;
            }
            let most = ran.values().map(Vec::len).max().unwrap_or(0);
            let listed = ran.iter().map(|(what, who)| {
                let hosts: BTreeSet<&str> = who.iter().filter_map(|service| service.host()).collect();
                let on = if hosts.is_empty() {
                    String::new()
                } else {
                    format!(" on {}", named(hosts.into_iter()))
                };
                format!("{} {what}{on}", who.len())
            });
            let few = ran.values().filter(|who| who.len() < most).flatten();
            let few = few.map(|service| service.name.clone()).collect();
            let evidence =
                format!("its services ran, as proved last: {}", listed.collect::<Vec<_>>().join("; "));
            let finding = Finding::new(FindingKind::SeveralBuilds, Severity::Caution, evidence);
            Some(finding.of_arm(arm).naming(few))
        };
        self.arms.iter().enumerate().filter_map(of_arm).collect()
    }

    /// That hosts which are here have no readings, or none until their end.
    pub(crate) fn readings_missing(
        &self,
        store: &Store,
        fleet: &Fleet,
    ) -> Result<Option<Finding>, JudgementError> {
        let hosts = self.hosts_without_readings(store, fleet)?;
        let evidence = format!("there are no readings of {}", named(hosts.iter().map(String::as_str)));
        let finding = Finding::new(FindingKind::DataMissing, Severity::Grave, evidence);
        Ok((!hosts.is_empty()).then_some(finding))
    }

    /// Hosts without a reading of any of their services, or for the last day of the trial there.
    fn hosts_without_readings(&self, store: &Store, fleet: &Fleet) -> Result<Vec<String>, JudgementError> {
        let mut hosts = Vec::new();
        for part in &self.parts {
            let in_fleet = fleet.services.iter().filter(|service| service.host.as_ref() == Some(&part.host));
            if in_fleet.flat_map(|service| &service.lives).any(|life| !life.readings.is_empty()) {
                hosts.extend(self.silent_for(part).map(|silent| {
                    format!("{} for the last {} before its end", part.host, units::duration(silent))
                }));
                continue;
            }
            // The fleet has no lives from before the trial.
            let own = self.services.iter().filter(|service| service.host() == Some(&part.host));
            let own: Vec<i64> = own.map(|service| service.id).collect();
            let mut missing = !own.is_empty();
            for life in self.lives.iter().filter(|life| own.contains(&life.service_id)) {
                missing = missing && !store.has_samples(life.id)?;
            }
            if missing {
                hosts.push(part.host.clone());
            }
        }
        Ok(hosts)
    }

    /// How long before the trial's end on a host nothing was read there any more, in seconds, where that is longer than a trial's end is.
    fn silent_for(&self, part: &PartRecord) -> Option<f64> {
        let ended_us = part.ended_wall_us?.min(self.until_us);
        let seconds = |from_us: i64| (ended_us - from_us) as f64 / 1e6;
        let silent = seconds(part.last?.wall_us);
        // The end of a trial is its last day, or a share of a shorter one, and an hour at least: putting services back takes a while.
        let longest = (SILENT_SHARE * seconds(part.started_wall_us)).clamp(HOUR, DAY);
        (silent > longest).then_some(silent)
    }

    /// That somebody wrote another arm or block into the plan than was drawn.
    pub(crate) fn assigned_by_hand(&self) -> Option<Finding> {
        let names = self.services.iter().filter(|service| service.is_by_hand());
        let names: Vec<String> = names.map(|service| service.name.clone()).collect();
        let evidence = format!(
            "{} of {} have another arm or block than was drawn for them",
            names.len(),
            units::counted(self.services.len(), "service")
        );
        let finding = Finding::new(FindingKind::AssignedByHand, Severity::Grave, evidence);
        (!names.is_empty()).then(|| finding.naming(names))
    }

    /// That services of the plan were not started on hosts that are here: their lines were removed from the plan there.
    pub(crate) fn not_started(&self) -> Option<Finding> {
        let here: BTreeSet<(&str, &str)> = self
            .services
            .iter()
            .filter_map(|service| Some((service.host()?, service.name.split_once('/')?.1)))
            .collect();
        let mut services = Vec::new();
        let mut listed = Vec::new();
        for (host, planned) in self.trial.hosts() {
            let not_here = planned.iter().filter(|service| !here.contains(&(host, **service)));
            let not_here: Vec<String> = not_here.map(|service| format!("{host}/{service}")).collect();
            if self.parts.iter().any(|part| part.host == host) && !not_here.is_empty() {
                listed.push(format!("{} of {host}", not_here.len()));
                services.extend(not_here);
            }
        }
        let evidence = format!("services of the plan were not started: {}", listed.join(", "));
        let finding = Finding::new(FindingKind::EndsEarly, Severity::Caution, evidence);
        (!services.is_empty()).then(|| finding.naming(services))
    }

    pub(crate) fn hosts_missing(&self) -> Option<Finding> {
        let missing = self.missing_hosts();
        if missing.is_empty() {
            return None;
        }
        let all = self.trial.hosts().len();
        let listed: Vec<String> = missing
            .iter()
            .map(|(host, services)| format!("{host} ({})", units::counted(*services, "service")))
            .collect();
        let evidence = format!(
            "{} of the {all} hosts of the plan are not in this database: {}",
            missing.len(),
            named(listed.iter().map(String::as_str))
        );
        Some(Finding::new(FindingKind::DataMissing, Severity::Grave, evidence))
    }
}
