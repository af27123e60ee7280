//! Getting an allocator: already installed, from a package, from source, or given by the user.
//!
//! Whatever the source, a probe process under the library is asked what it is before the library is
//! used or kept. A library that turns out to be something else is refused.

mod archive;
mod compile;
mod debian;
mod error;
mod host;
mod packaged;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use heaptrial_model::AllocatorSpec;

use crate::application::Application;
use crate::c_library::host_glibc;
use crate::cache::{Cache, CacheError, Lock, Staging, failure};
use crate::catalog::VersionCall;
use crate::digest;
use crate::elf;
use crate::history::Repository;
use crate::obtained::{Loader, Obtained, is_preloadable};
use crate::provenance::Provenance;
use crate::resolve::Resolved;
use crate::verify::{self, Claim, Verification, VerifyError};

pub use debian::apt_source;
pub use error::{Attempt, ObtainError, SourceError};
pub use source::SourceKind;
use source::{Delivery, Source, sources};

#[derive(Clone)]
pub struct ObtainOptions {
    /// The program with the hidden probe command; see [`crate::run_probe`].
    pub probe_exe: PathBuf,
    pub offline: bool,
    /// Where to clone from instead of upstream: a URL or folder that holds repositories by name.
    pub mirror: Option<String>,
    pub from: Option<PathBuf>,
    pub sources: Vec<SourceKind>,
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

#[derive(Clone)]
pub struct Obtainer {
    cache: Cache,
    options: ObtainOptions,
}

impl ObtainOptions {
    /// All sources, online, without progress.
    pub fn new(probe_exe: impl Into<PathBuf>) -> Self {
        use SourceKind::{Crate, Debian, Git, Host, Package};
        Self {
            probe_exe: probe_exe.into(),
            offline: false,
            mirror: None,
            from: None,
            sources: vec![Package, Host, Debian, Crate, Git],
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
        let mut attempts = Vec::new();
        let sources = match &self.options.from {
            Some(path) if path.is_dir() => vec![Source::LocalFolder(path)],
            Some(path) => vec![Source::LocalLibrary(path)],
            None => {
                if let Some(obtained) = self.installed(resolved, &mut attempts) {
                    return self.check_settings(resolved, obtained);
                }
                let mut sources = sources(resolved);
                sources.retain(|source| source.kind().is_none_or(|kind| self.allows(kind)));
                sources
            }
        };
        match self.first_of(resolved, &sources, &mut attempts)? {
            Some(obtained) => self.check_settings(resolved, obtained),
            None => Err(self.no_source(resolved, attempts)),
        }
    }

    /// Builds and asks a commit (full id) of `repository`, or takes that from the cache. `resolved` is without a version: the
    /// library reports which it is.
    pub fn obtain_commit(
        &self,
        resolved: &Resolved,
        repository: &Repository,
        id: &str,
    ) -> Result<Obtained, ObtainError> {
        let mut attempts = Vec::new();
        match self.first_of(resolved, &[Source::Commit(repository, id)], &mut attempts)? {
            Some(obtained) => self.check_settings(resolved, obtained),
            None => {
                let (spec, next) = (resolved.spec.to_string(), "leave this commit out".to_owned());
                Err(ObtainError::NoSource { spec, attempts, next })
            }
        }
    }

    /// The first source that gives the allocator. What is in the cache comes before what would have to be fetched or built.
    fn first_of(
        &self,
        resolved: &Resolved,
        sources: &[Source<'_>],
        attempts: &mut Vec<Attempt>,
    ) -> Result<Option<Obtained>, CacheError> {
        for source in sources.iter().filter(|source| source.is_fixed()) {
            let Ok(key) = self.key(resolved, source) else { continue };
            if let Some(obtained) = self.cache.lookup(&key) {
                return Ok(Some(obtained));
            }
        }
        for source in sources {
            match self.made(resolved, source) {
                Ok(obtained) => return Ok(Some(obtained)),
                Err(SourceError::Cache(error)) => return Err(error),
                Err(SourceError::Tool(error)) if error.is_full_disk() => {
                    let path = self.cache.root().to_owned();
                    return Err(CacheError::Full { path, action: "fetching or compiling" });
                }
                Err(why) => attempts.push(Attempt { source: source.to_string(), why }),
            }
        }
        Ok(None)
    }

    /// The name of a cache entry; also a file name.
    fn key(&self, resolved: &Resolved, source: &Source<'_>) -> Result<String, SourceError> {
        let spec = build_of(resolved, source);
        Ok(format!("{spec}-{}-{}", std::env::consts::ARCH, source.key(resolved)?))
    }

    /// An entry of the cache, made where it is not there or damaged. One process at a time makes it.
    fn made(&self, resolved: &Resolved, source: &Source<'_>) -> Result<Obtained, SourceError> {
        let key = self.key(resolved, source)?;
        let lock = self.lock(&key)?;
        if let Some(obtained) = self.cache.lookup(&key).filter(|_| source.is_fixed()) {
            return Ok(obtained);
        }
        let staging = self.cache.staging(&key, &lock)?;
        let delivery = self.deliver(resolved, source, &staging)?;
        let spec = build_of(resolved, source);
        let obtained = self.accept(resolved, &spec, delivery, &staging, &self.cache.entry(&key))?;
        self.cache.commit(staging, &obtained)?;
        Ok(obtained)
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

    /// What is installed is used in place and asked again each time: packaged builds first, then the host's own libraries.
    fn installed(&self, resolved: &Resolved, attempts: &mut Vec<Attempt>) -> Option<Obtained> {
        let mut attempt = |source: String, tried: Result<Obtained, SourceError>| {
            tried.map_err(|why| attempts.push(Attempt { source, why })).ok()
        };
        if self.allows(SourceKind::Package) {
            for build in packaged::builds(&resolved.spec) {
                let source = format!("packaged {}", build.library.path.display());
                if let Some(obtained) = attempt(source, self.packaged_library(resolved, &build)) {
                    return Some(obtained);
                }
            }
        }
        if !self.allows(SourceKind::Host) || !resolved.variants.is_empty() {
            return None;
        }
        if resolved.family.is_c_library {
            return attempt("this host's C library".to_owned(), self.host_c_library(resolved));
        }
        host::libraries(&resolved.family).into_iter().find_map(|path| {
            attempt(format!("installed {}", path.display()), self.host_library(resolved, &path))
        })
    }

    fn host_c_library(&self, resolved: &Resolved) -> Result<Obtained, SourceError> {
        let host = host_glibc();
        if resolved.spec.version.as_ref().is_some_and(|version| *version != host) {
            return Err(SourceError::NotThere(format!("this host has {host}")));
        }
        let claim = Claim { version: None, ..Claim::of(resolved, None) };
        let verification = verify::examine(&self.options.probe_exe, &Application::default(), &claim)?;
        let path = verification.malloc_from.clone();
        Ok(Obtained {
            spec: resolved.spec.clone(),
            version: verification.version.clone(),
            library: None,
            loader: None,
            sha256: digest::of_file(&path).unwrap_or_default(),
            build_id: elf::check_library(&path).ok().and_then(|facts| facts.build_id),
            needed_glibc: None,
            provenance: Provenance::of_host(path),
            licences: Vec::new(),
            verification,
            settings: Vec::new(),
        })
    }

    fn host_library(&self, resolved: &Resolved, path: &Path) -> Result<Obtained, SourceError> {
        if resolved.spec.version.is_some() && resolved.family.version_call == VersionCall::None {
            return Err(SourceError::NotThere("nothing reports its version".to_owned()));
        }
        let provenance = Provenance::of_host(path.to_owned());
        let application = Application::preload(path);
        let obtained = self.asked(resolved, &resolved.spec, path, &application, provenance)?;
        Ok(Obtained { licences: host::licences(path), ..obtained })
    }

    /// Asks what lies in the staging folder, and describes it as it will be in its entry.
    fn accept(
        &self,
        resolved: &Resolved,
        spec: &AllocatorSpec,
        delivery: Delivery,
        staging: &Staging<'_>,
        entry: &Path,
    ) -> Result<Obtained, SourceError> {
        let folder = staging.files();
        let main = folder.join(&delivery.main);
        if !is_preloadable(&main) {
            let text = format!(
                "the cache folder {} has a space or colon in its path, which LD_PRELOAD cannot hold; choose another with XDG_CACHE_HOME",
                self.cache.root().display()
            );
            return Err(SourceError::NotThere(text));
        }
        let application = match &delivery.loader {
            Some(program) => Application::c_library(&folder.join(program), &folder),
            None => Application::preload(&main),
        };
        let mut obtained = self.asked(resolved, spec, &main, &application, delivery.provenance)?;
        obtained.version = obtained.version.or_else(|| spec.version.clone());
        obtained.loader = delivery.loader.map(|program| Loader {
            version: obtained.version.clone().unwrap_or_else(host_glibc),
            program: entry.join(program),
            folder: entry.to_owned(),
        });
        let installed = entry.join(&delivery.main);
        obtained.library = obtained.loader.is_none().then(|| installed.clone());
        obtained.verification.malloc_from = installed;
        Ok(Obtained { licences: delivery.licences, ..obtained })
    }

    /// A library that a process runs under by `application` and reports to be what the spec says.
    fn asked(
        &self,
        resolved: &Resolved,
        spec: &AllocatorSpec,
        object: &Path,
        application: &Application,
        provenance: Provenance,
    ) -> Result<Obtained, SourceError> {
        let facts = elf::check_library(object)?;
        let host = host_glibc();
        if let Some(needed) = facts.needed_glibc.as_ref().filter(|needed| **needed > host) {
            if application.argv_prefix.is_empty() {
                return Err(SourceError::NotThere(format!("it needs glibc {needed}, this host has {host}")));
            }
        }
        let claim = Claim { version: spec.version.as_ref(), ..Claim::of(resolved, Some(object)) };
        let found = verify::examine(&self.options.probe_exe, application, &claim)?;
        let verification = found.resting_on(&claim, &provenance);
        Ok(Obtained {
            spec: spec.clone(),
            version: verification.version.clone(),
            library: Some(object.to_owned()),
            loader: None,
            sha256: digest::of_file(object).map_err(failure("reading", object))?,
            build_id: facts.build_id,
            needed_glibc: facts.needed_glibc,
            provenance,
            licences: Vec::new(),
            verification,
            settings: Vec::new(),
        })
    }

    /// Adds the settings and, where there are any, asks a process under them whether they took.
    fn check_settings(&self, resolved: &Resolved, mut obtained: Obtained) -> Result<Obtained, ObtainError> {
        obtained.spec = resolved.spec.clone();
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
        let claim = Claim {
            version: obtained.version.as_ref(),
            settings: &resolved.spec.settings,
            ..Claim::of(resolved, object.as_deref())
        };
        let found = verify::examine(&self.options.probe_exe, &obtained.application(), &claim)?;
        Ok(found.resting_on(&claim, &obtained.provenance))
    }
}

/// The spec of what a source gives: with the version of the catalog's release, and without settings.
fn build_of(resolved: &Resolved, source: &Source<'_>) -> AllocatorSpec {
    let version = match source.kind() {
        Some(_) => resolved.release_to_obtain().map(|release| release.version.clone()),
        None => resolved.spec.version.clone(),
    };
    AllocatorSpec { version, ..resolved.spec.without_settings() }
}
