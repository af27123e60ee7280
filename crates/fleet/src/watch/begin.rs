//! The start and the end of a watch.

use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostFacts, HostRoot, Instant};
use heaptrial_model::TrialKind;
use heaptrial_store::{NewService, NewTrial, Store};
use serde_json::{Value, json};

use crate::watch::error::WatchError;
use crate::watch::folder::{Folder, SCHEMA_VERSION, names, remove_file};
use crate::watch::install::{install, remove, unit_files};
use crate::watch::observe::code;
use crate::watch::plan::WatchPlan;
use crate::watch::source::Source;
use crate::watch::stored_name;

/// Completes what a watch would be that looks so often. Changes nothing.
pub fn propose(plan: WatchPlan, every_minutes: u64, paths: &Paths) -> Result<WatchPlan, WatchError> {
    if names(&paths.state).contains(&plan.name) {
        return Err(WatchError::Exists { name: plan.name });
    }
    Ok(WatchPlan {
        schema_version: SCHEMA_VERSION,
        started_at: Instant::now().wall_us as f64 / 1e6,
        files: code(&plan.services),
        installed: unit_files(paths, &plan.name, every_minutes, plan.database.as_deref())?,
        ..plan
    })
}

/// Begins a watch: what it brings is on disk in its folder before any of it is there, so that `watch stop` removes it
/// whatever happens in between.
pub fn begin(
    mut plan: WatchPlan,
    source: Source,
    store: &mut Store,
    systemd: &Systemd,
    paths: &Paths,
) -> Result<WatchPlan, WatchError> {
    let folder = Folder::create(&paths.state, &plan.name)?;
    let facts = HostFacts::read(&HostRoot::default())?;
    let now = Instant::now();
    plan.started_at = now.wall_us as f64 / 1e6;
    let expected = source.arms.iter().map(|arm| serde_json::to_value(arm.expected.as_ref()?).ok());
    let expected: Vec<Option<Value>> = expected.collect();
    let records = plan.services.iter().zip(source.records).zip(0..);
    let services = records.map(|((own, (arm, attributes)), position)| NewService {
        name: own.service.to_string(),
        arm,
        block: 0,
        position,
        attributes,
    });
    let services: Vec<NewService> = services.collect();
    let trial = NewTrial {
        name: stored_name(&plan.name),
        kind: TrialKind::Watch,
        boot_id: facts.boot_id.clone(),
        host_facts: serde_json::to_value(&facts).unwrap_or_default(),
        metric: plan.metric,
        seed: 1,
        repeats: 1,
        planned_us: (plan.days * 86_400e6) as i64,
        arms: source.arms.into_iter().map(|arm| arm.arm).collect(),
        parameters: json!({ "watch_of": plan.name, "started_boottime_us": now.boottime_us }),
        command: format!("heaptrial watch start {}", plan.name),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: now.wall_us,
    };
    folder.write_plan(&plan)?;
    plan.trial_id = match store.begin_field_trial(&trial, &expected, &services) {
        Ok(id) => id,
        Err(error) => {
            folder.remove()?;
            return Err(error.into());
        }
    };
    folder.write_plan(&plan)?;
    install(systemd, paths, &plan)?;
    Ok(plan)
}

/// Ends a watch and removes all that it brought. Its readings stay in the database. Can be repeated.
pub fn end(name: &str, store: &mut Store, systemd: &Systemd, paths: &Paths) -> Result<WatchPlan, WatchError> {
    let folder = Folder::open(&paths.state, name)?;
    let plan = folder.plan()?;
    remove(systemd, paths, &plan.installed, name)?;
    if let Some(path) = &plan.channels.metrics {
        // What it says is not so any more.
        remove_file(path)?;
    }
    let stored = stored_name(name);
    for record in store.running_trials()?.iter().filter(|record| record.plan.name == stored) {
        let now = Instant::now().wall_us;
        let outcome = if now as f64 / 1e6 >= plan.ends_at() { "completed" } else { "interrupted" };
        store.end_trial(record.id, now, outcome)?;
    }
    folder.remove()?;
    Ok(plan)
}
