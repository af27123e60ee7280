//! `heaptrial allocators package`: a Debian package of exactly the build that was obtained.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heaptrial_allocator::{Cache, Obtainer, SourceKind};
use heaptrial_package::{Package, PackageError, time_of};
use miette::{IntoDiagnostic as _, Result};
use serde_json::json;

use super::{FAILED, GetOptions, REFUSED, USAGE, obtain_error_code, refuse, resolve};
use crate::options::GlobalOptions;
use crate::output::{print, print_json, table};

/// Why the package file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; choose another folder with --out")]
struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Obtains, packages and writes.
pub fn run(get: &GetOptions, options: &GlobalOptions) -> Result<ExitCode> {
    let resolved = match resolve(get) {
        Ok(resolved) => resolved,
        Err(error) => return Ok(refuse(&error, USAGE)),
    };
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let time = match time_of(epoch.as_deref()) {
        Ok(time) => time,
        Err(error) => return Ok(refuse(&error, USAGE)),
    };
    if resolved.family.is_c_library {
        let error = PackageError::NoLibrary { spec: get.spec.without_settings().to_string() };
        return Ok(refuse(&error, REFUSED));
    }
    let mut sources = get.sources.obtain_options(get.from.as_deref())?;
    // A package of a package would name another source for the same library.
    sources.sources.retain(|source| *source != SourceKind::Package);
    let obtainer = Obtainer::new(Cache::of_user().into_diagnostic()?, sources);
    let obtained = match obtainer.obtain(&resolved) {
        Ok(obtained) => obtained,
        Err(error) => return Ok(refuse(&error, obtain_error_code(&error))),
    };
    if !obtained.settings.is_empty() {
        // A note that nobody can see is no failure.
        let _ = writeln!(io::stderr(), "settings are no part of a library: a trial or a rollout sets them");
    }
    let package = match Package::of(&obtained, &resolved.family, time) {
        Ok(package) => package,
        Err(error) => return Ok(refuse(&error, if error.is_refusal() { REFUSED } else { FAILED })),
    };
    let folder = options.out.as_deref().unwrap_or(Path::new("."));
    match write(folder, &package) {
        Ok(path) => tell(&path, &package, options),
        Err(error) => Ok(refuse(&error, FAILED)),
    }
}

/// Writes the package file, as a whole or not at all.
fn write(folder: &Path, package: &Package) -> Result<PathBuf, WriteError> {
    let path = folder.join(package.file_name());
    let unfinished = folder.join(format!(".{}.{}", package.file_name(), std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&unfinished, &package.bytes))
        .and_then(|()| std::fs::rename(&unfinished, &path));
    match written {
        Ok(()) => Ok(path),
        Err(source) => {
            let _ = std::fs::remove_file(&unfinished);
            Err(WriteError { path, source })
        }
    }
}

fn tell(path: &Path, package: &Package, options: &GlobalOptions) -> Result<ExitCode> {
    if options.json {
        return print_json(json!({
            "file": path,
            "sha256": package.sha256,
            "package": package.name,
            "version": package.version,
            "architecture": package.architecture,
            "depends": package.depends,
            "spec": package.spec,
            "library": { "path": package.library, "sha256": package.library_sha256 },
        }));
    }
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    print(&table(&[
        row("file", path.display().to_string()),
        row("sha256", package.sha256.clone()),
        row("package", format!("{} {} ({})", package.name, package.version, package.architecture)),
        row("depends", package.depends.clone()),
        row("spec", package.spec.to_string()),
        row("library", package.library.display().to_string()),
        row("library sha256", package.library_sha256.clone()),
    ]))
}
