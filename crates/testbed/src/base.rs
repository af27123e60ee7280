//! The root file system that all containers share.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::confined;

use crate::error::succeed;
use crate::folder::{Lock, testbed_folder};
use crate::recipe::Recipe;
use crate::{TestbedError, Unavailable, state, tree};

/// In the names of folders in which a root file system is being built.
const UNFINISHED: &str = ".unfinished";

#[derive(Debug)]
pub struct Testbed;

/// A root file system that containers start from and never change.
#[derive(Debug, Clone)]
pub struct Base {
    pub(crate) folder: PathBuf,
    root: PathBuf,
}

impl Testbed {
    /// Removes what killed processes left behind, and builds the root file system if this target folder has none
    /// yet (half a minute, and needs the distribution's package mirror).
    pub fn prepare() -> Result<Base, Unavailable> {
        Self::prepare_with(None, &[])
    }

    /// The same with further packages, and of another suite of this host's distribution, such as `trixie`; `None` is this
    /// host's own.
    pub fn prepare_with(suite: Option<&str>, further: &[&'static str]) -> Result<Base, Unavailable> {
        check_programs()?;
        let unavailable = |error: TestbedError| Unavailable(error.to_string());
        let folder = testbed_folder().map_err(unavailable)?;
        let _alone = Lock::wait(&folder.join("lock")).map_err(unavailable)?;
        tidy(&folder).map_err(unavailable)?;
        let recipe = Recipe::of(suite, further)?;
        let root = folder.join(format!("base-{}", recipe.hash()));
        if !root.exists() {
            build(&recipe, &root).map_err(unavailable)?;
        }
        Ok(Base { folder, root })
    }

    /// The root file system for a test; `None`, after [skipping](crate::skip) it, if this machine cannot boot containers.
    pub fn for_test() -> Option<Base> {
        Self::for_test_with(None, &[])
    }

    /// The same of what [`Testbed::prepare_with`] prepares.
    pub fn for_test_with(suite: Option<&str>, further: &[&'static str]) -> Option<Base> {
        match Self::prepare_with(suite, further) {
            Ok(base) => Some(base),
            Err(why) => {
                crate::skip(&format!("a container cannot be booted here ({why})"));
                None
            }
        }
    }
}

impl Base {
    /// The folder that holds it.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

fn check_programs() -> Result<(), Unavailable> {
    if !rustix::process::geteuid().is_root() {
        return Err(Unavailable("booting containers needs root".to_owned()));
    }
    for (program, package) in [
        ("systemd-nspawn", "systemd-container"),
        ("nsenter", "util-linux"),
        ("unshare", "util-linux"),
        ("mmdebstrap", "mmdebstrap"),
    ] {
        check_program(program, package)?;
    }
    Ok(())
}

/// Whether a program is there.
pub(crate) fn check_program(program: &str, package: &str) -> Result<(), Unavailable> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        true => Ok(()),
        false => Err(Unavailable(format!("{program} is missing: install the package `{package}`"))),
    }
}

/// Removes containers of processes that have ended, and root file systems that were not finished. The caller holds the
/// testbed's lock.
fn tidy(folder: &Path) -> Result<(), TestbedError> {
    state::remove_leftovers(folder)?;
    for entry in fs::read_dir(folder).map_err(TestbedError::file("cannot list", folder))?.flatten() {
        if entry.file_name().to_string_lossy().contains(UNFINISHED) {
            tree::remove(&entry.path())?;
        }
    }
    Ok(())
}

fn build(recipe: &Recipe, root: &Path) -> Result<(), TestbedError> {
    eprintln!("building the root file system of containers in {} (once)", root.display());
    // Not one of a process that was killed a moment ago, which may still be written to.
    let mut unfinished = root.as_os_str().to_owned();
    unfinished.push(format!("{UNFINISHED}.{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let built = succeed(&mut confined(&recipe.command(&unfinished)))
        .and_then(|_| recipe.finish(&unfinished).map_err(TestbedError::file("cannot finish", &unfinished)));
    match built {
        Ok(()) => fs::rename(&unfinished, root).map_err(TestbedError::file("cannot rename", &unfinished)),
        Err(error) => {
            tree::remove(&unfinished)?;
            Err(error)
        }
    }
}
