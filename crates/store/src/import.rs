//! Trials that others measured: written whole, by the statements of trials of our own.

use std::collections::HashMap;

use heaptrial_model::{EventKind, LifeStart, Metric};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::begin::{insert_arm, insert_service, insert_trial};
use crate::read::Json;
use crate::write::INSERT_TICK;
use crate::{NewService, NewTrial, Store, StoreError};

/// A trial as imported: everything that is known of it.
#[derive(Debug, Clone)]
pub struct ImportedTrial {
    pub plan: NewTrial,
    pub lists: Vec<String>,
    pub services: Vec<ImportedService>,
    pub events: Vec<ImportedEvent>,
    pub sources: Vec<ImportSource>,
}

#[derive(Debug, Clone)]
pub struct ImportedService {
    pub service: NewService,
    /// Positions of further arms whose lists name it.
    pub also_in: Vec<usize>,
    pub lives: Vec<ImportedLife>,
}

impl ImportedService {
    /// Positions of all its arms.
    pub fn arms(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.service.arm).chain(self.also_in.iter().copied())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedLife {
    /// Start in microseconds since 1970; for [`LifeStart::Unknown`] the first reading.
    pub started_wall_us: i64,
    pub start: LifeStart,
    /// Why it did not run its arm's treatment; `None` where nothing shows that.
    pub contamination: Option<String>,
    pub samples: Vec<ImportedSample>,
}

/// A reading as others take it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportedSample {
    pub wall_us: i64,
    /// Resident set size; 0 where it was not measured.
    pub rss_bytes: u64,
    pub vsize_bytes: Option<u64>,
    pub hwm_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub cgroup_current_bytes: Option<u64>,
    /// Of a reading that is the median of a span: the highest of the span, of the trial's metric.
    pub highest_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedEvent {
    pub wall_us: i64,
    pub service: Option<usize>,
    pub arm: Option<usize>,
    pub kind: EventKind,
    pub text: String,
}

/// A file that data was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSource {
    pub file: String,
    /// `memory`, `groups`, `events` or `diagnostics`; of a Prometheus what a query is for.
    pub role: String,
    pub sha256: String,
    pub rows: u64,
    pub skipped: u64,
}

impl Store {
    /// Writes a trial that was imported, instead of an earlier import of the same name. One transaction; gives the row id of the
    /// trial, which stays the same.
    pub fn write_imported(&mut self, trial: &ImportedTrial) -> Result<i64, StoreError> {
        let doing = "recording an import";
        // References are made here from row ids that this function gave out; checking each sample costs a third
        // of the time. The setting has no effect inside a transaction, so it comes before.
        let set = |on: bool| self.connection.pragma_update(None, "foreign_keys", on);
        set(false).map_err(StoreError::query(&self.path, doing))?;
        let result = self.connection.unchecked_transaction().and_then(|transaction| {
            let known = remove(&transaction, &trial.plan)?;
            let trial_id = write(&transaction, trial, known)?;
            transaction.commit()?;
            Ok(trial_id)
        });
        set(true).map_err(StoreError::query(&self.path, doing))?;
        result.map_err(StoreError::query(&self.path, doing))
    }

    /// The files that a trial was imported from.
    pub fn import_sources(&self, trial_id: i64) -> Result<Vec<ImportSource>, StoreError> {
        let sql =
            "SELECT file, role, sha256, rows, skipped FROM import_source WHERE trial_id = ?1 ORDER BY rowid";
        self.rows("reading the sources of an import", sql, params![trial_id], |row| {
            Ok(ImportSource {
                file: row.get(0)?,
                role: row.get(1)?,
                sha256: row.get(2)?,
                rows: row.get::<_, i64>(3)? as u64,
                skipped: row.get::<_, i64>(4)? as u64,
            })
        })
    }
}

/// Removes everything of an import of this name; gives its row id.
fn remove(transaction: &Transaction<'_>, plan: &NewTrial) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT id FROM trial WHERE name = ?1 AND kind = ?2";
    let known: Option<i64> =
        transaction.query_row(sql, params![plan.name, plan.kind.as_str()], |row| row.get(0)).optional()?;
    let services = "SELECT id FROM service WHERE trial_id = ?1";
    let lives = format!("SELECT id FROM life WHERE service_id IN ({services})");
    for sql in [
        &format!("DELETE FROM sample WHERE life_id IN ({lives})"),
        &format!("DELETE FROM rollup WHERE life_id IN ({lives})"),
        &format!("DELETE FROM life WHERE service_id IN ({services})"),
        &format!("DELETE FROM membership WHERE service_id IN ({services})"),
        "DELETE FROM event WHERE trial_id = ?1",
        "DELETE FROM service WHERE trial_id = ?1",
        "DELETE FROM arm WHERE trial_id = ?1",
        "DELETE FROM tick WHERE trial_id = ?1",
        "DELETE FROM import_source WHERE trial_id = ?1",
        "DELETE FROM trial WHERE id = ?1",
    ] {
        transaction.execute(sql, params![known])?;
    }
    Ok(known)
}

fn write(transaction: &Transaction<'_>, trial: &ImportedTrial, id: Option<i64>) -> rusqlite::Result<i64> {
    let trial_id = insert_trial(transaction, id, &trial.plan)?;
    let ticks = write_ticks(transaction, trial, trial_id)?;
    let ended = "UPDATE trial SET ended_wall_us = ?2, outcome = 'completed' WHERE id = ?1";
    transaction.execute(ended, params![trial_id, ticks.keys().max()])?;
    let mut arm_ids = Vec::new();
    for (position, (arm, list)) in trial.plan.arms.iter().zip(&trial.lists).enumerate() {
        arm_ids.push(insert_arm(transaction, (trial_id, position), arm, None, Some(list))?);
    }
    let mut service_ids = Vec::new();
    for service in &trial.services {
        let arms: Vec<i64> = service.arms().map(|arm| arm_ids[arm]).collect();
        let service_id = insert_service(transaction, trial_id, arms[0], &service.service)?;
        for arm_id in &arms[1..] {
            transaction.execute("INSERT INTO membership VALUES (?1, ?2)", params![arm_id, service_id])?;
        }
        for life in &service.lives {
            write_life(transaction, trial.plan.metric, service_id, life, &ticks)?;
        }
        service_ids.push(service_id);
    }
    let mut insert = transaction.prepare(
        "INSERT INTO event (trial_id, service_id, arm_id, wall_us, kind, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for event in &trial.events {
        let service_id = event.service.map(|index| service_ids[index]);
        let arm_id = event.arm.map(|index| arm_ids[index]);
        let (kind, text) = (event.kind.as_str(), &event.text);
        insert.execute(params![trial_id, service_id, arm_id, event.wall_us, kind, text])?;
    }
    let mut insert = transaction.prepare("INSERT INTO import_source VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for source in &trial.sources {
        let (rows, skipped) = (source.rows as i64, source.skipped as i64);
        insert.execute(params![trial_id, source.file, source.role, source.sha256, rows, skipped])?;
    }
    Ok(trial_id)
}

/// One tick for each time at which anything was read; gives their row ids.
fn write_ticks(
    transaction: &Transaction<'_>,
    trial: &ImportedTrial,
    trial_id: i64,
) -> rusqlite::Result<HashMap<i64, i64>> {
    let lives = trial.services.iter().flat_map(|service| &service.lives);
    let mut times: Vec<i64> =
        lives.flat_map(|life| life.samples.iter().map(|sample| sample.wall_us)).collect();
    times.sort_unstable();
    times.dedup();
    let mut insert = transaction.prepare_cached(INSERT_TICK)?;
    let mut tick = |(sequence, wall_us): (i64, i64)| {
        Ok((wall_us, insert.insert(params![trial_id, sequence, wall_us, wall_us, 0, 0, None::<i64>])?))
    };
    (0..).zip(times).map(&mut tick).collect()
}

fn write_life(
    transaction: &Transaction<'_>,
    metric: Metric,
    service_id: i64,
    life: &ImportedLife,
    ticks: &HashMap<i64, i64>,
) -> rusqlite::Result<()> {
    let life_id = transaction
        .prepare_cached(
            "INSERT INTO life (service_id, start_json, started_wall_us, started_boottime_us, contamination)
             VALUES (?1, ?2, ?3, ?3, ?4)",
        )?
        .insert(params![service_id, Json(life.start), life.started_wall_us, life.contamination])?;
    let mut insert_sample = transaction.prepare_cached(
        "INSERT INTO sample (life_id, tick_id, rss_bytes, anon_bytes, swap_bytes, vsize_bytes, hwm_bytes, cgroup_current_bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let mut insert_rollup =
        transaction.prepare_cached("INSERT INTO rollup VALUES (?1, ?2, 1, ?3, NULL, ?4, ?5)")?;
    let number = |value: Option<u64>| value.map(|value| value as i64);
    for sample in &life.samples {
        let tick_id = ticks.get(&sample.wall_us);
        insert_sample.execute(params![
            life_id,
            tick_id,
            sample.rss_bytes as i64,
            number(sample.anon_bytes),
            number(sample.swap_bytes),
            number(sample.vsize_bytes),
            number(sample.hwm_bytes),
            number(sample.cgroup_current_bytes),
        ])?;
        if let Some(highest) = number(sample.highest_bytes) {
            let of = |own: Metric| (metric == own).then_some(highest);
            let rss = of(Metric::Rss).unwrap_or(sample.rss_bytes as i64);
            insert_rollup.execute(params![life_id, tick_id, rss, of(Metric::Anon), of(Metric::Cgroup)])?;
        }
    }
    Ok(())
}
