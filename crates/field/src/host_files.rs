//! What a trial brings to the host beside its services' files: libraries, a copy of the program for the dead man's
//! timer, that timer, and the agent's unit.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_host::{HostRoot, package_of};
use heaptrial_model::ServiceName;

use crate::Places;
use crate::change;
use crate::files::{self, FileState};
use crate::journal::{Change, Event, Journal};
use crate::state::{Stage, TrialState};
use crate::trial::{FieldError, Trial, Witness, trials};

/// The dead man's timer looks this often whether the process that changes services is still there; after a boot for the
/// first time this long after it.
const DEAD_MAN_SECONDS: u32 = 120;
const UNIT_PATIENCE: Duration = Duration::from_secs(30);

/// A file to install.
struct Installed {
    path: PathBuf,
    state: FileState,
    bytes: Vec<u8>,
}

impl Installed {
    fn text(path: PathBuf, text: &str) -> Self {
        Self { path, state: FileState::of_root(text.as_bytes()), bytes: text.as_bytes().to_vec() }
    }

    fn link(path: PathBuf, target: &str) -> Self {
        Self { path, state: FileState::Link { target: target.into() }, bytes: Vec::new() }
    }
}

impl Trial<'_> {
    /// Installs libraries, the agent's unit and the copy of the program; what is there already is left alone. Their
    /// bytes are not saved with the journal: a run that continues another has them again.
    pub(crate) fn install(&mut self, witness: &mut dyn Witness) -> Result<(), FieldError> {
        self.install_program()?;
        self.arm(witness)?;
        let mut files = Vec::new();
        for library in &self.prepared.libraries {
            // One that another trial brought is this trial's as well, so that it stays until both are reverted.
            let shared = inherited(&self.places, &library.installed).is_some();
            if shared || change_needed(&library.installed, &library.sha256)? {
                files.push(self.library(
                    &library.source,
                    &library.installed,
                    Some(&library.sha256),
                    0o644,
                )?);
            }
        }
        if let Some(agent) = self.prepared.agent.clone() {
            files.push(Installed::text(self.places.unit(agent.name.as_str()), &agent.text));
            let link = self.places.unit(&format!("multi-user.target.wants/{}", agent.name));
            files.push(Installed::link(link, &format!("../{}", agent.name)));
        }
        self.put_host_files(files)?;
        if let Some(agent) = &self.prepared.agent {
            self.systemd.reload()?;
            let started = self.systemd.queue_start(&agent.name);
            let result = started.and_then(|job| self.systemd.wait(&job, UNIT_PATIENCE));
            match result {
                Ok(result) if result.is_done() => {}
                Ok(result) => witness.warning(&format!("{} did not start: {}", agent.name, result.0)),
                Err(error) => witness.warning(&error.to_string()),
            }
        }
        Ok(())
    }

    /// Copies the program to where the dead man's timer finds it, should its own file go.
    fn install_program(&mut self) -> Result<(), FieldError> {
        let own = std::env::current_exe().and_then(|path| path.canonicalize());
        let own = own.map_err(|source| FieldError::Folder {
            doing: "finding the running program",
            path: "/proc/self/exe".into(),
            source,
        })?;
        let program = self.places.program();
        if own != program {
            let copy = self.library(&own, &program, None, 0o755)?;
            self.put_host_files(vec![copy])?;
        }
        Ok(())
    }

    /// Arms the timer that takes over if this process does not come back.
    pub(crate) fn arm(&mut self, witness: &mut dyn Witness) -> Result<(), FieldError> {
        let name = self.prepared.plan.name.clone();
        let stem = format!("heaptrial-dead-man-{name}");
        let program = self.places.program();
        let service = format!(
            "[Unit]\nDescription=Put right what a Heaptrial that was cut short left of trial {name}\n\n\
             [Service]\nType=oneshot\nExecStart={} trial dead-man {name}\n",
            program.display()
        );
        let timer = format!(
            "[Unit]\nDescription=Look after a Heaptrial that changes services for trial {name}\n\n\
             [Timer]\nOnActiveSec={DEAD_MAN_SECONDS}s\nOnUnitInactiveSec={DEAD_MAN_SECONDS}s\n"
        );
        let link = self.places.unit(&format!("timers.target.wants/{stem}.timer"));
        self.put_host_files(vec![
            Installed::text(self.places.unit(&format!("{stem}.service")), &service),
            Installed::text(self.places.unit(&format!("{stem}.timer")), &timer),
            Installed::link(link, &format!("../{stem}.timer")),
        ])?;
        let Ok(timer) = format!("{stem}.timer").parse::<ServiceName>() else { return Ok(()) };
        // systemd finds a unit that it never knew by itself, and reading all units anew takes long on a large host.
        let job = match self.systemd.queue_start(&timer) {
            Ok(job) => job,
            Err(_) => {
                self.systemd.reload()?;
                self.systemd.queue_start(&timer)?
            }
        };
        let result = self.systemd.wait(&job, UNIT_PATIENCE)?;
        if !result.is_done() {
            witness.warning(&format!(
                "{timer} did not start ({}): nobody takes over if this process ends",
                result.0
            ));
        }
        Ok(())
    }

    /// Removes the dead man's timer: there is nothing left to take over.
    pub(crate) fn disarm(&mut self) -> Result<(), FieldError> {
        let stem = format!("heaptrial-dead-man-{}", self.prepared.plan.name);
        if let Ok(timer) = format!("{stem}.timer").parse::<ServiceName>() {
            if let Ok(job) = self.systemd.queue_stop(&timer) {
                let _ = self.systemd.wait(&job, UNIT_PATIENCE);
            }
        }
        let own = |change: &&Change| {
            let name = change.path.file_name().unwrap_or_default().to_string_lossy();
            name == format!("{stem}.service") || name == format!("{stem}.timer")
        };
        let changes: Vec<Change> = self.state.host_changes.iter().filter(own).cloned().collect();
        for change in changes.iter().rev() {
            change::undo(change, &self.journal)?;
        }
        Ok(self.systemd.reload()?)
    }

    /// Puts the host's own files back, but for those that another trial uses: the last one that does puts them back.
    pub(crate) fn undo_host_files(&mut self, witness: &mut dyn Witness) -> Result<(), FieldError> {
        self.disarm()?;
        let used = match self.used_by_others() {
            Ok(used) => used,
            Err(error) => {
                witness.warning(&format!("{error}; what that trial may use is left where it is"));
                self.state.host_changes.iter().map(|change| change.path.clone()).collect()
            }
        };
        // A package that was installed since may have brought the same file: it is the package's now.
        let own = |change: &&Change| !used.contains(&change.path) && !packaged(&change.path);
        let changes: Vec<Change> = self.state.host_changes.iter().filter(own).cloned().collect();
        let removed =
            |name: &ServiceName| changes.iter().any(|change| change.path == self.places.unit(name.as_str()));
        if let Some(agent) = self.prepared.agent.as_ref().map(|agent| agent.name.clone()).filter(removed) {
            let stopped =
                self.systemd.queue_stop(&agent).and_then(|job| self.systemd.wait(&job, UNIT_PATIENCE));
            if let Err(error) = stopped {
                witness.warning(&error.to_string());
            }
        }
        for change in changes.iter().rev() {
            if change.before == FileState::Absent && self.places.owns(&change.path) {
                // A newer version of the program may have replaced it since.
                files::put(&change.path, &FileState::Absent, b"")?;
                files::remove_leftover(&change.path)?;
            } else {
                change::undo(change, &self.journal)?;
            }
        }
        // Folders of several files are empty only after the last of them.
        for change in changes.iter().rev() {
            files::remove_empty_folders(&change.made_folders)?;
        }
        self.systemd.reload()?;
        self.note(Event::HostReverted, witness);
        Ok(())
    }

    fn put_host_files(&mut self, files: Vec<Installed>) -> Result<(), FieldError> {
        let mut changes = Vec::new();
        for file in &files {
            let before = FileState::read(&file.path)?;
            if before.is_same(&file.state) {
                // Another trial's: whoever is reverted last puts it back.
                let known = self.state.host_changes.iter().any(|known| known.path == file.path);
                changes.extend(inherited(&self.places, &file.path).filter(|_| !known));
                continue;
            }
            let known = self.state.host_changes.iter().find(|known| known.path == file.path);
            if before != FileState::Absent && !known.is_some_and(|known| known.after.is_same(&before)) {
                let own_program = file.path == self.places.program();
                if !own_program {
                    let begins = "another text".to_owned();
                    return Err(change::ChangeError::Foreign { path: file.path.clone(), begins }.into());
                }
            }
            if let FileState::File { .. } = before {
                self.journal.save_original(&files::read(&file.path)?.1)?;
            }
            let made_folders = files::missing_folders(&file.path);
            changes.push(Change { path: file.path.clone(), before, after: file.state.clone(), made_folders });
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.record(Event::HostIntent { changes: changes.clone() })?;
        for change in &changes {
            let Some(file) = files.iter().find(|file| file.path == change.path) else { continue };
            change::make_with(change, &file.bytes, &self.journal)?;
        }
        Ok(())
    }

    fn library(
        &self,
        source: &Path,
        path: &Path,
        sha256: Option<&str>,
        mode: u32,
    ) -> Result<Installed, FieldError> {
        let fail = |problem: String| FieldError::Library { path: source.to_owned(), problem };
        let bytes = std::fs::read(source).map_err(|error| fail(error.to_string()))?;
        let found = files::digest(&bytes);
        if let Some(wanted) = sha256.filter(|wanted| *wanted != found) {
            return Err(fail(format!("its SHA-256 is {found}, and the plan was made for {wanted}")));
        }
        let state =
            FileState::File { sha256: found, mode, uid: 0, gid: 0, modified_ns: 0, attributes: Vec::new() };
        Ok(Installed { path: path.to_owned(), state, bytes })
    }

    /// Files that other trials of this host brought, or found there and rely on.
    fn used_by_others(&self) -> Result<Vec<PathBuf>, FieldError> {
        let own = &self.prepared.plan.name;
        let mut used = Vec::new();
        for name in trials(&self.places).into_iter().filter(|name| name != own) {
            let state = TrialState::of(&Journal::read(&self.places.trial(&name))?);
            if state.services.values().any(|service| service.stage != Stage::Reverted) {
                used.extend(state.host_changes.into_iter().map(|change| change.path));
            }
        }
        Ok(used)
    }
}

/// The change by which some trial of this host brought a file.
pub fn inherited(places: &Places, path: &Path) -> Option<Change> {
    trials(places).into_iter().find_map(|name| {
        let state = TrialState::of(&Journal::read(&places.trial(&name)).ok()?);
        state.host_changes.into_iter().find(|change| change.path == path)
    })
}

/// Whether a Debian package has this file.
fn packaged(path: &Path) -> bool {
    package_of(&HostRoot::default(), path).is_some()
}

/// Whether a library has to be installed: it is missing. One with other bytes is refused when it is written.
fn change_needed(path: &Path, sha256: &str) -> Result<bool, FieldError> {
    if !crate::steps::is_installed(path, sha256)? {
        return Ok(true);
    }
    let ours = std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o022 == 0 && found.uid() == 0);
    Ok(!ours)
}
