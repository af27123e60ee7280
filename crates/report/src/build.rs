//! From what is known of a trial to its report.

use heaptrial_analysis::{
    ArmFigures, ArmWork, LimitKind, RatioToControl, ServiceResult, Verdict, outliers, sums_by_server,
};
use heaptrial_judgement::{Judgement, JudgementError, Trajectories};
use heaptrial_model::{About, Identity, MemorySplit, Metric};
use heaptrial_store::{ArmRecord, PartRecord, ServiceRecord, Store, TickSummary};
use serde_json::Value;

use crate::document::{
    Analysis, Arm, AsFound, AsTreated, Assignment, Consensuses, Estimate, Event, ExcludedService, Finding,
    Growth, Host, Imported, Kind, LabRun, LevelChange, Memory, MemoryLimit, Outcome, Outlier, PlannedLook,
    Ratio, Report, ReportOf, SCHEMA_VERSION, Sampler, ServerSum, Service, Source, Trial, TrialHost, Work,
};
use crate::verdict::{self, RunsOut};
use crate::{Options, ReportError, findings};

impl Report {
    /// Reports on a trial of `store`.
    pub fn from_store(store: &Store, trial_id: i64, options: &Options) -> Result<Self, ReportError> {
        Self::of(&Judgement::of(store, trial_id, options)?)
    }

    /// Reports on a trial of `store`, with the thinned series that the charts show.
    pub fn with_trajectories(
        store: &Store,
        trial_id: i64,
        options: &Options,
    ) -> Result<(Self, Trajectories), ReportError> {
        let judgement = Judgement::of(store, trial_id, options)?;
        Ok((Self::of(&judgement)?, judgement.trajectories()))
    }

    /// Reports on what is known of a trial. The same judgement gives the same report, byte for byte.
    pub fn of(judgement: &Judgement) -> Result<Self, ReportError> {
        let parts =
            Parts { judgement, lab: judgement.rows.kind.is_lab(), days: judgement.fleet.clock.has_days() };
        let services: Vec<Service> =
            judgement.placements().into_iter().map(|(index, arm, _)| parts.service(index, arm)).collect();
        let arms = (0..judgement.rows.arms.len())
            .map(|arm| parts.arm(arm, &services))
            .collect::<Result<_, ReportError>>()?;
        let mut report = parts.report(arms, services)?;
        findings::add(&mut report);
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
        // Of several hosts at once the time of the run tells nothing of what they offered.
        let cpu_count = host.cpu_count.filter(|_| rows.parts.len() < 2);
        let cpu_share = cpu_share(&services, self.judgement.duration_seconds, cpu_count);
        let findings = analysis.findings.iter().map(|finding| Finding {
            kind: finding.kind,
            severity: finding.severity,
            arms: finding.arms.iter().map(|arm| self.arm_name(*arm)).collect(),
            services: finding.services.clone(),
            evidence: finding.evidence.clone(),
            effect: finding.effect.clone(),
        });
        Ok(Report {
            schema_version: SCHEMA_VERSION,
            of: self.of(cpu_share)?,
            name: plan.name.clone(),
            started_at: self.time("start of the trial", plan.started_wall_us)?,
            duration_seconds: self.judgement.duration_seconds,
            outcome: outcome(trial.outcome.as_deref()),
            planned_seconds: plan.planned_us as f64 / 1e6,
            seed: plan.seed,
            command: plan.command.clone(),
            tool_version: plan.tool_version.clone(),
            host,
            about: About::of_parameters(&plan.parameters),
            parameters: plan.parameters.clone(),
            analysis: self.analysis(),
            arms,
            services,
            samples: self.judgement.samples,
            extremes: analysis.extremes.clone(),
            findings: findings.collect(),
            outliers: self.outliers(),
            server_sums: self.server_sums(),
            hosts: self.hosts()?,
            by_host: self.judgement.by_host.clone(),
            warnings: Vec::new(),
            unmeasured: Vec::new(),
            notes: Vec::new(),
            events: self.events()?,
        })
    }

    fn of(&self, cpu_share: Option<f64>) -> Result<ReportOf, ReportError> {
        let Judgement { rows, analysis, ticks, sampling_interval_seconds, .. } = self.judgement;
        let sampler = ticks.as_ref().map(sampler).unwrap_or_default();
        let sampling_interval_seconds = *sampling_interval_seconds;
        let self_check = analysis.self_check.filter(|check| check.noise_ratio.is_finite());
        let consensuses = self.judgement.consensuses.as_ref();
        let consensuses = consensuses.map(|clock| Consensuses { taken: clock.consensuses, pace: clock.pace });
        let lab = LabRun { repeats: rows.trial.plan.repeats, sampler, cpu_share, consensuses };
        Ok(match rows.kind {
            Kind::LabCommand => ReportOf::LabCommand(lab),
            Kind::LabTor => ReportOf::LabTor(lab),
            Kind::ImportTorutils | Kind::ImportPrometheus => {
                let imported = Imported {
                    assignment: match self.has_blocks() {
                        true => Assignment::ListedWithinServers,
                        false => Assignment::Listed,
                    },
                    sampling_interval_seconds,
                    self_check,
                    sources: self.sources(),
                };
                match rows.kind {
                    Kind::ImportPrometheus => ReportOf::ImportPrometheus(imported),
                    _ => ReportOf::ImportTorutils(imported),
                }
            }
            Kind::Field => ReportOf::Field(Trial {
                assignment: match self.judgement.analysis.randomised {
                    true => Assignment::Random,
                    false => Assignment::ByHand,
                },
                sampler,
                sampling_interval_seconds,
                self_check,
                looks: self.looks()?,
            }),
            Kind::Host => {
                let several = rows.arms.len() > 1;
                let assignment = several.then_some(Assignment::AsFound);
                ReportOf::Host(AsFound { assignment, sampler, sampling_interval_seconds })
            }
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

    fn outliers(&self) -> Vec<Outlier> {
        let named = |found: heaptrial_analysis::Outlier| Outlier {
            service: self.judgement.analysis.services[found.service].name.clone(),
            arm: self.arm_name(found.arm),
            level_bytes: found.level_bytes,
            median_bytes: found.median_bytes,
            factor: found.factor,
        };
        outliers(&self.judgement.analysis).into_iter().map(named).collect()
    }

    /// Sums of a fleet on one server without readings of before say no more than the arms do.
    fn server_sums(&self) -> Vec<ServerSum> {
        if self.lab {
            return Vec::new();
        }
        let Judgement { rows, fleet, analysis, .. } = self.judgement;
        let label = |service: &ServiceRecord| service.host().map(str::to_owned);
        let labels: Vec<Option<String>> = rows.services.iter().map(label).collect();
        let mut sums = sums_by_server(fleet, &analysis.services, &labels);
        // What is restarted at intervals anyway has no before.
        for sum in &mut sums {
            sum.compared = sum.compared.filter(|_| analysis.arms[sum.arm].sawtooth.is_none());
        }
        let several = sums.windows(2).any(|pair| pair[0].server != pair[1].server);
        if !several && sums.iter().all(|sum| sum.compared.is_none()) {
            return Vec::new();
        }
        let named = |sum: heaptrial_analysis::ServerSum| ServerSum {
            server: sum.server,
            arm: self.arm_name(sum.arm),
            services: sum.services,
            gone: sum.gone,
            last_bytes: sum.last_bytes,
            compared: sum.compared,
        };
        sums.into_iter().map(named).collect()
    }

    fn has_blocks(&self) -> bool {
        let services = &self.judgement.fleet.services;
        services.windows(2).any(|pair| pair[0].block != pair[1].block)
    }

    fn hosts(&self) -> Result<Vec<TrialHost>, ReportError> {
        let rows = &self.judgement.rows;
        let time = |what, at: Option<i64>| at.map(|at| self.time(what, at)).transpose();
        let parts = rows.parts.iter().map(|part| {
            let facts = host(&part.facts);
            let own = |service: &&ServiceRecord| service.host() == Some(part.host.as_str());
            Ok(TrialHost {
                name: part.host.clone(),
                services: rows.services.iter().filter(own).count() as u32,
                os: facts.os,
                kernel: facts.kernel,
                cpu_model: facts.cpu_model,
                cpu_count: facts.cpu_count,
                ram_bytes: facts.ram_bytes,
                started_at: self.time("start on a host", part.started_wall_us)?,
                ended_at: time("end on a host", part.ended_wall_us)?,
                last_at: time("last reading of a host", part.last.map(|tick| tick.wall_us))?,
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
        let bytes = |bytes: Option<f64>| bytes.map(|bytes| bytes as u64);
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
            memory_limit: self.days.then(|| MemoryLimit {
                service_bytes: bytes(fleet.limit.service_bytes),
                host_bytes: bytes(fleet.limit.host_bytes),
                host_available_bytes: bytes(fleet.limit.host_available_bytes),
            }),
        }
    }

    fn service(&self, index: usize, arm: usize) -> Service {
        let Judgement { rows, analysis, services, .. } = self.judgement;
        let (found, facts) = (&analysis.services[index], &services[index]);
        let record = rows.services.get(index);
        let metric = rows.trial.plan.metric;
        let off_treatment = found.off_treatment_in.iter().find(|off_treatment| off_treatment.arm == arm);
        let life = facts.life.and_then(|life| rows.lives.get(life));
        let memory = self.memory(index);
        let on_host = !self.lab;
        let excluded =
            facts.excluded.clone().or_else(|| off_treatment.map(|off_treatment| off_treatment.why.clone()));
        Service {
            name: found.name.clone(),
            arm: self.arm_name(arm),
            block: record.map_or(0, |record| record.block),
            position: record.map_or(0, |record| record.position),
            counts: excluded.is_none(),
            excluded,
            ending: life.filter(|_| self.lab).and_then(|life| life.ending.clone()),
            // Of a relay that of its last rest, as all its figures.
            age_seconds: match self.lab && self.days {
                true => found.age_seconds.or(facts.observed.map(|seen| seen.age_seconds)),
                false => facts.observed.map(|seen| seen.age_seconds).or(found.age_seconds),
            },
            readings: facts.observed.map_or(found.readings, |seen| seen.readings),
            rss_bytes_final: match metric {
                _ if self.lab => facts.rss_bytes,
                Metric::Rss => memory.as_ref().map(|memory| memory.final_bytes),
                Metric::Anon | Metric::Pss | Metric::Cgroup => None,
            },
            memory,
            anon_bytes_final: facts.anon_bytes,
            slope_bytes_per_hour: found.growth_bytes_per_day.map(|slope| slope / 24.0),
            cpu_seconds: facts.cpu_seconds,
            consensuses: facts.consensuses,
            rests: facts.rests.clone(),
            smaps: facts.smaps,
            smaps_anon_bytes: facts.smaps_anon_bytes.filter(|_| !self.lab),
            memory_split: facts.memory_split,
            start: found.start.filter(|_| on_host),
            restarts: on_host.then_some(found.restarts),
            growth_share_per_day: found.growth_log_per_day.filter(|_| self.days),
            time_average_bytes: whole(found.time_average_bytes).filter(|_| on_host),
            like: off_treatment.and_then(|off_treatment| off_treatment.like).map(|arm| self.arm_name(arm)),
            no_level: found.no_level.clone().filter(|_| facts.excluded.is_none()),
            ran: life.filter(|_| on_host).and_then(|life| Some(life.identity.as_ref()?.label())),
            memory_limit_bytes: whole(self.judgement.fleet.services[index].limit_bytes),
            work_bytes_per_second: found.work_bytes_per_second.filter(|rate| rate.is_finite()),
        }
    }

    /// The metric of a service; of one that does not count what was read of it.
    fn memory(&self, index: usize) -> Option<Memory> {
        let metric = self.judgement.rows.trial.plan.metric;
        let found: &ServiceResult = &self.judgement.analysis.services[index];
        if let Some(seen) = self.judgement.services[index].observed {
            return Some(Memory {
                metric,
                final_bytes: seen.final_bytes,
                median_bytes: whole(found.level_bytes),
                peak_bytes: seen.peak_bytes,
            });
        }
        let (final_bytes, peak_bytes) = whole(found.final_bytes).zip(whole(found.peak_bytes))?;
        Some(Memory { metric, final_bytes, median_bytes: whole(found.level_bytes), peak_bytes })
    }

    fn arm(&self, index: usize, services: &[Service]) -> Result<Arm, ReportError> {
        let Judgement { rows, fleet, analysis, arms, .. } = self.judgement;
        let (fleet_arm, record, facts) = (&fleet.arms[index], &rows.arms[index], &arms[index]);
        let result = &analysis.arms[index];
        let metric = rows.trial.plan.metric;
        let figures = &result.as_assigned;
        let memory =
            whole(figures.final_mean_bytes).zip(whole(facts.peak_bytes)).map(|(final_bytes, peak_bytes)| {
                Memory { metric, final_bytes, median_bytes: whole(figures.level_bytes), peak_bytes }
            });
        let own = services.iter().filter(|service| service.arm == fleet_arm.name);
        let counted = own.clone().filter(|service| service.counts);
        let splits: Option<Vec<MemorySplit>> = counted.map(|service| service.memory_split).collect();
        let excluded: Vec<ExcludedService> = own
            .filter_map(|service| {
                Some(ExcludedService { name: service.name.clone(), reason: service.excluded.clone()? })
            })
            .collect();
        let changes = result.level_changes.iter().filter(|change| change.factor.is_finite());
        let level_changes = changes.map(|change| {
            Ok(LevelChange {
                at: self.time("a change of level", (change.at * 1e6) as i64)?,
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
        let last_reading_at = facts
            .last_reading_at
            .filter(|_| !self.lab)
            .map(|at| self.time("the last reading of an arm", (at * 1e6) as i64))
            .transpose()?;
        let runs_out = RunsOut { limit, last_reading_at: last_reading_at.as_deref() };
        let mut arm = Arm {
            name: fleet_arm.name.clone(),
            control: fleet_arm.control,
            allocator: self.allocator(record),
            treatment: record.arm.treatment.clone(),
            // Its libraries stand beside it, those of all services.
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
            final_median_bytes: whole(figures.final_median_bytes),
            anon_bytes_final: whole(facts.anon_bytes),
            memory_split: splits.and_then(|splits| MemorySplit::mean(&splits)),
            ratio_to_control: self.ratio(figures.ratio.as_ref(), figures.services_compared),
            slope_bytes_per_hour: facts.slope_bytes_per_hour.map(|slope| slope.0),
            cpu_seconds: facts.cpu_seconds,
            consensuses: facts.consensuses,
            warnings: Vec::new(),
            list: record.source.clone(),
            age_seconds: figures.age_seconds.filter(|_| self.days),
            as_treated: result.as_treated.as_ref().map(|treated| self.as_treated(treated)),
            verdict: verdict.map(|verdict| verdict.as_str().to_owned()),
            verdict_reason: verdict.map(|verdict| {
                verdict::reason(verdict, result.growth.as_ref(), &analysis.settings, runs_out)
            }),
            verdict_as_assigned: result
                .verdict_as_assigned
                .as_ref()
                .map(|verdict| verdict.as_str().to_owned()),
            service_verdicts: result.services.clone().filter(|_| self.days),
            growth: result.growth.clone().filter(|_| self.days).and_then(finite_growth),
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
            by_day: match self.days {
                false => Vec::new(),
                true => result.by_day.iter().filter(|day| day.median_bytes.is_finite()).copied().collect(),
            },
            by_week: result.by_week.clone(),
            level_changes: level_changes.collect::<Result<_, ReportError>>()?,
            sawtooth: result.sawtooth,
            work: result.work.as_ref().map(|work| self.work(work)),
            events: (fleet.identities_proved && !self.lab).then_some(result.events),
        };
        if self.lab {
            arm.warnings = findings::of_arm(&arm, facts);
        }
        Ok(arm)
    }

    /// The spec as given. Of a trial on hosts an arm may leave services what they have.
    fn allocator(&self, record: &ArmRecord) -> String {
        match self.lab {
            true => record.arm.allocator().to_string(),
            false => record.arm.treatment.allocator.as_ref().map_or_else(String::new, ToString::to_string),
        }
    }

    fn as_treated(&self, figures: &ArmFigures) -> AsTreated {
        let final_bytes = whole(figures.final_mean_bytes);
        AsTreated {
            services: figures.services,
            final_bytes,
            rss_bytes_final: final_bytes.filter(|_| self.judgement.rows.trial.plan.metric == Metric::Rss),
            level_bytes: whole(figures.level_bytes),
            ratio_to_control: self.ratio(figures.ratio.as_ref(), figures.services_compared),
        }
    }

    fn work(&self, work: &ArmWork) -> Work {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Work {
            services: work.services,
            bytes_per_second: finite(work.bytes_per_second),
            ratio_to_control: self.ratio(work.ratio.as_ref(), work.services),
            memory_bytes_per_mb_per_second: finite(work.memory_per_mb_per_second),
            standing: work.standing,
            measures: work.measures.clone(),
            connections: finite(work.connections),
            oom_services: work.oom_services,
            oom_bytes: work.oom_bytes as u64,
            flags: work.flags.clone(),
        }
    }

    fn ratio(&self, ratio: Option<&RatioToControl>, services: u32) -> Option<Ratio> {
        ratio_of(ratio?, self.judgement.analysis.randomised, services)
    }
}

/// A ratio of so many services of an arm, with what to know about its interval.
pub(crate) fn ratio_of(ratio: &RatioToControl, randomised: bool, services: u32) -> Option<Ratio> {
    let RatioToControl { estimate, method, p_value, p_value_adjusted } = ratio;
    let estimate = finite(*estimate)?;
    let note = match (randomised, method.as_str()) {
        (_, "none") if services == 1 => Some("one service per arm: no interval"),
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

fn outcome(text: Option<&str>) -> Outcome {
    match text {
        Some("completed") => Outcome::Completed,
        Some("interrupted") => Outcome::Interrupted,
        Some("failed") => Outcome::Failed,
        _ => Outcome::Unfinished,
    }
}

/// What hosts have in common.
fn alike(parts: &[PartRecord]) -> Host {
    let mut facts = parts[0].facts.as_object().cloned().unwrap_or_default();
    facts.retain(|name, value| parts.iter().all(|part| part.facts.get(name) == Some(value)));
    host(&facts.into())
}

fn host(facts: &Value) -> Host {
    let fact = |name: &str| facts.get(name);
    let text = |name: &str| fact(name)?.as_str().filter(|text| *text != "unknown").map(str::to_owned);
    let number = |name: &str| fact(name)?.as_u64().filter(|number| *number > 0);
    Host {
        os: text("os"),
        userland: text("userland"),
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

fn sampler(ticks: &TickSummary) -> Sampler {
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
    let rise_to_come_bytes = growth.rise_to_come_bytes.filter(|rise| rise.is_finite());
    Some(Growth { share_per_day, bytes_per_day, late_over_early, rise_to_come_bytes, days, ..growth })
}
