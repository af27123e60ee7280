//! The trial as it will be stored, from what the files tell and what is stored already.

use heaptrial_model::{About, LifeStart, Metric, TrialKind};
use heaptrial_store::{AggregateRow, ImportedEvent, ImportedLife, ImportedService, ImportedTrial, NewTrial};
use serde_json::{Value, json};

use super::control::Found;
use super::files::Files;
use super::hidden::{note_events, note_hidden_restarts};
use super::identity::Rule;
use super::labels::{self, KEPT_APART, KeptApart, RELABELLED, Relabelled};
use super::lists::{ListsFrom, Wanted};
use super::membership::{arms_of, check_measured, members, only_grouped};
use super::merge::{Merged, MergedService, merge};
use super::stored::{differs, join_aggregates, join_sources};
use super::summary::{ArmSummary, ImportSummary, TimezoneSource};
use super::{TorUtilsImport, event, span};
use crate::ImportError;
use crate::blocks;
use crate::lives::{self, StartEvent};
use crate::problem::Problems;

/// Under this name the trial's parameters have the control that somebody chose.
const CHOSEN_CONTROL: &str = "control_chosen";

/// A trial that may be written.
pub(super) struct Assembled {
    pub trial: ImportedTrial,
    pub summary: ImportSummary,
    /// Whether it differs from what is stored.
    pub changed: bool,
}

pub(super) fn assemble(
    name: &str,
    files: Files,
    mut wanted: Wanted,
    stored: Option<&ImportedTrial>,
    request: &TorUtilsImport,
    problems: &mut Problems,
) -> Result<Assembled, ImportError> {
    let mut notes = Vec::from_iter(files.doubtful_unit.clone());
    let relays = files.config.as_ref().map_or(&[][..], |(_, relays)| relays);
    let duplicates_in_files = files.measurements.duplicates;
    let keep_apart = request.keep_apart || stored.is_some_and(keeps_apart);
    let rule = Rule { keep_apart, by_group: wanted.from == ListsFrom::Column };
    let Merged { mut services, relabelled, kept_apart } =
        merge(files.measurements.services, stored, relays, rule, problems)?;
    let renamed = labels::one_by_fingerprint(&services);
    let mut lists_from = wanted.from.as_str().to_owned();
    // Whoever chose it once need not do so again.
    let chosen = request.control.clone().or_else(|| {
        let chosen = stored?.plan.parameters.get(CHOSEN_CONTROL)?.as_str()?.to_owned();
        wanted.lists.iter().any(|list| list.arm.name == chosen).then_some(chosen)
    });
    let control = chosen.as_deref();
    if wanted.from == ListsFrom::Nothing {
        match stored {
            Some(stored) if stored_lists_from(stored) != "nothing" => {
                wanted.adopt(stored, request.control.as_deref())?;
                lists_from = stored_lists_from(stored).to_owned();
                notes.push("no lists of services were given: the arms stay as they were".to_owned());
            }
            _ => {
                wanted.settle(&services, relays, control)?;
                notes.push("no lists of services were given: all services are in one arm, `all`".to_owned());
            }
        }
    } else if wanted.settle(&services, relays, control)? == Found::First && wanted.lists.len() > 1 {
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
    if let Some(stored) = stored {
        let known = (&stored.services[..], &stored.lists[..]);
        for old in event::carried_over(&stored.events, known, &services, &wanted.lists) {
            if !events.contains(&old) {
                events.push(old);
            }
        }
    }
    events.extend(relabelled.iter().map(Relabelled::event));
    events.extend(kept_apart.iter().map(KeptApart::event));
    events.extend(renamed);
    events.sort_by(|a, b| {
        (a.wall_us, &a.kind, &a.text, a.arm, a.service).cmp(&(b.wall_us, &b.kind, &b.text, b.arm, b.service))
    });
    note_events(&events, &mut notes);
    let told = events.iter().filter(|event| event.kind == RELABELLED || event.kind == KEPT_APART);
    notes.extend(told.map(|event| event.text.clone()));

    let new_samples = services.iter().map(|service| service.new_samples).sum();
    let duplicates: u64 = services.iter().map(|service| service.duplicates).sum();
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
    let (aggregates, new_aggregates) = join_aggregates(files.measurements.aggregates, stored, problems)?;
    if files.host.is_some() {
        notes.push(
            "the column `allocator` of the diagnostics tells what a script guessed; it is not used"
                .to_owned(),
        );
    }
    if let Some(several) = files.host.as_ref().map(|host| &host.several).filter(|names| !names.is_empty()) {
        notes.push(format!(
            "the diagnostics are of {} hosts ({}): the memory of one is not that of all, so none is used; import each \
             host's services by themselves to be told when its memory runs out",
            several.len(),
            several.join(", ")
        ));
    }
    if let (TimezoneSource::Given, Some(other)) = (files.timezone_source, &files.other_timezone) {
        notes.insert(
            0,
            format!(
                "times in the events carry the offset {other}, but times without one are read as {}: one of them may be wrong",
                files.timezone
            ),
        );
    }
    if files.local_times > 0 && files.timezone_source != TimezoneSource::Given {
        notes.insert(
            0,
            match files.timezone_source {
                TimezoneSource::OtherTimes => format!(
                    "times without an offset were read at {}, the offset of other times in the events",
                    files.timezone
                ),
                TimezoneSource::Host => format!(
                    "times without an offset were read as {}, the timezone of this host; give another if they are not",
                    files.timezone
                ),
                _ => "times without an offset were read as UTC; give the timezone if they are not".to_owned(),
            },
        );
    }

    let is_measured = |service: &ImportedService| !service.lives.is_empty();
    let count = |unknown: bool| {
        let lives = imported.iter().flat_map(|service| &service.lives);
        lives.filter(|life| (life.start == LifeStart::Unknown) == unknown).count() as u64
    };
    let summary = ImportSummary {
        trial: name.to_owned(),
        trial_id: 0,
        updated: stored.is_some(),
        changed: false,
        arms: wanted
            .lists
            .iter()
            .zip(&lists)
            .map(|(wanted_list, list)| ArmSummary {
                name: list.arm.name.clone(),
                control: list.arm.control,
                claimed_allocator: wanted_list.claimed_allocator().map(ToString::to_string),
                services: list.members.iter().filter(|index| is_measured(&imported[**index])).count(),
                earlier_list_of: list.earlier_list_of.map(|index| wanted.lists[index].arm.name.clone()),
            })
            .collect(),
        services: imported.iter().filter(|service| is_measured(service)).count(),
        ungrouped_services: ungrouped,
        new_samples,
        duplicate_samples: duplicates + duplicates_in_files,
        repeated_samples: duplicates_in_files,
        new_aggregates,
        lives_inferred: count(false),
        lives_unknown: count(true),
        events: events.len(),
        timezone: files.timezone.to_string(),
        local_times: files.local_times,
        timezone_source: files.timezone_source,
        relabelled,
        kept_apart,
        problems: Problems::default(),
        notes,
    };
    let mut parameters = json!({
        "lists_from": lists_from,
        "timezone": files.timezone.to_string(),
        "timezone_source": files.timezone_source,
    });
    let about = request
        .about
        .clone()
        .or_else(|| stored.map(|stored| About::of_parameters(&stored.plan.parameters)))
        .filter(|about| !about.is_empty());
    if let Some(about) = about {
        parameters["about"] = json!(about);
    }
    if let Some(control) = &chosen {
        parameters[CHOSEN_CONTROL] = json!(control);
    }
    if let Some(unit) = request.unit {
        parameters["memory_unit"] = json!(unit.to_string());
    }
    if keep_apart {
        parameters["labels_kept_apart"] = json!(true);
    }
    let host_facts = files.host.map(|host| host.to_json());
    let trial = ImportedTrial {
        plan: plan(name, &imported, &aggregates, parameters, host_facts, stored, request),
        lists,
        services: imported,
        events,
        aggregates,
        sources: join_sources(files.sources, stored),
    };
    let changed = stored.is_none_or(|stored| differs(&trial, stored));
    Ok(Assembled { trial, summary, changed })
}

fn keeps_apart(stored: &ImportedTrial) -> bool {
    stored.plan.parameters.get("labels_kept_apart").and_then(Value::as_bool).unwrap_or(false)
}

fn stored_lists_from(stored: &ImportedTrial) -> &str {
    stored.plan.parameters.get("lists_from").and_then(Value::as_str).unwrap_or_default()
}

fn with_lives(
    service: &mut MergedService,
    starts: &[StartEvent],
    events: &[ImportedEvent],
) -> ImportedService {
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
    services: &[ImportedService],
    aggregates: &[AggregateRow],
    parameters: Value,
    host_facts: Option<Value>,
    stored: Option<&ImportedTrial>,
    request: &TorUtilsImport,
) -> NewTrial {
    let sums = || aggregates.first().map(|row| (row.wall_us, row.wall_us));
    let (first, last) = span(services).or_else(sums).unwrap_or_default();
    NewTrial {
        name: name.to_owned(),
        kind: TrialKind::ImportTorutils,
        // A host of its own: it is not the one that this runs on.
        boot_id: format!("import:{name}"),
        host_facts: host_facts
            .or_else(|| stored.map(|stored| stored.plan.host_facts.clone()))
            .unwrap_or_else(|| json!({})),
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
