//! What a search keeps in its folder: what was asked for, and every step, on disk before the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use heaptrial_report::Document;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::Failure;

/// Held by the process that carries a search out; has its number.
const LOCK: &str = "search.lock";

/// The folder of a search with its steps, one a line of a file. No other process enters steps as long as it is there.
pub(in super::super) struct Record<S> {
    pub(in super::super) folder: PathBuf,
    pub(in super::super) steps: Vec<S>,
    path: PathBuf,
    file: File,
    _lock: Held,
}

/// A locked file. It is unlocked, not only closed: a child that another thread has just forked has it open as well until it runs its program, and
/// would keep it locked.
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// A step of a search.
pub(in super::super) trait Step {
    /// The number of the block that it is of, if it is of one.
    fn block(&self) -> Option<usize>;

    /// A block whose control has no figures.
    fn void(block: usize, why: String) -> Self;

    fn is_void(&self) -> bool;
}

impl<S: Step> Record<S> {
    /// How often the control failed in a row until now.
    pub(super) fn voids_in_a_row(&self) -> usize {
        let blocks = self.steps.iter().rev().filter(|step| step.block().is_some());
        blocks.take_while(|step| step.is_void()).count()
    }

    /// The last block that was begun, if no step is of it.
    pub(super) fn left_behind(&self) -> Option<usize> {
        let last = self.next_block() - 1;
        let of_last = |step: &S| step.block() == Some(last);
        (last > 0 && !self.steps.iter().any(of_last)).then_some(last)
    }
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
        _ => failed(&path, &error),
    })?;
    file.write_all((text + "\n").as_bytes()).map_err(|error| failed(&path, &error))
}

impl<S: Serialize + DeserializeOwned> Record<S> {
    /// The steps of a test.
    #[cfg(test)]
    pub(in super::super) fn in_folder(folder: &Path) -> Self {
        Self::open(folder, "steps").unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The steps in a file of the folder, which need not be there yet. A last line that was cut off by a crash is no step.
    pub(super) fn open(folder: &Path, name: &str) -> Result<Self, Failure> {
        let lock = lock(folder)?;
        let path = folder.join(name);
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
        let steps = steps.collect::<Result<Vec<S>, _>>()?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| failed(&path, &error))?;
        file.set_len(whole.len() as u64).map_err(|error| failed(&path, &error))?;
        Ok(Self { folder: folder.to_owned(), steps, path, file, _lock: lock })
    }

    /// Writes a step down, and returns it to be acted on.
    pub(in super::super) fn enter(&mut self, step: S) -> Result<&S, Failure> {
        let line = serde_json::to_string(&step).map_err(Failure::failed)? + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| failed(&self.path, &error))?;
        self.steps.push(step);
        Ok(&self.steps[self.steps.len() - 1])
    }
}

impl<S> Record<S> {
    /// The number of the next block: one whose folder is not there, as that of an interrupted block is.
    pub(super) fn next_block(&self) -> usize {
        (1..).find(|number| !self.block_folder(*number).exists()).unwrap_or(usize::MAX)
    }

    pub(super) fn block_folder(&self, number: usize) -> PathBuf {
        self.folder.join("blocks").join(format!("{number:04}"))
    }
}

fn lock(folder: &Path) -> Result<Held, Failure> {
    let path = folder.join(LOCK);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(|error| failed(&path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(|error| failed(&path, &error))?;
            return Err(Failure::refused(format!(
                "process {} goes on with the search in {} at this moment; wait for its end, or interrupt it, and then use --continue",
                holder.trim(),
                folder.display()
            )));
        }
        Err(error) => return Err(failed(&path, &error.into())),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|error| failed(&path, &error))?;
    Ok(Held(file))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Step for u32 {
        fn block(&self) -> Option<usize> {
            Some(*self as usize)
        }

        fn void(block: usize, _: String) -> Self {
            block as u32
        }

        fn is_void(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_block_of_which_no_step_tells_was_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::<u32>::open(folder.path(), "steps").unwrap();
        assert_eq!(record.left_behind(), None);
        fs::create_dir_all(record.block_folder(1)).unwrap();
        assert_eq!(record.left_behind(), Some(1));
        record.enter(1).unwrap();
        assert_eq!(record.left_behind(), None);
        // One that was carried out anew is of no account.
        fs::create_dir(record.block_folder(2)).unwrap();
        fs::create_dir(record.block_folder(3)).unwrap();
        record.enter(3).unwrap();
        assert_eq!((record.left_behind(), record.next_block()), (None, 4));
    }

    #[test]
    fn one_process_at_a_time_enters_steps() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Record::<u32>::open(folder.path(), "steps").unwrap();
        first.enter(7).unwrap();
        let refused = Record::<u32>::open(folder.path(), "steps").err().unwrap().to_string();
        assert!(refused.contains(&format!("process {} goes on", std::process::id())), "{refused}");
        // As a child has it between its fork and its program.
        let inherited = first._lock.0.try_clone().unwrap();
        drop(first);
        assert_eq!(Record::<u32>::open(folder.path(), "steps").unwrap().steps, [7]);
        drop(inherited);
    }
}
