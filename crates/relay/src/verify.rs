//! What tor itself says about a torrc.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Duration;

use super::Relay;
use crate::TorError;
use crate::program::Program;

const TIMEOUT: Duration = Duration::from_secs(60);

impl Relay {
    /// Whether tor would start with these bytes in place of the relay's own torrc: `tor --verify-config` by the program,
    /// defaults and arguments of the service, as its user. The error has tor's own words.
    pub fn verify_torrc(&self, torrc: &[u8]) -> Result<(), TorError> {
        let mut program = self.tor(Path::new("-"));
        program.arguments.push("--verify-config".into());
        let input = || {
            let mut file = tempfile::tempfile()?;
            file.write_all(torrc)?;
            file.rewind()?;
            Ok(file)
        };
        let input = input().map_err(|source| TorError::Program { program: "tor".to_owned(), source })?;
        program.run_reading(input.into(), TIMEOUT).map(drop)
    }

    /// The options that would be in force with `torrc` in place of the relay's own and differ from tor's defaults (`tor
    /// --dump-config short`), by name in tor's spelling and in its writing, as [`super::RelayControl::conf`] gives them.
    pub fn effective_options(&self, torrc: &Path) -> Result<BTreeMap<String, Vec<String>>, TorError> {
        let mut program = self.tor(torrc);
        program.arguments.extend(["--hush", "--dump-config", "short"].map(OsString::from));
        let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in program.run(TIMEOUT)?.lines() {
            // Warnings go the same way, with a date first.
            let (option, value) = line.split_once(' ').unwrap_or((line, ""));
            if !value.contains("[warn]") && !value.is_empty() {
                options.entry(option.to_owned()).or_default().push(value.to_owned());
            }
        }
        Ok(options)
    }

    /// The service's program with what it reads, but `torrc`.
    fn tor(&self, torrc: &Path) -> Program {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(defaults) = &self.defaults_torrc {
            arguments.extend(["--defaults-torrc".into(), defaults.into()]);
        }
        arguments.extend(["-f".into(), torrc.into()]);
        arguments.extend(self.arguments.iter().map(OsString::from));
        let program = Program { path: self.program.clone(), arguments };
        // Of the users, only root may become another; all others already are the one.
        match &self.unit_user {
            Some(user) if rustix::process::geteuid().is_root() => program.by_user(user),
            _ => program,
        }
    }
}
