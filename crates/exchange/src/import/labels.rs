//! What is told of services whose server changed its label, and of those that only look like it.

use std::collections::BTreeMap;

use heaptrial_model::{KnownEvent, units};
use heaptrial_store::{ImportedEvent, ImportedSample};
use jiff::Timestamp;
use serde::Serialize;

use super::identity::{Apart, By, is_same_server};
use super::merge::MergedService;
use super::piece::Piece;
use super::summary::some_of;
use crate::lives;
use crate::problem::escape;

/// The kind of events that tell of services under several labels which were taken as one.
pub(super) const RELABELLED: KnownEvent = KnownEvent::Relabelled;

/// The kind of events that tell of services which look like one under several labels, and are kept apart.
pub(super) const KEPT_APART: KnownEvent = KnownEvent::KeptApart;

/// A change of label, with the services that went through it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Relabelled {
    pub from: String,
    pub to: String,
    /// `fingerprint`, `list` or `spelling`: how it is known that the services are the same.
    pub known_by: &'static str,
    pub services: Vec<String>,
    /// How many of them went on without a restart, as far as their memory tells.
    pub went_on: u64,
    /// The last reading under the label before, in microseconds since 1970.
    pub last_before_us: i64,
    /// The first reading under the label after, in microseconds since 1970.
    pub first_after_us: i64,
}

/// Services that look like one under several labels and are not taken as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptApart {
    pub labels: Vec<String>,
    /// `overlap`, `group` or `ambiguous`; `nickname` for nicknames that share a fingerprint.
    pub why: &'static str,
    /// Nicknames; where they share a fingerprint those of one relay together, such as `one = uno`.
    pub nicknames: Vec<String>,
    /// The first reading under the label (or nickname) that began last, in microseconds since 1970.
    pub since_us: i64,
}

/// One change of one service, before they are put together.
pub(super) struct Change {
    pub from: String,
    pub to: String,
    pub by: By,
    pub service: String,
    pub went_on: bool,
    pub last_before_us: i64,
    pub first_after_us: i64,
}

/// The changes of label of one service, from its pieces. Pieces that tell no server are no change.
pub(super) fn changes(name: &str, pieces: &[Piece]) -> Vec<Change> {
    let mut readings: Vec<_> =
        pieces.iter().flat_map(|piece| piece.samples.iter().map(move |sample| (*sample, piece))).collect();
    readings.retain(|(_, piece)| !piece.server.is_empty());
    readings.sort_by_key(|(sample, _)| sample.wall_us);
    let pairs = readings.windows(2).filter(|pair| pair[0].1.server != pair[1].1.server);
    let change = |pair: &[(ImportedSample, &Piece)]| {
        let [(last, before), (first, after)] = pair else { return None };
        let same_fingerprint = !before.fingerprint.is_empty() && before.fingerprint == after.fingerprint;
        Some(Change {
            from: before.server.clone(),
            to: after.server.clone(),
            by: match (is_same_server(&before.server, &after.server), same_fingerprint) {
                (true, _) => By::Spelling,
                (false, true) => By::Fingerprint,
                (false, false) => By::List,
            },
            service: name.to_owned(),
            went_on: !lives::is_restart(last, first),
            last_before_us: last.wall_us,
            first_after_us: first.wall_us,
        })
    };
    pairs.filter_map(change).collect()
}

/// Changes of several services between the same labels, as one.
pub(super) fn together(changes: Vec<Change>) -> Vec<Relabelled> {
    let mut by_labels: BTreeMap<(String, String, By), Relabelled> = BTreeMap::new();
    for change in changes {
        let key = (change.from.clone(), change.to.clone(), change.by);
        let told = by_labels.entry(key).or_insert_with(|| Relabelled {
            from: change.from,
            to: change.to,
            known_by: match change.by {
                By::Spelling => "spelling",
                By::Fingerprint => "fingerprint",
                By::List => "list",
            },
            services: Vec::new(),
            went_on: 0,
            last_before_us: i64::MIN,
            first_after_us: i64::MAX,
        });
        // Of a service that went there and back several times, the first change is told.
        if !told.services.contains(&change.service) {
            told.services.push(change.service);
            told.went_on += u64::from(change.went_on);
            told.last_before_us = told.last_before_us.max(change.last_before_us);
            told.first_after_us = told.first_after_us.min(change.first_after_us);
        }
    }
    let mut told: Vec<Relabelled> = by_labels.into_values().collect();
    told.iter_mut().for_each(|told| told.services.sort());
    told.sort_by(|a, b| (a.first_after_us, &a.from, &a.to).cmp(&(b.first_after_us, &b.from, &b.to)));
    told
}

/// Pieces that are kept apart, put together by their labels.
pub(super) fn apart(pieces: &[Piece], apart: &[(Vec<usize>, Apart)]) -> Vec<KeptApart> {
    let mut by_labels: BTreeMap<(Vec<String>, Apart), KeptApart> = BTreeMap::new();
    for (members, why) in apart {
        let mut labels: Vec<String> = members.iter().map(|index| pieces[*index].server.clone()).collect();
        labels.sort();
        labels.dedup();
        let nickname = &pieces[members[0]].nickname;
        let begun = members.iter().filter_map(|index| pieces[*index].span()).map(|(first, _)| first).max();
        let told = by_labels.entry((labels.clone(), *why)).or_insert_with(|| KeptApart {
            labels,
            why: match why {
                Apart::Overlap => "overlap",
                Apart::Group => "group",
                Apart::Ambiguous => "ambiguous",
            },
            nicknames: Vec::new(),
            since_us: i64::MAX,
        });
        if !told.nicknames.contains(nickname) {
            told.nicknames.push(nickname.clone());
        }
        told.since_us = told.since_us.min(begun.unwrap_or(i64::MAX));
    }
    let mut told: Vec<KeptApart> = by_labels.into_values().collect();
    told.iter_mut().for_each(|told| told.nicknames.sort());
    told
}

/// Services that have one fingerprint under several nicknames, and were read beside each other.
pub(super) fn renamed(services: &[MergedService]) -> Option<KeptApart> {
    let mut by_fingerprint: BTreeMap<&str, Vec<&MergedService>> = BTreeMap::new();
    for service in
        services.iter().filter(|service| !service.fingerprint.is_empty() && !service.samples.is_empty())
    {
        by_fingerprint.entry(&service.fingerprint).or_default().push(service);
    }
    let first = |service: &&MergedService| service.samples.first().map(|sample| sample.wall_us);
    let mut nicknames = Vec::new();
    let mut since_us = i64::MAX;
    for mut same in by_fingerprint.into_values() {
        same.sort_by_key(|service| (first(service), service.name.clone()));
        let mut names: Vec<&str> = same.iter().map(|service| service.nickname.as_str()).collect();
        names.dedup();
        if names.len() > 1 {
            nicknames.push(names.join(" = "));
            since_us = since_us.min(same.iter().filter_map(first).max().unwrap_or(i64::MAX));
        }
    }
    nicknames.sort();
    (!nicknames.is_empty()).then(|| KeptApart { labels: Vec::new(), why: "nickname", nicknames, since_us })
}

/// Relays that had several nicknames and are one service each, as an event of the trial.
pub(super) fn one_by_fingerprint(services: &[MergedService]) -> Option<ImportedEvent> {
    let renamed: Vec<&MergedService> =
        services.iter().filter(|service| !service.earlier_nicknames.is_empty()).collect();
    let since_us = renamed.iter().filter_map(|service| service.samples.first()).map(|first| first.wall_us);
    let since_us = since_us.min()?;
    let names: Vec<String> =
        renamed.iter().map(|service| Vec::from_iter(service.nicknames()).join(" = ")).collect();
    let relays = match renamed.len() {
        1 => "1 relay was renamed and is one service".to_owned(),
        several => format!("{several} relays were renamed and are one service each"),
    };
    let text = format!("{relays} by the fingerprint ({})", some_of(names.iter().map(String::as_str)));
    Some(event(since_us, RELABELLED, text))
}

impl Relabelled {
    /// As an event of the trial.
    pub(super) fn event(&self) -> ImportedEvent {
        event(self.first_after_us, RELABELLED, self.sentence())
    }

    /// What matters comes first: reports cut long texts.
    fn sentence(&self) -> String {
        let count = self.services.len() as u64;
        let (from, to) = (escape(self.from.as_bytes()), escape(self.to.as_bytes()));
        let names = some_of(self.services.iter().map(String::as_str));
        if self.known_by == "spelling" {
            return format!("server `{from}` is also called `{to}`: {} ({names})", services(count));
        }
        let known = if self.known_by == "fingerprint" { "fingerprint" } else { "nickname and list" };
        let restarted = match count - self.went_on {
            0 => "no restart shows".to_owned(),
            restarted => format!("{restarted} restarted"),
        };
        format!(
            "server `{from}` became `{to}` on {}, {} after its last reading: {} the same by {known}, {restarted} ({names})",
            time(self.first_after_us),
            units::duration((self.first_after_us - self.last_before_us) as f64 / 1e6),
            services(count)
        )
    }
}

impl KeptApart {
    /// As an event of the trial.
    pub(super) fn event(&self) -> ImportedEvent {
        if self.why == "nickname" {
            let relays = match self.nicknames.len() {
                1 => "1 relay has several nicknames".to_owned(),
                several => format!("{several} relays have several nicknames"),
            };
            let names = some_of(self.nicknames.iter().map(String::as_str));
            let text = format!("{relays} by the fingerprint; each nickname counts apart ({names})");
            return event(self.since_us, KEPT_APART, text);
        }
        let labels: Vec<String> =
            self.labels.iter().map(|label| format!("`{}`", escape(label.as_bytes()))).collect();
        let why = match self.why {
            "overlap" => "both were read in the same time",
            "group" => "the group changed with the label, no fingerprint tells",
            _ => "each could be one of several",
        };
        let nicknames = match self.nicknames.len() {
            1 => "1 nickname".to_owned(),
            several => format!("{several} nicknames"),
        };
        let text = format!(
            "{nicknames} under the labels {} count apart and may be the same: {why} ({})",
            labels.join(" and "),
            some_of(self.nicknames.iter().map(String::as_str))
        );
        event(self.since_us, KEPT_APART, text)
    }
}

fn event(wall_us: i64, kind: KnownEvent, text: String) -> ImportedEvent {
    ImportedEvent { wall_us, service: None, arm: None, kind: kind.into(), text }
}

fn services(count: u64) -> String {
    if count == 1 { "1 service".to_owned() } else { format!("{count} services") }
}

fn time(wall_us: i64) -> String {
    let time = Timestamp::from_microsecond(wall_us).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
