//! What a watch brings to the host: a timer, the service that it runs, and the program, where no package and no trial brought it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_change::Ledger;
use heaptrial_host::systemd::{Manager as _, Systemd, SystemdError};
use heaptrial_host::{HostRoot, Paths, package_of};
use heaptrial_model::ServiceName;
use sha2::{Digest, Sha256};

use crate::watch::error::WatchError;
use crate::watch::folder::{names, replace};
use crate::watch::plan::Installed;

const UNIT_PATIENCE: Duration = Duration::from_secs(30);
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    pub path: PathBuf,
    pub content: HostContent,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostContent {
    Text(String),
    /// A copy of the program.
    Program(PathBuf),
    Link(String),
}

pub(crate) fn timer_name(name: &str) -> String {
    format!("heaptrial-watch-{name}.timer")
}

/// The files of a watch, with links last and the program first.
pub fn host_files(
    paths: &Paths,
    name: &str,
    every_minutes: u64,
    database: Option<&Path>,
) -> Result<Vec<HostFile>, WatchError> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(WatchError::file("finding the running program", Path::new("/proc/self/exe")))?;
    // A package brings its newer versions to where it is.
    let packaged = package_of(&HostRoot::default(), &own).is_some();
    let program = if packaged { own.clone() } else { paths.program() };
    let database = match database {
        Some(path) => format!(" --db {}", word(path)?),
        None => String::new(),
    };
    let timer = timer_name(name);
    let service = format!(
        "[Unit]\nDescription=Look whether services of watch {name} are as before\n\n\
         [Service]\nType=oneshot\nExecStart={program}{database} watch check {name}\n\
         # No data, and alerts that stand: the check itself did not fail.\nSuccessExitStatus=4 5\n\
         TimeoutStartSec=15min\nNice=10\nProtectSystem=full\n",
        program = word(&program)?,
    );
    let timer_text = format!(
        "[Unit]\nDescription=Watch services of {name}\n\n\
         [Timer]\nOnActiveSec=1min\nOnUnitActiveSec={every_minutes}min\nAccuracySec=10s\n"
    );
    let text = |path: PathBuf, text: String| HostFile { path, content: HostContent::Text(text) };
    let copy = (program != own).then_some(HostFile { path: program, content: HostContent::Program(own) });
    let units = [
        text(paths.unit(&format!("heaptrial-watch-{name}.service")), service),
        text(paths.unit(&timer), timer_text),
        HostFile {
            path: paths.unit(&format!("timers.target.wants/{timer}")),
            content: HostContent::Link(format!("../{timer}")),
        },
    ];
    Ok(copy.into_iter().chain(units).collect())
}

/// A path as one word of a unit file.
fn word(path: &Path) -> Result<&str, WatchError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@".contains(c);
    let text = path.to_str().filter(|text| text.starts_with('/') && text.chars().all(plain));
    text.ok_or_else(|| {
        WatchError::Refused(format!(
            "{} cannot stand in a unit file; give an absolute path of letters, digits and / - _ . + @",
            path.display()
        ))
    })
}

/// What a list of files will be once it is there, with the folders that are made for it; without the program, which trials and
/// other watches use too.
pub(crate) fn announced(files: &[HostFile]) -> Result<(Vec<Installed>, Vec<PathBuf>), WatchError> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut installed = Vec::new();
    for file in files {
        let is_program = matches!(file.content, HostContent::Program(_));
        if !is_program && fs::symlink_metadata(&file.path).is_ok() {
            return Err(WatchError::Refused(format!(
                "{} is there already, and no watch of this host has brought it; move it away",
                file.path.display()
            )));
        }
        let missing = file.path.ancestors().skip(1).take_while(|folder| !folder.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        missing.reverse();
        folders.extend(missing);
        match &file.content {
            HostContent::Text(text) => installed.push(of_file(&file.path, text.as_bytes())),
            HostContent::Program(_) => {}
            HostContent::Link(target) => {
                installed.push(Installed { path: file.path.clone(), content: target.clone(), link: true });
            }
        }
    }
    folders.dedup();
    Ok((installed, folders))
}

fn of_file(path: &Path, bytes: &[u8]) -> Installed {
    Installed { path: path.to_owned(), content: hex::encode(Sha256::digest(bytes)), link: false }
}

/// Brings the files and starts the timer.
pub(crate) fn install(systemd: &Systemd, files: &[HostFile], name: &str) -> Result<(), WatchError> {
    for file in files {
        let path = &file.path;
        let fail = WatchError::file("writing", path);
        put(path, &file.content).map_err(fail)?;
    }
    systemd.reload()?;
    let timer = unit_name(&timer_name(name))?;
    let job = systemd.start(&timer)?;
    let result = systemd.wait(&job, UNIT_PATIENCE)?;
    if result.is_done() {
        return Ok(());
    }
    Err(WatchError::Timer { timer: timer.to_string(), why: result.0 })
}

fn put(path: &Path, content: &HostContent) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match content {
        HostContent::Text(text) => replace(path, text.as_bytes(), 0o644),
        HostContent::Program(source) => replace(path, &fs::read(source)?, 0o755),
        HostContent::Link(target) => symlink(target, path),
    }
}

fn unit_name(name: &str) -> Result<ServiceName, WatchError> {
    name.parse().map_err(|error| WatchError::Refused(format!("{name}: {error}")))
}

/// Why no check comes by itself: files that are gone or others than a watch brought (a unit that is masked is a link), and
/// a timer that does not run.
pub(crate) fn faults(
    systemd: &Systemd,
    installed: &[Installed],
    name: &str,
) -> Result<Vec<String>, WatchError> {
    let mut faults = Vec::new();
    for file in installed {
        let path = file.path.display();
        match fs::symlink_metadata(&file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => faults.push(format!("{path} is gone")),
            Ok(found) if found.is_symlink() && !file.link => {
                let target = fs::read_link(&file.path).unwrap_or_default();
                let masked = if target == Path::new("/dev/null") { ": the unit is masked" } else { "" };
                faults.push(format!("{path} is a link to {}{masked}", target.display()));
            }
            _ if !is_gone_or_own(file)? => faults.push(format!("{path} is not what the watch brought")),
            _ => {}
        }
    }
    let timer = unit_name(&timer_name(name))?;
    let status = systemd.status(&timer)?;
    if status.active_state != "active" {
        faults.push(format!("{timer} is {} ({})", status.active_state, status.sub_state));
    }
    Ok(faults)
}

/// Stops the timer and removes the files that are still the watch's own, and folders that it or trials of this host made, if
/// they are empty.
pub(crate) fn remove(
    systemd: &Systemd,
    paths: &Paths,
    installed: &[Installed],
    folders: &[PathBuf],
    name: &str,
) -> Result<(), WatchError> {
    for file in installed {
        if !is_gone_or_own(file)? {
            return Err(WatchError::Drift { path: file.path.clone() });
        }
    }
    let timer = unit_name(&timer_name(name))?;
    match systemd.stop(&timer).and_then(|job| systemd.wait(&job, UNIT_PATIENCE)) {
        // One that was never there is no obstacle.
        Ok(_) | Err(SystemdError::Call { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for file in installed.iter().rev() {
        match fs::remove_file(&file.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WatchError::file("removing", &file.path)(error));
            }
            _ => {}
        }
    }
    let ledger = Ledger::of_this_host(paths).ok();
    let program = paths.program();
    let is_used = names(&paths.state).iter().any(|other| other != name)
        || ledger.as_ref().is_some_and(|ledger| ledger.brought(&program).is_some())
        || package_of(&HostRoot::default(), &program).is_some();
    if !is_used {
        // A trial that was reverted left it to the watch.
        let _ = fs::remove_file(&program);
    }
    let of_trials = ledger.map(|ledger| ledger.made_folders()).unwrap_or_default();
    for folder in folders.iter().rev().chain(of_trials.iter().rev()) {
        // Somebody else's file may be in it by now.
        let _ = fs::remove_dir(folder);
    }
    Ok(systemd.reload()?)
}

fn is_gone_or_own(file: &Installed) -> Result<bool, WatchError> {
    let fail = || WatchError::file("reading", &file.path);
    let found = match fs::symlink_metadata(&file.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        found => found.map_err(fail())?,
    };
    if file.link {
        return Ok(
            found.is_symlink() && fs::read_link(&file.path).map_err(fail())? == Path::new(&file.content)
        );
    }
    let bytes = if found.is_file() { fs::read(&file.path).map_err(fail())? } else { return Ok(false) };
    Ok(hex::encode(Sha256::digest(&bytes)) == file.content)
}
