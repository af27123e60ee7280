//! Getting an allocator: already installed, from a package, from source, or given by the user.
//!
//! Whatever the source, a probe process under the library is asked what it is before the library is
//! used or kept. A library that turns out to be something else is refused.

mod archive;
mod commit;
mod compile;
mod crate_source;
mod debian;
mod error;
mod git;
mod host;
mod local;
mod packaged;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use heaptrial_model::{AllocatorSpec, Version};

use crate::application::Application;
use crate::c_library::host_glibc;
use crate::cache::{Cache, CacheError, Entry, Lock, Lookup, Staging};
use crate::catalog::{Catalog, Release, VersionCall};
use crate::digest;
use crate::elf;
use crate::licence::LicenceText;
use crate::manifest::Manifest;
use crate::obtained::{Loader, Obtained, is_preloadable};
use crate::provenance::Provenance;
use crate::resolve::Resolved;
use crate::verify::{self, Expected, Verification, VerifyError};

pub use debian::apt_source;
pub use error::{Attempt, ObtainError, SourceError};
pub use source::SourceKind;
use source::{Source, sources};

/// What an [`Obtainer`] may do.
#[derive(Clone)]
pub struct ObtainOptions {
    /// The program with the hidden probe command; see [`crate::run_probe`].
    pub probe_exe: PathBuf,
    /// Use nothing that is not on this machine.
    pub offline: bool,
    /// Where to clone from instead of upstream: a URL or folder that holds repositories by name.
    pub mirror: Option<String>,
    /// A library or source folder to use instead of all sources.
    pub from: Option<PathBuf>,
    pub sources: Vec<SourceKind>,
    /// Called with what is being done, one line at a time.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Gets allocators, through a cache.
#[derive(Clone)]
pub struct Obtainer {
    cache: Cache,
    options: ObtainOptions,
}

/// Files that a source put into a staging folder.
pub(crate) struct Delivery {
    /// The library to preload or, of a C library, `libc.so.6`.
    main: String,
    /// The dynamic loader of a C library.
    loader: Option<String>,
    provenance: Provenance,
    licences: Vec<LicenceText>,
}

impl ObtainOptions {
    /// All sources, online, without progress.
    pub fn new(probe_exe: impl Into<PathBuf>) -> Self {
        Self {
            probe_exe: probe_exe.into(),
            offline: false,
            mirror: None,
            from: None,
            sources: vec![
                SourceKind::Package,
                SourceKind::Host,
                SourceKind::Debian,
                SourceKind::Crate,
                SourceKind::Git,
            ],
            progress: Arc::new(|_| ()),
        }
    }
}

impl Obtainer {
    /// An obtainer that keeps what it gets in `cache`.
    pub fn new(cache: Cache, options: ObtainOptions) -> Self {
        Self { cache, options }
    }

    /// Gets an allocator: the same one each time, from the cache where it is there.
    pub fn obtain(&self, resolved: &Resolved) -> Result<Obtained, ObtainError> {
        if let Some((link, target)) = resolved.family.environment.linked(Path::to_owned) {
            let why = format!(
                "it reads {}, which is `{target}` on this host and no part of the spec; take the link out",
                link.display()
            );
            let source = VerifyError::Refused(why);
            return Err(ObtainError::Settings { spec: resolved.spec.to_string(), source });
        }
        let mut attempts = Vec::new();
        if let Some(path) = &self.options.from {
            return self.obtain_local(resolved, path, attempts);
        }
        if self.allows(SourceKind::Package) {
            if let Some(obtained) = self.try_package(resolved, &mut attempts)? {
                return Ok(obtained);
            }
        }
        if self.allows(SourceKind::Host) && resolved.variants.is_empty() {
            if let Some(obtained) = self.try_host(resolved, &mut attempts)? {
                return Ok(obtained);
            }
        }
        let family = &resolved.family;
        let release = resolved.release.clone().or_else(|| family.release(family.default.as_ref()?).cloned());
        let version = release.as_ref().map(|release| &release.version);
        let key = key(resolved, version);
        let mut sources = sources(family, release.as_ref(), !resolved.variants.is_empty());
        sources.retain(|source| self.allows(source.kind()));
        // What is there comes before what would have to be fetched or built.
        for source in &sources {
            match self.cache.lookup(&source.key(&key))? {
                Lookup::Valid(entry) if source.gives(&entry.manifest.provenance, resolved) => {
                    return self.finish(resolved, *entry, attempts);
                }
                _ => {}
            }
        }
        for source in &sources {
            let is_current = |manifest: &Manifest| source.gives(&manifest.provenance, resolved);
            let made = self.entry(&source.key(&key), is_current, |staging| {
                self.try_source(resolved, release.as_ref(), source, staging)
            });
            match made? {
                Ok(entry) => return self.finish(resolved, entry, attempts),
                Err(why) => attempts.push(Attempt { source: source.to_string(), why }),
            }
        }
        Err(self.no_source(resolved, attempts))
    }

    /// An entry of the cache, made where it is not there, damaged, or not what would be made today. One process at a time makes it.
    fn entry(
        &self,
        key: &str,
        is_current: impl FnOnce(&Manifest) -> bool,
        make: impl FnOnce(&Staging<'_>) -> Result<Manifest, SourceError>,
    ) -> Result<Result<Entry, SourceError>, CacheError> {
        let lock = self.lock(key)?;
        match self.cache.lookup(key)? {
            Lookup::Valid(entry) if is_current(&entry.manifest) => return Ok(Ok(*entry)),
            Lookup::Damaged(what) => {
                self.say(&format!("cache entry is damaged and will be made again: {what}"));
            }
            Lookup::Valid(_) | Lookup::Missing => {}
        }
        let staging = self.cache.staging(key, &lock)?;
        match make(&staging) {
            Ok(manifest) => self.cache.commit(staging, manifest).map(Ok),
            Err(SourceError::Cache(error)) => Err(error),
            Err(SourceError::Tool(error)) if error.is_full_disk() => Err(self.full_disk()),
            Err(why) => Ok(Err(why)),
        }
    }

    fn allows(&self, kind: SourceKind) -> bool {
        self.options.sources.contains(&kind)
    }

    fn say(&self, line: &str) {
        (self.options.progress)(line);
    }

    fn lock(&self, key: &str) -> Result<Lock, CacheError> {
        self.cache.lock(key, || self.say(&format!("waiting for another process that obtains {key}")))
    }

    fn full_disk(&self) -> CacheError {
        CacheError::Full { path: self.cache.root().to_owned(), action: "fetching or compiling" }
    }

    fn no_source(&self, resolved: &Resolved, attempts: Vec<Attempt>) -> ObtainError {
        let mut next = Vec::new();
        if self.options.offline {
            next.push("run it without --offline".to_owned());
        }
        if resolved.family.git.is_some() && self.options.mirror.is_none() {
            next.push("give a place to clone from with --mirror URL".to_owned());
        }
        next.push("give a library or a source folder with --from PATH".to_owned());
        ObtainError::NoSource { spec: resolved.spec.to_string(), attempts, next: next.join(", or ") }
    }

    /// A library that is installed is used in place and asked again each time.
    fn try_host(
        &self,
        resolved: &Resolved,
        attempts: &mut Vec<Attempt>,
    ) -> Result<Option<Obtained>, ObtainError> {
        if resolved.family.is_c_library {
            let host = host_glibc();
            if resolved.spec.version.as_ref().is_some_and(|version| *version != host) {
                let why = SourceError::NotThere(format!("this host has {host}"));
                attempts.push(Attempt { source: "this host's C library".to_owned(), why });
                return Ok(None);
            }
            return self.host_c_library(resolved, attempts);
        }
        for path in host::libraries(&resolved.family) {
            if resolved.spec.version.is_some() && resolved.family.version_call == VersionCall::None {
                let why = SourceError::NotThere("nothing reports its version".to_owned());
                attempts.push(Attempt { source: format!("installed {}", path.display()), why });
                continue;
            }
            match self.host_library(resolved, &path) {
                Ok(obtained) => return self.check_settings(resolved, obtained).map(Some),
                Err(why) => attempts.push(Attempt { source: format!("installed {}", path.display()), why }),
            }
        }
        Ok(None)
    }

    fn host_c_library(
        &self,
        resolved: &Resolved,
        attempts: &mut Vec<Attempt>,
    ) -> Result<Option<Obtained>, ObtainError> {
        let examined = verify::examine(
            &self.options.probe_exe,
            &Application::default(),
            &expected(resolved, None, None),
        );
        let verification = match examined {
            Ok(verification) => verification,
            Err(error) => {
                attempts.push(Attempt { source: "this host's C library".to_owned(), why: error.into() });
                return Ok(None);
            }
        };
        let path = verification.malloc_from.clone();
        let facts = elf::check_library(&path).ok();
        let obtained = Obtained {
            spec: resolved.spec.clone(),
            version: verification.version.clone(),
            library: None,
            loader: None,
            sha256: digest::of_file(&path).unwrap_or_default(),
            build_id: facts.and_then(|facts| facts.build_id),
            provenance: Provenance::of_host(path),
            licences: Vec::new(),
            verification,
            settings: Vec::new(),
        };
        self.check_settings(resolved, obtained).map(Some)
    }

    fn host_library(&self, resolved: &Resolved, path: &Path) -> Result<Obtained, SourceError> {
        let facts = elf::check_library(path)?;
        let loader = self.loader_for(facts.needed_glibc.as_ref())?;
        let application = application(loader.as_ref(), path);
        let version = resolved.spec.version.as_ref();
        let verification =
            verify::examine(&self.options.probe_exe, &application, &expected(resolved, version, Some(path)))?;
        Ok(Obtained {
            spec: resolved.spec.clone(),
            version: verification.version.clone(),
            library: Some(path.to_owned()),
            loader,
            sha256: digest::of_file(path).map_err(crate::cache::failure("reading", path))?,
            build_id: facts.build_id,
            provenance: Provenance::of_host(path.to_owned()),
            licences: host::licences(path),
            verification,
            settings: Vec::new(),
        })
    }

    fn try_source(
        &self,
        resolved: &Resolved,
        release: Option<&Release>,
        source: &Source<'_>,
        staging: &Staging<'_>,
    ) -> Result<Manifest, SourceError> {
        let delivery = match source {
            Source::Debian(package) => self.fetch_package(&resolved.family, package, staging)?,
            Source::Crate(source) => self.build_crate(resolved, source, staging)?,
            Source::Git(url, commit) => self.build_commit(resolved, url, commit, staging)?,
        };
        self.accept(resolved, release.map(|release| &release.version), delivery, staging)
    }

    /// Checks and asks what lies in the staging folder.
    fn accept(
        &self,
        resolved: &Resolved,
        version: Option<&Version>,
        delivery: Delivery,
        staging: &Staging<'_>,
    ) -> Result<Manifest, SourceError> {
        let folder = staging.files();
        let main = folder.join(&delivery.main);
        let facts = elf::check_library(&main)?;
        if !is_preloadable(&main) {
            let text = format!(
                "the cache folder {} has a space or colon in its path, which LD_PRELOAD cannot hold; choose another with XDG_CACHE_HOME",
                self.cache.root().display()
            );
            return Err(SourceError::NotThere(text));
        }
        let application = match &delivery.loader {
            Some(loader) => Application::loader(&folder.join(loader), &folder, None),
            None => {
                if let Some(needed) = facts.needed_glibc.as_ref().filter(|needed| **needed > host_glibc()) {
                    self.say(&format!(
                        "it needs glibc {needed}, newer than this host's: it will run under another one"
                    ));
                }
                application(self.loader_for(facts.needed_glibc.as_ref())?.as_ref(), &main)
            }
        };
        let expected = expected(resolved, version, Some(&main));
        let verification = verify::examine(&self.options.probe_exe, &application, &expected)?
            .resting_on(&expected, &delivery.provenance);
        let spec = AllocatorSpec { version: version.cloned(), ..resolved.spec.without_settings() };
        let (main, loader) = (delivery.main, delivery.loader);
        let manifest = Manifest::describe(
            spec.to_string(),
            staging,
            &main,
            loader.as_deref(),
            facts,
            delivery.provenance,
            verification,
        )?;
        Ok(Manifest { licences: delivery.licences, ..manifest })
    }

    /// A newer C library to run under, for a library that needs one.
    fn loader_for(&self, needed: Option<&Version>) -> Result<Option<Loader>, SourceError> {
        let host = host_glibc();
        let Some(needed) = needed.filter(|needed| **needed > host) else { return Ok(None) };
        let failed = |why: String| {
            SourceError::NotThere(format!(
                "it needs glibc {needed}, this host has {host}, and no newer one could be had: {why}"
            ))
        };
        let catalog = Catalog::builtin();
        let candidates = catalog.family("glibc").into_iter().flat_map(|family| family.versions.iter());
        let mut why = "the catalog has none".to_owned();
        for release in candidates.filter(|release| release.version >= *needed) {
            let spec =
                AllocatorSpec { version: Some(release.version.clone()), ..AllocatorSpec::family("glibc") };
            let obtained =
                catalog.resolve(&spec).map_err(ObtainError::from).and_then(|resolved| self.obtain(&resolved));
            match obtained {
                Ok(Obtained { loader: Some(loader), .. }) => return Ok(Some(loader)),
                Ok(_) => {}
                Err(error) => why = error.to_string(),
            }
        }
        Err(failed(why))
    }

    fn obtain_local(
        &self,
        resolved: &Resolved,
        path: &Path,
        mut attempts: Vec<Attempt>,
    ) -> Result<Obtained, ObtainError> {
        let attempt = |why| Attempt { source: path.display().to_string(), why };
        let key = match local::key(resolved, path) {
            Ok(key) => key,
            Err(why) => {
                attempts.push(attempt(why));
                return Err(self.no_source(resolved, attempts));
            }
        };
        // What is there may be of a source folder that was changed since.
        let made = self.entry(
            &key,
            |_| false,
            |staging| {
                let delivery = self.take_local(resolved, path, staging)?;
                self.accept(resolved, resolved.spec.version.as_ref(), delivery, staging)
            },
        );
        match made? {
            Ok(entry) => self.finish(resolved, entry, attempts),
            Err(why) => {
                attempts.push(attempt(why));
                Err(self.no_source(resolved, attempts))
            }
        }
    }

    /// From a cache entry to an allocator at hand.
    fn finish(
        &self,
        resolved: &Resolved,
        entry: Entry,
        mut attempts: Vec<Attempt>,
    ) -> Result<Obtained, ObtainError> {
        let manifest = &entry.manifest;
        let main = entry.folder.join(&manifest.main);
        let pinned = manifest.spec.parse::<AllocatorSpec>().ok().and_then(|spec| spec.version);
        let version = manifest.verification.version.clone().or(pinned);
        let loader = match &manifest.loader {
            Some(_) => version.as_ref().and_then(|version| Loader::of_entry(&entry, version)),
            None => match self.loader_for(manifest.needed_glibc.as_ref()) {
                Ok(loader) => loader,
                Err(why) => {
                    attempts.push(Attempt { source: manifest.provenance.to_string(), why });
                    return Err(self.no_source(resolved, attempts));
                }
            },
        };
        let obtained = Obtained {
            spec: resolved.spec.clone(),
            version,
            library: manifest.loader.is_none().then(|| main.clone()),
            loader,
            sha256: manifest.main_sha256().to_owned(),
            build_id: manifest.build_id.clone(),
            provenance: manifest.provenance.clone(),
            licences: manifest.licences.clone(),
            verification: Verification { malloc_from: main, ..manifest.verification.clone() },
            settings: Vec::new(),
        };
        self.check_settings(resolved, obtained)
    }

    /// Adds the settings and, where there are any, asks a process under them whether they took.
    fn check_settings(&self, resolved: &Resolved, mut obtained: Obtained) -> Result<Obtained, ObtainError> {
        obtained.settings = resolved.environment(obtained.version.as_ref())?;
        if !obtained.settings.is_empty() {
            obtained.verification = self
                .verify(resolved, &obtained)
                .map_err(|source| ObtainError::Settings { spec: resolved.spec.to_string(), source })?;
        }
        Ok(obtained)
    }

    /// Starts a process under an obtained allocator and compares its answers with the spec.
    pub fn verify(&self, resolved: &Resolved, obtained: &Obtained) -> Result<Verification, VerifyError> {
        let object = obtained.object();
        let settings = resolved.spec.settings.iter();
        let expected = Expected {
            settings: settings.map(|setting| (setting.name.clone(), setting.value.clone())).collect(),
            ..expected(resolved, obtained.version.as_ref(), object.as_deref())
        };
        let found = verify::examine(&self.options.probe_exe, &obtained.application(), &expected)?;
        Ok(found.resting_on(&expected, &obtained.provenance))
    }
}

fn application(loader: Option<&Loader>, library: &Path) -> Application {
    match loader {
        Some(loader) => Application::loader(&loader.program, &loader.folder, Some(library)),
        None => Application::preload(library),
    }
}

/// What a probe without the spec's settings has to show.
fn expected<'a>(
    resolved: &'a Resolved,
    version: Option<&'a Version>,
    object: Option<&'a Path>,
) -> Expected<'a> {
    Expected { family: &resolved.family, version, variants: &resolved.variants, object, settings: Vec::new() }
}

/// The name of a cache entry; also a file name.
fn key(resolved: &Resolved, version: Option<&Version>) -> String {
    let spec = AllocatorSpec { version: version.cloned(), ..resolved.spec.without_settings() };
    format!("{spec}-{}", std::env::consts::ARCH)
}
