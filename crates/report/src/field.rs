//! From a fleet and its analysis to the report of a field trial.

use std::collections::HashMap;

use heaptrial_analysis::{
    Analysis as Outcomes, ArmFigures, ArmResult, ArmWork, Fleet, LimitKind, RatioToControl, Verdict,
};
use heaptrial_model::Metric;
use heaptrial_stats::median;
use heaptrial_store::{Store, TrialRecord};

use crate::build::{self, rfc3339};
use crate::document::{
    Analysis, Arm, AsTreated, Estimate, ExcludedService, Finding, Growth, Kind, LevelChange, Memory,
    MemoryLimit, Ratio, Report, SCHEMA_VERSION, Service, Source, Work,
};
use crate::fleet::{FleetRows, memory_limit};
use crate::looks;
use crate::verdict::{self, RunsOut};
use crate::{Options, ReportError, Trajectories, findings};

/// Services of which the time between readings is looked at.
const SERVICES_TIMED: usize = 200;

/// Reports on a field trial: reads everything once, analyses it, and keeps what charts show.
pub(crate) fn report(
    store: &Store,
    trial: &TrialRecord,
    kind: Kind,
    options: &Options,
) -> Result<(Report, Trajectories), ReportError> {
    let mut rows = FleetRows::read(store, trial, kind)?;
    if options.pseudonyms {
        rows.rename();
    }
    let fleet = rows.fleet(store, trial, kind, options)?;
    let outcomes = heaptrial_analysis::analyse(&fleet, &options.settings);
    let last = if kind.is_import() { HashMap::new() } else { last_samples(store, &rows, trial.id)? };
    let parts = Parts { store, trial, rows: &rows, fleet: &fleet, outcomes: &outcomes, last };
    let shown = parts.shown();
    let trajectories = Trajectories::thin_fleet(&fleet, &shown, outcomes.ages_are_lower_bounds);
    Ok((parts.report(kind, &shown)?, trajectories))
}

/// The report of a fleet that was analysed already, without what charts show.
pub(crate) fn from_fleet(
    store: &Store,
    trial: &TrialRecord,
    kind: Kind,
    rows: &FleetRows,
    (fleet, outcomes): (&Fleet, &Outcomes),
) -> Result<Report, ReportError> {
    let parts = Parts { store, trial, rows, fleet, outcomes, last: HashMap::new() };
    let shown = parts.shown();
    parts.report(kind, &shown)
}

/// What the report is put together from.
struct Parts<'a> {
    store: &'a Store,
    trial: &'a TrialRecord,
    rows: &'a FleetRows,
    fleet: &'a Fleet,
    outcomes: &'a Outcomes,
    /// Of the services of an own trial, RssAnon at the last sample.
    last: HashMap<i64, u64>,
}

fn last_samples(store: &Store, rows: &FleetRows, trial_id: i64) -> Result<HashMap<i64, u64>, ReportError> {
    let mut found = HashMap::new();
    let mut late = Vec::new();
    for latest in store.latest(trial_id)? {
        if latest.wall_us > rows.until_us {
            late.push(latest.service_id);
        } else {
            found.extend(latest.anon_bytes.map(|bytes| (latest.service_id, bytes)));
        }
    }
    // Of a trial that has ended, the last before its end.
    for service_id in late {
        let Some(life) = rows.lives.iter().rev().find(|life| life.service_id == service_id) else { continue };
        let age = (rows.until_us - life.started_wall_us) as f64 / 1e6;
        let series = store.series(life, Metric::Rss)?;
        let last = series.iter().rev().find(|point| point.age_seconds <= age);
        found.extend(last.map(|point| (service_id, point.anon_bytes)));
    }
    Ok(found)
}

impl Parts<'_> {
    /// Service, arm and whether it is a stranger there, in the order of the report.
    fn shown(&self) -> Vec<(usize, usize, bool)> {
        let services = self.outcomes.services.iter().enumerate();
        services
            .flat_map(|(index, service)| {
                let stranger = |arm: usize| service.stranger_in.iter().any(|stranger| stranger.arm == arm);
                service.arms.iter().map(move |arm| (index, *arm, stranger(*arm)))
            })
            .collect()
    }

    fn report(&self, kind: Kind, shown: &[(usize, usize, bool)]) -> Result<Report, ReportError> {
        let Self { store, trial, rows, outcomes, .. } = self;
        let plan = &trial.plan;
        let services: Vec<Service> = shown.iter().map(|(index, arm, _)| self.service(*index, *arm)).collect();
        let arms =
            (0..self.fleet.arms.len()).map(|arm| self.arm(arm, &services)).collect::<Result<_, _>>()?;
        let findings = outcomes.findings.iter().map(|finding| Finding {
            kind: finding.kind,
            severity: finding.severity,
            arms: finding.arms.iter().map(|arm| self.arm_name(*arm)).collect(),
            services: finding.services.clone(),
            evidence: finding.evidence.clone(),
            effect: finding.effect.clone(),
        });
        let sources = rows.sources.iter().map(|source| Source {
            file: source.file.clone(),
            role: source.role.clone(),
            sha256: source.sha256.clone(),
            rows: source.rows,
            skipped: source.skipped,
        });
        let lives = || self.fleet.services.iter().flat_map(|service| &service.lives);
        let assignment = match kind {
            Kind::Host => None,
            _ if outcomes.randomised => Some("random within blocks"),
            _ => Some("as listed, not drawn at random"),
        };
        let sampler = if kind.is_import() { None } else { Some(store.tick_summary(trial.id)?) };
        let looks = looks::planned(store, trial)?;
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            kind,
            name: plan.name.clone(),
            started_at: rfc3339(store, "start of the trial", plan.started_wall_us)?,
            duration_seconds: self.duration_seconds(),
            outcome: build::outcome(trial.outcome.as_deref()),
            planned_seconds: plan.planned_us as f64 / 1e6,
            seed: plan.seed,
            repeats: plan.repeats,
            command: plan.command.clone(),
            tool_version: plan.tool_version.clone(),
            host: build::host(trial),
            parameters: plan.parameters.clone(),
            analysis: self.analysis(),
            assignment: assignment.map(str::to_owned),
            arms,
            services,
            samples: lives().map(|life| life.readings.len() as u64).sum(),
            sampling_interval_seconds: self.sampling_interval(),
            sampler: sampler.as_ref().map(build::sampler),
            cpu_share: None,
            findings: Some(findings.collect()),
            self_check: outcomes.self_check.filter(|check| check.noise_ratio.is_finite()),
            looks,
            sources: sources.collect(),
            warnings: Vec::new(),
            unmeasured: Vec::new(),
            notes: Vec::new(),
            events: build::events(store, &rows.events_within(), &rows.services)?,
        };
        findings::add_field(&mut report);
        Ok(report)
    }

    fn arm_name(&self, arm: usize) -> String {
        self.fleet.arms.get(arm).map_or_else(String::new, |arm| arm.name.clone())
    }

    /// From the first to the last reading.
    fn duration_seconds(&self) -> f64 {
        let lives = || self.fleet.services.iter().flat_map(|service| &service.lives);
        let first =
            lives().filter_map(|life| Some(life.started_at + f64::from(life.readings.first()?.age_seconds)));
        let last = lives().filter_map(|life| Some(life.started_at + life.last_age()?));
        (last.fold(f64::NEG_INFINITY, f64::max) - first.fold(f64::INFINITY, f64::min)).max(0.0)
    }

    fn sampling_interval(&self) -> Option<f64> {
        let services = &self.fleet.services;
        let every = services.len().div_ceil(SERVICES_TIMED).max(1);
        let usual = |life: &heaptrial_analysis::FleetLife| {
            let pairs = life.readings.windows(2);
            let distances: Vec<f64> =
                pairs.map(|pair| f64::from(pair[1].age_seconds - pair[0].age_seconds)).collect();
            median(&distances)
        };
        let intervals: Vec<f64> =
            services.iter().step_by(every).filter_map(|service| usual(service.current()?)).collect();
        // Ages are held to about a second; the interval is a round number.
        median(&intervals).map(f64::round)
    }

    fn analysis(&self) -> Analysis {
        let Outcomes { settings, .. } = self.outcomes;
        let longest = self.outcomes.arms.iter().filter_map(|arm| arm.growth.as_ref());
        let warm_ups: Vec<f64> = longest.map(|growth| growth.warm_up_seconds).collect();
        let limit = self.fleet.limit;
        let whole = |bytes: Option<f64>| bytes.map(|bytes| bytes as u64);
        Analysis {
            metric: self.trial.plan.metric,
            warm_up_seconds: median(&warm_ups).unwrap_or(0.0),
            matched_age_seconds: self.outcomes.matched_age_seconds,
            confidence_level: settings.confidence_level,
            window_seconds: Some(settings.window_seconds),
            ages_are_lower_bounds: Some(self.outcomes.ages_are_lower_bounds),
            stable_margin_per_day: Some(settings.stable_margin_per_day),
            horizon_days: Some(settings.horizon_days),
            memory_limit: Some(MemoryLimit {
                service_bytes: whole(limit.service_bytes),
                host_bytes: whole(limit.host_bytes),
                host_available_bytes: whole(limit.host_available_bytes),
            }),
        }
    }

    fn service(&self, index: usize, arm: usize) -> Service {
        let found = &self.outcomes.services[index];
        let record = self.rows.services.get(index);
        let metric = self.trial.plan.metric;
        let stranger = found.stranger_in.iter().find(|stranger| stranger.arm == arm);
        let whole = |bytes: Option<f64>| bytes.filter(|bytes| bytes.is_finite()).map(|b| b.round() as u64);
        let memory =
            whole(found.final_bytes).zip(whole(found.peak_bytes)).map(|(final_bytes, peak_bytes)| Memory {
                metric,
                final_bytes,
                median_bytes: whole(found.level_bytes),
                peak_bytes,
            });
        Service {
            name: found.name.clone(),
            arm: self.arm_name(arm),
            block: record.map_or(0, |record| record.block),
            position: record.map_or(0, |record| record.position),
            counts: stranger.is_none(),
            excluded: stranger.map(|stranger| stranger.why.clone()),
            ending: None,
            age_seconds: found.age_seconds,
            readings: found.readings,
            rss_bytes_final: memory.as_ref().filter(|_| metric == Metric::Rss).map(|m| m.final_bytes),
            memory,
            anon_bytes_final: record.and_then(|record| self.last.get(&record.id)).copied(),
            slope_bytes_per_hour: found.growth_bytes_per_day.map(|slope| slope / 24.0),
            cpu_seconds: None,
            consensus_age: None,
            smaps: None,
            start: found.start,
            restarts: Some(found.restarts),
            growth_share_per_day: found.growth_log_per_day,
            time_average_bytes: whole(found.time_average_bytes),
            like: stranger.and_then(|stranger| stranger.like).map(|arm| self.arm_name(arm)),
            no_level: found.no_level.clone(),
            ran: record.and_then(|record| self.ran(record.id)),
            memory_limit_bytes: record.and_then(memory_limit),
            work_bytes_per_second: found.work_bytes_per_second.filter(|rate| rate.is_finite()),
        }
    }

    /// The allocator that the last life of a service ran, as proved.
    fn ran(&self, service_id: i64) -> Option<String> {
        let life = self.rows.lives.iter().rev().find(|life| life.service_id == service_id)?;
        Some(life.identity.as_ref()?.label())
    }

    fn arm(&self, index: usize, services: &[Service]) -> Result<Arm, ReportError> {
        let fleet_arm = &self.fleet.arms[index];
        let record = &self.rows.arms[index];
        let result = &self.outcomes.arms[index];
        let metric = self.trial.plan.metric;
        let own = || services.iter().filter(|service| service.arm == fleet_arm.name);
        let figures = &result.as_assigned;
        let peak = own().filter_map(|service| Some(service.memory.as_ref()?.peak_bytes)).max();
        let memory = whole(figures.final_mean_bytes).zip(peak).map(|(final_bytes, peak_bytes)| Memory {
            metric,
            final_bytes,
            median_bytes: whole(figures.level_bytes),
            peak_bytes,
        });
        let slopes: Vec<f64> = own().filter_map(|service| service.slope_bytes_per_hour).collect();
        let excluded = own().filter_map(|service| {
            Some(ExcludedService { name: service.name.clone(), reason: service.excluded.clone()? })
        });
        let members = |life: &&heaptrial_store::LifeRecord| {
            let of = |service: &&heaptrial_store::ServiceRecord| service.id == life.service_id;
            self.rows.services.iter().find(of).is_some_and(|service| service.arm_id == record.id)
        };
        // Looked for only where something was proved: imports have nothing.
        let mut proved = self.rows.lives.iter().filter(|life| life.identity.is_some());
        // Services as they are found have each their own.
        let identity = (self.fleet.arms.len() > 1)
            .then(|| {
                proved
                    .find(|life| life.contamination.is_none() && members(life))
                    .and_then(|l| l.identity.clone())
            })
            .flatten();
        let changes = result.level_changes.iter().filter(|change| change.factor.is_finite());
        let level_changes = changes.map(|change| {
            Ok(LevelChange {
                at: rfc3339(self.store, "a change of level", (change.at * 1e6) as i64)?,
                age_days: change.age_days,
                factor: change.factor,
                services_agreeing: change.services_agreeing,
                services: change.services,
                p_value: change.p_value,
            })
        });
        let verdict = result.verdict.as_ref();
        let (days_until_full, limit) = match verdict {
            Some(Verdict::Growing { days_until_full: Some(days), limit }) => (finite(*days), *limit),
            Some(Verdict::Bloating { days_until_full, limit }) => (finite(*days_until_full), Some(*limit)),
            _ => (None, None),
        };
        let doubles = limit == Some(LimitKind::Doubling);
        let last_reading_at = self
            .last_reading(index)
            .map(|at| rfc3339(self.store, "the last reading of an arm", (at * 1e6) as i64))
            .transpose()?;
        let runs_out = RunsOut { limit, last_reading_at: last_reading_at.as_deref() };
        Ok(Arm {
            name: fleet_arm.name.clone(),
            control: fleet_arm.control,
            allocator: record.arm.treatment.allocator.as_ref().map_or_else(String::new, ToString::to_string),
            treatment: record.arm.treatment.clone(),
            identity,
            obtained: record.obtained.clone(),
            services: figures.services,
            services_excluded: excluded.collect(),
            rss_bytes_final: memory.as_ref().filter(|_| metric == Metric::Rss).map(|m| m.final_bytes),
            memory,
            anon_bytes_final: {
                let anon: Vec<f64> = own().filter_map(|s| Some(s.anon_bytes_final? as f64)).collect();
                whole((!anon.is_empty()).then(|| anon.iter().sum::<f64>() / anon.len() as f64))
            },
            ratio_to_control: self.ratio(figures.ratio.as_ref()),
            slope_bytes_per_hour: median(&slopes),
            cpu_seconds: None,
            consensus_age: None,
            warnings: Vec::new(),
            earlier_list_of: fleet_arm.earlier_list_of.map(|of| self.arm_name(of)),
            list: record.source.clone(),
            age_seconds: figures.age_seconds,
            as_treated: result.as_treated.as_ref().map(|treated| self.as_treated(treated)),
            verdict: verdict.map(|verdict| verdict.as_str().to_owned()),
            verdict_reason: verdict.map(|verdict| {
                verdict::reason(verdict, result.growth.as_ref(), &self.outcomes.settings, runs_out)
            }),
            verdict_as_assigned: result
                .verdict_as_assigned
                .as_ref()
                .map(|verdict| verdict.as_str().to_owned()),
            growth: result.growth.clone().and_then(finite_growth),
            days_until_full: days_until_full.filter(|_| !doubles),
            days_until_doubled: days_until_full.filter(|_| doubles),
            limit: days_until_full.and(limit),
            last_reading_at,
            days_needed: match verdict {
                Some(Verdict::Inconclusive { days_needed, .. }) => {
                    days_needed.filter(|days| days.is_finite())
                }
                _ => None,
            },
            by_day: by_day(result),
            level_changes: level_changes.collect::<Result<_, ReportError>>()?,
            sawtooth: result.sawtooth,
            work: result.work.as_ref().map(|work| self.work(work)),
            events: self.fleet.identities_proved.then_some(result.events),
        })
    }

    /// When a service that belongs to an arm was read last, in seconds since 1970.
    fn last_reading(&self, arm: usize) -> Option<f64> {
        let services = self.outcomes.services.iter().zip(&self.fleet.services);
        let own = services.filter(|(found, _)| {
            found.arms.contains(&arm) && !found.stranger_in.iter().any(|stranger| stranger.arm == arm)
        });
        let last = own.filter_map(|(_, service)| {
            let life = service.current()?;
            Some(life.started_at + life.last_age()?)
        });
        last.max_by(f64::total_cmp)
    }

    fn as_treated(&self, figures: &ArmFigures) -> AsTreated {
        let final_bytes = whole(figures.final_mean_bytes);
        AsTreated {
            services: figures.services,
            final_bytes,
            rss_bytes_final: final_bytes.filter(|_| self.trial.plan.metric == Metric::Rss),
            level_bytes: whole(figures.level_bytes),
            ratio_to_control: self.ratio(figures.ratio.as_ref()),
        }
    }

    fn work(&self, work: &ArmWork) -> Work {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Work {
            services: work.services,
            bytes_per_second: finite(work.bytes_per_second),
            ratio_to_control: self.ratio(work.ratio.as_ref()),
            memory_bytes_per_mb_per_second: finite(work.memory_per_mb_per_second),
            connections: finite(work.connections),
            oom_services: work.oom_services,
            oom_bytes: work.oom_bytes as u64,
            flags: work.flags.clone(),
        }
    }

    fn ratio(&self, ratio: Option<&RatioToControl>) -> Option<Ratio> {
        let RatioToControl { estimate, method, p_value, p_value_adjusted } = ratio?;
        let estimate = finite(*estimate)?;
        let note = match (self.outcomes.randomised, method.as_str()) {
            (_, "none") => Some("too few services for an interval"),
            (false, _) => Some(
                "the assignment was not drawn at random: interval and p-value hold only as far as services could \
                 have been exchanged between arms",
            ),
            (true, "student_t") => Some(
                "few services: the interval (Student's t) assumes that the logarithms are normally distributed",
            ),
            _ => None,
        };
        Some(Ratio {
            estimate: estimate.value,
            low: estimate.low,
            high: estimate.high,
            method: method.clone(),
            p_value: *p_value,
            p_value_adjusted: *p_value_adjusted,
            note: note.map(str::to_owned),
        })
    }
}

fn by_day(result: &ArmResult) -> Vec<heaptrial_analysis::DayLevel> {
    result.by_day.iter().filter(|day| day.median_bytes.is_finite()).copied().collect()
}

fn whole(bytes: Option<f64>) -> Option<u64> {
    bytes.filter(|bytes| bytes.is_finite()).map(|bytes| bytes.round() as u64)
}

/// JSON has no other numbers.
fn finite(estimate: Estimate) -> Option<Estimate> {
    let end = |end: Option<f64>| end.filter(|end| end.is_finite());
    estimate.value.is_finite().then(|| Estimate {
        value: estimate.value,
        low: end(estimate.low),
        high: end(estimate.high),
    })
}

fn finite_growth(growth: Growth) -> Option<Growth> {
    let share_per_day = finite(growth.share_per_day)?;
    let bytes_per_day = finite(growth.bytes_per_day)?;
    let late_over_early = growth.late_over_early.filter(|ratio| ratio.is_finite());
    let days = if growth.days.is_finite() { growth.days } else { 0.0 };
    Some(Growth { share_per_day, bytes_per_day, late_over_early, days, ..growth })
}
