//! Services of the files, joined with those that were imported before.

use std::collections::HashMap;

use heaptrial_store::{ImportedSample, ImportedService, ImportedTrial};
use serde_json::{Map, Value, json};

use super::lists::{Member, nickname};
use crate::ImportError;
use crate::measured::MeasuredService;
use crate::problem::{Place, ProblemKind, Problems};
use crate::torutils::RelayConfig;

/// A service with all of its readings.
#[derive(Debug, Default)]
pub(super) struct MergedService {
    pub name: String,
    pub nickname: String,
    pub server: String,
    pub fingerprint: String,
    /// What is configured for it, as a JSON object.
    pub config: Option<Value>,
    pub samples: Vec<ImportedSample>,
    pub groups: Vec<(i64, String)>,
    pub new_samples: u64,
    pub duplicates: u64,
}

impl MergedService {
    /// Whether a member of a list is this service.
    pub fn is(&self, member: &Member) -> bool {
        let fingerprints_agree = match &member.fingerprint {
            Some(fingerprint) => self.fingerprint.is_empty() || self.fingerprint == *fingerprint,
            None => true,
        };
        self.name == member.name || (self.nickname == member.name && fingerprints_agree)
    }

    /// What the database keeps beside its name. `starts` tells of each life how its start was found.
    pub fn attributes(&self, starts: Vec<Value>) -> Value {
        let mut attributes = Map::new();
        attributes.insert("nickname".to_owned(), json!(self.nickname));
        for (name, text) in [("server", &self.server), ("fingerprint", &self.fingerprint)] {
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

/// Joins what the files tell with what is stored: the services of the files first, then those that are only stored.
pub(super) fn merge(
    measured: Vec<MeasuredService>,
    stored: Option<&ImportedTrial>,
    relays: &[RelayConfig],
    problems: &mut Problems,
) -> Result<Vec<MergedService>, ImportError> {
    let mut by_nickname: HashMap<&str, Vec<&ImportedService>> = HashMap::new();
    for service in stored.iter().flat_map(|trial| &trial.services) {
        by_nickname.entry(nickname(service)).or_default().push(service);
    }
    let mut merged = Vec::with_capacity(measured.len());
    for service in measured {
        let known =
            by_nickname.get_mut(service.nickname.as_str()).and_then(|known| take_same(known, &service));
        merged.push(join(service, known, problems)?);
    }
    for service in stored.iter().flat_map(|trial| &trial.services) {
        let unclaimed = by_nickname
            .get(nickname(service))
            .is_some_and(|left| left.iter().any(|other| std::ptr::eq(*other, service)));
        if unclaimed {
            merged.push(join(only_stored(service), Some(service), problems)?);
        }
    }
    let mut configured: HashMap<&str, Vec<&RelayConfig>> = HashMap::new();
    for relay in relays {
        configured.entry(relay.nickname.as_str()).or_default().push(relay);
    }
    for service in &mut merged {
        let relay = configured.get(service.nickname.as_str()).and_then(|relays| {
            let same =
                |relay: &&&RelayConfig| relay.fingerprint.as_deref() == Some(service.fingerprint.as_str());
            relays.iter().find(same).or_else(|| relays.first())
        });
        if let Some(relay) = relay.filter(|relay| !relay.values.is_empty()) {
            service.config = Some(json!(relay.values));
        }
    }
    Ok(merged)
}

fn attribute<'a>(service: &'a ImportedService, name: &str) -> &'a str {
    service.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Takes the stored service that a measured one is, out of those of its nickname.
fn take_same<'a>(
    known: &mut Vec<&'a ImportedService>,
    service: &MeasuredService,
) -> Option<&'a ImportedService> {
    let agree = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
    let same = |other: &&ImportedService| {
        agree(attribute(other, "server"), &service.server)
            && agree(attribute(other, "fingerprint"), &service.fingerprint)
    };
    let by_name = known.iter().position(|other| same(other) && other.name == service.name);
    let index = by_name.or_else(|| known.iter().position(same))?;
    Some(known.remove(index))
}

fn only_stored(service: &ImportedService) -> MeasuredService {
    MeasuredService {
        name: service.name.clone(),
        nickname: nickname(service).to_owned(),
        server: attribute(service, "server").to_owned(),
        fingerprint: attribute(service, "fingerprint").to_owned(),
        ..MeasuredService::default()
    }
}

fn join(
    service: MeasuredService,
    known: Option<&ImportedService>,
    problems: &mut Problems,
) -> Result<MergedService, ImportError> {
    let mut merged = MergedService {
        name: service.name,
        nickname: service.nickname,
        server: service.server,
        fingerprint: service.fingerprint,
        config: known.and_then(|known| known.attributes.get("config").cloned()),
        groups: service.groups,
        ..MergedService::default()
    };
    let Some(known) = known else {
        merged.new_samples = service.samples.len() as u64;
        merged.samples = service.samples;
        return Ok(merged);
    };
    for (text, name) in [(&mut merged.server, "server"), (&mut merged.fingerprint, "fingerprint")] {
        if text.is_empty() {
            attribute(known, name).clone_into(text);
        }
    }
    let stored = known.lives.iter().flat_map(|life| &life.samples).copied();
    let mut stored: Vec<ImportedSample> = stored.collect();
    stored.sort_by_key(|sample| sample.wall_us);
    let mut before = stored.into_iter().peekable();
    for sample in service.samples {
        while let Some(earlier) = before.next_if(|earlier| earlier.wall_us < sample.wall_us) {
            merged.samples.push(earlier);
        }
        match before.peek() {
            Some(same) if *same == sample => merged.duplicates += 1,
            Some(other) if other.wall_us == sample.wall_us => {
                let what = "the database has another reading of this service at this time; that one was kept";
                let place = Place { value: merged.name.as_bytes(), ..Place::of_file("database") };
                problems.report(place, ProblemKind::ConflictingReading, what)?;
            }
            _ => {
                merged.samples.push(sample);
                merged.new_samples += 1;
            }
        }
    }
    merged.samples.extend(before);
    Ok(merged)
}
