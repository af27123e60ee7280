//! Debian packages of obtained allocators.
//!
//! A package holds exactly the library that was obtained and proved, at the path where a trial would install it. The
//! same library, source and time give the same bytes: file times, order, owners and modes are fixed.

mod archive;
mod build_info;
mod depends;
mod documents;
mod error;
mod name;
mod removal;

use std::path::PathBuf;
use std::time::Duration;

use crate::{DEBIAN_ARCHITECTURE, Family, Obtained, needed_files};
use heaptrial_host::Paths;
use heaptrial_model::AllocatorSpec;
use sha2::{Digest, Sha256};

use crate::package::archive::{Entry, debian_package, gzip};
use crate::package::documents::{Facts, public};

pub use error::PackageError;

/// Seconds from 1970 to 2026-01-01: the time of all files where `SOURCE_DATE_EPOCH` does not give one.
pub const DEFAULT_TIME: Duration = Duration::from_secs(1_767_225_600);
/// The version of Heaptrial that makes the packages.
const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name, with the build's short digest: two builds can be installed beside each other.
    pub name: String,
    /// Its version: the allocator's, and Heaptrial's as the revision.
    pub version: String,
    pub architecture: &'static str,
    /// The spec of the build, with the version that the library reports and without settings.
    pub spec: AllocatorSpec,
    /// What it needs, as in its control file.
    pub depends: String,
    /// Where the library is once it is installed.
    pub library: PathBuf,
    /// SHA-256 of the library, in hexadecimal.
    pub library_sha256: String,
    pub bytes: Vec<u8>,
    /// SHA-256 of the package file, in hexadecimal.
    pub sha256: String,
}

impl Package {
    pub fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version, self.architecture)
    }

    /// The package of an obtained allocator, with all files of this `time` since 1970.
    pub fn of(obtained: &Obtained, family: &Family, time: Duration) -> Result<Self, PackageError> {
        let version = obtained.version.clone().or_else(|| obtained.spec.version.clone());
        let spec = AllocatorSpec { version, ..obtained.spec.without_settings() };
        let Some(source) = obtained.library.as_ref().filter(|_| !family.is_c_library) else {
            return Err(PackageError::NoLibrary { spec: spec.to_string() });
        };
        let read = |source_error| PackageError::Read { path: source.clone(), source: source_error };
        let bytes = std::fs::read(source).map_err(read)?;
        let found = hex::encode(Sha256::digest(&bytes));
        if found != obtained.sha256 {
            return Err(PackageError::Refused(format!(
                "{} has SHA-256 {found}, and {} was obtained; somebody replaced it meanwhile, get it again",
                source.display(),
                obtained.sha256
            )));
        }
        let library = obtained.installed_below(&Paths::default().allocators());
        name::check_path(&library)?;
        let depends = depends::of(source, &needed_files(source)?)?;
        let facts = Facts {
            name: name::package_name(&spec, &found),
            version: name::package_version(spec.version.as_ref()),
            label: name::label(&spec),
            spec: spec.to_string(),
            depends,
            library,
            library_bytes: bytes.len() as u64,
            time,
        };
        let obtained = &Obtained { provenance: public(&obtained.provenance, family), ..obtained.clone() };
        let documents = facts.documents_folder();
        let data = [
            Entry::file(facts.library.display().to_string(), bytes),
            Entry::file(format!("{documents}/buildinfo.json"), build_info::text(&facts, obtained)?.into()),
            Entry::file(format!("{documents}/changelog.Debian.gz"), gzip(facts.changelog().as_bytes())?),
            Entry::file(format!("{documents}/copyright"), facts.copyright(obtained, family).into()),
        ];
        let control = [
            Entry::file("control".to_owned(), facts.control(obtained, family, &data).into()),
            Entry::program("prerm".to_owned(), removal::script(&facts.name, &facts.library).into()),
        ];
        let bytes = debian_package(&control, &data, time)?;
        Ok(Self {
            sha256: hex::encode(Sha256::digest(&bytes)),
            name: facts.name,
            version: facts.version,
            architecture: DEBIAN_ARCHITECTURE,
            spec,
            depends: facts.depends,
            library: facts.library,
            library_sha256: found,
            bytes,
        })
    }
}

/// The time that `SOURCE_DATE_EPOCH` asks for, or [`DEFAULT_TIME`].
pub fn time_of(source_date_epoch: Option<&str>) -> Result<Duration, PackageError> {
    let Some(text) = source_date_epoch else { return Ok(DEFAULT_TIME) };
    // What tar's header has room for.
    let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds < 1 << 33);
    seconds.map(Duration::from_secs).ok_or_else(|| PackageError::Time { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_files_can_be_given() {
        assert_eq!(time_of(None).unwrap(), DEFAULT_TIME);
        assert_eq!(time_of(Some("1")).unwrap(), Duration::from_secs(1));
        for wrong in ["", "-1", "now", "99999999999999"] {
            assert!(matches!(time_of(Some(wrong)), Err(PackageError::Time { .. })), "{wrong}");
        }
    }
}
