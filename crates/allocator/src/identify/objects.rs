//! The files that a process has mapped with code in them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use heaptrial_host::{Mapping, Process};

use crate::digest;
use crate::elf::{Elf, ElfError, ElfFile};

/// A larger file is not digested: its build id has to do.
const DIGEST_LIMIT_BYTES: u64 = 8 << 20;

/// Files opened; parsed objects borrow from them.
pub(super) struct MappedObjects {
    files: Vec<Opened>,
    unreadable: Vec<String>,
}

struct Opened {
    name: String,
    start: u64,
    deleted: bool,
    path: PathBuf,
    file: ElfFile,
}

pub(super) struct MappedObject<'d> {
    pub(super) name: String,
    /// What to add to the file's addresses.
    pub(super) bias: u64,
    pub(super) deleted: bool,
    pub(super) elf: Elf<'d>,
    path: &'d Path,
}

impl MappedObjects {
    pub(super) fn open(process: &Process, mappings: &[Mapping]) -> Self {
        let mut opened = Self { files: Vec::new(), unreadable: Vec::new() };
        let program = process.exe().ok().map(|path| path.display().to_string());
        let program = program.as_deref().map(|path| path.strip_suffix(" (deleted)").unwrap_or(path));
        for mapping in mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable()) {
            if opened.files.iter().any(|file| file.name == mapping.name)
                || opened.unreadable.contains(&mapping.name)
            {
                continue;
            }
            let first =
                mappings.iter().find(|other| other.name == mapping.name && other.inode == mapping.inode);
            let start = first.map_or(mapping.start, |first| first.start);
            // Without permission for `map_files`, the program itself can still be opened when its file was replaced.
            let exe = (program == Some(mapping.name.as_str())).then(|| process.exe_file());
            let file = process
                .mapped_file_candidates(mapping)
                .into_iter()
                .chain(exe)
                .find_map(|path| ElfFile::open(&path).ok().map(|file| (path, file)));
            match file {
                Some((path, file)) => {
                    let (name, deleted) = (mapping.name.clone(), mapping.deleted);
                    opened.files.push(Opened { name, start, deleted, path, file });
                }
                None => opened.unreadable.push(mapping.name.clone()),
            }
        }
        if opened.files.is_empty() {
            let path = process.exe_file();
            if let (Ok(file), Ok(name)) = (ElfFile::open(&path), process.exe()) {
                let name = name.display().to_string();
                opened.files.push(Opened { name, start: 0, deleted: false, path, file });
            }
        }
        opened
    }

    pub(super) fn unreadable(&self) -> impl Iterator<Item = &String> {
        self.unreadable.iter()
    }

    /// The objects that are ELF files of this machine.
    pub(super) fn parse(&self) -> Vec<MappedObject<'_>> {
        self.files.iter().filter_map(|opened| MappedObject::of(opened, &opened.file)).collect()
    }

    /// Visits one after the other, and keeps nothing of what was read of it: together that may be much.
    pub(super) fn each(&self, mut visit: impl FnMut(&MappedObject<'_>)) {
        for opened in &self.files {
            if let Ok(file) = ElfFile::open(&opened.path) {
                MappedObject::of(opened, &file).iter().for_each(&mut visit);
            }
        }
    }
}

impl<'d> MappedObject<'d> {
    fn of(opened: &'d Opened, file: &'d ElfFile) -> Option<Self> {
        let elf = Elf::parse(file).ok()?;
        let at_its_address = elf.is_position_dependent();
        let bias = if at_its_address { 0 } else { opened.start.wrapping_sub(elf.base_address()) };
        let name = opened.name.clone();
        Some(Self { name, bias, deleted: opened.deleted, elf, path: &opened.path })
    }
}

impl MappedObject<'_> {
    /// Device and inode: another file may have its name by now.
    pub(super) fn file_id(&self) -> Option<(u64, u64)> {
        let metadata = fs::metadata(self.path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    pub(super) fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Whether it is the dynamic loader, which has a small allocator for itself.
    pub(super) fn is_loader(&self) -> bool {
        self.elf.soname().is_some_and(|name| name.starts_with("ld-linux") || name.starts_with("ld64."))
    }

    /// Whether it is the C library. musl's loader is its C library too.
    pub(super) fn is_c_library(&self) -> bool {
        let soname = self.elf.soname().unwrap_or_else(|| self.file_name().to_owned());
        soname.starts_with("libc.so")
            || soname.starts_with("libc.musl")
            || self.file_name().starts_with("ld-musl")
    }

    /// Whether a path leads to the file that is mapped.
    pub(super) fn is_file_of(&self, path: &Path) -> bool {
        let inode = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.ino());
        inode(self.path).is_some_and(|own| inode(path) == Some(own))
    }

    /// The digest of the whole file, where it is not too long.
    pub(super) fn sha256(&self) -> Option<String> {
        let length = fs::metadata(self.path).ok()?.len();
        if length <= DIGEST_LIMIT_BYTES { digest::of_file(self.path).ok() } else { None }
    }
}

/// Why the program that a process runs cannot be read as one of this machine.
pub(super) fn unread_program(process: &Process) -> Option<ElfError> {
    let path = process.exe().ok()?;
    ElfFile::open(&process.exe_file()).and_then(|file| Elf::parse(&file).map(|_| ())).err().map(|error| {
        match error {
            ElfError::Architecture { found, expected, .. } => {
                ElfError::Architecture { path, found, expected }
            }
            other => other,
        }
    })
}

/// The program: a file that names a dynamic loader or is linked statically, and that no other file
/// could need. A process started through a loader by hand has the loader as its `exe`.
pub(super) fn program<'a, 'd>(objects: &'a [MappedObject<'d>]) -> Option<&'a MappedObject<'d>> {
    let unnamed = |object: &&MappedObject<'_>| object.elf.soname().is_none() && !object.is_c_library();
    objects
        .iter()
        .filter(unnamed)
        .find(|object| object.elf.has_interpreter())
        .or_else(|| objects.iter().filter(unnamed).find(|object| object.elf.is_static()))
}
