//! The trial as it will be stored.

use heaptrial_model::{LifeStart, Metric, TrialKind};
use heaptrial_store::{ImportedEvent, ImportedLife, ImportedService, ImportedTrial, NewService, NewTrial};
use serde_json::{Value, json};

use super::files::Files;
use super::lists::Wanted;
use super::membership::{arms_of, check_measured, only_listed};
use super::service::{Service, services};
use super::summary::ImportSummary;
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
    let (mut services, duplicates) = services(files.measurements.services, &mut notes, problems)?;
    let memory = files.sources.first().map_or("", |source| &source.file);
    let mut wanted = Wanted::of(&files.groups, &services, memory)?;
    let is_named = wanted.claim(request.control.as_deref())?;
    if wanted.from == "nothing" {
        notes.push("no lists of services were given: all services are in one arm, `all`".to_owned());
    } else if !is_named && wanted.lists.len() > 1 {
        let first = wanted.lists.iter().find(|list| list.arm.control).map_or("", |list| &list.arm.name);
        notes.push(format!(
            "no arm is called control, and none is that of glibc: {first}, the first, is taken for it; --control says otherwise"
        ));
    }
    let arms = arms_of(&wanted, &mut services, &mut notes);
    check_measured(&wanted, &arms, &services)?;
    let (services, ungrouped) = only_listed(services, arms, &mut notes);

    let mut events = event::attribute(files.events.as_deref().unwrap_or_default(), &wanted.lists);
    if wanted.from == "column" {
        events.extend(event::of_groups(services.iter().map(|(service, _)| service)));
    }
    events.sort_by(|a, b| {
        (a.wall_us, &a.kind, &a.text, a.arm, a.service).cmp(&(b.wall_us, &b.kind, &b.text, b.arm, b.service))
    });
    notes.extend(event::note_unattributed(&events));

    let servers: Vec<&str> = services.iter().map(|(service, _)| service.server.as_str()).collect();
    let blocks = blocks::of_servers(&servers);
    let imported: Vec<ImportedService> = services
        .into_iter()
        .zip(blocks)
        .enumerate()
        .map(|(index, ((service, arms), block))| {
            let starts = event::starts_of(&events, index, &arms);
            let (attributes, lives) = lives_of(&service, &starts, &events);
            let service =
                NewService { name: service.name, arm: arms[0], block, position: index as u32, attributes };
            ImportedService { service, also_in: arms[1..].to_vec(), lives }
        })
        .collect();

    let timezone = files.timezone.to_string();
    let mut parameters = json!({ "lists_from": wanted.from, "timezone": timezone });
    if let Some(about) = request.about.as_ref().filter(|about| !about.is_empty()) {
        parameters["about"] = json!(about);
    }
    let (first, last) = span(&imported).unwrap_or_default();
    let (arms, lists) = wanted.into_arms();
    let plan = NewTrial {
        name: name.to_owned(),
        kind: TrialKind::ImportTorutils,
        // A host of its own: it is not the one that this runs on.
        boot_id: format!("import:{name}"),
        host_facts: files.host.unwrap_or_else(|| json!({})),
        metric: Metric::Rss,
        seed: 0,
        repeats: 1,
        planned_us: last - first,
        arms,
        parameters,
        command: request.command.clone(),
        tool_version: request.tool_version.clone(),
        started_wall_us: first,
    };
    let trial = ImportedTrial { plan, lists, services: imported, events, sources: files.sources };
    let summary = ImportSummary {
        ungrouped_services: ungrouped,
        duplicate_samples: duplicates,
        timezone,
        local_times: files.local_times,
        notes,
        ..ImportSummary::of(&trial)
    };
    Ok((trial, summary))
}

/// What the database keeps of a service alongside its name, and its lives.
fn lives_of(
    service: &Service,
    starts: &[StartEvent],
    events: &[ImportedEvent],
) -> (Value, Vec<ImportedLife>) {
    let lives = lives::infer(&service.samples, starts);
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
        samples: service.samples[life.samples].to_vec(),
    });
    (attributes, lives.collect())
}
