//! One service: its ledger and its memory.

use heaptrial_model::{LifeStart, Metric, Reading, TrialKind};
use heaptrial_report::LifeSeries;
use heaptrial_store::{EventRecord, LifeRecord, Readings, ServiceRecord, Store, TrialRecord};

use super::{Stage, Trial};
use crate::DashboardError;

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
    /// Whether it is sampled now.
    pub(crate) lives: bool,
    /// Who imports readings records no end.
    pub(crate) ended_wall_us: Option<i64>,
    pub(crate) read_wall_us: Option<i64>,
    /// Its age when it ended or was read last, in microseconds of the boot clock.
    age_us: i64,
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
            let service = store.services(trial.id)?.into_iter().find(|service| service.name == name);
            found.extend(service.map(|service| (trial, service)));
        }
        let rank = |trial: &TrialRecord| (trial.ended_wall_us.is_some(), trial.plan.kind == TrialKind::Host);
        let Some((trial, record)) = found.into_iter().min_by_key(|(trial, _)| rank(trial)) else {
            return Ok(None);
        };
        let trial = Trial::read(store, trial, now_us)?;
        let mut events = store.events(trial.record.id)?;
        events.retain(|event| event.service_id == Some(record.id));
        let mut own = store.lives(trial.record.id)?;
        own.retain(|life| life.service_id == record.id);
        let newest = own.last().map(|life| life.id);
        let mut lives = Vec::new();
        for life in own {
            let read = store.last_tick_of_life(life.id)?;
            let until_us = life.ended_boottime_us.or(read.map(|tick| tick.boottime_us));
            lives.push(Life {
                lives: trial.stage == Stage::Running && life.ending.is_none() && newest == Some(life.id),
                ended_wall_us: life.ended_wall_us,
                read_wall_us: read.map(|tick| tick.wall_us),
                age_us: until_us.map_or(0, |until| until - life.started_boottime_us),
                record: life,
            });
        }
        let metric = trial.record.plan.metric;
        let readings = Readings::of_trial(store, trial.record.id, metric)?;
        let mut series = Vec::new();
        for life in &lives[lives.len().saturating_sub(LIVES_DRAWN)..] {
            let points = readings.of_life(store, life.record.id, life.record.started_boottime_us)?;
            let point = |reading: &Reading| (f64::from(reading.age_seconds), f64::from(reading.kib) * 1024.0);
            series.push(LifeSeries {
                started_at: life.record.started_wall_us as f64 / 1e6,
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
    /// How old it is, or was when it ended or was read last.
    pub(crate) fn age_seconds(&self, now_us: i64) -> f64 {
        let since_us = self.read_wall_us.filter(|_| self.lives).map_or(0, |read| now_us - read);
        (self.age_us + since_us).max(0) as f64 / 1e6
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
