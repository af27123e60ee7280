//! The source inside a crate: fetched by cargo, checked against the pinned digest, unpacked from
//! the crate file itself and compiled. No code of the crate runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Delivery, Obtainer, SourceError, compile};
use crate::cache::{Staging, failure};
use crate::catalog::CrateSource;
use crate::digest;
use crate::licence::{self, LicenceText};
use crate::provenance::Provenance;
use crate::resolve::Resolved;
use crate::tool::Tool;

impl Obtainer {
    pub(super) fn build_crate(
        &self,
        resolved: &Resolved,
        source: &CrateSource,
        staging: &Staging<'_>,
    ) -> Result<Delivery, SourceError> {
        let recipe = recipe_of(resolved)?;
        let file = self.crate_file(source, staging)?;
        let tree = staging.work_folder("source")?;
        Tool::new("tar")
            .args([
                "--extract",
                "--gzip",
                "--strip-components=1",
                "--no-same-owner",
                "--no-same-permissions",
                "--file",
            ])
            .arg(&file)
            .arg("--directory")
            .arg(&tree)
            .run()?;
        let folder = tree.join(&source.path);
        if let Some(configure) = &source.configure {
            let generated = tree.join(configure);
            for (from, name) in
                [(generated.clone(), "configure"), (generated.with_file_name("VERSION"), "VERSION")]
            {
                let target = folder.join(name);
                fs::copy(&from, &target).map_err(failure("copying to", &target))?;
            }
        }
        self.say(&format!("compiling {}", resolved.spec));
        let (main, build) = compile::build(recipe, &resolved.variants, &folder, &staging.files())?;
        let provenance = Provenance::Crate {
            name: source.name.clone(),
            version: source.version.clone(),
            sha256: source.sha256.clone(),
            build,
        };
        Ok(Delivery { main, loader: None, provenance, licences: licences_of(&tree, &folder) })
    }

    /// The crate file with the pinned digest, from cargo's own cache.
    fn crate_file(&self, source: &CrateSource, staging: &Staging<'_>) -> Result<PathBuf, SourceError> {
        let name = format!("{}-{}.crate", source.name, source.version);
        if let Some(path) = downloaded(&name).into_iter().find(|path| has_digest(path, &source.sha256)) {
            return Ok(path);
        }
        if self.options.offline {
            return Err(SourceError::NotThere(format!(
                "{name} is not in cargo's cache, and nothing is fetched offline"
            )));
        }
        let project = staging.work_folder("crate")?;
        let manifest = format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\n{} = \"={}\"\n",
            source.name, source.version
        );
        for (name, text) in [("Cargo.toml", manifest.as_str()), ("lib.rs", "")] {
            let path = project.join(name);
            fs::write(&path, text).map_err(failure("writing", &path))?;
        }
        self.say(&format!("fetching crate {} {}", source.name, source.version));
        Tool::new("cargo").args(["fetch", "--quiet"]).in_folder(&project).run()?;
        let found = downloaded(&name);
        if let Some(path) = found.iter().find(|path| has_digest(path, &source.sha256)) {
            return Ok(path.clone());
        }
        Err(match found.first() {
            Some(path) => SourceError::Checksum {
                what: name,
                expected: source.sha256.clone(),
                found: digest::of_file(path).unwrap_or_default(),
            },
            None => SourceError::NotThere(format!("cargo fetched it, but {name} is not in its cache")),
        })
    }
}

/// Crate files of a name in the caches of all registries.
fn downloaded(name: &str) -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/cache")).ok());
    let files = registries.into_iter().flatten().flatten().map(|registry| registry.path().join(name));
    files.filter(|path| path.is_file()).collect()
}

/// The allocator's own licence; where its folder has none, that of the crate.
fn licences_of(tree: &Path, folder: &Path) -> Vec<LicenceText> {
    let own = licence::of_source(folder);
    if own.is_empty() { licence::of_source(tree) } else { own }
}

fn has_digest(path: &Path, sha256: &str) -> bool {
    digest::of_file(path).is_ok_and(|found| found == sha256)
}

pub(super) fn recipe_of(resolved: &Resolved) -> Result<&crate::catalog::Recipe, SourceError> {
    resolved.family.build.as_ref().ok_or_else(|| {
        SourceError::NotThere(format!("Heaptrial cannot build {} from source", resolved.family.name))
    })
}
