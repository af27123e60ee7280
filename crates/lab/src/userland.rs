//! Userlands: root file systems of other suites, in which the services of a lab run are started.
//!
//! The allocator is a part of what decides how much memory a service needs; the libraries that ask it are another. A
//! [`Userland`] is made once by the host's own `mmdebstrap`, kept in the cache, and *entered*: the whole program starts
//! again inside, so that C library, packages, compilers and the allocators that are obtained are all that suite's. Nothing
//! is emulated, and the kernel is the host's.

use std::convert::Infallible;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use heaptrial_allocator::{Cache, apt_source};
use heaptrial_host::{apt_options, confined};
use rustix::fs::FlockOperation;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use sha2::{Digest, Sha256};

use crate::LabError;
use crate::program::find_program;

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
/// Describes the userland to a program that was started inside.
const INSIDE: &str = "HEAPTRIAL_USERLAND";

/// A suite of Debian or Ubuntu, by its code name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Userland(String);

impl FromStr for Userland {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match !text.is_empty() && text.chars().all(|letter| letter.is_ascii_lowercase()) {
            true => Ok(Self(text.to_owned())),
            false => Err("expected a suite such as bookworm, trixie or noble".to_owned()),
        }
    }
}

impl Userland {
    /// The userland that this program was started in, if it was, in words.
    pub fn current() -> Option<String> {
        std::env::var(INSIDE).ok()
    }

    /// Starts this program with the same arguments in the userland, which replaces this process; it is made where it is not there yet
    /// (a minute or two, and needs the package archive), which `say` reports. `visible` are the host's folders that it
    /// sees at the same paths.
    pub fn enter(&self, visible: &[PathBuf], host: &str, say: &dyn Fn(&str)) -> Result<Infallible, LabError> {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::Refused(
                "a userland can be entered by root alone; use sudo, or run Heaptrial on a machine of that suite"
                    .to_owned(),
            ));
        }
        visible.iter().try_for_each(|folder| check(folder))?;
        let root = self.root(say)?;
        let program = File::open("/proc/self/exe").map_err(LabError::file("/proc/self/exe"))?;
        let folder = std::env::current_dir().map_err(LabError::file("."))?;
        // SAFETY: mounts and the root are changed of this thread alone, and it is this thread that starts the program again.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
            .map_err(|error| LabError::file(&root)(error.into()))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).map_err(|error| LabError::file("/")(error.into()))?;
        for path in KERNEL_FOLDERS.iter().map(Path::new).chain(visible.iter().map(PathBuf::as_path)) {
            show(path, &root)?;
        }
        let trusted = TRUST_VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from);
        for path in HOST_FILES.iter().map(PathBuf::from).chain(trusted).filter(|path| path.is_absolute()) {
            show_file(&path, &root)?;
        }
        rustix::process::chroot(&root).map_err(|error| LabError::file(&root)(error.into()))?;
        std::env::set_current_dir(&folder).map_err(LabError::file(folder))?;
        let own = format!("/proc/self/fd/{}", program.as_raw_fd());
        let error = Command::new(&own)
            .args(std::env::args_os().skip(1))
            .env(INSIDE, format!("userland {}, on a host of {host}", self.0))
            // What is obtained for the userland is kept in it.
            .env_remove("XDG_CACHE_HOME")
            .env_remove("LD_LIBRARY_PATH")
            .exec();
        Err(LabError::file(own)(error))
    }

    /// Its root in the cache.
    fn root(&self, say: &dyn Fn(&str)) -> Result<PathBuf, LabError> {
        let suite = &self.0;
        let source = apt_source(suite);
        let recipe = format!("{suite} {PACKAGES:?} {source:?}");
        let folder = Cache::of_user()?.root().join("userlands");
        let root = folder.join(format!("{suite}-{}", &hex::encode(Sha256::digest(&recipe))[..12]));
        fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
        let lock = File::create(folder.join("lock")).map_err(LabError::file(&folder))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| LabError::file(&folder)(error.into()))?;
        if root.is_dir() {
            return Ok(root);
        }
        say(&format!("making the userland {suite} in {} (once, a minute or two)", root.display()));
        let unfinished = folder.join("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(LabError::file(&unfinished))?;
        }
        let output = confined(&self.maker(source.as_deref(), &unfinished)?).output();
        let output = output.map_err(LabError::file("mmdebstrap"))?;
        if !output.status.success() {
            let written = String::from_utf8_lossy(&output.stderr);
            let last: Vec<&str> = written.lines().filter(|line| !line.trim().is_empty()).collect();
            return Err(LabError::Failed(format!(
                "the userland {suite} could not be made: {}; where this host's archive does not hold the suite, install its key ring \
                 (ubuntu-keyring, debian-archive-keyring)",
                last[last.len().saturating_sub(6)..].join("\n    ")
            )));
        }
        let hosts = unfinished.join("etc/hosts");
        fs::write(&hosts, "127.0.0.1 localhost\n::1 localhost\n").map_err(LabError::file(&hosts))?;
        fs::rename(&unfinished, &root).map_err(LabError::file(&root))?;
        Ok(root)
    }

    /// The command that unpacks the packages into `folder`.
    fn maker(&self, source: Option<&str>, folder: &Path) -> Result<Command, LabError> {
        if find_program("mmdebstrap").is_err() {
            return Err(LabError::Refused(
                "`mmdebstrap`, which makes a userland, is not installed: apt-get install mmdebstrap"
                    .to_owned(),
            ));
        }
        let mut command = Command::new("mmdebstrap");
        command
            .args(["--quiet", "--variant=apt"])
            .arg(format!("--include={}", PACKAGES.join(",")))
            .args(["doc", "man", "locale"].map(|kind| format!("--dpkgopt=path-exclude=/usr/share/{kind}/*")))
            .arg("--dpkgopt=path-include=/usr/share/doc/*/copyright")
            .args(apt_options().iter().map(|option| format!("--aptopt={option}")));
        if UBUNTU_SUITES.contains(&self.0.as_str()) {
            command.arg("--components=main,universe");
        }
        command.arg(&self.0).arg(folder);
        if let Some(stanza) = source {
            let file = folder.with_extension("sources");
            fs::write(&file, stanza).map_err(LabError::file(&file))?;
            command.arg(file);
        }
        Ok(command)
    }
}

/// Refuses a folder that would hide a part of the root.
fn check(folder: &Path) -> Result<(), LabError> {
    let is_own = |own: &&str| {
        let shared = folder.starts_with("/usr/local") || folder.starts_with("/usr/src");
        (folder.starts_with(own) && !shared) || Path::new(own).starts_with(folder)
    };
    match OWN_FOLDERS.into_iter().find(is_own) {
        Some(own) => Err(LabError::Refused(format!(
            "{} cannot be seen in the userland, which has its own {own}; work in another folder, such as one in /tmp",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// Shows a folder of the host at its path below `root`, with what is mounted below it.
fn show(path: &Path, root: &Path) -> Result<(), LabError> {
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    fs::create_dir_all(&target).map_err(LabError::file(&target))?;
    rustix::mount::mount_bind_recursive(path, &target).map_err(|error| LabError::file(path)(error.into()))
}

/// Shows a file of the host at its path below `root`, where the host has it.
fn show_file(path: &Path, root: &Path) -> Result<(), LabError> {
    let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    if fs::symlink_metadata(&target).is_ok_and(|found| !found.is_file()) {
        fs::remove_file(&target).map_err(LabError::file(&target))?;
    }
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(LabError::file(folder))?;
    }
    if !target.exists() {
        File::create(&target).map_err(LabError::file(&target))?;
    }
    rustix::mount::mount_bind(&real, &target).map_err(|error| LabError::file(path)(error.into()))
}
