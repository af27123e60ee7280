//! `heaptrial trial status`: where trials of this host are.

use std::collections::BTreeMap;

use heaptrial_change::{Prepared, Stage, TrialStage, TrialState};
use heaptrial_evaluate::judgement::look::Begun;
use heaptrial_evaluate::judgement::middle;
use heaptrial_host::Instant;
use heaptrial_model::{Arm, HumanDuration, KnownEvent, Metric, ServiceName, units};
use heaptrial_store::{LatestSample, Store, StoreError, TrialRecord};
use serde::Serialize;
use serde_json::json;

use crate::answer::Answer;
use crate::commands::host::record::is_over;
use crate::commands::host::standing::{Problem, Standing, Status, standings};
use crate::commands::host::{Host, StatusOptions};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::Table;

/// The agent reads once a minute, and takes its first reading within two.
const STALE_SECONDS: f64 = 300.0;

pub fn run(options: &StatusOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::readable(global)?;
    if let Some(name) = &options.name {
        return Ok(status(&host, Standing::read(&host, name.as_str())?).answer());
    }
    let (found, damaged) = standings(&host, false)?;
    let all: Vec<Status> = found.into_iter().map(|standing| status(&host, standing)).collect();
    let none = format!("no trial on this host; {} begins one", command("trial new NAME --services PATTERN"));
    Ok(Status::list("trials", &all, &damaged, &none))
}

fn status(host: &Host<'_>, standing: Standing) -> Status {
    let Standing { prepared, state, at_work, mut problems } = standing;
    let (plan, name) = (&prepared.plan, &prepared.plan.name);
    let mut sampled = Sampled::default();
    if let Ok(Some(why)) = host.unrecorded(&prepared, &state) {
        problems.push(Problem { grave: !is_over(&state), ..Problem::note("database", None, why) });
    }
    if let Err(error) = sampled.read(host, &prepared, &state) {
        problems.push(Problem::grave("database", None, error.to_string()));
    }
    let goes_on = is_over(&state) && sampled.row.as_ref().is_some_and(|row| row.ended_wall_us.is_none());
    if goes_on {
        let stop = command(format_args!("trial stop {name}"));
        problems.push(Problem::note("database", None, format!("it goes on there; {stop} ends it")));
    }
    problems.extend(cut_short(name, &state, at_work));
    problems.extend(sampled.problems(&state));
    let arm = |arm: &Arm| {
        let own = prepared.services.iter().filter(|treatment| treatment.arm == arm.name);
        let own = own.map(|treatment| &treatment.service).filter(|name| !state.dropped.contains(*name));
        sampled.arm(arm, plan.metric, &state, &own.collect::<Vec<_>>())
    };
    let arms: Vec<ArmStatus> = plan.arms.iter().map(arm).collect();
    let next_look = sampled.next_look(&plan.looks);
    let mut detail = String::new();
    if sampled.open > 0 {
        let open = units::counted(sampled.open, "service");
        detail += &format!("  {open} still without treatment: {} counts from the last one\n", plan.duration);
    } else if let Some(elapsed) = sampled.elapsed_seconds {
        detail += &format!("  {} of {}\n", units::duration(elapsed), plan.duration);
    }
    if let Some((number, seconds)) = next_look {
        let when = match seconds > 0.0 {
            true => format!("in {}", units::duration(seconds)),
            false => format!("is due: {}", command(format_args!("trial look {name}"))),
        };
        detail += &format!("  look {number} of {} {when}\n", plan.looks.len());
    }
    for service in &state.dropped {
        detail += &format!("  taken out: {service}\n");
    }
    detail += &format!("\n{}\n", arms_table(&arms, plan.metric));
    let services = units::counted(prepared.services.len(), "service");
    Status {
        headline: format!("trial {name}: {}, {services}", stage_words(&state)),
        detail,
        document: json!({
            "name": name,
            "id": plan.id,
            "stage": state.stage,
            "process_at_work": at_work,
            "interrupted": state.interrupted,
            "goes_on_in_database": goes_on,
            "dropped": state.dropped,
            "elapsed_seconds": sampled.elapsed_seconds,
            "planned_seconds": plan.duration.0.as_secs_f64(),
            "looks_taken": sampled.looks,
            "looks_planned": plan.looks.len(),
            "next_look_in_seconds": next_look.map(|(_, seconds)| seconds),
            "last_reading_seconds_ago": sampled.last_reading_seconds_ago(),
            "arms": arms,
            "services": state.services,
            "failures": sampled.failures,
        }),
        problems,
    }
}

/// That a run was stopped, or that the process that changed services is gone before it was done.
fn cut_short(name: &str, state: &TrialState, at_work: bool) -> Option<Problem> {
    let unfinished =
        matches!(state.stage, TrialStage::Planned | TrialStage::Starting | TrialStage::Reverting);
    let in_the_middle = state.stage == TrialStage::Running && !state.in_flight().is_empty();
    let why = match &state.interrupted {
        Some(why) => why.as_str(),
        None if (unfinished || in_the_middle) && !at_work => "the process that changed services is gone",
        None => return None,
    };
    let revert = command(format_args!("trial stop {name} --revert"));
    let advice = match state.stage {
        TrialStage::Reverting => format!("{revert} continues"),
        _ => format!(
            "{} continues, {revert} puts everything back",
            command(format_args!("trial resume {name}"))
        ),
    };
    Some(Problem::grave("interrupted", None, format!("{why}; {advice}")))
}

/// What the database has of a trial.
#[derive(Default)]
struct Sampled {
    row: Option<TrialRecord>,
    now_us: i64,
    latest: BTreeMap<String, LatestSample>,
    looks: usize,
    /// Services that have not had their treatment yet.
    open: usize,
    /// How much of its duration is over: nothing before all services have had their treatment.
    elapsed_seconds: Option<f64>,
    /// How often each service failed since the start.
    failures: BTreeMap<String, Failures>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Failures {
    crashes: u32,
    oom_kills: u32,
}

#[derive(Serialize)]
struct ArmStatus {
    arm: String,
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

impl Sampled {
    fn read(&mut self, host: &Host<'_>, prepared: &Prepared, state: &TrialState) -> Result<(), StoreError> {
        self.now_us = Instant::now().wall_us;
        let Some(row) = host.record_of(prepared)? else { return Ok(()) };
        let store = Store::open(&host.database)?;
        let services = store.services(row.id)?.into_iter();
        let names: BTreeMap<i64, String> = services.map(|service| (service.id, service.name)).collect();
        let is_kept = |name: &&String| state.dropped.iter().all(|service| service.as_str() != name.as_str());
        for sample in store.latest(row.id)? {
            if let Some(name) = names.get(&sample.service_id).filter(is_kept) {
                self.latest.insert(name.clone(), sample);
            }
        }
        for event in store.events(row.id)? {
            let Some(name) = event.service_id.and_then(|id| names.get(&id)).filter(is_kept) else { continue };
            match event.kind.known() {
                Some(KnownEvent::Crash) => self.failures.entry(name.clone()).or_default().crashes += 1,
                Some(KnownEvent::OomKill) => self.failures.entry(name.clone()).or_default().oom_kills += 1,
                _ => {}
            }
        }
        self.looks = store.looks(row.id)?.len();
        let begun = Begun::read(&store, &row)?;
        self.open = if row.ended_wall_us.is_none() { begun.open.len() } else { 0 };
        let until = row.ended_wall_us.unwrap_or(self.now_us);
        let elapsed = (until - begun.at_us).max(0) as f64 / 1e6;
        self.elapsed_seconds = Some(if self.open > 0 { 0.0 } else { elapsed });
        self.row = Some(row);
        Ok(())
    }

    /// The next look that was not taken, and the seconds until it is due.
    fn next_look(&self, planned: &[HumanDuration]) -> Option<(usize, f64)> {
        if self.open > 0 || self.row.as_ref()?.ended_wall_us.is_some() {
            return None;
        }
        let look = planned.get(self.looks)?;
        Some((self.looks + 1, look.0.as_secs_f64() - self.elapsed_seconds?))
    }

    fn last_reading_seconds_ago(&self) -> Option<f64> {
        let read = self.latest.values().filter(|sample| sample.rss_bytes.is_some());
        Some((self.now_us - read.map(|sample| sample.wall_us).max()?) as f64 / 1e6)
    }

    /// Why a service does not run what its arm wants, where Heaptrial itself did not see to that.
    fn contamination(&self, service: &ServiceName, state: &TrialState) -> Option<&str> {
        let sample = self.latest.get(service.as_str())?;
        let known = state.services.get(service).filter(|found| found.stage == Stage::Committed)?;
        // Of a life before that nothing is said here, whether the agent has seen the new one or not.
        let is_treated = known.committed_wall_us.is_none_or(|at| sample.wall_us >= at);
        sample.contamination.as_deref().filter(|_| is_treated)
    }

    fn problems(&self, state: &TrialState) -> Vec<Problem> {
        let mut problems = Vec::new();
        for service in state.services.keys() {
            if let Some(why) = self.contamination(service, state) {
                problems.push(Problem::note("non_compliant", Some(service), why.to_owned()));
            }
            if let Some(failures) = self.failures.get(service.as_str()) {
                let Failures { crashes, oom_kills } = failures;
                let what = format!("crashes since the start: {crashes}, OOM kills: {oom_kills}");
                problems.push(Problem::note("failures", Some(service), what));
            }
        }
        let goes_on = matches!(state.stage, TrialStage::Starting | TrialStage::Running);
        let started = self.row.as_ref().map(|row| (self.now_us - row.plan.started_wall_us) as f64 / 1e6);
        let age = self.last_reading_seconds_ago().or(started);
        if let Some(age) = age.filter(|age| goes_on && *age > STALE_SECONDS) {
            let what = format!("none for {}; is heaptrial-agent.service active?", units::duration(age));
            problems.push(Problem::note("readings", None, what));
        }
        problems
    }

    fn arm(&self, arm: &Arm, metric: Metric, state: &TrialState, names: &[&ServiceName]) -> ArmStatus {
        let samples = names.iter().filter_map(|name| self.latest.get(name.as_str()));
        let live = samples.filter(|sample| sample.contamination.is_none() && sample.ending.is_none());
        let (sizes, ages): (Vec<f64>, Vec<f64>) =
            live.filter_map(|sample| Some((sample.level(metric)? as f64, sample.age_seconds))).unzip();
        let mut failures = Failures::default();
        for own in names.iter().filter_map(|name| self.failures.get(name.as_str())) {
            failures.crashes += own.crashes;
            failures.oom_kills += own.oom_kills;
        }
        ArmStatus {
            arm: arm.name.clone(),
            control: arm.control,
            services: names.len(),
            committed: names.iter().filter(|name| state.is_committed(name)).count(),
            contaminated: names.iter().filter(|name| self.contamination(name, state).is_some()).count(),
            without_reading: names.len() - sizes.len(),
            failures,
            median_bytes: middle(&sizes).map(|bytes| bytes as u64),
            lowest_bytes: sizes.iter().copied().reduce(f64::min).map(|bytes| bytes as u64),
            highest_bytes: sizes.iter().copied().reduce(f64::max).map(|bytes| bytes as u64),
            median_age_seconds: middle(&ages),
        }
    }
}

fn arms_table(arms: &[ArmStatus], metric: Metric) -> String {
    // PSS is read too rarely for a status.
    let metric = Some(metric).filter(|metric| *metric != Metric::Pss).unwrap_or_default();
    let memory = format!("{metric} MEDIAN (RANGE)").to_uppercase();
    let mut table =
        Table::new(&["ARM", "SERVICES", "IN FORCE", "NON-COMPLIANT", "CRASHES", "OOM KILLS", &memory]);
    for arm in arms {
        let size = |bytes: u64| units::memory(bytes as f64);
        let memory = match (arm.median_bytes, arm.lowest_bytes, arm.highest_bytes) {
            (Some(median), Some(low), Some(high)) => {
                format!("{} ({} to {})", size(median), size(low), size(high))
            }
            _ => "no reading".to_owned(),
        };
        let name = format!("{}{}", arm.arm, if arm.control { " (control)" } else { "" });
        let Failures { crashes, oom_kills } = arm.failures;
        table.row(&[&name, &arm.services, &arm.committed, &arm.contaminated, &crashes, &oom_kills, &memory]);
    }
    table.to_string()
}

fn stage_words(state: &TrialState) -> &'static str {
    match (state.stage, &state.interrupted) {
        (TrialStage::Planned, _) => "nothing was changed yet",
        (TrialStage::Starting, None) => "being started",
        (TrialStage::Starting, Some(_)) => "not fully started",
        (TrialStage::Running, _) => "running",
        (TrialStage::Reverting, None) => "being reverted",
        (TrialStage::Reverting, Some(_)) => "not fully reverted",
        (TrialStage::Stopped, _) => "ended, services keep what they run",
        (TrialStage::Reverted, _) => "ended, everything is as before",
    }
}
