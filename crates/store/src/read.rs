//! What reports and looks read of a trial.

use std::collections::HashMap;
use std::str::FromStr;

use heaptrial_model::{Arm, DrawnPlan, InvalidText, KnownEvent, LifeKey, Metric, SlowSample, TrialKind};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    ArmRecord, EventRecord, LifeRecord, NewTrial, SeriesPoint, ServiceRecord, SpentPoint, Store, StoreError,
    TickSummary, TrialRecord,
};

/// A column of JSON, or a word, which is a text to serde.
pub(crate) struct Json<T>(pub T);

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(|error| FromSqlError::Other(error.into()))
    }
}

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        text.map(ToSqlOutput::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

/// A column with a word of a closed list.
fn word<T: FromStr<Err = InvalidText>>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let word = row.get_ref(index)?.as_str()?.parse();
    word.map_err(|error: InvalidText| {
        rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, error.into())
    })
}

/// A column of bytes, which may be empty.
pub(crate) fn bytes(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(index)?.map(|number| number as u64))
}

/// Of the parameters of a trial.
#[derive(Deserialize)]
struct Drawn {
    plan: Option<DrawnPlan>,
}

impl Store {
    pub fn trials(&self) -> Result<Vec<TrialRecord>, StoreError> {
        let sql =
            "SELECT t.id, t.name, t.kind, h.boot_id, t.metric, t.seed, t.repeats, t.planned_us, t.command,
                          t.tool_version, t.started_wall_us, t.ended_wall_us, t.outcome,
                          h.facts_json, t.parameters_json
                   FROM trial t JOIN host h ON h.id = t.host_id ORDER BY t.id";
        let mut trials = self.rows("reading the trials", sql, [], |row| {
            let drawn: Option<Drawn> = row.get::<_, Json<_>>(14)?.0;
            let plan = NewTrial {
                name: row.get(1)?,
                kind: word(row, 2)?,
                boot_id: row.get(3)?,
                host_facts: row.get::<_, Json<_>>(13)?.0,
                metric: word(row, 4)?,
                seed: row.get::<_, i64>(5)? as u64,
                repeats: row.get(6)?,
                planned_us: row.get(7)?,
                arms: Vec::new(),
                parameters: row.get::<_, Json<_>>(14)?.0,
                command: row.get(8)?,
                tool_version: row.get(9)?,
                started_wall_us: row.get(10)?,
            };
            Ok(TrialRecord {
                id: row.get(0)?,
                plan,
                drawn: drawn.and_then(|drawn| drawn.plan),
                ended_wall_us: row.get(11)?,
                outcome: row.get(12)?,
            })
        })?;
        for trial in &mut trials {
            trial.plan.arms = self.arms(trial.id)?.into_iter().map(|record| record.arm).collect();
        }
        Ok(trials)
    }

    /// The arms of a trial, in the order given.
    pub fn arms(&self, trial_id: i64) -> Result<Vec<ArmRecord>, StoreError> {
        let sql = "SELECT id, name, control, treatment_json, obtained_json, source
                   FROM arm WHERE trial_id = ?1 ORDER BY position";
        self.rows("reading the arms", sql, params![trial_id], |row| {
            let treatment = row.get::<_, Json<_>>(3)?.0;
            Ok(ArmRecord {
                id: row.get(0)?,
                arm: Arm { name: row.get(1)?, control: row.get(2)?, treatment },
                obtained: row.get::<_, Option<Json<_>>>(4)?.map(|obtained| obtained.0),
                source: row.get(5)?,
            })
        })
    }

    /// The services of a trial, in the order of starting.
    pub fn services(&self, trial_id: i64) -> Result<Vec<ServiceRecord>, StoreError> {
        let doing = "reading the services";
        let sql = "SELECT m.service_id, m.arm_id FROM membership m JOIN arm a ON a.id = m.arm_id
                   WHERE a.trial_id = ?1 ORDER BY a.position";
        let further: Vec<(i64, i64)> =
            self.rows(doing, sql, params![trial_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut also_in: HashMap<i64, Vec<i64>> = HashMap::new();
        for (service_id, arm_id) in further {
            also_in.entry(service_id).or_default().push(arm_id);
        }
        let sql = "SELECT id, arm_id, name, block, position, attributes_json
                   FROM service WHERE trial_id = ?1 ORDER BY position, id";
        self.rows(doing, sql, params![trial_id], |row| {
            let id = row.get(0)?;
            Ok(ServiceRecord {
                id,
                arm_id: row.get(1)?,
                name: row.get(2)?,
                block: row.get(3)?,
                position: row.get(4)?,
                also_in: also_in.remove(&id).unwrap_or_default(),
                attributes: row.get::<_, Option<Json<_>>>(5)?.map(|attributes| attributes.0),
            })
        })
    }

    /// The ledger of a trial, in the order of starting.
    pub fn lives(&self, trial_id: i64) -> Result<Vec<LifeRecord>, StoreError> {
        self.lives_where("s.trial_id = ?1", trial_id)
    }

    /// One row of the ledger.
    pub fn life(&self, life_id: i64) -> Result<Option<LifeRecord>, StoreError> {
        Ok(self.lives_where("l.id = ?1", life_id)?.pop())
    }

    /// Lives of a service, in the order of starting.
    pub fn lives_of(&self, service_id: i64) -> Result<Vec<LifeRecord>, StoreError> {
        self.lives_where("s.id = ?1", service_id)
    }

    /// Lives of a service that have not ended, in the order of starting.
    pub fn open_lives(&self, service_id: i64) -> Result<Vec<LifeRecord>, StoreError> {
        self.lives_where("s.id = ?1 AND l.ending_json IS NULL", service_id)
    }

    fn lives_where(&self, which: &str, id: i64) -> Result<Vec<LifeRecord>, StoreError> {
        let sql = format!(
            "SELECT l.id, l.service_id, l.boot_id, l.pid, l.start_ticks, l.started_wall_us,
                    l.started_boottime_us, l.identity_json, l.contamination, l.ended_boottime_us, l.ending_json,
                    l.start_json, l.failed, l.ended_wall_us
             FROM life l JOIN service s ON s.id = l.service_id WHERE {which} ORDER BY l.id"
        );
        self.rows("reading the ledger", &sql, params![id], |row| {
            Ok(LifeRecord {
                id: row.get(0)?,
                service_id: row.get(1)?,
                key: life_key(row)?,
                start: row.get::<_, Json<_>>(11)?.0,
                started_wall_us: row.get(5)?,
                started_boottime_us: row.get(6)?,
                identity: row.get::<_, Option<Json<_>>>(7)?.map(|identity| identity.0),
                contamination: row.get(8)?,
                failed: row.get(12)?,
                ended_wall_us: row.get(13)?,
                ended_boottime_us: row.get(9)?,
                ending: row.get::<_, Option<Json<_>>>(10)?.map(|ending| ending.0),
            })
        })
    }

    /// A life's samples in order of age. For [`Metric::Pss`] only the ticks with an expensive reading,
    /// for [`Metric::Cgroup`] only those where the service had a cgroup of its own.
    pub fn series(&self, life: &LifeRecord, metric: Metric) -> Result<Vec<SeriesPoint>, StoreError> {
        let (column, join) = match metric {
            Metric::Rss => ("s.rss_bytes", ""),
            Metric::Anon => ("s.anon_bytes + s.swap_bytes", ""),
            Metric::Cgroup => ("s.cgroup_current_bytes", ""),
            Metric::Pss => {
                ("w.pss_bytes", "JOIN slow_sample w ON w.life_id = s.life_id AND w.tick_id = s.tick_id")
            }
        };
        let sql = format!(
            "SELECT t.boottime_us, {column} AS metric, s.rss_bytes, s.anon_bytes, s.cpu_us
             FROM sample s {join} CROSS JOIN tick t ON t.id = s.tick_id
             WHERE s.life_id = ?1 AND metric IS NOT NULL ORDER BY s.tick_id"
        );
        let start = life.started_boottime_us;
        self.rows("reading samples", &sql, params![life.id], |row| {
            let bytes = |index| row.get::<_, i64>(index).map(|number: i64| number as u64);
            Ok(SeriesPoint {
                age_seconds: (row.get::<_, i64>(0)? - start) as f64 / 1e6,
                metric_bytes: bytes(1)?,
                rss_bytes: bytes(2)?,
                anon_bytes: bytes(3)?,
                cpu_us: bytes(4)?,
            })
        })
    }

    /// The most that a life had by the kernel's own account, where it keeps one of the metric: all memory of a control group, and
    /// RSS of a service of a single process.
    pub fn peak_by_kernel(&self, life_id: i64, metric: Metric) -> Result<Option<u64>, StoreError> {
        let (column, only) = match metric {
            Metric::Cgroup => ("MAX(cgroup_peak_bytes)", "1"),
            Metric::Rss => ("MAX(hwm_bytes)", "MAX(processes) = 1"),
            Metric::Anon | Metric::Pss => return Ok(None),
        };
        let sql = format!("SELECT {column} FROM sample WHERE life_id = ?1 HAVING {only}");
        let rows = self.rows("reading peaks", &sql, params![life_id], |row| row.get::<_, Option<i64>>(0))?;
        Ok(rows.into_iter().next().flatten().map(|bytes| bytes as u64))
    }

    /// The last expensive reading of a life until a time in microseconds since 1970, and RssAnon in bytes at the same tick.
    pub fn last_slow_sample(
        &self,
        life_id: i64,
        until_us: i64,
    ) -> Result<Option<(SlowSample, Option<u64>)>, StoreError> {
        let sql = "SELECT w.pss_bytes, w.private_dirty_bytes, w.lazyfree_bytes, w.anon_huge_bytes, w.cost_us, s.anon_bytes
                   FROM slow_sample w JOIN tick t ON t.id = w.tick_id
                   LEFT JOIN sample s ON s.life_id = w.life_id AND s.tick_id = w.tick_id
                   WHERE w.life_id = ?1 AND t.wall_us <= ?2 ORDER BY w.tick_id DESC LIMIT 1";
        let rows = self.rows("reading expensive samples", sql, params![life_id, until_us], |row| {
            let bytes = |index| row.get::<_, i64>(index).map(|number: i64| number as u64);
            let slow = SlowSample {
                pss_bytes: bytes(0)?,
                private_dirty_bytes: bytes(1)?,
                lazyfree_bytes: bytes(2)?,
                anon_huge_bytes: bytes(3)?,
                cost_us: bytes(4)?,
            };
            Ok((slow, self::bytes(row, 5)?))
        })?;
        Ok(rows.into_iter().next())
    }

    /// An observation of a life over its age: (age in seconds, value).
    pub fn observations(&self, life: &LifeRecord, name: &str) -> Result<Vec<(f64, f64)>, StoreError> {
        self.observations_since(life, name, 0.0)
    }

    /// The same from an age in seconds on.
    pub fn observations_since(
        &self,
        life: &LifeRecord,
        name: &str,
        age: f64,
    ) -> Result<Vec<(f64, f64)>, StoreError> {
        let sql = "SELECT t.boottime_us, o.value FROM observation o CROSS JOIN tick t ON t.id = o.tick_id
                   WHERE o.life_id = ?1 AND o.name = ?2 AND t.boottime_us >= ?3 ORDER BY o.tick_id";
        let start = life.started_boottime_us;
        // What was read in the moment of the start may bear a time before it.
        let since = if age > 0.0 { start + (age * 1e6) as i64 } else { i64::MIN };
        self.rows("reading observations", sql, params![life.id, name, since], |row| {
            Ok(((row.get::<_, i64>(0)? - start) as f64 / 1e6, row.get(1)?))
        })
    }

    /// When the last observation of a life with one of these names was taken, in microseconds since 1970; `None` where it has none.
    pub fn last_observed<'n>(
        &self,
        life_id: i64,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT t.wall_us FROM tick t WHERE t.id =
                     (SELECT max(tick_id) FROM observation WHERE life_id = ?1 AND name = ?2)";
        let mut last: Option<i64> = None;
        for name in names {
            let found = self.rows("reading observations", sql, params![life_id, name], |row| row.get(0))?;
            last = last.max(found.into_iter().next());
        }
        Ok(last)
    }

    /// Whether an observation of a life was ever above zero.
    pub fn was_observed(&self, life_id: i64, name: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM observation WHERE life_id = ?1 AND name = ?2 AND value > 0 LIMIT 1";
        self.is_any("reading observations", sql, params![life_id, name])
    }

    /// The age of a life at its last sample, in seconds; `None` where it has none.
    pub fn last_age(&self, life: &LifeRecord) -> Result<Option<f64>, StoreError> {
        let last = self.last_tick_of_life(life.id)?;
        Ok(last.map(|tick| (tick.boottime_us - life.started_boottime_us) as f64 / 1e6))
    }

    /// The names of a life's observations, in order.
    pub fn observed(&self, life_id: i64) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT name FROM observation WHERE life_id = ?1 ORDER BY name";
        self.rows("reading the names of observations", sql, params![life_id], |row| row.get(0))
    }

    /// The age of a life and its processor time since its start, both in seconds, at the last sample that has it.
    pub fn last_cpu(&self, life: &LifeRecord) -> Result<Option<(f64, f64)>, StoreError> {
        let sql = "SELECT t.boottime_us, s.cpu_us FROM sample s JOIN tick t ON t.id = s.tick_id
                   WHERE s.life_id = ?1 AND s.cpu_us IS NOT NULL ORDER BY s.tick_id DESC LIMIT 1";
        let start = life.started_boottime_us;
        let rows = self.rows("reading what a life took", sql, params![life.id], |row| {
            Ok(((row.get::<_, i64>(0)? - start) as f64 / 1e6, row.get::<_, i64>(1)? as f64 / 1e6))
        })?;
        Ok(rows.into_iter().next())
    }

    /// What a life took of the host, at each sample in order of age; samples of imports have nothing of it.
    pub fn spent(&self, life: &LifeRecord) -> Result<Vec<SpentPoint>, StoreError> {
        let sql = "SELECT t.boottime_us, s.cpu_us, s.minor_faults + s.major_faults
                   FROM sample s CROSS JOIN tick t ON t.id = s.tick_id
                   WHERE s.life_id = ?1 AND s.cpu_us IS NOT NULL AND s.minor_faults IS NOT NULL ORDER BY s.tick_id";
        let start = life.started_boottime_us;
        self.rows("reading what a life took", sql, params![life.id], |row| {
            Ok(SpentPoint {
                age_seconds: (row.get::<_, i64>(0)? - start) as f64 / 1e6,
                cpu_seconds: row.get::<_, i64>(1)? as f64 / 1e6,
                page_faults: row.get::<_, Option<i64>>(2)?.unwrap_or(0) as f64,
            })
        })
    }

    pub fn events(&self, trial_id: i64) -> Result<Vec<EventRecord>, StoreError> {
        let sql =
            "SELECT service_id, wall_us, kind, text, arm_id, host FROM event WHERE trial_id = ?1 ORDER BY id";
        self.rows("reading events", sql, params![trial_id], crate::running::event)
    }

    /// When events of a kind came first, in microseconds since 1970, by the service that they are about; `None` are
    /// those of the trial itself.
    pub fn first_events(
        &self,
        trial_id: i64,
        kind: KnownEvent,
    ) -> Result<Vec<(Option<i64>, i64)>, StoreError> {
        let sql = "SELECT service_id, min(wall_us) FROM event WHERE trial_id = ?1 AND kind = ?2 GROUP BY service_id";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.rows("reading the first events of services", sql, params![trial_id, kind.as_str()], row)
    }

    /// Row ids of services that a person took out of a trial.
    pub fn dropped_services(&self, trial_id: i64) -> Result<Vec<i64>, StoreError> {
        let dropped = self.first_events(trial_id, KnownEvent::Dropped)?;
        Ok(dropped.into_iter().filter_map(|(service_id, _)| service_id).collect())
    }

    /// What sampling a trial cost.
    pub fn tick_summary(&self, trial_id: i64) -> Result<TickSummary, StoreError> {
        let doing = "reading the cost of sampling";
        let mut costs: Vec<(i64, i64, i64, i64)> = self.rows(
            doing,
            "SELECT t.cost_wall_us, t.cost_cpu_us, t.boottime_us, coalesce(t.host_id, r.host_id) AS boot
             FROM trial r JOIN tick t ON t.trial_id = r.id WHERE r.id = ?1 ORDER BY boot, t.boottime_us",
            params![trial_id],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )?;
        let samples = self.rows(
            doing,
            "SELECT count(*) FROM life l JOIN service v ON v.id = l.service_id JOIN sample s ON s.life_id = l.id
             WHERE v.trial_id = ?1",
            params![trial_id],
            |row| row.get::<_, i64>(0),
        )?;
        // Between the rounds of a lab run nothing lives and nothing is sampled.
        let kinds: Vec<String> =
            self.rows(doing, "SELECT kind FROM trial WHERE id = ?1", params![trial_id], |row| row.get(0))?;
        let is_lab = kinds.iter().any(|kind| kind.parse().is_ok_and(TrialKind::is_lab));
        let sql = "SELECT h.id, l.started_boottime_us FROM service v JOIN life l ON l.service_id = v.id
                   JOIN host h ON h.boot_id = l.boot_id WHERE v.trial_id = ?1 AND ?2";
        let starts: Vec<(i64, i64)> =
            self.rows(doing, sql, params![trial_id, is_lab], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let within_a_round = |pair: &&[(i64, i64, i64, i64)]| {
            let begins =
                |start: &(i64, i64)| start.0 == pair[0].3 && (pair[0].2..pair[1].2).contains(&start.1);
            pair[0].3 == pair[1].3 && !starts.iter().any(begins)
        };
        let longest_gap =
            costs.windows(2).filter(within_a_round).map(|pair| pair[1].2 - pair[0].2).max().unwrap_or(0);
        let sums = costs.iter().fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        costs.sort_unstable();
        Ok(TickSummary {
            ticks: costs.len() as u64,
            samples: samples.first().map_or(0, |count| *count as u64),
            cost_wall_us: sums.0 as u64,
            cost_cpu_us: sums.1 as u64,
            median_cost_wall_us: costs.get(costs.len() / 2).map_or(0, |cost| cost.0 as u64),
            longest_gap_us: longest_gap as u64,
        })
    }

    /// Whether there is any such row.
    pub(crate) fn is_any(
        &self,
        doing: &'static str,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<bool, StoreError> {
        Ok(!self.rows(doing, sql, parameters, |_| Ok(()))?.is_empty())
    }

    pub(crate) fn rows<T>(
        &self,
        doing: &'static str,
        sql: &str,
        parameters: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let read = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map(parameters, row)?.collect()
        };
        read().map_err(StoreError::query(&self.path, doing))
    }

    /// Calls `row` for each row, so that nothing but what it keeps is held.
    pub(crate) fn rows_into(
        &self,
        doing: &'static str,
        sql: &str,
        parameters: impl rusqlite::Params,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(parameters)?;
            while let Some(found) = rows.next()? {
                row(found)?;
            }
            Ok(())
        };
        read().map_err(StoreError::query(&self.path, doing))
    }
}

/// The key of a life; `None` where the row, as of an import, has none.
fn life_key(row: &Row<'_>) -> rusqlite::Result<Option<LifeKey>> {
    let (boot_id, pid, ticks): (Option<String>, Option<i32>, Option<i64>) =
        (row.get(2)?, row.get(3)?, row.get(4)?);
    Ok(boot_id.zip(pid).zip(ticks).map(|((boot_id, pid), ticks)| LifeKey {
        boot_id,
        pid,
        start_ticks: ticks as u64,
    }))
}
