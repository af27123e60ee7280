//! Importing the files of the TorUtils scripts into the database.

mod assemble;
mod control;
mod event;
mod files;
mod hidden;
mod identity;
mod labels;
mod lists;
mod membership;
mod merge;
mod names;
mod piece;
mod stored;
mod summary;

use std::path::PathBuf;

use heaptrial_model::About;
use heaptrial_model::TrialKind;
use heaptrial_store::{ImportedService, ImportedTrial, Store};
use jiff::civil::Date;

pub(crate) use identity::is_same_server;
pub use labels::{KeptApart, Relabelled};
pub(crate) use lists::{ListsFrom, Member, Wanted, WantedList, list_of_names};
pub(crate) use summary::some_of;
pub use summary::{ArmSummary, ImportSummary, TimezoneSource};

use crate::ImportError;
use crate::problem::Problems;
use crate::torutils::{MemoryUnit, Timezone};
use assemble::Assembled;
use files::Files;

/// What to import, and how.
#[derive(Debug, Clone, Default)]
pub struct TorUtilsImport {
    /// Files with memory measurements; at least one.
    pub memory: Vec<PathBuf>,
    /// Lists of services, one file an arm; the file's stem names the arm.
    pub groups: Vec<PathBuf>,
    pub config: Option<PathBuf>,
    pub events: Option<PathBuf>,
    pub diagnostics: Option<PathBuf>,
    /// How times without an offset are read. `None` takes the one offset that other times in the files have,
    /// else `host_timezone`.
    pub timezone: Option<Timezone>,
    /// The timezone of the host on which it is imported; `None` is UTC.
    pub host_timezone: Option<Timezone>,
    /// Now, in microseconds since 1970: readings that are later by more than a day are left out. `None` keeps all.
    pub now_wall_us: Option<i64>,
    /// The date of the column `day0`, for the format with a column per day.
    pub first_day: Option<Date>,
    /// The unit of memory in the files, where it is not what the columns' names say. `None` takes those, and refuses files whose
    /// figures no service has.
    pub unit: Option<MemoryUnit>,
    /// Whether the first malformed row or conflicting reading is an error.
    pub strict: bool,
    /// Whether services under different labels of their server are never taken as one. A trial that was imported so
    /// stays so.
    pub keep_apart: bool,
    /// What the trial is about; `None` leaves what is stored.
    pub about: Option<About>,
    /// The trial's name; `None` takes the stem of the first memory file.
    pub name: Option<String>,
    /// The name of the control arm; `None` takes the one that is called so, else that of glibc, else the first.
    pub control: Option<String>,
    pub tool_version: String,
    /// The command that repeats the import.
    pub command: String,
}

/// Imports measurements, and merges them with what was imported before under the same name.
///
/// Readings that are there already are not added again, so that the same files change nothing and a longer file adds
/// what is new. Lives are inferred anew from all readings.
pub fn import_torutils(store: &mut Store, request: &TorUtilsImport) -> Result<ImportSummary, ImportError> {
    let mut problems = Problems::new(request.strict);
    let files = Files::read(request, &mut problems)?;
    let wanted = lists::Wanted::of(&files)?;
    let (name, stored, renamed) = place(store, &files, &wanted, request)?;
    if let Some((_, trial)) = stored.as_ref().filter(|_| files.local_times > 0) {
        let before = trial.plan.parameters.get("timezone").and_then(serde_json::Value::as_str);
        let given = files.timezone.to_string();
        if let Some(stored) = before.filter(|before| *before != given) {
            return Err(ImportError::OtherTimezone { name, stored: stored.to_owned(), given });
        }
    }
    let Assembled { trial, mut summary, changed } = assemble::assemble(
        &name,
        files,
        wanted,
        stored.as_ref().map(|(_, trial)| trial),
        request,
        &mut problems,
    )?;
    if let Some(instead_of) = renamed {
        summary.notes.insert(
            0,
            format!("a trial `{instead_of}` exists with other arms or members: this one is called `{name}`"),
        );
    }
    summary.trial_id = match stored {
        Some((trial_id, _)) if !changed => trial_id,
        _ => store.write_imported(&trial)?,
    };
    summary.changed = changed;
    summary.problems = problems;
    Ok(summary)
}

type Place = (String, Option<(i64, ImportedTrial)>, Option<String>);

/// The trial's name, what is stored under it, and the name that would have been taken if it were free.
fn place(
    store: &Store,
    files: &Files,
    wanted: &lists::Wanted,
    request: &TorUtilsImport,
) -> Result<Place, ImportError> {
    let base = match &request.name {
        Some(name) => name.clone(),
        None => files.default_name(),
    };
    check_name(&base)?;
    let taken: Vec<(String, TrialKind)> =
        store.trials()?.into_iter().map(|trial| (trial.plan.name, trial.plan.kind)).collect();
    for number in 1u32.. {
        let name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
        let renamed = (number > 1).then(|| base.clone());
        let of_other_kind =
            taken.iter().any(|(other, kind)| *other == name && *kind != TrialKind::ImportTorutils);
        let stored =
            if of_other_kind { None } else { store.read_imported(&name, TrialKind::ImportTorutils)? };
        let difference = match &stored {
            _ if of_other_kind => "it was not imported from these scripts".to_owned(),
            None => return Ok((name, None, renamed)),
            Some((_, trial)) => match wanted.difference(trial) {
                None => return Ok((name, stored, renamed)),
                Some(difference) => difference,
            },
        };
        if request.name.is_some() {
            return Err(match of_other_kind {
                true => ImportError::NameTaken(name),
                false => ImportError::OtherLists { name, difference },
            });
        }
    }
    Err(ImportError::NameTaken(base))
}

/// The first and the last reading of services, in microseconds since 1970; `None` without one.
pub(crate) fn span(services: &[ImportedService]) -> Option<(i64, i64)> {
    let samples = || services.iter().flat_map(|service| &service.lives).flat_map(|life| &life.samples);
    let first = samples().map(|sample| sample.wall_us).min()?;
    Some((first, samples().map(|sample| sample.wall_us).max()?))
}

/// The rule of arms' names, for trials as well.
pub(crate) fn check_name(name: &str) -> Result<(), ImportError> {
    let fits = (1..=120).contains(&name.chars().count()) && name.trim() == name;
    if fits && !name.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(ImportError::Name(crate::problem::escape(name.as_bytes())))
    }
}
