//! What files and database know under one nickname, one label of a server and one fingerprint.

use std::collections::HashMap;

use heaptrial_store::{ImportedSample, ImportedService, ImportedTrial};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lists::nickname;
use crate::ImportError;
use crate::measured::MeasuredService;
use crate::problem::{Place, ProblemKind, Problems};

/// The name of the attribute in which a service keeps the labels that its server had.
pub(super) const LABELS: &str = "labels";
/// The name of the attribute in which a relay that was renamed keeps the nicknames that it had before.
pub(super) const EARLIER_NICKNAMES: &str = "earlier_nicknames";

/// The label that a server had, from the first reading under it to the last one, in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Label {
    pub server: String,
    pub first_us: i64,
    pub last_us: i64,
}

/// Readings of one nickname under one label of its server. A service is made of one of these, or of several.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub nickname: String,
    /// Of what is stored, those before.
    pub earlier_nicknames: Vec<String>,
    pub server: String,
    pub fingerprint: String,
    /// In order of time, one per time.
    pub samples: Vec<ImportedSample>,
    /// Groups that the files name: since when, and which.
    pub groups: Vec<(i64, String)>,
    /// Where it is named first in the files.
    pub first_row: (String, u64),
    /// Names of the stored services that it is of.
    pub stored_names: Vec<String>,
    /// Readings that are stored already.
    pub stored_samples: usize,
    /// What is configured for it, as it is stored.
    pub config: Option<Value>,
    /// Readings that were there twice.
    pub duplicates: u64,
}

impl Piece {
    /// First and last reading, in microseconds since 1970.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.samples.first()?.wall_us, self.samples.last()?.wall_us))
    }

    fn measured(service: MeasuredService) -> Self {
        Self {
            nickname: service.nickname,
            server: service.server,
            fingerprint: service.fingerprint,
            samples: service.samples,
            groups: service.groups,
            first_row: service.first_row,
            ..Self::default()
        }
    }

    /// Adds what is known of the same relay under the same label. Of two readings at one time the first is kept.
    pub fn take_in(&mut self, other: Self, problems: &mut Problems) -> Result<(), ImportError> {
        if self.server.is_empty() {
            self.server = other.server;
        }
        if self.fingerprint.is_empty() {
            self.fingerprint = other.fingerprint;
        }
        if self.first_row.0.is_empty() {
            self.first_row = other.first_row;
        }
        self.groups = join_groups(self, (other.groups, &other.samples));
        self.stored_names.extend(other.stored_names);
        self.stored_samples += other.stored_samples;
        self.config = self.config.take().or(other.config);
        self.duplicates += other.duplicates;
        let mut merged = Vec::with_capacity(self.samples.len() + other.samples.len());
        let mut before = std::mem::take(&mut self.samples).into_iter().peekable();
        for sample in other.samples {
            while let Some(earlier) = before.next_if(|earlier| earlier.wall_us < sample.wall_us) {
                merged.push(earlier);
            }
            match before.peek() {
                Some(same) if *same == sample => self.duplicates += 1,
                Some(different) if different.wall_us == sample.wall_us => {
                    let what = match self.stored_samples {
                        0 => {
                            "a second reading of this service at this time with other values; the first was kept"
                        }
                        _ => {
                            "the database has another reading of this service at this time; that one was kept"
                        }
                    };
                    let file = if self.stored_samples > 0 { "database" } else { &self.first_row.0 };
                    let place = Place { value: self.nickname.as_bytes(), ..Place::of_file(file) };
                    problems.report(place, ProblemKind::ConflictingReading, what)?;
                }
                _ => merged.push(sample),
            }
        }
        merged.extend(before);
        self.samples = merged;
        Ok(())
    }
}

/// Groups of two sources of one piece. What is stored tells one group, in which the piece was last; it counts for the
/// time that the files do not tell.
fn join_groups(
    piece: &Piece,
    (other, samples): (Vec<(i64, String)>, &[ImportedSample]),
) -> Vec<(i64, String)> {
    if piece.stored_samples == 0 || piece.groups.is_empty() || other.is_empty() {
        let mut groups = piece.groups.clone();
        groups.extend(other);
        groups.sort_by_key(|(since, _)| *since);
        return groups;
    }
    let (first, last) = (other[0].0, samples.last().map_or(i64::MIN, |sample| sample.wall_us));
    let stored = &piece.groups[piece.groups.len() - 1].1;
    let mut groups = other;
    if let Some(after) = piece.samples.iter().find(|sample| sample.wall_us > last) {
        groups.push((after.wall_us, stored.clone()));
    } else if let Some(before) = piece.samples.first().filter(|sample| sample.wall_us < first) {
        groups.insert(0, (before.wall_us, stored.clone()));
    }
    groups
}

/// The pieces of the database and of the files; those of one relay under one label are joined.
pub(super) fn pieces(
    measured: Vec<MeasuredService>,
    stored: Option<&ImportedTrial>,
    problems: &mut Problems,
) -> Result<Vec<Piece>, ImportError> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut by_key: HashMap<(String, String, String), usize> = HashMap::new();
    let stored = stored.map(of_stored).unwrap_or_default();
    for piece in stored.into_iter().chain(measured.into_iter().map(Piece::measured)) {
        let key = (piece.nickname.clone(), piece.server.clone(), piece.fingerprint.clone());
        match by_key.get(&key) {
            Some(index) => pieces[*index].take_in(piece, problems)?,
            None => {
                by_key.insert(key, pieces.len());
                pieces.push(piece);
            }
        }
    }
    without_fingerprint(pieces, problems)
}

/// Rows from before the scripts told fingerprints belong to the one relay of that name on that server, and so does
/// what is known of a relay that was never measured.
fn without_fingerprint(pieces: Vec<Piece>, problems: &mut Problems) -> Result<Vec<Piece>, ImportError> {
    let mut of_place: HashMap<(String, String), Vec<usize>> = HashMap::new();
    let mut of_nickname: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, piece) in pieces.iter().enumerate() {
        let place = (piece.nickname.clone(), piece.server.clone());
        of_place.entry(place).or_default().push(index);
        of_nickname.entry(piece.nickname.clone()).or_default().push(index);
    }
    let mut into: Vec<usize> = (0..pieces.len()).collect();
    for indices in of_place.into_values() {
        let [first, second] = indices[..] else { continue };
        if pieces[first].fingerprint.is_empty() != pieces[second].fingerprint.is_empty() {
            into[second] = first;
        }
    }
    for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.samples.is_empty()) {
        let agree = |other: &Piece| {
            piece.fingerprint.is_empty()
                || other.fingerprint.is_empty()
                || other.fingerprint == piece.fingerprint
        };
        let measured = of_nickname[&piece.nickname]
            .iter()
            .find(|other| !pieces[**other].samples.is_empty() && agree(&pieces[**other]));
        if let Some(other) = measured.filter(|other| into[**other] != index) {
            into[index] = into[*other];
        }
    }
    let mut joined: Vec<Piece> = Vec::new();
    let mut place: HashMap<usize, usize> = HashMap::new();
    for (index, piece) in pieces.into_iter().enumerate() {
        let mut root = index;
        while into[root] != root {
            root = into[root];
        }
        match place.get(&root) {
            Some(at) => joined[*at].take_in(piece, problems)?,
            None => {
                place.insert(root, joined.len());
                joined.push(piece);
            }
        }
    }
    Ok(joined)
}

/// What is stored, each service cut where the label of its server changed.
fn of_stored(trial: &ImportedTrial) -> Vec<Piece> {
    let by_column = trial.plan.parameters.get("lists_from").and_then(Value::as_str) == Some("column");
    let mut pieces = Vec::new();
    for (index, service) in trial.services.iter().enumerate() {
        let group = trial.lists.iter().find(|list| by_column && list.members.contains(&index));
        let mut samples: Vec<ImportedSample> =
            service.lives.iter().flat_map(|life| &life.samples).copied().collect();
        samples.sort_by_key(|sample| sample.wall_us);
        let piece = |server: &str, samples: Vec<ImportedSample>| Piece {
            nickname: nickname(service).to_owned(),
            earlier_nicknames: earlier_nicknames(service),
            server: server.to_owned(),
            fingerprint: attribute(service, "fingerprint").to_owned(),
            groups: group
                .zip(samples.first())
                .map(|(list, first)| (first.wall_us, list.arm.name.clone()))
                .into_iter()
                .collect(),
            stored_names: vec![service.name.clone()],
            stored_samples: samples.len(),
            config: service.attributes.get("config").cloned(),
            samples,
            ..Piece::default()
        };
        let labels = labels_of(service);
        if labels.is_empty() {
            pieces.push(piece(attribute(service, "server"), samples));
            continue;
        }
        for label in labels {
            let within =
                |sample: &&ImportedSample| (label.first_us..=label.last_us).contains(&sample.wall_us);
            pieces.push(piece(&label.server, samples.iter().filter(within).copied().collect()));
        }
    }
    pieces
}

fn labels_of(service: &ImportedService) -> Vec<Label> {
    let labels = service.attributes.get(LABELS).cloned();
    labels.and_then(|labels| serde_json::from_value(labels).ok()).unwrap_or_default()
}

/// The nicknames that a stored service had before its present one.
pub(super) fn earlier_nicknames(service: &ImportedService) -> Vec<String> {
    let nicknames = service.attributes.get(EARLIER_NICKNAMES).cloned();
    nicknames.and_then(|nicknames| serde_json::from_value(nicknames).ok()).unwrap_or_default()
}

fn attribute<'a>(service: &'a ImportedService, name: &str) -> &'a str {
    service.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
}
