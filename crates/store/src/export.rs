//! Samples one by one with all that is stored of them, for exports of any size.

use rusqlite::params;
use rusqlite::types::ValueRef;

use crate::{Store, StoreError};

/// Names of columns are those that an import of CSV knows, where it knows them. Services of a gathered trial are named without
/// their host, which is the server.
const SAMPLES: &str = "
    SELECT strftime('%Y-%m-%dT%H:%M:%S', t.wall_us / 1000000, 'unixepoch') || printf('.%06dZ', t.wall_us % 1000000) AS timestamp,
           v.attributes_json ->> 'server' AS server,
           v.attributes_json ->> 'fingerprint' AS fingerprint,
           coalesce(v.attributes_json ->> 'nickname',
                    iif(instr(v.name, v.attributes_json ->> 'server' || '/') = 1,
                        substr(v.name, length(v.attributes_json ->> 'server') + 2), v.name)) AS nickname,
           a.name AS \"group\",
           l.id AS life,
           iif(json_type(l.start_json) = 'object', 'inferred', l.start_json ->> '$') AS start,
           (t.boottime_us - l.started_boottime_us) / 1e6 AS age_seconds,
           iif(l.contamination IS NULL, 'false', 'true') AS contaminated,
           nullif(s.rss_bytes, 0) AS rss_bytes,
           anon_bytes, file_bytes, shmem_bytes, swap_bytes, vsize_bytes, hwm_bytes, minor_faults, major_faults, cpu_us, threads,
           processes, cgroup_current_bytes, cgroup_peak_bytes, pss_bytes, private_dirty_bytes, lazyfree_bytes, anon_huge_bytes
    FROM sample s
    JOIN life l ON l.id = s.life_id JOIN service v ON v.id = l.service_id JOIN arm a ON a.id = v.arm_id
    JOIN tick t ON t.id = s.tick_id
    LEFT JOIN slow_sample w ON w.life_id = s.life_id AND w.tick_id = s.tick_id
    WHERE v.trial_id = ?1 ORDER BY t.sequence, v.position, v.id, l.id";

impl Store {
    /// Hands over the names of columns, then all samples of a trial in order of time as texts, without holding them. SQLite sorts
    /// them, in temporary files if there are many.
    pub fn each_sample<E: From<StoreError>>(
        &self,
        trial_id: i64,
        mut each: impl FnMut(&[String]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(StoreError::query(&self.path, "reading samples")(error));
        let mut statement = self.connection.prepare_cached(SAMPLES).map_err(failed)?;
        let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        each(&names)?;
        let mut rows = statement.query(params![trial_id]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let values = (0..names.len()).map(|column| row.get_ref(column).map(text));
            each(&values.collect::<Result<Vec<_>, _>>().map_err(failed)?)?;
        }
        Ok(())
    }
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Null | ValueRef::Blob(_) => String::new(),
    }
}
