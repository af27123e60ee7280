//! Which readings are of one service, and what it is called.
//!
//! See docs/import.md, "Services", for the rule.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use heaptrial_store::ImportedSample;
use serde_json::{Map, Value, json};

use super::summary::some_of;
use crate::ImportError;
use crate::measured::MeasuredService;
use crate::problem::{Place, ProblemKind, Problems};

#[derive(Debug, Default)]
pub(super) struct Service {
    pub name: String,
    pub nickname: String,
    pub earlier_nicknames: Vec<String>,
    pub server: String,
    pub fingerprint: String,
    pub samples: Vec<ImportedSample>,
    pub groups: Vec<(i64, String)>,
}

impl Service {
    /// Of a member of a list that no file has readings of.
    pub fn never_measured(member: &str) -> Self {
        Self { name: member.to_owned(), nickname: member.to_owned(), ..Self::default() }
    }

    pub fn nicknames(&self) -> impl Iterator<Item = &str> {
        self.earlier_nicknames.iter().chain([&self.nickname]).map(String::as_str)
    }

    /// Its nicknames, and its name where that is another.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let name = Some(self.name.as_str()).filter(|name| self.nicknames().all(|nickname| nickname != *name));
        self.nicknames().chain(name)
    }

    /// The group that its rows name last.
    pub fn group(&self) -> Option<&str> {
        self.groups.iter().map(|(_, group)| group.as_str()).rfind(|group| !group.is_empty())
    }

    /// A service from what was read under each of its nicknames, labels and fingerprints. Of two readings at one time the first
    /// is kept. Gives how many were there twice as well.
    fn of(mut parts: Vec<MeasuredService>, problems: &mut Problems) -> Result<(Self, u64), ImportError> {
        let file = parts[0].file.clone();
        let mut samples: Vec<ImportedSample> =
            parts.iter().flat_map(|part| part.samples.iter().copied()).collect();
        let mut groups: Vec<(i64, String)> =
            parts.iter().flat_map(|part| part.groups.iter().cloned()).collect();
        parts.sort_by_key(|part| part.span().1);
        let mut nicknames: Vec<String> = Vec::new();
        for part in &parts {
            nicknames.retain(|known| *known != part.nickname);
            nicknames.push(part.nickname.clone());
        }
        let nickname = nicknames.pop().unwrap_or_default();
        groups.sort_by_key(|(since, _)| *since);
        groups.dedup_by(|later, earlier| later.1 == earlier.1);
        // Stable: what the files have first stays first.
        samples.sort_by_key(|sample| sample.wall_us);
        let mut duplicates = 0;
        let mut kept: Vec<ImportedSample> = Vec::with_capacity(samples.len());
        for sample in samples {
            match kept.last() {
                Some(last) if *last == sample => duplicates += 1,
                Some(last) if last.wall_us == sample.wall_us => {
                    let what =
                        "a second reading of this service at this time with other values; the first was kept";
                    let place = Place { value: nickname.as_bytes(), ..Place::of_file(&file) };
                    problems.report(place, ProblemKind::ConflictingReading, what)?;
                }
                _ => kept.push(sample),
            }
        }
        let last = |of: fn(&MeasuredService) -> &String| {
            parts.iter().map(of).rfind(|text| !text.is_empty()).cloned().unwrap_or_default()
        };
        let service = Self {
            name: String::new(),
            nickname,
            earlier_nicknames: nicknames,
            server: last(|part| &part.server),
            fingerprint: last(|part| &part.fingerprint),
            samples: kept,
            groups,
        };
        Ok((service, duplicates))
    }

    /// What the database keeps alongside its name. `starts` says of each life how its start was found.
    pub fn attributes(&self, starts: Vec<Value>) -> Value {
        let mut attributes = Map::new();
        for (name, text) in
            [("nickname", &self.nickname), ("server", &self.server), ("fingerprint", &self.fingerprint)]
        {
            if !text.is_empty() {
                attributes.insert(name.to_owned(), json!(text));
            }
        }
        if !starts.is_empty() {
            attributes.insert("starts".to_owned(), Value::Array(starts));
        }
        Value::Object(attributes)
    }
}

/// All services with their names, and how many readings were there twice.
pub(super) fn services(
    measured: Vec<MeasuredService>,
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
    let shared = name(&mut services);
    let renamed: Vec<String> = services
        .iter()
        .filter(|service| !service.earlier_nicknames.is_empty())
        .map(|service| Vec::from_iter(service.nicknames()).join(" = "))
        .collect();
    for (names, what) in [
        (shared, "nicknames of several services, which are named NICKNAME@SERVER"),
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

/// Names each service by its nickname, with its server and a number where several share it; gives the nicknames that are shared.
fn name(services: &mut [Service]) -> Vec<String> {
    let mut nicknames: BTreeMap<String, usize> = BTreeMap::new();
    for service in services.iter() {
        *nicknames.entry(service.nickname.clone()).or_default() += 1;
    }
    let mut taken: HashSet<String> =
        nicknames.iter().filter(|(_, count)| **count == 1).map(|(name, _)| name.clone()).collect();
    for service in services {
        service.name = service.nickname.clone();
        if nicknames[&service.nickname] == 1 {
            continue;
        }
        // A service's name has 255 characters at most.
        let mut name: String = service.nickname.chars().take(130).collect();
        if !service.server.is_empty() {
            name.extend("@".chars().chain(service.server.chars().take(64)));
        }
        service.name = name.clone();
        for number in 2.. {
            if taken.insert(service.name.clone()) {
                break;
            }
            service.name = format!("{name}@{number}");
        }
    }
    nicknames.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect()
}
