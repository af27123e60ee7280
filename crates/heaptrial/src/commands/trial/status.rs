//! `heaptrial trial status`: where trials stand on this host.

mod print;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_change::{
    Prepared, ServiceState, Stage, TrialStage, TrialState, changed_files, check_trusted, read_prepared,
    read_state, trials,
};
use heaptrial_evaluate::judgement::look::Begun;
use heaptrial_evaluate::judgement::middle;
use heaptrial_fleet::rollout::is_rollout;
use heaptrial_host::Instant;
use heaptrial_host::Paths;
use heaptrial_model::{Classified, ErrorClass, KnownEvent, ServiceName, TrialName, units};
use heaptrial_store::{LatestSample, LookRecord, Store, StoreError, TrialRecord};
use serde::Serialize;
use serde_json::json;

use super::in_database;
use super::on_host;
use super::unfound::Unfound;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

use print::stage_words;

/// A reading older than this many ticks of a minute is shown as stale.
const STALE_SECONDS: f64 = 300.0;
/// The agent starts, finds out what runs, and takes its first reading within this time.
const FIRST_READING_SECONDS: f64 = 120.0;

/// Which trial.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// The trial's name; without it all trials of this host in a line each
    #[arg(value_name = "NAME")]
    trial: Option<TrialName>,
}

/// Prints where a trial stands.
pub fn run(options: &StatusOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = global.paths()?;
    on_host::require_readable(&paths, global)?;
    let Some(name) = &options.trial else { return list(&paths, global) };
    let status = match Status::read(&paths, name.as_str(), global) {
        Err(failure) => return Err(on_host::unless_unfound(failure, name.as_str(), &paths, global)),
        status => status?,
    };
    if global.json {
        println!("{}", serde_json::to_string_pretty(&status.json()).map_err(Failure::failed)?);
    } else {
        print!("{}", global.told(&status.to_string()));
    }
    Ok(match &status.unread {
        Some(error) => code(error.class()),
        None if status.is_well() => ExitCode::SUCCESS,
        None => code(ErrorClass::Failed),
    })
}

fn list(paths: &Paths, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let database = on_host::database(paths, global);
    let mut rows = Vec::new();
    let mut damaged = Vec::new();
    for name in trials(paths)? {
        match (read_state(paths, &name), read_prepared(paths, &name)) {
            // `heaptrial rollout status` tells of those.
            (Ok(_), Ok(prepared)) if is_rollout(&prepared) => {}
            (Ok(state), Ok(prepared)) => {
                let goes_on = in_database::goes_on(&database, &prepared, &state);
                if goes_on {
                    eprintln!(
                        "warning: {name} has ended and goes on in the database; `heaptrial trial stop {name}` ends it there"
                    );
                }
                rows.push((name, prepared.plan.id, state, prepared.services.len(), goes_on));
            }
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("{name}: {error}");
                damaged.push(json!({ "name": name, "why": error.to_string() }));
            }
        }
    }
    let unfound = Unfound::all(paths, global)?;
    unfound.iter().for_each(|found| eprintln!("{}", global.told(&found.to_string())));
    if global.json {
        let list: Vec<_> = rows
            .iter()
            .map(|(name, id, state, services, goes_on)| {
                json!({
                    "name": name, "id": id, "stage": state.stage, "services": services,
                    "committed": state.count(Stage::Committed), "goes_on_in_database": goes_on,
                })
            })
            .collect();
        let told =
            json!({ "schema_version": 1, "trials": list, "damaged": damaged, "without_folder": unfound });
        println!("{told:#}");
    } else if rows.is_empty() && unfound.is_empty() {
        let begin = "no trial on this host; `heaptrial trial new NAME --services PATTERN` begins one";
        println!("{}", global.told(begin));
    }
    for (name, _, state, services, _) in rows.iter().filter(|_| !global.json) {
        println!("{name}: {}, {}", stage_words(state), units::counted(*services, "service"));
    }
    let well = damaged.is_empty() && unfound.is_empty();
    Ok(if well { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

/// What is shown of a trial.
struct Status {
    prepared: Prepared,
    state: TrialState,
    row: Option<TrialRecord>,
    /// From when on its duration and looks count.
    begun: Option<Begun>,
    latest: BTreeMap<String, LatestSample>,
    looks: Vec<LookRecord>,
    /// How often each service failed since the start.
    failures: BTreeMap<String, Failures>,
    now_us: i64,
    /// Whether some process is changing its services.
    at_work: bool,
    /// Services that do not run now, and how they are.
    down: Vec<(ServiceName, String)>,
    /// Services that have their treatment, and a file of each that is not as it was written.
    changed: Vec<(ServiceName, PathBuf)>,
    /// Why what its folder says may be somebody else's word.
    untrusted: Option<String>,
    /// Why the database could not be read.
    unread: Option<StoreError>,
    /// That the database has no record of it any more, and what can be done.
    lost: Option<String>,
}

/// How often services failed by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Failures {
    crashes: u32,
    oom_kills: u32,
}

#[derive(Serialize)]
struct ArmStatus<'a> {
    arm: &'a str,
    control: bool,
    services: usize,
    committed: usize,
    contaminated: usize,
    without_reading: usize,
    #[serde(flatten)]
    failures: Failures,
    median_bytes: Option<u64>,
    lowest_bytes: Option<u64>,
    highest_bytes: Option<u64>,
    median_age_seconds: Option<f64>,
}

impl Status {
    fn read(paths: &Paths, name: &str, global: &GlobalOptions) -> Result<Self, Failure> {
        let prepared = read_prepared(paths, name)?;
        let state = read_state(paths, name)?;
        let mut status = Self {
            prepared,
            state,
            row: None,
            begun: None,
            latest: BTreeMap::new(),
            looks: Vec::new(),
            failures: BTreeMap::new(),
            now_us: Instant::now().wall_us,
            at_work: on_host::is_at_work(paths, name),
            down: Vec::new(),
            changed: Vec::new(),
            untrusted: check_trusted(paths, name).err().map(|error| error.to_string()),
            unread: None,
            lost: None,
        };
        status.down = on_host::not_running(&status.state, paths.scope);
        if !status.is_over() {
            status.changed = changed_files(&status.state);
        }
        if let Err(error) = status.read_database(&on_host::database(paths, global)) {
            eprintln!("warning: {error}; showing what the journal tells");
            status.unread = Some(error);
        }
        Ok(status)
    }

    fn is_over(&self) -> bool {
        matches!(self.state.stage, TrialStage::Stopped | TrialStage::Reverted)
    }

    /// Adds what the database has of it.
    fn read_database(&mut self, database: &Path) -> Result<(), StoreError> {
        self.row = in_database::find(database, &self.prepared)?;
        let Some(row) = &self.row else {
            if self.state.stage != TrialStage::Planned {
                self.lost = Some(in_database::unrecorded(database, &self.prepared, &self.state));
            }
            return Ok(());
        };
        let store = Store::open(database)?;
        let services = store.services(row.id)?;
        let names: BTreeMap<i64, String> =
            services.into_iter().map(|service| (service.id, service.name)).collect();
        // What was taken out of it is nobody's.
        let dropped = &self.state.dropped;
        let is_of_it = |name: &&String| dropped.iter().all(|service| service.as_str() != name.as_str());
        let latest = store.latest(row.id)?;
        self.latest = latest
            .into_iter()
            .filter_map(|sample| Some((names.get(&sample.service_id).filter(is_of_it)?.clone(), sample)))
            .collect();
        self.looks = store.looks(row.id)?;
        self.begun = Some(Begun::read(&store, row)?);
        for event in store.events(row.id)? {
            let name = event.service_id.and_then(|id| names.get(&id)).filter(is_of_it);
            let Some(name) = name else { continue };
            let failures = self.failures.entry(name.clone()).or_default();
            match event.kind.known() {
                Some(KnownEvent::Crash) => failures.crashes += 1,
                Some(KnownEvent::OomKill) => failures.oom_kills += 1,
                _ => {}
            }
        }
        self.failures.retain(|_, failures| *failures != Failures::default());
        Ok(())
    }

    fn is_well(&self) -> bool {
        let is_stuck = |(name, found): (&ServiceName, &ServiceState)| {
            found.stage == Stage::RevertFailed && !self.state.given_up.contains(name)
        };
        let stuck = self.state.services.iter().any(is_stuck);
        self.state.interrupted.is_none()
            && !stuck
            && !self.is_cut_short()
            && self.changed.is_empty()
            && self.untrusted.is_none()
            && (self.lost.is_none() || self.is_over())
    }

    /// Whether a process that changed services is gone before it was done.
    fn is_cut_short(&self) -> bool {
        let unfinished =
            matches!(self.state.stage, TrialStage::Planned | TrialStage::Starting | TrialStage::Reverting);
        let in_the_middle = self.state.stage == TrialStage::Running && !self.state.in_flight().is_empty();
        (unfinished || in_the_middle) && self.state.interrupted.is_none() && !self.at_work
    }

    fn advice(&self) -> String {
        let name = &self.prepared.plan.name;
        let revert = format!("`heaptrial trial stop {name} --revert`");
        if self.state.stage == TrialStage::Reverting {
            format!("{revert} goes on")
        } else {
            format!("`heaptrial trial resume {name}` goes on, {revert} puts everything back")
        }
    }

    fn arms(&self) -> Vec<ArmStatus<'_>> {
        self.prepared.plan.arms.iter().map(|arm| self.arm(&arm.name, arm.control)).collect()
    }

    fn arm<'a>(&'a self, arm: &'a str, control: bool) -> ArmStatus<'a> {
        let names: Vec<&ServiceName> = self
            .prepared
            .services
            .iter()
            .filter(|treatment| treatment.arm == arm && !self.state.dropped.contains(&treatment.service))
            .map(|treatment| &treatment.service)
            .collect();
        let committed = names
            .iter()
            .filter(|name| {
                self.state.services.get(**name).is_some_and(|state| state.stage == Stage::Committed)
            })
            .count();
        let samples: Vec<&LatestSample> =
            names.iter().filter_map(|name| self.latest.get(name.as_str())).collect();
        let live = samples.iter().filter(|sample| sample.contamination.is_none() && sample.ending.is_none());
        let sized: Vec<(u64, f64)> = live
            .filter_map(|sample| Some((sample.level(self.prepared.plan.metric)?, sample.age_seconds)))
            .collect();
        let sizes: Vec<f64> = sized.iter().map(|(bytes, _)| *bytes as f64).collect();
        let ages: Vec<f64> = sized.iter().map(|(_, age)| *age).collect();
        ArmStatus {
            arm,
            control,
            services: names.len(),
            committed,
            contaminated: names.iter().filter(|name| self.contamination(name).is_some()).count(),
            without_reading: names.len() - sized.len(),
            failures: names.iter().fold(Failures::default(), |all, name| {
                let own = self.failures.get(name.as_str()).copied().unwrap_or_default();
                Failures { crashes: all.crashes + own.crashes, oom_kills: all.oom_kills + own.oom_kills }
            }),
            median_bytes: middle(&sizes).map(|bytes| bytes as u64),
            lowest_bytes: sized.iter().map(|(bytes, _)| *bytes).min(),
            highest_bytes: sized.iter().map(|(bytes, _)| *bytes).max(),
            median_age_seconds: middle(&ages),
        }
    }

    fn seconds_since(&self, from_us: i64) -> Option<f64> {
        let until = self.row.as_ref()?.ended_wall_us.unwrap_or(self.now_us);
        Some((until - from_us).max(0) as f64 / 1e6)
    }

    fn has_other_hosts(&self) -> bool {
        let services = &self.prepared.plan.services;
        services.iter().any(|assigned| assigned.host != services[0].host)
    }

    fn since_start(&self) -> Option<f64> {
        self.seconds_since(self.row.as_ref()?.plan.started_wall_us)
    }

    /// Services that have not had their treatment yet, where it goes on.
    fn open(&self) -> usize {
        let goes_on = self.row.as_ref().is_some_and(|row| row.ended_wall_us.is_none());
        self.begun.as_ref().filter(|_| goes_on).map_or(0, |begun| begun.open.len())
    }

    /// How much of its duration is over: nothing before all services have had their treatment.
    fn elapsed_seconds(&self) -> Option<f64> {
        let begun = self.begun.as_ref()?;
        if self.open() > 0 { Some(0.0) } else { self.seconds_since(begun.at_us) }
    }

    /// The next look that was not taken, and the seconds until it is due.
    fn next_look(&self) -> Option<(usize, f64)> {
        if self.open() > 0 || self.row.as_ref().is_some_and(|row| row.ended_wall_us.is_some()) {
            return None;
        }
        let index = self.looks.len();
        let planned = self.prepared.plan.looks.get(index)?;
        Some((index + 1, planned.0.as_secs_f64() - self.elapsed_seconds()?))
    }

    /// Why a service does not run what its arm wants, where Heaptrial itself did not see to that.
    fn contamination(&self, service: &ServiceName) -> Option<&str> {
        let sample = self.latest.get(service.as_str())?;
        let known = self.state.services.get(service).filter(|state| state.stage == Stage::Committed)?;
        // Of a life before that nothing is said here, whether the agent has seen the new one or not.
        let is_treated = known.committed_wall_us.is_none_or(|at| sample.wall_us >= at);
        sample.contamination.as_deref().filter(|_| is_treated)
    }

    fn contaminated(&self) -> Vec<(&str, &str)> {
        let services = self.prepared.services.iter().map(|treatment| &treatment.service);
        services.filter_map(|service| Some((service.as_str(), self.contamination(service)?))).collect()
    }

    /// Services that were put back while the others keep their treatment, and why.
    fn put_back(&self) -> Vec<(&ServiceName, &str)> {
        if matches!(self.state.stage, TrialStage::Reverting | TrialStage::Reverted) {
            return Vec::new();
        }
        let services = self
            .state
            .services
            .iter()
            .filter(|(name, state)| state.stage == Stage::Reverted && !self.state.dropped.contains(name));
        let why = "the run that changed it was cut short";
        services.map(|(name, state)| (name, state.why.as_deref().unwrap_or(why))).collect()
    }

    /// What to say of readings that are missing or old, where the agent should have brought them.
    fn reading_words(&self) -> Option<String> {
        if !matches!(self.state.stage, TrialStage::Starting | TrialStage::Running) {
            return None;
        }
        match self.last_reading_seconds_ago() {
            None if self.since_start().is_some_and(|seconds| seconds < FIRST_READING_SECONDS) => {
                Some("no readings yet: the first come within two minutes".to_owned())
            }
            None => Some("no readings yet: is heaptrial-agent.service active?".to_owned()),
            Some(seconds) if seconds > STALE_SECONDS => Some(format!(
                "the last reading is {} old: is heaptrial-agent.service active?",
                units::duration(seconds)
            )),
            Some(_) => None,
        }
    }

    fn troubled(&self) -> Vec<(&ServiceName, &str, &str)> {
        let of_stage = |stage| match stage {
            Stage::Committed | Stage::Reverted => None,
            Stage::RevertFailed => Some("could not be put back"),
            _ => Some("is being changed"),
        };
        let services = self.state.services.iter();
        services
            .filter_map(|(name, state)| {
                Some((name, of_stage(state.stage)?, state.why.as_deref().unwrap_or("")))
            })
            .collect()
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "schema_version": 1,
            "trial": self.prepared.plan.name,
            "id": self.prepared.plan.id,
            "stage": self.state.stage,
            "interrupted": self.state.interrupted,
            "cut_short": self.is_cut_short(),
            "dropped": self.state.dropped,
            "not_running": self.down.iter().map(|(service, how)| json!({ "service": service, "how": how })).collect::<Vec<_>>(),
            "changed_files": self.changed.iter().map(|(service, path)| json!({ "service": service, "file": path })).collect::<Vec<_>>(),
            "untrusted": self.untrusted,
            "database_error": self.unread.as_ref().map(ToString::to_string),
            "lost": self.lost,
            "elapsed_seconds": self.elapsed_seconds(),
            "planned_seconds": self.prepared.plan.duration.0.as_secs_f64(),
            "looks_taken": self.looks.len(),
            "looks_planned": self.prepared.plan.looks.len(),
            "next_look_in_seconds": self.next_look().map(|(_, seconds)| seconds),
            "last_reading_seconds_ago": self.last_reading_seconds_ago(),
            "arms": self.arms(),
            "services": self.state.services,
            "failures": self.failures,
            "put_back": self.put_back().into_iter().map(|(service, why)| json!({ "service": service, "why": why })).collect::<Vec<_>>(),
            "contaminated": self.contaminated().into_iter().map(|(service, why)| json!({ "service": service, "why": why })).collect::<Vec<_>>(),
        })
    }

    fn last_reading_seconds_ago(&self) -> Option<f64> {
        let last = self
            .latest
            .values()
            .filter(|sample| sample.rss_bytes.is_some())
            .map(|sample| sample.wall_us)
            .max()?;
        Some((self.now_us - last) as f64 / 1e6)
    }
}
