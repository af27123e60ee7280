//! The cache of obtained allocators.
//!
//! Files lie under the digest of their content (`objects/`); one small manifest per spec
//! (`entries/`) names the object. Everything is made in `tmp/` and renamed into place, so a process
//! that dies at any moment leaves a whole entry or none. One lock per spec serialises its makers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass};

use crate::digest;
use crate::manifest::{Manifest, object_name};
use rustix::fs::FlockOperation;

/// Where obtained allocators are kept.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Why the cache could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// There is no place for it.
    #[error("no place for the cache: neither XDG_CACHE_HOME nor HOME is set to an absolute path")]
    NoPlace,
    /// Others could change what is in it.
    #[error(
        "{path} {why}, so what is in it cannot be trusted; correct its owner and mode, or choose another cache with XDG_CACHE_HOME"
    )]
    Insecure { path: PathBuf, why: String },
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

/// What the cache holds for a spec.
#[derive(Debug)]
pub(crate) enum Lookup {
    Missing,
    Valid(Box<Entry>),
    Corrupt(String),
}

/// A valid entry with the folder of its files.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) manifest: Manifest,
    pub(crate) folder: PathBuf,
}

/// Held while an entry is made; given up when dropped or when the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// A folder in which an entry is made; removed when dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    folder: PathBuf,
}

impl Cache {
    /// The cache of this user: `$XDG_CACHE_HOME/heaptrial`; without that variable
    /// `/var/cache/heaptrial` for root and `~/.cache/heaptrial` for others.
    pub fn of_user() -> Result<Self, CacheError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let root = match absolute("XDG_CACHE_HOME") {
            Some(folder) => folder.join("heaptrial"),
            None if rustix::process::geteuid().is_root() => PathBuf::from("/var/cache/heaptrial"),
            None => absolute("HOME").ok_or(CacheError::NoPlace)?.join(".cache/heaptrial"),
        };
        Ok(Self { root })
    }

    /// A cache in a folder.
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
        make_folder(&self.root)?;
        check_owner(&self.root)?;
        for name in ["objects", "entries", "locks", "tmp"] {
            let folder = self.root.join(name);
            make_folder(&folder)?;
            check_owner(&folder)?;
        }
        Ok(())
    }

    /// Waits until no other process makes this entry. `on_wait` is called when there is one.
    pub(crate) fn lock(&self, key: &str, on_wait: impl FnOnce()) -> Result<Lock, CacheError> {
        self.prepare()?;
        let path = self.root.join("locks").join(format!("{key}.lock"));
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
    pub(crate) fn staging(&self, key: &str, _lock: &Lock) -> Result<Staging, CacheError> {
        let parent = self.root.join("tmp");
        let prefix = format!("{key}.");
        for entry in fs::read_dir(&parent).map_err(failure("reading", &parent))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove_tree(&entry.path())?;
            }
        }
        let folder = parent.join(format!("{key}.{}", std::process::id()));
        fs::create_dir(&folder).map_err(failure("making", &folder))?;
        Ok(Staging { folder })
    }

    /// What is there for a spec, with every file's digest checked.
    pub(crate) fn lookup(&self, key: &str) -> Result<Lookup, CacheError> {
        let path = self.entry_path(key);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lookup::Missing),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Lookup::Corrupt(format!("{} is not text", path.display())));
            }
            Err(error) => return Err(failure("reading", &path)(error)),
        };
        let manifest: Manifest = match serde_json::from_str(&text) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(Lookup::Corrupt(format!("{}: {error}", path.display()))),
        };
        let folder = self.root.join("objects").join(&manifest.object);
        if object_name(&manifest.files) != manifest.object {
            return Ok(Lookup::Corrupt(format!("{}: the files are not those of the object", path.display())));
        }
        for file in &manifest.files {
            let path = folder.join(&file.name);
            if let Some(what) = damage(&path, &file.sha256) {
                return Ok(Lookup::Corrupt(format!("{} {what}", path.display())));
            }
        }
        Ok(Lookup::Valid(Box::new(Entry { manifest, folder })))
    }

    /// Moves finished files into the cache and writes the manifest that names them.
    pub(crate) fn commit(
        &self,
        key: &str,
        staging: &Staging,
        manifest: Manifest,
        _lock: &Lock,
    ) -> Result<Entry, CacheError> {
        let source = staging.files();
        let folder = self.root.join("objects").join(&manifest.object);
        for file in &manifest.files {
            seal(&source.join(&file.name), manifest.loader.as_deref() == Some(&file.name))?;
        }
        sync_folder(&source)?;
        let whole =
            manifest.files.iter().all(|file| damage(&folder.join(&file.name), &file.sha256).is_none());
        if !whole {
            if folder.exists() {
                let aside = staging.folder.join("damaged");
                fs::rename(&folder, &aside).map_err(failure("moving aside", &folder))?;
            }
            match fs::rename(&source, &folder) {
                // Another spec with the same content may have come first.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTEMPTY.raw_os_error()) => {}
                result => result.map_err(failure("moving files to", &folder))?,
            }
            sync_folder(&self.root.join("objects"))?;
        }
        self.write_manifest(key, &manifest)?;
        Ok(Entry { manifest, folder })
    }

    fn write_manifest(&self, key: &str, manifest: &Manifest) -> Result<(), CacheError> {
        let path = self.entry_path(key);
        let unfinished = self.root.join("tmp").join(format!("{key}.{}.json", std::process::id()));
        let text = serde_json::to_string_pretty(manifest)
            .map_err(|error| failure("writing", &path)(error.into()))?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o644)
            .open(&unfinished)
            .map_err(failure("making", &unfinished))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(failure("writing", &unfinished))?;
        fs::rename(&unfinished, &path).map_err(failure("writing", &path))?;
        sync_folder(&self.root.join("entries"))
    }

    fn entry_path(&self, key: &str) -> PathBuf {
        self.root.join("entries").join(format!("{key}.json"))
    }
}

impl Staging {
    /// Where the files of the entry are put.
    pub(crate) fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// Makes the folder of the files anew.
    pub(crate) fn clear_files(&self) -> Result<PathBuf, CacheError> {
        let files = self.files();
        remove_tree(&files)?;
        fs::create_dir(&files).map_err(failure("making", &files))?;
        Ok(files)
    }

    /// Makes another folder for work on the way, anew.
    pub(crate) fn work_folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        let folder = self.folder.join(name);
        remove_tree(&folder)?;
        fs::create_dir(&folder).map_err(failure("making", &folder))?;
        Ok(folder)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next maker.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What is wrong with a cached file.
fn damage(path: &Path, sha256: &str) -> Option<String> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    if !metadata.is_file() {
        return Some("is not a file".to_owned());
    }
    if let Some(why) = insecure(&metadata) {
        return Some(why);
    }
    match digest::of_file(path) {
        Ok(found) if found == sha256 => None,
        Ok(_) => Some("has another content than when it was verified".to_owned()),
        Err(error) => Some(format!("cannot be read: {error}")),
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

fn check_owner(folder: &Path) -> Result<(), CacheError> {
    let metadata = fs::metadata(folder).map_err(failure("reading", folder))?;
    match insecure(&metadata) {
        Some(why) => Err(CacheError::Insecure { path: folder.to_owned(), why }),
        None => Ok(()),
    }
}

fn make_folder(folder: &Path) -> Result<(), CacheError> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(failure("making", folder))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .map_err(failure("setting the mode of", folder))
}

/// Writable by the owner only, and on the disk.
fn seal(path: &Path, program: bool) -> Result<(), CacheError> {
    let mode = if program { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(failure("setting the mode of", path))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(failure("writing", path))
}

fn sync_folder(folder: &Path) -> Result<(), CacheError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(failure("writing", folder))
}

fn remove_tree(path: &Path) -> Result<(), CacheError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure("removing", path)(error)),
        _ => Ok(()),
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::elf::LibraryFacts;
    use crate::provenance::Provenance;
    use crate::verify::Verification;

    fn manifest(staging: &Staging) -> Manifest {
        let facts = LibraryFacts { build_id: None, needed_glibc: None };
        let provenance = Provenance::Local { path: "/somewhere".into(), build: None };
        let verification = Verification {
            version: None,
            malloc_from: "/somewhere".into(),
            evidence: Vec::new(),
            options: Default::default(),
            unproved: Vec::new(),
        };
        Manifest::describe("x".to_owned(), staging, "a.so", None, facts, provenance, verification).unwrap()
    }

    fn put(cache: &Cache, key: &str, content: &str) -> Entry {
        let lock = cache.lock(key, || ()).unwrap();
        let staging = cache.staging(key, &lock).unwrap();
        fs::write(staging.clear_files().unwrap().join("a.so"), content).unwrap();
        cache.commit(key, &staging, manifest(&staging), &lock).unwrap()
    }

    #[test]
    fn what_was_put_is_found_and_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("cache"));
        let entry = put(&cache, "x", "library");
        let Lookup::Valid(found) = cache.lookup("x").unwrap() else { panic!("not found") };
        assert_eq!(found.manifest, entry.manifest);
        let mode = fs::metadata(found.folder.join("a.so")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o644);
        assert!(matches!(cache.lookup("y").unwrap(), Lookup::Missing));
    }

    #[test]
    fn damage_is_found_and_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("cache"));
        let entry = put(&cache, "x", "library");
        let library = entry.folder.join("a.so");
        for harm in [
            &(|| fs::write(&library, "other").unwrap()) as &dyn Fn(),
            &|| fs::remove_file(&library).unwrap(),
            &|| fs::set_permissions(&library, fs::Permissions::from_mode(0o666)).unwrap(),
            &|| fs::write(folder.path().join("cache/entries/x.json"), "{").unwrap(),
            &|| fs::write(folder.path().join("cache/entries/x.json"), b"\xff").unwrap(),
        ] {
            harm();
            assert!(matches!(cache.lookup("x").unwrap(), Lookup::Corrupt(_)));
            put(&cache, "x", "library");
            assert!(matches!(cache.lookup("x").unwrap(), Lookup::Valid(_)));
        }
    }

    #[test]
    fn what_a_dead_maker_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("cache"));
        let lock = cache.lock("x", || ()).unwrap();
        let stale = folder.path().join("cache/tmp/x.999999");
        fs::create_dir(&stale).unwrap();
        let other = folder.path().join("cache/tmp/y.1");
        fs::create_dir(&other).unwrap();
        drop(cache.staging("x", &lock).unwrap());
        assert!(!stale.exists() && other.exists());
        assert_eq!(fs::read_dir(folder.path().join("cache/tmp")).unwrap().count(), 1);
    }

    #[test]
    fn makers_of_one_entry_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("cache"));
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _lock = cache.lock("x", || ()).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    }

    #[test]
    fn a_cache_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cache");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Cache::at(&root).lock("x", || ()), Err(CacheError::Insecure { .. })));
    }

    #[test]
    fn a_full_disk_is_named() {
        let full = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let message = failure("writing", Path::new("/c/a.so"))(full).to_string();
        assert!(message.contains("no space left on the file system of /c/a.so"), "{message}");
    }
}
