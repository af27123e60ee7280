//! The trial as it will be stored, from what the store has.

use heaptrial_model::{KnownEvent, LifeStart, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedService, ImportedTrial, NewTrial, SERVER,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::error::PrometheusError;
use super::lives::{self, Life};
use super::notes::{count, notes_of};
use super::series::{Fetched, Series};
use super::{PrometheusImport, arms};
use crate::blocks;
use crate::import::{ImportSummary, arm_summaries, some_of, span, unusual_size};
use crate::{ImportError, Problems};

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
    fn contaminates(&self, life: &Life) -> Option<String> {
        let ran_on = life.start == LifeStart::Observed && life.started_us < self.end_us - LABELLED_LATE_US;
        ran_on.then(|| format!("it was not started again when its arm's label changed ({})", self.text))
    }
}

pub(super) fn assemble(
    fetched: Fetched,
    request: &PrometheusImport,
) -> Result<(ImportedTrial, ImportSummary), ImportError> {
    let mut notes = notes_of(&fetched, request);
    let (wanted, lists_from) = arms::lists(&fetched.services, request)?;
    let in_arm = |name: &String| {
        wanted.lists.iter().any(|list| list.members.iter().any(|member| member.name == *name))
    };
    let (listed, unlisted): (Vec<_>, Vec<_>) =
        fetched.services.into_iter().partition(|(name, _)| in_arm(name));
    if !unlisted.is_empty() {
        let names = some_of(unlisted.iter().map(|(name, _)| name.as_str()));
        notes.push(format!("{} in no arm excluded: {names}", count(unlisted.len() as u64, "service")));
    }
    let by_label = request.queries.arm_label.is_some() && request.groups.is_empty();
    let servers: Vec<&str> = listed.iter().map(|(_, series)| series.server.as_str()).collect();
    let mut services = Vec::new();
    let mut events = Vec::new();
    let (mut moved_arm, mut moved_starts) = (Vec::new(), 0);
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
        moved_starts += found.moved.len();
        if let Some(first) = found.moved.first() {
            let text = "the reported start moved to a time at which the one before was still reported";
            event(*first, KnownEvent::StartMoved, text.to_owned());
        }
        let lives = found.lives.into_iter().map(|life| ImportedLife {
            contamination: moved.as_ref().and_then(|moved| moved.contaminates(&life)),
            started_wall_us: life.started_us,
            start: life.start,
            samples: life.samples,
        });
        let attributes = match series.server.as_str() {
            "" => Value::Null,
            server => json!({ SERVER: server }),
        };
        services.push(ImportedService { name: name.clone(), block, attributes, lives: lives.collect() });
    }
    if !moved_arm.is_empty() {
        notes.push(format!(
            "{} came from another arm on the way: only what they did since is in the trial ({})",
            count(moved_arm.len() as u64, "service"),
            some_of(moved_arm.iter().copied())
        ));
    }
    if moved_starts > 0 {
        notes.push(format!(
            "{} the reported start moved to a time at which the one before was still reported: the oldest of several processes ended, \
             or a clock was set; the service is taken to have run on",
            count(moved_starts as u64, "time")
        ));
    }
    let Some(whole) = span(&services) else {
        let query = request.queries.memory.clone();
        return Err(PrometheusError::Nothing { query, from_us: request.from_us, to_us: request.to_us }.into());
    };
    if let Some(shown) = unusual_size(highest(&services)) {
        return Err(PrometheusError::Unit { query: request.queries.memory.clone(), shown }.into());
    }
    let position = |name: &String| services.iter().position(|service| service.name == *name);
    let lists: Vec<ImportedList> = wanted
        .lists
        .iter()
        .map(|list| ImportedList {
            arm: list.arm.clone(),
            members: list.members.iter().filter_map(|member| position(&member.name)).collect(),
            source: list.source.clone(),
        })
        .collect();
    let sources = sources(request, &services);
    let trial = ImportedTrial { plan: plan(whole, lists_from, request), lists, services, events, sources };
    let summary = ImportSummary {
        arms: arm_summaries(&wanted, &trial),
        ungrouped_services: unlisted.len(),
        problems: Problems::default(),
        notes,
        ..ImportSummary::of(&trial)
    };
    Ok((trial, summary))
}

fn highest(services: &[ImportedService]) -> impl Iterator<Item = u64> {
    let samples = services.iter().flat_map(|service| &service.lives).flat_map(|life| &life.samples);
    samples.filter_map(|sample| sample.highest_bytes)
}

fn plan((first, last): (i64, i64), lists_from: &str, request: &PrometheusImport) -> NewTrial {
    let mut parameters = json!({ "lists_from": lists_from, "prometheus": request.queries });
    if let Some(about) = request.about.as_ref().filter(|about| !about.is_empty()) {
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
    for (role, query) in [("swap", &queries.swap), ("start", &queries.start), ("counter", &queries.counter)] {
        sources.extend(query.as_ref().map(|query| of(role, query)));
    }
    sources
}
