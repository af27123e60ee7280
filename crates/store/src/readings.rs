//! Readings of many lives in little memory, for analyses of fleets.

use heaptrial_model::{Metric, Reading};
use rusqlite::params;

use crate::{Store, StoreError};

/// Reads lives of one trial. The times of all ticks are held, so that no sample is joined with its tick.
#[derive(Debug)]
pub struct Readings {
    first_tick: i64,
    /// By tick id from `first_tick` on.
    boottime_us: Vec<i64>,
    sql: &'static str,
    max: Option<&'static str>,
}

impl Store {
    /// Whether a life was read at all.
    pub fn has_samples(&self, life_id: i64) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM sample WHERE life_id = ?1 LIMIT 1";
        self.is_any("looking for samples", sql, params![life_id])
    }
}

impl Readings {
    /// Of `metric` in the trial.
    pub fn of_trial(store: &Store, trial_id: i64, metric: Metric) -> Result<Self, StoreError> {
        let ticks: Vec<(i64, i64)> = store.rows(
            "reading the ticks",
            "SELECT id, boottime_us FROM tick WHERE trial_id = ?1 ORDER BY id",
            params![trial_id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let first_tick = ticks.first().map_or(0, |tick| tick.0);
        let span = ticks.last().map_or(0, |tick| tick.0 - first_tick + 1);
        let mut boottime_us = vec![0; span as usize];
        for (id, time) in ticks {
            boottime_us[(id - first_tick) as usize] = time;
        }
        Ok(Self { first_tick, boottime_us, sql: query(metric), max: max_of(metric) })
    }

    /// All readings of a life that began at `started_boottime_us`, in order of age.
    pub fn of_life(
        &self,
        store: &Store,
        life_id: i64,
        started_boottime_us: i64,
    ) -> Result<Vec<Reading>, StoreError> {
        self.read(store, self.sql, life_id, started_boottime_us)
    }

    /// Of those of a life that are rolled up, the highest of each span, at the age of its median.
    pub fn rolled_up_peaks(
        &self,
        store: &Store,
        life_id: i64,
        started_boottime_us: i64,
    ) -> Result<Vec<Reading>, StoreError> {
        let Some(max) = self.max else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT tick_id, {max} FROM rollup WHERE life_id = ?1 AND {max} IS NOT NULL ORDER BY tick_id"
        );
        self.read(store, &sql, life_id, started_boottime_us)
    }

    fn read(
        &self,
        store: &Store,
        sql: &str,
        life_id: i64,
        started_boottime_us: i64,
    ) -> Result<Vec<Reading>, StoreError> {
        let mut readings = Vec::new();
        store.rows_into("reading samples", sql, params![life_id], |row| {
            let tick: i64 = row.get(0)?;
            let bytes: i64 = row.get(1)?;
            if let Some(time) = self.boottime_us.get((tick - self.first_tick) as usize) {
                readings.push(Reading {
                    age_seconds: ((time - started_boottime_us) as f64 / 1e6) as f32,
                    kib: u32::try_from(bytes / 1024).unwrap_or(u32::MAX),
                });
            }
            Ok(())
        })?;
        Ok(readings)
    }
}

fn max_of(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::Rss => Some("rss_max_bytes"),
        Metric::Anon => Some("anon_swap_max_bytes"),
        Metric::Cgroup => Some("cgroup_current_max_bytes"),
        Metric::Pss => None,
    }
}

fn query(metric: Metric) -> &'static str {
    match metric {
        Metric::Rss => "SELECT tick_id, rss_bytes FROM sample WHERE life_id = ?1 ORDER BY tick_id",
        Metric::Anon => {
            "SELECT tick_id, anon_bytes + swap_bytes FROM sample
             WHERE life_id = ?1 AND anon_bytes IS NOT NULL AND swap_bytes IS NOT NULL ORDER BY tick_id"
        }
        Metric::Cgroup => {
            "SELECT tick_id, cgroup_current_bytes FROM sample
             WHERE life_id = ?1 AND cgroup_current_bytes IS NOT NULL ORDER BY tick_id"
        }
        Metric::Pss => "SELECT tick_id, pss_bytes FROM slow_sample WHERE life_id = ?1 ORDER BY tick_id",
    }
}
