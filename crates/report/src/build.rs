//! From what is known of a trial to its report.

use heaptrial_evaluate::analysis::{Estimate, Growth, RatioToControl, ServiceResult, objections, outliers};
use heaptrial_evaluate::judgement::{Judgement, JudgementError, ServiceFacts};
use heaptrial_model::{About, Identity, MemorySplit, Metric, TrialKind};
use heaptrial_store::{ArmRecord, PartRecord, ServiceRecord, Store, TickSummary};
use serde_json::Value;

use crate::document::{
    Analysis, Arm, ArmResult, Assignment, Event, ExcludedService, Finding, Host, Memory, Outcome,
    PlannedLook, Ratio, Report, SCHEMA_VERSION, Sampler, Service, Source, TrialHost,
};
use crate::{Options, ReportError, caveats};

impl Report {
    /// Reports on a trial of `store`, without charts.
    pub fn from_store(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ReportError> {
        Self::of(&Judgement::of(store, trial_id, options)?)
    }

    /// Reports on a trial of `store`, with charts.
    pub fn with_charts(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ReportError> {
        Self::charted(&Judgement::of(store, trial_id, options)?)
    }

    /// Reports on what is known of a trial, with charts.
    pub fn charted(judgement: &Judgement) -> Result<Self, ReportError> {
        Ok(Self { trajectories: Some(judgement.trajectories()), ..Self::of(judgement)? })
    }

    /// Reports on what is known of a trial. The same judgement gives the same report, byte for byte.
    pub fn of(judgement: &Judgement) -> Result<Self, ReportError> {
        let parts =
            Parts { judgement, lab: judgement.rows.kind.is_lab(), days: judgement.fleet.clock.has_days() };
        let services: Vec<Service> =
            judgement.placements().into_iter().map(|(index, arm, _)| parts.service(index, arm)).collect();
        let arms = (0..judgement.rows.arms.len()).map(|arm| parts.arm(arm, &services)).collect();
        let mut report = parts.report(arms, services)?;
        report.caveats = caveats::of(&report, &judgement.arms);
        Ok(report)
    }
}

/// What a report is put together from.
struct Parts<'a> {
    judgement: &'a Judgement,
    lab: bool,
    /// Whether ages are those of services in life.
    days: bool,
}

impl Parts<'_> {
    fn report(&self, arms: Vec<Arm>, services: Vec<Service>) -> Result<Report, ReportError> {
        let Judgement { rows, analysis, .. } = self.judgement;
        let (trial, plan) = (&rows.trial, &rows.trial.plan);
        let host = match rows.parts.as_slice() {
            [] => host(&trial.plan.host_facts),
            parts => alike(parts),
        };
        let findings = analysis.findings.iter().map(|finding| Finding {
            kind: finding.kind,
            severity: finding.severity,
            arms: finding.arms.iter().map(|arm| self.arm_name(*arm)).collect(),
            services: finding.services.clone(),
            evidence: finding.evidence.clone(),
        });
        let imported = rows.kind.is_import();
        let several = rows.arms.len() > 1;
        let has_check = imported || rows.kind == TrialKind::Field;
        Ok(Report {
            schema_version: SCHEMA_VERSION,
            kind: rows.kind,
            name: plan.name.clone(),
            started_at: self.time("start of the trial", plan.started_wall_us)?,
            duration_seconds: self.judgement.duration_seconds,
            outcome: trial
                .outcome
                .as_ref()
                .and_then(|text| serde_json::from_value(text.as_str().into()).ok())
                .unwrap_or(Outcome::Unfinished),
            planned_seconds: plan.planned_us as f64 / 1e6,
            seed: plan.seed,
            repeats: if self.lab { plan.repeats } else { 1 },
            command: plan.command.clone(),
            tool_version: plan.tool_version.clone(),
            host,
            about: About::of_parameters(&plan.parameters),
            parameters: plan.parameters.clone(),
            assignment: match rows.kind {
                kind if kind.is_lab() => None,
                kind if kind.is_import() && self.has_blocks() => Some(Assignment::ListedWithinServers),
                kind if kind.is_import() => Some(Assignment::Listed),
                TrialKind::Host => several.then_some(Assignment::AsFound),
                _ if analysis.randomised => several.then_some(Assignment::Random),
                _ => several.then_some(Assignment::ByHand),
            },
            sampler: (!imported).then(|| self.judgement.ticks.as_ref().map(sampler).unwrap_or_default()),
            sampling_interval_seconds: self.judgement.sampling_interval_seconds.filter(|_| !self.lab),
            consensuses: self.judgement.consensuses.clone(),
            self_check: analysis.self_check.filter(|check| has_check && check.noise_ratio.is_finite()),
            looks: if rows.kind == TrialKind::Field { self.looks()? } else { Vec::new() },
            sources: if imported { self.sources() } else { Vec::new() },
            analysis: self.analysis(),
            arms,
            services,
            samples: self.judgement.samples,
            extremes: analysis.extremes.clone(),
            findings: findings.collect(),
            outliers: outliers(analysis),
            hosts: self.hosts()?,
            by_host: self.judgement.by_host.clone(),
            caveats: Vec::new(),
            reproduce: None,
            events: self.events()?,
            trajectories: None,
        })
    }

    fn sources(&self) -> Vec<Source> {
        let sources = self.judgement.rows.sources.iter().map(|source| Source {
            file: source.file.clone(),
            role: source.role.clone(),
            sha256: source.sha256.clone(),
            rows: source.rows,
            skipped: source.skipped,
        });
        sources.collect()
    }

    fn has_blocks(&self) -> bool {
        let services = &self.judgement.fleet.services;
        services.windows(2).any(|pair| pair[0].block != pair[1].block)
    }

    fn hosts(&self) -> Result<Vec<TrialHost>, ReportError> {
        let rows = &self.judgement.rows;
        let time = |what, at: Option<i64>| at.map(|at| self.time(what, at)).transpose();
        let parts = rows.parts.iter().map(|part| {
            let own = |service: &&ServiceRecord| service.host() == Some(part.host.as_str());
            Ok(TrialHost {
                name: part.host.clone(),
                services: rows.services.iter().filter(own).count() as u32,
                started_at: self.time("start on a host", part.started_wall_us)?,
                ended_at: time("end on a host", part.ended_wall_us)?,
                last_at: time("last reading of a host", part.last.map(|tick| tick.wall_us))?,
                facts: host(&part.facts),
            })
        });
        parts.collect()
    }

    fn time(&self, what: &'static str, microseconds: i64) -> Result<String, JudgementError> {
        self.judgement.time(what, microseconds)
    }

    fn arm_name(&self, arm: usize) -> String {
        self.judgement.fleet.arms.get(arm).map_or_else(String::new, |arm| arm.name.clone())
    }

    fn looks(&self) -> Result<Vec<PlannedLook>, ReportError> {
        let looks = self.judgement.looks.iter().map(|look| {
            let taken = look.taken.as_ref();
            let result = taken.and_then(|taken| taken.outcome.get("result")?.as_str().map(str::to_owned));
            Ok(PlannedLook {
                number: look.number,
                planned_seconds: look.planned_us as f64 / 1e6,
                alpha: look.alpha,
                taken_at: taken.map(|taken| self.time("a look", taken.taken_wall_us)).transpose()?,
                result,
            })
        });
        looks.collect()
    }

    fn events(&self) -> Result<Vec<Event>, ReportError> {
        let rows = &self.judgement.rows;
        let name = |id: i64| {
            rows.services.iter().find(|service| service.id == id).map(|service| service.name.clone())
        };
        let events = rows.events_within().map(|event| {
            Ok(Event {
                at: self.time("an event", event.wall_us)?,
                service: event.service_id.and_then(name),
                kind: event.kind.to_string(),
                text: event.text.clone(),
            })
        });
        events.collect()
    }

    fn analysis(&self) -> Analysis {
        let Judgement { rows, fleet, analysis, .. } = self.judgement;
        let settings = analysis.settings;
        let in_days = |value: f64| Some(value).filter(|_| self.days);
        Analysis {
            metric: rows.trial.plan.metric,
            warm_up_seconds: self.judgement.warm_up_seconds,
            // Readings hold ages to a fraction of a millisecond.
            matched_age_seconds: analysis.matched_age_seconds.map(|age| (age * 1000.0).round() / 1000.0),
            confidence_level: settings.confidence_level,
            // Of young services it is half of their life.
            window_seconds: in_days(
                analysis
                    .matched_age_seconds
                    .map_or(settings.window_seconds, |age| age - settings.level_from(age)),
            ),
            ages_are_lower_bounds: Some(analysis.ages_are_lower_bounds).filter(|_| !self.lab),
            stable_margin_per_day: in_days(settings.stable_margin_per_day),
            horizon_days: in_days(settings.horizon_days),
            work_margin: settings.work_margin,
            memory_limit: self.days.then_some(fleet.limit),
        }
    }

    fn service(&self, index: usize, arm: usize) -> Service {
        let Judgement { rows, analysis, services, .. } = self.judgement;
        let (found, facts) = (&analysis.services[index], &services[index]);
        let record = rows.services.get(index);
        let off_treatment = found.off_treatment_in.iter().find(|off_treatment| off_treatment.arm == arm);
        let life = facts.life.and_then(|life| rows.lives.get(life));
        let result = observed(found, facts, self.lab && self.days);
        let excluded =
            facts.excluded.clone().or_else(|| off_treatment.map(|off_treatment| off_treatment.why.clone()));
        Service {
            arm: self.arm_name(arm),
            block: record.map_or(0, |record| record.block),
            position: record.map_or(0, |record| record.position),
            counts: excluded.is_none(),
            excluded,
            ending: life.filter(|_| self.lab).and_then(|life| life.ending.clone()),
            rss_bytes_final: match rows.trial.plan.metric {
                _ if self.lab => facts.rss_bytes,
                Metric::Rss => whole(result.final_bytes),
                Metric::Anon | Metric::Pss | Metric::Cgroup => None,
            },
            anon_bytes_final: facts.anon_bytes,
            cpu_seconds: facts.cpu_seconds,
            consensuses: facts.consensuses,
            rests: facts.rests.clone(),
            smaps: facts.smaps,
            smaps_anon_bytes: facts.smaps_anon_bytes.filter(|_| !self.lab),
            memory_split: facts.memory_split,
            like: off_treatment.and_then(|off_treatment| off_treatment.like).map(|arm| self.arm_name(arm)),
            ran: life.filter(|_| !self.lab).and_then(|life| Some(life.identity.as_ref()?.label())),
            memory_limit_bytes: whole(self.judgement.fleet.services[index].limit_bytes),
            result,
        }
    }

    fn arm(&self, index: usize, services: &[Service]) -> Arm {
        let Judgement { rows, fleet, arms, .. } = self.judgement;
        let (fleet_arm, record, facts) = (&fleet.arms[index], &rows.arms[index], &arms[index]);
        let result = self.result(index);
        let metric = rows.trial.plan.metric;
        let figures = &result.as_assigned;
        let memory =
            whole(figures.final_mean_bytes).zip(whole(facts.peak_bytes)).map(|(final_bytes, peak_bytes)| {
                Memory { metric, final_bytes, median_bytes: whole(figures.level_bytes), peak_bytes }
            });
        let own = services.iter().filter(|service| service.arm == fleet_arm.name);
        let counted = own.clone().filter(|service| service.counts);
        let splits: Vec<MemorySplit> = counted.filter_map(|service| service.memory_split).collect();
        let excluded: Vec<ExcludedService> = own
            .filter_map(|service| {
                Some(ExcludedService { name: service.result.name.clone(), reason: service.excluded.clone()? })
            })
            .collect();
        Arm {
            name: fleet_arm.name.clone(),
            control: fleet_arm.control,
            allocator: self.allocator(record),
            treatment: record.arm.treatment.clone(),
            // Its libraries are in the arm's own field, those of all services.
            identity: facts.identity.clone().map(|identity| Identity { libraries: Vec::new(), ..identity }),
            libraries: facts.libraries.clone(),
            obtained: record.obtained.clone(),
            services: figures.services,
            services_excluded: excluded,
            rss_bytes_final: match metric {
                Metric::Rss => memory.as_ref().map(|memory| memory.final_bytes),
                Metric::Anon | Metric::Pss | Metric::Cgroup => whole(facts.rss_bytes),
            },
            memory,
            anon_bytes_final: whole(facts.anon_bytes),
            memory_split: MemorySplit::mean(&splits),
            ratio_to_control: result.as_assigned.ratio.as_ref().map(Ratio::from),
            slope_bytes_per_hour: facts.slope_bytes_per_hour.map(|slope| slope.0),
            cpu_seconds: facts.cpu_seconds,
            consensuses: facts.consensuses,
            list: record.source.clone(),
            verdict: result.verdict.as_ref().map(|verdict| verdict.as_str().to_owned()),
            objections: self.objections(index, &result),
            result,
        }
    }

    /// The spec as given. Of a trial on hosts an arm may leave services what they have.
    fn allocator(&self, record: &ArmRecord) -> String {
        match self.lab {
            true => record.arm.allocator().to_string(),
            false => record.arm.treatment.allocator.as_ref().map_or_else(String::new, ToString::to_string),
        }
    }

    /// What the analysis says of an arm; in a run without days nothing of what it does over days.
    fn result(&self, arm: usize) -> ArmResult {
        let mut result = self.judgement.analysis.arms[arm].clone();
        for figures in std::iter::once(&mut result.as_assigned).chain(&mut result.as_treated) {
            figures.ratio = figures.ratio.take().filter(is_finite);
        }
        result.growth = result.growth.filter(|growth| self.days && has_finite_growth(growth));
        if !self.days {
            result.service_verdicts = None;
            result.by_day.clear();
        }
        result
    }

    /// Of an arm that is shown to need less than the control.
    fn objections(&self, arm: usize, result: &ArmResult) -> Vec<heaptrial_evaluate::analysis::Objection> {
        let control = self.judgement.fleet.arms.iter().position(|arm| arm.control);
        let control = control.filter(|control| *control != arm && !self.lab);
        let ratio = result.treated().ratio.as_ref();
        let less = ratio.is_some_and(|ratio| ratio.estimate.high.is_some_and(|high| high < 1.0));
        match control {
            Some(control) if less => objections(&self.judgement.analysis, arm, control),
            _ => Vec::new(),
        }
    }
}

/// The figures of a service; of one that a lab run excluded, what was read of it. All figures of a relay are of its last rest.
fn observed(found: &ServiceResult, facts: &ServiceFacts, at_rest: bool) -> ServiceResult {
    let mut result = ServiceResult { work: Vec::new(), ..found.clone() };
    if facts.excluded.is_some() {
        result.no_level = None;
    }
    if let Some(seen) = facts.observed {
        result.age_seconds = found.age_seconds.filter(|_| at_rest).or(Some(seen.age_seconds));
        result.readings = seen.readings;
        result.final_bytes = Some(seen.final_bytes as f64);
        result.peak_bytes = Some(seen.peak_bytes as f64);
    }
    result
}

fn is_finite(ratio: &RatioToControl) -> bool {
    ratio.estimate.value.is_finite()
}

fn has_finite_growth(growth: &Growth) -> bool {
    let finite = |estimate: &Estimate| estimate.value.is_finite();
    finite(&growth.share_per_day) && finite(&growth.bytes_per_day)
}

/// What hosts have in common.
fn alike(parts: &[PartRecord]) -> Host {
    let mut facts = parts[0].facts.as_object().cloned().unwrap_or_default();
    facts.retain(|name, value| parts.iter().all(|part| part.facts.get(name) == Some(value)));
    host(&facts.into())
}

/// What is known of a host: what could not be read was recorded as `unknown` or 0.
fn host(facts: &Value) -> Host {
    let mut facts = facts.as_object().cloned().unwrap_or_default();
    facts.retain(|_, value| *value != "unknown" && *value != 0);
    serde_json::from_value(facts.into()).unwrap_or_default()
}

fn sampler(ticks: &TickSummary) -> Sampler {
    let seconds = |microseconds: u64| microseconds as f64 / 1e6;
    Sampler {
        ticks: ticks.ticks,
        cpu_seconds: seconds(ticks.cost_cpu_us),
        median_tick_seconds: seconds(ticks.median_cost_wall_us),
        longest_gap_seconds: seconds(ticks.longest_gap_us),
    }
}

fn whole(bytes: Option<f64>) -> Option<u64> {
    bytes.filter(|bytes| bytes.is_finite()).map(|bytes| bytes.round() as u64)
}
