//! What a search keeps in its folder: what was asked for, and every step, on disk before the next one.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use heaptrial_report::Document;
use heaptrial_search::MeasuredBlock;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// Held by the process that carries a search out.
const LOCK: &str = "search.lock";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(in super::super) enum Step {
    Measured(MeasuredBlock),
    /// An arm cannot be measured.
    Excluded {
        at: usize,
        name: String,
        why: String,
    },
    /// Two positions of a history build the same.
    Same {
        at: usize,
        with: usize,
    },
    /// A search over settings is over, and these are verified: winners, and what they are compared with.
    Winners {
        winners: Vec<Winner>,
        beside: Vec<String>,
    },
}

/// A winner as the search believes it to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Winner {
    pub(in super::super) spec: String,
    /// Log ratio to the control, and its standard deviation.
    pub(in super::super) believed: Option<(f64, f64)>,
}

/// The folder of a search with its steps, one a line of a file. No other process enters steps as long as it is there.
pub(in super::super) struct Record {
    pub(in super::super) folder: PathBuf,
    pub(in super::super) steps: Vec<Step>,
    path: PathBuf,
    file: File,
    _lock: File,
}

/// Name of the file that has what a search of this kind was asked for.
pub(super) fn plan_file(of: &str) -> String {
    format!("{of}-plan.json")
}

/// Reads what a search of this kind in a folder was asked for.
pub(super) fn read_plan<P: DeserializeOwned>(folder: &Path, of: &str) -> Result<P, Failure> {
    let path = folder.join(plan_file(of));
    let text = fs::read_to_string(&path)
        .map_err(|error| Failure::refused(format!("{} holds no search: {error}", folder.display())))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::refused(format!("{} cannot be read: {error}", path.display())))
}

/// Writes it into a folder that holds none yet.
pub(super) fn write_plan<P: Serialize>(folder: &Path, of: &str, plan: &P) -> Result<(), Failure> {
    let path = folder.join(plan_file(of));
    let text = serde_json::to_string_pretty(plan).map_err(Failure::failed)?;
    let created = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = created.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::refused(format!(
            "{} already holds a search; name another folder with --out, or go on with it by --continue",
            folder.display()
        )),
        _ => Failure::file(&path)(error),
    })?;
    file.write_all((text + "\n").as_bytes()).map_err(Failure::file(&path))
}

impl Record {
    /// The steps in a file of the folder, which need not be there yet. A last line that was cut off by a crash is no step.
    pub(in super::super) fn open(folder: &Path, name: &str) -> Result<Self, Failure> {
        let lock = lock(&folder.join(LOCK), || {
            format!(
                "another process goes on with the search in {} at this moment; wait for its end, or interrupt it, and then use \
                 --continue",
                folder.display()
            )
        })?;
        let path = folder.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::file(&path)(error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let steps = whole.lines().enumerate().map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                Failure::refused(format!("{}, line {}: {error}", path.display(), number + 1))
            })
        });
        let steps = steps.collect::<Result<Vec<Step>, _>>()?;
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(Failure::file(&path))?;
        file.set_len(whole.len() as u64).map_err(Failure::file(&path))?;
        Ok(Self { folder: folder.to_owned(), steps, path, file, _lock: lock })
    }

    /// Writes a step down, and returns it to be acted on.
    pub(in super::super) fn enter(&mut self, step: Step) -> Result<&Step, Failure> {
        let line = serde_json::to_string(&step).map_err(Failure::failed)? + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(Failure::file(&self.path))?;
        self.steps.push(step);
        Ok(&self.steps[self.steps.len() - 1])
    }

    /// The blocks that were carried out, in order.
    pub(in super::super) fn blocks(&self) -> impl DoubleEndedIterator<Item = &MeasuredBlock> {
        self.steps.iter().filter_map(|step| match step {
            Step::Measured(block) => Some(block),
            _ => None,
        })
    }

    /// Number and folder of the next block: that of an interrupted one stays as it is.
    pub(super) fn next_block(&self) -> (usize, PathBuf) {
        let folder = |number: usize| self.folder.join("blocks").join(format!("{number:04}"));
        let number = (1..).find(|number| !folder(*number).exists()).unwrap_or(usize::MAX);
        (number, folder(number))
    }
}

/// Holds a file alone; refuses with `held` where another process does.
pub(in super::super) fn lock(path: &Path, held: impl FnOnce() -> String) -> Result<File, Failure> {
    let file = File::create(path).map_err(Failure::file(path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::refused(held())),
        Err(error) => Err(Failure::file(path)(error)),
    }
}

/// The report that a search left in its folder as `NAME.json`, where `heaptrial lab NAME` is the search.
pub fn read_report<P: Document + DeserializeOwned>(folder: &Path) -> Result<P, Failure> {
    let name = P::NAME;
    let path = folder.join(format!("{name}.json"));
    let text = fs::read_to_string(&path).map_err(|error| {
        let again = format!("`heaptrial lab {name} --continue {}` goes on with it", folder.display());
        Failure::refused(format!("the search in {} has no report yet ({error}); {again}", folder.display()))
    })?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::refused(format!("{} is no report of a search: {error}", path.display())))
}
