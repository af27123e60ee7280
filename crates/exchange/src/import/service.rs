//! Which readings are of one service, and what it is called.
//!
//! See docs/import.md, "Services", for the rule.

use std::collections::{BTreeSet, HashMap, HashSet};

use heaptrial_store::ImportedSample;
use serde_json::{Map, Value, json};

use super::lists::Member;
use super::summary::some_of;
use crate::ImportError;
use crate::measured::MeasuredService;
use crate::problem::{Place, ProblemKind, Problems};
use crate::tables::RelayConfig;

/// A service with all of its readings.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub name: String,
    /// The last one that it had.
    pub nickname: String,
    /// Those before, in order of time.
    pub earlier_nicknames: Vec<String>,
    /// The last label of its server.
    pub server: String,
    pub fingerprint: String,
    /// What is configured for it, as a JSON object.
    pub config: Option<Value>,
    pub samples: Vec<ImportedSample>,
    pub groups: Vec<(i64, String)>,
}

impl Service {
    /// Whether a member of a list is this service.
    pub fn is(&self, member: &Member) -> bool {
        let fingerprints_agree = match &member.fingerprint {
            Some(fingerprint) => self.fingerprint.is_empty() || self.fingerprint == *fingerprint,
            None => true,
        };
        self.name == member.name
            || (self.nicknames().any(|nickname| nickname == member.name) && fingerprints_agree)
    }

    pub fn nicknames(&self) -> impl Iterator<Item = &str> {
        self.earlier_nicknames.iter().chain([&self.nickname]).map(String::as_str)
    }

    /// The group that its rows name last.
    pub fn group(&self) -> Option<&str> {
        self.groups.iter().map(|(_, group)| group.as_str()).rfind(|group| !group.is_empty())
    }

    /// A service from what was read under each of its nicknames, labels and fingerprints. Of two readings at one time the first
    /// is kept. Gives how many were there twice as well.
    fn of(mut parts: Vec<MeasuredService>, problems: &mut Problems) -> Result<(Self, u64), ImportError> {
        let mut service = Self::default();
        let mut duplicates = 0;
        service.samples = parts.iter().flat_map(|part| part.samples.iter().copied()).collect();
        service.groups = parts.iter().flat_map(|part| part.groups.iter().cloned()).collect();
        parts.sort_by_key(|part| part.span().1);
        for part in &parts {
            service.earlier_nicknames.retain(|known| *known != part.nickname);
            service.earlier_nicknames.push(part.nickname.clone());
        }
        let last = |of: fn(&MeasuredService) -> &String| {
            parts.iter().map(of).rfind(|text| !text.is_empty()).cloned().unwrap_or_default()
        };
        service.nickname = service.earlier_nicknames.pop().unwrap_or_default();
        service.server = last(|part| &part.server);
        service.fingerprint = last(|part| &part.fingerprint);
        service.groups.sort_by_key(|(since, _)| *since);
        service.groups.dedup_by(|later, earlier| later.1 == earlier.1);
        // Stable: what the files have first stays first.
        service.samples.sort_by_key(|sample| sample.wall_us);
        let mut conflicts = 0;
        service.samples.dedup_by(|later, earlier| {
            duplicates += u64::from(later == earlier);
            conflicts += u64::from(later != earlier && later.wall_us == earlier.wall_us);
            later.wall_us == earlier.wall_us
        });
        for _ in 0..conflicts {
            let what = "a second reading of this service at this time with other values; the first was kept";
            let place = Place { value: service.nickname.as_bytes(), ..Place::of_file(&parts[0].file) };
            problems.report(place, ProblemKind::ConflictingReading, what)?;
        }
        Ok((service, duplicates))
    }

    /// What the database keeps beside its name. `starts` says of each life how its start was found.
    pub fn attributes(&self, starts: Vec<Value>) -> Value {
        let mut attributes = Map::new();
        for (name, text) in
            [("nickname", &self.nickname), ("server", &self.server), ("fingerprint", &self.fingerprint)]
        {
            if !text.is_empty() {
                attributes.insert(name.to_owned(), json!(text));
            }
        }
        if let Some(config) = &self.config {
            attributes.insert("config".to_owned(), config.clone());
        }
        if !starts.is_empty() {
            attributes.insert("starts".to_owned(), Value::Array(starts));
        }
        Value::Object(attributes)
    }
}

/// All services with their names and what is configured for them, and how many readings were there twice.
pub(super) fn services(
    measured: Vec<MeasuredService>,
    relays: &[RelayConfig],
    notes: &mut Vec<String>,
    problems: &mut Problems,
) -> Result<(Vec<Service>, u64), ImportError> {
    let mut services = Vec::new();
    let mut duplicates = 0;
    let mut relabelled = Vec::new();
    for parts in by_service(measured) {
        let labels: HashSet<String> =
            parts.iter().map(|part| part.server.clone()).filter(|label| !label.is_empty()).collect();
        let (service, twice) = Service::of(parts, problems)?;
        if labels.len() > 1 {
            relabelled.push(service.nickname.clone());
        }
        duplicates += twice;
        services.push(service);
    }
    let mut configured: HashMap<&str, Vec<&RelayConfig>> = HashMap::new();
    for relay in relays {
        configured.entry(relay.nickname.as_str()).or_default().push(relay);
    }
    for service in &mut services {
        let relay = configured.get(service.nickname.as_str()).and_then(|relays| {
            let same =
                |relay: &&&RelayConfig| relay.fingerprint.as_deref() == Some(service.fingerprint.as_str());
            relays.iter().find(same).or_else(|| relays.first())
        });
        if let Some(relay) = relay.filter(|relay| !relay.values.is_empty()) {
            service.config = Some(json!(relay.values));
        }
    }
    let shared = name(&mut services);
    let renamed: Vec<String> = services
        .iter()
        .filter(|service| !service.earlier_nicknames.is_empty())
        .map(|service| Vec::from_iter(service.nicknames()).join(" = "))
        .collect();
    for (names, what) in [
        (shared, "nicknames of several services, which are named NICKNAME@SERVER or by fingerprint"),
        (relabelled, "services whose server was read under one label after another, each counted once"),
        (renamed, "services that were renamed, each counted once by its fingerprint"),
    ] {
        if !names.is_empty() {
            notes.push(format!("{what}: {} ({})", names.len(), some_of(names.iter().map(String::as_str))));
        }
    }
    Ok((services, duplicates))
}

/// What was read of each service: a service is its fingerprint, else its nickname. Where several labels of a server were read at the
/// same time under it, each of them is a service.
fn by_service(measured: Vec<MeasuredService>) -> Vec<Vec<MeasuredService>> {
    let mut fingerprints: HashMap<String, BTreeSet<String>> = HashMap::new();
    for part in measured.iter().filter(|part| !part.fingerprint.is_empty()) {
        fingerprints.entry(part.nickname.clone()).or_default().insert(part.fingerprint.clone());
    }
    let mut services: Vec<Vec<MeasuredService>> = Vec::new();
    let mut places: HashMap<(bool, String), usize> = HashMap::new();
    for part in measured {
        let of_nickname = fingerprints.get(&part.nickname).filter(|known| known.len() == 1);
        let key = match (part.fingerprint.as_str(), of_nickname) {
            ("", None) => (false, part.nickname.clone()),
            // Rows from before the scripts wrote fingerprints are of the one relay of that name.
            ("", Some(one)) => (true, one.iter().cloned().collect()),
            (fingerprint, _) => (true, fingerprint.to_owned()),
        };
        let place = *places.entry(key).or_insert(services.len());
        if place == services.len() {
            services.push(Vec::new());
        }
        services[place].push(part);
    }
    services.into_iter().flat_map(by_label).collect()
}

fn by_label(parts: Vec<MeasuredService>) -> Vec<Vec<MeasuredService>> {
    let mut labels: Vec<(String, (i64, i64))> = Vec::new();
    for part in parts.iter().filter(|part| !part.server.is_empty()) {
        match labels.iter_mut().find(|(label, _)| *label == part.server) {
            Some((_, span)) => *span = (span.0.min(part.span().0), span.1.max(part.span().1)),
            None => labels.push((part.server.clone(), part.span())),
        }
    }
    labels.sort_by_key(|(_, span)| *span);
    // Labels that follow each other, with the last time at which the last of them was read.
    let mut services: Vec<(Vec<String>, i64)> = Vec::new();
    for (label, (first_us, last_us)) in labels {
        let ended: Vec<usize> =
            (0..services.len()).filter(|service| services[*service].1 < first_us).collect();
        // Of several that ended, any could go on under this label.
        match ended[..] {
            [one] => {
                services[one].0.push(label);
                services[one].1 = last_us;
            }
            _ => services.push((vec![label], last_us)),
        }
    }
    if services.len() < 2 {
        return vec![parts];
    }
    let mut found: Vec<(Option<usize>, Vec<MeasuredService>)> = Vec::new();
    for part in parts {
        let service = services.iter().position(|(labels, _)| labels.contains(&part.server));
        match found.iter_mut().find(|(known, _)| *known == service) {
            Some((_, parts)) => parts.push(part),
            None => found.push((service, vec![part])),
        }
    }
    found.into_iter().map(|(_, parts)| parts).collect()
}

/// Names each service by its nickname, with a suffix where several share it; gives the nicknames that are shared.
fn name(services: &mut [Service]) -> Vec<String> {
    let mut shared: HashMap<String, usize> = HashMap::new();
    let mut on_server: HashMap<(String, String), usize> = HashMap::new();
    for service in services.iter() {
        *shared.entry(service.nickname.clone()).or_default() += 1;
        *on_server.entry((service.nickname.clone(), service.server.clone())).or_default() += 1;
    }
    let mut taken: HashSet<String> =
        shared.iter().filter(|(_, count)| **count == 1).map(|(name, _)| name.clone()).collect();
    for service in services {
        if shared[&service.nickname] == 1 {
            service.name = service.nickname.clone();
            continue;
        }
        // A service's name has 255 characters at most.
        let mut name: String = service.nickname.chars().take(130).collect();
        if !service.server.is_empty() {
            name.extend("@".chars().chain(service.server.chars().take(64)));
        }
        let same_server = on_server[&(service.nickname.clone(), service.server.clone())] > 1;
        if same_server && !service.fingerprint.is_empty() {
            name = format!("{name}@{}", &service.fingerprint[..8]);
        }
        service.name = name.clone();
        // Such as of fingerprints that begin alike.
        for number in 2.. {
            if taken.insert(service.name.clone()) {
                break;
            }
            service.name = format!("{name}@{number}");
        }
    }
    let mut shared: Vec<String> =
        shared.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    shared.sort();
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    const F1: &str = "A1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";
    const F2: &str = "B1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";
    const F3: &str = "A1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D5";

    /// Readings of a nickname on a server with a fingerprint, at some hours.
    type Part<'a> = (&'a str, &'a str, &'a str, &'a [i64]);

    /// Names of the services, each with its number of readings.
    fn found(parts: &[Part<'_>]) -> Vec<(String, usize)> {
        let part = |(server, nickname, fingerprint, hours): &Part<'_>| {
            let sample =
                |hour: &i64| ImportedSample { wall_us: *hour, rss_bytes: 1, ..ImportedSample::default() };
            MeasuredService {
                nickname: (*nickname).to_owned(),
                server: (*server).to_owned(),
                fingerprint: (*fingerprint).to_owned(),
                samples: hours.iter().map(sample).collect(),
                ..MeasuredService::default()
            }
        };
        let mut problems = Problems::new(true);
        let parts = parts.iter().map(part).collect();
        let (services, _) = services(parts, &[], &mut Vec::new(), &mut problems).unwrap();
        services.into_iter().map(|service| (service.name, service.samples.len())).collect()
    }

    fn named(names: &[(&str, usize)]) -> Vec<(String, usize)> {
        names.iter().map(|(name, readings)| ((*name).to_owned(), *readings)).collect()
    }

    #[test]
    fn a_service_is_its_fingerprint_else_its_nickname() {
        let (before, after): (&[i64], &[i64]) = (&[0, 24], &[48]);
        let one = named(&[("one", 3)]);
        assert_eq!(found(&[("go", "one", F1, before), ("alpha", "one", F1, after)]), one);
        assert_eq!(found(&[("go", "one", "", before), ("alpha", "one", "", after)]), one);
        assert_eq!(found(&[("go", "one", "", before), ("alpha", "one", F1, after)]), one);
        assert_eq!(found(&[("", "one", "", before), ("alpha", "one", "", after)]), one);
        assert_eq!(found(&[("go", "uno", F1, before), ("go", "one", F1, after)]), one);
        let two = named(&[("one@go", 2), ("one@alpha", 1)]);
        assert_eq!(found(&[("go", "one", F1, before), ("alpha", "one", F2, after)]), two);
    }

    #[test]
    fn labels_that_are_read_at_the_same_time_are_two_services() {
        let two = named(&[("one@go", 3), ("one@co", 3)]);
        for fingerprint in ["", F1] {
            for hours in [&[0, 24, 48], &[1, 25, 49]] {
                let both = [("go", "one", fingerprint, &[0, 24, 48][..]), ("co", "one", fingerprint, hours)];
                assert_eq!(found(&both), two);
            }
        }
    }

    #[test]
    fn a_nickname_names_a_service_unless_several_share_it() {
        let at: &[i64] = &[0];
        let names = |parts: &[(&str, &str, &str)]| -> Vec<String> {
            let parts: Vec<Part<'_>> = parts
                .iter()
                .map(|(server, nickname, fingerprint)| (*server, *nickname, *fingerprint, at))
                .collect();
            found(&parts).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&[("go", "one", F1), ("go", "one", F2)]), ["one@go@A1B2C3D4", "one@go@B1B2C3D4"]);
        assert_eq!(names(&[("go", "one", F1), ("go", "one", F3)]), ["one@go@A1B2C3D4", "one@go@A1B2C3D4@2"]);
        assert_eq!(names(&[("", "one", F1), ("", "one", F2), ("", "one", "")])[2], "one");
        assert_eq!(names(&[("go", "one@go", ""), ("go", "one", F1), ("co", "one", F2)])[1], "one@go@2");
    }
}
