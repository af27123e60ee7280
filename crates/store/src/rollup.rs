//! Old samples become medians and maxima of 15 minutes.
//!
//! In each span the sample of the middle tick stays and gets the medians of all; the others are removed. So whatever
//! reads samples reads these too. Counters that only grow keep the middle tick's own value. Of observations the one of
//! median value stays at the tick at which it was read.

use std::time::Duration;

use rusqlite::{Row, Transaction, params};

use crate::{Store, StoreError};

/// The span that is rolled up into one sample of each life.
const ROLLUP_BUCKET: Duration = Duration::from_secs(15 * 60);

/// What is old enough to be rolled up. The wall clock may be set, so a tick of the running boot is judged by the boot clock, and one of an
/// earlier boot by what the wall clock was in the end.
#[derive(Debug, Clone, Copy)]
pub struct RollupHorizon {
    pub wall_us: i64,
    pub host_id: i64,
    pub boottime_us: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RollupStep {
    pub samples: u64,
    pub kept: u64,
    pub more: bool,
}

struct Span {
    first: i64,
    last: i64,
}

impl Store {
    /// The seconds that older samples of a life stand for each; 0 where all are as they were taken.
    pub fn rolled_up_seconds(&self, life_id: i64) -> Result<f64, StoreError> {
        let sql = "SELECT 1 FROM rollup WHERE life_id = ?1 LIMIT 1";
        let is_rolled_up = self.is_any("looking for what was rolled up", sql, params![life_id])?;
        Ok(if is_rolled_up { ROLLUP_BUCKET.as_secs_f64() } else { 0.0 })
    }

    /// Rolls up old samples of a trial in one transaction, which reads about `limit` samples, so that a writer of ticks
    /// never waits long. Call it again while there is more; killed in between, it goes on where it was.
    pub fn roll_up(
        &mut self,
        trial_id: i64,
        horizon: &RollupHorizon,
        limit: u64,
    ) -> Result<RollupStep, StoreError> {
        let path = self.path.clone();
        let step = || -> rusqlite::Result<RollupStep> {
            // Looked for outside of the transaction: mostly there is nothing to do, and nobody else rolls up.
            let Some(span) = next_span(&self.connection, trial_id, horizon)? else {
                return Ok(RollupStep::default());
            };
            let transaction = self.connection.transaction()?;
            let mut step = RollupStep { more: true, ..RollupStep::default() };
            let lives = lives_to_do(&transaction, trial_id, &span)?;
            let mut left = lives.len();
            for life_id in lives {
                if step.samples >= limit {
                    break;
                }
                roll_up_life(&transaction, life_id, &span, &mut step)?;
                left -= 1;
            }
            if left == 0 {
                let sql = "UPDATE trial SET rolled_up_tick_id = ?2 WHERE id = ?1";
                transaction.execute(sql, params![trial_id, span.last])?;
            }
            transaction.commit()?;
            Ok(step)
        };
        let mut step = step;
        step().map_err(StoreError::query(&path, "rolling up old samples"))
    }
}

/// The ticks of the first span that is not rolled up, if all of it is old.
fn next_span(
    connection: &rusqlite::Connection,
    trial_id: i64,
    horizon: &RollupHorizon,
) -> rusqlite::Result<Option<Span>> {
    let done: i64 = connection.query_row(
        "SELECT coalesce(rolled_up_tick_id, 0) FROM trial WHERE id = ?1",
        params![trial_id],
        |row| row.get(0),
    )?;
    let mut statement = connection.prepare_cached(
        "SELECT t.id, t.wall_us, t.boottime_us, t.host_id FROM tick t
         WHERE t.trial_id = ?1
           AND t.sequence > coalesce((SELECT sequence FROM tick WHERE id = ?2), -1)
         ORDER BY t.sequence",
    )?;
    let mut rows = statement.query(params![trial_id, done])?;
    let mut span: Option<(Span, (Option<i64>, i64))> = None;
    while let Some(row) = rows.next()? {
        let (id, wall_us, boottime_us, host_id): (i64, i64, i64, Option<i64>) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let bucket = (host_id, boottime_us.div_euclid(ROLLUP_BUCKET.as_micros() as i64));
        match &mut span {
            Some((span, of)) if *of == bucket => span.last = id,
            Some(_) => break,
            None => span = Some((Span { first: id, last: id }, bucket)),
        }
        let by_boot = boottime_us < horizon.boottime_us;
        let is_old = match host_id {
            None => by_boot && wall_us < horizon.wall_us,
            Some(id) if id == horizon.host_id => by_boot,
            // A clock that was wrong for a while had been set by the end of the boot.
            Some(id) => wall_at_the_end(connection, trial_id, id, boottime_us)? < horizon.wall_us,
        };
        if !is_old {
            return Ok(None);
        }
    }
    Ok(span.map(|(span, _)| span))
}

/// What the wall clock of the last tick of a boot makes of an earlier moment of it.
fn wall_at_the_end(
    connection: &rusqlite::Connection,
    trial_id: i64,
    host_id: i64,
    boottime_us: i64,
) -> rusqlite::Result<i64> {
    let sql = "SELECT wall_us - boottime_us FROM tick WHERE trial_id = ?1 AND host_id = ?2 ORDER BY sequence DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let offset: i64 = statement.query_row(params![trial_id, host_id], |row| row.get(0))?;
    Ok(offset.saturating_add(boottime_us))
}

/// The lives of the trial that were not rolled up in the span; most have no samples there.
fn lives_to_do(transaction: &Transaction<'_>, trial_id: i64, span: &Span) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT l.id FROM service v JOIN life l ON l.service_id = v.id
               WHERE v.trial_id = ?1
                 AND EXISTS (SELECT 1 FROM sample s WHERE s.life_id = l.id AND s.tick_id BETWEEN ?2 AND ?3)
                 AND NOT EXISTS (SELECT 1 FROM rollup r WHERE r.life_id = l.id AND r.tick_id BETWEEN ?2 AND ?3)";
    let mut statement = transaction.prepare_cached(sql)?;
    statement.query_map(params![trial_id, span.first, span.last], |row| row.get(0))?.collect()
}

/// The readings of which a median is meant, in the order of [`median_of`].
const GAUGES: [&str; 9] = [
    "rss_bytes",
    "anon_bytes",
    "file_bytes",
    "shmem_bytes",
    "swap_bytes",
    "vsize_bytes",
    "threads",
    "processes",
    "cgroup_current_bytes",
];

fn roll_up_life(
    transaction: &Transaction<'_>,
    life_id: i64,
    span: &Span,
    step: &mut RollupStep,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT tick_id, {} FROM sample WHERE life_id = ?1 AND tick_id BETWEEN ?2 AND ?3 ORDER BY tick_id",
        GAUGES.join(", ")
    );
    let samples = read::<9>(transaction, &sql, life_id, span)?;
    let Some((kept, _)) = samples.get(samples.len().saturating_sub(1) / 2) else { return Ok(()) };
    let kept = *kept;
    step.samples += samples.len() as u64;
    step.kept += 1;
    let column = |index: usize| samples.iter().filter_map(move |(_, values)| values[index]);
    let sums = samples.iter().filter_map(|(_, values)| Some(values[1]? + values[4]?));
    transaction.prepare_cached("INSERT INTO rollup VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(
        params![
            life_id,
            kept,
            samples.len() as i64,
            column(0).max(),
            column(1).max(),
            sums.max(),
            column(8).max()
        ],
    )?;
    let [rss, anon, file, shmem, swap, vsize, threads, processes, cgroup] =
        std::array::from_fn(|index| median_of(column(index).collect()));
    transaction
        .prepare_cached(
            "UPDATE sample SET rss_bytes = ?3, anon_bytes = ?4, file_bytes = ?5, shmem_bytes = ?6, swap_bytes = ?7,
                               vsize_bytes = ?8, threads = ?9, processes = ?10, cgroup_current_bytes = ?11
             WHERE life_id = ?1 AND tick_id = ?2",
        )?
        .execute(params![life_id, kept, rss, anon, file, shmem, swap, vsize, threads, processes, cgroup])?;
    remove_others(transaction, "sample", life_id, span, kept)?;
    roll_up_slow_samples(transaction, life_id, span, kept)?;
    roll_up_observations(transaction, life_id, span)
}

fn roll_up_slow_samples(
    transaction: &Transaction<'_>,
    life_id: i64,
    span: &Span,
    kept: i64,
) -> rusqlite::Result<()> {
    let sql = "SELECT tick_id, pss_bytes, private_dirty_bytes, lazyfree_bytes, anon_huge_bytes, cost_us
               FROM slow_sample WHERE life_id = ?1 AND tick_id BETWEEN ?2 AND ?3 ORDER BY tick_id";
    let found = read::<5>(transaction, sql, life_id, span)?;
    if found.is_empty() {
        return Ok(());
    }
    let column = |index: usize| found.iter().filter_map(move |(_, values)| values[index]);
    let [pss, dirty, lazyfree, huge, cost] = std::array::from_fn(|index| median_of(column(index).collect()));
    transaction
        .prepare_cached("INSERT OR REPLACE INTO slow_sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![life_id, kept, pss, dirty, lazyfree, huge, cost])?;
    remove_others(transaction, "slow_sample", life_id, span, kept)
}

/// Of each name the observation of median value stays as it was read: a counter that only grows has its value at that
/// tick and at no other, and some are 0 or 1.
fn roll_up_observations(transaction: &Transaction<'_>, life_id: i64, span: &Span) -> rusqlite::Result<()> {
    let names: Vec<String> = transaction
        .prepare_cached(
            "WITH RECURSIVE named (name) AS (
                 SELECT min(name) FROM observation WHERE life_id = ?1
                 UNION ALL
                 SELECT (SELECT min(name) FROM observation WHERE life_id = ?1 AND name > named.name) FROM named
                 WHERE name IS NOT NULL
             )
             SELECT name FROM named WHERE name IS NOT NULL",
        )?
        .query_map(params![life_id], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in names {
        let of_name = params![life_id, name, span.first, span.last];
        let mut found: Vec<(f64, i64)> = transaction
            .prepare_cached(
                "SELECT value, tick_id FROM observation WHERE life_id = ?1 AND name = ?2 AND tick_id BETWEEN ?3 AND ?4",
            )?
            .query_map(of_name, |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((_, kept)) = found.get(found.len().saturating_sub(1) / 2) else { continue };
        transaction
            .prepare_cached(
                "DELETE FROM observation WHERE life_id = ?1 AND name = ?2 AND tick_id BETWEEN ?3 AND ?4 AND tick_id <> ?5",
            )?
            .execute(params![life_id, name, span.first, span.last, kept])?;
    }
    Ok(())
}

/// Rows of a life in a span: the tick, and N values.
fn read<const N: usize>(
    transaction: &Transaction<'_>,
    sql: &str,
    life_id: i64,
    span: &Span,
) -> rusqlite::Result<Vec<(i64, [Option<i64>; N])>> {
    let row = |row: &Row<'_>| {
        let mut values = [None; N];
        for (index, value) in values.iter_mut().enumerate() {
            *value = row.get(index + 1)?;
        }
        Ok((row.get(0)?, values))
    };
    transaction.prepare_cached(sql)?.query_map(params![life_id, span.first, span.last], row)?.collect()
}

fn remove_others(
    transaction: &Transaction<'_>,
    table: &str,
    life_id: i64,
    span: &Span,
    kept: i64,
) -> rusqlite::Result<()> {
    let sql =
        format!("DELETE FROM {table} WHERE life_id = ?1 AND tick_id BETWEEN ?2 AND ?3 AND tick_id <> ?4");
    transaction.prepare_cached(&sql)?.execute(params![life_id, span.first, span.last, kept]).map(drop)
}

/// The median; of an even number of values, the mean of the two in the middle, rounded down.
fn median_of(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(lower + (upper - lower) / 2)
}
