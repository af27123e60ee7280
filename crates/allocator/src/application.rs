//! How a program is started under an allocator.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What to put before a program and into its environment so that it runs under an allocator.
///
/// Where `argv_prefix` is not empty its first word is a dynamic loader, which does not search
/// `PATH`: the program has to be given as a path with a slash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    pub env: Vec<(String, String)>,
    pub argv_prefix: Vec<OsString>,
}

impl Application {
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut words = self.argv_prefix.iter().map(OsString::as_os_str).chain([program.as_ref()]);
        // The program itself is always there.
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn preload(library: &Path) -> Self {
        let library = library.to_string_lossy().into_owned();
        Self { env: vec![("LD_PRELOAD".to_owned(), library)], argv_prefix: Vec::new() }
    }

    /// By the dynamic loader of another C library.
    pub(crate) fn c_library(loader: &Path, folder: &Path) -> Self {
        Self { env: Vec::new(), argv_prefix: vec![loader.into(), "--library-path".into(), folder.into()] }
    }
}
