//! A trial over several hosts: each host's database has the part of its own services; the parts are gathered in one.

mod take;
mod write;

use std::path::Path;

use heaptrial_model::DrawnPlan;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde_json::Value;

use crate::read::Json;
use crate::{Store, StoreError};

/// Bytes of a page where much is written at once: rows fill fewer and larger pages sooner.
const BULK_PAGE: u32 = 16_384;

/// What is here of a host's part.
#[derive(Debug, Clone, PartialEq)]
pub struct PartRecord {
    pub host: String,
    pub facts: Value,
    pub started_wall_us: i64,
    pub ended_wall_us: Option<i64>,
    pub last: Option<PartTick>,
    pub gathered_wall_us: i64,
}

/// A tick of a host: what came after it is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartTick {
    pub sequence: i64,
    pub wall_us: i64,
}

/// What of a host's database is one part.
#[derive(Debug, Clone)]
pub struct PartOf<'a> {
    pub host: &'a str,
    pub trial_id: i64,
    pub plan: &'a DrawnPlan,
    pub now_us: i64,
    /// Whether a digest showed that the file is as it was written; if not, all its pages are looked through first.
    pub verified: bool,
    /// Whether what is here of the host is removed first.
    pub replace: bool,
}

/// What of a node's database is one block of a run.
#[derive(Debug, Clone)]
pub struct BlockOf<'a> {
    /// What names the run: a database may have several of one command and seed.
    pub run: &'a str,
    pub block: u32,
    pub node: &'a str,
    pub facts: &'a Value,
    pub now_us: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gathered {
    pub trial_id: i64,
    pub samples: u64,
    pub events: u64,
    pub lives: u64,
    /// Whether anything is new, or described otherwise than before, as where the trial has ended there.
    pub changed: bool,
}

/// In the parameters of a trial that was gathered.
pub(crate) const GATHERED: &str = "gathered";

impl Store {
    /// The gathered parts of a trial, by host.
    pub fn parts(&self, trial_id: i64) -> Result<Vec<PartRecord>, StoreError> {
        let sql = "SELECT host, facts_json, started_wall_us, ended_wall_us, sequence, tick_wall_us, gathered_wall_us
                   FROM part WHERE trial_id = ?1 ORDER BY host";
        self.rows("reading the parts of a trial", sql, params![trial_id], |row| {
            let (sequence, wall_us): (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
            Ok(PartRecord {
                host: row.get(0)?,
                facts: row.get::<_, Json<_>>(1)?.0,
                started_wall_us: row.get(2)?,
                ended_wall_us: row.get(3)?,
                last: sequence.zip(wall_us).map(|(sequence, wall_us)| PartTick { sequence, wall_us }),
                gathered_wall_us: row.get(6)?,
            })
        })
    }

    /// The number of the first tick that a file of [`Store::write_part`] has, or would have if there were one; `None` for
    /// a host's own database, which has all.
    pub fn first_of_part(&self, trial_id: i64) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT coalesce((SELECT min(sequence) FROM tick WHERE trial_id = ?1), p.sequence + 1, 0)
                   FROM part p WHERE p.trial_id = ?1";
        let found = self.rows("reading a part", sql, params![trial_id], |row| row.get(0))?;
        Ok(found.into_iter().next())
    }
}

fn attach(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    connection.execute("ATTACH DATABASE ?1 AS there", params![path.to_string_lossy()]).map(drop)
}

/// A transaction that takes no lock on what is attached before it writes there, which it never does: an immediate one would keep
/// the agent of a host from writing its ticks.
fn only_reading_there(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new_unchecked(connection, TransactionBehavior::Deferred)
}
