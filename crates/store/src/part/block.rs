//! A lab run whose blocks ran each by itself, on nodes of a cluster: their databases are taken into one, which then is as that of
//! a run on one machine, and knows besides which node a block ran on.

use std::path::Path;

use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::Value;

use super::take::{MEASURED, check};
use super::{attach, only_reading_there};
use crate::records::SERVER;
use crate::{Store, StoreError};

/// In the parameters of a trial whose blocks were taken in one by one: what names the run.
const RUN: &str = "blocks_of_run";

#[derive(Debug, Clone)]
pub struct BlockOf<'a> {
    /// What names the run: a database may have several of one command and seed.
    pub run: &'a str,
    pub block: u32,
    pub node: &'a str,
    pub facts: &'a Value,
    /// Now, in microseconds since 1970.
    pub now_us: i64,
}

impl Store {
    /// Takes in the database of a block, all or nothing; gives the row id of the run's trial here, which the first block
    /// begins. A block that is here already changes nothing.
    ///
    /// The rows are those of a run on one machine, but for `sequence` of ticks, which counts on in the order of taking in, and
    /// the node: it is an attribute of the services and a row of `part`.
    pub fn take_block(&mut self, from: &Path, of: &BlockOf<'_>) -> Result<i64, StoreError> {
        let path = self.path.clone();
        let doing = "taking in a block";
        check(from, false)?;
        let take = || -> rusqlite::Result<i64> {
            self.connection.pragma_update(None, "foreign_keys", false)?;
            attach(&self.connection, from)?;
            let transaction = only_reading_there(&self.connection)?;
            let trial_id = take(&transaction, of)?;
            transaction.commit()?;
            Ok(trial_id)
        };
        let result = take().map_err(StoreError::query(&path, doing));
        // What was not begun needs no end.
        let _ = self.connection.execute_batch("DETACH there");
        let after = self.connection.pragma_update(None, "foreign_keys", true);
        after.map_err(StoreError::query(&path, doing))?;
        result
    }

    /// Blocks of a trial of which services are here, ascending.
    pub fn blocks(&self, trial_id: i64) -> Result<Vec<u32>, StoreError> {
        let sql = "SELECT DISTINCT block FROM service WHERE trial_id = ?1 ORDER BY block";
        self.rows("reading the blocks of a run", sql, params![trial_id], |row| row.get(0))
    }
}

fn take(transaction: &Transaction<'_>, of: &BlockOf<'_>) -> rusqlite::Result<i64> {
    let one = |sql: &str| -> rusqlite::Result<i64> { transaction.query_row(sql, [], |row| row.get(0)) };
    let there = one("SELECT max(id) FROM there.trial")?;
    let trial_id = trial(transaction, of.run, there)?;
    let sql = "SELECT count(*) FROM main.service WHERE trial_id = ?1 AND block = ?2";
    let known: i64 = transaction.query_row(sql, params![trial_id, of.block], |row| row.get(0))?;
    if known > 0 {
        return Ok(trial_id);
    }
    // Row ids of a block keep their distance from each other.
    let next = |table: &str| one(&format!("SELECT coalesce(max(id), 0) FROM main.{table}"));
    let (service, life, tick) = (next("service")?, next("life")?, next("tick")?);
    transaction.execute(
        "INSERT INTO main.service (id, trial_id, arm_id, name, block, position, attributes_json)
         SELECT s.id + ?1, ?2, a.id, s.name, s.block, s.position,
                json_set(coalesce(s.attributes_json, '{}'), '$.' || ?3, ?4)
         FROM there.service s JOIN there.arm t ON t.id = s.arm_id
         JOIN main.arm a ON a.trial_id = ?2 AND a.position = t.position
         WHERE s.trial_id = ?5 ORDER BY s.id",
        params![service, trial_id, SERVER, of.node, there],
    )?;
    let columns = "boot_id, pid, start_ticks, start_json, started_wall_us, started_boottime_us, identity_json, \
                   contamination, failed, ended_wall_us, ended_boottime_us, ending_json";
    transaction.execute(
        &format!(
            "INSERT INTO main.life (id, service_id, {columns})
             SELECT id + ?1, service_id + ?2, {columns} FROM there.life ORDER BY id"
        ),
        params![life, service],
    )?;
    transaction.execute(
        "INSERT INTO main.tick (id, trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us, host_id)
         SELECT t.id + ?1, ?2, t.sequence + (SELECT coalesce(max(sequence), -1) + 1 FROM main.tick WHERE trial_id = ?2),
                t.wall_us, t.boottime_us, t.cost_wall_us, t.cost_cpu_us, h.id
         FROM there.tick t JOIN there.trial r ON r.id = t.trial_id JOIN there.host o ON o.id = r.host_id
         JOIN main.host h ON h.boot_id = o.boot_id WHERE t.trial_id = ?3 ORDER BY t.id",
        params![tick, trial_id, there],
    )?;
    for (table, columns) in MEASURED {
        transaction.execute(
            &format!(
                "INSERT INTO main.{table} (life_id, tick_id, {columns})
                 SELECT life_id + ?1, tick_id + ?2, {columns} FROM there.{table}"
            ),
            params![life, tick],
        )?;
    }
    transaction.execute(
        "INSERT INTO main.event (trial_id, service_id, arm_id, wall_us, kind, text, host)
         SELECT ?1, e.service_id + ?2, a.id, e.wall_us, e.kind, e.text, ?3
         FROM there.event e LEFT JOIN there.arm t ON t.id = e.arm_id
         LEFT JOIN main.arm a ON a.trial_id = ?1 AND a.position = t.position
         WHERE e.trial_id = ?4 ORDER BY e.id",
        params![trial_id, service, of.node, there],
    )?;
    node(transaction, of, trial_id, there)?;
    Ok(trial_id)
}

/// The run's row here. It is begun by the first block that is taken in, as that block has it, and not ended before the run is.
fn trial(transaction: &Transaction<'_>, run: &str, there: i64) -> rusqlite::Result<i64> {
    transaction.execute_batch(
        "INSERT INTO main.host (boot_id, facts_json) SELECT boot_id, facts_json FROM there.host WHERE true
           ON CONFLICT (boot_id) DO NOTHING",
    )?;
    let known = format!("SELECT id FROM main.trial WHERE json_extract(parameters_json, '$.{RUN}') = ?1");
    if let Some(id) = transaction.query_row(&known, params![run], |row| row.get(0)).optional()? {
        let earlier = "UPDATE main.trial SET started_wall_us = min(started_wall_us,
                         (SELECT started_wall_us FROM there.trial WHERE id = ?2)) WHERE id = ?1";
        transaction.execute(earlier, params![id, there])?;
        return Ok(id);
    }
    transaction.execute(
        &format!(
            "INSERT INTO main.trial (name, kind, host_id, metric, seed, repeats, planned_us, plan_json, parameters_json,
                                     command, tool_version, started_wall_us)
             SELECT t.name, t.kind, h.id, t.metric, t.seed, t.repeats, t.planned_us, t.plan_json,
                    json_set(t.parameters_json, '$.{RUN}', ?2), t.command, t.tool_version, t.started_wall_us
             FROM there.trial t JOIN there.host o ON o.id = t.host_id JOIN main.host h ON h.boot_id = o.boot_id
             WHERE t.id = ?1"
        ),
        params![there, run],
    )?;
    let id = transaction.last_insert_rowid();
    transaction.execute(
        "INSERT INTO main.arm (trial_id, position, name, control, treatment_json, obtained_json)
         SELECT ?1, position, name, control, treatment_json, obtained_json FROM there.arm WHERE trial_id = ?2
         ORDER BY position",
        params![id, there],
    )?;
    Ok(id)
}

/// What is known of the node, and from when to when blocks ran on it.
fn node(transaction: &Transaction<'_>, of: &BlockOf<'_>, trial_id: i64, there: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO main.part (trial_id, host, facts_json, started_wall_us, ended_wall_us, sequence, tick_wall_us,
                                gathered_wall_us)
         SELECT ?1, ?2, ?3, t.started_wall_us, t.ended_wall_us, k.sequence, k.wall_us, ?4
         FROM there.trial t LEFT JOIN there.tick k ON k.trial_id = t.id
           AND k.sequence = (SELECT max(sequence) FROM there.tick WHERE trial_id = t.id)
         WHERE t.id = ?5
         ON CONFLICT (trial_id, host) DO UPDATE SET
           started_wall_us = min(started_wall_us, excluded.started_wall_us),
           ended_wall_us = max(ended_wall_us, excluded.ended_wall_us),
           tick_wall_us = max(tick_wall_us, excluded.tick_wall_us),
           gathered_wall_us = excluded.gathered_wall_us",
        params![trial_id, of.node, of.facts.to_string(), of.now_us, there],
    )?;
    Ok(())
}
