//! What happened last, for a page that is shown again and again.

use std::collections::{HashMap, HashSet};

use heaptrial_model::KnownEvent;
use rusqlite::{Row, params};

use crate::records::SERVER;
use crate::{EventRecord, Store, StoreError};

/// A tick without its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickRecord {
    /// Number of the tick in its trial, counted from 0.
    pub sequence: i64,
    pub wall_us: i64,
    pub cost_wall_us: u64,
    pub cost_cpu_us: u64,
}

/// When the agent read services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickTime {
    pub host_id: i64,
    pub wall_us: i64,
    pub boottime_us: i64,
}

impl Store {
    /// When services of a trial were read until then (microseconds since 1970), in the order of ticks.
    pub fn ticks_until(&self, trial_id: i64, until_us: i64) -> Result<Vec<TickTime>, StoreError> {
        let sql = "SELECT coalesce(t.host_id, r.host_id), t.wall_us, t.boottime_us
                   FROM trial r JOIN tick t ON t.trial_id = r.id WHERE r.id = ?1 AND t.wall_us <= ?2 ORDER BY t.sequence";
        self.rows("reading the times of ticks", sql, params![trial_id, until_us], |row| {
            Ok(TickTime { host_id: row.get(0)?, wall_us: row.get(1)?, boottime_us: row.get(2)? })
        })
    }

    /// What the wall clock of each boot of a trial said beyond the boot clock, by the boot's name: the median over its ticks, in
    /// microseconds.
    pub fn clock_offsets(&self, trial_id: i64) -> Result<HashMap<String, i64>, StoreError> {
        let sql = "SELECT h.boot_id, t.wall_us - t.boottime_us FROM tick t JOIN trial r ON r.id = t.trial_id
                   JOIN host h ON h.id = coalesce(t.host_id, r.host_id) WHERE t.trial_id = ?1";
        let rows: Vec<(String, i64)> =
            self.rows("reading the clocks of boots", sql, params![trial_id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let mut offsets: HashMap<String, Vec<i64>> = HashMap::new();
        for (boot, offset) in rows {
            offsets.entry(boot).or_default().push(offset);
        }
        let median = |mut all: Vec<i64>| {
            let middle = all.len() / 2;
            *all.select_nth_unstable(middle).1
        };
        Ok(offsets.into_iter().map(|(boot, all)| (boot, median(all))).collect())
    }

    /// Row ids of the boots in which services of a host of a gathered trial lived.
    pub fn boots_of(&self, trial_id: i64, host: &str) -> Result<HashSet<i64>, StoreError> {
        let sql = format!(
            "SELECT DISTINCT h.id FROM service v JOIN life l ON l.service_id = v.id JOIN host h ON h.boot_id = l.boot_id
             WHERE v.trial_id = ?1 AND json_extract(v.attributes_json, '$.{SERVER}') = ?2"
        );
        let boots =
            self.rows("reading the boots of a host", &sql, params![trial_id, host], |row| row.get(0))?;
        Ok(boots.into_iter().collect())
    }

    /// The last ticks of a trial, newest first.
    pub fn recent_ticks(&self, trial_id: i64, count: u32) -> Result<Vec<TickRecord>, StoreError> {
        let sql = "SELECT sequence, wall_us, cost_wall_us, cost_cpu_us FROM tick WHERE trial_id = ?1
                   ORDER BY sequence DESC LIMIT ?2";
        self.rows("reading the last ticks", sql, params![trial_id, count], tick)
    }

    /// The same of some boots alone, by their row ids: ticks of a gathered trial are numbered host by host, in the order of gathering.
    pub fn recent_ticks_of(
        &self,
        trial_id: i64,
        boots: &HashSet<i64>,
        count: u32,
    ) -> Result<Vec<TickRecord>, StoreError> {
        let sql = "SELECT sequence, wall_us, cost_wall_us, cost_cpu_us FROM tick t WHERE trial_id = ?1
                   AND coalesce(host_id, (SELECT host_id FROM trial WHERE id = ?1)) IN (SELECT value FROM json_each(?3))
                   ORDER BY sequence DESC LIMIT ?2";
        let boots = serde_json::Value::from_iter(boots.iter().copied()).to_string();
        self.rows("reading the last ticks of a host", sql, params![trial_id, count, boots], tick)
    }

    /// The last events of a trial and, where those are all newer, as many of some kinds. Newest first.
    pub fn recent_events_and(
        &self,
        trial_id: i64,
        count: u32,
        kinds: &[KnownEvent],
    ) -> Result<Vec<EventRecord>, StoreError> {
        let sql = "SELECT service_id, wall_us, kind, text, arm_id, host FROM event WHERE id IN
                       (SELECT id FROM event WHERE trial_id = ?1 ORDER BY wall_us DESC, id DESC LIMIT ?2)
                   OR id IN (SELECT id FROM event WHERE trial_id = ?1 AND kind IN (SELECT value FROM json_each(?3))
                             ORDER BY wall_us DESC, id DESC LIMIT ?2)
                   ORDER BY wall_us DESC, id DESC";
        let kinds = serde_json::Value::from_iter(kinds.iter().map(|kind| kind.as_str())).to_string();
        self.rows("reading the last events", sql, params![trial_id, count, kinds], crate::running::event)
    }

    /// The number of a trial's events, and that of those since a time in microseconds since 1970.
    pub fn count_events(&self, trial_id: i64, since_us: i64) -> Result<(usize, usize), StoreError> {
        let sql = "SELECT count(*), coalesce(sum(wall_us >= ?2), 0) FROM event WHERE trial_id = ?1";
        let counts = self.rows("counting events", sql, params![trial_id, since_us], |row| {
            Ok((row.get::<_, i64>(0)? as usize, row.get::<_, i64>(1)? as usize))
        })?;
        Ok(counts.into_iter().next().unwrap_or_default())
    }

    /// When a life ended (`None` while it lives, and where nobody recorded it), in microseconds since 1970, and when it was read last:
    /// that, and the same on the boot clock.
    #[expect(clippy::type_complexity)]
    pub fn life_end(&self, life_id: i64) -> Result<(Option<i64>, Option<(i64, i64)>), StoreError> {
        let sql = "SELECT ended_wall_us, t.wall_us, t.boottime_us FROM life LEFT JOIN tick t ON t.id =
                   (SELECT s.tick_id FROM sample s WHERE s.life_id = life.id ORDER BY s.tick_id DESC LIMIT 1) WHERE life.id = ?1";
        let rows = self.rows("reading a life's end", sql, params![life_id], |row| {
            Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.zip(row.get(2)?)))
        })?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }
}

fn tick(row: &Row<'_>) -> rusqlite::Result<TickRecord> {
    Ok(TickRecord {
        sequence: row.get(0)?,
        wall_us: row.get(1)?,
        cost_wall_us: row.get::<_, i64>(2)? as u64,
        cost_cpu_us: row.get::<_, i64>(3)? as u64,
    })
}
