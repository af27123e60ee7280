//! What searches over lab runs share: the loop of blocks, and steps that are on disk before the search is informed of them.

mod drive;
mod load;
mod record;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use heaptrial_allocator::{Catalog, ObtainError, Obtained};
use heaptrial_model::{AllocatorSpec, Arm, Treatment, TrialPlan};
use heaptrial_report::Document;

pub(super) use self::drive::{Ask, Next, Search, Wanted, drive};
pub(super) use self::load::{Load, Timed};
pub use self::record::read_report;
pub(super) use self::record::{Record, Step, Winner, lock};
use super::repeat_command::RepeatCommand;
use super::{LabOptions, check, userland};
use crate::answer::Answer;
use crate::commands::Command;
use crate::commands::report::written;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder;

/// An arm under this name.
pub(super) fn arm(name: &str, spec: AllocatorSpec, control: bool) -> Arm {
    Arm {
        name: name.to_owned(),
        control,
        treatment: Treatment { allocator: Some(spec), ..Treatment::default() },
    }
}

pub(super) fn plan_of(name: &str, arms: Vec<Arm>) -> TrialPlan {
    TrialPlan { name: name.to_owned(), arms, ..TrialPlan::default() }
}

/// Gets an allocator of the catalog; the inner error is why it cannot be had or does not take its settings.
pub(super) fn obtain(spec: &AllocatorSpec, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure> {
    let obtainer = lab.sources.obtainer(None)?;
    let resolved = Catalog::builtin().resolve(&lab.as_run(spec)).map_err(ObtainError::from);
    or_why(resolved.and_then(|resolved| obtainer.obtain(&resolved)))
}

/// Separates what one allocator lacks from what stops all of them.
pub(super) fn or_why(obtained: Result<Obtained, ObtainError>) -> Result<Result<Obtained, String>, Failure> {
    match obtained {
        Ok(obtained) => Ok(Ok(obtained)),
        Err(ObtainError::Cache(error)) => Err(error.into()),
        Err(error) => Ok(Err(why_not(&error))),
    }
}

/// Of a compiler's output, its first error.
fn why_not(error: &ObtainError) -> String {
    let text = match error {
        ObtainError::NoSource { attempts, .. } => {
            attempts.iter().map(|attempt| attempt.why.to_string()).collect::<Vec<_>>().join("\n")
        }
        error => error.to_string(),
    };
    let of_compiler = text.lines().find(|line| line.contains("error:"));
    let first = of_compiler.or(text.lines().next()).unwrap_or_default().trim();
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let cause = cause.filter(|cause| !text.contains(cause.as_str()));
    cause.map_or(first.to_owned(), |cause| format!("{first}: {cause}"))
}

/// What a search was asked for, and what was found when it began: `NAME-plan.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept<S> {
    pub(super) command: RepeatCommand,
    directory: PathBuf,
    pub(super) seed: u64,
    /// Digests of the builds that it began with, by name.
    pub(super) builds: BTreeMap<String, String>,
    pub(super) subject: S,
}

/// The workload of these arms, if a lab run could have it.
pub(super) fn workload_of(load: &Load, plan: &TrialPlan, global: &GlobalOptions) -> Result<Timed, Failure> {
    if global.db.is_some() {
        return Err(Failure::usage("a search has a database for each block, in its folder; leave --db out"));
    }
    let timed = load.workload(plan)?;
    check(load.options(), plan, &timed)?;
    run_folder::check(global.out.as_deref())?;
    Ok(timed)
}

/// Writes down what a search is about, in its new folder.
pub(super) fn keep<S: Serialize>(
    name: &str,
    lab: &LabOptions,
    builds: BTreeMap<String, String>,
    subject: S,
    global: &GlobalOptions,
) -> Result<(Kept<S>, PathBuf), Failure> {
    let seed = lab.seed.unwrap_or_else(rand::random);
    let directory = std::env::current_dir().map_err(Failure::failed)?;
    let kept = Kept { command: RepeatCommand::own()?, directory, seed, builds, subject };
    let folder = run_folder::create(global.out.as_deref(), name)?;
    record::write_plan(&folder, name, &kept)?;
    eprintln!("seed {seed}; the search's folder is {}", folder.display());
    Ok((kept, folder))
}

/// A search that began earlier.
pub(super) struct Earlier<S> {
    pub(super) kept: Kept<S>,
    pub(super) command: Command,
    pub(super) folder: PathBuf,
}

impl<S: DeserializeOwned> Earlier<S> {
    /// Reads what the search in a folder was asked for.
    pub(super) fn open(name: &str, folder: &Path, load: Option<&Load>) -> Result<Self, Failure> {
        if load.is_some() {
            return Err(Failure::usage(
                "--continue takes everything as it was asked for; leave run or tor and its options out",
            ));
        }
        let kept: Kept<S> = record::read_plan(folder, name)?;
        let folder = std::path::absolute(folder).map_err(Failure::failed)?;
        Ok(Self { command: kept.command.parse()?, kept, folder })
    }

    /// Goes on in the userland where it ran, in which this program starts again, and in the folder where it was started.
    pub(super) fn enter(&self, lab: &LabOptions, global: &GlobalOptions) -> Result<(), Failure> {
        let directory = &self.kept.directory;
        userland::enter(lab, global, &[&self.folder, directory])?;
        std::env::set_current_dir(directory).map_err(|error| {
            Failure::refused(format!("cannot go to {}, where it was started: {error}", directory.display()))
        })
    }
}

/// Writes the report of a search whose folder this is again; `None` where it is none of this kind.
pub(super) fn report_of<P: Document + DeserializeOwned>(
    folder: &Path,
    global: &GlobalOptions,
) -> Result<Option<Answer>, Failure> {
    if !folder.join(record::plan_file(P::NAME)).is_file() {
        return Ok(None);
    }
    let report: P = read_report(folder)?;
    written(&report, global.out.as_deref().unwrap_or(folder), global).map(Some)
}
