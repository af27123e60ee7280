//! What a search keeps in its folder: what was asked for, the history, and every step, on disk before the next one.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use heaptrial_bisect::{Measurement, Search};
use serde::{Deserialize, Serialize};

use super::block::MeasuredBlock;
use super::subject::Position;
use crate::exit::Failure;

/// The form that this version writes.
pub(super) const SCHEMA_VERSION: u32 = 1;
/// What was asked for.
pub(super) const PLAN: &str = "bisect-plan.json";
/// One step a line.
const STEPS: &str = "bisect-steps.jsonl";

/// What was asked for, and the history that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) schema_version: u32,
    /// Words of the command line after the program.
    pub(super) arguments: Vec<String>,
    /// Where it was started.
    pub(super) directory: PathBuf,
    pub(super) seed: u64,
    /// Oldest first.
    pub(super) positions: Vec<Position>,
    /// Commits that build nothing new.
    pub(super) left_out: usize,
    /// Whether the newer end does not come from the older one.
    pub(super) forks: bool,
}

/// A step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum Step {
    /// A block.
    Measured {
        #[serde(flatten)]
        block: MeasuredBlock,
        position: usize,
        /// Of the build.
        sha256: String,
    },
    /// A block in which a build did not live to the end; position 0 is the older end.
    Failed { block: usize, position: usize, why: String },
    /// A position that is left out.
    Skipped { position: usize, why: String },
    /// Two positions build the same.
    Same { position: usize, with: usize },
}

impl Step {
    pub(super) fn apply(&self, search: &mut Search) {
        match self {
            Self::Measured { block, position, .. } => {
                search.take(Measurement { position: *position, log_ratio: block.log_ratio });
            }
            Self::Failed { .. } => {}
            Self::Skipped { position, .. } => search.skip(*position),
            Self::Same { position, with } => search.same(*position, *with),
        }
    }
}

/// The folder with its steps.
pub(super) struct Record {
    pub(super) folder: PathBuf,
    pub(super) steps: Vec<Step>,
    file: File,
}

impl Kept {
    /// What a folder holds.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(PLAN);
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::refused(format!("{} holds no search: {error}", folder.display())))?;
        let kept: Self = serde_json::from_str(&text)
            .map_err(|error| Failure::refused(format!("{} cannot be read: {error}", path.display())))?;
        if kept.schema_version != SCHEMA_VERSION || kept.positions.len() < 2 {
            return Err(Failure::refused(format!("{} is of another version of Heaptrial", path.display())));
        }
        Ok(kept)
    }
}

impl Record {
    /// A new one in a folder that exists.
    pub(super) fn create(folder: &Path, kept: &Kept) -> Result<Self, Failure> {
        let path = folder.join(PLAN);
        let text = serde_json::to_string_pretty(kept).map_err(Failure::failed)?;
        fs::write(&path, text + "\n").map_err(|error| failed(&path, &error))?;
        Self::open(folder)
    }

    /// One that was begun. A last line that was cut off by a crash is no step.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(STEPS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(&path, &error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let steps = whole.lines().enumerate().map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                Failure::refused(format!("{}, line {}: {error}", path.display(), number + 1))
            })
        });
        let steps = steps.collect::<Result<Vec<Step>, _>>()?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| failed(&path, &error))?;
        file.set_len(whole.len() as u64).map_err(|error| failed(&path, &error))?;
        Ok(Self { folder: folder.to_owned(), steps, file })
    }

    /// Writes a step down, then tells the search.
    pub(super) fn enter(&mut self, step: Step, search: &mut Search) -> Result<(), Failure> {
        let line = serde_json::to_string(&step).map_err(Failure::failed)? + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| failed(&self.folder.join(STEPS), &error))?;
        step.apply(search);
        self.steps.push(step);
        Ok(())
    }

    /// The number of the next block: one whose folder is not there, as that of an interrupted block is.
    pub(super) fn next_block(&self) -> usize {
        (1..).find(|number| !self.folder.join(block_folder(*number)).exists()).unwrap_or(usize::MAX)
    }

    /// How often a position failed.
    pub(super) fn failures(&self, at: usize) -> usize {
        self.steps
            .iter()
            .filter(|step| matches!(step, Step::Failed { position, .. } if *position == at))
            .count()
    }

    /// How often the older end failed one time after the other until now.
    pub(super) fn failures_in_a_row(&self) -> usize {
        self.steps.iter().rev().take_while(|step| matches!(step, Step::Failed { position: 0, .. })).count()
    }

    /// Positions that were measured, with the digests of their builds.
    pub(super) fn builds(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Measured { position, sha256, .. } => Some((*position, sha256.clone())),
            _ => None,
        })
    }
}

/// Where a block is, below the folder.
pub(super) fn block_folder(number: usize) -> PathBuf {
    Path::new("blocks").join(format!("{number:04}"))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
