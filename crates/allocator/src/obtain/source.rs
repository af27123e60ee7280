//! The sources of a build and their order, and how a source becomes files of an entry of the cache.

use std::fs;
use std::path::{Path, PathBuf};

use super::debian::HostSystem;
use super::{Obtainer, SourceError, compile};
use crate::cache::{Staging, failure};
use crate::catalog::{Commit, CrateSource, DebianPackage, Recipe};
use crate::digest;
use crate::history::Repository;
use crate::licence::{self, LicenceText};
use crate::provenance::{Origin, Provenance};
use crate::resolve::Resolved;
use crate::tool::Tool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    Package,
    Host,
    Debian,
    Crate,
    Git,
}

pub(super) enum Source<'a> {
    Debian(&'a DebianPackage),
    Crate(&'a CrateSource),
    Git(&'a str, &'a Commit),
    Commit(&'a Repository, &'a str),
    /// Both given by the user.
    LocalLibrary(&'a Path),
    LocalFolder(&'a Path),
}

/// Files that a source put into a staging folder.
pub(super) struct Delivery {
    pub(super) main: String,
    pub(super) loader: Option<String>,
    pub(super) provenance: Provenance,
    pub(super) licences: Vec<LicenceText>,
}

struct Tree {
    folder: PathBuf,
    origin: Origin,
    licences: Vec<LicenceText>,
}

/// The sources of a spec, in order of preference: packages of the host's suite, packages of others, the crate, upstream.
/// Packages hold plain builds only.
pub(super) fn sources(resolved: &Resolved) -> Vec<Source<'_>> {
    let family = &resolved.family;
    let release = resolved.release_to_obtain();
    let mut packages: Vec<&DebianPackage> = match release {
        _ if !resolved.variants.is_empty() => Vec::new(),
        Some(release) => release.debian.iter().collect(),
        None => family.unversioned.iter().collect(),
    };
    let suite = HostSystem::read().map(|system| system.suite);
    packages.sort_by_key(|package| suite.as_deref() != Some(package.suite.as_str()));
    let mut sources: Vec<Source<'_>> = packages.into_iter().map(Source::Debian).collect();
    if let Some(release) = release {
        sources.extend(release.crate_source.as_ref().map(Source::Crate));
        if let (Some(url), Some(commit)) = (&family.git, &release.commit) {
            sources.push(Source::Git(url, commit));
        }
    }
    sources
}

impl Source<'_> {
    pub(super) fn kind(&self) -> Option<SourceKind> {
        match self {
            Self::Debian(_) => Some(SourceKind::Debian),
            Self::Crate(_) => Some(SourceKind::Crate),
            Self::Git(..) => Some(SourceKind::Git),
            Self::Commit(..) | Self::LocalLibrary(_) | Self::LocalFolder(_) => None,
        }
    }

    /// Whether it gives the same each time; a source folder may have been changed since.
    pub(super) fn is_fixed(&self) -> bool {
        !matches!(self, Self::LocalFolder(_))
    }

    /// What distinguishes what it gives from whatever else is built of the same spec: the source, and how it is compiled.
    pub(super) fn key(&self, resolved: &Resolved) -> Result<String, SourceError> {
        let unread = |error| SourceError::NotThere(format!("it cannot be read: {error}"));
        let (kind, content) = match self {
            Self::Debian(package) => return Ok(format!("debian-{}", package.suite)),
            Self::Crate(source) => ("crate", source.sha256.clone()),
            Self::Git(_, commit) => ("git", commit.id.clone()),
            Self::Commit(_, id) => ("commit", (*id).to_owned()),
            Self::LocalFolder(path) => {
                ("local", path.canonicalize().map_err(unread)?.to_string_lossy().into_owned())
            }
            Self::LocalLibrary(path) => ("local", digest::of_file(path).map_err(unread)?),
        };
        let how = match self {
            Self::LocalLibrary(_) => None,
            _ => Some(compile::how(recipe_of(resolved)?, &resolved.variants)?),
        };
        let digest = digest::of_bytes(format!("{content} {how:?}").as_bytes());
        Ok(format!("{kind}-{}", &digest[..16]))
    }
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Debian(package) => write!(f, "package {} of {}", package.package, package.suite),
            Self::Crate(source) => write!(f, "source in crate {} {}", source.name, source.version),
            Self::Git(url, commit) => write!(f, "{url} at {}", commit.tag),
            Self::Commit(_, id) => write!(f, "commit {}", id.get(..12).unwrap_or(id)),
            Self::LocalLibrary(path) | Self::LocalFolder(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Obtainer {
    /// Puts the files of a build into the staging folder.
    pub(super) fn deliver(
        &self,
        resolved: &Resolved,
        source: &Source<'_>,
        staging: &Staging<'_>,
    ) -> Result<Delivery, SourceError> {
        let tree = match source {
            Source::Debian(package) => return self.fetch_package(&resolved.family, package, staging),
            Source::LocalLibrary(_) | Source::LocalFolder(_) if resolved.family.is_c_library => {
                let text = "a C library cannot be given by a path; ask for a version of the catalog";
                return Err(SourceError::NotThere(text.to_owned()));
            }
            Source::LocalFolder(path) => given_tree(path, recipe_of(resolved)?, staging)?,
            Source::LocalLibrary(path) => return given_library(path, &resolved.family.name, staging),
            Source::Crate(source) => self.unpacked(source, staging)?,
            Source::Git(url, commit) => self.cloned(url, commit, staging)?,
            Source::Commit(repository, id) => checked_out(repository, id, staging)?,
        };
        self.say(&format!("compiling {} of {source}", resolved.spec));
        let (main, build) =
            compile::build(recipe_of(resolved)?, &resolved.variants, &tree.folder, &staging.files())?;
        let provenance = Provenance { origin: tree.origin, build: Some(build) };
        Ok(Delivery { main, loader: None, provenance, licences: tree.licences })
    }

    /// The source inside a crate: fetched by cargo, checked against the pinned digest, and unpacked from the crate file
    /// itself. No code of the crate runs.
    fn unpacked(&self, source: &CrateSource, staging: &Staging<'_>) -> Result<Tree, SourceError> {
        let file = self.crate_file(source, staging)?;
        let tree = staging.work_folder("source")?;
        let options = ["--gzip", "--strip-components=1", "--no-same-owner", "--no-same-permissions"];
        Tool::new("tar")
            .arg("--extract")
            .args(options)
            .arg("--file")
            .arg(&file)
            .arg("--directory")
            .arg(&tree)
            .run()?;
        let folder = tree.join(&source.path);
        if let Some(configure) = &source.configure {
            let generated = tree.join(configure);
            for from in [generated.with_file_name("VERSION"), generated] {
                let target = folder.join(from.file_name().unwrap_or_default());
                fs::copy(&from, &target).map_err(failure("copying to", &target))?;
            }
        }
        // The allocator's own licence; where its folder has none, that of the crate.
        let own = licence::of_source(&folder);
        Ok(Tree {
            licences: if own.is_empty() { licence::of_source(&tree) } else { own },
            folder,
            origin: Origin::Crate {
                name: source.name.clone(),
                version: source.version.clone(),
                sha256: source.sha256.clone(),
            },
        })
    }

    /// The crate file with the pinned digest, from cargo's own cache.
    fn crate_file(&self, source: &CrateSource, staging: &Staging<'_>) -> Result<PathBuf, SourceError> {
        let name = format!("{}-{}.crate", source.name, source.version);
        let has_digest = |path: &PathBuf| digest::of_file(path).is_ok_and(|found| found == source.sha256);
        if let Some(path) = downloaded(&name).into_iter().find(has_digest) {
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
        if let Some(path) = found.iter().find(|path| has_digest(path)) {
            return Ok(path.clone());
        }
        Err(match found.first() {
            Some(path) => {
                let found = digest::of_file(path).unwrap_or_default();
                SourceError::checksum(&name, &source.sha256, &found)
            }
            None => SourceError::NotThere(format!("cargo fetched it, but {name} is not in its cache")),
        })
    }

    fn cloned(&self, upstream: &str, commit: &Commit, staging: &Staging<'_>) -> Result<Tree, SourceError> {
        let mirror = self.options.mirror.as_ref();
        let url = mirror.map_or(upstream.to_owned(), |mirror| mirrored(upstream, mirror));
        if self.options.offline && !Path::new(&url).exists() {
            return Err(SourceError::NotThere("repositories are not cloned offline".to_owned()));
        }
        let folder = staging.work_folder("source")?;
        let git = || Tool::new("git").env("GIT_TERMINAL_PROMPT", "0").arg("-C").arg(&folder);
        git().args(["init", "--quiet"]).run()?;
        let reference = format!("refs/tags/{}", commit.tag);
        git().args(["fetch", "--quiet", "--depth", "1", &url, &reference]).run()?;
        let found = git().args(["rev-parse", "FETCH_HEAD^{commit}"]).run()?.trim().to_owned();
        if found != commit.id {
            return Err(SourceError::NotThere(format!(
                "the tag {} of {url} is commit {found}, pinned is {}; it is not used",
                commit.tag, commit.id
            )));
        }
        git().args(["checkout", "--quiet", "--detach", &commit.id]).run()?;
        let origin = Origin::Git { url, commit: commit.id.clone() };
        Ok(Tree { licences: licence::of_source(&folder), folder, origin })
    }
}

fn checked_out(repository: &Repository, id: &str, staging: &Staging<'_>) -> Result<Tree, SourceError> {
    let folder = staging.work_folder("source")?;
    let index = staging.work_folder("index")?.join("index");
    repository.check_out(id, &folder, &index)?;
    let url = repository.git_folder().display().to_string();
    let origin = Origin::Git { url, commit: id.to_owned() };
    Ok(Tree { licences: licence::of_source(&folder), folder, origin })
}

/// A source folder of the user's, in which nothing is changed.
fn given_tree(path: &Path, recipe: &Recipe, staging: &Staging<'_>) -> Result<Tree, SourceError> {
    let folder = match recipe {
        Recipe::Compile { .. } => path.to_owned(),
        // It writes into its source.
        Recipe::Configure { .. } => {
            let copy = staging.work_folder("source")?;
            let all = Tool::new("cp").args(["--recursive", "--preserve=mode,timestamps,links"]);
            all.arg("--no-dereference").arg(path.join(".")).arg(&copy).run()?;
            copy
        }
    };
    let origin = Origin::Local { path: path.to_owned() };
    Ok(Tree { folder, origin, licences: licence::of_source(path) })
}

fn given_library(path: &Path, family: &str, staging: &Staging<'_>) -> Result<Delivery, SourceError> {
    crate::elf::check_library(path)?;
    let main = format!("lib{family}.so");
    let target = staging.files().join(&main);
    fs::copy(path, &target).map_err(failure("copying to", &target))?;
    let provenance = Provenance { origin: Origin::Local { path: path.to_owned() }, build: None };
    Ok(Delivery { main, loader: None, provenance, licences: Vec::new() })
}

/// The repository of the same name below a mirror.
fn mirrored(upstream: &str, mirror: &str) -> String {
    let name = upstream.rsplit('/').next().unwrap_or(upstream);
    let mirror = mirror.trim_end_matches('/');
    let bare = name.strip_suffix(".git").unwrap_or(name);
    // A local mirror may hold the repository with its working files.
    let name = if Path::new(mirror).join(bare).is_dir() { bare } else { name };
    format!("{mirror}/{name}")
}

/// Crate files of a name in the caches of all registries.
fn downloaded(name: &str) -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/cache")).ok());
    let files = registries.into_iter().flatten().flatten().map(|registry| registry.path().join(name));
    files.filter(|path| path.is_file()).collect()
}

fn recipe_of(resolved: &Resolved) -> Result<&Recipe, SourceError> {
    resolved.family.build.as_ref().ok_or_else(|| {
        SourceError::NotThere(format!("Heaptrial cannot build {} from source", resolved.family.name))
    })
}
