//! `heaptrial allocators package`: a Debian package of exactly the build that was obtained.

use std::path::Path;

use heaptrial_allocator::package::{Package, PackageError};
use heaptrial_allocator::{Cache, DEBIAN_ARCHITECTURE, Obtainer, SourceKind};
use serde_json::json;

use super::{GetOptions, resolve};
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::{Table, write_whole};

pub fn run(get: &GetOptions, options: &GlobalOptions) -> Result<Answer, Failure> {
    let resolved = resolve(&get.spec, get.from.as_deref())?;
    if resolved.family.is_c_library {
        return Err(PackageError::NoLibrary { spec: get.spec.without_settings().to_string() }.into());
    }
    let mut sources = get.sources.obtain_options(get.from.as_deref())?;
    // A package of a package would name another source for the same library.
    sources.sources.retain(|source| *source != SourceKind::Package);
    let obtained = Obtainer::new(Cache::of_user()?, sources).obtain(&resolved)?;
    if !obtained.settings.is_empty() {
        eprintln!("settings are no part of a library: a trial or a rollout sets them");
    }
    let package = Package::of(&obtained, &resolved.family)?;
    let folder = options.out.as_deref().unwrap_or(Path::new("."));
    let path = folder.join(package.file_name());
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::failed(format!("cannot create {}: {error}", folder.display())))?;
    write_whole(&path, &package.bytes)?;
    let mut table = Table::default();
    table.row(&[&"file", &path.display()]);
    table.row(&[&"sha256", &package.sha256]);
    table.row(&[&"package", &format!("{} {} ({DEBIAN_ARCHITECTURE})", package.name, package.version)]);
    table.row(&[&"depends", &package.depends]);
    table.row(&[&"spec", &package.spec]);
    table.row(&[&"library", &package.library.display()]);
    table.row(&[&"library sha256", &package.library_sha256]);
    let document = json!({
        "file": path,
        "sha256": package.sha256,
        "package": package.name,
        "version": package.version,
        "architecture": DEBIAN_ARCHITECTURE,
        "depends": package.depends,
        "spec": package.spec,
        "library": { "path": package.library, "sha256": package.library_sha256 },
    });
    Ok(Answer::new(document, table.to_string()))
}
