//! What runs and the agent write of a trial.

use heaptrial_model::{Ending, Identity, KnownEvent, LifeKey, with_reason};
use rusqlite::{params, types::ToSql};
use serde_json::Value;

use crate::read::Json;
use crate::{NewService, Store, StoreError, TickInput};

pub(crate) const INSERT_TICK: &str =
    "INSERT INTO tick (trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us, host_id)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const INSERT_SAMPLE: &str =
    "INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

impl Store {
    /// Records the build that was prepared for an arm.
    pub fn set_obtained(&mut self, arm_id: i64, obtained: &Value) -> Result<(), StoreError> {
        let sql = "UPDATE arm SET obtained_json = ?2 WHERE id = ?1";
        self.execute("recording an arm's build", sql, params![arm_id, obtained.to_string()]).map(drop)
    }

    pub fn add_service(
        &mut self,
        trial_id: i64,
        arm_id: i64,
        name: &str,
        block: u32,
        position: u32,
    ) -> Result<i64, StoreError> {
        let service = NewService { name: name.to_owned(), arm: 0, block, position, attributes: Value::Null };
        self.add_new_service(trial_id, arm_id, &service)
    }

    pub fn set_attributes(&mut self, service_id: i64, attributes: &Value) -> Result<(), StoreError> {
        let sql = "UPDATE service SET attributes_json = ?2 WHERE id = ?1";
        self.execute("recording what is known of a service", sql, params![service_id, attributes.to_string()])
            .map(drop)
    }

    /// Records a life: what was proved of it, and what is wrong with that.
    pub fn add_life(
        &mut self,
        service_id: i64,
        key: &LifeKey,
        started: (i64, i64),
        identity: Option<&Identity>,
        contamination: Option<&str>,
    ) -> Result<i64, StoreError> {
        let identity = identity.map(Json);
        let sql =
            "INSERT INTO life (service_id, boot_id, pid, start_ticks, started_wall_us, started_boottime_us,
                                     identity_json, contamination, start_json)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '\"observed\"')";
        let start_ticks = key.start_ticks as i64;
        let (wall_us, boottime_us) = started;
        self.execute(
            "recording a life",
            sql,
            params![
                service_id,
                key.boot_id,
                key.pid,
                start_ticks,
                wall_us,
                boottime_us,
                identity,
                contamination
            ],
        )
    }

    /// Enters a life into the ledger, or finds it there; gives its row id and whether it was there.
    pub fn enter_life(
        &mut self,
        service_id: i64,
        key: &LifeKey,
        started: (i64, i64),
        contamination: Option<&str>,
    ) -> Result<(i64, bool), StoreError> {
        let sql =
            "SELECT id FROM life WHERE service_id = ?1 AND boot_id = ?2 AND pid = ?3 AND start_ticks = ?4";
        let known = params![service_id, key.boot_id, key.pid, key.start_ticks as i64];
        let found = self.rows("looking for a life", sql, known, |row| row.get(0))?;
        match found.first() {
            Some(id) => Ok((*id, true)),
            None => Ok((self.add_life(service_id, key, started, None, contamination)?, false)),
        }
    }

    /// Records what was proved of a life after it was entered into the ledger.
    pub fn set_identity(
        &mut self,
        life_id: i64,
        identity: Option<&Identity>,
        contamination: Option<&str>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE life SET identity_json = ?2, contamination = ?3 WHERE id = ?1";
        self.execute("recording an identity", sql, params![life_id, identity.map(Json), contamination])
            .map(drop)
    }

    /// Records that a life's identity is not (any more) its arm's treatment. Reasons that are recorded stay, each once.
    pub fn contaminate(&mut self, life_id: i64, why: &str) -> Result<(), StoreError> {
        self.exclude(life_id, why, false)
    }

    /// Records that a life does not count because it failed, whatever it ran. Reasons that are recorded stay, each once.
    pub fn fail_life(&mut self, life_id: i64, why: &str) -> Result<(), StoreError> {
        self.exclude(life_id, why, true)
    }

    fn exclude(&mut self, life_id: i64, why: &str, failed: bool) -> Result<(), StoreError> {
        let life = self.life(life_id)?;
        let ran_another = life.as_ref().is_some_and(|life| life.contamination.is_some() && !life.failed);
        let why = with_reason(life.and_then(|life| life.contamination), why);
        let sql = "UPDATE life SET contamination = ?2, failed = ?3 WHERE id = ?1";
        self.execute("excluding a life", sql, params![life_id, why, failed && !ran_another]).map(drop)
    }

    pub fn end_life(&mut self, life_id: i64, at: (i64, i64), ending: &Ending) -> Result<(), StoreError> {
        let sql =
            "UPDATE life SET ended_wall_us = ?2, ended_boottime_us = ?3, ending_json = ?4 WHERE id = ?1";
        self.execute("recording a life's end", sql, params![life_id, at.0, at.1, Json(ending)]).map(drop)
    }

    /// Takes the end of a life back: it lives, and is sampled again.
    pub fn resume_life(&mut self, life_id: i64) -> Result<(), StoreError> {
        let sql = "UPDATE life SET ended_wall_us = NULL, ended_boottime_us = NULL, ending_json = NULL WHERE id = ?1";
        self.execute("resuming a life", sql, params![life_id]).map(drop)
    }

    /// Writes a tick, all or nothing.
    pub fn write_tick(&mut self, trial_id: i64, tick: &TickInput) -> Result<(), StoreError> {
        let path = self.path.clone();
        let result = (|| {
            let transaction = self.connection.transaction()?;
            {
                let mut insert_tick = transaction.prepare_cached(INSERT_TICK)?;
                let tick_id = insert_tick.insert(params![
                    trial_id,
                    tick.sequence,
                    tick.wall_us,
                    tick.boottime_us,
                    tick.cost_wall_us as i64,
                    tick.cost_cpu_us as i64,
                    tick.host_id
                ])?;
                let mut insert_sample = transaction.prepare_cached(INSERT_SAMPLE)?;
                for (life_id, sample) in &tick.samples {
                    insert_sample.execute(params![
                        life_id,
                        tick_id,
                        sample.rss_bytes as i64,
                        sample.anon_bytes as i64,
                        sample.file_bytes as i64,
                        sample.shmem_bytes as i64,
                        sample.swap_bytes as i64,
                        sample.vsize_bytes as i64,
                        sample.hwm_bytes as i64,
                        sample.minor_faults as i64,
                        sample.major_faults as i64,
                        sample.cpu_us as i64,
                        sample.threads,
                        sample.processes,
                        sample.cgroup_current_bytes.map(|bytes| bytes as i64),
                        sample.cgroup_peak_bytes.map(|bytes| bytes as i64),
                    ])?;
                }
                let mut insert_slow = transaction
                    .prepare_cached("INSERT INTO slow_sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
                for (life_id, slow) in &tick.slow_samples {
                    insert_slow.execute(params![
                        life_id,
                        tick_id,
                        slow.pss_bytes as i64,
                        slow.private_dirty_bytes as i64,
                        slow.lazyfree_bytes as i64,
                        slow.anon_huge_bytes as i64,
                        slow.cost_us as i64
                    ])?;
                }
                let mut insert_observation =
                    transaction.prepare_cached("INSERT INTO observation VALUES (?1, ?2, ?3, ?4)")?;
                let observed = tick.observations.iter().map(|(life, name, value)| (life, *name, value));
                let worked = tick.work.iter().map(|(life, name, value)| (life, name.as_str(), value));
                for (life_id, name, value) in observed.chain(worked) {
                    insert_observation.execute(params![life_id, tick_id, name, value])?;
                }
                let mut insert_event = transaction.prepare_cached(
                    "INSERT INTO event (trial_id, wall_us, kind, text) VALUES (?1, ?2, ?3, ?4)",
                )?;
                for (kind, text) in &tick.events {
                    insert_event.execute(params![trial_id, tick.wall_us, kind.as_str(), text])?;
                }
            }
            transaction.commit()
        })();
        result.map_err(StoreError::query(&path, "writing a tick"))
    }

    /// Records observations with the last sample of a life.
    pub fn observe(&mut self, life_id: i64, observed: &[(&'static str, f64)]) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO observation
                   SELECT life_id, max(tick_id), ?2, ?3 FROM sample WHERE life_id = ?1 GROUP BY life_id";
        for (name, value) in observed {
            self.execute("writing observations", sql, params![life_id, name, value])?;
        }
        Ok(())
    }

    pub fn add_event(
        &mut self,
        trial_id: i64,
        service_id: Option<i64>,
        wall_us: i64,
        kind: KnownEvent,
        text: &str,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO event (trial_id, service_id, wall_us, kind, text) VALUES (?1, ?2, ?3, ?4, ?5)";
        let kind = kind.as_str();
        self.execute("recording an event", sql, params![trial_id, service_id, wall_us, kind, text]).map(drop)
    }

    /// Takes the end of a trial back: it was stopped and goes on.
    pub fn reopen_trial(&mut self, trial_id: i64) -> Result<(), StoreError> {
        let sql = "UPDATE trial SET ended_wall_us = NULL, outcome = NULL WHERE id = ?1";
        self.execute("reopening the trial", sql, params![trial_id]).map(drop)
    }

    pub fn end_trial(&mut self, trial_id: i64, wall_us: i64, outcome: &str) -> Result<(), StoreError> {
        let sql = "UPDATE trial SET ended_wall_us = ?2, outcome = ?3 WHERE id = ?1";
        self.execute("recording the end of the trial", sql, params![trial_id, wall_us, outcome]).map(drop)
    }

    pub(crate) fn execute(
        &mut self,
        doing: &'static str,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<i64, StoreError> {
        self.connection.execute(sql, parameters).map_err(StoreError::query(&self.path, doing))?;
        Ok(self.connection.last_insert_rowid())
    }
}
