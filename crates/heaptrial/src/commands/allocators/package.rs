//! `heaptrial allocators package`: a Debian package of exactly the build that was obtained.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heaptrial_allocator::package::{Package, PackageError};
use heaptrial_allocator::{Cache, DEBIAN_ARCHITECTURE, Obtainer, SourceKind};
use serde_json::json;

use super::{GetOptions, resolve};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::{file_beside, print, print_json, table};

/// Why the package file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; choose another folder with --out")]
struct WriteError {
    path: PathBuf,
    source: io::Error,
}

pub fn run(get: &GetOptions, options: &GlobalOptions) -> Result<ExitCode, Failure> {
    let resolved = resolve(get)?;
    if resolved.family.is_c_library {
        return Err(PackageError::NoLibrary { spec: get.spec.without_settings().to_string() }.into());
    }
    let mut sources = get.sources.obtain_options(get.from.as_deref())?;
    // A package of a package would name another source for the same library.
    sources.sources.retain(|source| *source != SourceKind::Package);
    let obtainer = Obtainer::new(Cache::of_user()?, sources);
    let obtained = obtainer.obtain(&resolved)?;
    if !obtained.settings.is_empty() {
        // A note that nobody can see is no failure.
        let _ = writeln!(io::stderr(), "settings are no part of a library: a trial or a rollout sets them");
    }
    let package = Package::of(&obtained, &resolved.family)?;
    let folder = options.out.as_deref().unwrap_or(Path::new("."));
    let path = write(folder, &package).map_err(Failure::failed)?;
    show(&path, &package, options)
}

/// Writes the package file, as a whole or not at all.
fn write(folder: &Path, package: &Package) -> Result<PathBuf, WriteError> {
    let path = folder.join(package.file_name());
    let written = || {
        std::fs::create_dir_all(folder)?;
        let mut unfinished = file_beside(&path)?;
        unfinished.write_all(&package.bytes)?;
        unfinished.persist(&path).map(drop).map_err(|error| error.error)
    };
    match written() {
        Ok(()) => Ok(path),
        Err(source) => Err(WriteError { path, source }),
    }
}

fn show(path: &Path, package: &Package, options: &GlobalOptions) -> Result<ExitCode, Failure> {
    if options.json {
        return print_json(json!({
            "file": path,
            "sha256": package.sha256,
            "package": package.name,
            "version": package.version,
            "architecture": DEBIAN_ARCHITECTURE,
            "depends": package.depends,
            "spec": package.spec,
            "library": { "path": package.library, "sha256": package.library_sha256 },
        }));
    }
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    print(&table(&[
        row("file", path.display().to_string()),
        row("sha256", package.sha256.clone()),
        row("package", format!("{} {} ({})", package.name, package.version, DEBIAN_ARCHITECTURE)),
        row("depends", package.depends.clone()),
        row("spec", package.spec.to_string()),
        row("library", package.library.display().to_string()),
        row("library sha256", package.library_sha256.clone()),
    ]))
}
