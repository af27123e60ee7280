//! What a transaction brings to the host as a whole: libraries, a copy of the program, recovery timer, the agent's unit.

use std::path::Path;

use heaptrial_model::ServiceName;

use crate::edit;
use crate::error::ChangeError;
use crate::files::{self, File, FileError, FileState};
use crate::journal::{Change, Event};
use crate::service::is_installed;
use crate::trial::Trial;

/// The recovery timer looks this often, also after a boot, whether the process that changes services is still there.
const RECOVERY_SECONDS: u32 = 120;
/// Stem of its units, before the transaction's name.
const RECOVERY_STEM: &str = "heaptrial-recovery-";
/// Files up to this size are kept, so that a message can show what somebody changed in them.
const LARGEST_KEPT: usize = 16_384;

impl Trial<'_> {
    /// Installs libraries, the agent's unit and the copy of the program; what is there already is left alone. Their
    /// bytes are not saved with the journal: a run that continues another has them again.
    pub(crate) fn install(&mut self) -> Result<(), ChangeError> {
        let own = self.host.programs.own_program();
        let own = own.map_err(FileError::new("finding the running program", Path::new("/proc/self/exe")))?;
        let mut files = Vec::new();
        // A copy for the recovery timer, should the program's own file go.
        if own != self.paths.program() {
            files.push(self.copy_of(&own, &self.paths.program(), None, 0o755)?);
        }
        for library in &self.prepared.libraries {
            // One that another trial brought is this trial's as well, so that it stays until both are reverted.
            let is_shared = self.others.brought(&library.installed).is_some();
            if is_shared || !is_installed(self.host.disk, &library.installed, &library.sha256)? {
                let sha256 = Some(library.sha256.as_str());
                files.push(self.copy_of(&library.source, &library.installed, sha256, 0o644)?);
            }
        }
        let agent = self.prepared.agent.clone();
        if let Some(agent) = &agent {
            files.push(File::text(self.paths.unit(agent.name.as_str()), &agent.text));
            let target = self.paths.scope.target();
            let link = self.paths.unit(&format!("{target}.wants/{}", agent.name));
            files.push(File::link(link, &format!("../{}", agent.name)));
        }
        self.put_host_files(files)?;
        if let Some(agent) = agent {
            self.host.manager.reload()?;
            if let Err(why) = self.started(&agent.name) {
                self.warn(&why.to_string());
            }
        }
        Ok(())
    }

    /// Arms the timer that takes over if this process does not come back.
    pub(crate) fn arm(&mut self) -> Result<(), ChangeError> {
        let stem = self.recovery_stem();
        let files = self.recovery_timer();
        self.is_disarmed = false;
        self.put_host_files(files)?;
        let Ok(timer) = format!("{stem}.timer").parse::<ServiceName>() else { return Ok(()) };
        self.forget_failure(&timer);
        // systemd finds a unit that it never knew by itself, and reading all units anew takes long on a large host.
        let result = match self.start_unit(&timer) {
            Ok(result) => result,
            Err(_) => {
                self.host.manager.reload()?;
                self.start_unit(&timer)?
            }
        };
        if !result.is_done() {
            let how = result.0;
            self.warn(&format!("{timer} did not start ({how}): nobody takes over if this process ends"));
        }
        Ok(())
    }

    fn recovery_stem(&self) -> String {
        format!("{RECOVERY_STEM}{}", self.prepared.plan.name)
    }

    /// A timer that is there after each boot, and the unit that it starts.
    fn recovery_timer(&self) -> Vec<File> {
        let (name, stem) = (&self.prepared.plan.name, self.recovery_stem());
        let words = [self.paths.scope.option(), &["trial", "recover", name]].concat().join(" ");
        let mut service = format!(
            "[Unit]\nDescription=Put right what a Heaptrial that was cut short left of trial {name}\n\n[Service]\nType=oneshot\nExecStart={} {words}\n",
            self.paths.program().display(),
        );
        for (variable, value) in self.paths.environment() {
            service += &format!("Environment={variable}={}\n", value.display());
        }
        let timer = format!(
            "[Unit]\nDescription=Look after a Heaptrial that changes services for trial {name}\n\n[Timer]\nOnActiveSec={RECOVERY_SECONDS}s\nOnUnitInactiveSec={RECOVERY_SECONDS}s\n"
        );
        let link = self.paths.unit(&format!("timers.target.wants/{stem}.timer"));
        vec![
            File::text(self.paths.unit(&format!("{stem}.service")), &service),
            File::text(self.paths.unit(&format!("{stem}.timer")), &timer),
            File::link(link, &format!("../{stem}.timer")),
        ]
    }

    fn is_of_recovery(&self, path: &Path) -> bool {
        self.recovery_timer().iter().any(|file| file.path == path)
    }

    /// Removes the recovery timer: there is nothing left to take over.
    pub(crate) fn disarm(&mut self) -> Result<(), ChangeError> {
        let stem = self.recovery_stem();
        let changes = self.state.host_changes.iter().filter(|change| self.is_of_recovery(&change.path));
        let changes: Vec<Change> = changes.cloned().collect();
        // Where it fails it is not tried again and again while a rollout waits: the timer's own run does it.
        if changes.is_empty() || std::mem::replace(&mut self.is_disarmed, true) {
            return Ok(());
        }
        if let Ok(timer) = format!("{stem}.timer").parse::<ServiceName>() {
            let _ = self.stop_unit(&timer);
            self.forget_failure(&timer);
        }
        if let Ok(service) = format!("{stem}.service").parse::<ServiceName>() {
            self.forget_failure(&service);
        }
        for change in changes.iter().rev() {
            edit::undo(change, &self.journal)?;
        }
        Ok(self.host.manager.reload()?)
    }

    /// Puts the host's own files back, but for those that another trial uses: the last one that does puts them back.
    pub(crate) fn undo_host_files(&mut self) -> Result<(), ChangeError> {
        let disk = self.host.disk;
        let program = self.paths.program();
        let mut used = match self.others.used_host_files() {
            Ok(used) => used,
            Err(error) => {
                self.warn(&format!("{error}; what that trial may use is left where it is"));
                self.state.host_changes.iter().map(|change| change.path.as_path()).collect()
            }
        };
        if disk.names(&self.paths.watches()).is_ok_and(|watches| !watches.is_empty()) {
            // Their timers run it.
            used.insert(&program);
        }
        // What was given up may still name its library.
        let is_made =
            |change: &Change| disk.look(&change.path).is_ok_and(|(now, _)| !change.before.is_same(&now));
        let given_up = self.state.given_up.iter().filter(|service| self.changes(service).iter().any(is_made));
        let named: Vec<&Path> = given_up
            .filter_map(|service| self.prepared.treatment(service)?.expected.object.as_deref())
            .collect();
        // A package that was installed since may have brought the same file: it is the package's now.
        let is_left = |path: &Path| {
            used.contains(path) || named.contains(&path) || self.host.programs.is_packaged(path)
        };
        let changes = self.state.host_changes.iter().filter(|change| !is_left(&change.path));
        let changes: Vec<Change> = changes.cloned().collect();
        let removed =
            |name: &ServiceName| changes.iter().any(|change| change.path == self.paths.unit(name.as_str()));
        if let Some(agent) = self.prepared.agent.as_ref().map(|agent| agent.name.clone()).filter(removed) {
            if let Err(error) = self.stop_unit(&agent) {
                self.warn(&error.to_string());
            }
            self.forget_failure(&agent);
        }
        // What takes over if this process ends goes last.
        let others = changes.iter().rev().filter(|change| !self.is_of_recovery(&change.path));
        let (last, first): (Vec<&Change>, Vec<&Change>) = others.partition(|change| change.path == program);
        self.put_host_files_back(&first)?;
        self.disarm()?;
        self.put_host_files_back(&last)?;
        // Others may have made folders that only this one's files were left in.
        if let Err(error) = files::remove_empty_folders(disk, &self.others.made_folders()) {
            self.warn(&error.to_string());
        }
        Ok(self.host.manager.reload()?)
    }

    /// A unit that is gone is not to stay among those that failed.
    fn forget_failure(&self, unit: &ServiceName) {
        let _ = self.host.manager.reset_failed(unit);
    }

    fn put_host_files_back(&mut self, changes: &[&Change]) -> Result<(), ChangeError> {
        let disk = self.host.disk;
        for change in changes {
            if change.before != FileState::Absent || !self.paths.owns(&change.path) {
                edit::undo(change, &self.journal)?;
                continue;
            }
            let present = files::read(disk, &change.path)?.0;
            // A newer version of the program may have replaced itself since.
            let is_own = change.path == self.paths.program() || present.is_same(&change.after);
            if !is_own && present != FileState::Absent {
                let path = change.path.display();
                self.warn(&format!(
                    "{path} is not the file that was installed there: somebody replaced or changed it, and it is left; remove \
                     it if nobody needs it"
                ));
                continue;
            }
            files::remove_leftover(disk, &change.path)?;
            files::put(disk, &change.path, &FileState::Absent, b"")?;
            files::remove_empty_folders(disk, &change.made_folders)?;
        }
        Ok(())
    }

    fn put_host_files(&mut self, files: Vec<File>) -> Result<(), ChangeError> {
        let disk = self.host.disk;
        let mut changes = Vec::new();
        for file in &files {
            let (before, present) = files::read(disk, &file.path)?;
            if before.is_same(&file.state) {
                files::settle(disk, &file.path)?;
                // Another trial's: whoever is reverted last puts it back.
                let known = self.state.host_changes.iter().any(|known| known.path == file.path);
                if !known {
                    // It may have been written anew since, by a newer program.
                    let found = self.others.brought(&file.path).cloned();
                    changes.extend(found.map(|found| Change { after: file.state.clone(), ..found }));
                }
                continue;
            }
            let own = self.state.host_changes.iter().find(|known| known.path == file.path);
            let known = own.or_else(|| self.others.brought(&file.path));
            let is_free = before == FileState::Absent || file.path == self.paths.program();
            match known {
                _ if is_free => {}
                Some(known) if known.after.is_same(&before) => {}
                Some(known) => {
                    let drift = edit::drift(known, &before, &present, &known.after, &self.journal);
                    return Err(drift);
                }
                None => return Err(edit::foreign(&file.path, &before, &present)),
            }
            if matches!(file.state, FileState::File { .. }) && file.bytes.len() <= LARGEST_KEPT {
                self.journal.save_original(&file.bytes)?;
            }
            changes.push(edit::planned(file, before, &present, &self.journal)?);
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.record(Event::Intent { service: None, arm: None, changes: changes.clone(), life: None })?;
        for change in &changes {
            let Some(file) = files.iter().find(|file| file.path == change.path) else { continue };
            edit::make_with(change, &file.bytes, &self.journal)?;
        }
        Ok(())
    }

    fn copy_of(
        &self,
        source: &Path,
        path: &Path,
        sha256: Option<&str>,
        mode: u32,
    ) -> Result<File, ChangeError> {
        let bytes = self.host.disk.read(source).map_err(FileError::new("reading", source))?;
        let found = files::digest(&bytes);
        if let Some(wanted) = sha256.filter(|wanted| *wanted != found) {
            return Err(ChangeError::Refused(format!(
                "{}: its SHA-256 is {found}, and the plan was made for {wanted}",
                source.display()
            )));
        }
        let state = FileState::of_this_user(found, mode);
        Ok(File { path: path.to_owned(), state, bytes })
    }
}
