//! What happened last, for a page that is shown again and again.

use std::collections::{HashMap, HashSet};

use heaptrial_model::KnownEvent;
use rusqlite::params;

use crate::records::SERVER;
use crate::{EventRecord, Store, StoreError};

/// A tick without its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    pub sequence: i64,
    pub wall_us: i64,
    pub boottime_us: i64,
    /// Row id of the boot that `boottime_us` is of.
    pub host_id: i64,
    pub cost_wall_us: u64,
    pub cost_cpu_us: u64,
}

impl Store {
    /// Ticks of a trial until then (microseconds since 1970), in their order.
    pub fn ticks_until(&self, trial_id: i64, until_us: i64) -> Result<Vec<Tick>, StoreError> {
        let which = "t.trial_id = ?1 AND t.wall_us <= ?2 ORDER BY t.sequence";
        self.ticks_where(which, params![trial_id, until_us])
    }

    /// The last ticks of a trial, newest first; those of a gathered trial are numbered host by host, in the order of gathering.
    pub fn recent_ticks(&self, trial_id: i64, count: u32) -> Result<Vec<Tick>, StoreError> {
        let which = "t.trial_id = ?1 ORDER BY t.sequence DESC LIMIT ?2";
        self.ticks_where(which, params![trial_id, count])
    }

    pub fn last_tick(&self, trial_id: i64) -> Result<Option<Tick>, StoreError> {
        Ok(self.recent_ticks(trial_id, 1)?.pop())
    }

    /// The tick of a life's last sample.
    pub fn last_tick_of_life(&self, life_id: i64) -> Result<Option<Tick>, StoreError> {
        let which = "t.id = (SELECT max(tick_id) FROM sample WHERE life_id = ?1)";
        Ok(self.ticks_where(which, params![life_id])?.pop())
    }

    fn ticks_where(&self, which: &str, parameters: impl rusqlite::Params) -> Result<Vec<Tick>, StoreError> {
        let sql = format!(
            "SELECT t.sequence, t.wall_us, t.boottime_us, coalesce(t.host_id, r.host_id), t.cost_wall_us, t.cost_cpu_us
             FROM tick t JOIN trial r ON r.id = t.trial_id WHERE {which}"
        );
        self.rows("reading ticks", &sql, parameters, |row| {
            Ok(Tick {
                sequence: row.get(0)?,
                wall_us: row.get(1)?,
                boottime_us: row.get(2)?,
                host_id: row.get(3)?,
                cost_wall_us: row.get::<_, i64>(4)? as u64,
                cost_cpu_us: row.get::<_, i64>(5)? as u64,
            })
        })
    }

    /// What the wall clock of each boot of a trial said beyond the boot clock, by the boot's name: the median
    /// over its ticks, in microseconds.
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
}
