//! What is known of a trial.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::analysis::{
    Analysis, ByHost, Finding, FindingKind, Fleet, FleetLife, RatioToControl, Settings, Severity, analyse,
    by_host, differing_hosts, ratio_of, ratio_of_arms,
};
use heaptrial_model::{MemorySplit, Metric, SlowSample};
use heaptrial_stats::median;
use heaptrial_store::{LifeRecord, ServiceRecord, Store, TickSummary};

use crate::judgement::arms::{self, ArmFacts};
use crate::judgement::consensuses::{ConsensusClock, Taken};
use crate::judgement::facts::{Observed, ServiceFacts};
use crate::judgement::lab::LabRun;
use crate::judgement::look::{PlannedLook, planned};
use crate::judgement::rows::rfc3339;
use crate::judgement::{JudgementError, Rows, Trajectories, swap};

/// Services of which the time between readings is looked at.
const SERVICES_TIMED: usize = 200;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// In a lab run, readings at a younger age are left out of levels and slopes; `None` is the first third of the
    /// planned length of a life. Trials on hosts have [`Settings::warm_up_share`].
    pub warm_up: Option<Duration>,
    /// In a trial on hosts, the memory in bytes that each service may use (MemoryMax).
    pub memory_limit_bytes: Option<u64>,
    /// How the fleet is analysed.
    pub settings: Settings,
    /// In a trial on hosts, what came after this time, in microseconds since 1970, is left out.
    pub until_us: Option<i64>,
}

/// A trial with its fleet, its analysis, and what no analysis needs.
#[derive(Debug)]
pub struct Judgement {
    pub database: PathBuf,
    pub rows: Rows,
    pub fleet: Fleet,
    /// What is said of it.
    pub analysis: Analysis,
    /// One for each of [`Rows::services`].
    pub services: Vec<ServiceFacts>,
    /// One for each of [`Rows::arms`].
    pub arms: Vec<ArmFacts>,
    /// What sampling cost; `None` where others sampled.
    pub ticks: Option<TickSummary>,
    pub samples: u64,
    /// From the start to the end of a lab run, or to its last sample; of a trial on hosts from the first to the last
    /// reading.
    pub duration_seconds: f64,
    /// Usual time between two readings of a service on a host.
    pub sampling_interval_seconds: Option<f64>,
    /// Age in seconds at which warm-up ends: the chosen one of a lab run in its own seconds; elsewhere the median over arms.
    pub warm_up_seconds: f64,
    /// Of a lab run of relays, what its relays took as its clock.
    pub consensuses: Option<ConsensusClock>,
    /// The looks that the plan fixed in advance.
    pub looks: Vec<PlannedLook>,
    /// Of a trial over several hosts, what each arm does on each.
    pub by_host: Vec<ByHost>,
    /// Lives of lab services that are in no figure, by position of the service: charts show them.
    set_aside: HashMap<usize, FleetLife>,
}

impl Judgement {
    /// Judges a trial of `store`.
    pub fn of(store: &Store, trial_id: i64, options: &Options) -> Result<Self, JudgementError> {
        Self::from_rows(store, Rows::read(store, trial_id)?, options)
    }

    /// Judges the trial of these rows.
    pub fn from_rows(store: &Store, rows: Rows, options: &Options) -> Result<Self, JudgementError> {
        if rows.kind.is_lab() {
            return Self::of_lab(store, rows, options);
        }
        let rows = match options.until_us {
            Some(until_us) => rows.until(until_us),
            None => rows,
        };
        let fleet = rows.fleet(store, options)?;
        let mut analysis = analyse(&fleet, &options.settings);
        if let Some(until_us) = options.until_us {
            let until = rfc3339(store.path(), "the time after which nothing counts", until_us)?;
            analysis.findings.push(left_out_after(&until));
        }
        Self::from_fleet(store, rows, fleet, analysis)
    }

    fn of_lab(store: &Store, rows: Rows, options: &Options) -> Result<Self, JudgementError> {
        let run = LabRun::read(store, &rows)?;
        let fleet = run.fleet(&rows, options);
        let settings = run.settings(&rows, options);
        let mut analysis = analyse(&fleet, &settings);
        // What is left of an arm that failed now and then is what lived: that says nothing for it.
        for (record, _) in rows.services.iter().zip(&run.services).filter(|(_, service)| service.failed) {
            let arm = rows.arms.iter().position(|arm| arm.id == record.arm_id);
            arm.into_iter().for_each(|arm| analysis.extremes.leave_out(arm));
        }
        // Blocks on nodes of a cluster.
        let by_kind = rows.by_node_kind(&fleet);
        let by_host = by_kind.map_or_else(Vec::new, |by_kind| by_host(&by_kind, &analysis));
        analysis.findings.extend(differing_hosts(&fleet, &by_host));
        analysis.findings.extend(rows.builds_by_host());
        let settled = run.warm_up_seconds(&rows, options);
        let mut services = Vec::with_capacity(run.services.len());
        let mut set_aside = HashMap::new();
        for (index, service) in run.services.iter().enumerate() {
            // Of relays that rest, at the end of their last one.
            let rested = service.taken.as_ref().and_then(|taken| taken.rests.last());
            let until = rested.map_or(f64::INFINITY, |rest| rest.age_seconds);
            let last = service.series.iter().rfind(|point| point.age_seconds <= until);
            // The lab reads from the start of a life on.
            let by_kernel = match service.life {
                Some(life) => store.peak_by_kernel(rows.lives[life].id, rows.trial.plan.metric)?,
                None => None,
            };
            let slow = last_slow(store, &rows, service.life)?;
            services.push(ServiceFacts {
                life: service.life,
                excluded: service.excluded.clone(),
                left_out_proved: service.excluded.is_some() && service.proved,
                observed: last.map(|last| Observed {
                    age_seconds: last.age_seconds,
                    readings: service.series.len() as u64,
                    final_bytes: last.metric_bytes,
                    peak_bytes: match &service.taken {
                        // The kernel's has what came after the last rest too.
                        Some(taken) if !taken.rests.is_empty() => {
                            taken.rests.iter().map(|rest| rest.peak_bytes).max().unwrap_or(0)
                        }
                        _ => {
                            let read = service.series.iter().map(|point| point.metric_bytes);
                            read.chain(by_kernel).max().unwrap_or(0)
                        }
                    },
                }),
                rss_bytes: last.map(|point| point.rss_bytes),
                anon_bytes: last.map(|point| point.anon_bytes),
                cpu_seconds: last.map(|point| point.cpu_us as f64 / 1e6),
                smaps: slow.map(|(smaps, _)| smaps),
                smaps_anon_bytes: slow.and_then(|(_, anon_bytes)| anon_bytes),
                memory_split: last_split(store, &rows, service.life)?,
                consensuses: service.taken.as_ref().map(Taken::last),
                rests: service.taken.as_ref().map_or_else(Vec::new, |taken| taken.rests.clone()),
            });
            if service.excluded.is_some() {
                set_aside.extend(service.fleet_life(&rows, &fleet).map(|life| (index, life)));
            }
        }
        let ticks = store.tick_summary(rows.trial.id)?;
        let start = rows.trial.plan.started_wall_us;
        let last = |service: &crate::judgement::lab::LabService| {
            let life = rows.lives.get(service.life?)?;
            Some((life.started_wall_us - start) as f64 / 1e6 + service.last_age()?)
        };
        let duration_seconds = match rows.trial.ended_wall_us {
            Some(end) => (end - start) as f64 / 1e6,
            None => run.services.iter().filter_map(last).fold(0.0, f64::max),
        };
        Ok(Self {
            database: store.path().to_owned(),
            arms: arms::of(&rows, &analysis, &fleet, &services),
            warm_up_seconds: if fleet.clock.has_days() { warm_up_seconds(&analysis) } else { settled },
            consensuses: run.consensuses(),
            fleet,
            analysis,
            services,
            samples: ticks.samples,
            ticks: Some(ticks),
            duration_seconds,
            sampling_interval_seconds: None,
            looks: Vec::new(),
            by_host,
            set_aside,
            rows,
        })
    }

    /// With an analysis of the fleet of these rows, such as that of a look.
    pub(crate) fn from_fleet(
        store: &Store,
        rows: Rows,
        fleet: Fleet,
        mut analysis: Analysis,
    ) -> Result<Self, JudgementError> {
        let by_host = by_host(&fleet, &analysis);
        analysis.findings.extend(differing_hosts(&fleet, &by_host));
        analysis.findings.extend(rows.hosts_missing());
        analysis.findings.extend(rows.not_started());
        analysis.findings.extend(rows.assigned_by_hand());
        analysis.findings.extend(rows.builds_by_host());
        analysis.findings.extend(rows.several_builds());
        analysis.findings.extend(rows.readings_missing(store, &fleet)?);
        analysis.findings.extend(swap::finding(store, &rows)?);
        analysis.findings.sort_by_key(|finding| (finding.severity, !tells_what_is_missing(finding.kind)));
        let imported = rows.kind.is_import();
        let anon = match rows.kind {
            crate::judgement::Kind::ImportTorutils => HashMap::new(),
            _ => last_anon(store, &rows)?,
        };
        let facts = |record: &ServiceRecord| {
            let life = rows.lives.iter().rposition(|life| life.service_id == record.id);
            let slow = last_slow(store, &rows, life)?;
            Ok(ServiceFacts {
                life,
                anon_bytes: anon.get(&record.id).copied(),
                smaps: slow.map(|(smaps, _)| smaps),
                smaps_anon_bytes: slow.and_then(|(_, anon_bytes)| anon_bytes),
                ..ServiceFacts::default()
            })
        };
        let services = rows.services.iter().map(facts).collect::<Result<Vec<_>, JudgementError>>()?;
        Ok(Self {
            database: store.path().to_owned(),
            arms: arms::of(&rows, &analysis, &fleet, &services),
            samples: lives(&fleet).map(|life| life.readings.len() as u64).sum(),
            ticks: if imported {
                None
            } else {
                Some(store.tick_summary(rows.trial.id)?.of_one(rows.parts.len()))
            },
            by_host,
            duration_seconds: duration_seconds(&fleet),
            sampling_interval_seconds: sampling_interval(&fleet),
            looks: planned(store, &rows.trial)?,
            warm_up_seconds: warm_up_seconds(&analysis),
            consensuses: None,
            services,
            fleet,
            analysis,
            set_aside: HashMap::new(),
            rows,
        })
    }

    /// Service, arm, and whether the service does not count in it, in the order of a report: one that was put into
    /// several arms comes once for each.
    pub fn placements(&self) -> Vec<(usize, usize, bool)> {
        let services = self.analysis.services.iter().enumerate();
        services
            .flat_map(|(index, service)| {
                let excluded = self.services[index].excluded.is_some();
                service.arms.iter().map(move |arm| (index, *arm, excluded || !service.belongs_to(*arm)))
            })
            .collect()
    }

    /// The thinned series of [`Self::placements`], for charts.
    pub fn trajectories(&self) -> Trajectories {
        let placements = self.placements();
        if !self.rows.kind.is_lab() {
            return Trajectories::thin_fleet(&self.fleet, &placements, self.analysis.ages_are_lower_bounds);
        }
        let readings = |index: usize| {
            let life = self.set_aside.get(&index).or_else(|| self.fleet.services[index].current());
            life.map_or(&[][..], |life| life.readings.as_slice())
        };
        Trajectories::thin(placements.iter().map(|(index, arm, _)| (*arm, readings(*index))))
    }

    /// The memory of one arm in proportion to that of another, over services that belong to them.
    pub fn ratio_of(&self, over: usize, under: usize) -> Option<RatioToControl> {
        ratio_of_arms(&self.fleet, &self.analysis, over, under)
    }

    /// The processor time of an arm's services in proportion to that of the control's, each for as long as its process was there; of a
    /// trial on services. `None` where the database does not tell it.
    pub fn cpu_ratio(&self, store: &Store, arm: usize) -> Result<Option<RatioToControl>, JudgementError> {
        let Some(control) = self.fleet.arms.iter().position(|arm| arm.control) else { return Ok(None) };
        let mut shares: Vec<Option<f64>> = Vec::new();
        for service in &self.rows.services {
            let own = |life: &&LifeRecord| life.service_id == service.id && life.contamination.is_none();
            // What a start takes weighs as much as the time that it is of.
            let (mut ages, mut took) = (0.0, 0.0);
            for life in self.rows.lives.iter().filter(own) {
                if let Some((age, cpu_seconds)) = store.last_cpu(life)? {
                    (ages, took) = (ages + age, took + cpu_seconds);
                }
            }
            shares.push((ages > 0.0).then(|| took / ages));
        }
        let members = |arm: usize| self.analysis.members(arm);
        let (control, treated) = (members(control), members(arm));
        Ok(ratio_of(&self.fleet, &self.analysis.settings, &|index| shares[index], &control, &treated))
    }

    /// A time in microseconds since 1970 as RFC 3339 in UTC. `what` it is stands in the error for one outside the
    /// calendar.
    pub fn time(&self, what: &'static str, microseconds: i64) -> Result<String, JudgementError> {
        rfc3339(&self.database, what, microseconds)
    }
}

/// What was asked for must not be taken for what there is.
fn left_out_after(until: &str) -> Finding {
    Finding {
        kind: FindingKind::LeftOutAfter,
        severity: Severity::Caution,
        arms: Vec::new(),
        services: Vec::new(),
        evidence: format!("readings, lives and events after {until} are excluded, as asked for (--until)"),
    }
}

/// What a reader must know before all else.
fn tells_what_is_missing(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::HostsMissing | FindingKind::ReadingsMissing)
}

fn lives(fleet: &Fleet) -> impl Iterator<Item = &FleetLife> {
    fleet.services.iter().flat_map(|service| &service.lives)
}

/// The last expensive reading of a life that counts, with RssAnon in bytes at that time.
fn last_slow(
    store: &Store,
    rows: &Rows,
    life: Option<usize>,
) -> Result<Option<(SlowSample, Option<u64>)>, JudgementError> {
    let Some(life) = life else { return Ok(None) };
    Ok(store.last_slow_sample(rows.lives[life].id, rows.until_us)?)
}

/// Where the memory of a life was at its end.
fn last_split(
    store: &Store,
    rows: &Rows,
    life: Option<usize>,
) -> Result<Option<MemorySplit>, JudgementError> {
    let Some(life) = life else { return Ok(None) };
    let mut parts = [0; 4];
    for (part, name) in parts.iter_mut().zip(MemorySplit::OBSERVATIONS) {
        let Some((_, bytes)) = store.observations(&rows.lives[life], name)?.pop() else { return Ok(None) };
        *part = bytes as u64;
    }
    Ok(Some(MemorySplit::from_parts(parts)))
}

/// RssAnon in bytes at the last sample of the trial, by row id of the service.
fn last_anon(store: &Store, rows: &Rows) -> Result<HashMap<i64, u64>, JudgementError> {
    let mut found = HashMap::new();
    let mut late = Vec::new();
    for latest in store.latest(rows.trial.id)? {
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

fn warm_up_seconds(analysis: &Analysis) -> f64 {
    let growth = analysis.arms.iter().filter_map(|arm| arm.growth.as_ref());
    median(&growth.map(|growth| growth.warm_up_seconds).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// From the first to the last reading.
fn duration_seconds(fleet: &Fleet) -> f64 {
    let first =
        lives(fleet).filter_map(|life| Some(life.started_at + f64::from(life.readings.first()?.age_seconds)));
    let last = lives(fleet).filter_map(|life| Some(life.started_at + life.last_age()?));
    (last.fold(f64::NEG_INFINITY, f64::max) - first.fold(f64::INFINITY, f64::min)).max(0.0)
}

fn sampling_interval(fleet: &Fleet) -> Option<f64> {
    let every = fleet.services.len().div_ceil(SERVICES_TIMED).max(1);
    let usual = |life: &FleetLife| {
        let pairs = life.readings.windows(2);
        let distances: Vec<f64> =
            pairs.map(|pair| f64::from(pair[1].age_seconds - pair[0].age_seconds)).collect();
        median(&distances)
    };
    let intervals: Vec<f64> =
        fleet.services.iter().step_by(every).filter_map(|service| usual(service.current()?)).collect();
    // Ages are held to about a second; the interval is a round number.
    median(&intervals).map(f64::round)
}
