//! The start and the end of a watch.

use std::path::PathBuf;

use heaptrial_analysis::{Fleet, FleetLife, FleetService, Forecast, Settings, UsualWork};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostFacts, HostRoot, Instant};
use heaptrial_model::{Arm, Metric, ServiceName, ServicePattern, TrialKind};
use heaptrial_store::{NewService, NewTrial, Store};
use serde_json::{Value, json};

use crate::error::WatchError;
use crate::folder::{Folder, SCHEMA_VERSION, names};
use crate::install::{HostFile, announced, faults, host_files, install, remove};
use crate::observe::code;
use crate::plan::{Channels, FailuresBefore, Limits, WatchPlan};
use crate::source::{Source, failures_before};
use crate::stored_name;

#[derive(Debug, Clone)]
pub struct Request {
    pub name: String,
    pub days: f64,
    pub every_minutes: u64,
    /// Patterns of services that belong to the trial; empty are the templates of those that it has.
    pub patterns: Vec<ServicePattern>,
    pub limits: Limits,
    pub channels: Channels,
    /// The database, where it is not the usual one.
    pub database: Option<PathBuf>,
}

/// A watch that could begin.
#[derive(Debug)]
pub struct Proposal {
    pub plan: WatchPlan,
    /// The files that it would bring.
    pub files: Vec<HostFile>,
    /// Services of the arm that it would leave out, since they do not run what it wants, and why.
    pub left_out: Vec<(ServiceName, String)>,
    arm: Arm,
    expected: Option<Value>,
    services: Vec<NewService>,
}

/// What services are expected to use, by what was measured elsewhere.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    pub forecast: Forecast,
    /// Which memory it is of.
    pub metric: Metric,
    /// Where it is from, in words.
    pub from: String,
    /// Failures that were seen there, where they are recorded at all.
    pub failures: FailuresBefore,
}

/// Finds out what a watch would be; without a forecast from `elsewhere` that of the source's own readings is taken, those of
/// `fleet`. Changes nothing.
pub fn propose(
    request: &Request,
    mut source: Source,
    elsewhere: Option<Elsewhere>,
    fleet: &Fleet,
    paths: &Paths,
) -> Result<Proposal, WatchError> {
    let name = &request.name;
    if names(&paths.state).contains(name) {
        return Err(WatchError::Exists { name: name.clone() });
    }
    let arm = source.arm.arm.name.clone();
    let mut failures_before = failures_before(fleet, &arm);
    failures_before = failures_before.with(elsewhere.as_ref().map(|of| of.failures).unwrap_or_default());
    let (forecast, metric, forecast_from) = match elsewhere {
        Some(elsewhere) => (elsewhere.forecast, elsewhere.metric, Some(elsewhere.from)),
        None => {
            let forecast = Forecast::of_arm(fleet, &Settings::default(), &arm)?;
            (forecast, source.trial.plan.metric, None)
        }
    };
    let files = host_files(paths, name, request.every_minutes, request.database.as_deref())?;
    let (installed, made_folders) = announced(&files)?;
    for own in &mut source.services {
        let life = fleet.services.iter().find(|service| service.name == own.service.as_str());
        own.usual_work = life.and_then(|service| UsualWork::of_life(service.current()?));
        own.usual_excess =
            life.filter(|_| forecast_from.is_none()).and_then(|service| excess(&forecast, fleet, service));
    }
    let services = source.records.iter().zip(0..).map(|(record, position)| NewService {
        name: record.name.clone(),
        arm: 0,
        block: 0,
        position,
        attributes: record.attributes.clone().unwrap_or_default(),
    });
    let patterns = if request.patterns.is_empty() { source.patterns() } else { request.patterns.clone() };
    let plan = WatchPlan {
        schema_version: SCHEMA_VERSION,
        name: name.clone(),
        arm: arm.clone(),
        trial_id: 0,
        started_at: Instant::now().wall_us as f64 / 1e6,
        days: request.days,
        metric,
        forecast,
        forecast_from,
        limits: request.limits,
        failures_before,
        patterns,
        others: source.others,
        files: code(&source.services),
        services: source.services,
        channels: request.channels.clone(),
        installed,
        made_folders,
        database: request.database.clone(),
    };
    Ok(Proposal {
        plan,
        files,
        left_out: source.left_out,
        arm: Arm { control: true, ..source.arm.arm },
        expected: source.arm.obtained,
        services: services.collect(),
    })
}

/// How far above the forecast a service of its arm is at the oldest age that both have.
fn excess(forecast: &Forecast, fleet: &Fleet, service: &FleetService) -> Option<f64> {
    let arm = fleet.arms.iter().position(|own| own.name == forecast.arm())?;
    let counts =
        |life: &&FleetLife| life.contamination.is_none() && (life.proved || !fleet.identities_proved);
    // What another arm's service used was under another treatment.
    let life = service.current().filter(counts).filter(|_| service.arms[..] == [arm])?;
    let age = life.last_age()?.min(forecast.last_age());
    Some(forecast.level_of(life, age)?.ln() - forecast.log_level(age)?.mean)
}

/// Begins a watch: what it brings is on disk in its folder before any of it is there, so that `watch stop` removes it
/// whatever happens in between.
pub fn begin(
    proposal: Proposal,
    store: &mut Store,
    systemd: &Systemd,
    paths: &Paths,
) -> Result<WatchPlan, WatchError> {
    let Proposal { mut plan, files, arm, expected, services, .. } = proposal;
    let folder = Folder::create(&paths.state, &plan.name)?;
    let facts = HostFacts::read(&HostRoot::default())?;
    let now = Instant::now();
    plan.started_at = now.wall_us as f64 / 1e6;
    let trial = NewTrial {
        name: stored_name(&plan.name),
        kind: TrialKind::Watch,
        boot_id: facts.boot_id.clone(),
        host_facts: serde_json::to_value(&facts).unwrap_or_default(),
        metric: plan.metric,
        seed: 1,
        repeats: 1,
        planned_us: (plan.days * 86_400e6) as i64,
        arms: vec![arm],
        parameters: json!({ "watch_of": plan.name, "started_boottime_us": now.boottime_us }),
        command: format!("heaptrial watch start {}", plan.name),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: now.wall_us,
    };
    folder.write_plan(&plan)?;
    plan.trial_id = match store.begin_field_trial(&trial, &[expected], &services) {
        Ok(id) => id,
        Err(error) => {
            folder.remove()?;
            return Err(error.into());
        }
    };
    folder.write_plan(&plan)?;
    install(systemd, &files, &plan.name)?;
    Ok(plan)
}

/// Why no check of a watch comes by itself; nothing where its timer runs.
pub fn timer_faults(plan: &WatchPlan, systemd: &Systemd) -> Result<Vec<String>, WatchError> {
    faults(systemd, &plan.installed, &plan.name)
}

/// Ends a watch and removes all that it brought. Its readings stay in the database. Can be repeated.
pub fn end(name: &str, store: &mut Store, systemd: &Systemd, paths: &Paths) -> Result<WatchPlan, WatchError> {
    let folder = Folder::open(&paths.state, name)?;
    let plan = folder.plan()?;
    remove(systemd, paths, &plan.installed, &plan.made_folders, name)?;
    if let Some(path) = &plan.channels.metrics {
        // What it says is not so any more.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(WatchError::file("removing", path)(error));
            }
            _ => {}
        }
    }
    let stored = stored_name(name);
    let running = store.running_trials()?;
    for record in
        running.iter().filter(|record| record.plan.kind == TrialKind::Watch && record.plan.name == stored)
    {
        let now = Instant::now().wall_us;
        let outcome = if now as f64 / 1e6 >= plan.ends_at() { "completed" } else { "interrupted" };
        store.end_trial(record.id, now, outcome)?;
    }
    folder.remove()?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use heaptrial_analysis::{DAY, FleetArm, Work};
    use heaptrial_model::{LifeStart, Reading};

    use super::*;

    #[test]
    fn what_a_service_used_beyond_the_forecast_is_of_its_own_arm_and_treatment() {
        let life = |bytes: f64| FleetLife {
            started_at: 0.0,
            start: LifeStart::Observed,
            contamination: None,
            proved: true,
            readings: (0..=80)
                .map(|hours| Reading { age_seconds: hours as f32 * 3600.0, kib: (bytes / 1024.0) as u32 })
                .collect(),
            rolled_up_seconds: 0.0,
            peaks: Vec::new(),
            work: Work::default(),
        };
        let service = |(index, times): (usize, f64)| FleetService {
            name: format!("s{index}.service"),
            arms: vec![usize::from(index == 9)],
            lives: vec![life(1e9 * times)],
            ..FleetService::default()
        };
        let sizes = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0, 3.0, 3.0];
        let arm = |name: &str| FleetArm { name: name.to_owned(), ..FleetArm::default() };
        let mut fleet = Fleet {
            arms: vec![arm("mimalloc"), arm("glibc")],
            services: sizes.into_iter().enumerate().map(service).collect(),
            identities_proved: true,
            ..Fleet::default()
        };
        let forecast = Forecast::of_arm(&fleet, &Settings::default(), "mimalloc").unwrap();
        assert!(forecast.last_age() > DAY);
        let of = |fleet: &Fleet, index: usize| excess(&forecast, fleet, &fleet.services[index]);
        // The mean of logarithms has a ninth of it.
        assert!((of(&fleet, 8).unwrap() - 8.0 / 9.0 * 3.0_f64.ln()).abs() < 0.02, "{:?}", of(&fleet, 8));
        assert_eq!(of(&fleet, 9), None);
        fleet.services[8].lives[0].contamination = Some("runs another".to_owned());
        assert_eq!(of(&fleet, 8), None);
    }
}
