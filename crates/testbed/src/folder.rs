//! Where everything of the testbed lies, and the locks there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{TestbedError, Unavailable};

/// Files by which a target folder is known. The first is not there where the folder was made by somebody else than cargo.
const MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// `testbed` below the cargo target folder that the running program was built in, unless
/// `HEAPTRIAL_TESTBED_DIR` names another.
pub(crate) fn testbed_folder() -> Result<PathBuf, TestbedError> {
    let folder = match std::env::var_os("HEAPTRIAL_TESTBED_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => target_folder().join("testbed"),
    };
    // Cargo runs the tests of each crate in that crate's folder: each would get a testbed of its own.
    if folder.is_relative() {
        return Err(TestbedError::Refused(format!(
            "HEAPTRIAL_TESTBED_DIR is {}: give an absolute path, so that all tests mean the same folder",
            folder.display()
        )));
    }
    fs::create_dir_all(&folder).map_err(TestbedError::file("cannot create", &folder))?;
    let folder = folder.canonicalize().map_err(TestbedError::file("cannot resolve", &folder))?;
    // These characters separate options of overlay mounts and of systemd-nspawn.
    if folder.to_string_lossy().contains([',', ':', '\\', '"', '\n']) {
        return Err(TestbedError::Refused(format!(
            "{}: a folder with a comma, colon, quote or backslash in its name cannot be mounted; set HEAPTRIAL_TESTBED_DIR to another",
            folder.display()
        )));
    }
    Ok(folder)
}

/// The path of an example program of the crate `heaptrial` that `cargo test` has built, beside the running
/// test or benchmark.
pub fn example_program(name: &str) -> Result<PathBuf, Unavailable> {
    let running = std::env::current_exe().unwrap_or_default();
    // TARGET/PROFILE/deps/test, TARGET/PROFILE/examples/example or TARGET/PROFILE/program.
    let mut folders = running.ancestors().skip(1).take(2).map(|folder| folder.join("examples").join(name));
    folders.find(|path| path.is_file()).ok_or_else(|| {
        Unavailable(format!(
            "the program {name} has not been built: cargo build -p heaptrial --example {name}"
        ))
    })
}

/// The target folder of the running program, by a file that cargo leaves in every one; else that of this workspace.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let is_target = |folder: &&Path| MARKS.iter().any(|mark| folder.join(mark).is_file());
    let found = program.ancestors().skip(1).find(is_target);
    found.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), Path::to_owned)
}

/// A file lock, held until dropped or until its process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn wait(path: &Path) -> Result<Self, TestbedError> {
        let lock = || -> io::Result<Self> {
            let file = open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(Self { _file: file })
        };
        lock().map_err(TestbedError::file("cannot lock", path))
    }

    /// The lock, unless somebody has it.
    pub(crate) fn attempt(path: &Path) -> Result<Option<Self>, TestbedError> {
        let file = open(path).map_err(TestbedError::file("cannot open", path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(TestbedError::file("cannot lock", path)(error.into())),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}
