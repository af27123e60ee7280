//! Writing an import, whole.

use std::borrow::Cow;
use std::io;

use heaptrial_model::Arm;
use rusqlite::{Transaction, params};

use super::{ImportedSample, ImportedTrial};
use crate::{Store, StoreError};

impl Store {
    /// Writes a trial that was imported, in place of an earlier import of the same name. One transaction; gives
    /// the row id of the trial, which stays the same.
    pub fn write_imported(&mut self, trial: &ImportedTrial) -> Result<i64, StoreError> {
        self.write_imported_by_life(trial, &|service, life| {
            Ok(Cow::Borrowed(&trial.services[service].lives[life].samples))
        })
    }

    /// The same with samples that are not in the trial's lives: those of a life of a service, by their positions, so that nobody need
    /// hold all. They are asked for twice.
    pub fn write_imported_by_life(
        &mut self,
        trial: &ImportedTrial,
        samples: SamplesOf<'_>,
    ) -> Result<i64, StoreError> {
        let path = self.path.clone();
        let doing = "recording an import";
        let known = self.imported_id(&trial.plan.name, trial.plan.kind)?;
        // References are made here from row ids that this function gave out; checking each sample costs a third
        // of the time. The setting has no effect inside a transaction, so it comes before.
        let set = |on: bool| self.connection.pragma_update(None, "foreign_keys", on);
        set(false).map_err(StoreError::query(&path, doing))?;
        let result = self.connection.unchecked_transaction().and_then(|transaction| {
            if let Some(trial_id) = known {
                remove(&transaction, trial_id)?;
            }
            let trial_id = write(&transaction, trial, samples, known)?;
            transaction.commit()?;
            Ok(trial_id)
        });
        set(true).map_err(StoreError::query(&path, doing))?;
        result.map_err(StoreError::query(&path, doing))
    }
}

/// The samples of a life of a service, in order of time.
pub type SamplesOf<'a> = &'a dyn Fn(usize, usize) -> io::Result<Cow<'a, [ImportedSample]>>;

/// Removes everything of a trial.
fn remove(transaction: &Transaction<'_>, trial_id: i64) -> rusqlite::Result<()> {
    let lives = "SELECT l.id FROM life l JOIN service s ON s.id = l.service_id WHERE s.trial_id = ?1";
    for sql in [
        &format!("DELETE FROM sample WHERE life_id IN ({lives})"),
        "DELETE FROM life WHERE service_id IN (SELECT id FROM service WHERE trial_id = ?1)",
        "DELETE FROM membership WHERE service_id IN (SELECT id FROM service WHERE trial_id = ?1)",
        "DELETE FROM event WHERE trial_id = ?1",
        "DELETE FROM service WHERE trial_id = ?1",
        "DELETE FROM arm WHERE trial_id = ?1",
        "DELETE FROM tick WHERE trial_id = ?1",
        "DELETE FROM import_source WHERE trial_id = ?1",
        "DELETE FROM trial WHERE id = ?1",
    ] {
        transaction.execute(sql, params![trial_id])?;
    }
    Ok(())
}

fn write(
    transaction: &Transaction<'_>,
    trial: &ImportedTrial,
    samples: SamplesOf<'_>,
    trial_id: Option<i64>,
) -> rusqlite::Result<i64> {
    let times = times(trial, samples)?;
    let trial_id = write_plan(transaction, trial, times.last().copied(), trial_id)?;
    let arm_ids = write_lists(transaction, trial, trial_id)?;
    let ticks = Ticks::write(transaction, times, trial_id)?;
    let service_ids = write_services(transaction, (trial, samples), trial_id, &arm_ids, &ticks)?;
    let mut insert = transaction.prepare(
        "INSERT INTO event (trial_id, service_id, arm_id, wall_us, kind, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for event in &trial.events {
        let service_id = event.service.and_then(|index| service_ids.get(index).copied().flatten());
        let arm_id = event.arm.and_then(|index| arm_ids.get(index));
        insert.execute(params![
            trial_id,
            service_id,
            arm_id,
            event.wall_us,
            event.kind.as_str(),
            event.text
        ])?;
    }
    let mut insert = transaction.prepare("INSERT INTO import_source VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for source in &trial.sources {
        let (rows, skipped) = (source.rows as i64, source.skipped as i64);
        insert.execute(params![trial_id, source.file, source.role, source.sha256, rows, skipped])?;
    }
    Ok(trial_id)
}

fn write_plan(
    transaction: &Transaction<'_>,
    trial: &ImportedTrial,
    ended_wall_us: Option<i64>,
    trial_id: Option<i64>,
) -> rusqlite::Result<i64> {
    let plan = &trial.plan;
    transaction.execute(
        "INSERT INTO host (boot_id, facts_json) VALUES (?1, ?2) ON CONFLICT (boot_id) DO UPDATE SET facts_json = ?2",
        params![plan.boot_id, plan.host_facts.to_string()],
    )?;
    let arms: Vec<&Arm> = trial.lists.iter().map(|list| &list.arm).collect();
    transaction.execute(
        "INSERT INTO trial (id, name, kind, host_id, metric, seed, repeats, planned_us, plan_json, parameters_json,
                            command, tool_version, started_wall_us, ended_wall_us, outcome)
         VALUES (?1, ?2, ?3, (SELECT id FROM host WHERE boot_id = ?4), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
                 'completed')",
        params![
            trial_id,
            plan.name,
            plan.kind.as_str(),
            plan.boot_id,
            plan.metric.as_str(),
            plan.seed as i64,
            plan.repeats,
            plan.planned_us,
            json(&arms)?,
            plan.parameters.to_string(),
            plan.command,
            plan.tool_version,
            plan.started_wall_us,
            ended_wall_us,
        ],
    )?;
    Ok(transaction.last_insert_rowid())
}

fn write_lists(
    transaction: &Transaction<'_>,
    trial: &ImportedTrial,
    trial_id: i64,
) -> rusqlite::Result<Vec<i64>> {
    let mut arm_ids = Vec::with_capacity(trial.lists.len());
    for (position, list) in trial.lists.iter().enumerate() {
        transaction.execute(
            "INSERT INTO arm (trial_id, position, name, control, treatment_json, source) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                trial_id,
                position as i64,
                list.arm.name,
                list.arm.control,
                json(&list.arm.treatment)?,
                list.source
            ],
        )?;
        arm_ids.push(transaction.last_insert_rowid());
    }
    Ok(arm_ids)
}

/// All times at which anything was read, in order.
fn times(trial: &ImportedTrial, samples: SamplesOf<'_>) -> rusqlite::Result<Vec<i64>> {
    let mut times: Vec<i64> = Vec::new();
    let mut different = 0;
    for (index, service) in trial.services.iter().enumerate() {
        for life in 0..service.lives.len() {
            let samples = samples(index, life).map_err(not_read)?;
            // It may be most of what an import holds, so no more room is taken than that.
            times.reserve_exact(samples.len());
            times.extend(samples.iter().map(|sample| sample.wall_us));
        }
        // Most services are read at times at which others are.
        if times.len() > 2 * different {
            times.sort_unstable();
            times.dedup();
            different = times.len();
        }
    }
    times.sort_unstable();
    times.dedup();
    times.shrink_to_fit();
    Ok(times)
}

fn not_read(error: io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}

/// One tick for each time at which anything was read.
struct Ticks {
    times: Vec<i64>,
    /// Row id of the first; the others follow it.
    first: i64,
}

impl Ticks {
    fn write(transaction: &Transaction<'_>, times: Vec<i64>, trial_id: i64) -> rusqlite::Result<Self> {
        let first: i64 =
            transaction.query_row("SELECT coalesce(max(id), 0) + 1 FROM tick", [], |row| row.get(0))?;
        let mut insert = transaction.prepare(
            "INSERT INTO tick (id, trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us)
             VALUES (?1, ?2, ?3, ?4, ?4, 0, 0)",
        )?;
        for (sequence, time) in (0..).zip(&times) {
            insert.execute(params![first + sequence, trial_id, sequence, time])?;
        }
        Ok(Self { times, first })
    }

    fn id(&self, wall_us: i64) -> Option<i64> {
        self.times.binary_search(&wall_us).ok().map(|place| self.first + place as i64)
    }
}

/// The row ids of the services; `None` for one that no list names, which is left out.
fn write_services(
    transaction: &Transaction<'_>,
    (trial, samples): (&ImportedTrial, SamplesOf<'_>),
    trial_id: i64,
    arm_ids: &[i64],
    ticks: &Ticks,
) -> rusqlite::Result<Vec<Option<i64>>> {
    let mut arms_of: Vec<Vec<usize>> = vec![Vec::new(); trial.services.len()];
    for (index, list) in trial.lists.iter().enumerate() {
        for member in &list.members {
            if let Some(arms) = arms_of.get_mut(*member) {
                arms.push(index);
            }
        }
    }
    let mut insert_service = transaction.prepare(
        "INSERT INTO service (trial_id, arm_id, name, block, position, attributes_json) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut insert_member = transaction.prepare("INSERT OR IGNORE INTO membership VALUES (?1, ?2)")?;
    let mut insert_life = transaction.prepare(
        "INSERT INTO life (service_id, start_json, started_wall_us, started_boottime_us, contamination)
         VALUES (?1, ?2, ?3, ?3, ?4)",
    )?;
    let mut insert_sample = transaction.prepare(
        "INSERT INTO sample (life_id, tick_id, rss_bytes, vsize_bytes, hwm_bytes, anon_bytes, swap_bytes,
                             cgroup_current_bytes, cpu_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let mut ids = Vec::with_capacity(trial.services.len());
    for (position, (service, arms)) in trial.services.iter().zip(&arms_of).enumerate() {
        let Some((first, others)) = arms.split_first() else {
            ids.push(None);
            continue;
        };
        let attributes = (!service.attributes.is_null()).then(|| service.attributes.to_string());
        let service_id = insert_service.insert(params![
            trial_id,
            arm_ids[*first],
            service.name,
            service.block,
            position as i64,
            attributes
        ])?;
        for other in others {
            insert_member.execute(params![arm_ids[*other], service_id])?;
        }
        for (number, life) in service.lives.iter().enumerate() {
            let life_id = insert_life.insert(params![
                service_id,
                json(&life.start)?,
                life.started_wall_us,
                life.contamination
            ])?;
            for sample in samples(position, number).map_err(not_read)?.iter() {
                let number = |value: Option<u64>| value.map(|value| value as i64);
                insert_sample.execute(params![
                    life_id,
                    ticks.id(sample.wall_us),
                    sample.rss_bytes as i64,
                    number(sample.vsize_bytes),
                    number(sample.hwm_bytes),
                    number(sample.anon_bytes),
                    number(sample.swap_bytes),
                    number(sample.cgroup_current_bytes),
                    number(sample.cpu_us)
                ])?;
            }
        }
        ids.push(Some(service_id));
    }
    Ok(ids)
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
