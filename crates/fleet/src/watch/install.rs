//! What a watch brings to the host: a timer, the service that it runs, and the program, where no package and no trial brought it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_change::{FileState, Ledger};
use heaptrial_host::systemd::{Manager as _, Systemd, SystemdError, unit_word};
use heaptrial_host::{HostRoot, Paths, package_of};
use heaptrial_model::ServiceName;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::watch::error::WatchError;
use crate::watch::folder::{names, remove_file, replace};
use crate::watch::plan::WatchPlan;

const UNIT_PATIENCE: Duration = Duration::from_secs(30);

/// A unit file that a watch brings, or a link to one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFile {
    pub path: PathBuf,
    /// Of a link its target.
    pub text: String,
    pub is_link: bool,
}

impl UnitFile {
    /// Whether it is as the watch brought it; `None` where it is gone.
    fn is_own(&self) -> Result<Option<bool>, WatchError> {
        let found = FileState::read(&self.path).map_err(|error| WatchError::Failed(error.to_string()))?;
        Ok(match found {
            FileState::Absent => None,
            FileState::File { sha256, .. } => {
                Some(!self.is_link && sha256 == hex::encode(Sha256::digest(&self.text)))
            }
            FileState::Link { target } => Some(self.is_link && target == Path::new(&self.text)),
            FileState::Other => Some(false),
        })
    }

    fn put(&self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        match self.is_link {
            true => symlink(&self.text, &self.path),
            false => replace(&self.path, self.text.as_bytes(), 0o644),
        }
    }
}

/// The running program, and where the timer's service runs it: a package brings its newer versions to where it is.
fn program(paths: &Paths) -> Result<(PathBuf, PathBuf), WatchError> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(WatchError::file("finding the running program", Path::new("/proc/self/exe")))?;
    let packaged = package_of(&HostRoot::default(), &own).is_some();
    Ok((own.clone(), if packaged { own } else { paths.program() }))
}

/// The unit files of a watch with the link last.
pub(crate) fn unit_files(
    paths: &Paths,
    name: &str,
    every_minutes: u64,
    database: Option<&Path>,
) -> Result<Vec<UnitFile>, WatchError> {
    let (_, program) = program(paths)?;
    let database = match database {
        Some(path) => format!(" --db {}", word(path)?),
        None => String::new(),
    };
    let service = format!(
        "[Unit]\nDescription=Look whether services of watch {name} are as before\n\n\
         [Service]\nType=oneshot\nExecStart={program}{database} watch check {name}\n\
         # No data, and alerts that stand: the check itself did not fail.\nSuccessExitStatus=4 5\n\
         TimeoutStartSec=15min\nNice=10\nProtectSystem=full\n",
        program = word(&program)?,
    );
    let timer = format!(
        "[Unit]\nDescription=Watch services of {name}\n\n\
         [Timer]\nOnActiveSec=1min\nOnUnitActiveSec={every_minutes}min\nAccuracySec=10s\n"
    );
    let (timer_name, service_name) = (timer_name(name), format!("heaptrial-watch-{name}.service"));
    let file = |name: &str, text: String, is_link| UnitFile { path: paths.unit(name), text, is_link };
    let files = vec![
        file(&service_name, service, false),
        file(&timer_name, timer, false),
        file(&format!("timers.target.wants/{timer_name}"), format!("../{timer_name}"), true),
    ];
    if let Some(present) = files.iter().find(|file| fs::symlink_metadata(&file.path).is_ok()) {
        return Err(WatchError::Refused(format!(
            "{} is there already, and no watch of this host has brought it; move it away",
            present.path.display()
        )));
    }
    Ok(files)
}

fn timer_name(name: &str) -> String {
    format!("heaptrial-watch-{name}.timer")
}

fn timer(name: &str) -> Result<ServiceName, WatchError> {
    timer_name(name).parse().map_err(|error| WatchError::Refused(format!("{name}: {error}")))
}

/// A path as one word of a unit file.
fn word(path: &Path) -> Result<String, WatchError> {
    let word = path.to_str().filter(|text| text.starts_with('/')).and_then(unit_word);
    word.ok_or_else(|| {
        WatchError::Refused(format!(
            "{} cannot be written into a unit file; give an absolute path",
            path.display()
        ))
    })
}

/// Brings the program and the files, and starts the timer.
pub(crate) fn install(systemd: &Systemd, paths: &Paths, plan: &WatchPlan) -> Result<(), WatchError> {
    let (own, program) = program(paths)?;
    if own != program {
        let made = program.parent().map_or(Ok(()), fs::create_dir_all);
        let copied = made.and_then(|()| replace(&program, &fs::read(own)?, 0o755));
        copied.map_err(WatchError::file("writing", &program))?;
    }
    for file in &plan.installed {
        file.put().map_err(WatchError::file("writing", &file.path))?;
    }
    systemd.reload()?;
    let timer = timer(&plan.name)?;
    let job = systemd.start(&timer)?;
    let result = systemd.wait(&job, UNIT_PATIENCE)?;
    if result.is_done() {
        return Ok(());
    }
    let why = result.0;
    Err(WatchError::Failed(format!("{timer} did not start: {why}; `systemctl status {timer}` shows more")))
}

/// Why no check comes by itself: files that are gone, masked or changed, and a timer that does not run.
pub fn timer_faults(plan: &WatchPlan, systemd: &Systemd) -> Result<Vec<String>, WatchError> {
    let mut faults = Vec::new();
    for file in &plan.installed {
        match file.is_own()? {
            Some(true) => {}
            Some(false) => faults.push(format!("{} is masked or was changed", file.path.display())),
            None => faults.push(format!("{} is gone", file.path.display())),
        }
    }
    let timer = timer(&plan.name)?;
    let status = systemd.status(&timer)?;
    if status.active_state != "active" {
        faults.push(format!("{timer} is {} ({})", status.active_state, status.sub_state));
    }
    Ok(faults)
}

/// Stops the timer and removes the files that are still the watch's own, and folders of Heaptrial if they are empty.
pub(crate) fn remove(
    systemd: &Systemd,
    paths: &Paths,
    files: &[UnitFile],
    name: &str,
) -> Result<(), WatchError> {
    for file in files {
        if file.is_own()? == Some(false) {
            return Err(WatchError::Failed(format!(
                "{} was changed by somebody else and is left where it is; remove it by hand and repeat the command",
                file.path.display()
            )));
        }
    }
    let timer = timer(name)?;
    match systemd.stop(&timer).and_then(|job| systemd.wait(&job, UNIT_PATIENCE)) {
        // One that was never there is no obstacle.
        Ok(_) | Err(SystemdError::Call { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for file in files.iter().rev() {
        remove_file(&file.path)?;
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
    let of_trials = ledger.map(|ledger| ledger.made_folders()).unwrap_or_default().into_iter().rev();
    let own = program.ancestors().skip(1).take(2).map(Path::to_owned);
    for folder in of_trials.chain(own).chain([paths.unit("timers.target.wants")]) {
        // Somebody else's file may be in it.
        let _ = fs::remove_dir(folder);
    }
    Ok(systemd.reload()?)
}
