//! Debian packages of obtained allocators.
//!
//! A package holds exactly the library that was obtained and proved, at the path where a trial would install it. The
//! same library and source give the same bytes: file times, order, owners and modes are fixed.

mod archive;
mod depends;
mod documents;
mod name;

use std::path::PathBuf;

use heaptrial_host::Paths;
use heaptrial_model::{AllocatorSpec, Classified, ErrorClass};

use self::archive::{Entry, debian_package};
use self::documents::public;
use crate::catalog::Family;
use crate::digest;
use crate::elf::check_library;
use crate::obtained::Obtained;

const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Asks before dpkg removes the package. Neither name nor path has a character that a shell reads in single quotes.
const REMOVAL: &str = include_str!("prerm.sh");

/// Why no package could be made. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    #[error(
        "{spec} cannot be packaged: it is the C library itself and no library to preload; install another C library with the system it belongs to"
    )]
    NoLibrary { spec: String },
    #[error("{0}")]
    Refused(String),
    #[error("cannot put the package together: {0}")]
    Failed(#[from] std::io::Error),
}

impl Classified for PackageError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NoLibrary { .. } | Self::Refused(_) => ErrorClass::Refused,
            Self::Failed(_) => ErrorClass::Failed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub spec: AllocatorSpec,
    pub depends: String,
    pub library: PathBuf,
    pub library_sha256: String,
    pub bytes: Vec<u8>,
    pub sha256: String,
}

impl Package {
    pub fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version, crate::DEBIAN_ARCHITECTURE)
    }

    pub fn of(obtained: &Obtained, family: &Family) -> Result<Self, PackageError> {
        let version = obtained.version.clone().or_else(|| obtained.spec.version.clone());
        let spec = AllocatorSpec { version, ..obtained.spec.without_settings() };
        let Some(source) = obtained.library.as_ref().filter(|_| !family.is_c_library) else {
            return Err(PackageError::NoLibrary { spec: spec.to_string() });
        };
        let bytes = std::fs::read(source)?;
        let found = digest::of_bytes(&bytes);
        if found != obtained.sha256 {
            return Err(PackageError::Refused(format!(
                "{} has SHA-256 {found}, and {} was obtained; somebody replaced it meanwhile, get it again",
                source.display(),
                obtained.sha256
            )));
        }
        let library = obtained.installed_below(&Paths::default().allocators());
        name::check_path(&library)?;
        let needed = check_library(source).map_err(|error| PackageError::Refused(error.to_string()))?;
        let mut package = Self {
            name: name::package_name(&spec, &found),
            version: name::package_version(spec.version.as_ref()),
            spec,
            depends: depends::of(source, &needed)?,
            library,
            library_sha256: found,
            bytes: Vec::new(),
            sha256: String::new(),
        };
        let obtained = &Obtained { provenance: public(&obtained.provenance, family), ..obtained.clone() };
        let documents = format!("/usr/share/doc/{}", package.name);
        let build_info = package.build_info(obtained, bytes.len());
        let data = [
            Entry::file(package.library.display().to_string(), bytes),
            Entry::file(format!("{documents}/buildinfo.json"), build_info.into()),
            Entry::file(format!("{documents}/copyright"), package.copyright(obtained, family).into()),
        ];
        let removal = REMOVAL.replace("@PACKAGE@", &package.name);
        let removal = removal.replace("@LIBRARY@", &package.library.display().to_string());
        let control = [
            Entry::file("control".to_owned(), package.control(obtained, family, &data).into()),
            Entry::program("prerm".to_owned(), removal.into()),
        ];
        package.bytes = debian_package(&control, &data)?;
        package.sha256 = digest::of_bytes(&package.bytes);
        Ok(package)
    }
}
