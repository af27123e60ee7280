//! The trial as it will be stored, from what the store tells and what is stored already.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{About, EventKind, KnownEvent, LifeStart, Metric, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService, ImportedTrial,
    NewTrial,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::PrometheusError;
use super::series::{Fetched, Told, Values};
use super::{PrometheusImport, PrometheusSummary, Queries, lives};
use crate::ImportError;
use crate::import::{ArmSummary, ListsFrom, Member, Wanted, WantedList, some_of};

/// Where the queries are in a trial's parameters.
const QUERIES: &str = "prometheus";
/// Value of the parameter `lists_from` where files say who is in which arm.
const FROM_FILES: &str = "files";
/// A value of another series counts for a reading at most so long after it was scraped: Prometheus' own rule.
const LOOKED_BACK_US: i64 = 300_000_000;
/// The arm of services that nothing puts into an arm.
const EVERYTHING: &str = "all";

/// A trial that may be written.
pub(super) struct Assembled {
    pub trial: ImportedTrial,
    pub summary: PrometheusSummary,
}

/// A service while it is put together.
#[derive(Default)]
struct Service {
    samples: Vec<ImportedSample>,
    start: Values,
    counter: Values,
    arm: String,
    new_samples: u64,
}

/// The last reading of a trial, in microseconds since 1970.
pub(super) fn last_reading(trial: &ImportedTrial) -> Option<i64> {
    let lives = trial.services.iter().flat_map(|service| &service.lives);
    lives.filter_map(|life| life.samples.last()).map(|sample| sample.wall_us).max()
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
    stored: Option<&ImportedTrial>,
    request: &PrometheusImport,
) -> Result<Assembled, ImportError> {
    let mut notes = notes_of(&fetched, request);
    let mut services: BTreeMap<String, Service> =
        stored.map(|trial| of_stored(trial, request.metric)).unwrap_or_default();
    let mut events = stored.map(events_of).unwrap_or_default();
    let by_label =
        request.queries.arm_label.is_some() && request.groups.is_empty() && !stored.is_some_and(from_files);
    let mut moved_arm = Vec::new();
    for (name, told) in fetched.services {
        let service = services.entry(name.clone()).or_default();
        let mut since = None;
        if let Some((at, arm)) = told.arms.last().filter(|_| by_label) {
            let before = told.arms.iter().nth_back(1).map_or(&service.arm, |(_, before)| before);
            if before != arm && !service.samples.is_empty() {
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
                events.push((*at, name.clone(), format!("`{before}` before, `{arm}` from here on")));
                service.samples.retain(|sample| sample.wall_us >= *at);
                since = Some(*at);
                moved_arm.push(name);
            }
            service.arm = arm.clone();
        }
        add(service, told, request.metric, since);
    }
    if !moved_arm.is_empty() {
        notes.push(format!(
            "{} came from another arm on the way: only what they did since is in the trial ({})",
            count(moved_arm.len() as u64, "service"),
            some_of(moved_arm.iter().map(String::as_str))
        ));
    }
    let (wanted, left_out) = lists(&services, stored, request)?;
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
    let new_samples = services.values().map(|service| service.new_samples).sum();
    let names: Vec<String> = services.keys().cloned().collect();
    let mut moved = 0;
    let imported: Vec<ImportedService> = services
        .into_iter()
        .map(|(name, service)| {
            let found = lives::of_service(&service.samples, &service.start, &service.counter);
            moved += found.moved;
            let lives = found.lives.into_iter().map(|life| ImportedLife {
                started_wall_us: life.started_us,
                start: life.start,
                samples: service.samples[life.samples].to_vec(),
            });
            ImportedService { name, attributes: Value::Null, lives: lives.collect() }
        })
        .collect();
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
    let sources = sources(request, &imported);
    let trial = ImportedTrial {
        plan: plan(&imported, stored, request),
        lists,
        services: imported,
        events,
        aggregates: Vec::new(),
        sources,
    };
    Ok(Assembled { trial, summary })
}

fn notes_of(fetched: &Fetched, request: &PrometheusImport) -> Vec<String> {
    let mut notes: Vec<String> =
        fetched.warnings.iter().map(|warning| format!("the store warns: {warning}")).collect();
    if fetched.no_memory > 0 {
        notes.push(format!(
            "{} of memory that are zero or no number were left out: exporters tell them of what does not run",
            count(fetched.no_memory, "reading")
        ));
    }
    if fetched.unnamed > 0 {
        notes.push(format!(
            "{} without the labels {} were left out",
            count(fetched.unnamed, "series"),
            request.queries.service_labels.join(", ")
        ));
    }
    if request.metric == Metric::Anon && request.queries.swap.is_none() {
        notes.push(
            "swap was not asked for: anonymous memory that was swapped out counts as given back".into(),
        );
    }
    let untold = fetched.services.values().filter(|told| told.swap.is_empty()).count() as u64;
    if request.queries.swap.is_some() && untold > 0 {
        notes.push(format!("of {} no swap is told: they are taken to have none", count(untold, "service")));
    }
    let off =
        fetched.services.values().filter(|told| told.contaminated.iter().any(|(_, is)| *is > 0.5)).count()
            as u64;
    if off > 0 {
        notes.push(format!(
            "what {} did while not running the treatment of the arm is left out",
            count(off, "service")
        ));
    }
    match (&request.queries.start, &request.queries.counter) {
        (None, None) => notes.push(
            "no query tells starts or a counter: restarts are guessed from falls of memory to less than 0.3"
                .into(),
        ),
        (None, Some(_)) => notes.push("restarts are taken from falls of the counter".into()),
        (Some(_), _) => {
            let untold = fetched.services.values().filter(|told| told.start.is_empty()).count() as u64;
            if untold > 0 {
                notes.push(format!(
                    "of {} no start is told: their lives are taken from {}",
                    count(untold, "service"),
                    if request.queries.counter.is_some() { "the counter" } else { "falls of memory" }
                ));
            }
        }
    }
    notes
}

fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 || what == "series" { "" } else { "s" };
    format!("{} {what}{plural}", heaptrial_model::units::count(number))
}

/// What is stored, as the store would have told it.
fn of_stored(trial: &ImportedTrial, metric: Metric) -> BTreeMap<String, Service> {
    let mut services = BTreeMap::new();
    for (index, stored) in trial.services.iter().enumerate() {
        let mut service = Service::default();
        for life in &stored.lives {
            service.samples.extend_from_slice(&life.samples);
            let (Some(first), Some(last)) = (life.samples.first(), life.samples.last()) else { continue };
            if life.start == LifeStart::Observed {
                let started = life.started_wall_us as f64 / 1e6;
                service.start.extend([(first.wall_us, started), (last.wall_us, started)]);
            }
        }
        let told = service.samples.iter();
        service.counter =
            told.filter_map(|sample| Some((sample.wall_us, sample.cpu_us? as f64 / 1e6))).collect();
        let list = trial.lists.iter().find(|list| list.members.contains(&index));
        service.arm = list.map(|list| list.arm.name.clone()).unwrap_or_default();
        debug_assert!(service.samples.iter().all(|sample| memory_of(sample, metric).is_some()));
        services.insert(stored.name.clone(), service);
    }
    services
}

/// Whether lists in files say who is in which arm.
fn from_files(trial: &ImportedTrial) -> bool {
    trial.plan.parameters.get("lists_from").and_then(Value::as_str) == Some(FROM_FILES)
}

fn events_of(trial: &ImportedTrial) -> Vec<(i64, String, String)> {
    let named = |event: &ImportedEvent| {
        let service = trial.services.get(event.service?)?;
        Some((event.wall_us, service.name.clone(), event.text.clone()))
    };
    trial.events.iter().filter_map(named).collect()
}

fn memory_of(sample: &ImportedSample, metric: Metric) -> Option<u64> {
    match metric {
        Metric::Anon => sample.anon_bytes,
        Metric::Cgroup => sample.cgroup_current_bytes,
        Metric::Rss | Metric::Pss => Some(sample.rss_bytes),
    }
}

/// Adds readings that came after those that are there.
fn add(service: &mut Service, told: Told, metric: Metric, since: Option<i64>) {
    let last = service.samples.last().map_or(i64::MIN, |sample| sample.wall_us);
    let first_wanted = since.unwrap_or(i64::MIN);
    let no_swap = told.swap.is_empty();
    let mut swap = LookBack::new(&told.swap);
    let mut contaminated = LookBack::new(&told.contaminated);
    let mut counter = LookBack::new(&told.counter);
    for (wall_us, bytes) in told.memory.into_iter().filter(|(at, _)| *at > last && *at >= first_wanted) {
        if contaminated.at(wall_us).is_some_and(|is| is > 0.5) {
            continue;
        }
        let bytes = bytes as u64;
        let mut sample = ImportedSample { wall_us, ..ImportedSample::default() };
        match metric {
            Metric::Anon => {
                sample.anon_bytes = Some(bytes);
                // Where a service's swap is told, a reading without it is none.
                sample.swap_bytes = match no_swap {
                    true => Some(0),
                    false => swap.at(wall_us).map(|bytes| bytes as u64),
                };
            }
            Metric::Cgroup => sample.cgroup_current_bytes = Some(bytes),
            Metric::Rss | Metric::Pss => sample.rss_bytes = bytes,
        }
        sample.cpu_us = counter.at(wall_us).map(|seconds| (seconds * 1e6) as u64);
        service.samples.push(sample);
        service.new_samples += 1;
    }
    for (stored, new) in [(&mut service.start, told.start), (&mut service.counter, told.counter)] {
        let last = stored.last().map_or(i64::MIN, |(at, _)| *at);
        stored.extend(new.into_iter().filter(|(at, _)| *at > last));
    }
}

/// The last value at or before ascending times.
struct LookBack<'a> {
    values: &'a [(i64, f64)],
    next: usize,
}

impl<'a> LookBack<'a> {
    fn new(values: &'a [(i64, f64)]) -> Self {
        Self { values, next: 0 }
    }

    fn at(&mut self, wall_us: i64) -> Option<f64> {
        while self.values.get(self.next).is_some_and(|(at, _)| *at <= wall_us) {
            self.next += 1;
        }
        let (at, value) = *self.values.get(self.next.checked_sub(1)?)?;
        (wall_us - at <= LOOKED_BACK_US).then_some(value)
    }
}

/// The arms with their members, and the services that are in none.
fn lists(
    services: &BTreeMap<String, Service>,
    stored: Option<&ImportedTrial>,
    request: &PrometheusImport,
) -> Result<(Wanted, Vec<String>), ImportError> {
    let mut lists: Vec<WantedList> = Vec::new();
    let mut put = |arm: &str, source: String, member: &str| {
        let member = Member::named(member);
        match lists.iter_mut().find(|list| list.arm.name == arm) {
            Some(list) => list.members.push(member),
            None => lists.push(WantedList::new(arm.to_owned(), source, vec![member])),
        }
    };
    if !request.groups.is_empty() {
        let named: Vec<String> = request
            .groups
            .iter()
            .map(|path| crate::import::list_of_names(path).map(|(arm, _)| arm))
            .collect::<Result<_, _>>()?;
        let gone = |list: &&ImportedList| !named.contains(&list.arm.name);
        if let Some(list) = stored.and_then(|trial| trial.lists.iter().find(gone)) {
            return Err(PrometheusError::OtherQueries {
                name: request.name.clone(),
                what: "lists of services",
                stored: format!("with `{}` among them", list.arm.name),
                given: named.join(", "),
            }
            .into());
        }
        for path in &request.groups {
            let (arm, members) = crate::import::list_of_names(path)?;
            for member in members.iter().filter(|name| services.contains_key(*name)) {
                put(&arm, path.display().to_string(), member);
            }
        }
    } else if stored.is_some_and(from_files) {
        for (name, service) in services.iter().filter(|(_, service)| !service.arm.is_empty()) {
            put(&service.arm, String::new(), name);
        }
    } else if let Some(label) = &request.queries.arm_label {
        for (name, service) in services.iter().filter(|(_, service)| !service.arm.is_empty()) {
            put(&service.arm, format!("label {label}"), name);
        }
    } else {
        for name in services.keys() {
            put(EVERYTHING, String::new(), name);
        }
    }
    lists.sort_by(|a, b| a.arm.name.cmp(&b.arm.name));
    let named: BTreeSet<&String> =
        lists.iter().flat_map(|list| &list.members).map(|member| &member.name).collect();
    let left_out = services.keys().filter(|name| !named.contains(name)).cloned().collect();
    if lists.is_empty() {
        return Err(ImportError::NobodyMeasured {
            measured: services.len(),
            some: some_of(services.keys().map(String::as_str).collect::<Vec<_>>().into_iter()),
        });
    }
    let stored_control = stored.and_then(|trial| trial.lists.iter().find(|list| list.arm.control));
    let control = request.control.as_deref().or(stored_control.map(|list| list.arm.name.as_str()));
    let mut wanted = Wanted { lists, from: ListsFrom::Files };
    wanted.check_names()?;
    wanted.claim(&[], control)?;
    Ok((wanted, left_out))
}

fn plan(
    services: &[ImportedService],
    stored: Option<&ImportedTrial>,
    request: &PrometheusImport,
) -> NewTrial {
    let samples = || services.iter().flat_map(|service| &service.lives).flat_map(|life| &life.samples);
    let first = samples().map(|sample| sample.wall_us).min().unwrap_or_default();
    let last = samples().map(|sample| sample.wall_us).max().unwrap_or(first);
    let lists_from = match (&request.groups.is_empty(), &request.queries.arm_label) {
        (false, _) => FROM_FILES,
        (true, _) if stored.is_some_and(from_files) => FROM_FILES,
        (true, Some(_)) => "label",
        (true, None) => "nothing",
    };
    let mut parameters = json!({ "lists_from": lists_from, QUERIES: request.queries });
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
fn sources(request: &PrometheusImport, services: &[ImportedService]) -> Vec<ImportSource> {
    let mut digest = Sha256::new();
    let mut rows = 0;
    for service in services {
        digest.update(service.name.as_bytes());
        for sample in service.lives.iter().flat_map(|life| &life.samples) {
            let bytes = memory_of(sample, request.metric).unwrap_or_default();
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
