//! Files of a container. Symbolic links are followed as they are inside, also those with absolute targets.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::{Container, TestbedError};

impl Container {
    /// Writes a file, over an existing one or in folders that may be new, and gives it exactly this mode.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
        mode: u32,
    ) -> Result<(), TestbedError> {
        let path = path.as_ref();
        let failed = |error: std::io::Error| self.failed("cannot write", path)(error);
        if let Some(parent) = path.parent() {
            self.create_folder(parent)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mut file = File::from(self.open(path, flags).map_err(|error| failed(error.into()))?);
        file.write_all(content.as_ref()).map_err(failed)?;
        file.set_permissions(Permissions::from_mode(mode)).map_err(failed)
    }

    /// The content of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, TestbedError> {
        let path = path.as_ref();
        let failed = |error: std::io::Error| self.failed("cannot read", path)(error);
        let opened = self.open(path, OFlags::RDONLY | OFlags::CLOEXEC);
        let mut content = Vec::new();
        File::from(opened.map_err(|error| failed(error.into()))?)
            .read_to_end(&mut content)
            .map_err(failed)?;
        Ok(content)
    }

    /// The content of a file as text.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Result<String, TestbedError> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|error| self.failed("cannot read", path)(std::io::Error::other(error)))
    }

    /// Makes a folder and those above it, each with mode 0755.
    fn create_folder(&self, path: &Path) -> Result<(), TestbedError> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match self.open(path, folder) {
            Ok(_) => return Ok(()),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(self.failed("cannot open", path)(error.into())),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        self.create_folder(parent)?;
        let create = || mkdirat(self.open(parent, folder)?, name, Mode::from_raw_mode(0o755));
        create().map_err(|error| self.failed("cannot create", path)(error.into()))
    }

    /// Opens what `path` means inside.
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let root =
            openat(CWD, self.root(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
        openat2(root, path, flags, mode, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    pub(crate) fn failed(
        &self,
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> TestbedError {
        TestbedError::file(action, PathBuf::from(format!("{}:{}", self.name(), path.display())))
    }
}
