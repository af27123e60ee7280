//! What searches over lab runs share: the load, a block, and steps that are on disk before the next one.

mod bench;
mod load;
mod record;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use heaptrial_model::{About, AllocatorSpec, Arm, Pace, Treatment, TrialPlan};
use heaptrial_report::Document;

pub(super) use self::bench::{Bench, Carried};
pub(super) use self::load::Load;
pub use self::record::read_report;
pub(super) use self::record::{Numbered, Record, plan_file, read_plan, write_plan};
use super::{LabOptions, userland};
use crate::commands::Command;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output;

/// What the document of a search tells until its end.
pub(super) const UNDER_WAY: &str = "The search is under way, or was cut off";

/// Times that something may fail in the lab before it is given up.
pub(super) const TRIES: usize = 3;

/// An arm under this name.
pub(super) fn arm(name: &str, spec: AllocatorSpec, control: bool) -> Arm {
    Arm {
        name: name.to_owned(),
        control,
        treatment: Treatment { allocator: Some(spec), ..Treatment::default() },
    }
}

pub(super) fn plan_of(name: &str, arms: Vec<Arm>) -> TrialPlan {
    TrialPlan {
        name: name.to_owned(),
        services: None,
        duration: None,
        metric: None,
        looks: Vec::new(),
        pace: Pace::default(),
        about: About::default(),
        arms,
    }
}

/// Words of this command line after the program.
fn own_arguments() -> Result<Vec<String>, Failure> {
    let words = std::env::args_os().skip(1).map(|word| OsString::into_string(word).ok());
    words.collect::<Option<_>>().ok_or_else(|| {
        Failure::usage("a search keeps its command as text, so all of its words have to be UTF-8")
    })
}

/// Those words as a command.
pub(super) fn command_of(arguments: &[String]) -> String {
    let words: Vec<_> = arguments.iter().map(|word| shell_words::quote(word)).collect();
    format!("heaptrial {}", words.join(" "))
}

/// How a search was started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Started {
    /// Words of the command line after the program.
    pub(super) arguments: Vec<String>,
    pub(super) directory: PathBuf,
    /// What its services run in: a userland, or the system of the host.
    pub(super) runs_in: String,
}

impl Started {
    pub(super) fn here() -> Result<Self, Failure> {
        let directory = std::env::current_dir().map_err(Failure::failed)?;
        Ok(Self { arguments: own_arguments()?, directory, runs_in: userland::runs_in()? })
    }

    /// Goes on where `lab`, of what was asked for, runs: this program starts anew in its userland. Refuses to go on in another.
    pub(super) fn enter(
        &self,
        lab: &LabOptions,
        global: &GlobalOptions,
        folder: &Path,
        from: &Path,
    ) -> Result<(), Failure> {
        userland::enter_from(lab, global, Some(folder), from)?;
        let here = userland::runs_in()?;
        if here != self.runs_in {
            return Err(Failure::refused(format!(
                "the search in {} ran in {}, and would go on in {here}, whose figures cannot be put together with those; go on \
                 where it ran, or begin anew",
                folder.display(),
                self.runs_in
            )));
        }
        Ok(())
    }
}

/// What a search in `folder` was asked for; goes to where it was started. Gives the folder as it is found from there.
pub(super) fn asked_again(folder: &Path, started: &Started) -> Result<(Command, PathBuf), Failure> {
    let Started { arguments, directory, .. } = started;
    let words = std::iter::once("heaptrial").chain(arguments.iter().map(String::as_str));
    let (_, command) = crate::parse(words.map(str::to_owned)).map_err(|error| {
        Failure::refused(format!("{} is of another version of Heaptrial: {error}", folder.display()))
    })?;
    let folder = std::path::absolute(folder).map_err(Failure::failed)?;
    std::env::set_current_dir(directory).map_err(|error| {
        Failure::refused(format!("cannot go to {}, where it was started: {error}", directory.display()))
    })?;
    Ok((command, folder))
}

/// A refusal to put figures of two builds of one allocator together.
pub(super) fn built_otherwise(build: &str) -> Failure {
    Failure::refused(format!(
        "{build} is another library now than the one that the search measured, as after an upgrade of it or of the compiler, and \
         figures of both cannot be put together: go on where it is the one of then, or begin anew"
    ))
}

/// A failure that ended a search, `name` as a command, after its report: the way on is the search's own.
pub(super) fn ended_by(failure: Failure, name: &str, folder: &Path) -> Failure {
    failure.hint(format!(
        "blocks that were measured are kept; `heaptrial lab {name} --continue {}` measures what has no results, and goes on",
        shell_words::quote(&folder.to_string_lossy())
    ))
}

/// Prints the report of a search whose folder this is, and writes it anew; `None` where it is none of this kind.
pub(super) fn report_of<P: Document + DeserializeOwned>(
    folder: &Path,
    global: &GlobalOptions,
) -> Result<Option<ExitCode>, Failure> {
    if !folder.join(plan_file(P::NAME)).is_file() {
        return Ok(None);
    }
    let report: P = read_report(folder)?;
    tell(&report, global.out.as_deref().unwrap_or(folder), global)?;
    Ok(Some(ExitCode::SUCCESS))
}

/// Writes all forms of a report into `folder`, and prints the one that is to be shown and where they are.
pub(super) fn tell(report: &impl Document, folder: &Path, global: &GlobalOptions) -> Result<(), Failure> {
    let written = report.write(folder).map_err(Failure::failed)?;
    let shown = match global.json {
        true => report.json().map_err(Failure::failed)?,
        false => report.terminal(global.colored_stdout()),
    };
    output::print(&shown)?;
    if !global.json {
        let paths =
            [&written.html, &written.markdown, &written.json].map(|path| format!("\n{}", path.display()));
        output::print(&format!("{}\n", paths.concat()))?;
    }
    Ok(())
}
