//! Taking a part into the database of all: of a host, or of a block that ran on a node.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde_json::{Value, json};

use super::{BlockOf, GATHERED, Gathered, PartOf, attach, only_reading_there};
use crate::records::SERVER;
use crate::{SCHEMA_VERSION, Store, StoreError};

/// Tables of samples, with their columns but for those that name life and tick.
const MEASURED: [(&str, &str); 4] = [
    ("rollup", "samples, rss_max_bytes, anon_max_bytes, anon_swap_max_bytes, cgroup_current_max_bytes"),
    (
        "sample",
        "rss_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes, vsize_bytes, hwm_bytes, minor_faults, \
         major_faults, cpu_us, threads, processes, cgroup_current_bytes, cgroup_peak_bytes",
    ),
    ("slow_sample", "pss_bytes, private_dirty_bytes, lazyfree_bytes, anon_huge_bytes, cost_us"),
    ("observation", "name, value"),
];

/// In the parameters of a trial whose blocks were taken in one by one: what names the run.
const RUN: &str = "blocks_of_run";

/// What SQLite keeps of the database in memory while a part is taken in.
const CACHE_KIB: i64 = 32_768;

impl Store {
    /// Takes a host's database, or a file of [`Store::write_part`], in: all or nothing. Of a host that is here already, what
    /// follows the last tick is appended; with `part.replace` the file takes the place of all that is here of the host.
    pub fn gather(&mut self, from: &Path, part: &PartOf<'_>) -> Result<Gathered, StoreError> {
        self.take(from, part.verified, "gathering a host's part", |transaction| {
            let parameters = json!({ "plan": part.plan, GATHERED: true });
            let prefix = format!("{}/", part.host);
            let mut there = There { trial_id: part.trial_id, host: part.host, prefix, after: Some(-1) };
            let trial_id = begin(transaction, &there, ("$.plan.id", part.plan.id.as_str()), &parameters)?;
            transaction.execute(
                "UPDATE main.trial SET parameters_json = ?2 WHERE id = ?1",
                params![trial_id, parameters.to_string()],
            )?;
            if part.replace {
                remove_host(transaction, trial_id, part.host)?;
            }
            let before = here(transaction, trial_id, part.host)?;
            there.after = before.and_then(|(sequence, _)| sequence).or(Some(-1));
            let taken = copy(transaction, &there, trial_id, part.now_us)?;
            let ended = before
                .is_none_or(|before| Some(before) != here(transaction, trial_id, part.host).ok().flatten());
            place_services(transaction, part, trial_id)?;
            end_whole(transaction, trial_id, part.plan.hosts().len())?;
            Ok(Gathered { trial_id, changed: taken.changed || ended, ..taken })
        })
    }

    /// Takes in the database of a block of a run that went on by itself on a node, all or nothing; gives the row id of the
    /// run's trial here, which the first block begins. A block that is here already changes nothing.
    pub fn take_block(&mut self, from: &Path, of: &BlockOf<'_>) -> Result<i64, StoreError> {
        self.take(from, false, "taking in a block", |transaction| {
            let sql = "SELECT max(id), parameters_json FROM there.trial";
            let (there, parameters): (i64, String) =
                transaction.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let block = There { trial_id: there, host: of.node, prefix: String::new(), after: None };
            let mut parameters: Value = serde_json::from_str(&parameters).unwrap_or_default();
            parameters[RUN] = Value::from(of.run);
            let path = format!("$.{RUN}");
            let trial_id = begin(transaction, &block, (&path, of.run), &parameters)?;
            let sql = "SELECT count(*) FROM main.service WHERE trial_id = ?1 AND block = ?2";
            let known: i64 = transaction.query_row(sql, params![trial_id, of.block], |row| row.get(0))?;
            if known == 0 {
                copy(transaction, &block, trial_id, of.now_us)?;
                let sql = "UPDATE main.part SET facts_json = ?3 WHERE trial_id = ?1 AND host = ?2";
                transaction.execute(sql, params![trial_id, of.node, of.facts.to_string()])?;
            }
            Ok(trial_id)
        })
    }

    /// Blocks of a trial that have services here, ascending.
    pub fn blocks(&self, trial_id: i64) -> Result<Vec<u32>, StoreError> {
        let sql = "SELECT DISTINCT block FROM service WHERE trial_id = ?1 ORDER BY block";
        self.rows("reading the blocks of a run", sql, params![trial_id], |row| row.get(0))
    }

    /// One transaction with the file attached as `there`.
    fn take<T>(
        &mut self,
        from: &Path,
        verified: bool,
        doing: &'static str,
        take: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        check(from, verified)?;
        let path = self.path.clone();
        let run = || -> rusqlite::Result<T> {
            self.connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
            self.connection.pragma_update(None, "foreign_keys", false)?;
            attach(&self.connection, from)?;
            let transaction = only_reading_there(&self.connection)?;
            let taken = take(&transaction)?;
            transaction.commit()?;
            Ok(taken)
        };
        let result = run().map_err(StoreError::query(&path, doing));
        // A file that was not attached needs no detaching.
        let _ = self.connection.execute_batch("DETACH there");
        let after = self.connection.pragma_update(None, "foreign_keys", true);
        after.map_err(StoreError::query(&path, doing))?;
        result
    }
}

/// A trial in the attached file.
struct There<'a> {
    trial_id: i64,
    host: &'a str,
    /// What its services are called here before their names: two hosts may have services of one name.
    prefix: String,
    /// The last tick of the host that is here, by its number there, -1 without any; `None` of a block, which is all new.
    after: Option<i64>,
}

/// Whether a file can be taken in: of this schema, whole, and with nothing in it that runs by itself. It comes from another machine.
fn check(file: &Path, verified: bool) -> Result<(), StoreError> {
    let connection = Connection::open(file).map_err(StoreError::open(file))?;
    let found = crate::user_version(&connection).map_err(StoreError::open(file))?;
    if found != SCHEMA_VERSION {
        return Err(StoreError::Schema { path: file.to_owned(), found, known: SCHEMA_VERSION });
    }
    let of = || StoreError::query(file, "checking a part");
    let state: String = match verified {
        true => "ok".to_owned(),
        false => connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(of())?,
    };
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')";
    let foreign: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(of())?;
    let why = match (state.as_str(), foreign) {
        ("ok", 0) => return Ok(()),
        ("ok", _) => "it has triggers or views, which no database of Heaptrial has".to_owned(),
        _ => state,
    };
    Err(StoreError::Damaged { path: file.to_owned(), why })
}

/// The trial's row here, whose parameters have this value at this path; made of the one there if it is not here yet.
fn begin(
    transaction: &Transaction<'_>,
    there: &There<'_>,
    (path, value): (&str, &str),
    parameters: &Value,
) -> rusqlite::Result<i64> {
    // Containers of one machine share a boot: here it is one of each host.
    transaction.execute(
        "INSERT INTO main.host (boot_id, facts_json) SELECT boot_id || ' on ' || ?1, facts_json FROM there.host WHERE true
           ON CONFLICT (boot_id) DO NOTHING",
        params![there.host],
    )?;
    let sql = "SELECT id FROM main.trial WHERE json_extract(parameters_json, ?1) = ?2 ORDER BY id DESC";
    let known = transaction.query_row(sql, params![path, value], |row| row.get(0)).optional()?;
    let trial_id = match known {
        Some(known) => known,
        None => {
            transaction.execute(
                "INSERT INTO main.trial (name, kind, host_id, metric, seed, repeats, planned_us, parameters_json, command,
                                         tool_version, started_wall_us)
                 SELECT t.name, t.kind, h.id, t.metric, t.seed, t.repeats, t.planned_us, ?3, t.command, t.tool_version,
                        t.started_wall_us
                 FROM there.trial t JOIN there.host o ON o.id = t.host_id
                 JOIN main.host h ON h.boot_id = o.boot_id || ' on ' || ?2 WHERE t.id = ?1",
                params![there.trial_id, there.host, parameters.to_string()],
            )?;
            transaction.last_insert_rowid()
        }
    };
    // A host without services of an arm does not know what they must run.
    transaction.execute(
        "INSERT INTO main.arm (trial_id, position, name, control, treatment_json, obtained_json)
         SELECT ?2, position, name, control, treatment_json, obtained_json FROM there.arm WHERE trial_id = ?1 ORDER BY position
         ON CONFLICT (trial_id, name) DO UPDATE SET obtained_json = coalesce(obtained_json, excluded.obtained_json)",
        params![there.trial_id, trial_id],
    )?;
    Ok(trial_id)
}

/// Removes all that is here of a host.
fn remove_host(transaction: &Transaction<'_>, trial_id: i64, host: &str) -> rusqlite::Result<()> {
    let services = format!(
        "SELECT id FROM main.service WHERE trial_id = ?1 AND json_extract(attributes_json, '$.{SERVER}') = ?2"
    );
    let lives = format!("SELECT id FROM main.life WHERE service_id IN ({services})");
    let boots = "SELECT id FROM main.host WHERE substr(boot_id, -length(' on ' || ?2)) = ' on ' || ?2";
    let measured = MEASURED.map(|(table, _)| format!("DELETE FROM main.{table} WHERE life_id IN ({lives})"));
    let others = [
        format!("DELETE FROM main.tick WHERE trial_id = ?1 AND host_id IN ({boots})"),
        "DELETE FROM main.event WHERE trial_id = ?1 AND host = ?2".to_owned(),
        format!("DELETE FROM main.life WHERE service_id IN ({services})"),
        format!("DELETE FROM main.service WHERE id IN ({services})"),
        "DELETE FROM main.part WHERE trial_id = ?1 AND host = ?2".to_owned(),
    ];
    for sql in measured.iter().chain(&others) {
        transaction.execute(sql, params![trial_id, host])?;
    }
    Ok(())
}

/// The last tick of a host and its end; `None` if nothing is here of it.
fn here(
    transaction: &Transaction<'_>,
    trial_id: i64,
    host: &str,
) -> rusqlite::Result<Option<(Option<i64>, Option<i64>)>> {
    let sql = "SELECT sequence, ended_wall_us FROM main.part WHERE trial_id = ?1 AND host = ?2";
    transaction.query_row(sql, params![trial_id, host], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Copies what is new: services and lives that are not here, and ticks after the last one that is. Of lives that are here what the
/// file says of them counts.
fn copy(
    transaction: &Transaction<'_>,
    there: &There<'_>,
    trial_id: i64,
    now_us: i64,
) -> rusqlite::Result<Gathered> {
    let sql = "SELECT ended_wall_us FROM there.trial WHERE id = ?1";
    let ended_us: Option<i64> = transaction.query_row(sql, params![there.trial_id], |row| row.get(0))?;
    let end = End::of(transaction, there.trial_id, ended_us)?;
    services(transaction, there, trial_id)?;
    let (lives, changed_lives) = lives(transaction, there, &end)?;
    let samples = samples(transaction, there, trial_id, &end)?;
    let events = events(transaction, there, trial_id, &end)?;
    record(transaction, there, trial_id, now_us)?;
    let changed = samples + lives + changed_lives > 0 || events != 0;
    Ok(Gathered { trial_id, samples, lives, events: events.max(0) as u64, changed })
}

/// Up to where readings and events are of the trial: services go on after it, and the agent may read them for a while.
///
/// What was written before something that is not beyond the end is of the trial, whatever the clock said: it may have been
/// ahead, and set back since.
struct End {
    wall_us: i64,
    /// The last tick of the trial, by its number there.
    sequence: i64,
    /// The last event of the trial, by its row there.
    event_id: i64,
}

impl End {
    fn of(transaction: &Transaction<'_>, trial_id: i64, ended_us: Option<i64>) -> rusqlite::Result<Self> {
        let wall_us = ended_us.unwrap_or(i64::MAX);
        let last = |sql: &str| -> rusqlite::Result<Option<i64>> {
            transaction.query_row(sql, params![trial_id, wall_us], |row| row.get(0))
        };
        let sequence = last("SELECT max(sequence) FROM there.tick WHERE trial_id = ?1 AND wall_us <= ?2")?;
        let event_id = last("SELECT max(id) FROM there.event WHERE trial_id = ?1 AND wall_us <= ?2")?;
        let ticked = last("SELECT max(sequence) FROM there.tick WHERE trial_id = ?1 AND ?2 IS NOT NULL")?;
        // An end before the first tick is by a clock that was set back.
        Ok(match sequence.or(ticked) {
            Some(last) if sequence.is_none() => Self { wall_us, sequence: last, event_id: i64::MAX },
            _ => Self { wall_us, sequence: sequence.unwrap_or(-1), event_id: event_id.unwrap_or(-1) },
        })
    }
}

const SERVICES: &str =
    "there.service t JOIN main.service s ON s.trial_id = ?2 AND s.name = ?3 || t.name AND t.trial_id = ?1";

fn services(transaction: &Transaction<'_>, there: &There<'_>, trial_id: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO main.service (trial_id, arm_id, name, block, position, attributes_json)
         SELECT ?2, a.id, ?3 || s.name, s.block, s.position, json_set(coalesce(s.attributes_json, '{}'), '$.' || ?4, ?5)
         FROM there.service s JOIN there.arm t ON t.id = s.arm_id JOIN main.arm a ON a.trial_id = ?2 AND a.name = t.name
         WHERE s.trial_id = ?1 ORDER BY s.id ON CONFLICT (trial_id, name) DO NOTHING",
        params![there.trial_id, trial_id, there.prefix, SERVER, there.host],
    )?;
    transaction.execute_batch(
        "DROP TABLE IF EXISTS temp.service_there;
         CREATE TEMP TABLE service_there (old INTEGER PRIMARY KEY, new INTEGER NOT NULL);",
    )?;
    let sql = format!("INSERT INTO temp.service_there SELECT t.id, s.id FROM {SERVICES}");
    transaction.execute(&sql, params![there.trial_id, trial_id, there.prefix]).map(drop)
}

/// Gives how many are new, and how many others are described otherwise than before.
fn lives(transaction: &Transaction<'_>, there: &There<'_>, end: &End) -> rusqlite::Result<(u64, u64)> {
    let count = || transaction.query_row("SELECT count(*) FROM main.life", [], |row| row.get::<_, i64>(0));
    let before = count()?;
    let described = "identity_json, contamination, failed, ended_wall_us, ended_boottime_us, ending_json";
    let excluded =
        described.split(", ").map(|column| format!("excluded.{column}")).collect::<Vec<_>>().join(", ");
    let columns = format!("pid, start_ticks, start_json, started_wall_us, started_boottime_us, {described}");
    // Lives that began after the end are of the trial only if they were read in it.
    let is_read = |table: &str| {
        format!(
            "EXISTS (SELECT 1 FROM there.{table} m CROSS JOIN there.tick k ON k.id = m.tick_id
                     WHERE m.life_id = l.id AND k.sequence <= ?3)"
        )
    };
    let written = transaction.execute(
        &format!(
            "INSERT INTO main.life (service_id, boot_id, {columns})
             SELECT s.new, l.boot_id || ' on ' || ?1, {columns} FROM there.life l JOIN temp.service_there s ON s.old = l.service_id
             WHERE started_wall_us <= ?2 OR {} OR {} ORDER BY l.id
             ON CONFLICT (service_id, boot_id, pid, start_ticks)
               DO UPDATE SET ({described}) = ({excluded}) WHERE ({described}) IS NOT ({excluded})",
            is_read("sample"),
            is_read("rollup")
        ),
        params![there.host, end.wall_us, end.sequence],
    )?;
    transaction.execute_batch(
        "DROP TABLE IF EXISTS temp.life_there;
         CREATE TEMP TABLE life_there (old INTEGER PRIMARY KEY, new INTEGER NOT NULL);",
    )?;
    transaction.execute(
        "INSERT INTO temp.life_there SELECT l.id, h.id FROM there.life l JOIN temp.service_there s ON s.old = l.service_id
         JOIN main.life h ON h.service_id = s.new AND h.boot_id = l.boot_id || ' on ' || ?1 AND h.pid = l.pid
           AND h.start_ticks = l.start_ticks",
        params![there.host],
    )?;
    let new = (count()? - before) as u64;
    Ok((new, written as u64 - new))
}

/// Ticks that are new with their samples; gives how many samples. Row ids keep their distance from each other.
fn samples(
    transaction: &Transaction<'_>,
    there: &There<'_>,
    trial_id: i64,
    end: &End,
) -> rusqlite::Result<u64> {
    let after = there.after.unwrap_or(-1);
    let sql = "SELECT min(id), max(id), (SELECT coalesce(max(id), 0) + 1 FROM main.tick) - min(id)
               FROM there.tick WHERE trial_id = ?1 AND sequence > ?2 AND sequence <= ?3";
    let new = params![there.trial_id, after, end.sequence];
    let span: (Option<i64>, Option<i64>, Option<i64>) =
        transaction.query_row(sql, new, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (Some(first), Some(last), Some(offset)) = span else { return Ok(0) };
    transaction.execute(
        "INSERT INTO main.tick (id, trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us, host_id)
         SELECT t.id + ?4, ?5, (SELECT coalesce(max(sequence), -1) FROM main.tick WHERE trial_id = ?5)
                  + row_number() OVER (ORDER BY t.sequence),
                t.wall_us, t.boottime_us, t.cost_wall_us, t.cost_cpu_us, h.id
         FROM there.tick t JOIN there.trial r ON r.id = t.trial_id JOIN there.host o ON o.id = coalesce(t.host_id, r.host_id)
         JOIN main.host h ON h.boot_id = o.boot_id || ' on ' || ?6
         WHERE t.trial_id = ?1 AND t.sequence > ?2 AND t.sequence <= ?3 ORDER BY t.sequence",
        params![there.trial_id, after, end.sequence, offset, trial_id, there.host],
    )?;
    let mut samples = 0;
    for (table, columns) in MEASURED {
        // Ticks of other trials in between have no sample of these lives.
        let sql = format!(
            "INSERT INTO main.{table} (life_id, tick_id, {columns})
             SELECT l.new, m.tick_id + ?1, {columns} FROM temp.life_there l
             CROSS JOIN there.{table} m ON m.life_id = l.old WHERE m.tick_id BETWEEN ?2 AND ?3"
        );
        let copied = transaction.execute(&sql, params![offset, first, last])? as u64;
        if table == "sample" {
            samples = copied;
        }
    }
    Ok(samples)
}

/// A file has all events of its trial: they take the place of those that are here. Gives how many more there are.
fn events(
    transaction: &Transaction<'_>,
    there: &There<'_>,
    trial_id: i64,
    end: &End,
) -> rusqlite::Result<i64> {
    let before = match there.after {
        Some(_) => {
            let sql = "DELETE FROM main.event WHERE trial_id = ?1 AND host = ?2";
            transaction.execute(sql, params![trial_id, there.host])? as i64
        }
        // A node runs several blocks, each with events of its own.
        None => 0,
    };
    let written = transaction.execute(
        "INSERT INTO main.event (trial_id, service_id, arm_id, wall_us, kind, text, host)
         SELECT ?2, s.new, a.id, e.wall_us, e.kind, e.text, ?3 FROM there.event e
         LEFT JOIN temp.service_there s ON s.old = e.service_id LEFT JOIN there.arm t ON t.id = e.arm_id
         LEFT JOIN main.arm a ON a.trial_id = ?2 AND a.name = t.name
         WHERE e.trial_id = ?1 AND e.id <= ?4 ORDER BY e.id",
        params![there.trial_id, trial_id, there.host, end.event_id],
    )?;
    Ok(written as i64 - before)
}

/// Records from when to when the part is. A node's is that of all its blocks.
fn record(
    transaction: &Transaction<'_>,
    there: &There<'_>,
    trial_id: i64,
    now_us: i64,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO main.part
         SELECT ?2, ?3, h.facts_json, t.started_wall_us, t.ended_wall_us, k.sequence, k.wall_us, ?4
         FROM there.trial t JOIN there.host h ON h.id = t.host_id
         LEFT JOIN there.tick k ON k.trial_id = t.id AND k.sequence = (SELECT max(sequence) FROM there.tick WHERE trial_id = t.id)
         WHERE t.id = ?1
         ON CONFLICT (trial_id, host) DO UPDATE SET
           started_wall_us = min(started_wall_us, excluded.started_wall_us), ended_wall_us = excluded.ended_wall_us,
           sequence = coalesce(excluded.sequence, sequence), tick_wall_us = coalesce(excluded.tick_wall_us, tick_wall_us),
           gathered_wall_us = excluded.gathered_wall_us",
        params![there.trial_id, trial_id, there.host, now_us],
    )?;
    let sql = "UPDATE main.trial SET started_wall_us = min(started_wall_us, (SELECT started_wall_us FROM there.trial WHERE id = ?1))
               WHERE id = ?2";
    transaction.execute(sql, params![there.trial_id, trial_id]).map(drop)
}

/// Services of a host are in the order of the plan of all.
fn place_services(transaction: &Transaction<'_>, part: &PartOf<'_>, trial_id: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE main.service SET position = ?3 WHERE trial_id = ?1 AND name = ?2";
    let mut update = transaction.prepare(sql)?;
    for (position, own) in part.plan.services.iter().enumerate().filter(|(_, own)| own.host == part.host) {
        update.execute(params![trial_id, format!("{}/{}", part.host, own.service), position as i64])?;
    }
    Ok(())
}

/// The whole ends with its last host.
fn end_whole(transaction: &Transaction<'_>, trial_id: i64, hosts: usize) -> rusqlite::Result<()> {
    let sql = "UPDATE main.trial SET (ended_wall_us, outcome) =
                 (SELECT iif(count(ended_wall_us) = ?2, max(ended_wall_us), NULL), iif(count(ended_wall_us) = ?2, 'completed', NULL)
                  FROM main.part WHERE trial_id = ?1) WHERE id = ?1";
    transaction.execute(sql, params![trial_id, hosts as i64]).map(drop)
}
