//! The trial as it will be stored, from what the store tells and what is stored already.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use heaptrial_model::{About, EventKind, KnownEvent, LifeStart, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService, ImportedTrial,
    NewTrial, SERVER, ServiceRecord, Store, StoreError,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::error::PrometheusError;
use super::lives::{Life, Lives};
use super::notes::{self, count, notes_of};
use super::samples::SpooledSamples;
use super::series::Fetched;
use super::service::{Service, add, memory_of};
use super::spool::Spool;
use super::{PrometheusImport, PrometheusSummary, Queries, arms, names};
use crate::ImportError;
use crate::blocks;
use crate::import::{ArmSummary, some_of};

/// Where the queries are in a trial's parameters.
const QUERIES: &str = "prometheus";
/// The label of an arm may be changed so long after its service was started with the arm's treatment.
const LABELLED_LATE_US: i64 = 3_600_000_000;

/// A trial that was imported before, whose lives are read when their service's turn comes.
pub(super) struct Stored<'a> {
    store: &'a Store,
    pub id: i64,
    pub trial: ImportedTrial,
    services: Vec<ServiceRecord>,
}

impl<'a> Stored<'a> {
    pub fn find(store: &'a Store, name: &str) -> Result<Option<Self>, StoreError> {
        let read = store.read_imported_without_lives(name, TrialKind::ImportPrometheus)?;
        let Some((id, trial)) = read else { return Ok(None) };
        Ok(Some(Self { store, id, trial, services: store.services(id)? }))
    }

    /// The first and the last reading, in microseconds since 1970.
    pub fn span(&self) -> (i64, i64) {
        let plan = &self.trial.plan;
        (plan.started_wall_us, plan.started_wall_us + plan.planned_us)
    }

    /// A service as it is stored; a new one if it is not.
    fn service(&self, name: &str) -> Result<Service, StoreError> {
        let mut service = Service::default();
        let Some(index) = self.services.iter().position(|service| service.name == name) else {
            return Ok(service);
        };
        let list = self.trial.lists.iter().find(|list| list.members.contains(&index));
        service.arm = list.map(|list| list.arm.name.clone()).unwrap_or_default();
        let told = self.services[index].host();
        service.server = told.unwrap_or_default().to_owned();
        self.store.imported_lives(self.services[index].id, |life| service.add_stored(&life))?;
        Ok(service)
    }
}

/// A service of which all is known; what it measured is in a spool.
pub(super) struct Assigned {
    /// Its arm; empty where nothing has told one.
    pub arm: String,
    /// Its server; empty where nothing has told one.
    server: String,
    samples: SpooledSamples,
    /// When the first and the last were taken; `None` without any.
    ends: Option<(i64, i64)>,
    new_samples: u64,
    lives: Lives,
}

/// A trial that may be written.
pub(super) struct Assembled {
    /// Its lives are without their samples.
    pub trial: ImportedTrial,
    pub summary: PrometheusSummary,
    samples: Vec<SpooledSamples>,
    /// Which of them are of which life, by service.
    lives: Vec<Vec<Range<usize>>>,
    spool: Spool,
}

impl Assembled {
    /// The samples of a life of a service, by their positions.
    pub fn samples(&self, service: usize, life: usize) -> io::Result<Cow<'_, [ImportedSample]>> {
        let samples = self.samples[service].get(&self.spool, self.lives[service][life].clone())?;
        Ok(samples.iter().collect())
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
        ("the label of servers", stored.server_label, given.server_label.clone()),
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
    before: Option<&Stored>,
    request: &PrometheusImport,
    database: &Path,
) -> Result<Assembled, ImportError> {
    let stored = before.map(|before| &before.trial);
    let mut spool = Spool::beside(database)?;
    let mut services: BTreeMap<String, Assigned> = BTreeMap::new();
    let mut told_of = notes::Services::default();
    let mut events = stored.map(events_of).unwrap_or_default();
    let by_label = request.queries.arm_label.is_some()
        && request.groups.is_empty()
        && !stored.is_some_and(arms::from_files);
    let mut moved_arm = Vec::new();
    let mut names: BTreeSet<&String> = fetched.services.keys().collect();
    names.extend(stored.iter().flat_map(|trial| &trial.services).map(|service| &service.name));
    for name in names {
        let mut service = before.map(|before| before.service(name)).transpose()?.unwrap_or_default();
        if let Some(kept) = fetched.services.get(name) {
            let told = fetched.told(kept)?;
            told_of.count(&told);
            if !kept.server.is_empty() {
                service.server.clone_from(&kept.server);
            }
            let mut since = None;
            // A label that was missing for a while is no other arm.
            let mut arms: Vec<&(i64, String)> = kept.arms.iter().filter(|(_, arm)| !arm.is_empty()).collect();
            arms.dedup_by(|next, last| next.1 == last.1);
            if let Some((at, arm)) = arms.last().filter(|_| by_label) {
                let before = arms.iter().nth_back(1).map_or(&service.arm, |(_, before)| before);
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
                    if !events.iter().any(|known| (known.wall_us, &known.service) == (*at, name)) {
                        let text = format!("`{before}` before, `{arm}` from here on");
                        let (wall_us, service, kind) = (*at, name.clone(), KnownEvent::Migration.into());
                        events.push(Event { wall_us, service, kind, text });
                        moved_arm.push(name.clone());
                    }
                }
                service.arm = arm.clone();
            }
            add(&mut service, told, request.metric, since, request.step_us);
            told_of.zeros += service.zeros;
        }
        let (lives, samples) = (service.lives, service.samples);
        let assigned = Assigned {
            arm: service.arm,
            server: service.server,
            ends: samples.first().zip(samples.last()).map(|(first, last)| (first.wall_us, last.wall_us)),
            new_samples: service.new_samples,
            lives,
            samples: samples.put(&mut spool)?,
        };
        let is_known = |event: &Event| event.kind == KnownEvent::StartMoved && event.service == *name;
        if let Some(first) = assigned.lives.moved.first().filter(|_| !events.iter().any(is_known)) {
            events.push(Event {
                wall_us: *first,
                service: name.clone(),
                kind: KnownEvent::StartMoved.into(),
                text: "the start that is told moved to a time at which the one before was still told"
                    .to_owned(),
            });
        }
        services.insert(name.clone(), assigned);
    }
    let mut notes = notes_of(&fetched, &told_of, request);
    if !moved_arm.is_empty() {
        notes.push(format!(
            "{} came from another arm on the way: only what they did since is in the trial ({})",
            count(moved_arm.len() as u64, "service"),
            some_of(moved_arm.iter().map(String::as_str))
        ));
    }
    let (wanted, left_out) = arms::lists(&services, stored, request)?;
    let moved_list = if request.groups.is_empty() { Vec::new() } else { arms::moved(&services, &wanted) };
    if !moved_list.is_empty() {
        notes.push(format!(
            "{} in another list than before, with all that is stored of them: of one that got another treatment, \
             leave out what it did before ({})",
            count(moved_list.len() as u64, "service"),
            some_of(moved_list.into_iter())
        ));
    }
    if !left_out.is_empty() {
        notes.push(format!(
            "{} in no arm and left out: {}",
            count(left_out.len() as u64, "service"),
            some_of(left_out.iter().map(String::as_str))
        ));
    }
    services.retain(|name, service| {
        service.ends.is_some()
            && wanted.lists.iter().any(|list| list.members.iter().any(|member| member.name == *name))
    });
    if services.is_empty() {
        let some = some_of(left_out.iter().map(String::as_str));
        return Err(ImportError::NobodyMeasured { measured: left_out.len(), some });
    }
    notes.extend(names::remarks(services.keys().map(String::as_str)));
    let new_samples = services.values().map(|service| service.new_samples).sum();
    let names: Vec<String> = services.keys().cloned().collect();
    let moved: usize = services.values().map(|service| service.lives.moved.len()).sum();
    let ends: Vec<(i64, i64)> = services.values().filter_map(|service| service.ends).collect();
    let servers: Vec<&str> = services.values().map(|service| service.server.as_str()).collect();
    let imported: Vec<ImportedService> = services
        .iter()
        .zip(blocks::of_servers(&servers))
        .map(|((name, service), block)| imported(name, block, service, &events))
        .collect();
    if moved > 0 {
        notes.push(format!(
            "{} the start that is told moved to a time at which the one before was still told: the oldest of several \
             processes ended, or a clock was set; the service is taken to have run on",
            count(moved as u64, "time")
        ));
    }
    let position = |name: &String| names.binary_search(name).ok();
    let lists: Vec<ImportedList> = wanted
        .lists
        .iter()
        .map(|list| ImportedList {
            arm: list.arm.clone(),
            members: list.members.iter().filter_map(|member| position(&member.name)).collect(),
            source: list.source.clone(),
        })
        .collect();
    let events: Vec<ImportedEvent> = events
        .into_iter()
        .map(|Event { wall_us, service, kind, text }| ImportedEvent {
            wall_us,
            service: position(&service),
            arm: None,
            kind,
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
            })
            .collect(),
        services: imported.len(),
        new_samples,
        lives_told: with(|start| start == LifeStart::Observed),
        lives_inferred: with(|start| matches!(start, LifeStart::Inferred { .. })),
        lives_unknown: with(|start| start == LifeStart::Unknown),
        notes,
    };
    let (samples, lives): (Vec<SpooledSamples>, Vec<Vec<Range<usize>>>) = services
        .into_values()
        .map(|service| {
            let lives = service.lives.lives.into_iter().map(|life| life.samples);
            (service.samples, lives.collect())
        })
        .unzip();
    let sources = sources(request, &names, &samples, &spool)?;
    let trial =
        ImportedTrial { plan: plan(&ends, stored, request), lists, services: imported, events, sources };
    Ok(Assembled { trial, summary, samples, lives, spool })
}

/// A process that ran on while the label of its arm changed runs what it ran before: it is not of the arm that it has now.
fn imported(name: &str, block: u32, service: &Assigned, events: &[Event]) -> ImportedService {
    let of_label = |event: &&Event| event.kind == KnownEvent::Migration && event.service == name;
    let change = events.iter().filter(of_label).max_by_key(|event| event.wall_us);
    let ran_on = |life: &Life| {
        let change = change.filter(|_| life.start == LifeStart::Observed)?;
        let before = life.started_us < change.wall_us - LABELLED_LATE_US;
        before.then(|| format!("it was not started anew when its arm's label changed ({})", change.text))
    };
    let lives = service.lives.lives.iter().map(|life| ImportedLife {
        started_wall_us: life.started_us,
        start: life.start,
        contamination: ran_on(life),
        samples: Vec::new(),
    });
    let attributes = match service.server.as_str() {
        "" => Value::Null,
        server => json!({ SERVER: server }),
    };
    ImportedService { name: name.to_owned(), block, attributes, lives: lives.collect() }
}

/// An event of a service.
struct Event {
    wall_us: i64,
    service: String,
    kind: EventKind,
    text: String,
}

fn events_of(trial: &ImportedTrial) -> Vec<Event> {
    let named = |event: &ImportedEvent| {
        let service = trial.services.get(event.service?)?.name.clone();
        Some(Event { wall_us: event.wall_us, service, kind: event.kind.clone(), text: event.text.clone() })
    };
    trial.events.iter().filter_map(named).collect()
}

/// `ends` are of each service: when its first and its last reading were taken.
fn plan(ends: &[(i64, i64)], stored: Option<&ImportedTrial>, request: &PrometheusImport) -> NewTrial {
    let first = ends.iter().map(|(first, _)| *first).min();
    let last = ends.iter().map(|(_, last)| *last).max();
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
    names: &[String],
    samples: &[SpooledSamples],
    spool: &Spool,
) -> Result<Vec<ImportSource>, PrometheusError> {
    let mut digest = Sha256::new();
    let mut rows = 0;
    for (name, own) in names.iter().zip(samples) {
        digest.update(name.as_bytes());
        for sample in own.all(spool)?.iter() {
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
    let sha256 = hex::encode(digest.finalize());
    let mut sources = vec![ImportSource { rows, sha256, ..of("memory", &queries.memory) }];
    for (role, query) in [("swap", &queries.swap), ("start", &queries.start), ("counter", &queries.counter)] {
        sources.extend(query.as_ref().map(|query| of(role, query)));
    }
    Ok(sources)
}
