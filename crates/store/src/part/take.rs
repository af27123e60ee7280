//! Taking a host's part into the database of all.

use std::collections::HashMap;
use std::path::Path;

use heaptrial_model::KnownEvent;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde_json::Value;

use super::recordings::{Age, age, note_recording, parameters, set_parameters};
use super::{BULK_PAGE, Gathered, PartOf, attach, only_reading_there};
use crate::records::SERVER;
use crate::{SCHEMA_VERSION, Store, StoreError};

/// Tables of ticks and samples, with their columns but for those that name life and tick.
pub(super) const MEASURED: [(&str, &str); 4] = [
    ("rollup", "samples, rss_max_bytes, anon_max_bytes, anon_swap_max_bytes, cgroup_current_max_bytes"),
    (
        "sample",
        "rss_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes, vsize_bytes, hwm_bytes, minor_faults, \
         major_faults, cpu_us, threads, processes, cgroup_current_bytes, cgroup_peak_bytes",
    ),
    ("slow_sample", "pss_bytes, private_dirty_bytes, lazyfree_bytes, anon_huge_bytes, cost_us"),
    ("observation", "name, value"),
];

/// What SQLite keeps of the database in memory while a part is taken in.
const CACHE_KIB: i64 = 32_768;

impl Store {
    /// Takes in what a host's database, or a file of [`Store::write_part`], has of its part and is not here yet. All or
    /// nothing; the same once more changes nothing.
    pub fn gather(&mut self, from: &Path, part: &PartOf<'_>) -> Result<Gathered, StoreError> {
        let path = self.path.clone();
        let doing = "gathering a host's part";
        check(from, part.verified)?;
        let is_first = !self.has_part(part)?;
        let take = || -> rusqlite::Result<Gathered> {
            if is_first {
                self.journal_only_what_changes()?;
            }
            self.connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
            self.connection.pragma_update(None, "foreign_keys", false)?;
            attach(&self.connection, from)?;
            let transaction = only_reading_there(&self.connection)?;
            let gathered = gather(&transaction, part)?;
            transaction.commit()?;
            Ok(gathered)
        };
        let result = take().map_err(StoreError::query(&path, doing));
        // What was not begun needs no end.
        let _ = self.connection.execute_batch("DETACH there");
        let after = || -> rusqlite::Result<()> {
            self.connection.pragma_update(None, "foreign_keys", true)?;
            self.begin_wal()
        };
        after().map_err(StoreError::query(&path, doing))?;
        result
    }

    /// Whether something of the host is here.
    fn has_part(&self, part: &PartOf<'_>) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM part p JOIN trial t ON t.id = p.trial_id
                   WHERE p.host = ?1 AND json_extract(t.parameters_json, '$.plan.id') = ?2";
        let id = part.parameters["plan"]["id"].as_str();
        let found = self.rows("reading the parts of a trial", sql, params![part.host, id], |_| Ok(()))?;
        Ok(!found.is_empty())
    }

    /// A write-ahead log would have every page of a bulk written twice; a rollback journal has those only that change, and what
    /// is added at the end of the file changes none. Where others have the database open, the log stays.
    fn journal_only_what_changes(&self) -> rusqlite::Result<()> {
        if self.connection.pragma_update(None, "journal_mode", "TRUNCATE").is_err() {
            return Ok(());
        }
        let trials: i64 = self.connection.query_row("SELECT count(*) FROM trial", [], |row| row.get(0))?;
        if trials == 0 {
            self.connection.pragma_update(None, "page_size", BULK_PAGE)?;
            self.connection.execute_batch("VACUUM")?;
        }
        Ok(())
    }
}

/// Whether a file can be taken in: of this schema, whole, and with nothing in it that runs by itself. It comes from another machine.
pub(super) fn check(file: &Path, verified: bool) -> Result<(), StoreError> {
    let connection = Connection::open(file).map_err(StoreError::open(file))?;
    let found = crate::user_version(&connection).map_err(StoreError::open(file))?;
    if found != SCHEMA_VERSION {
        return Err(StoreError::Schema { path: file.to_owned(), found, known: SCHEMA_VERSION });
    }
    let doing = "checking a host's part";
    let of = StoreError::query(file, doing);
    let state: String = match verified {
        true => "ok".to_owned(),
        false => connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(of)?,
    };
    let foreign: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')", [], |row| {
            row.get(0)
        })
        .map_err(StoreError::query(file, doing))?;
    if state != "ok" || foreign > 0 {
        let why = if foreign > 0 {
            "it has triggers or views, which no database of Heaptrial has".into()
        } else {
            state
        };
        return Err(StoreError::Damaged { path: file.to_owned(), why });
    }
    Ok(())
}

fn gather(transaction: &Transaction<'_>, part: &PartOf<'_>) -> rusqlite::Result<Gathered> {
    transaction.execute_batch(
        "DROP TABLE IF EXISTS temp.host_there; DROP TABLE IF EXISTS temp.life_there; DROP TABLE IF EXISTS temp.tick_there;
         DROP TABLE IF EXISTS temp.boot_there;
         CREATE TEMP TABLE boot_there (old TEXT PRIMARY KEY, new TEXT NOT NULL) WITHOUT ROWID;
         CREATE TEMP TABLE host_there (old INTEGER PRIMARY KEY, new INTEGER NOT NULL);
         CREATE TEMP TABLE life_there (old INTEGER PRIMARY KEY, new INTEGER NOT NULL);
         CREATE TEMP TABLE tick_there (old INTEGER PRIMARY KEY, new INTEGER NOT NULL, known INTEGER NOT NULL);",
    )?;
    hosts(transaction, part)?;
    let trial_id = trial(transaction, part)?;
    let before = standing(transaction, part, trial_id)?;
    let age = age(transaction, part, trial_id)?;
    let is_newest = age != Age::Older;
    let arms = arms(transaction, part, trial_id)?;
    let services = services(transaction, part, trial_id, &arms)?;
    let lives_before: i64 = count(transaction, "life")?;
    let (started_us, ended_us): (i64, Option<i64>) = transaction.query_row(
        "SELECT started_wall_us, ended_wall_us FROM there.trial WHERE id = ?1",
        params![part.trial_id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let end = End::of(transaction, part, ended_us)?;
    let written = lives(transaction, &services, &end, is_newest)?;
    let lives = (count(transaction, "life")? - lives_before) as u64;
    ticks(transaction, part, trial_id, &end)?;
    let samples = measured(transaction, part)?;
    let mut events = events(transaction, part, (trial_id, &services, &arms), &end)?;
    let anew = age == Age::Anew;
    if anew {
        note_recording(transaction, part, trial_id)?;
    }
    if is_newest {
        record(transaction, part, trial_id, (started_us, ended_us))?;
    }
    if anew {
        let text = format!(
            "{} has recorded the trial anew: its database was lost, or it was installed again",
            part.host
        );
        transaction.execute(
            "INSERT INTO main.event (trial_id, wall_us, kind, text, host) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![trial_id, part.now_us, KnownEvent::DatabaseLost.as_str(), text, part.host],
        )?;
        events += 1;
    }
    let told_more = written > lives || before != standing(transaction, part, trial_id)?;
    let changed = told_more || samples + events + lives > 0;
    Ok(Gathered { trial_id, samples, events, lives, anew, changed })
}

/// What is known here of a host's part: its end, its last tick, and the trial's parameters.
type Standing = (Option<i64>, Option<i64>, String);

fn standing(
    transaction: &Transaction<'_>,
    part: &PartOf<'_>,
    trial_id: i64,
) -> rusqlite::Result<Option<Standing>> {
    let sql = "SELECT p.ended_wall_us, p.sequence, t.parameters_json FROM main.part p JOIN main.trial t ON t.id = p.trial_id
               WHERE p.trial_id = ?1 AND p.host = ?2";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    transaction.query_row(sql, params![trial_id, part.host], columns).optional()
}

/// Up to where a host's readings and events are of the trial: services go on after it, and the agent may read them for a while.
///
/// What was written before something that is not beyond the end is none of that time, whatever the clock said: it may have been ahead, and set
/// back since.
struct End {
    /// The end by the host's clock.
    wall_us: i64,
    /// The last tick of the trial, by its number there.
    sequence: i64,
    /// The last event of the trial, by its row there.
    event_id: i64,
}

impl End {
    fn of(transaction: &Transaction<'_>, part: &PartOf<'_>, ended_us: Option<i64>) -> rusqlite::Result<Self> {
        let wall_us = ended_us.unwrap_or(i64::MAX);
        let last = |sql: &str| -> rusqlite::Result<Option<i64>> {
            transaction.query_row(sql, params![part.trial_id, wall_us], |row| row.get(0))
        };
        let sequence = last("SELECT max(sequence) FROM there.tick WHERE trial_id = ?1 AND wall_us <= ?2")?;
        let event_id = last("SELECT max(id) FROM there.event WHERE trial_id = ?1 AND wall_us <= ?2")?;
        let ticked: bool = transaction.query_row(
            "SELECT EXISTS (SELECT 1 FROM there.tick WHERE trial_id = ?1)",
            params![part.trial_id],
            |row| row.get(0),
        )?;
        // An end before the first tick is by a clock that was set back.
        Ok(match ticked && sequence.is_none() {
            true => Self { wall_us, sequence: i64::MAX, event_id: i64::MAX },
            false => Self { wall_us, sequence: sequence.unwrap_or(-1), event_id: event_id.unwrap_or(-1) },
        })
    }
}

/// Whether a life was read in the trial.
const IS_READ: &str = "EXISTS (SELECT 1 FROM there.sample m CROSS JOIN there.tick t ON t.id = m.tick_id
                               WHERE m.life_id = l.id AND t.sequence <= ?4)
                       OR EXISTS (SELECT 1 FROM there.rollup m CROSS JOIN there.tick t ON t.id = m.tick_id
                                  WHERE m.life_id = l.id AND t.sequence <= ?4)";

/// Gives how many samples are new.
fn measured(transaction: &Transaction<'_>, part: &PartOf<'_>) -> rusqlite::Result<u64> {
    type Span = (Option<i64>, Option<i64>, i64, Option<i64>);
    let (first, last, new, offset): Span = transaction.query_row(
        "SELECT min(old), max(old), count(*), min(new - old) FROM temp.tick_there WHERE NOT known",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let within: i64 = transaction.query_row(
        "SELECT count(*) FROM there.tick WHERE trial_id = ?1 AND id BETWEEN ?2 AND ?3",
        params![part.trial_id, first, last],
        |row| row.get(0),
    )?;
    // Looked up for each row only where others stand between those that are new.
    let each =
        if within == new { "" } else { "AND m.tick_id IN (SELECT old FROM temp.tick_there WHERE NOT known)" };
    let known: bool =
        transaction
            .query_row("SELECT EXISTS (SELECT 1 FROM temp.tick_there WHERE known)", [], |row| row.get(0))?;
    let mut samples = 0;
    for (table, columns) in MEASURED {
        let mut here = 0;
        if known {
            here += of_known_ticks(transaction, table, columns)?;
        }
        let sql = format!(
            "INSERT INTO main.{table} (life_id, tick_id, {columns})
             SELECT l.new, m.tick_id + ?1, {columns}
             FROM temp.life_there l CROSS JOIN there.{table} m ON m.life_id = l.old
             WHERE m.tick_id BETWEEN ?2 AND ?3 {each}"
        );
        here += transaction.execute(&sql, params![offset, first, last])?;
        if table == "sample" {
            samples = here as u64;
        }
    }
    Ok(samples)
}

/// Of ticks that are here what is missing.
fn of_known_ticks(transaction: &Transaction<'_>, table: &str, columns: &str) -> rusqlite::Result<usize> {
    let unless_here = match table {
        // What is here in full stays so, though it was rolled up there meanwhile.
        "rollup" => {
            "AND NOT EXISTS (SELECT 1 FROM main.sample s WHERE s.life_id = l.new AND s.tick_id = t.new)"
        }
        // Of a span that was rolled up there they stand at its middle; here they are where they were read.
        "slow_sample" | "observation" => {
            "AND NOT EXISTS (SELECT 1 FROM there.rollup r WHERE r.life_id = m.life_id AND r.tick_id = m.tick_id)"
        }
        _ => "",
    };
    let sql = format!(
        "INSERT OR IGNORE INTO main.{table} (life_id, tick_id, {columns})
         SELECT l.new, t.new, {columns} FROM there.{table} m
         JOIN temp.life_there l ON l.old = m.life_id JOIN temp.tick_there t ON t.old = m.tick_id
         WHERE t.known {unless_here}"
    );
    transaction.execute(&sql, [])
}

fn count(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<i64> {
    transaction.query_row(&format!("SELECT count(*) FROM main.{table}"), [], |row| row.get(0))
}

/// Boots of the host. Containers of one machine tell the same id: of all hosts but the first it has the host's name with it.
fn hosts(transaction: &Transaction<'_>, part: &PartOf<'_>) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO temp.boot_there
         SELECT t.boot_id, CASE WHEN EXISTS (
             SELECT 1 FROM main.life l JOIN main.service s ON s.id = l.service_id
             WHERE l.boot_id = t.boot_id AND substr(s.name, 1, length(?1) + 1) <> ?1 || '/')
           THEN t.boot_id || ' on ' || ?1 ELSE t.boot_id END FROM there.host t",
        params![part.host],
    )?;
    transaction.execute_batch(
        "INSERT INTO main.host (boot_id, facts_json)
         SELECT b.new, t.facts_json FROM there.host t JOIN temp.boot_there b ON b.old = t.boot_id WHERE true
           ON CONFLICT (boot_id) DO NOTHING;
         INSERT INTO temp.host_there SELECT t.id, h.id FROM there.host t JOIN temp.boot_there b ON b.old = t.boot_id
           JOIN main.host h ON h.boot_id = b.new;",
    )
}

/// The trial's row here, by the id of its plan.
fn trial(transaction: &Transaction<'_>, part: &PartOf<'_>) -> rusqlite::Result<i64> {
    let id = part.parameters["plan"]["id"].as_str().unwrap_or_default();
    let known = transaction
        .query_row(
            "SELECT id FROM main.trial WHERE json_extract(parameters_json, '$.plan.id') = ?1 ORDER BY id DESC",
            params![id],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(known) = known {
        let mut here = parameters(transaction, known)?;
        if here["plan"] != part.parameters["plan"] {
            here["plan"] = part.parameters["plan"].clone();
            set_parameters(transaction, known, &here)?;
        }
        return Ok(known);
    }
    transaction.execute(
        "INSERT INTO main.trial (name, kind, host_id, metric, seed, repeats, planned_us, plan_json, parameters_json,
                                 command, tool_version, started_wall_us)
         SELECT t.name, t.kind, h.new, t.metric, t.seed, t.repeats, t.planned_us, t.plan_json, ?2, t.command,
                t.tool_version, t.started_wall_us
         FROM there.trial t JOIN temp.host_there h ON h.old = t.host_id WHERE t.id = ?1",
        params![part.trial_id, part.parameters.to_string()],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// The arms here by their row ids there.
fn arms(
    transaction: &Transaction<'_>,
    part: &PartOf<'_>,
    trial_id: i64,
) -> rusqlite::Result<HashMap<i64, i64>> {
    // A host without services of an arm does not know what they must run.
    transaction.execute(
        "INSERT INTO main.arm (trial_id, position, name, control, treatment_json, obtained_json)
         SELECT ?2, position, name, control, treatment_json, obtained_json FROM there.arm WHERE trial_id = ?1
         ON CONFLICT (trial_id, name) DO UPDATE SET obtained_json = coalesce(obtained_json, excluded.obtained_json)",
        params![part.trial_id, trial_id],
    )?;
    let sql = "SELECT t.id, a.id FROM there.arm t JOIN main.arm a ON a.name = t.name AND a.trial_id = ?2
               WHERE t.trial_id = ?1";
    let mut statement = transaction.prepare(sql)?;
    statement.query_map(params![part.trial_id, trial_id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The services here by their row ids there. Two hosts may have services of one name.
fn services(
    transaction: &Transaction<'_>,
    part: &PartOf<'_>,
    trial_id: i64,
    arms: &HashMap<i64, i64>,
) -> rusqlite::Result<HashMap<i64, i64>> {
    let mut statement = transaction.prepare(
        "SELECT id, arm_id, name, block, position, attributes_json FROM there.service WHERE trial_id = ?1",
    )?;
    let mut rows = statement.query(params![part.trial_id])?;
    let mut services = HashMap::new();
    while let Some(row) = rows.next()? {
        let (id, arm_id, name, block, position): (i64, i64, String, u32, u32) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        let attributes: Option<String> = row.get(5)?;
        let mut attributes: Value = attributes
            .and_then(|text| serde_json::from_str(&text).ok())
            .filter(Value::is_object)
            .unwrap_or_else(|| serde_json::json!({}));
        attributes[SERVER] = Value::from(part.host);
        let position = part.positions.get(&name).copied().unwrap_or(position);
        let own = format!("{}/{name}", part.host);
        let arm = arms.get(&arm_id).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        transaction.execute(
            "INSERT INTO main.service (trial_id, arm_id, name, block, position, attributes_json)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (trial_id, name) DO NOTHING",
            params![trial_id, arm, own, block, position, attributes.to_string()],
        )?;
        let new = transaction.query_row(
            "SELECT id FROM main.service WHERE trial_id = ?1 AND name = ?2",
            params![trial_id, own],
            |row| row.get(0),
        )?;
        services.insert(id, new);
    }
    Ok(services)
}

/// Gives how many were written, new ones and others.
fn lives(
    transaction: &Transaction<'_>,
    services: &HashMap<i64, i64>,
    end: &End,
    is_newest: bool,
) -> rusqlite::Result<u64> {
    let told = "identity_json, contamination, ended_wall_us, ended_boottime_us, ending_json";
    let told_there =
        told.split(", ").map(|column| format!("excluded.{column}")).collect::<Vec<_>>().join(", ");
    let known = match is_newest {
        true => format!("UPDATE SET ({told}) = ({told_there}) WHERE ({told}) IS NOT ({told_there})"),
        false => "NOTHING".to_owned(),
    };
    let columns = format!("pid, start_ticks, start_json, started_wall_us, started_boottime_us, {told}");
    // Imported lives have no boot.
    let boot_here = "(SELECT new FROM temp.boot_there WHERE old = l.boot_id)";
    let boot = format!("coalesce({boot_here}, l.boot_id)");
    let mut insert = transaction.prepare(&format!(
        "INSERT INTO main.life (service_id, boot_id, {columns})
         SELECT ?2, {boot}, {columns} FROM there.life l WHERE service_id = ?1 AND (started_wall_us <= ?3 OR {IS_READ}) ORDER BY id
         ON CONFLICT (service_id, boot_id, pid, start_ticks) DO {known}"
    ))?;
    let mut map = transaction.prepare(&format!(
        "INSERT INTO temp.life_there SELECT l.id, h.id FROM there.life l
         JOIN main.life h ON h.service_id = ?2 AND h.boot_id = {boot} AND h.pid = l.pid
           AND h.start_ticks = l.start_ticks
         WHERE l.service_id = ?1"
    ))?;
    let mut services: Vec<(&i64, &i64)> = services.iter().collect();
    services.sort();
    let mut written = 0;
    for (old, new) in services {
        written += insert.execute(params![old, new, end.wall_us, end.sequence])? as u64;
        map.execute(params![old, new])?;
    }
    Ok(written)
}

/// A tick is told by its boot and its time since then. New ones keep their distance from each other, so that one number tells the
/// row ids of all.
fn ticks(transaction: &Transaction<'_>, part: &PartOf<'_>, trial_id: i64, end: &End) -> rusqlite::Result<()> {
    let known = "SELECT k.id, k.host_id, k.boottime_us, ?2 FROM main.tick k
                 WHERE k.trial_id = ?1 AND k.host_id IN (SELECT new FROM temp.host_there)";
    transaction.execute_batch(
        "DROP TABLE IF EXISTS temp.tick_here;
         CREATE TEMP TABLE tick_here (id INTEGER PRIMARY KEY, host_id INTEGER NOT NULL, boottime_us INTEGER NOT NULL,
                                      known INTEGER NOT NULL);
         CREATE INDEX temp.tick_here_at ON tick_here (host_id, boottime_us);",
    )?;
    transaction.execute(&format!("INSERT INTO temp.tick_here {known}"), params![trial_id, true])?;
    let there = "there.tick t JOIN there.trial r ON r.id = t.trial_id
                 JOIN temp.host_there h ON h.old = coalesce(t.host_id, r.host_id)";
    transaction.execute(
        &format!(
            "INSERT INTO main.tick (id, trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us, host_id)
             SELECT t.id - (SELECT min(id) FROM there.tick WHERE trial_id = ?1)
                      + (SELECT coalesce(max(id), 0) + 1 FROM main.tick),
                    ?2, (SELECT coalesce(max(sequence), -1) FROM main.tick WHERE trial_id = ?2)
                        + row_number() OVER (ORDER BY t.sequence),
                    t.wall_us, t.boottime_us, t.cost_wall_us, t.cost_cpu_us, h.new
             FROM {there}
             WHERE t.trial_id = ?1 AND t.sequence <= ?3
               AND NOT EXISTS (SELECT 1 FROM temp.tick_here k
                               WHERE k.host_id = h.new AND k.boottime_us = t.boottime_us)
             ORDER BY t.sequence"
        ),
        params![part.trial_id, trial_id, end.sequence],
    )?;
    transaction
        .execute(&format!("INSERT OR IGNORE INTO temp.tick_here {known}"), params![trial_id, false])?;
    transaction.execute(
        &format!(
            "INSERT INTO temp.tick_there SELECT t.id, k.id, k.known FROM {there}
             JOIN temp.tick_here k ON k.host_id = h.new AND k.boottime_us = t.boottime_us
             WHERE t.trial_id = ?1 AND t.sequence <= ?2"
        ),
        params![part.trial_id, end.sequence],
    )?;
    Ok(())
}

/// Events are told by what they say and when. Those after the host's own end are none of the trial, though others go on: they
/// tell of services that were put back.
fn events(
    transaction: &Transaction<'_>,
    part: &PartOf<'_>,
    (trial_id, services, arms): (i64, &HashMap<i64, i64>, &HashMap<i64, i64>),
    end: &End,
) -> rusqlite::Result<u64> {
    transaction.execute_batch(
        "DROP TABLE IF EXISTS temp.event_here;
         CREATE TEMP TABLE event_here (wall_us INTEGER, kind TEXT, text TEXT, service_id INTEGER);
         CREATE INDEX temp.event_here_at ON event_here (wall_us);",
    )?;
    transaction.execute(
        "INSERT INTO temp.event_here SELECT wall_us, kind, text, service_id FROM main.event
         WHERE trial_id = ?1 AND host = ?2",
        params![trial_id, part.host],
    )?;
    let mut insert = transaction.prepare(
        "INSERT INTO main.event (trial_id, service_id, arm_id, wall_us, kind, text, host)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (
           SELECT 1 FROM temp.event_here WHERE wall_us = ?4 AND kind = ?5 AND text = ?6 AND service_id IS ?2)",
    )?;
    let mut statement = transaction.prepare(
        "SELECT service_id, arm_id, wall_us, kind, text FROM there.event WHERE trial_id = ?1 AND id <= ?2 ORDER BY id",
    )?;
    let mut rows = statement.query(params![part.trial_id, end.event_id])?;
    let mut new = 0;
    while let Some(row) = rows.next()? {
        let (service, arm): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        let (wall_us, kind, text): (i64, String, String) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let service = service.and_then(|id| services.get(&id));
        let arm = arm.and_then(|id| arms.get(&id));
        new += insert.execute(params![trial_id, service, arm, wall_us, kind, text, part.host])? as u64;
    }
    Ok(new)
}

/// What is here of the part now, and of the whole.
fn record(
    transaction: &Transaction<'_>,
    part: &PartOf<'_>,
    trial_id: i64,
    (started_us, ended_us): (i64, Option<i64>),
) -> rusqlite::Result<()> {
    let written: Option<(Option<i64>, Option<i64>)> = transaction
        .query_row(
            "SELECT sequence, tick_wall_us FROM there.part WHERE trial_id = ?1",
            params![part.trial_id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    // A host's own database has no parts; a part may have no tick that is new.
    let last = match written {
        Some(last) => Some(last),
        None => transaction
            .query_row(
                "SELECT sequence, wall_us FROM there.tick WHERE trial_id = ?1 ORDER BY sequence DESC LIMIT 1",
                params![part.trial_id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?,
    };
    let (sequence, wall_us) = last.unwrap_or_default();
    transaction.execute(
        "INSERT INTO main.part
         SELECT ?1, ?2, h.facts_json, ?3, ?4, ?5, ?6, ?7 FROM there.trial t JOIN there.host h ON h.id = t.host_id
         WHERE t.id = ?8
         ON CONFLICT (trial_id, host) DO UPDATE SET facts_json = excluded.facts_json,
           started_wall_us = excluded.started_wall_us, ended_wall_us = excluded.ended_wall_us,
           sequence = excluded.sequence, tick_wall_us = excluded.tick_wall_us,
           gathered_wall_us = excluded.gathered_wall_us",
        params![trial_id, part.host, started_us, ended_us, sequence, wall_us, part.now_us, part.trial_id],
    )?;
    transaction.execute(
        "UPDATE main.trial SET
           started_wall_us = min(started_wall_us, (SELECT min(started_wall_us) FROM main.part WHERE trial_id = ?1)),
           (ended_wall_us, outcome) = (
             SELECT CASE WHEN count(ended_wall_us) = ?2 THEN max(ended_wall_us) END,
                    CASE WHEN count(ended_wall_us) = ?2 THEN 'completed' END
             FROM main.part WHERE trial_id = ?1)
         WHERE id = ?1",
        params![trial_id, part.hosts as i64],
    )?;
    Ok(())
}
