//! Reading an import, whole.

use heaptrial_model::TrialKind;
use rusqlite::params;
use serde_json::Value;

use super::{
    ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService, ImportedTrial,
};
use crate::{Store, StoreError};

impl Store {
    /// An import of this kind that was written before under this name.
    pub fn read_imported(
        &self,
        name: &str,
        kind: TrialKind,
    ) -> Result<Option<(i64, ImportedTrial)>, StoreError> {
        let Some((trial_id, mut trial)) = self.read_imported_without_lives(name, kind)? else {
            return Ok(None);
        };
        for (service, row) in trial.services.iter_mut().zip(self.services(trial_id)?) {
            self.imported_lives(row.id, |life| service.lives.push(life))?;
        }
        Ok(Some((trial_id, trial)))
    }

    /// Gives each life of a service, in order, so that nobody need hold all.
    pub fn imported_lives(
        &self,
        service_id: i64,
        mut take: impl FnMut(ImportedLife),
    ) -> Result<(), StoreError> {
        for life in self.lives_of(service_id)? {
            let samples = self.imported_samples(life.id)?;
            take(ImportedLife {
                started_wall_us: life.started_wall_us,
                start: life.start,
                contamination: life.contamination,
                samples,
            });
        }
        Ok(())
    }

    /// An import as [`Self::read_imported`] reads it, with services in the order of [`Self::services`] that have no lives.
    pub fn read_imported_without_lives(
        &self,
        name: &str,
        kind: TrialKind,
    ) -> Result<Option<(i64, ImportedTrial)>, StoreError> {
        let Some(trial_id) = self.imported_id(name, kind)? else { return Ok(None) };
        let Some(plan) = self.trials()?.into_iter().find(|trial| trial.id == trial_id) else {
            return Ok(None);
        };
        let arms = self.arms(trial_id)?;
        let rows = self.services(trial_id)?;
        let services: Vec<ImportedService> = rows
            .iter()
            .map(|row| ImportedService {
                name: row.name.clone(),
                block: row.block,
                attributes: row.attributes.clone().unwrap_or(Value::Null),
                lives: Vec::new(),
            })
            .collect();
        let position = |id: i64| rows.iter().position(|row| row.id == id);
        let lists = arms.iter().map(|record| ImportedList {
            arm: record.arm.clone(),
            members: rows
                .iter()
                .enumerate()
                .filter(|(_, row)| row.arm_id == record.id || row.also_in.contains(&record.id))
                .map(|(index, _)| index)
                .collect(),
            source: record.source.clone().unwrap_or_default(),
        });
        let lists = lists.collect();
        let events = self.events(trial_id)?.into_iter().map(|event| ImportedEvent {
            wall_us: event.wall_us,
            service: event.service_id.and_then(position),
            arm: event.arm_id.and_then(|id| arms.iter().position(|arm| arm.id == id)),
            kind: event.kind,
            text: event.text,
        });
        let trial = ImportedTrial {
            plan: plan.plan,
            lists,
            services,
            events: events.collect(),
            sources: self.import_sources(trial_id)?,
        };
        Ok(Some((trial_id, trial)))
    }

    /// The files that a trial was imported from.
    pub fn import_sources(&self, trial_id: i64) -> Result<Vec<ImportSource>, StoreError> {
        let sql =
            "SELECT file, role, sha256, rows, skipped FROM import_source WHERE trial_id = ?1 ORDER BY rowid";
        self.rows("reading the sources of an import", sql, params![trial_id], |row| {
            Ok(ImportSource {
                file: row.get(0)?,
                role: row.get(1)?,
                sha256: row.get(2)?,
                rows: row.get::<_, i64>(3)? as u64,
                skipped: row.get::<_, i64>(4)? as u64,
            })
        })
    }

    pub(super) fn imported_id(&self, name: &str, kind: TrialKind) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT id FROM trial WHERE name = ?1 AND kind = ?2 ORDER BY id LIMIT 1";
        let ids = self.rows("looking for an import", sql, params![name, kind.as_str()], |row| row.get(0))?;
        Ok(ids.into_iter().next())
    }

    fn imported_samples(&self, life_id: i64) -> Result<Vec<ImportedSample>, StoreError> {
        let sql = "SELECT t.wall_us, s.rss_bytes, s.vsize_bytes, s.hwm_bytes, s.anon_bytes, s.swap_bytes,
                          s.cgroup_current_bytes, s.cpu_us
                   FROM sample s CROSS JOIN tick t ON t.id = s.tick_id WHERE s.life_id = ?1 ORDER BY s.tick_id";
        self.rows("reading imported samples", sql, params![life_id], |row| {
            let optional = |index| row.get::<_, Option<i64>>(index).map(|n| n.map(|bytes| bytes as u64));
            Ok(ImportedSample {
                wall_us: row.get(0)?,
                rss_bytes: row.get::<_, i64>(1)? as u64,
                vsize_bytes: optional(2)?,
                hwm_bytes: optional(3)?,
                anon_bytes: optional(4)?,
                swap_bytes: optional(5)?,
                cgroup_current_bytes: optional(6)?,
                cpu_us: optional(7)?,
            })
        })
    }
}
