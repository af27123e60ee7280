//! The steps of a service's transaction: each can be repeated after a crash at any moment.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use heaptrial_host::systemd::UnitEnvironment;
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{LifeKey, ServiceName};

use crate::change::{self, ChangeError};
use crate::files::{self, FileState};
use crate::health;
use crate::journal::{Change, Event};
use crate::state::Stage;
use crate::takeover::{self, Left, Takeover};
use crate::treatment::{Content, Desired};
use crate::trial::{FieldError, Trial, Witness};

/// Starting or stopping a timer.
const TIMER_PATIENCE: Duration = Duration::from_secs(30);

impl Trial<'_> {
    /// Announces and makes the changes of a service's files; continues what a killed run began. `life` runs now.
    pub(crate) fn write_files(&mut self, service: &ServiceName, life: Option<LifeKey>) -> Result<(), String> {
        self.try_write_files(service, life).map_err(|error| error.to_string())
    }

    fn try_write_files(&mut self, service: &ServiceName, life: Option<LifeKey>) -> Result<(), FieldError> {
        let treatment = self.treatment(service).ok_or_else(|| not_in_plan(service))?.clone();
        let begun = self.state.services.get(service);
        let begun = begun.filter(|state| state.stage != Stage::Reverted && state.undone.is_none());
        let changes = match begun {
            Some(state) => state.changes.clone(),
            None => {
                let left = self.left_on(service)?;
                let mut desired = treatment.files(&self.places, self.mark());
                for file in &left {
                    if desired.iter().all(|wanted| wanted.path != file.path) {
                        let content =
                            Content::Origin { state: file.origin.clone(), bytes: file.bytes.clone() };
                        desired.push(Desired { path: file.path.clone(), content });
                    }
                }
                let planned: Vec<change::Planned> = desired
                    .iter()
                    .map(|file| {
                        let left = left.iter().find(|left| left.path == file.path);
                        change::plan(file, left, self.mark(), &self.journal)
                    })
                    .collect::<Result<_, ChangeError>>()?;
                if let (Some(relay), false) = (&treatment.relay, treatment.torrc.is_empty()) {
                    let torrc = planned.iter().find(|planned| planned.change.path == relay.torrc);
                    torrc.map_or(Ok(()), |planned| {
                        crate::torrc::verify(relay, &planned.change.after, &planned.bytes)
                    })?;
                }
                let changes: Vec<Change> = planned.into_iter().map(|planned| planned.change).collect();
                self.record(Event::Intent {
                    service: service.clone(),
                    arm: treatment.arm.clone(),
                    changes: changes.clone(),
                    life,
                })?;
                changes
            }
        };
        for change in &changes {
            change::make(change, &self.journal)?;
            if change.after == FileState::Absent {
                self.stop_timer(takeover::timer_of(&self.places, change));
            }
        }
        self.record(Event::Written { service: service.clone() })
    }

    /// What ended trials left on a service, which only a rollout takes over.
    fn left_on(&mut self, service: &ServiceName) -> Result<Vec<Left>, FieldError> {
        if self.prepared.rollout.is_none() {
            return Ok(Vec::new());
        }
        let takeover = match self.takeover.take() {
            Some(known) => known,
            None => Takeover::read(&self.places, &self.prepared.plan.name)?,
        };
        let left = takeover.left_on(service);
        self.takeover = Some(takeover);
        left
    }

    /// Puts the files of a service back, and stops its timer.
    pub(crate) fn undo_files(&mut self, service: &ServiceName) -> Result<(), String> {
        let Some(state) = self.state.services.get(service) else { return Ok(()) };
        let changes = state.changes.clone();
        for change in &changes {
            change::check_undo(change, &self.journal).map_err(|error| error.to_string())?;
        }
        self.stop_timer(self.treatment(service).and_then(|treatment| treatment.timer()));
        for change in changes.iter().rev() {
            change::undo(change, &self.journal).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn stop_timer(&self, timer: Option<ServiceName>) {
        // One that was never started is no obstacle.
        if let Some(job) = timer.and_then(|timer| self.systemd.queue_stop(&timer).ok()) {
            let _ = self.systemd.wait(&job, TIMER_PATIENCE);
        }
    }

    /// Starts the timers that an earlier trial had left on a service, once their files are back.
    pub(crate) fn start_timers_again(&self, service: &ServiceName) -> Result<(), String> {
        let changes = self.state.services.get(service).map_or(&[][..], |state| &state.changes);
        for change in changes.iter().filter(|change| change.before != FileState::Absent) {
            let Some(timer) = takeover::timer_of(&self.places, change) else { continue };
            let job = self.systemd.queue_start(&timer).map_err(|error| error.to_string())?;
            let result = self.systemd.wait(&job, TIMER_PATIENCE).map_err(|error| error.to_string())?;
            if !result.is_done() {
                return Err(format!("{timer} did not start again: {}", result.0));
            }
        }
        Ok(())
    }

    /// Whether systemd's own view has the treatment: a later drop-in may override ours.
    pub(crate) fn check_effective(
        &mut self,
        service: &ServiceName,
        systemds: &UnitEnvironment,
    ) -> Result<(), String> {
        let treatment = self.treatment(service).ok_or_else(|| not_in_plan(service).to_string())?.clone();
        if !treatment.environment.is_empty() || !treatment.unset.is_empty() {
            let ours = self.places.drop_in(service);
            let Some(position) = systemds.drop_ins.iter().position(|path| *path == ours) else {
                return Err(format!("systemd did not take {} in", ours.display()));
            };
            let later: Vec<String> =
                systemds.drop_ins[position + 1..].iter().map(|path| path.display().to_string()).collect();
            let blame = if later.is_empty() {
                String::new()
            } else {
                format!("; {} comes after it", later.join(", "))
            };
            for (name, value) in &treatment.environment {
                match systemds.value(name) {
                    Some(found) if found == value => {}
                    found => {
                        let found = found.unwrap_or("not set");
                        return Err(format!("{name} is `{found}` for systemd and not `{value}`{blame}"));
                    }
                }
            }
            if let Some(kept) = treatment.unset.iter().find(|name| !systemds.unset.contains(name)) {
                return Err(format!("{kept} is not removed from its environment{blame}"));
            }
        }
        self.record(Event::Effective { service: service.clone() }).map_err(|error| error.to_string())
    }

    /// Whether the library that a service is about to load is still the one that was installed.
    pub(crate) fn check_library(&mut self, service: &ServiceName) -> Result<(), String> {
        let Some(treatment) = self.treatment(service) else { return Ok(()) };
        let Some(object) = treatment.expected.object.clone() else { return Ok(()) };
        if !self.places.owns(&object) {
            return Ok(());
        }
        let gone = |problem: String| format!("its library {}: {problem}", object.display());
        let metadata = std::fs::symlink_metadata(&object).map_err(|error| gone(error.to_string()))?;
        let seen = (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
        if self.checked_libraries.get(&object) == Some(&seen) {
            return Ok(());
        }
        let sha256 = treatment.expected.sha256.clone();
        match FileState::read(&object).map_err(|error| gone(error.to_string()))? {
            FileState::File { sha256: found, uid: 0, mode, .. } if found == sha256 && mode & 0o022 == 0 => {
                self.checked_libraries.insert(object, seen);
                Ok(())
            }
            _ => Err(gone("it is not the file that was installed, or others can write it".to_owned())),
        }
    }

    /// Starts the timer that restarts the service, where its arm has one.
    pub(crate) fn start_timer(&self, service: &ServiceName) -> Result<(), String> {
        let Some(timer) = self.treatment(service).and_then(|treatment| treatment.timer()) else {
            return Ok(());
        };
        let job = self.systemd.queue_start(&timer).map_err(|error| error.to_string())?;
        let result = self.systemd.wait(&job, TIMER_PATIENCE).map_err(|error| error.to_string())?;
        if result.is_done() { Ok(()) } else { Err(format!("its timer {timer} did not start: {}", result.0)) }
    }

    /// The life of a service that an earlier, killed run restarted already, if it runs what it should.
    pub(crate) fn adopt(&self, service: &ServiceName) -> Option<LifeKey> {
        let state = self.state.services.get(service)?;
        if !state.restarted || state.undone.is_some() {
            return None;
        }
        let life = self.current_life(service).filter(|life| Some(life) != state.life_before.as_ref())?;
        health::proof(&life, self.treatment(service)?, &self.identifier).ok().map(|_| life)
    }

    /// Whether the process that runs now may have been started with the treatment's files.
    pub(crate) fn runs_the_treatment(&self, service: &ServiceName) -> bool {
        let Some(state) = self.state.services.get(service) else { return false };
        match &state.undone {
            // Without a process there is nothing to tell apart: a restart brings it up as it was.
            Some(life) => life.is_some() && self.current_life(service).is_none_or(|now| Some(now) == *life),
            None => state.restarted || self.current_life(service) != state.life_before,
        }
    }

    /// Notes that systemd knows a service without its treatment; gives whether it has to be restarted for that.
    pub(crate) fn undone(&mut self, service: &ServiceName, witness: &mut dyn Witness) -> bool {
        let treated = self.runs_the_treatment(service);
        if self.state.services.get(service).is_some_and(|state| state.undone.is_none()) {
            let life = self.current_life(service).filter(|_| treated);
            self.note(Event::Undone { service: service.clone(), life }, witness);
        }
        treated
    }

    pub(crate) fn current_life(&self, service: &ServiceName) -> Option<LifeKey> {
        life_of(self.systemd.activity(service).ok()?.main_pid?)
    }

    /// The lives of several services, in their order.
    pub(crate) fn current_lives(&self, services: &[ServiceName]) -> Vec<Option<LifeKey>> {
        let activities = self.systemd.activities(services);
        activities.into_iter().map(|activity| life_of(activity.ok()?.main_pid?)).collect()
    }
}

fn life_of(pid: i32) -> Option<LifeKey> {
    Process::new(&HostRoot::default(), pid).life_key().ok()
}

fn not_in_plan(service: &ServiceName) -> FieldError {
    FieldError::Stage(format!("{service} is not in the frozen plan"))
}

/// Whether a file is there with these bytes.
pub(crate) fn is_installed(path: &std::path::Path, sha256: &str) -> Result<bool, files::FileError> {
    Ok(matches!(FileState::read(path)?, FileState::File { sha256: found, .. } if found == sha256))
}
