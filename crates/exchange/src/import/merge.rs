//! Services of the files, joined with those that were imported before.

use std::collections::HashMap;

use heaptrial_store::{ImportedSample, ImportedTrial};
use serde_json::{Map, Value, json};

use super::identity::{self, Rule};
use super::labels::{self, KeptApart, Relabelled};
use super::lists::Member;
use super::names;
use super::piece::{self, EARLIER_NICKNAMES, LABELS, Label, Piece};
use crate::ImportError;
use crate::measured::MeasuredService;
use crate::problem::Problems;
use crate::torutils::RelayConfig;

/// All services, and what was decided about the labels of their servers.
pub(super) struct Merged {
    pub services: Vec<MergedService>,
    pub relabelled: Vec<Relabelled>,
    pub kept_apart: Vec<KeptApart>,
}

/// A service with all of its readings.
#[derive(Debug, Default)]
pub(super) struct MergedService {
    pub name: String,
    /// The last one that it had.
    pub nickname: String,
    /// Those before, in order of time.
    pub earlier_nicknames: Vec<String>,
    /// The last label of its server.
    pub server: String,
    /// The labels in order of time; empty where there is one only.
    pub labels: Vec<Label>,
    pub fingerprint: String,
    /// Names that it has in the database.
    pub stored_names: Vec<String>,
    /// Where it is named first in the files.
    pub first_row: (String, u64),
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
        self.name == member.name
            || self.stored_names.contains(&member.name)
            || (self.nicknames().any(|nickname| nickname == member.name) && fingerprints_agree)
    }

    pub fn nicknames(&self) -> impl Iterator<Item = &str> {
        self.earlier_nicknames.iter().chain([&self.nickname]).map(String::as_str)
    }

    /// The group that its rows name last.
    pub fn group(&self) -> Option<&str> {
        self.groups.iter().map(|(_, group)| group.as_str()).rfind(|group| !group.is_empty())
    }

    /// A service from its pieces. Of readings at one time, which do not differ, the first is kept.
    fn of(pieces: &[Piece]) -> Self {
        if pieces.is_empty() {
            return Self::default();
        }
        let mut nicknames: Vec<&str> = Vec::new();
        let mut in_order: Vec<&Piece> = pieces.iter().collect();
        in_order.sort_by_key(|piece| piece.span().map(|(_, last)| last));
        for piece in in_order {
            for nickname in piece.earlier_nicknames.iter().chain([&piece.nickname]) {
                nicknames.retain(|known| known != nickname);
                nicknames.push(nickname);
            }
        }
        let nickname = nicknames.pop().unwrap_or_default().to_owned();
        let text = |of: fn(&Piece) -> &String| {
            pieces.iter().map(of).find(|text| !text.is_empty()).cloned().unwrap_or_default()
        };
        let mut readings: Vec<(ImportedSample, &str)> = Vec::new();
        for piece in pieces {
            readings.extend(piece.samples.iter().map(|sample| (*sample, piece.server.as_str())));
        }
        // Stable: the first piece stays first.
        readings.sort_by_key(|(sample, _)| sample.wall_us);
        let all = readings.len();
        readings.dedup_by_key(|(sample, _)| sample.wall_us);
        let mut groups: Vec<(i64, String)> = pieces.iter().flat_map(|piece| piece.groups.clone()).collect();
        groups.sort_by_key(|(since, _)| *since);
        groups.dedup_by(|later, earlier| later.1 == earlier.1);
        let stored: usize = pieces.iter().map(|piece| piece.stored_samples).sum();
        let mut labels: Vec<Label> = Vec::new();
        for (sample, server) in &readings {
            match labels.last_mut() {
                Some(label) if label.server == *server => label.last_us = sample.wall_us,
                _ => labels.push(Label {
                    server: (*server).to_owned(),
                    first_us: sample.wall_us,
                    last_us: sample.wall_us,
                }),
            }
        }
        let last = labels.iter().rfind(|label| !label.server.is_empty());
        Self {
            name: String::new(),
            nickname,
            earlier_nicknames: nicknames.into_iter().map(str::to_owned).collect(),
            server: last.map_or_else(|| text(|piece| &piece.server), |label| label.server.clone()),
            fingerprint: text(|piece| &piece.fingerprint),
            stored_names: pieces.iter().flat_map(|piece| piece.stored_names.clone()).collect(),
            first_row: pieces
                .iter()
                .map(|piece| &piece.first_row)
                .find(|row| row.1 > 0)
                .cloned()
                .unwrap_or_default(),
            config: pieces.iter().find_map(|piece| piece.config.clone()),
            new_samples: readings.len().saturating_sub(stored) as u64,
            duplicates: pieces.iter().map(|piece| piece.duplicates).sum::<u64>()
                + (all - readings.len()) as u64,
            samples: readings.into_iter().map(|(sample, _)| sample).collect(),
            labels: if labels.len() > 1 { labels } else { Vec::new() },
            groups,
        }
    }

    /// What the database keeps beside its name. `starts` tells of each life how its start was found.
    pub fn attributes(&self, starts: Vec<Value>) -> Value {
        let mut attributes = Map::new();
        attributes.insert("nickname".to_owned(), json!(self.nickname));
        if !self.earlier_nicknames.is_empty() {
            attributes.insert(EARLIER_NICKNAMES.to_owned(), json!(self.earlier_nicknames));
        }
        for (name, text) in [("server", &self.server), ("fingerprint", &self.fingerprint)] {
            if !text.is_empty() {
                attributes.insert(name.to_owned(), json!(text));
            }
        }
        if !self.labels.is_empty() {
            attributes.insert(LABELS.to_owned(), json!(self.labels));
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

/// Joins what the files tell with what is stored, and finds out which of it is one service.
pub(super) fn merge(
    measured: Vec<MeasuredService>,
    stored: Option<&ImportedTrial>,
    relays: &[RelayConfig],
    rule: Rule,
    problems: &mut Problems,
) -> Result<Merged, ImportError> {
    let pieces = piece::pieces(measured, stored, problems)?;
    let (members, apart) = identity::services(&pieces, rule);
    let mut kept_apart = labels::apart(&pieces, &apart);
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    let mut services = Vec::with_capacity(members.len());
    let mut parts: Vec<Vec<Piece>> = Vec::with_capacity(members.len());
    for members in members {
        let own: Vec<Piece> = members.into_iter().filter_map(|index| pieces[index].take()).collect();
        services.push(MergedService::of(&own));
        parts.push(own);
    }
    names::name(&mut services, problems)?;
    kept_apart.extend(labels::renamed(&services));
    let changes = services.iter().zip(&parts).filter(|(_, own)| own.len() > 1);
    let changes = changes.flat_map(|(service, own)| labels::changes(&service.name, own)).collect();
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
    Ok(Merged { services, relabelled: labels::together(changes), kept_apart })
}
