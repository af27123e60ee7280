//! Files that several processes map, each read once.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::libraries::Packages;
use crate::digest;
use crate::elf::ElfFile;
use crate::file_key::FileKey;

/// A larger file is not digested: its build id has to do.
const DIGEST_LIMIT_BYTES: u64 = 8 << 20;

/// So many files are held open: far fewer than a process may (1,024 as a rule), with several threads at it.
const MOST_FILES: usize = 100;

#[derive(Default)]
pub(super) struct Files {
    opened: RefCell<HashMap<FileKey, Rc<SharedFile>>>,
    pub(super) packages: Packages,
}

/// A file with what was read of it.
pub(super) struct SharedFile {
    elf: ElfFile,
    length: u64,
    sha256: OnceCell<String>,
}

impl Files {
    pub(super) fn open(&self, path: &Path) -> io::Result<Rc<SharedFile>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let key = FileKey::of(&metadata);
        let mut opened = self.opened.borrow_mut();
        if let Some(known) = opened.get(&key) {
            return Ok(Rc::clone(known));
        }
        if opened.len() >= MOST_FILES {
            opened.clear();
        }
        let shared = Rc::new(SharedFile {
            elf: ElfFile::of(file, path),
            length: metadata.len(),
            sha256: OnceCell::new(),
        });
        opened.insert(key, Rc::clone(&shared));
        Ok(shared)
    }
}

impl SharedFile {
    pub(super) fn elf(&self) -> &ElfFile {
        &self.elf
    }

    /// The digest of the whole file, where it is not too long. It is read through `path`: the one that it was first
    /// opened through may have gone with its process.
    pub(super) fn sha256(&self, path: &Path) -> Option<String> {
        if self.length > DIGEST_LIMIT_BYTES {
            return None;
        }
        if let Some(known) = self.sha256.get() {
            return Some(known.clone());
        }
        let digest = digest::of_file(path).ok()?;
        Some(self.sha256.get_or_init(|| digest).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shared_until_its_content_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&path, "one").unwrap();
        std::fs::hard_link(&path, &link).unwrap();
        let files = Files::default();
        let first = files.open(&path).unwrap();
        assert!(Rc::ptr_eq(&first, &files.open(&link).unwrap()));
        let digest = first.sha256(&path).unwrap();
        assert_eq!(first.sha256(Path::new("/gone")), Some(digest.clone()));
        std::fs::write(&path, "longer").unwrap();
        let second = files.open(&path).unwrap();
        assert!(!Rc::ptr_eq(&first, &second));
        assert_eq!(second.sha256(Path::new("/gone")), None);
        assert_ne!(second.sha256(&path), Some(digest));
        assert!(files.open(&dir.path().join("c")).is_err());
        for number in 0..2 * MOST_FILES {
            let path = dir.path().join(number.to_string());
            std::fs::write(&path, "").unwrap();
            files.open(&path).unwrap();
        }
        assert!(files.opened.borrow().len() <= MOST_FILES);
    }
}
