//! The trial as it will be stored, from what the store has.

use heaptrial_model::{KnownEvent, LifeStart, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedService, ImportedTrial, NewService, NewTrial, SERVER,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::lives;
use super::notes::{count, notes_of};
use super::series::{Fetched, Series};
use super::{PrometheusImport, arms};
use crate::ImportError;
use crate::blocks;
use crate::import::{ImportSummary, some_of, span, unusual_size};

/// The label of an arm may be changed so long after its service was started with the arm's treatment.
const LABELLED_LATE_US: i64 = 3_600_000_000;

/// A service whose label of arms changed: only what it did since then is in the trial.
struct Moved {
    end_us: i64,
    text: String,
}

impl Moved {
    fn of(series: &Series) -> Option<Self> {
        let [.., (_, before), (end_us, arm)] = &series.arms[..] else { return None };
        Some(Self { end_us: *end_us, text: format!("`{before}` before, `{arm}` from here on") })
    }

    /// A process that ran on while the label changed runs what it ran before: it is not of the arm that it has now.
    fn contaminates(&self, life: &ImportedLife) -> Option<String> {
        let ran_on =
            life.start == LifeStart::Observed && life.started_wall_us < self.end_us - LABELLED_LATE_US;
        ran_on.then(|| format!("it was not started again when its arm's label changed ({})", self.text))
    }
}

pub(super) fn assemble(
    fetched: Fetched,
    request: &PrometheusImport,
) -> Result<(ImportedTrial, ImportSummary), ImportError> {
    let mut notes = notes_of(&fetched, request);
    let wanted = arms::lists(&fetched.services, request)?;
    let arm_of = |name: &String| wanted.lists.iter().position(|list| list.members.contains(name));
    let also_in = |name: &String, first: usize| -> Vec<usize> {
        let names_it = |arm: &usize| wanted.lists[*arm].members.contains(name);
        (first + 1..wanted.lists.len()).filter(names_it).collect()
    };
    let (listed, unlisted): (Vec<_>, Vec<_>) =
        fetched.services.into_iter().partition(|(name, _)| arm_of(name).is_some());
    if !unlisted.is_empty() {
        let names = some_of(unlisted.iter().map(|(name, _)| name.as_str()));
        notes.push(format!("{} in no arm excluded: {names}", count(unlisted.len() as u64, "service")));
    }
    let by_label = request.queries.arm_label.is_some() && request.groups.is_empty();
    let servers: Vec<&str> = listed.iter().map(|(_, series)| series.server.as_str()).collect();
    let mut services = Vec::new();
    let mut events = Vec::new();
    let mut moved_arm = Vec::new();
    for ((name, series), block) in listed.iter().zip(blocks::of_servers(&servers)) {
        let moved = Moved::of(series).filter(|_| by_label);
        let since = moved.as_ref().map_or(i64::MIN, |moved| moved.end_us);
        let found = lives::of(series, request.metric, request.step_us, since);
        let index = services.len();
        let mut event = |wall_us: i64, kind: KnownEvent, text: String| {
            events.push(ImportedEvent { wall_us, service: Some(index), arm: None, kind: kind.into(), text });
        };
        if let Some(moved) = &moved {
            event(moved.end_us - request.step_us, KnownEvent::Migration, moved.text.clone());
            moved_arm.push(name.as_str());
        }
        if let Some(first) = found.moved.first() {
            let text = "the reported start moved to a time at which the one before was still reported";
            event(*first, KnownEvent::StartMoved, text.to_owned());
        }
        let lives = found.lives.into_iter().map(|life| ImportedLife {
            contamination: moved.as_ref().and_then(|moved| moved.contaminates(&life)),
            ..life
        });
        let attributes = match series.server.as_str() {
            "" => Value::Null,
            server => json!({ SERVER: server }),
        };
        let arm = arm_of(name).unwrap_or_default();
        let service = NewService { name: name.clone(), arm, block, position: index as u32, attributes };
        services.push(ImportedService { service, also_in: also_in(name, arm), lives: lives.collect() });
    }
    if !moved_arm.is_empty() {
        notes.push(format!(
            "{} came from another arm on the way: only what they did since is in the trial ({})",
            count(moved_arm.len() as u64, "service"),
            some_of(moved_arm.iter().copied())
        ));
    }
    let Some((first, last)) = span(&services) else { return Err(request.no_readings()) };
    if let Some(shown) = unusual_size(highest(&services)) {
        return Err(ImportError::Refused(format!(
            "half of the readings of {} are {shown}; nothing was imported: where the query does not give bytes, multiply it by what \
             makes bytes of it",
            request.queries.memory
        )));
    }
    let sources = sources(request, &services);
    let mut parameters = json!({ "lists_from": wanted.from, "prometheus": request.queries });
    if let Some(about) = request.about.as_ref().filter(|about| !about.is_empty()) {
        parameters["about"] = json!(about);
    }
    let (arms, lists) = wanted.into_arms();
    let plan = NewTrial {
        name: request.name.clone(),
        kind: TrialKind::ImportPrometheus,
        // A host of its own: it is not the one that this runs on.
        boot_id: format!("import:{}", request.name),
        host_facts: json!({}),
        metric: request.metric,
        seed: 0,
        repeats: 1,
        planned_us: last - first,
        arms,
        parameters,
        command: request.command.clone(),
        tool_version: request.tool_version.clone(),
        started_wall_us: first,
    };
    let trial = ImportedTrial { plan, lists, services, events, sources };
    let summary = ImportSummary { ungrouped_services: unlisted.len(), notes, ..ImportSummary::of(&trial) };
    Ok((trial, summary))
}

fn highest(services: &[ImportedService]) -> impl Iterator<Item = u64> {
    let samples = services.iter().flat_map(|service| &service.lives).flat_map(|life| &life.samples);
    samples.filter_map(|sample| sample.highest_bytes)
}

/// The queries as sources, with the digest of all readings that are in the trial.
fn sources(request: &PrometheusImport, services: &[ImportedService]) -> Vec<ImportSource> {
    let mut digest = Sha256::new();
    let mut rows = 0;
    for service in services {
        digest.update(service.service.name.as_bytes());
        for sample in service.lives.iter().flat_map(|life| &life.samples) {
            digest.update(sample.wall_us.to_le_bytes());
            digest.update(sample.highest_bytes.unwrap_or_default().to_le_bytes());
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
    for (role, query) in [("swap", &queries.swap), ("start", &queries.start)] {
        sources.extend(query.as_ref().map(|query| of(role, query)));
    }
    sources
}
