//! From the rows of the database to the report.

use std::collections::HashMap;
use std::time::Duration;

pub use heaptrial_analysis::Settings;
use heaptrial_model::Metric;
use heaptrial_store::{ArmRecord, EventRecord, LifeRecord, Store, TickSummary, TrialRecord};
use jiff::Timestamp;

use crate::arm::{self, Group};
use crate::bug::pseudonym;
use crate::document::{Analysis, Event, Host, Kind, Outcome, Report, SCHEMA_VERSION, Sampler, Service};
use crate::ledger::{self, LedgerEntry};
use crate::trajectory::Trajectories;
use crate::{ReportError, field, figures, findings};

/// Of all intervals.
const CONFIDENCE_LEVEL: f64 = 0.95;
/// Share of a life that is warm-up where nothing else is said.
const WARM_UP_SHARE: f64 = 1.0 / 3.0;

/// Choices of whoever asks for a report.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// In a lab run, readings at a younger age are left out of medians and slopes; `None` is the first third of
    /// the planned length of a life. Field trials have [`Settings::warm_up_share`].
    pub warm_up: Option<Duration>,
    /// In a field trial, the memory that each service may use (MemoryMax).
    pub memory_limit_bytes: Option<u64>,
    /// How a field trial is analysed.
    pub settings: Settings,
    /// Other names for services and arms, and no texts of others: for what leaves the house.
    pub pseudonyms: bool,
}

impl Report {
    /// Reports on a trial of `store`.
    pub fn from_store(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ReportError> {
        Ok(Self::with_trajectories(store, trial_id, options)?.0)
    }

    /// Reports on a trial of `store`, with the thinned series that the charts show. The samples are
    /// read once for both.
    pub fn with_trajectories(
        store: &Store,
        trial_id: i64,
        options: &Options,
    ) -> Result<(Self, Trajectories), ReportError> {
        let trial = find_trial(store, trial_id)?;
        let kind = kind_of(store, &trial)?;
        if !kind.is_lab() {
            return field::report(store, &trial, kind, options);
        }
        let mut rows = Rows {
            arms: store.arms(trial_id)?,
            lives: store.lives(trial_id)?,
            events: store.events(trial_id)?,
            ticks: store.tick_summary(trial_id)?,
        };
        let mut service_rows = store.services(trial_id)?;
        if options.pseudonyms {
            pseudonym::rename(pseudonym::Rows {
                arms: &mut rows.arms,
                services: &mut service_rows,
                lives: &mut rows.lives,
                events: &mut rows.events,
                sources: &mut Vec::new(),
            });
        }
        let metric = trial.plan.metric;
        let entries = ledger::read(store, &service_rows, &rows.arms, &rows.lives, &rows.events, metric)?;
        let analysis = analysis(metric, trial.plan.planned_us as f64 / 1e6, &entries, options);

        let arm_index =
            |entry: &LedgerEntry<'_>| rows.arms.iter().position(|arm| arm.id == entry.service.arm_id);
        let mut services = Vec::with_capacity(entries.len());
        let mut groups: Vec<Group<'_>> = rows.arms.iter().map(Group::new).collect();
        for entry in &entries {
            let Some(index) = arm_index(entry) else { continue };
            let name = &rows.arms[index].arm.name;
            groups[index].add(entry, services.len());
            services.push(figures::of_service(store, entry, name, &analysis, &rows.events)?);
        }
        let series = entries.iter().filter_map(|entry| Some((arm_index(entry)?, entry.series.as_slice())));
        let trajectories = Trajectories::thin(series);

        let arms = arm::figures(&groups, &services, &analysis, trial.plan.seed);
        let duration_seconds = duration_seconds(&trial, &entries);
        let mut report = Self {
            schema_version: SCHEMA_VERSION,
            kind,
            name: trial.plan.name.clone(),
            started_at: rfc3339(store, "start of the trial", trial.plan.started_wall_us)?,
            duration_seconds,
            outcome: outcome(trial.outcome.as_deref()),
            planned_seconds: trial.plan.planned_us as f64 / 1e6,
            seed: trial.plan.seed,
            repeats: trial.plan.repeats,
            command: trial.plan.command.clone(),
            tool_version: trial.plan.tool_version.clone(),
            host: host(&trial),
            parameters: trial.plan.parameters.clone(),
            analysis,
            assignment: None,
            arms,
            samples: rows.ticks.samples,
            sampling_interval_seconds: None,
            sampler: Some(sampler(&rows.ticks)),
            cpu_share: None,
            findings: None,
            self_check: None,
            looks: Vec::new(),
            sources: Vec::new(),
            warnings: Vec::new(),
            unmeasured: Vec::new(),
            notes: Vec::new(),
            events: events(store, &rows.events, &service_rows)?,
            services,
        };
        report.cpu_share = cpu_share(&report.services, duration_seconds, report.host.cpu_count);
        findings::add(&mut report);
        Ok((report, trajectories))
    }
}

struct Rows {
    arms: Vec<ArmRecord>,
    lives: Vec<LifeRecord>,
    events: Vec<EventRecord>,
    ticks: TickSummary,
}

pub(crate) fn find_trial(store: &Store, trial_id: i64) -> Result<TrialRecord, ReportError> {
    let mut trials = store.trials()?;
    match trials.iter().position(|trial| trial.id == trial_id) {
        Some(index) => Ok(trials.swap_remove(index)),
        None => Err(ReportError::NoTrial {
            path: store.path().to_owned(),
            trial_id,
            known: trials.into_iter().map(|trial| (trial.id, trial.plan.name)).collect(),
        }),
    }
}

pub(crate) fn kind_of(store: &Store, trial: &TrialRecord) -> Result<Kind, ReportError> {
    match trial.plan.kind.as_str() {
        "lab_command" => Ok(Kind::LabCommand),
        "lab_tor" => Ok(Kind::LabTor),
        "import_torutils" => Ok(Kind::ImportTorutils),
        // A rollout has one arm, over services that get its treatment one after the other.
        "field" | "rollout" => Ok(Kind::Field),
        // A watch compares with a forecast and with no other arm: services as they are found.
        "host" | "watch" => Ok(Kind::Host),
        other => Err(ReportError::Kind {
            path: store.path().to_owned(),
            trial_id: trial.id,
            kind: other.to_owned(),
        }),
    }
}

pub(crate) fn outcome(text: Option<&str>) -> Outcome {
    match text {
        Some("completed") => Outcome::Completed,
        Some("interrupted") => Outcome::Interrupted,
        Some("failed") => Outcome::Failed,
        _ => Outcome::Unfinished,
    }
}

fn analysis(
    metric: Metric,
    planned_seconds: f64,
    entries: &[LedgerEntry<'_>],
    options: &Options,
) -> Analysis {
    let ages = || entries.iter().filter(|entry| entry.counts()).filter_map(LedgerEntry::last_age);
    let oldest = ages().fold(0.0, f64::max);
    let youngest = ages().fold(f64::INFINITY, f64::min);
    // A run that was cut short gets a warm-up in proportion to what there is of it.
    let length = if oldest >= 0.9 * planned_seconds { planned_seconds } else { oldest };
    let warm_up_seconds = match options.warm_up {
        Some(warm_up) => warm_up.as_secs_f64(),
        None => (length * WARM_UP_SHARE * 1000.0).round() / 1000.0,
    };
    Analysis {
        metric,
        warm_up_seconds,
        matched_age_seconds: youngest.is_finite().then_some(youngest),
        confidence_level: CONFIDENCE_LEVEL,
        window_seconds: None,
        ages_are_lower_bounds: None,
        stable_margin_per_day: None,
        horizon_days: None,
        memory_limit: None,
    }
}

fn duration_seconds(trial: &TrialRecord, entries: &[LedgerEntry<'_>]) -> f64 {
    let start = trial.plan.started_wall_us;
    if let Some(end) = trial.ended_wall_us {
        return (end - start) as f64 / 1e6;
    }
    let last = |entry: &LedgerEntry<'_>| {
        Some((entry.life?.started_wall_us - start) as f64 / 1e6 + entry.last_age()?)
    };
    entries.iter().filter_map(last).fold(0.0, f64::max)
}

pub(crate) fn host(trial: &TrialRecord) -> Host {
    let fact = |name: &str| trial.plan.host_facts.get(name);
    let text = |name: &str| fact(name)?.as_str().filter(|text| *text != "unknown").map(str::to_owned);
    let number = |name: &str| fact(name)?.as_u64().filter(|number| *number > 0);
    Host {
        os: text("os"),
        kernel: text("kernel"),
        architecture: text("architecture"),
        cpu_count: number("cpu_count").and_then(|count| count.try_into().ok()),
        cpu_model: text("cpu_model"),
        ram_bytes: number("ram_bytes"),
        thp_mode: text("thp_mode"),
        cgroup_version: text("cgroup_version"),
        overcommit_memory: text("overcommit_memory"),
        libc: text("libc"),
        page_size_bytes: number("page_size_bytes"),
    }
}

pub(crate) fn sampler(ticks: &TickSummary) -> Sampler {
    let seconds = |microseconds: u64| microseconds as f64 / 1e6;
    Sampler {
        ticks: ticks.ticks,
        elapsed_seconds: seconds(ticks.cost_wall_us),
        cpu_seconds: seconds(ticks.cost_cpu_us),
        median_tick_seconds: seconds(ticks.median_cost_wall_us),
        longest_gap_seconds: seconds(ticks.longest_gap_us),
    }
}

fn cpu_share(services: &[Service], duration_seconds: f64, cpu_count: Option<u32>) -> Option<f64> {
    let used: f64 = services.iter().filter_map(|service| service.cpu_seconds).sum();
    let offered = duration_seconds * f64::from(cpu_count?);
    (offered > 0.0).then(|| used / offered)
}

pub(crate) fn events(
    store: &Store,
    events: &[EventRecord],
    services: &[heaptrial_store::ServiceRecord],
) -> Result<Vec<Event>, ReportError> {
    let names: HashMap<i64, &str> =
        services.iter().map(|service| (service.id, service.name.as_str())).collect();
    let name = |id: i64| names.get(&id).map(|name| (*name).to_owned());
    events
        .iter()
        .map(|event| {
            Ok(Event {
                at: rfc3339(store, "an event", event.wall_us)?,
                service: event.service_id.and_then(name),
                kind: event.kind.clone(),
                text: event.text.clone(),
            })
        })
        .collect()
}

/// Whole milliseconds: what a reader can use, and stable to compare.
pub(crate) fn rfc3339(store: &Store, what: &'static str, microseconds: i64) -> Result<String, ReportError> {
    Timestamp::from_millisecond(microseconds.div_euclid(1000))
        .map(|time| time.to_string())
        .map_err(|_| ReportError::Time { path: store.path().to_owned(), what, microseconds })
}
