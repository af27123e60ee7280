//! The trial as it will be stored, from what the store tells and what is stored already.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use heaptrial_model::{About, EventKind, KnownEvent, LifeStart, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService, ImportedTrial,
    NewTrial,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::PrometheusError;
use super::notes::{count, notes_of};
use super::samples::Samples;
use super::series::Fetched;
use super::service::{Service, StoredServices, add, memory_of};
use super::{PrometheusImport, PrometheusSummary, Queries, arms, lives, names};
use crate::ImportError;
use crate::import::{ArmSummary, some_of};

/// Where the queries are in a trial's parameters.
const QUERIES: &str = "prometheus";

/// A trial that may be written.
pub(super) struct Assembled {
    /// Its lives are without their samples.
    pub trial: ImportedTrial,
    /// Those, by service.
    pub samples: Vec<SamplesOfLives>,
    pub summary: PrometheusSummary,
}

/// The samples of a service, and which of them are of which life.
pub(super) struct SamplesOfLives {
    samples: Samples,
    lives: Vec<Range<usize>>,
}

impl SamplesOfLives {
    /// Those of a life, by its number.
    pub fn of_life(&self, number: usize) -> Cow<'_, [ImportedSample]> {
        let own = self.lives.get(number).cloned().unwrap_or_default();
        own.filter_map(|index| self.samples.get(index)).collect()
    }
}

/// Whether a stored trial was made of the same.
pub(super) fn same_queries(trial: &ImportedTrial, request: &PrometheusImport) -> Result<(), PrometheusError> {
    let stored = trial.plan.parameters.get(QUERIES).cloned().unwrap_or_default();
    let Ok(stored) = serde_json::from_value::<Queries>(stored) else { return Ok(()) };
    let given = &request.queries;
    let option = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    let pairs = [
        ("the address", stored.url, given.url.clone()),
        ("the query of memory", stored.memory, given.memory.clone()),
        ("the metric", trial.plan.metric.to_string(), request.metric.to_string()),
        ("the query of swap", option(&stored.swap), option(&given.swap)),
        ("the query of starts", option(&stored.start), option(&given.start)),
        ("the query of a counter", option(&stored.counter), option(&given.counter)),
        ("the query of contamination", option(&stored.contaminated), option(&given.contaminated)),
        ("the labels of services", stored.service_labels.join(","), given.service_labels.join(",")),
        ("the label of arms", option(&stored.arm_label), option(&given.arm_label)),
        ("the label of replicas", option(&stored.replica_label), option(&given.replica_label)),
    ];
    match pairs.into_iter().find(|(_, stored, given)| stored != given) {
        Some((what, stored, given)) => {
            Err(PrometheusError::OtherQueries { name: request.name.clone(), what, stored, given })
        }
        None => Ok(()),
    }
}

pub(super) fn assemble(
    fetched: Fetched,
    stored: Option<(&ImportedTrial, StoredServices)>,
    request: &PrometheusImport,
) -> Result<Assembled, ImportError> {
    let mut notes = notes_of(&fetched, request);
    let (stored, of_stored) = stored.unzip();
    let mut services: BTreeMap<String, Service> =
        of_stored.zip(stored).map(|(services, trial)| services.named(trial)).unwrap_or_default();
    let mut events = stored.map(events_of).unwrap_or_default();
    let by_label = request.queries.arm_label.is_some()
        && request.groups.is_empty()
        && !stored.is_some_and(arms::from_files);
    let mut moved_arm = Vec::new();
    for (name, told) in fetched.services {
        let service = services.entry(name.clone()).or_default();
        let mut since = None;
        if let Some((at, arm)) = told.arms.last().filter(|_| by_label) {
            let before = told.arms.iter().nth_back(1).map_or(&service.arm, |(_, before)| before);
            let stored_before = service.samples.first().is_some_and(|sample| sample.wall_us < *at);
            if before != arm && stored_before {
                // What is stored may be gone in the store: it is not given up for a label.
                return Err(PrometheusError::OtherQueries {
                    name: request.name.clone(),
                    what: "an arm of a service",
                    stored: format!("{name}: `{before}`"),
                    given: format!("`{arm}`"),
                }
                .into());
            }
            if before != arm && !(before.is_empty() && service.samples.is_empty()) {
                since = Some(*at);
                if !events.iter().any(|(known, of, _)| (known, of) == (at, &name)) {
                    events.push((*at, name.clone(), format!("`{before}` before, `{arm}` from here on")));
                    moved_arm.push(name);
                }
            }
            service.arm = arm.clone();
        }
        add(service, told, request.metric, since, request.step_us);
    }
    if !moved_arm.is_empty() {
        notes.push(format!(
            "{} came from another arm on the way: only what they did since is in the trial ({})",
            count(moved_arm.len() as u64, "service"),
            some_of(moved_arm.iter().map(String::as_str))
        ));
    }
    let (wanted, left_out) = arms::lists(&services, stored, request)?;
    if !left_out.is_empty() {
        notes.push(format!(
            "{} in no arm and left out: {}",
            count(left_out.len() as u64, "service"),
            some_of(left_out.iter().map(String::as_str))
        ));
    }
    services.retain(|name, service| {
        !service.samples.is_empty()
            && wanted.lists.iter().any(|list| list.members.iter().any(|member| member.name == *name))
    });
    if services.is_empty() {
        let some = some_of(left_out.iter().map(String::as_str));
        return Err(ImportError::NobodyMeasured { measured: left_out.len(), some });
    }
    notes.extend(names::remarks(services.keys().map(String::as_str)));
    let new_samples = services.values().map(|service| service.new_samples).sum();
    let names: Vec<String> = services.keys().cloned().collect();
    let mut moved = 0;
    let mut imported: Vec<ImportedService> = Vec::with_capacity(services.len());
    let mut samples: Vec<SamplesOfLives> = Vec::with_capacity(services.len());
    for (name, service) in services {
        let own: Vec<ImportedSample> = service.samples.iter().collect();
        let found = lives::of_service(&own, &service.start, &service.counter);
        moved += found.moved;
        let lives = found.lives.iter().map(|life| ImportedLife {
            started_wall_us: life.started_us,
            start: life.start,
            samples: Vec::new(),
        });
        imported.push(ImportedService { name, attributes: Value::Null, lives: lives.collect() });
        let lives = found.lives.into_iter().map(|life| life.samples).collect();
        samples.push(SamplesOfLives { samples: service.samples, lives });
    }
    if moved > 0 {
        notes.push(format!(
            "{} the start that is told moved to a time at which the one before was still told: the oldest of several \
             processes ended, or a clock was set; the service is taken to have run on",
            count(moved, "time")
        ));
    }
    let position = |name: &String| names.binary_search(name).ok();
    let lists: Vec<ImportedList> = wanted
        .lists
        .iter()
        .map(|list| ImportedList {
            arm: list.arm.clone(),
            earlier_list_of: list.earlier_list_of,
            members: list.members.iter().filter_map(|member| position(&member.name)).collect(),
            source: list.source.clone(),
        })
        .collect();
    let events: Vec<ImportedEvent> = events
        .into_iter()
        .map(|(wall_us, name, text)| ImportedEvent {
            wall_us,
            service: position(&name),
            arm: None,
            kind: EventKind::from(KnownEvent::Migration.as_str()),
            text,
        })
        .collect();
    let with = |wanted: fn(LifeStart) -> bool| {
        imported.iter().flat_map(|service| &service.lives).filter(|life| wanted(life.start)).count() as u64
    };
    let summary = PrometheusSummary {
        trial: request.name.clone(),
        trial_id: 0,
        updated: stored.is_some(),
        arms: wanted
            .lists
            .iter()
            .zip(&lists)
            .map(|(wanted, list)| ArmSummary {
                name: list.arm.name.clone(),
                control: list.arm.control,
                claimed_allocator: wanted.claimed_allocator().map(ToString::to_string),
                services: list.members.len(),
                earlier_list_of: None,
            })
            .collect(),
        services: imported.len(),
        new_samples,
        lives_told: with(|start| start == LifeStart::Observed),
        lives_inferred: with(|start| matches!(start, LifeStart::Inferred { .. })),
        lives_unknown: with(|start| start == LifeStart::Unknown),
        notes,
    };
    let sources = sources(request, &imported, &samples);
    let trial = ImportedTrial {
        plan: plan(&samples, stored, request),
        lists,
        services: imported,
        events,
        aggregates: Vec::new(),
        sources,
    };
    Ok(Assembled { trial, samples, summary })
}

fn events_of(trial: &ImportedTrial) -> Vec<(i64, String, String)> {
    let named = |event: &ImportedEvent| {
        let service = trial.services.get(event.service?)?;
        Some((event.wall_us, service.name.clone(), event.text.clone()))
    };
    trial.events.iter().filter_map(named).collect()
}

fn plan(services: &[SamplesOfLives], stored: Option<&ImportedTrial>, request: &PrometheusImport) -> NewTrial {
    let first = services.iter().filter_map(|of| of.samples.first()).map(|first| first.wall_us).min();
    let last = services.iter().filter_map(|of| of.samples.last()).map(|last| last.wall_us).max();
    let (first, last) = first.zip(last).unwrap_or_default();
    let mut parameters = json!({ "lists_from": arms::lists_from(stored, request), QUERIES: request.queries });
    let about =
        request.about.clone().or_else(|| stored.map(|trial| About::of_parameters(&trial.plan.parameters)));
    if let Some(about) = about.filter(|about| !about.is_empty()) {
        parameters["about"] = json!(about);
    }
    NewTrial {
        name: request.name.clone(),
        kind: TrialKind::ImportPrometheus,
        // A host of its own: it is not the one that this runs on.
        boot_id: format!("import:{}", request.name),
        host_facts: json!({}),
        metric: request.metric,
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

/// The queries as sources, with the digest of all readings that are in the trial.
fn sources(
    request: &PrometheusImport,
    services: &[ImportedService],
    samples: &[SamplesOfLives],
) -> Vec<ImportSource> {
    let mut digest = Sha256::new();
    let mut rows = 0;
    for (service, own) in services.iter().zip(samples) {
        digest.update(service.name.as_bytes());
        for sample in own.samples.iter() {
            let bytes = memory_of(&sample, request.metric).unwrap_or_default();
            digest.update(sample.wall_us.to_le_bytes());
            digest.update(bytes.to_le_bytes());
            rows += 1;
        }
    }
    let queries = &request.queries;
    let of = |role: &str, query: &str| ImportSource {
        file: format!("{query} at {}", queries.url),
        role: role.to_owned(),
        sha256: String::new(),
        rows: 0,
        skipped: 0,
    };
    let sha256: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut sources = vec![ImportSource { rows, sha256, ..of("memory", &queries.memory) }];
    for (role, query) in [("swap", &queries.swap), ("start", &queries.start), ("counter", &queries.counter)] {
        sources.extend(query.as_ref().map(|query| of(role, query)));
    }
    sources
}
