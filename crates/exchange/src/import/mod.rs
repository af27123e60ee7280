//! Importing CSV files with measurements into the database.

mod assemble;
mod control;
mod event;
mod files;
mod lists;
mod membership;
mod service;
mod summary;

use std::path::PathBuf;

use heaptrial_model::{About, TrialKind};
use heaptrial_store::{ImportedService, Store};

pub(crate) use files::unusual_size;
pub(crate) use lists::{EVERYTHING, ServiceList, Wanted, WantedList};
pub(crate) use summary::some_of;
pub use summary::{ArmSummary, ImportSummary};

use crate::ImportError;
use crate::problem::Problems;
use crate::tables::{Mapping, Timezone};
use files::Files;

/// What to import, and how.
#[derive(Debug, Clone, Default)]
pub struct CsvImport {
    pub memory: Vec<PathBuf>,
    pub mapping: Mapping,
    /// Lists of services, one file an arm; the file's stem names the arm.
    pub groups: Vec<PathBuf>,
    pub events: Option<PathBuf>,
    pub diagnostics: Option<PathBuf>,
    /// How times without an offset are read. `None` is UTC, and refused where other times have an offset.
    pub timezone: Option<Timezone>,
    /// Now, in microseconds since 1970: readings that are later by more than a day are left out. `None` keeps all.
    pub now_wall_us: Option<i64>,
    /// Whether the first malformed row or conflicting reading is an error.
    pub strict: bool,
    pub about: Option<About>,
    /// The trial's name; `None` takes the stem of the first memory file.
    pub name: Option<String>,
    /// The name of the control arm; `None` takes the one that is called so, else that of glibc, else the first.
    pub control: Option<String>,
    pub tool_version: String,
    pub command: String,
}

/// Imports measurements. What was imported before under the same name is replaced.
pub fn import_csv(store: &mut Store, request: &CsvImport) -> Result<ImportSummary, ImportError> {
    let mut problems = Problems::new(request.strict);
    let files = Files::read(request, &mut problems)?;
    let name = request.name.clone().unwrap_or_else(|| files.default_name());
    check_name(&name)?;
    let replaced = check_free(store, &name, TrialKind::ImportTorutils)?;
    let (trial, mut summary) = assemble::assemble(&name, files, request, &mut problems)?;
    summary.trial_id = store.write_imported(&trial)?;
    summary.replaced = replaced;
    summary.problems = problems;
    Ok(summary)
}

/// Whether an import of this name and kind is there, which will be replaced; refuses the name of another trial.
pub(crate) fn check_free(store: &Store, name: &str, kind: TrialKind) -> Result<bool, ImportError> {
    let trials = store.trials()?;
    let mut taken = trials.iter().filter(|trial| trial.plan.name == name).peekable();
    let is_taken = taken.peek().is_some();
    match taken.any(|trial| trial.plan.kind != kind) {
        true => Err(ImportError::Refused(format!(
            "a trial `{name}` exists that was not imported this way; give another --name"
        ))),
        false => Ok(is_taken),
    }
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
        let name = crate::problem::escape(name.as_bytes());
        Err(ImportError::Refused(format!(
            "`{name}` cannot be a name; expected 1 to 120 printable characters without spaces at either end"
        )))
    }
}
