//! Userlands: root file systems of other suites, in which the services of a lab run are started.
//!
//! The allocator is a part of what decides how much memory a service needs; the libraries that ask it are another. A
//! [`Userland`] is made once by the host's own `mmdebstrap`, kept in the cache, and *entered*: the whole program starts
//! anew inside, so that C library, packages, compilers and the allocators that are obtained are all that suite's. Nothing
//! is emulated, and the kernel is the host's.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use heaptrial_allocator::{Cache, apt_source};
use heaptrial_host::{apt_options, confined};
use heaptrial_model::{Classified, ErrorClass};
use rustix::fs::FlockOperation;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Suites of Ubuntu, whose packages for servers are in two components.
const UBUNTU_SUITES: [&str; 3] = ["jammy", "noble", "resolute"];
/// What every userland has: the relay, and what obtains and builds allocators.
const PACKAGES: [&str; 8] = ["bzip2", "ca-certificates", "g++", "gcc", "git", "libc6-dev", "make", "tor"];
/// Folders of the host that are seen inside as they are.
const KERNEL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Files of the host that are seen inside: where names are asked for, and whom TLS clients trust.
const HOST_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"];
/// Variables that name another file of whom TLS clients trust.
const TRUST_VARIABLES: [&str; 4] = ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO"];
/// Folders that make a root what it is, and that nothing of the host may hide.
const OWN_FOLDERS: [&str; 8] = ["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/var/lib"];
/// Tells a program that was started inside which userland that is.
const INSIDE: &str = "HEAPTRIAL_USERLAND";
/// In names of roots that are being made.
const UNFINISHED: &str = ".unfinished";

/// Which userland services run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Userland {
    /// A suite of Debian or Ubuntu, by its code name.
    Suite(String),
    /// A folder that holds a root file system.
    Folder(PathBuf),
}

/// The userland that this program runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// As asked for: a suite, or a folder.
    pub userland: String,
    /// The operating system outside, such as `Debian GNU/Linux 12 (bookworm)`.
    pub host: String,
}

/// Why a userland could not be made or entered. Nothing was run.
#[derive(Debug, thiserror::Error)]
pub enum UserlandError {
    /// Only root can change its root.
    #[error("a userland can be entered by root alone; use sudo, or run Heaptrial on a machine of that suite")]
    NotRoot,
    /// The program that makes roots is not there.
    #[error("`mmdebstrap`, which makes a userland, is not installed: apt-get install mmdebstrap")]
    NoMaker,
    /// The program that makes roots failed.
    #[error(
        "the userland {suite} could not be made: {problem}; where this host's archive does not hold the suite, install its \
         key ring (ubuntu-keyring, debian-archive-keyring), or make a root yourself and give its folder"
    )]
    NotMade {
        suite: String,
        /// The end of what it wrote.
        problem: String,
    },
    /// A folder that is no root file system.
    #[error("{folder} holds no root file system: there is no {missing} in it")]
    NoRoot { folder: PathBuf, missing: &'static str },
    /// A path that is needed inside, where something else is.
    #[error(
        "{path} cannot be seen in the userland, which has its own {own}; work in another folder, such as one in /tmp"
    )]
    Hidden {
        path: PathBuf,
        /// What of the root is there.
        own: &'static str,
    },
    /// This program does not run there.
    #[error(
        "this build of heaptrial does not run in the userland: {problem}; build it on the older of the two systems"
    )]
    CannotRun {
        /// What the dynamic loader said.
        problem: String,
    },
    /// A file or a mount.
    #[error("{action} {path} failed: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The cache has no place.
    #[error(transparent)]
    Cache(#[from] heaptrial_allocator::CacheError),
}

impl Classified for UserlandError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NotMade { .. } | Self::Io { .. } => ErrorClass::Failed,
            Self::Cache(error) => error.class(),
            _ => ErrorClass::Refused,
        }
    }
}

/// The text is no userland.
#[derive(Debug, thiserror::Error)]
#[error("expected a suite such as bookworm, trixie or noble, or the path of a root's folder (with a slash)")]
pub struct NotAUserland;

impl FromStr for Userland {
    type Err = NotAUserland;

    fn from_str(text: &str) -> Result<Self, NotAUserland> {
        if text.contains('/') {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        let is_name = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_lowercase());
        if is_name { Ok(Self::Suite(text.to_owned())) } else { Err(NotAUserland) }
    }
}

impl std::fmt::Display for Userland {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Suite(suite) => f.write_str(suite),
            Self::Folder(folder) => write!(f, "{}", folder.display()),
        }
    }
}

impl Inside {
    /// The userland that this program was started in, if it was.
    pub fn current() -> Option<Self> {
        serde_json::from_str(&std::env::var(INSIDE).ok()?).ok()
    }
}

impl std::fmt::Display for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "userland {}, on a host of {}", self.userland, self.host)
    }
}

impl Userland {
    /// Its root, with `packages` besides those that every userland has; made where it is not there yet (a minute or two, and
    /// needs the package archive). `say` is told what takes long.
    pub fn root(&self, packages: &[String], say: &dyn Fn(&str)) -> Result<PathBuf, UserlandError> {
        if !rustix::process::geteuid().is_root() {
            return Err(UserlandError::NotRoot);
        }
        match self {
            Self::Folder(folder) => {
                for missing in ["usr/bin/env", "etc/os-release"] {
                    if fs::symlink_metadata(folder.join(missing)).is_err() {
                        return Err(UserlandError::NoRoot { folder: folder.clone(), missing });
                    }
                }
                fs::canonicalize(folder).map_err(io_error("resolving", folder))
            }
            Self::Suite(suite) => made(suite, packages, say),
        }
    }

    /// Its root, where that is there already.
    pub fn root_there(&self, packages: &[String]) -> Result<Option<PathBuf>, UserlandError> {
        match self {
            Self::Folder(_) => self.root(packages, &|_| ()).map(Some),
            Self::Suite(suite) => Ok(Some(recipe(suite, packages)?.root).filter(|root| root.is_dir())),
        }
    }

    /// Starts this program with the same arguments inside `root`, in place of this process. `visible` are the host's folders
    /// that it sees at the same paths.
    pub fn enter(&self, root: &Path, visible: &[PathBuf], host: &str) -> Result<Infallible, UserlandError> {
        let visible = outermost(visible)?;
        let program = File::open("/proc/self/exe").map_err(io_error("opening", "/proc/self/exe"))?;
        let folder = std::env::current_dir().map_err(io_error("reading", "the current folder"))?;
        // SAFETY: mounts and the root are changed of this thread alone, and it is this thread that starts the program anew.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
            .map_err(|error| io_error("a mount namespace for", root)(error.into()))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)
            .map_err(|error| io_error("making private", "/")(error.into()))?;
        for path in KERNEL_FOLDERS.iter().map(PathBuf::from).chain(visible) {
            show(&path, root)?;
        }
        let trusted = TRUST_VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from);
        let files: BTreeSet<PathBuf> = HOST_FILES.iter().map(PathBuf::from).chain(trusted).collect();
        for path in files.iter().filter(|path| path.is_absolute()) {
            show_file(path, root)?;
        }
        rustix::process::chroot(root).map_err(|error| io_error("entering", root)(error.into()))?;
        std::env::set_current_dir(&folder).map_err(io_error("entering", folder))?;

        let own = format!("/proc/self/fd/{}", program.as_raw_fd());
        let inside = Inside { userland: self.to_string(), host: host.to_owned() };
        let told = serde_json::to_string(&inside).unwrap_or_default();
        let again = |arguments: Vec<OsString>| {
            let mut command = Command::new(&own);
            // What is obtained for the userland is kept in it.
            command
                .args(arguments)
                .env(INSIDE, &told)
                .env_remove("XDG_CACHE_HOME")
                .env_remove("LD_LIBRARY_PATH");
            command
        };
        let tried = again(vec!["--version".into()]).output();
        let problem = match tried {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            return Err(UserlandError::CannotRun { problem });
        }
        let error = again(std::env::args_os().skip(1).collect()).exec();
        Err(UserlandError::CannotRun { problem: error.to_string() })
    }
}

fn io_error(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> UserlandError {
    let path = path.into();
    move |source| UserlandError::Io { action, path, source }
}

/// Where the root of a suite is, the packages it has, and where they are from.
struct Recipe<'p> {
    folder: PathBuf,
    root: PathBuf,
    packages: Vec<&'p str>,
    source: Option<String>,
}

fn recipe<'p>(suite: &str, packages: &'p [String]) -> Result<Recipe<'p>, UserlandError> {
    let mut packages: Vec<&str> =
        PACKAGES.iter().copied().chain(packages.iter().map(String::as_str)).collect();
    packages.sort_unstable();
    packages.dedup();
    let source = apt_source(suite);
    let recipe = format!("{suite} {packages:?} {source:?}");
    let folder = Cache::of_user()?.root().join("userlands");
    let root = folder.join(format!("{suite}-{}", &hex::encode(Sha256::digest(&recipe))[..12]));
    Ok(Recipe { folder, root, packages, source })
}

/// The root of a suite in the cache.
fn made(suite: &str, packages: &[String], say: &dyn Fn(&str)) -> Result<PathBuf, UserlandError> {
    let Recipe { folder, root, packages, source } = recipe(suite, packages)?;
    fs::create_dir_all(&folder).map_err(io_error("making", &folder))?;
    let lock = File::create(folder.join("lock")).map_err(io_error("locking", &folder))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| io_error("locking", &folder)(error.into()))?;
    if root.is_dir() {
        return Ok(root);
    }
    let entries = fs::read_dir(&folder).map_err(io_error("reading", &folder))?.flatten();
    for left in entries.filter(|entry| entry.file_name().to_string_lossy().contains(UNFINISHED)) {
        fs::remove_dir_all(left.path()).map_err(io_error("removing", left.path()))?;
    }
    say(&format!("making the userland {suite} in {} (once, a minute or two)", root.display()));
    let unfinished = folder.join(format!("{suite}{UNFINISHED}"));
    let output = confined(&maker(suite, &packages, source.as_deref(), &unfinished)?).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UserlandError::NoMaker,
        _ => io_error("making", &unfinished)(error),
    })?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = told.lines().rev().filter(|line| !line.trim().is_empty()).take(6).collect();
        let problem = last.into_iter().rev().collect::<Vec<_>>().join("\n    ");
        // Made anew the next time, whether or not it can be removed now.
        let _ = fs::remove_dir_all(&unfinished);
        return Err(UserlandError::NotMade { suite: suite.to_owned(), problem });
    }
    let hosts = unfinished.join("etc/hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n::1 localhost\n").map_err(io_error("writing", &hosts))?;
    fs::rename(&unfinished, &root).map_err(io_error("renaming", &unfinished))?;
    Ok(root)
}

/// The command that unpacks the packages into `folder`.
fn maker(
    suite: &str,
    packages: &[&str],
    source: Option<&str>,
    folder: &Path,
) -> Result<Command, UserlandError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("mmdebstrap").is_file()) {
        return Err(UserlandError::NoMaker);
    }
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--quiet", "--variant=apt"])
        .arg(format!("--include={}", packages.join(",")))
        .args(
            ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"]
                .map(|unneeded| format!("--dpkgopt=path-exclude={unneeded}")),
        )
        .args(["--dpkgopt=path-include=/usr/share/doc/*/copyright".to_owned()])
        .args(apt_options().iter().map(|option| format!("--aptopt={option}")));
    if UBUNTU_SUITES.contains(&suite) {
        command.arg("--components=main,universe");
    }
    command.arg(suite).arg(folder);
    if let Some(stanza) = source {
        let file = folder.with_extension("sources");
        fs::write(&file, stanza).map_err(io_error("writing", &file))?;
        command.arg(file);
    }
    Ok(command)
}

/// The folders that are not below another of them; refuses those that would hide a part of the root.
fn outermost(folders: &[PathBuf]) -> Result<Vec<PathBuf>, UserlandError> {
    let mut folders: Vec<PathBuf> = folders.iter().filter(|folder| folder.is_dir()).cloned().collect();
    folders.sort();
    folders.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let is_own = |own: &&str| {
            let shared = folder.starts_with("/usr/local") || folder.starts_with("/usr/src");
            (folder.starts_with(own) && !shared) || Path::new(own).starts_with(&folder)
        };
        if let Some(own) = OWN_FOLDERS.into_iter().find(|own| is_own(own)) {
            return Err(UserlandError::Hidden { path: folder, own });
        }
        if !kept.iter().any(|outer| folder.starts_with(outer)) {
            kept.push(folder);
        }
    }
    Ok(kept)
}

/// Shows a folder of the host at its path below `root`, with what is mounted below it.
fn show(path: &Path, root: &Path) -> Result<(), UserlandError> {
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    fs::create_dir_all(&target).map_err(io_error("making", &target))?;
    rustix::mount::mount_bind_recursive(path, &target)
        .map_err(|error| io_error("showing", path)(error.into()))
}

/// Shows a file of the host at its path below `root`, where the host has it.
fn show_file(path: &Path, root: &Path) -> Result<(), UserlandError> {
    let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    if fs::symlink_metadata(&target).is_ok_and(|found| !found.is_file()) {
        fs::remove_file(&target).map_err(io_error("removing", &target))?;
    }
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(io_error("making", folder))?;
    }
    if !target.exists() {
        File::create(&target).map_err(io_error("making", &target))?;
    }
    rustix::mount::mount_bind(&real, &target).map_err(|error| io_error("showing", path)(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_userland_is_a_suite_or_a_folder() {
        assert_eq!("trixie".parse::<Userland>().unwrap(), Userland::Suite("trixie".to_owned()));
        assert_eq!("./root".parse::<Userland>().unwrap(), Userland::Folder("./root".into()));
        for wrong in ["", "Debian 13", "13", "trixie;reboot"] {
            assert!(wrong.parse::<Userland>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn folders_that_would_hide_a_part_of_the_root_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let below = home.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let kept = outermost(&[below.clone(), home.path().to_owned(), "/no/such/folder".into()]).unwrap();
        assert_eq!(kept, [home.path()]);
        for wrong in ["/", "/usr", "/usr/lib", "/etc", "/var"] {
            assert!(matches!(outermost(&[wrong.into()]), Err(UserlandError::Hidden { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_folder_without_a_root_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Userland::Folder(folder.path().to_owned()).root(&[], &|_| ()).unwrap_err();
        let expected = if rustix::process::geteuid().is_root() { "usr/bin/env" } else { "root alone" };
        assert!(error.to_string().contains(expected), "{error}");
    }
}
