//! The cache of obtained allocators: a folder for each, with its files and a record of what they are.
//!
//! It is made under another name and renamed, so that a process that dies at any moment leaves a
//! whole entry or none. One lock for each entry serialises its makers.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::licence::LicenceText;
use crate::obtained::Obtained;

const ENTRIES: &str = "allocators";
const RECORD: &str = "manifest.json";

#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("{0}")]
    Refused(String),
    #[error(
        "no space left on the file system of {path} while {action}; free some space and run the command again, nothing incomplete was kept"
    )]
    Full { path: PathBuf, action: &'static str },
    #[error("{action} {path} failed: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Classified for CacheError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Failed
    }
}

#[derive(Serialize, Deserialize)]
struct Record {
    schema_version: u32,
    files: Vec<(String, String)>,
    /// Without settings, which are no part of a build.
    obtained: Obtained,
    licences: Vec<LicenceText>,
}

/// Held while an entry is made; given up when dropped or when the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// A folder in which an entry is made; removed when dropped.
#[derive(Debug)]
pub(crate) struct Staging<'l> {
    folder: PathBuf,
    key: String,
    _lock: &'l Lock,
}

impl Cache {
    /// The cache of this user: `$XDG_CACHE_HOME/heaptrial`; without that variable
    /// `/var/cache/heaptrial` for root and `~/.cache/heaptrial` for others.
    pub fn of_user() -> Result<Self, CacheError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let root = match absolute("XDG_CACHE_HOME") {
            Some(folder) => folder.join("heaptrial"),
            None if rustix::process::geteuid().is_root() => PathBuf::from("/var/cache/heaptrial"),
            None => {
                let no_place =
                    "no place for the cache: neither XDG_CACHE_HOME nor HOME is set to an absolute path";
                let home = absolute("HOME").ok_or_else(|| CacheError::Refused(no_place.to_owned()))?;
                home.join(".cache/heaptrial")
            }
        };
        Ok(Self { root })
    }

    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A subfolder for the use of one source, made where missing.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        self.prepare()?;
        let folder = self.root.join(name);
        make_folder(&folder)?;
        Ok(folder)
    }

    fn prepare(&self) -> Result<(), CacheError> {
        for folder in [self.root.clone(), self.root.join(ENTRIES)] {
            make_folder(&folder)?;
            let metadata = fs::metadata(&folder).map_err(failure("reading", &folder))?;
            if let Some(why) = insecure(&metadata) {
                return Err(CacheError::Refused(format!(
                    "{} {why}, so what is in it cannot be trusted; correct its owner and mode, or choose another cache with XDG_CACHE_HOME",
                    folder.display()
                )));
            }
        }
        Ok(())
    }

    /// Waits until no other process makes this entry. `on_wait` is called when there is one.
    pub(crate) fn lock(&self, key: &str, on_wait: impl FnOnce()) -> Result<Lock, CacheError> {
        self.prepare()?;
        let path = self.root.join(ENTRIES).join(format!(".{key}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o644)
            .open(&path)
            .map_err(failure("opening", &path))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            on_wait();
            rustix::fs::flock(&file, FlockOperation::LockExclusive)
                .map_err(|error| failure("locking", &path)(error.into()))?;
        }
        Ok(Lock { _file: file })
    }

    /// An empty folder to make an entry in. What a maker that died left there is removed.
    pub(crate) fn staging<'l>(&self, key: &str, lock: &'l Lock) -> Result<Staging<'l>, CacheError> {
        let folder = self.root.join(ENTRIES).join(format!(".{key}.making"));
        make_empty(&folder)?;
        let staging = Staging { folder, key: key.to_owned(), _lock: lock };
        make_empty(&staging.files())?;
        Ok(staging)
    }

    pub(crate) fn entry(&self, key: &str) -> PathBuf {
        self.root.join(ENTRIES).join(key)
    }

    /// What is there under a key; nothing where it is damaged, by a power cut or by others.
    pub(crate) fn lookup(&self, key: &str) -> Option<Obtained> {
        let folder = self.entry(key);
        let record: Record = serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()?;
        let is_whole = |(name, sha256): &(String, String)| {
            let path = folder.join(name);
            let is_ours = fs::symlink_metadata(&path).is_ok_and(|metadata| insecure(&metadata).is_none());
            is_ours && digest::of_file(&path).is_ok_and(|found| found == *sha256)
        };
        let is_here = record.obtained.object().is_some_and(|object| object.starts_with(&folder));
        let is_intact = is_here && record.files.iter().all(is_whole);
        is_intact.then_some(Obtained { licences: record.licences, ..record.obtained })
    }

    /// Puts a finished entry in the place of what is there.
    pub(crate) fn commit(&self, staging: Staging<'_>, obtained: &Obtained) -> Result<(), CacheError> {
        let made = staging.files();
        let mut files = Vec::new();
        for entry in fs::read_dir(&made).map_err(failure("reading", &made))? {
            let path = entry.map_err(failure("reading", &made))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            seal(&path, obtained.loader.as_ref().is_some_and(|loader| loader.program.ends_with(&name)))?;
            files.push((name, digest::of_file(&path).map_err(failure("reading", &path))?));
        }
        files.sort();
        let path = made.join(RECORD);
        let (obtained, licences) = (obtained.clone(), obtained.licences.clone());
        let record = Record { schema_version: 1, files, obtained, licences };
        let text = serde_json::to_vec_pretty(&record).map_err(io::Error::other);
        text.and_then(|text| fs::write(&path, text)).map_err(failure("writing", &path))?;
        seal(&path, false)?;
        let folder = self.entry(&staging.key);
        if folder.exists() {
            let aside = staging.folder.join("replaced");
            fs::rename(&folder, &aside).map_err(failure("moving aside", &folder))?;
        }
        fs::rename(&made, &folder).map_err(failure("moving files to", &folder))
    }
}

impl Staging<'_> {
    pub(crate) fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    pub(crate) fn work_folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        let folder = self.folder.join(name);
        make_empty(&folder)?;
        Ok(folder)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next maker.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn insecure(metadata: &fs::Metadata) -> Option<String> {
    let me = rustix::process::geteuid().as_raw();
    if metadata.uid() != me && metadata.uid() != 0 {
        return Some(format!("belongs to user {}", metadata.uid()));
    }
    (metadata.mode() & 0o022 != 0)
        .then(|| format!("is writable by others (mode {:o})", metadata.mode() & 0o7777))
}

fn make_folder(folder: &Path) -> Result<(), CacheError> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(failure("making", folder))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .map_err(failure("setting the mode of", folder))
}

/// Writable by the owner only.
fn seal(path: &Path, program: bool) -> Result<(), CacheError> {
    let mode = if program { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failure("setting the mode of", path))
}

fn make_empty(folder: &Path) -> Result<(), CacheError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure("removing", folder)(error)),
        _ => fs::create_dir(folder).map_err(failure("making", folder)),
    }
}

/// An error with what was being done to which file.
pub(crate) fn failure(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CacheError::Full { path, action },
        _ => CacheError::Io { action, path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cache");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Cache::at(&root).lock("x", || ()), Err(CacheError::Refused(_))));
    }
}
