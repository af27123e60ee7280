//! Other names for the services and arms of a trial, given to its rows before anything is made of them: no figure,
//! finding or chart ever sees the names themselves.

use heaptrial_judgement::Rows;
use heaptrial_model::{KnownEvent, Treatment};
use heaptrial_store::{EventRecord, ServiceRecord};
use serde_json::{Value, json};

use super::scrub::Scrub;

/// Kinds of events whose texts Heaptrial wrote from figures alone.
const OWN_WORDS: [KnownEvent; 3] = [KnownEvent::CpuSaturated, KnownEvent::Gap, KnownEvent::ClockJump];
/// Kinds of events that stand in reports as warnings and notes, and may quote a log.
const QUOTING: [KnownEvent; 4] =
    [KnownEvent::Warning, KnownEvent::Note, KnownEvent::ArmFailed, KnownEvent::Unattributed];
const LEFT_OUT: &str = "(its text is left out)";
/// Attributes of services that are names.
const NAMING: [&str; 4] = ["nickname", "fingerprint", "server", "hostname"];

/// Renames everything. Services are called by the order of starting.
pub fn rename(rows: &mut Rows) {
    let scrub = names(&rows.services);
    rename_hosts(rows);
    for (index, service) in rows.services.iter_mut().enumerate() {
        service.name = pseudonym(index);
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
            *why = scrub.own(why);
        }
    }
    let is_of = |event: &EventRecord, kinds: &[KnownEvent]| {
        event.kind.known().is_some_and(|kind| kinds.contains(&kind))
    };
    rows.events.retain(|event| !is_of(event, &QUOTING));
    for event in rows.events.iter_mut() {
        let own = is_of(event, &OWN_WORDS);
        event.text = if own { scrub.own(&event.text) } else { LEFT_OUT.to_owned() };
    }
    rows.sources.clear();
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

/// The names of services, and what their attributes call them.
pub(crate) fn names(services: &[ServiceRecord]) -> Scrub {
    let mut scrub = Scrub::default();
    for (index, service) in services.iter().enumerate() {
        let pseudonym = pseudonym(index);
        scrub.name(&service.name, &pseudonym);
        // An instance is also known without its template and suffix.
        let instance = service.name.rsplit('@').next().unwrap_or_default().trim_end_matches(".service");
        scrub.name(instance, &pseudonym);
        let attribute = |name: &str| service.attributes.as_ref()?.get(name).and_then(Value::as_str);
        for name in NAMING.iter().filter_map(|name| attribute(name)) {
            scrub.name(name, &pseudonym);
        }
    }
    scrub
}

fn pseudonym(index: usize) -> String {
    format!("service-{}", index + 1)
}

/// What an arm does: names that somebody gave may tell who.
fn label(treatment: &Treatment) -> String {
    let allocator = treatment.allocator.as_ref().map_or_else(|| "as found".to_owned(), ToString::to_string);
    std::iter::once(allocator).chain(treatment.options()).collect::<Vec<_>>().join(", ")
}

/// Values of torrc options and of variables, and words of commands, may be addresses and names; numbers with their units
/// stay.
fn plain_treatment(treatment: &mut Treatment) {
    let values = treatment.torrc.values_mut().chain(treatment.environment.values_mut());
    for value in values.chain(&mut treatment.command).filter(|value| !is_plain(value)) {
        *value = "…".to_owned();
    }
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
    fn values_of_torrc_options_stay_only_where_they_are_numbers() {
        for plain in ["0", "1", "auto", "256 MB", "20 seconds", "1.5 GBytes"] {
            assert!(is_plain(plain), "{plain}");
        }
        for telling in
            ["198.51.100.7", "GoldenOwl", "op@example.org", "9001 IPv4Only GoldenOwl", "accept *:*", ""]
        {
            assert!(!is_plain(telling), "{telling}");
        }
    }

    #[test]
    fn an_instance_is_known_by_each_of_its_names() {
        let service = ServiceRecord {
            id: 1,
            arm_id: 1,
            name: "tor@owl.service".to_owned(),
            block: 0,
            position: 0,
            also_in: Vec::new(),
            attributes: Some(serde_json::json!({"nickname": "GoldenOwl", "server": "barn"})),
        };
        let found = names(&[service]).foreign("tor@owl.service (owl, GoldenOwl) on barn, a barnowl");
        assert_eq!(found, "service-1 (service-1, service-1) on service-1, a barnowl");
    }
}
