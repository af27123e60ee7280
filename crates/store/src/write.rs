//! What a run writes.

use heaptrial_model::{Ending, Identity, LifeKey};
use rusqlite::{params, types::ToSql};
use serde_json::Value;

use crate::{NewTrial, Store, StoreError, TickInput};

impl Store {
    /// Records a trial with its arms; gives its row id and those of the arms in order.
    pub fn begin_trial(&mut self, trial: &NewTrial) -> Result<(i64, Vec<i64>), StoreError> {
        let path = self.path.clone();
        let doing = "recording the trial";
        let plan_json = serde_json::to_string(&trial.arms).map_err(StoreError::json(&path, doing))?;
        let transaction = self.connection.transaction().map_err(StoreError::query(&path, doing))?;
        let result = (|| {
            transaction.execute(
                "INSERT INTO host (boot_id, facts_json) VALUES (?1, ?2) ON CONFLICT (boot_id) DO UPDATE SET facts_json = ?2",
                params![trial.boot_id, trial.host_facts.to_string()],
            )?;
            transaction.execute(
                "INSERT INTO trial (name, kind, host_id, metric, seed, repeats, planned_us, plan_json,
                                    parameters_json, command, tool_version, started_wall_us)
                 VALUES (?1, ?2, (SELECT id FROM host WHERE boot_id = ?3), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    trial.name,
                    trial.kind,
                    trial.boot_id,
                    trial.metric.as_str(),
                    // SQLite's integers are signed; the bits are kept.
                    trial.seed as i64,
                    trial.repeats,
                    trial.planned_us,
                    plan_json,
                    trial.parameters.to_string(),
                    trial.command,
                    trial.tool_version,
                    trial.started_wall_us,
                ],
            )?;
            let trial_id = transaction.last_insert_rowid();
            let mut arm_ids = Vec::new();
            for (position, arm) in trial.arms.iter().enumerate() {
                let treatment = serde_json::to_string(&arm.treatment)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
                transaction.execute(
                    "INSERT INTO arm (trial_id, position, name, control, treatment_json) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![trial_id, position as i64, arm.name, arm.control, treatment],
                )?;
                arm_ids.push(transaction.last_insert_rowid());
            }
            transaction.commit()?;
            Ok((trial_id, arm_ids))
        })();
        result.map_err(StoreError::query(&path, doing))
    }

    /// Records the build that was prepared for an arm.
    pub fn set_obtained(&mut self, arm_id: i64, obtained: &Value) -> Result<(), StoreError> {
        let sql = "UPDATE arm SET obtained_json = ?2 WHERE id = ?1";
        self.execute("recording an arm's build", sql, params![arm_id, obtained.to_string()]).map(drop)
    }

    /// Records a service before it is started.
    pub fn add_service(
        &mut self,
        trial_id: i64,
        arm_id: i64,
        name: &str,
        block: u32,
        position: u32,
    ) -> Result<i64, StoreError> {
        let sql = "INSERT INTO service (trial_id, arm_id, name, block, position) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute("recording a service", sql, params![trial_id, arm_id, name, block, position])
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
        let doing = "recording a life";
        let identity =
            identity.map(serde_json::to_string).transpose().map_err(StoreError::json(&self.path, doing))?;
        let sql =
            "INSERT INTO life (service_id, boot_id, pid, start_ticks, started_wall_us, started_boottime_us,
                                     identity_json, contamination, start_json)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '\"observed\"')";
        let start_ticks = key.start_ticks as i64;
        let (wall_us, boottime_us) = started;
        self.execute(
            doing,
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

    /// Records that a life's identity is not (any more) its arm's treatment.
    pub fn contaminate(&mut self, life_id: i64, why: &str) -> Result<(), StoreError> {
        let sql = "UPDATE life SET contamination = ?2 WHERE id = ?1";
        self.execute("recording a contamination", sql, params![life_id, why]).map(drop)
    }

    /// Records how a life ended.
    pub fn end_life(&mut self, life_id: i64, at: (i64, i64), ending: &Ending) -> Result<(), StoreError> {
        let doing = "recording a life's end";
        let ending = serde_json::to_string(ending).map_err(StoreError::json(&self.path, doing))?;
        let sql =
            "UPDATE life SET ended_wall_us = ?2, ended_boottime_us = ?3, ending_json = ?4 WHERE id = ?1";
        self.execute(doing, sql, params![life_id, at.0, at.1, ending]).map(drop)
    }

    /// Writes a tick, all or nothing.
    pub fn write_tick(&mut self, trial_id: i64, tick: &TickInput) -> Result<(), StoreError> {
        let path = self.path.clone();
        let result = (|| {
            let transaction = self.connection.transaction()?;
            {
                let mut insert_tick = transaction.prepare_cached(
                    "INSERT INTO tick (trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?;
                let tick_id = insert_tick.insert(params![
                    trial_id,
                    tick.sequence,
                    tick.wall_us,
                    tick.boottime_us,
                    tick.cost_wall_us as i64,
                    tick.cost_cpu_us as i64
                ])?;
                let mut insert_sample = transaction.prepare_cached(
                    "INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
                )?;
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
                for (life_id, name, value) in &tick.observations {
                    insert_observation.execute(params![life_id, tick_id, name, value])?;
                }
            }
            transaction.commit()
        })();
        result.map_err(StoreError::query(&path, "writing a tick"))
    }

    /// Records an event.
    pub fn add_event(
        &mut self,
        trial_id: i64,
        service_id: Option<i64>,
        wall_us: i64,
        kind: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO event (trial_id, service_id, wall_us, kind, text) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute("recording an event", sql, params![trial_id, service_id, wall_us, kind, text]).map(drop)
    }

    /// Records the end of a trial.
    pub fn end_trial(&mut self, trial_id: i64, wall_us: i64, outcome: &str) -> Result<(), StoreError> {
        let sql = "UPDATE trial SET ended_wall_us = ?2, outcome = ?3 WHERE id = ?1";
        self.execute("recording the end of the trial", sql, params![trial_id, wall_us, outcome]).map(drop)
    }

    fn execute(
        &mut self,
        doing: &'static str,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<i64, StoreError> {
        self.connection.execute(sql, parameters).map_err(StoreError::query(&self.path, doing))?;
        Ok(self.connection.last_insert_rowid())
    }
}
