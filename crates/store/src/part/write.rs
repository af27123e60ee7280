//! What is new of a trial of this host, as a database of its own.

use std::path::Path;

use rusqlite::params;

use super::{BULK_PAGE, PartTick, attach, only_reading_there};
use crate::{Store, StoreError};

impl Store {
    /// Writes what is new of a trial of this host into `to`, a file that is not there yet: a database that
    /// [`Store::gather`] reads. Everything, where the tick `since` is not here. Gives whether it was.
    pub fn write_part(
        &self,
        trial_id: i64,
        host: &str,
        since: Option<PartTick>,
        to: &Path,
        now_us: i64,
    ) -> Result<bool, StoreError> {
        let is_here = |tick: &PartTick| -> Result<bool, StoreError> {
            let sql = "SELECT 1 FROM tick WHERE trial_id = ?1 AND sequence = ?2 AND wall_us = ?3";
            self.is_any("looking for a tick", sql, params![trial_id, tick.sequence, tick.wall_us])
        };
        let known = since.as_ref().map(is_here).transpose()?.unwrap_or(true);
        let after = since.filter(|_| known).map_or(-1, |tick| tick.sequence);
        let file = Store::create(to)?;
        let write = || -> rusqlite::Result<()> {
            // Off here as in every bulk copy: what is referred to is copied by the same condition. A file that is not finished is
            // nobody's, so that it needs no journal; who wants it on the disk syncs it.
            file.connection.pragma_update(None, "foreign_keys", false)?;
            file.connection.pragma_update(None, "journal_mode", "OFF")?;
            file.connection.pragma_update(None, "synchronous", "OFF")?;
            file.connection.pragma_update(None, "page_size", BULK_PAGE)?;
            file.connection.execute_batch("VACUUM")?;
            attach(&file.connection, &self.path)?;
            let transaction = only_reading_there(&file.connection)?;
            for sql in [
                "INSERT INTO trial SELECT * FROM there.trial WHERE id = ?1",
                "INSERT INTO arm SELECT * FROM there.arm WHERE trial_id = ?1",
                "INSERT INTO service SELECT * FROM there.service WHERE trial_id = ?1",
                "INSERT INTO life SELECT * FROM there.life WHERE service_id IN (SELECT id FROM service WHERE trial_id = ?1)",
                "INSERT INTO event SELECT * FROM there.event WHERE trial_id = ?1",
                "INSERT INTO host SELECT * FROM there.host WHERE id IN
                   (SELECT host_id FROM trial WHERE id = ?1
                    UNION SELECT host_id FROM there.tick WHERE trial_id = ?1)",
            ] {
                transaction.execute(sql, params![trial_id])?;
            }
            let ticks = "INSERT INTO tick SELECT * FROM there.tick WHERE trial_id = ?1 AND sequence > ?2";
            transaction.execute(ticks, params![trial_id, after])?;
            let trials: i64 =
                transaction.query_row("SELECT count(*) FROM there.trial", [], |row| row.get(0))?;
            let measured = ["sample", "slow_sample", "observation", "rollup"];
            for table in measured {
                // All ticks of a life are of its trial. A whole table SQLite copies without looking into its rows.
                let rows = match (after < 0, trials) {
                    (true, 1) => format!("SELECT * FROM there.{table}"),
                    (true, _) => {
                        format!("SELECT m.* FROM life l CROSS JOIN there.{table} m ON m.life_id = l.id")
                    }
                    // Numbers of rows grow with time, so that the first one is where to begin.
                    (false, _) => format!(
                        "SELECT m.* FROM life l CROSS JOIN there.{table} m ON m.life_id = l.id
                           AND m.tick_id >= (SELECT min(id) FROM tick)
                         WHERE +m.tick_id IN (SELECT id FROM tick)"
                    ),
                };
                transaction.execute(&format!("INSERT INTO {table} {rows}"), [])?;
            }
            let sql = "INSERT INTO part
                       SELECT t.id, ?2, h.facts_json, t.started_wall_us, t.ended_wall_us, k.sequence, k.wall_us, ?3
                       FROM trial t JOIN host h ON h.id = t.host_id
                       LEFT JOIN there.tick k ON k.trial_id = t.id
                         AND k.sequence = (SELECT max(sequence) FROM there.tick WHERE trial_id = t.id)
                       WHERE t.id = ?1";
            transaction.execute(sql, params![trial_id, host, now_us])?;
            transaction.commit()?;
            file.connection.execute_batch("DETACH there")
        };
        write().map_err(StoreError::query(to, "writing a host's part"))?;
        Ok(known)
    }
}
