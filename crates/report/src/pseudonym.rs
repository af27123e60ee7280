//! Other names for the services and arms of a trial, given to its rows before anything is made of them: no figure,
//! finding or chart ever sees the names themselves.

use std::path::PathBuf;

use heaptrial_evaluate::judgement::Rows;
use heaptrial_model::{KnownEvent, Treatment};
use serde_json::{Value, json};

use crate::document::{Report, Reproduce};

/// Kinds of events that say nothing without their text.
const TEXTS: [KnownEvent; 4] =
    [KnownEvent::Warning, KnownEvent::Note, KnownEvent::ArmFailed, KnownEvent::Unattributed];
const LEFT_OUT: &str = "(text left out)";

/// Renames everything and leaves texts out. Services are called by the order of starting.
pub fn rename(rows: &mut Rows) {
    rename_hosts(rows);
    for (index, service) in rows.services.iter_mut().enumerate() {
        service.name = format!("service-{}", index + 1);
    }
    let mut labels: Vec<String> = Vec::new();
    for record in rows.arms.iter_mut() {
        plain_treatment(&mut record.arm.treatment);
        let label = label(&record.arm.treatment);
        let same = labels.iter().filter(|other| **other == label).count();
        record.arm.name = if same == 0 { label.clone() } else { format!("{label} ({})", same + 1) };
        labels.push(label);
        record.source = None;
    }
    for life in rows.lives.iter_mut() {
        if let Some(why) = &mut life.contamination {
            *why = LEFT_OUT.to_owned();
        }
    }
    rows.events.retain(|event| !event.kind.known().is_some_and(|kind| TEXTS.contains(&kind)));
    for event in rows.events.iter_mut() {
        event.text = event.kind.as_str().replace('_', " ");
    }
    rows.sources.clear();
}

impl Report {
    /// The report for the maintainers of an allocator, of rows that were [renamed](crate::pseudonymise): without texts that
    /// somebody wrote and paths of the host.
    pub fn for_maintainers(mut self, reproduce: Reproduce) -> Self {
        self.name = format!("{} against {}", reproduce.bad, reproduce.good);
        self.reproduce = Some(reproduce);
        self.about = Default::default();
        // The plan names services.
        self.parameters = Value::Null;
        self.command.clear();
        self.looks.clear();
        // One that somebody unpacked is known by its path.
        self.host.userland = self.host.userland.filter(|userland| !userland.contains('/'));
        for arm in &mut self.arms {
            // Names of libraries may be those of a program.
            arm.libraries.clear();
            arm.obtained = None;
            if let Some(identity) = &mut arm.identity {
                identity.libraries.clear();
                identity.evidence.clear();
                identity.path = identity.path.take().and_then(|path| path.file_name().map(PathBuf::from));
                identity.settings.values_mut().for_each(|value| *value = setting(value));
            }
        }
        self
    }
}

/// Hosts are called by the order of their names.
fn rename_hosts(rows: &mut Rows) {
    let mut hosts: Vec<String> = rows.parts.iter().map(|part| part.host.clone()).collect();
    hosts.extend(rows.trial.hosts().into_keys().map(str::to_owned));
    hosts.sort();
    hosts.dedup();
    let named = |host: &str| {
        let place = hosts.iter().position(|known| known == host);
        place.map(|place| format!("host-{}", place + 1))
    };
    let rename = |value: &mut Value| {
        if let Some(name) = value.as_str().and_then(named) {
            *value = name.into();
        }
    };
    let parameters = &mut rows.trial.plan.parameters;
    if let Some(plan) = &mut rows.trial.drawn {
        for assignment in &mut plan.services {
            assignment.host = named(&assignment.host).unwrap_or_default();
        }
        parameters["plan"] = json!(plan);
    }
    if let Some(host) = parameters.get_mut("host") {
        rename(host);
    }
    for part in &mut rows.parts {
        part.host = named(&part.host).unwrap_or_default();
    }
    for service in &mut rows.services {
        if let Some(server) = service.attributes.as_mut().and_then(|known| known.get_mut("server")) {
            rename(server);
        }
    }
    for event in &mut rows.events {
        event.host = event.host.as_deref().and_then(named);
    }
}

/// What an arm does: names that somebody gave may reveal who.
fn label(treatment: &Treatment) -> String {
    let allocator = treatment.allocator.as_ref().map_or_else(|| "as found".to_owned(), ToString::to_string);
    std::iter::once(allocator).chain(treatment.options()).collect::<Vec<_>>().join(", ")
}

/// Values of torrc options and of variables, and words of commands, may be addresses and names: numbers alone stay.
fn plain_treatment(treatment: &mut Treatment) {
    let values = treatment.torrc.values_mut().chain(treatment.environment.values_mut());
    for value in values.chain(&mut treatment.command).filter(|value| !is_plain(value)) {
        *value = "…".to_owned();
    }
}

/// A setting of an allocator; a path or an address is none.
fn setting(value: &str) -> String {
    let known = |c: char| c.is_ascii_alphanumeric() || "_.,:;=+-".contains(c);
    if value.chars().all(known) { value.to_owned() } else { "…".to_owned() }
}

fn is_plain(value: &str) -> bool {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let is_unit = |word: &str| word.chars().all(|c| c.is_ascii_alphabetic()) && word.len() <= 9;
    match value.split_whitespace().collect::<Vec<_>>()[..] {
        [number] => is_number(number) || number == "auto",
        [number, unit] => is_number(number) && is_unit(unit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_and_plain_settings_stay() {
        for plain in ["0", "1", "auto", "256 MB", "20 seconds", "1.5 GBytes"] {
            assert!(is_plain(plain), "{plain}");
        }
        for revealing in ["198.51.100.7", "GoldenOwl", "9001 IPv4Only GoldenOwl", "accept *:*", ""] {
            assert!(!is_plain(revealing), "{revealing}");
        }
        assert_eq!(
            setting("background_thread:true,dirty_decay_ms:0"),
            "background_thread:true,dirty_decay_ms:0"
        );
        assert_eq!(setting("/home/opuser/trace"), "…");
    }
}
