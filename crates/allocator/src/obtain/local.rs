//! A library or a source folder that the user gives.

use std::fs;
use std::path::Path;

use super::crate_source::recipe_of;
use super::{Delivery, Obtainer, SourceError, compile, key as plain_key};
use crate::cache::{Staging, failure};
use crate::catalog::Recipe;
use crate::digest;
use crate::licence;
use crate::provenance::Provenance;
use crate::resolve::Resolved;
use crate::tool::Tool;

/// The cache entry of a library is that of its content, and of a source folder that of its path.
pub(super) fn key(resolved: &Resolved, path: &Path) -> Result<String, SourceError> {
    let digest = match path.is_dir() {
        true => path.canonicalize().map(|path| digest::of_bytes(path.as_os_str().as_encoded_bytes())),
        false => digest::of_file(path),
    };
    let digest = digest.map_err(|error| SourceError::NotThere(format!("it cannot be read: {error}")))?;
    Ok(format!("{}-local-{}", plain_key(resolved, resolved.spec.version.as_ref()), &digest[..16]))
}

impl Obtainer {
    pub(super) fn take_local(
        &self,
        resolved: &Resolved,
        path: &Path,
        staging: &Staging<'_>,
    ) -> Result<Delivery, SourceError> {
        if resolved.family.is_c_library {
            let text = "a C library cannot be given by a path; ask for a version of the catalog";
            return Err(SourceError::NotThere(text.to_owned()));
        }
        if path.is_dir() {
            let recipe = recipe_of(resolved)?;
            self.say(&format!("compiling {}", path.display()));
            let own = match recipe {
                Recipe::Compile { .. } => path.to_owned(),
                // It writes into its source, which is the user's.
                Recipe::Configure { .. } => {
                    let copy = staging.work_folder("source")?;
                    let all = Tool::new("cp").args(["--recursive", "--preserve=mode,timestamps,links"]);
                    all.arg("--no-dereference").arg(path.join(".")).arg(&copy).run()?;
                    copy
                }
            };
            let (main, build) = compile::build(recipe, &resolved.variants, &own, &staging.files())?;
            return Ok(Delivery {
                main,
                loader: None,
                provenance: Provenance::Local { path: path.to_owned(), build: Some(build) },
                licences: licence::of_source(path),
            });
        }
        crate::elf::check_library(path)?;
        let name = format!("lib{}.so", resolved.family.name);
        let target = staging.files().join(&name);
        fs::copy(path, &target).map_err(failure("copying to", &target))?;
        Ok(Delivery {
            main: name,
            loader: None,
            provenance: Provenance::Local { path: path.to_owned(), build: None },
            licences: Vec::new(),
        })
    }
}
