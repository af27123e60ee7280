//! The start of a trial: its plan, arms and services.

use heaptrial_model::{Arm, TrialKind};
use rusqlite::{Transaction, params};
use serde_json::Value;

use crate::read::Json;
use crate::{NewService, NewTrial, Store, StoreError};

impl Store {
    /// Records a trial with its arms; gives its row id and those of the arms in order.
    pub fn begin_trial(&mut self, trial: &NewTrial) -> Result<(i64, Vec<i64>), StoreError> {
        let doing = "recording the trial";
        let path = self.path.clone();
        let result = self.connection.transaction().and_then(|transaction| {
            let trial_id = insert_trial(&transaction, None, trial)?;
            let arm_ids = insert_arms(&transaction, trial_id, &trial.arms, &[])?;
            transaction.commit()?;
            Ok((trial_id, arm_ids))
        });
        result.map_err(StoreError::query(&path, doing))
    }

    /// Records a trial on services of this host, with what the services of each arm must run and with its services: all or nothing. Gives its row id.
    ///
    /// `obtained` is by position of the arm; of a field trial it holds what a life must be proved to run. The trial
    /// must begin before its first service is restarted: a life older than the trial is none of its own.
    pub fn begin_field_trial(
        &mut self,
        trial: &NewTrial,
        obtained: &[Option<Value>],
        services: &[NewService],
    ) -> Result<i64, StoreError> {
        let doing = "recording the trial";
        let path = self.path.clone();
        let result = self.connection.transaction().and_then(|transaction| {
            if let Some(kind) = going_on(&transaction, trial)? {
                return Ok(Err(kind));
            }
            let trial_id = insert_trial(&transaction, None, trial)?;
            let arm_ids = insert_arms(&transaction, trial_id, &trial.arms, obtained)?;
            for service in services {
                let arm_id = arm_ids.get(service.arm).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
                insert_service(&transaction, trial_id, *arm_id, service)?;
            }
            transaction.commit()?;
            Ok(Ok(trial_id))
        });
        result.map_err(StoreError::query(&path, doing))?.map_err(|kind| StoreError::NameTaken {
            path,
            name: trial.name.clone(),
            kind,
        })
    }

    /// Adds a service to a trial that is under way, such as one of kind `host`; gives its row id.
    pub fn add_new_service(
        &mut self,
        trial_id: i64,
        arm_id: i64,
        service: &NewService,
    ) -> Result<i64, StoreError> {
        let path = self.path.clone();
        let result = self.connection.transaction().and_then(|transaction| {
            let id = insert_service(&transaction, trial_id, arm_id, service)?;
            transaction.commit()?;
            Ok(id)
        });
        result.map_err(StoreError::query(&path, "recording a service"))
    }

    /// Records a boot of this host; gives its row id, which is the same for the same boot.
    pub fn add_host(&mut self, boot_id: &str, facts: &Value) -> Result<i64, StoreError> {
        let sql = "INSERT INTO host (boot_id, facts_json) VALUES (?1, ?2)
                   ON CONFLICT (boot_id) DO UPDATE SET facts_json = ?2 RETURNING id";
        self.connection
            .query_row(sql, params![boot_id, facts.to_string()], |row| row.get(0))
            .map_err(StoreError::query(&self.path, "recording the host"))
    }
}

/// What goes on under a trial's name and keeps it from beginning.
fn going_on(transaction: &Transaction<'_>, trial: &NewTrial) -> rusqlite::Result<Option<TrialKind>> {
    let mut named =
        transaction.prepare("SELECT kind FROM trial WHERE name = ?1 AND ended_wall_us IS NULL")?;
    let kinds: Vec<String> =
        named.query_map(params![trial.name], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let kinds = kinds.iter().filter_map(|kind| kind.parse::<TrialKind>().ok());
    Ok(kinds.into_iter().find(|kind| kind.shares_names_with(trial.kind)))
}

/// Gives its row id, which is `id` if that is given.
pub(crate) fn insert_trial(
    transaction: &Transaction<'_>,
    id: Option<i64>,
    trial: &NewTrial,
) -> rusqlite::Result<i64> {
    transaction.execute(
        "INSERT INTO host (boot_id, facts_json) VALUES (?1, ?2) ON CONFLICT (boot_id) DO UPDATE SET facts_json = ?2",
        params![trial.boot_id, trial.host_facts.to_string()],
    )?;
    transaction.execute(
        "INSERT INTO trial (id, name, kind, host_id, metric, seed, repeats, planned_us, parameters_json, command, tool_version,
                            started_wall_us)
         VALUES (?1, ?2, ?3, (SELECT id FROM host WHERE boot_id = ?4), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            id,
            trial.name,
            trial.kind.as_str(),
            trial.boot_id,
            trial.metric.as_str(),
            // SQLite's integers are signed; the bits are kept.
            trial.seed as i64,
            trial.repeats,
            trial.planned_us,
            trial.parameters.to_string(),
            trial.command,
            trial.tool_version,
            trial.started_wall_us,
        ],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// `obtained` and `source` are those of the columns.
pub(crate) fn insert_arm(
    transaction: &Transaction<'_>,
    (trial_id, position): (i64, usize),
    arm: &Arm,
    obtained: Option<&Value>,
    source: Option<&str>,
) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO arm (trial_id, position, name, control, treatment_json, obtained_json, source)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .insert(params![
            trial_id,
            position as i64,
            arm.name,
            arm.control,
            Json(&arm.treatment),
            obtained.map(Value::to_string),
            source
        ])
}

fn insert_arms(
    transaction: &Transaction<'_>,
    trial_id: i64,
    arms: &[Arm],
    obtained: &[Option<Value>],
) -> rusqlite::Result<Vec<i64>> {
    let obtained = |position: usize| obtained.get(position).and_then(Option::as_ref);
    let insert =
        |(position, arm)| insert_arm(transaction, (trial_id, position), arm, obtained(position), None);
    arms.iter().enumerate().map(insert).collect()
}

pub(crate) fn insert_service(
    transaction: &Transaction<'_>,
    trial_id: i64,
    arm_id: i64,
    service: &NewService,
) -> rusqlite::Result<i64> {
    let attributes = (!service.attributes.is_null()).then(|| service.attributes.to_string());
    transaction
        .prepare_cached(
            "INSERT INTO service (trial_id, arm_id, name, block, position, attributes_json)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .insert(params![trial_id, arm_id, service.name, service.block, service.position, attributes])
}
