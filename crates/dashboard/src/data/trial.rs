//! A trial, its arms, and its services as they were read last.

use std::collections::HashMap;

use heaptrial_evaluate::judgement::look::Begun;
use heaptrial_evaluate::judgement::middle;
use heaptrial_model::{DrawnPlan, Ending, LifeStart, Metric, TrialKind};
use heaptrial_report::embedded::ArmStyles;
use heaptrial_store::{
    ArmRecord, EventRecord, LatestSample, LookRecord, ServiceRecord, Store, Tick, TrialRecord,
};

use super::GRAVE;
use crate::DashboardError;

/// Events that are read, and as many of grave ones.
const EVENTS: u32 = 200;
const DAY_US: i64 = 24 * 3600 * 1_000_000;
/// A trial that has just begun restarts services before it reads them.
const BEGINS_WITHIN_US: i64 = 15 * 60_000_000;
/// Ticks from which the usual time between two is taken.
const TICKS: u32 = 30;
/// Where there are no two ticks yet.
const USUAL_INTERVAL_US: i64 = 60_000_000;
/// A reading older than this many intervals is stale, if it is also older than the next.
const STALE_AFTER_INTERVALS: i64 = 3;
const STALE_AFTER_US: i64 = 10_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    /// No end is recorded, but nothing is read any more.
    Silent,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) record: TrialRecord,
    pub(crate) stage: Stage,
    pub(crate) arms: Vec<ArmRecord>,
    pub(crate) lines: Vec<Line>,
    /// The last tick; of a gathered trial that of the host that was read last.
    pub(crate) last_read_us: Option<i64>,
    pub(crate) looks: Vec<LookRecord>,
    /// From when on its duration and looks count, in microseconds since 1970; `None` before all services have their treatment.
    pub(crate) begun_wall_us: Option<i64>,
    /// Looks fixed in advance, as microseconds since then.
    pub(crate) planned_looks_us: Vec<i64>,
    /// The last ones, newest first.
    pub(crate) events: Vec<EventRecord>,
    /// How many there are in all, and how many of the last day.
    pub(crate) event_counts: (usize, usize),
}

/// A service as it was read last.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) service_id: i64,
    pub(crate) name: String,
    pub(crate) arm: usize,
    /// Its newest life, with its last reading.
    pub(crate) latest: Option<LatestSample>,
    /// What its trial compares of that reading.
    pub(crate) memory_bytes: Option<u64>,
    /// Now while it lives, else when it was read last.
    pub(crate) age_seconds: Option<f64>,
    /// How its newest life ended, where it ended before it was meant to.
    pub(crate) ended: Option<Ending>,
    /// Whether a person took it out of the trial.
    pub(crate) is_dropped: bool,
    pub(crate) is_stale: bool,
}

impl Trial {
    pub(crate) fn read(store: &Store, record: TrialRecord, now_us: i64) -> Result<Self, DashboardError> {
        let id = record.id;
        let arms = store.arms(id)?;
        let parts = store.parts(id)?;
        let ticks = store.recent_ticks(id, TICKS)?;
        // Ticks of a gathered trial are numbered host by host.
        let gathered = parts.iter().filter_map(|part| Some(part.last?.wall_us)).max();
        let last_read_us = gathered.or(ticks.first().map(|tick| tick.wall_us));
        let stale_after_us = (STALE_AFTER_INTERVALS * interval(&ticks)).max(STALE_AFTER_US);
        let clock =
            Clock { now_us, stage: stage(&record, last_read_us, stale_after_us, now_us), stale_after_us };
        let mut latest: HashMap<i64, LatestSample> =
            store.latest(id)?.into_iter().map(|latest| (latest.service_id, latest)).collect();
        let dropped = store.dropped_services(id)?;
        let services = store.services(id)?.into_iter();
        let lines = services.map(|service| {
            let arm = arms.iter().position(|arm| arm.id == service.arm_id).unwrap_or(0);
            let is_dropped = dropped.contains(&service.id);
            let latest = latest.remove(&service.id);
            line(service, arm, latest, is_dropped, record.plan.metric, &clock)
        });
        Ok(Self {
            stage: clock.stage,
            lines: lines.collect(),
            arms,
            last_read_us,
            looks: store.looks(id)?,
            begun_wall_us: begun(store, &record)?,
            planned_looks_us: {
                let looks = record.drawn.iter().flat_map(DrawnPlan::looks_or_end);
                looks.map(|look| look.0.as_micros() as i64).collect()
            },
            events: store.recent_events_and(id, EVENTS, &GRAVE)?,
            event_counts: store.count_events(id, now_us - DAY_US)?,
            record,
        })
    }

    pub(crate) fn styles(&self) -> ArmStyles {
        let ran = |arm| self.counted(arm).find_map(|line| line.identity()?.split(' ').next());
        ArmStyles::of(self.arms.iter().enumerate().map(|(place, record)| (&record.arm, ran(place))))
    }

    pub(crate) fn name(&self) -> &str {
        &self.record.plan.name
    }

    /// Whether figures that a look would show may be shown: only of what has ended. A lab run that was killed has ended
    /// too; a trial on a fleet goes on when its agent comes back.
    pub(crate) fn may_conclude(&self) -> bool {
        match self.stage {
            Stage::Ended => true,
            Stage::Silent => self.record.plan.kind.is_lab(),
            Stage::Running => false,
        }
    }

    /// When the next look is planned, or was due.
    pub(crate) fn next_look_wall_us(&self) -> Option<i64> {
        let next = self.planned_looks_us.get(self.looks.len())?;
        Some(self.begun_wall_us? + next)
    }

    /// Services of an arm whose newest life is what it should be and has a reading.
    pub(crate) fn counted(&self, arm: usize) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.arm == arm && line.counts() && line.memory_bytes.is_some())
    }
}

impl Line {
    /// Whether it stands for its arm, as far as anybody checks.
    pub(crate) fn counts(&self) -> bool {
        let is_excluded = self.latest.as_ref().is_none_or(|latest| latest.contamination.is_some());
        self.ended.is_none() && !self.is_dropped && !is_excluded
    }

    /// Why it does not count though it ran what was meant to run: in a lab it crashed, or was killed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.latest.as_ref().filter(|latest| latest.failed)?.contamination.as_deref()
    }

    /// How what runs differs from what was meant to run.
    pub(crate) fn contamination(&self) -> Option<&str> {
        self.latest.as_ref().filter(|latest| !latest.failed)?.contamination.as_deref()
    }

    /// Family and version of the allocator that was proved.
    pub(crate) fn identity(&self) -> Option<&str> {
        self.latest.as_ref()?.identity.as_deref()
    }

    pub(crate) fn read_wall_us(&self) -> Option<i64> {
        self.latest.as_ref().filter(|latest| latest.rss_bytes.is_some()).map(|latest| latest.wall_us)
    }

    /// Whether its age counts from the first reading.
    pub(crate) fn may_be_older(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| latest.start == LifeStart::Unknown)
    }
}

struct Clock {
    now_us: i64,
    stage: Stage,
    stale_after_us: i64,
}

fn stage(record: &TrialRecord, last_read_us: Option<i64>, stale_after_us: i64, now_us: i64) -> Stage {
    let is_fresh = match last_read_us {
        Some(read) => now_us - read <= stale_after_us,
        None => now_us - record.plan.started_wall_us <= BEGINS_WITHIN_US,
    };
    match record.ended_wall_us.is_some() || record.outcome.is_some() {
        true => Stage::Ended,
        false if is_fresh => Stage::Running,
        false => Stage::Silent,
    }
}

/// The usual time between two ticks, which are newest first.
fn interval(ticks: &[Tick]) -> i64 {
    let distances = ticks.windows(2).map(|pair| (pair[0].wall_us - pair[1].wall_us).max(0) as f64);
    middle(&distances.collect::<Vec<_>>()).map_or(USUAL_INTERVAL_US, |middle| middle as i64)
}

fn line(
    service: ServiceRecord,
    arm: usize,
    latest: Option<LatestSample>,
    is_dropped: bool,
    metric: Metric,
    clock: &Clock,
) -> Line {
    let is_sampled = clock.stage != Stage::Ended && !is_dropped;
    let since_us = |latest: &LatestSample| match latest.ending {
        None if is_sampled => (clock.now_us - latest.wall_us).max(0),
        _ => 0,
    };
    let age_seconds = |latest: &LatestSample| match clock.stage {
        Stage::Running => latest.age_seconds + since_us(latest) as f64 / 1e6,
        Stage::Silent | Stage::Ended => latest.age_seconds,
    };
    let is_early = |ending: &Ending| !ending.is_complete() || clock.stage == Stage::Running;
    Line {
        service_id: service.id,
        name: service.name,
        arm,
        memory_bytes: latest.as_ref().and_then(|latest| latest.level(metric)),
        age_seconds: latest.as_ref().map(age_seconds),
        ended: latest.as_ref().and_then(|latest| latest.ending.clone()).filter(is_early),
        is_stale: latest.as_ref().is_some_and(|latest| since_us(latest) > clock.stale_after_us),
        is_dropped,
        latest,
    }
}

/// From when on the duration of a trial counts: of one that treats services from when the last one had its treatment.
fn begun(store: &Store, record: &TrialRecord) -> Result<Option<i64>, DashboardError> {
    if record.plan.kind != TrialKind::Field {
        return Ok(Some(record.plan.started_wall_us));
    }
    let begun = Begun::read(store, record)?;
    Ok((begun.open.is_empty() || record.ended_wall_us.is_some()).then_some(begun.at_us))
}
