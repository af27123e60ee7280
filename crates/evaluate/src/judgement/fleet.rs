//! The fleet of services on hosts, from the rows of the database.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use crate::analysis::{Clock, DAY, Fleet, FleetArm, FleetEvent, FleetLife, FleetService, MemoryLimit, Work};
use heaptrial_model::{KnownEvent, TrialKind};
use heaptrial_store::{ArmRecord, EventRecord, LifeRecord, Readings, ServiceRecord, Store, StoreError};

use crate::judgement::lab::LabRun;
use crate::judgement::treatment::{self, Treated};
use crate::judgement::{JudgementError, Options, Rows, work};

/// Lives that a thread takes at a time, at least: each opens the database.
const LIVES_AT_A_TIME: usize = 16;

/// Longest text of an event in a finding: operators paste whole logs.
const EVENT_CHARACTERS: usize = 300;

impl Rows {
    /// Makes the fleet: reads all samples of the trial.
    pub fn fleet(&self, store: &Store, options: &Options) -> Result<Fleet, JudgementError> {
        match self.kind.is_lab() {
            true => Ok(LabRun::read(store, self)?.fleet(self, options)),
            false => self.fleet_on_hosts(store, options),
        }
    }

    fn fleet_on_hosts(&self, store: &Store, options: &Options) -> Result<Fleet, JudgementError> {
        let (trial, kind) = (&self.trial, self.kind);
        // What others measured has no ledger, and nobody drew the lists of an import.
        let in_ledger = !kind.is_import();
        let readings = Readings::of_trial(store, trial.id, trial.plan.metric)?;
        let by_life = read_lives(store, &readings, self, in_ledger)?;
        let position: HashMap<i64, usize> =
            self.services.iter().enumerate().map(|(index, service)| (service.id, index)).collect();
        let mut services: Vec<FleetService> =
            self.services.iter().map(|service| self.service(service)).collect();
        let treated = if kind == TrialKind::Field {
            treatment::of_lives(&self.lives, &self.events, self.until_us)
        } else {
            vec![Treated::Yes; self.lives.len()]
        };
        let mut untreated: Vec<(usize, f64, String)> = Vec::new();
        for ((record, life), treated) in self.lives.iter().zip(by_life).zip(treated) {
            let Some(index) = position.get(&record.service_id) else { continue };
            match treated {
                Treated::Yes => {}
                Treated::Before => continue,
                Treated::No(why) => untreated.push((*index, life.started_at, why)),
            }
            services[*index].lives.push(life);
        }
        // Of several hosts none is the one whose memory all services share.
        let hosts: HashSet<&str> = self.services.iter().filter_map(ServiceRecord::host).collect();
        let one_host = self.parts.is_empty() && hosts.len() < 2;
        let last = services.iter().flat_map(|service| &service.lives);
        let last = last.filter_map(FleetLife::last_at).fold(f64::MIN, f64::max);
        let fact =
            |name: &str| trial.plan.host_facts.get(name)?.as_f64().filter(|bytes| one_host && *bytes > 0.0);
        let mut fleet = Fleet {
            arms: self.arms.iter().map(|record| self.arm(record)).collect(),
            services,
            events: self.events.iter().map(|event| self.event(event)).collect(),
            limit: MemoryLimit {
                service_bytes: options.memory_limit_bytes.map(|bytes| bytes as f64),
                host_bytes: fact("ram_bytes"),
                // What was available days before is so no more.
                host_available_bytes: fact("available_bytes")
                    .filter(|_| fact("told_at_wall_us").is_none_or(|at| last - at / 1e6 <= DAY)),
            },
            randomised: kind == TrialKind::Field && !self.services.iter().any(ServiceRecord::is_by_hand),
            identities_proved: in_ledger,
            clock: Clock::Calendar,
            seed: trial.plan.seed,
        };
        if self.until_us < i64::MAX {
            fleet.until(self.until_us as f64 / 1e6);
        }
        for (index, at) in self.dropped_services() {
            fleet.service_until(index, at);
        }
        // Found from events until then, so that no later one takes it away again.
        for (index, started_at, why) in untreated {
            let lives = &mut fleet.services[index].lives;
            let life = lives.iter_mut().find(|life| life.started_at == started_at);
            if let Some(life) = life.filter(|life| life.contamination.is_none()) {
                life.contamination = Some(why);
            }
        }
        Ok(fleet)
    }

    /// Services that a person took out while the trial ran, by position, and when (seconds since 1970).
    fn dropped_services(&self) -> Vec<(usize, f64)> {
        let dropped = |(index, service): (usize, &ServiceRecord)| {
            let own = self.events_within().filter(|event| event.service_id == Some(service.id));
            let first =
                own.filter(|event| event.kind == KnownEvent::Dropped).map(|event| event.wall_us).min()?;
            Some((index, first as f64 / 1e6))
        };
        self.services.iter().enumerate().filter_map(dropped).collect()
    }

    pub(crate) fn arm(&self, record: &ArmRecord) -> FleetArm {
        FleetArm {
            name: record.arm.name.clone(),
            control: record.arm.control,
            restarted: record.arm.treatment.restart_every.is_some(),
        }
    }

    pub(crate) fn service(&self, record: &ServiceRecord) -> FleetService {
        let arms = std::iter::once(&record.arm_id).chain(&record.also_in);
        FleetService {
            host: record.host().map(str::to_owned).filter(|_| !self.parts.is_empty()),
            name: record.name.clone(),
            arms: arms.filter_map(|id| self.arm_position(*id)).collect(),
            block: record.block,
            limit_bytes: memory_limit(record).map(|bytes| bytes as f64),
            lives: Vec::new(),
        }
    }

    pub(crate) fn event(&self, record: &EventRecord) -> FleetEvent {
        let about_nobody = record.kind == KnownEvent::Unattributed;
        let service = |id: &i64| self.services.iter().position(|service| service.id == *id);
        FleetEvent {
            host: record.host.clone(),
            at: record.wall_us as f64 / 1e6,
            arm: record.arm_id.filter(|_| !about_nobody).and_then(|id| self.arm_position(id)),
            service: record.service_id.filter(|_| !about_nobody).as_ref().and_then(service),
            kind: record.kind.clone(),
            changes_treatment: record.kind.known().is_some_and(KnownEvent::changes_treatment),
            text: cut(&record.text),
        }
    }
}

/// The beginning of what an event says: at most 300 characters, and a mark where there is more.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(EVENT_CHARACTERS) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Memory that a service may use at most (MemoryMax), where the trial recorded it.
pub(crate) fn memory_limit(record: &ServiceRecord) -> Option<u64> {
    record.attributes.as_ref()?.get("memory_max_bytes")?.as_u64().filter(|bytes| *bytes > 0)
}

/// The lives of a trial with their readings and, if asked for, their work, in the order of `rows`. Threads read with a connection each;
/// where none can be had, this one reads alone.
fn read_lives(
    store: &Store,
    readings: &Readings,
    rows: &Rows,
    with_work: bool,
) -> Result<Vec<FleetLife>, StoreError> {
    let path = store.path();
    let in_parallel: Result<Vec<FleetLife>, StoreError> = rows
        .lives
        .par_iter()
        .with_min_len(LIVES_AT_A_TIME)
        .map_init(
            || Store::open(path),
            |own, life| match own {
                Ok(own) => read_life(own, readings, life, with_work),
                Err(_) => Err(StoreError::Held { path: path.to_owned() }),
            },
        )
        .collect();
    match in_parallel {
        Err(StoreError::Held { .. }) => {
            rows.lives.iter().map(|life| read_life(store, readings, life, with_work)).collect()
        }
        read => read,
    }
}

fn read_life(
    store: &Store,
    readings: &Readings,
    life: &LifeRecord,
    with_work: bool,
) -> Result<FleetLife, StoreError> {
    let mut read = readings.of_life(store, life.id, life.started_boottime_us)?;
    read.shrink_to_fit();
    let mut peaks = readings.rolled_up_peaks(store, life.id, life.started_boottime_us)?;
    peaks.shrink_to_fit();
    Ok(FleetLife {
        started_at: life.started_wall_us as f64 / 1e6,
        start: life.start,
        contamination: life.contamination.clone(),
        proved: life.identity.is_some(),
        readings: read,
        rolled_up_seconds: store.rolled_up_seconds(life.id)?,
        peaks,
        work: if with_work { work::of_life(store, life)? } else { Work::default() },
    })
}
