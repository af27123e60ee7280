//! Which of a host's recordings of a trial a file is of: one that was installed again records it anew.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use serde_json::Value;

use super::{PartOf, RECORDINGS};

/// A file beside what is here of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// It brings what is missing, and changes nothing.
    Older,
    /// As new, newer, or the first of its host.
    Newest,
    /// Of another recording of the trial there, which came later.
    Anew,
}

/// How old the file is: by numbers of ticks and its end, where the host went on recording. A recording that is not known here came later, unless its
/// boot is known and its clock says that it is earlier: a host that was installed again has booted, whatever its clock says.
pub(super) fn age(transaction: &Transaction<'_>, part: &PartOf<'_>, trial_id: i64) -> rusqlite::Result<Age> {
    type Told = (i64, (i64, bool));
    let told = |row: &Row<'_>| -> rusqlite::Result<Told> { Ok((row.get(0)?, (row.get(1)?, row.get(2)?))) };
    let sql = "SELECT started_wall_us, coalesce(sequence, -1), ended_wall_us IS NOT NULL FROM main.part
               WHERE trial_id = ?1 AND host = ?2";
    let here: Option<Told> = transaction.query_row(sql, params![trial_id, part.host], told).optional()?;
    let Some((started_here, here)) = here else { return Ok(Age::Newest) };
    let sql = "SELECT t.started_wall_us,
                      max(coalesce((SELECT max(sequence) FROM there.part WHERE trial_id = t.id), -1),
                          coalesce((SELECT max(sequence) FROM there.tick WHERE trial_id = t.id), -1)),
                      t.ended_wall_us IS NOT NULL
               FROM there.trial t WHERE t.id = ?1";
    let (started, there) = transaction.query_row(sql, params![part.trial_id], told)?;
    if started == started_here {
        return Ok(if there >= here { Age::Newest } else { Age::Older });
    }
    let earlier = parameters(transaction, trial_id)?[RECORDINGS][part.host].clone();
    if earlier.as_array().is_some_and(|earlier| earlier.contains(&Value::from(started))) {
        return Ok(Age::Older);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM there.trial t JOIN there.host o ON o.id = t.host_id
                 JOIN temp.boot_there b ON b.old = o.boot_id JOIN main.life l ON l.boot_id = b.new
                 JOIN main.service s ON s.id = l.service_id AND s.trial_id = ?2 WHERE t.id = ?1)";
    let is_known: bool = transaction.query_row(sql, params![part.trial_id, trial_id], |row| row.get(0))?;
    Ok(if is_known && started < started_here { Age::Older } else { Age::Anew })
}

/// Keeps that the recording of the host that was newest until now is none any more, by its start.
pub(super) fn note_recording(
    transaction: &Transaction<'_>,
    part: &PartOf<'_>,
    trial_id: i64,
) -> rusqlite::Result<()> {
    let sql = "SELECT started_wall_us FROM main.part WHERE trial_id = ?1 AND host = ?2";
    let earlier_us: i64 = transaction.query_row(sql, params![trial_id, part.host], |row| row.get(0))?;
    let mut parameters = parameters(transaction, trial_id)?;
    let recordings = &mut parameters[RECORDINGS][part.host];
    let mut earlier = recordings.as_array().cloned().unwrap_or_default();
    earlier.push(Value::from(earlier_us));
    *recordings = Value::from(earlier);
    set_parameters(transaction, trial_id, &parameters)
}

pub(super) fn parameters(transaction: &Transaction<'_>, trial_id: i64) -> rusqlite::Result<Value> {
    let sql = "SELECT parameters_json FROM main.trial WHERE id = ?1";
    let text: String = transaction.query_row(sql, params![trial_id], |row| row.get(0))?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

pub(super) fn set_parameters(
    transaction: &Transaction<'_>,
    trial_id: i64,
    parameters: &Value,
) -> rusqlite::Result<()> {
    let sql = "UPDATE main.trial SET parameters_json = ?2 WHERE id = ?1";
    transaction.execute(sql, params![trial_id, parameters.to_string()])?;
    Ok(())
}
