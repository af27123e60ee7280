//! One service: its ledger and its memory.

use heaptrial_model::{LifeStart, Metric, Reading, TrialKind};
use heaptrial_report::LifeSeries;
use heaptrial_store::{EventRecord, LifeRecord, Readings, ServiceRecord, Store};

use super::{Stage, Trial};
use crate::DashboardError;

/// The attribute with which an import says how it found the start of each life.
const STARTS: &str = "starts";

/// Lives whose readings are shown.
const LIVES_DRAWN: usize = 40;

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) trial: Trial,
    pub(crate) record: ServiceRecord,
    pub(crate) lives: Vec<Life>,
    /// Oldest first, of the newest lives.
    pub(crate) series: Vec<LifeSeries>,
    pub(crate) metric: Metric,
    pub(crate) events: Vec<EventRecord>,
}

#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) record: LifeRecord,
    pub(crate) end: LifeEnd,
    /// When it was read last.
    pub(crate) read_wall_us: Option<i64>,
    /// How old it was then, microseconds of the boot clock.
    read_age_us: Option<i64>,
    /// How the start was found, where it is not read from the kernel.
    pub(crate) start_found: Option<String>,
}

/// How far a life went. Who imports readings records no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifeEnd {
    Ended(i64),
    /// It ended between its last reading and then, when the next life of the service began.
    BeforeNext(i64),
    /// Nothing was read any more: the trial is over, or nobody samples it.
    Unknown,
    Lives,
}

impl Service {
    /// The service of this name in the trial `within`, or in the newest trial that has and reads it.
    pub(crate) fn find(
        store: &Store,
        name: &str,
        within: Option<i64>,
        now_us: i64,
    ) -> Result<Option<Self>, DashboardError> {
        let mut found = Vec::new();
        for trial in store.trials()?.into_iter().rev().filter(|trial| within.is_none_or(|id| trial.id == id))
        {
            if let Some(service) = store.services(trial.id)?.into_iter().find(|service| service.name == name)
            {
                // What was taken out of a trial under way may be sampled by another.
                let is_dropped = store.dropped_services(trial.id)?.contains(&service.id);
                let is_over = trial.ended_wall_us.is_some();
                found.push(((is_over, is_dropped, trial.plan.kind == TrialKind::Host), trial, service));
            }
        }
        found.sort_by_key(|(rank, ..)| *rank);
        let Some((_, trial, record)) = found.into_iter().next() else { return Ok(None) };
        let trial = Trial::read(store, trial, now_us)?;
        let mut events = store.events(trial.record.id)?;
        events.retain(|event| event.service_id == Some(record.id));
        let mut lives = Vec::new();
        let starts = record.attributes.as_ref().and_then(|attributes| attributes.get(STARTS)?.as_array());
        let own = store.lives(trial.record.id)?.into_iter().filter(|life| life.service_id == record.id);
        let own: Vec<LifeRecord> = own.collect();
        for (index, life) in own.iter().enumerate() {
            let read = store.last_tick_of_life(life.id)?;
            let next = own.get(index + 1).map(|next| next.started_wall_us);
            let end = match (life.ended_wall_us, next) {
                (Some(ended), _) => LifeEnd::Ended(ended),
                (None, Some(next)) => LifeEnd::BeforeNext(next),
                (None, None) if trial.stage == Stage::Running && life.ending.is_none() => LifeEnd::Lives,
                (None, None) => LifeEnd::Unknown,
            };
            let found = starts.and_then(|starts| starts.get(index)?.as_str()).map(str::to_owned);
            lives.push(Life {
                end,
                read_wall_us: read.map(|tick| tick.wall_us),
                read_age_us: read.map(|tick| tick.boottime_us - life.started_boottime_us),
                start_found: found,
                record: life.clone(),
            });
        }
        let metric = trial.record.plan.metric;
        let readings = Readings::of_trial(store, trial.record.id, metric)?;
        let mut series = Vec::new();
        for life in &lives[lives.len().saturating_sub(LIVES_DRAWN)..] {
            let points = readings.of_life(store, life.record.id, life.record.started_boottime_us)?;
            let point = |reading: &Reading| (f64::from(reading.age_seconds), f64::from(reading.kib) * 1024.0);
            series.push(LifeSeries {
                started_at: life.started_wall_us() as f64 / 1e6,
                label: life.label(),
                contaminated: life.record.contamination.is_some() && !life.record.failed,
                points: points.iter().map(point).collect(),
                rolled_up_seconds: store.rolled_up_seconds(life.record.id)?,
            });
        }
        lives.reverse();
        events.reverse();
        Ok(Some(Self { trial, record, lives, series, metric, events }))
    }
}

impl Life {
    /// How old it became, or was when it was read last, in seconds of the boot clock.
    pub(crate) fn age_seconds(&self, now_us: i64) -> f64 {
        let ended = self.record.ended_boottime_us.map(|ended| ended - self.record.started_boottime_us);
        let age_us = match self.end {
            LifeEnd::Ended(_) => ended,
            LifeEnd::Lives => Some(now_us - self.started_wall_us()),
            LifeEnd::BeforeNext(_) | LifeEnd::Unknown => self.read_age_us,
        };
        age_us.unwrap_or(0).max(0) as f64 / 1e6
    }

    /// When it began, by the wall clock of its last reading: that may have been set since.
    fn started_wall_us(&self) -> i64 {
        match (self.read_wall_us, self.read_age_us) {
            (Some(read), Some(age)) => read - age,
            _ => self.record.started_wall_us,
        }
    }

    /// Whether its age counts from the first reading, and it may be older.
    pub(crate) fn may_be_older(&self) -> bool {
        self.record.start == LifeStart::Unknown
    }

    /// What ran, as far as it is known.
    pub(crate) fn label(&self) -> String {
        self.record
            .identity
            .as_ref()
            .map_or_else(|| "not proved".to_owned(), heaptrial_model::Identity::label)
    }

    /// How exactly the start is known, where it is not read from the kernel.
    pub(crate) fn start_note(&self) -> Option<String> {
        match self.record.start {
            LifeStart::Observed => None,
            LifeStart::Inferred { uncertainty_us } => {
                let within = heaptrial_model::units::duration(uncertainty_us as f64 / 1e6);
                Some(format!("inferred, within {within}"))
            }
            LifeStart::Unknown => Some("or earlier".to_owned()),
        }
    }
}
