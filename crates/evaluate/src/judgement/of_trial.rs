//! What is known of a trial.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::analysis::{
    Analysis, ByHost, Finding, FindingKind, Fleet, FleetLife, RatioToControl, Settings, Severity, analyse,
    by_host, differing_hosts, ratio_of, ratio_of_arms,
};
use heaptrial_stats::median;
use heaptrial_store::{LifeRecord, Store, TickSummary};

use crate::judgement::arms::{self, ArmFacts};
use crate::judgement::bins::usual_interval;
use crate::judgement::consensuses::ConsensusClock;
use crate::judgement::facts::ServiceFacts;
use crate::judgement::lab::LabRun;
use crate::judgement::look::{PlannedLook, planned};
use crate::judgement::rows::rfc3339;
use crate::judgement::{JudgementError, Rows, Trajectories, swap};

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// In a lab run, readings at a younger age are left out of levels and slopes; `None` is the first third of the
    /// planned length of a life. Trials on hosts have [`Settings::warm_up_share`].
    pub warm_up: Option<Duration>,
    /// In a trial on hosts, the memory in bytes that each service may use (MemoryMax).
    pub memory_limit_bytes: Option<u64>,
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
    pub analysis: Analysis,
    /// One for each of [`Rows::services`].
    pub services: Vec<ServiceFacts>,
    /// One for each of [`Rows::arms`].
    pub arms: Vec<ArmFacts>,
    /// What sampling cost; `None` where others sampled.
    pub ticks: Option<TickSummary>,
    pub samples: u64,
    /// From the start to the end of a lab run, or to its last sample; of a trial on hosts from
    /// the first to the last reading.
    pub duration_seconds: f64,
    /// Usual time between two readings of a service on a host.
    pub sampling_interval_seconds: Option<f64>,
    /// Age in seconds at which warm-up ends: the chosen one of a lab run in its own seconds; elsewhere the median over arms.
    pub warm_up_seconds: f64,
    /// Of a lab run of relays, what its relays took as its clock.
    pub consensuses: Option<ConsensusClock>,
    pub looks: Vec<PlannedLook>,
    /// Of a trial over several hosts, what each arm does on each.
    pub by_host: Vec<ByHost>,
    /// Lives of lab services that are in no figure, by position of the service: charts show them.
    set_aside: HashMap<usize, FleetLife>,
}

impl Judgement {
    pub fn of(store: &Store, trial_id: i64, options: &Options) -> Result<Self, JudgementError> {
        Self::from_rows(store, Rows::read(store, trial_id)?, options)
    }

    pub fn from_rows(store: &Store, rows: Rows, options: &Options) -> Result<Self, JudgementError> {
        if rows.kind.is_lab() {
            let run = LabRun::read(store, &rows)?;
            let fleet = run.fleet(&rows, options);
            let mut analysis = analyse(&fleet, &run.settings(&rows, options));
            // What is left of an arm that failed now and then is what lived: that says nothing for it.
            for (record, _) in rows.services.iter().zip(&run.services).filter(|(_, service)| service.failed) {
                let arm = rows.arm_position(record.arm_id);
                arm.into_iter().for_each(|arm| analysis.extremes.leave_out(arm));
            }
            return Self::with(store, rows, fleet, analysis, Some(&run), options);
        }
        let rows = match options.until_us {
            Some(until_us) => rows.until(until_us),
            None => rows,
        };
        let fleet = rows.fleet(store, options)?;
        let mut analysis = analyse(&fleet, &options.settings);
        if let Some(until_us) = options.until_us {
            let until = rfc3339(store.path(), "the time after which nothing counts", until_us)?;
            // What was asked for must not be taken for what there is.
            let evidence =
                format!("readings, lives and events after {until} are excluded, as asked for (--until)");
            analysis.findings.push(Finding::new(FindingKind::EndsEarly, Severity::Caution, evidence));
        }
        Self::with(store, rows, fleet, analysis, None, options)
    }

    /// With an analysis of the fleet of these rows, such as that of a look; `run` is that of a lab.
    pub(crate) fn with(
        store: &Store,
        rows: Rows,
        fleet: Fleet,
        mut analysis: Analysis,
        run: Option<&LabRun>,
        options: &Options,
    ) -> Result<Self, JudgementError> {
        let ticks = match rows.kind.is_import() {
            true => None,
            false => Some(store.tick_summary(rows.trial.id)?),
        };
        let (by_host, services) = match run {
            // Blocks on nodes of a cluster.
            Some(run) => {
                let by_kind = rows.by_node_kind(&fleet);
                let by_kind = by_kind.map_or_else(Vec::new, |by_kind| by_host(&by_kind, &analysis));
                (by_kind, run.facts(store, &rows)?)
            }
            None => {
                analysis.findings.extend(rows.hosts_missing());
                analysis.findings.extend(rows.not_started());
                analysis.findings.extend(rows.assigned_by_hand());
                analysis.findings.extend(rows.readings_missing(store, &fleet)?);
                analysis.findings.extend(swap::finding(store, &rows)?);
                (by_host(&fleet, &analysis), ServiceFacts::on_hosts(store, &rows)?)
            }
        };
        analysis.findings.extend(differing_hosts(&fleet, &by_host));
        analysis.findings.extend(rows.several_builds());
        // What is missing a reader must know before all else.
        analysis.findings.sort_by_key(|finding| (finding.severity, finding.kind != FindingKind::DataMissing));
        let read = || lives(&fleet).map(|life| life.readings.len() as u64).sum();
        Ok(Self {
            database: store.path().to_owned(),
            arms: arms::of(&rows, &analysis, &services),
            samples: run.and(ticks).map_or_else(read, |ticks| ticks.samples),
            ticks: ticks.map(|ticks| if run.is_some() { ticks } else { ticks.of_one(rows.parts.len()) }),
            by_host,
            duration_seconds: match run {
                Some(run) => run.duration_seconds(&rows),
                None => duration_seconds(&fleet),
            },
            // Ages are held to about a second; the interval is a round number.
            sampling_interval_seconds: usual_interval(&fleet).map(f64::round),
            looks: planned(store, &rows.trial)?,
            warm_up_seconds: match run.filter(|_| !fleet.clock.has_days()) {
                Some(run) => run.warm_up_seconds(&rows, options),
                None => warm_up_seconds(&analysis),
            },
            consensuses: run.and_then(LabRun::consensuses),
            set_aside: run.map_or_else(HashMap::new, |run| run.set_aside(&rows)),
            services,
            fleet,
            analysis,
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
        if self.set_aside.is_empty() {
            return Trajectories::of(&self.fleet, &placements, self.analysis.ages_are_lower_bounds);
        }
        let mut fleet = self.fleet.clone();
        for (index, life) in &self.set_aside {
            fleet.services[*index].lives = vec![life.clone()];
        }
        Trajectories::of(&fleet, &placements, self.analysis.ages_are_lower_bounds)
    }

    /// The memory of one arm in proportion to that of another, over services that belong to them.
    pub fn ratio_of(&self, over: usize, under: usize) -> Option<RatioToControl> {
        ratio_of_arms(&self.fleet, &self.analysis, over, under)
    }

    /// The processor time of an arm's services in proportion to that of the control's, each for as long as its process was there; of a
    /// trial on services. `None` where the database does not say it.
    pub fn cpu_ratio(&self, store: &Store, arm: usize) -> Result<Option<RatioToControl>, JudgementError> {
        let Some(control) = self.fleet.control() else { return Ok(None) };
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
        let (control, treated) = (self.analysis.members(control), self.analysis.members(arm));
        Ok(ratio_of(&self.fleet, &self.analysis.settings, &|index| shares[index], &control, &treated))
    }

    /// A time in microseconds since 1970 as RFC 3339 in UTC. `what` it is stands in the
    /// error for one outside the calendar.
    pub fn time(&self, what: &'static str, microseconds: i64) -> Result<String, JudgementError> {
        rfc3339(&self.database, what, microseconds)
    }
}

fn lives(fleet: &Fleet) -> impl Iterator<Item = &FleetLife> {
    fleet.services.iter().flat_map(|service| &service.lives)
}

fn warm_up_seconds(analysis: &Analysis) -> f64 {
    let growth = analysis.arms.iter().filter_map(|arm| arm.growth.as_ref());
    median(&growth.map(|growth| growth.warm_up_seconds).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// From the first to the last reading.
fn duration_seconds(fleet: &Fleet) -> f64 {
    let first =
        lives(fleet).filter_map(|life| Some(life.started_at + f64::from(life.readings.first()?.age_seconds)));
    let last = lives(fleet).filter_map(FleetLife::last_at);
    (last.fold(f64::NEG_INFINITY, f64::max) - first.fold(f64::INFINITY, f64::min)).max(0.0)
}
