//! Trials under way: what was taken last, what happened since, and the looks.

use heaptrial_model::{EventKind, Identity};
use rusqlite::{Row, params};

use crate::read::{Json, bytes};
use crate::{EventRecord, LatestSample, LookRecord, Store, StoreError, TrialRecord};

/// Of each service the life that began last, with its last sample. Every step is a search in an index.
const LATEST: &str = "
    SELECT v.id, l.id, coalesce(t.wall_us, l.started_wall_us), coalesce(t.boottime_us, l.started_boottime_us),
           l.started_boottime_us, s.rss_bytes, s.anon_bytes, s.swap_bytes, s.cgroup_current_bytes, l.contamination,
           l.identity_json, l.ending_json, l.started_wall_us, l.start_json, l.boot_id, l.failed
    FROM service v
    JOIN life l ON l.id = (SELECT max(id) FROM life WHERE service_id = v.id)
    LEFT JOIN sample s ON s.life_id = l.id AND s.tick_id = (SELECT max(tick_id) FROM sample WHERE life_id = l.id)
    LEFT JOIN tick t ON t.id = s.tick_id
    WHERE v.trial_id = ?1 ORDER BY v.position, v.id";

impl Store {
    /// Trials on services of this host that have not ended, oldest first.
    pub fn running_trials(&self) -> Result<Vec<TrialRecord>, StoreError> {
        let mut trials = self.trials()?;
        trials.retain(|trial| trial.plan.kind.is_on_services() && trial.ended_wall_us.is_none());
        Ok(trials)
    }

    /// Row ids of all trials on services of this host, also of those that have ended.
    pub fn trials_on_services(&self) -> Result<Vec<i64>, StoreError> {
        let trials = self.trials()?.into_iter().filter(|trial| trial.plan.kind.is_on_services());
        Ok(trials.map(|trial| trial.id).collect())
    }

    /// The newest life of each service with its last sample, in the order of services. A service without
    /// any life is left out.
    pub fn latest(&self, trial_id: i64) -> Result<Vec<LatestSample>, StoreError> {
        self.rows("reading the latest samples", LATEST, params![trial_id], |row| {
            let identity: Option<Json<Identity>> = row.get(10)?;
            let (boottime_us, started): (i64, i64) = (row.get(3)?, row.get(4)?);
            Ok(LatestSample {
                service_id: row.get(0)?,
                life_id: row.get(1)?,
                wall_us: row.get(2)?,
                boottime_us,
                boot_id: row.get(14)?,
                started_wall_us: row.get(12)?,
                start: row.get::<_, Json<_>>(13)?.0,
                age_seconds: (boottime_us - started) as f64 / 1e6,
                rss_bytes: bytes(row, 5)?,
                anon_bytes: bytes(row, 6)?,
                swap_bytes: bytes(row, 7)?,
                cgroup_current_bytes: bytes(row, 8)?,
                contamination: row.get(9)?,
                failed: row.get(15)?,
                identity: identity.map(|identity| identity.0.label()),
                ending: row.get::<_, Option<Json<_>>>(11)?.map(|ending| ending.0),
            })
        })
    }

    /// The boot of a trial's last tick; where it has none, that of its start.
    pub fn last_boot(&self, trial_id: i64) -> Result<Option<String>, StoreError> {
        let sql = "SELECT h.boot_id FROM trial r LEFT JOIN tick t ON t.trial_id = r.id
                   JOIN host h ON h.id = coalesce(t.host_id, r.host_id)
                   WHERE r.id = ?1 ORDER BY t.sequence DESC LIMIT 1";
        let rows = self.rows("reading the last boot", sql, params![trial_id], |row| row.get(0))?;
        Ok(rows.into_iter().next())
    }

    pub fn looks(&self, trial_id: i64) -> Result<Vec<LookRecord>, StoreError> {
        let sql = "SELECT number, planned_us, taken_wall_us, alpha, outcome_json FROM look
                   WHERE trial_id = ?1 ORDER BY number";
        self.rows("reading the looks", sql, params![trial_id], |row| {
            Ok(LookRecord {
                number: row.get(0)?,
                planned_us: row.get(1)?,
                taken_wall_us: row.get(2)?,
                alpha: row.get(3)?,
                outcome: row.get::<_, Json<_>>(4)?.0,
            })
        })
    }

    /// Records a look. Its number must be new: what was looked at is not changed afterwards.
    pub fn add_look(&mut self, trial_id: i64, look: &LookRecord) -> Result<(), StoreError> {
        let sql = "INSERT INTO look (trial_id, number, planned_us, taken_wall_us, alpha, outcome_json)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let outcome = look.outcome.to_string();
        let new = params![trial_id, look.number, look.planned_us, look.taken_wall_us, look.alpha, outcome];
        self.execute("recording a look", sql, new).map(drop)
    }

    /// A number that changes when another connection has written, for pollers (`PRAGMA data_version`).
    pub fn data_version(&self) -> Result<i64, StoreError> {
        self.connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(StoreError::query(&self.path, "looking for changes"))
    }
}

/// The columns service, time, kind, text, arm, host.
pub(crate) fn event(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    Ok(EventRecord {
        service_id: row.get(0)?,
        wall_us: row.get(1)?,
        kind: EventKind::from(row.get_ref(2)?.as_str()?),
        text: row.get(3)?,
        arm_id: row.get(4)?,
        host: row.get(5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever grows with time is searched and never read through.
    #[test]
    fn the_latest_is_found_without_reading_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("db")).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {LATEST}");
        let plan: Vec<String> = store.rows("planning", &sql, params![1], |row| row.get(3)).unwrap();
        let text = plan.join("\n");
        assert!(text.contains("SEARCH") && !plan.iter().any(|step| step.starts_with("SCAN")), "{text}");
    }
}
