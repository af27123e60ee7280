//! The root file system that all containers share.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::succeed;
use crate::folder::{Lock, testbed_folder};
use crate::recipe::Recipe;
use crate::{TestbedError, Unavailable, state};

/// Entry to everything here.
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
        check_programs()?;
        let unavailable = |error: TestbedError| Unavailable(error.to_string());
        let folder = testbed_folder().map_err(unavailable)?;
        let _alone = Lock::wait(&folder.join("lock")).map_err(unavailable)?;
        state::remove_leftovers(&folder).map_err(unavailable)?;
        let recipe = Recipe::of_this_host()?;
        let root = folder.join(format!("base-{}", recipe.hash()));
        if !root.exists() {
            build(&recipe, &root).map_err(unavailable)?;
        }
        Ok(Base { folder, root })
    }

    /// The root file system for a test; `None`, after [skipping](crate::skip) it, if this machine cannot boot containers.
    pub fn for_test() -> Option<Base> {
        match Self::prepare() {
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
    for (program, package) in
        [("systemd-nspawn", "systemd-container"), ("nsenter", "util-linux"), ("mmdebstrap", "mmdebstrap")]
    {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            return Err(Unavailable(format!("{program} is missing: install the package `{package}`")));
        }
    }
    Ok(())
}

fn build(recipe: &Recipe, root: &Path) -> Result<(), TestbedError> {
    eprintln!("building the root file system of containers in {} (once)", root.display());
    let unfinished = root.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(TestbedError::file("cannot remove", &unfinished))?;
    }
    succeed(&mut recipe.command(&unfinished))?;
    recipe.finish(&unfinished).map_err(TestbedError::file("cannot finish", &unfinished))?;
    fs::rename(&unfinished, root).map_err(TestbedError::file("cannot rename", &unfinished))
}
