//! Samples one by one with all that is stored of them, for exports of any size.

use rusqlite::{Row, params};

use crate::{Store, StoreError};

/// The measured columns of a sample, by name; bytes and microseconds as the names say.
pub const SAMPLE_COLUMNS: [&str; 18] = [
    "rss_bytes",
    "anon_bytes",
    "file_bytes",
    "shmem_bytes",
    "swap_bytes",
    "vsize_bytes",
    "hwm_bytes",
    "minor_faults",
    "major_faults",
    "cpu_us",
    "threads",
    "processes",
    "cgroup_current_bytes",
    "cgroup_peak_bytes",
    "pss_bytes",
    "private_dirty_bytes",
    "lazyfree_bytes",
    "anon_huge_bytes",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSample {
    pub life_id: i64,
    pub wall_us: i64,
    pub boottime_us: i64,
    /// What was measured, in the order of [`SAMPLE_COLUMNS`]; `None` where it was not.
    pub values: [Option<i64>; SAMPLE_COLUMNS.len()],
}

impl Store {
    /// Hands over all samples of a trial in order of time, without holding them. SQLite sorts them, in temporary files if there
    /// are many.
    pub fn each_sample_in_time<E: From<StoreError>>(
        &self,
        trial_id: i64,
        mut each: impl FnMut(&StoredSample) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT s.life_id, t.wall_us, t.boottime_us, {} FROM sample s
             JOIN life l ON l.id = s.life_id JOIN service v ON v.id = l.service_id JOIN tick t ON t.id = s.tick_id
             LEFT JOIN slow_sample w ON w.life_id = s.life_id AND w.tick_id = s.tick_id
             WHERE v.trial_id = ?1 ORDER BY t.sequence, v.position, v.id, l.id",
            SAMPLE_COLUMNS.join(", ")
        );
        let failed = |error| E::from(StoreError::query(&self.path, "reading samples")(error));
        let mut statement = self.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(params![trial_id]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(&sample(row).map_err(failed)?)?;
        }
        Ok(())
    }
}

fn sample(row: &Row<'_>) -> rusqlite::Result<StoredSample> {
    let mut values = [None; SAMPLE_COLUMNS.len()];
    for (index, value) in values.iter_mut().enumerate() {
        *value = row.get(index + 3)?;
    }
    Ok(StoredSample { life_id: row.get(0)?, wall_us: row.get(1)?, boottime_us: row.get(2)?, values })
}
