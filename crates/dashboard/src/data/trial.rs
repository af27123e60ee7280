//! A trial, its arms, and its services as they were read last.

use std::collections::HashMap;

use heaptrial_evaluate::judgement::RESTED;
use heaptrial_evaluate::judgement::look::Begun;
use heaptrial_model::{DrawnPlan, Ending, LifeStart, Metric, TrialKind};
use heaptrial_report::embedded::ArmStyles;
use heaptrial_store::{
    ArmRecord, EventRecord, LatestSample, LookRecord, ServiceRecord, Store, Tick, TrialRecord,
};

use super::GRAVE;
use super::ticks::{interval, recent_ticks, stale_after};

use crate::DashboardError;

/// Events that are read, and as many of grave ones.
const EVENTS: u32 = 500;
const DAY_US: i64 = 24 * 3600 * 1_000_000;
/// A service of a trial that is over is gone if it was not read in this last share of the time.
const GONE_SHARE: f64 = 0.1;
/// A trial that has just begun restarts services before it reads them.
const BEGINS_WITHIN_US: i64 = 15 * 60_000_000;

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
    /// Newest first; of a gathered trial those of the host that was read last.
    pub(crate) ticks: Vec<Tick>,
    /// Of a gathered trial: when each of its hosts was read last.
    pub(crate) hosts: Vec<(String, Option<i64>)>,
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
    pub(crate) identity: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) age_seconds: Option<f64>,
    /// When it was read last.
    pub(crate) read_wall_us: Option<i64>,
    /// When the rest ended whose memory that is: what reports compare of a lab's relays that rest after each consensus.
    pub(crate) rested_wall_us: Option<i64>,
    pub(crate) condition: Condition,
    pub(crate) stale: bool,
    /// Whether its age counts from the first reading, and it may be older.
    pub(crate) may_be_older: bool,
    /// Whether its last reading is no memory of now: of a trial that runs, its newest life has ended or it was taken out; of one that
    /// is over, it was read no more long before the others.
    pub(crate) gone: bool,
}

/// Whether a service stands for its arm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// Its identity is its arm's treatment, as far as anybody checks.
    Counts,
    /// It was not proved what runs; of an import nothing is.
    Unproved,
    /// It is not what was meant to run.
    Contaminated(String),
    /// It ran what was meant to run, and a lab left it out all the same: it crashed, or was killed.
    LeftOut(String),
    Ended(Ending),
    /// It was taken out of the trial.
    Dropped,
    NeverSeen,
}

impl Trial {
    pub(crate) fn read(store: &Store, record: TrialRecord, now_us: i64) -> Result<Self, DashboardError> {
        let id = record.id;
        let arms = store.arms(id)?;
        let parts = store.parts(id)?;
        let ticks = recent_ticks(store, id, &parts)?;
        let interval_us = interval(&ticks);
        let stage = stage(&record, &ticks, interval_us, now_us);
        let latest: HashMap<i64, LatestSample> =
            store.latest(id)?.into_iter().map(|latest| (latest.service_id, latest)).collect();
        let clock = Clock { now_us, stage, stale_after_us: stale_after(interval_us) };
        let lines = store.services(id)?;
        let mut lines: Vec<Line> = lines
            .iter()
            .map(|service| line(service, &arms, latest.get(&service.id), &record, &clock))
            .collect();
        if record.plan.kind.is_lab() {
            let rested = store.at_highest(id, RESTED)?;
            // One that has not rested yet has no figure that goes with those of others.
            for line in lines.iter_mut().filter(|_| !rested.is_empty()) {
                let own = rested.iter().find(|(service_id, ..)| *service_id == line.service_id);
                line.memory_bytes = own.and_then(|(_, _, memory)| memory.level(record.plan.metric.at_once()));
                line.rested_wall_us = own.map(|(_, wall_us, _)| *wall_us);
            }
        }
        if record.plan.kind.is_on_services() {
            mark_dropped(&mut lines, &store.dropped_services(id)?);
        }
        if stage != Stage::Running && !record.plan.kind.is_lab() {
            mark_gone(&mut lines, record.plan.started_wall_us, interval_us);
        }
        Ok(Self {
            stage,
            arms,
            lines,
            ticks,
            hosts: parts.into_iter().map(|part| (part.host, part.last.map(|last| last.wall_us))).collect(),
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
        let ran = |arm| self.counted(arm).find_map(|line| line.identity.as_deref()?.split(' ').next());
        ArmStyles::of(self.arms.iter().enumerate().map(|(place, record)| (&record.arm, ran(place))))
    }

    pub(crate) fn name(&self) -> &str {
        &self.record.plan.name
    }

    pub(crate) fn is_lab(&self) -> bool {
        self.record.plan.kind.is_lab()
    }

    /// Whether others measured it, and nothing of it ran here.
    pub(crate) fn is_import(&self) -> bool {
        self.record.plan.kind.is_import()
    }

    /// Whether figures that a look would show may be shown: only of what has ended. A lab run that was killed has ended
    /// too; a trial on a fleet goes on when its agent comes back.
    pub(crate) fn may_conclude(&self) -> bool {
        match self.stage {
            Stage::Ended => true,
            Stage::Silent => self.is_lab(),
            Stage::Running => false,
        }
    }

    /// When the next look is planned, or was due.
    pub(crate) fn next_look_wall_us(&self) -> Option<i64> {
        let next = self.planned_looks_us.get(self.looks.len())?;
        Some(self.begun_wall_us? + next)
    }

    /// The metric that can be shown of single readings.
    pub(crate) fn shown_metric(&self) -> Metric {
        self.record.plan.metric.at_once()
    }

    /// Whether memory is that of ends of rests: as a lab runs, of relays that have rested once.
    pub(crate) fn rests(&self) -> bool {
        self.lines.iter().any(|line| line.rested_wall_us.is_some())
    }

    /// Services of an arm whose newest life is what it should be and has a reading.
    pub(crate) fn counted(&self, arm: usize) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.arm == arm && line.counts())
    }
}

impl Line {
    pub(crate) fn counts(&self) -> bool {
        matches!(self.condition, Condition::Counts | Condition::Unproved) && self.memory_bytes.is_some()
    }

    pub(crate) fn is_contaminated(&self) -> bool {
        matches!(self.condition, Condition::Contaminated(_))
    }

    pub(crate) fn is_left_out(&self) -> bool {
        matches!(self.condition, Condition::LeftOut(_))
    }
}

struct Clock {
    now_us: i64,
    stage: Stage,
    stale_after_us: i64,
}

fn stage(record: &TrialRecord, ticks: &[Tick], interval_us: i64, now_us: i64) -> Stage {
    if record.ended_wall_us.is_some() || record.outcome.is_some() {
        return Stage::Ended;
    }
    let fresh = match ticks.first() {
        Some(tick) => now_us - tick.wall_us <= stale_after(interval_us),
        None => now_us - record.plan.started_wall_us <= BEGINS_WITHIN_US,
    };
    if fresh { Stage::Running } else { Stage::Silent }
}

fn line(
    service: &ServiceRecord,
    arms: &[ArmRecord],
    latest: Option<&LatestSample>,
    record: &TrialRecord,
    clock: &Clock,
) -> Line {
    let arm = arms.iter().position(|arm| arm.id == service.arm_id).unwrap_or(0);
    let mut line = Line {
        service_id: service.id,
        name: service.name.clone(),
        arm,
        identity: None,
        memory_bytes: None,
        age_seconds: None,
        read_wall_us: None,
        rested_wall_us: None,
        condition: Condition::NeverSeen,
        stale: false,
        may_be_older: false,
        gone: false,
    };
    let Some(latest) = latest else { return line };
    let ended = latest.ending.is_some();
    line.identity = latest.identity.clone();
    line.may_be_older = latest.start == LifeStart::Unknown;
    line.memory_bytes = latest.level(record.plan.metric);
    line.read_wall_us = latest.rss_bytes.is_some().then_some(latest.wall_us);
    let lives = !ended && clock.stage != Stage::Ended;
    let since_us = if lives && clock.stage == Stage::Running { clock.now_us - latest.wall_us } else { 0 };
    line.age_seconds = Some(latest.age_seconds + since_us.max(0) as f64 / 1e6);
    line.stale = lives && clock.now_us - latest.wall_us > clock.stale_after_us;
    line.gone = ended && clock.stage == Stage::Running;
    line.condition = match (&latest.contamination, &latest.ending) {
        (Some(why), _) if latest.failed => Condition::LeftOut(why.clone()),
        (Some(why), _) => Condition::Contaminated(why.clone()),
        (None, Some(ending)) if !ending.is_complete() || clock.stage == Stage::Running => {
            Condition::Ended(ending.clone())
        }
        _ if latest.identity.is_none() => Condition::Unproved,
        _ => Condition::Counts,
    };
    line
}

/// What was dropped is read no more, as is meant.
fn mark_dropped(lines: &mut [Line], dropped: &[i64]) {
    for line in lines.iter_mut().filter(|line| dropped.contains(&line.service_id)) {
        line.condition = Condition::Dropped;
        (line.stale, line.gone) = (false, true);
    }
}

/// Marks services whose last reading is far from the last of all. Ticks of an import do not show how often it reads, since servers are
/// read one after the other: a share of the whole time is what counts.
fn mark_gone(lines: &mut [Line], started_us: i64, interval_us: i64) {
    let Some(last) = lines.iter().filter_map(|line| line.read_wall_us).max() else { return };
    let allowed = ((GONE_SHARE * (last - started_us) as f64) as i64).max(2 * interval_us);
    for line in lines {
        line.gone |= line.read_wall_us.is_some_and(|read| last - read > allowed);
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
