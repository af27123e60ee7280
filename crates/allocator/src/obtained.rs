//! An allocator at hand: where its files are and how a program is started under it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use heaptrial_model::{AllocatorSpec, Version};
use serde::{Deserialize, Serialize};

use crate::application::Application;
use crate::digest;
use crate::licence::LicenceText;
use crate::provenance::Provenance;
use crate::verify::Verification;

/// Digits of a digest that distinguish builds of one version.
const SHORT_DIGEST: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obtained {
    pub spec: AllocatorSpec,
    /// Version as the loaded code reports it, or the pinned source's where it cannot be asked.
    pub version: Option<Version>,
    /// The library to preload; `None` for a C library's own allocator.
    pub library: Option<PathBuf>,
    pub loader: Option<Loader>,
    pub sha256: String,
    pub build_id: Option<String>,
    pub needed_glibc: Option<Version>,
    pub provenance: Provenance,
    #[serde(skip)]
    pub licences: Vec<LicenceText>,
    pub verification: Verification,
    pub settings: Vec<(String, String)>,
}

/// A C library beside the host's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loader {
    pub version: Version,
    pub program: PathBuf,
    pub folder: PathBuf,
}

impl Obtained {
    pub fn application(&self) -> Application {
        let mut application = match (&self.library, &self.loader) {
            (Some(library), _) => Application::preload(library),
            (None, Some(loader)) => Application::c_library(&loader.program, &loader.folder),
            (None, None) => Application::default(),
        };
        application.env.extend(self.settings.iter().cloned());
        application
    }

    /// Where its library is installed below a folder: a folder for each build, so that builds of one version never
    /// replace each other.
    pub fn installed_below(&self, folder: &Path) -> PathBuf {
        let spec = &self.spec;
        let version = self.version.as_ref().map_or(String::new(), |version| format!("-{version}"));
        let variants: String = spec.variants.iter().map(|variant| format!("+{variant}")).collect();
        let digest = &self.sha256[..SHORT_DIGEST.min(self.sha256.len())];
        let build = format!("{}{version}{variants}-{digest}", spec.family);
        let file = self.library.as_ref().and_then(|path| path.file_name()).unwrap_or_default();
        folder.join(build).join(file)
    }

    /// Copies its files below a folder that other hosts see too; gives it as it is there.
    pub fn copied_below(&self, folder: &Path) -> io::Result<Self> {
        let mut copied = self.clone();
        if let Some(library) = &self.library {
            let to = self.installed_below(folder);
            fs::create_dir_all(to.parent().unwrap_or(folder))?;
            copy_once(library, &to)?;
            copied.library = Some(to);
        }
        if let Some(loader) = &self.loader {
            let to = folder.join(format!("libc-{}", loader.version));
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(&loader.folder)? {
                let from = entry?.path();
                if let (true, Some(name)) = (from.is_file(), from.file_name()) {
                    copy_once(&from, &to.join(name))?;
                }
            }
            let program = loader.program.strip_prefix(&loader.folder).map_err(io::Error::other)?;
            copied.loader =
                Some(Loader { version: loader.version.clone(), program: to.join(program), folder: to });
        }
        Ok(copied)
    }

    /// Whether the file that holds its `malloc` is, byte by byte, the one that was obtained; `None` of the host's own C library,
    /// which no copy stands for.
    pub fn is_intact(&self) -> io::Result<Option<bool>> {
        let Some(object) = self.object() else { return Ok(None) };
        digest::of_file(&object).map(|found| Some(found == self.sha256))
    }

    /// The file that holds its `malloc`, where it is not the host's C library.
    pub(crate) fn object(&self) -> Option<PathBuf> {
        match (&self.library, &self.loader) {
            (Some(library), _) => Some(library.clone()),
            (None, Some(loader)) => Some(loader.folder.join("libc.so.6")),
            (None, None) => None,
        }
    }
}

/// Arms share builds, and a copy of a file that nobody may write to cannot be written over.
fn copy_once(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() { Ok(()) } else { fs::copy(from, to).map(drop) }
}

/// Whether a path can stand in `LD_PRELOAD`, where spaces and colons separate.
pub(crate) fn is_preloadable(path: &Path) -> bool {
    !path.to_string_lossy().contains([' ', ':', '\t', '\n', ';'])
}
