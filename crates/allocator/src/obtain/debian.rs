//! Packages of the host's suite and of others, through a private apt root: its own sources, lists
//! and state, with the host's mirror and key ring. The host's configuration stays as it is, nothing
//! is installed, and no root is needed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use heaptrial_host::{HostRoot, codename};

use super::archive::source_of;
use super::source::Delivery;
use super::{Obtainer, SourceError};
use crate::cache::{CacheError, Staging, failure};
use crate::catalog::{DebianPackage, Family};
use crate::digest;
use crate::licence;
use crate::provenance::{Origin, Provenance};
use crate::tool::Tool;

/// Which system this is, by its os-release file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostSystem {
    distribution: String,
    pub(crate) suite: String,
}

const OS_RELEASE: &str = "/etc/os-release";
/// Suites of Debian; any other suite in the catalog is used on its own system only.
const DEBIAN_SUITES: [&str; 4] = ["bookworm", "trixie", "forky", "sid"];

impl HostSystem {
    pub(crate) fn read() -> Option<Self> {
        let text = fs::read_to_string(OS_RELEASE).ok()?;
        let distribution =
            text.lines().find_map(|line| line.strip_prefix("ID="))?.trim_matches('"').to_owned();
        // Debian testing and unstable have no code name of their own in older releases.
        let suite = codename(&HostRoot::default()).unwrap_or_else(|| "sid".to_owned());
        Some(Self { distribution, suite })
    }

    fn has(&self, suite: &str) -> bool {
        self.suite == suite || (self.distribution == "debian" && DEBIAN_SUITES.contains(&suite))
    }

    /// A source of packages of a suite, where the archive that it takes its own packages from has that suite.
    fn source(&self, suite: &str) -> Result<String, SourceError> {
        if !self.has(suite) {
            return Err(SourceError::NotThere(format!("this system has no access to the suite {suite}")));
        }
        let found = source_of(Tool::new("apt-get"), &self.distribution, &self.suite, suite)?;
        let none = || format!("apt knows no archive that holds {} main", self.suite);
        found.ok_or_else(|| SourceError::NotThere(none()))
    }
}

/// A source of packages of `suite` for apt (a deb822 stanza); `None` where this host has none.
pub fn apt_source(suite: &str) -> Option<String> {
    HostSystem::read()?.source(suite).ok()
}

impl Obtainer {
    pub(super) fn fetch_package(
        &self,
        family: &Family,
        wanted: &DebianPackage,
        staging: &Staging<'_>,
    ) -> Result<Delivery, SourceError> {
        if self.options.offline {
            return Err(SourceError::NotThere("packages are not fetched offline".to_owned()));
        }
        let system = HostSystem::read()
            .ok_or_else(|| SourceError::NotThere("this system has no package archive".to_owned()))?;
        let source = system.source(&wanted.suite)?;
        self.say(&format!("fetching package {} of {}", wanted.package, wanted.suite));
        let downloads = staging.work_folder("package")?;
        let _lock = self.lock(&format!("apt-{}", wanted.suite))?;
        let folder = self.cache.folder("apt")?.join(&wanted.suite);
        let root = AptRoot::prepare(folder, &source)?;
        root.tool().args(["update", "--error-on=any"]).run()?;
        root.tool().args(["download", &wanted.package]).in_folder(&downloads).run()?;
        let file = only_package(&downloads)?;
        let version = Tool::new("dpkg-deb").arg("--field").arg(&file).arg("Version").run()?;
        let sha256 = digest::of_file(&file).map_err(failure("reading", &file))?;
        let tree = staging.work_folder("tree")?;
        Tool::new("dpkg-deb").arg("--extract").arg(&file).arg(&tree).run()?;
        let (suite, package) = (wanted.suite.clone(), wanted.package.clone());
        let version = version.trim().to_owned();
        let origin = Origin::DebianPackage { suite, package, version, sha256 };
        let provenance = Provenance { origin, build: None };
        let licences = licence::of_package(&tree, &wanted.package);
        let files = staging.files();
        if family.is_c_library {
            let loader = take_c_library(&tree, &files)?;
            return Ok(Delivery { main: "libc.so.6".to_owned(), loader: Some(loader), provenance, licences });
        }
        let found = family.library_names.iter().find_map(|name| Some((name, find(&tree, name)?)));
        let (name, path) = found.ok_or_else(|| {
            SourceError::NotThere(format!("the package holds none of {}", family.library_names.join(", ")))
        })?;
        let target = files.join(name);
        fs::copy(&path, &target).map_err(failure("copying to", &target))?;
        Ok(Delivery { main: name.clone(), loader: None, provenance, licences })
    }
}

/// Folders in which apt works apart from the host's.
struct AptRoot {
    folder: PathBuf,
}

impl AptRoot {
    fn prepare(folder: PathBuf, source: &str) -> Result<Self, CacheError> {
        for name in ["sources", "state", "lists/partial", "cache/archives/partial"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(failure("making", &path))?;
        }
        let path = folder.join("sources/heaptrial.sources");
        fs::write(&path, source).map_err(failure("writing", &path))?;
        Ok(Self { folder })
    }

    fn tool(&self) -> Tool {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let mut options = vec![
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            format!("Dir::Etc::SourceParts={}", at("sources")),
            "Dir::Etc::Preferences=/dev/null".to_owned(),
            "Dir::Etc::PreferencesParts=/dev/null".to_owned(),
            format!("Dir::State={}", at("state")),
            "Dir::State::Status=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            "Acquire::AllowInsecureRepositories=false".to_owned(),
            "APT::Get::AllowUnauthenticated=false".to_owned(),
            "Acquire::Retries=2".to_owned(),
        ];
        if !is_open_to_all(&self.folder) {
            // apt's own user could not enter a private cache folder.
            options.push("APT::Sandbox::User=root".to_owned());
        }
        options.iter().fold(Tool::new("apt-get"), |tool, option| tool.arg("-o").arg(option))
    }
}

fn is_open_to_all(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|part| fs::metadata(part).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0))
}

fn only_package(folder: &Path) -> Result<PathBuf, SourceError> {
    let mut paths =
        fs::read_dir(folder).map_err(failure("reading", folder))?.flatten().map(|entry| entry.path());
    let package = paths.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    package.ok_or_else(|| SourceError::NotThere("apt-get downloaded no package".to_owned()))
}

/// The first file of a name below a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    let direct = entries.iter().map(fs::DirEntry::path).find(|path| path.ends_with(name) && path.is_file());
    direct.or_else(|| {
        let folders = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(fs::DirEntry::path).find_map(|path| find(&path, name))
    })
}

/// Copies the shared libraries and the dynamic loader of a C library, links as files; gives the loader's name.
fn take_c_library(tree: &Path, files: &Path) -> Result<String, SourceError> {
    let not_there = |what: &str| SourceError::NotThere(format!("the package holds no {what}"));
    let main = find(tree, "libc.so.6").ok_or_else(|| not_there("libc.so.6"))?;
    let folder = main.parent().unwrap_or(tree);
    let mut loader = None;
    for entry in fs::read_dir(folder).map_err(failure("reading", folder))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && (name.ends_with(".so") || name.contains(".so.")) {
            let target = files.join(&name);
            fs::copy(entry.path(), &target).map_err(failure("copying to", &target))?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o755))
                .map_err(failure("copying to", &target))?;
            loader = loader.or(Some(name).filter(|name| name.starts_with("ld-linux")));
        }
    }
    loader.ok_or_else(|| not_there("dynamic loader"))
}
