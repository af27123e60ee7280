//! The trial as it will be stored.

use heaptrial_model::{LifeStart, Metric, TrialKind};
use heaptrial_store::{ImportedEvent, ImportedLife, ImportedService, ImportedTrial, NewTrial};
use serde_json::{Value, json};

use super::control::Found;
use super::files::Files;
use super::hidden::{note_events, note_hidden_restarts};
use super::lists::{ListsFrom, Wanted};
use super::membership::{arms_of, check_measured, members, only_grouped};
use super::service::{Service, services};
use super::summary::{ImportSummary, arm_summaries};
use super::{CsvImport, event, span};
use crate::ImportError;
use crate::blocks;
use crate::lives::{self, StartEvent};
use crate::problem::Problems;

/// The trial, and what is said of it. The summary lacks what the database and the problems say.
pub(super) fn assemble(
    name: &str,
    files: Files,
    request: &CsvImport,
    problems: &mut Problems,
) -> Result<(ImportedTrial, ImportSummary), ImportError> {
    let mut notes = Vec::new();
    let relays = files.config.as_ref().map_or(&[][..], |(_, relays)| relays);
    let (mut services, duplicates) = services(files.measurements.services, relays, &mut notes, problems)?;
    let sources = files.sources;
    let memory = sources.first().map_or("", |source| &source.file);
    let mut wanted = Wanted::of(&files.groups, files.config.as_ref(), &services, memory)?;
    let found = wanted.claim(relays, request.control.as_deref())?;
    if wanted.from == ListsFrom::Nothing {
        notes.push("no lists of services were given: all services are in one arm, `all`".to_owned());
    } else if found == Found::First && wanted.lists.len() > 1 {
        let first = wanted.lists.iter().find(|list| list.arm.control).map_or("", |list| &list.arm.name);
        notes.push(format!(
            "no arm is called control, and none is that of glibc: {first}, the first, is taken for it; --control says otherwise"
        ));
    }
    let members = members(&wanted, &mut services, &mut notes);
    check_measured(&wanted, &members, &services, problems)?;
    let (mut services, lists, ungrouped) = only_grouped(services, members, &wanted, &mut notes);

    let mut events = match &files.events {
        Some(events) => event::attribute(events, &wanted.lists),
        None => Vec::new(),
    };
    if wanted.from == ListsFrom::Column {
        events.extend(event::of_groups(&services));
    }
    events.sort_by(|a, b| {
        (a.wall_us, &a.kind, &a.text, a.arm, a.service).cmp(&(b.wall_us, &b.kind, &b.text, b.arm, b.service))
    });
    note_events(&events, &mut notes);

    let arms_of = arms_of(&lists, services.len());
    note_hidden_restarts(&services, &lists, &arms_of, &events, &mut notes);
    let servers: Vec<&str> = services.iter().map(|service| service.server.as_str()).collect();
    let blocks = blocks::of_servers(&servers);
    let imported: Vec<ImportedService> = services
        .iter_mut()
        .enumerate()
        .map(|(index, service)| {
            let starts = event::starts_of(&events, index, &arms_of[index]);
            ImportedService { block: blocks[index], ..with_lives(service, &starts, &events) }
        })
        .collect();
    if let Some(several) = files.host.as_ref().map(|host| &host.several).filter(|names| !names.is_empty()) {
        notes.push(format!(
            "the diagnostics are of {} hosts ({}): the memory of one is not that of all, so none is used; import each \
             host's services by themselves to see when its memory runs out",
            several.len(),
            several.join(", ")
        ));
    }

    let timezone = files.timezone.to_string();
    let mut parameters = json!({
        "lists_from": wanted.from.as_str(),
        "timezone": timezone,
    });
    if let Some(about) = request.about.as_ref().filter(|about| !about.is_empty()) {
        parameters["about"] = json!(about);
    }
    let host_facts = files.host.map_or_else(|| json!({}), |host| host.to_json());
    let plan = plan(name, span(&imported).unwrap_or_default(), parameters, host_facts, request);
    let trial = ImportedTrial { plan, lists, services: imported, events, sources };
    let summary = ImportSummary {
        arms: arm_summaries(&wanted, &trial),
        ungrouped_services: ungrouped,
        duplicate_samples: duplicates + files.measurements.duplicates,
        timezone,
        local_times: files.local_times,
        notes,
        ..ImportSummary::of(&trial)
    };
    Ok((trial, summary))
}

fn with_lives(service: &mut Service, starts: &[StartEvent], events: &[ImportedEvent]) -> ImportedService {
    let samples = std::mem::take(&mut service.samples);
    let lives = lives::infer(&samples, starts);
    let how = |life: &lives::InferredLife| match (life.event, life.start) {
        (Some(index), _) => json!(format!("event: {}: {}", events[index].kind, events[index].text)),
        (None, LifeStart::Unknown) => json!("before the first reading"),
        (None, _) => json!("middle between two readings"),
    };
    let attributes = service.attributes(lives.iter().map(how).collect());
    let lives = lives.into_iter().map(|life| ImportedLife {
        started_wall_us: life.started_wall_us,
        start: life.start,
        contamination: None,
        samples: samples[life.samples].to_vec(),
    });
    ImportedService { name: std::mem::take(&mut service.name), block: 0, attributes, lives: lives.collect() }
}

fn plan(
    name: &str,
    (first, last): (i64, i64),
    parameters: Value,
    host_facts: Value,
    request: &CsvImport,
) -> NewTrial {
    NewTrial {
        name: name.to_owned(),
        kind: TrialKind::ImportTorutils,
        // A host of its own: it is not the one that this runs on.
        boot_id: format!("import:{name}"),
        host_facts,
        metric: Metric::Rss,
        seed: 0,
        repeats: 1,
        planned_us: last - first,
        arms: Vec::new(),
        parameters,
        command: request.command.clone(),
        tool_version: request.tool_version.clone(),
        started_wall_us: first,
    }
}
