//! What is done to one service and found out about it; each step can be repeated after a crash at any moment.

use std::path::Path;
use std::time::Duration;

use heaptrial_host::Paths;
use heaptrial_host::systemd::{Job, JobResult, SystemdError};
use heaptrial_model::{Identity, LifeKey, ServiceName};

use crate::edges::Disk;
use crate::edit;
use crate::error::{ChangeError, ServiceError};
use crate::files::{self, FileError, FileState};
use crate::health::{self, Health, Running};
use crate::journal::{Change, Event};
use crate::ledger::timer_of;
use crate::treatment::ServiceTreatment;
use crate::trial::Trial;

/// Starting or stopping a unit of ours.
const UNIT_PATIENCE: Duration = Duration::from_secs(30);

/// systemd may go away more than once before it hears of a restart.
const MOST_ASKED: u32 = 4;

impl Trial<'_> {
    fn planned(&self, service: &ServiceName) -> Result<&ServiceTreatment, ServiceError> {
        self.prepared
            .treatment(service)
            .ok_or_else(|| ServiceError(format!("{service} is not in the frozen plan")))
    }

    /// Announces the changes of a service's files and makes them; once systemd has read them its next life will have the
    /// treatment.
    pub(crate) fn write_files(&mut self, service: &ServiceName) -> Result<(), ServiceError> {
        let running = health::running(self.host, service);
        // What somebody stopped is not started by a treatment.
        if self.state.stays_stopped(service, &running) {
            return Err(ServiceError("it is stopped; start it, or leave it out, and go on".to_owned()));
        }
        let changes = self.plan_files(service)?;
        let (arm, name) = (self.planned(service)?.arm.clone(), service.clone());
        let life = running.life();
        self.record(Event::Intent { service: Some(name), arm: Some(arm), changes, life })?;
        for change in &self.changes(service) {
            edit::make(change, &self.journal)?;
            if change.after == FileState::Absent {
                self.stop_timer(timer_of(&self.paths, change));
            }
        }
        Ok(())
    }

    /// Whether the restart of a service whose files are written will give it its treatment, and is still wanted.
    pub(crate) fn check_ready(&self, service: &ServiceName, running: &Running) -> Result<(), ServiceError> {
        let ran = self.state.services.get(service).is_some_and(|state| state.life_before.is_some());
        if ran && *running == Running::Stopped {
            return Err(ServiceError("somebody stopped it before its turn".to_owned()));
        }
        let treatment = self.planned(service)?;
        // A later drop-in may override ours.
        if let Some(systemds) = self.host.manager.environments(std::slice::from_ref(service))?.pop() {
            treatment.check_settings(&self.paths, &systemds)?;
        }
        check_library(self.host.disk, &self.paths, treatment)
    }

    /// The changes of a service's files, with the bytes of before and after saved.
    fn plan_files(&self, service: &ServiceName) -> Result<Vec<Change>, ServiceError> {
        let treatment = self.planned(service)?;
        // What ended ones left, where this one takes their place.
        let left = match self.prepared.owner.takes_over {
            true => self.others.left_on(service)?,
            false => Vec::new(),
        };
        let mark = self.prepared.mark();
        let left_at = |path: &Path| left.iter().find(|left| left.path == path);
        let mut changes = Vec::new();
        for file in treatment.files(&self.paths, &mark) {
            changes.push(edit::plan(&file, left_at(&file.path).is_some(), &self.journal)?);
        }
        if let Some(relay) = treatment.changed_relay() {
            let left = left_at(&relay.torrc);
            let change = edit::plan_torrc(&relay.torrc, &treatment.torrc, &mark, left, &self.journal)?;
            self.host.programs.verify_torrc(relay, &self.journal.original(&change.after)?)?;
            changes.push(change);
        }
        for file in &left {
            if changes.iter().all(|change| change.path != file.path) {
                changes.push(edit::plan(file, true, &self.journal)?);
            }
        }
        Ok(changes)
    }

    /// Whether every file of a service is as it was written; those that are not are as before, or an error.
    pub(crate) fn is_written(&self, service: &ServiceName) -> Result<bool, ChangeError> {
        let mut all = true;
        for change in &self.changes(service) {
            all &= edit::is_made(change, &self.journal)?;
        }
        Ok(all)
    }

    pub(crate) fn changes(&self, service: &ServiceName) -> Vec<Change> {
        self.state.services.get(service).map(|state| state.changes.clone()).unwrap_or_default()
    }

    /// Puts the files of a service back, and stops its timer.
    pub(crate) fn undo_files(&mut self, service: &ServiceName) -> Result<(), ServiceError> {
        // All or nothing: of a service with a file that somebody else changed every file stays.
        self.is_written(service)?;
        let changes = self.changes(service);
        for change in changes.iter().rev() {
            self.stop_timer(timer_of(&self.paths, change));
            edit::undo(change, &self.journal)?;
        }
        Ok(())
    }

    fn stop_timer(&self, timer: Option<ServiceName>) {
        // One that was never started is no obstacle.
        if let Some(timer) = timer {
            let _ = self.stop_unit(&timer);
        }
    }

    /// Starts the timers that an earlier trial had left on a service, once their files are back.
    pub(crate) fn start_timers_again(&self, service: &ServiceName) -> Result<(), ServiceError> {
        let changes = self.changes(service);
        let restored = changes.iter().filter(|change| change.before != FileState::Absent);
        let mut timers = restored.filter_map(|change| timer_of(&self.paths, change));
        timers.try_for_each(|timer| self.started(&timer))
    }

    /// Starts the timer that restarts a service, where its arm has one.
    pub(crate) fn start_timer(&self, service: &ServiceName) -> Result<(), ServiceError> {
        self.planned(service)?.timer().map_or(Ok(()), |timer| self.started(&timer))
    }

    /// Starts a unit of ours, which has to come up.
    pub(crate) fn started(&self, unit: &ServiceName) -> Result<(), ServiceError> {
        let result = self.start_unit(unit)?;
        match result.is_done() {
            true => Ok(()),
            false => Err(ServiceError(format!("{unit} did not start: {}", result.0))),
        }
    }

    pub(crate) fn start_unit(&self, unit: &ServiceName) -> Result<JobResult, SystemdError> {
        self.through(|| self.host.manager.start(unit))
    }

    pub(crate) fn stop_unit(&self, unit: &ServiceName) -> Result<JobResult, SystemdError> {
        self.through(|| self.host.manager.stop(unit))
    }

    /// Queues a job and waits for it. Starting what is started, or stopping what is stopped, changes nothing: it is asked
    /// again when systemd went away before it answered.
    fn through(&self, queue: impl Fn() -> Result<Job, SystemdError>) -> Result<JobResult, SystemdError> {
        let wait = || self.host.manager.wait(&queue()?, UNIT_PATIENCE);
        match wait() {
            Err(SystemdError::Lost { .. }) => wait(),
            waited => waited,
        }
    }

    /// Queues a restart of a service of which `running` runs; gives the life that ran before. If systemd went away it is
    /// asked again: at worst it restarts twice.
    pub(crate) fn restart(
        &self,
        service: &ServiceName,
        mut running: Running,
    ) -> Result<Option<LifeKey>, ServiceError> {
        let mut asked = 0;
        loop {
            asked += 1;
            match self.host.manager.restart(service) {
                Err(SystemdError::Lost { .. }) if asked < MOST_ASKED => {
                    running = health::running(self.host, service);
                }
                queued => return Ok(queued.map(|_| running.life())?),
            }
        }
    }

    /// What a life runs, options of a torrc included, if that is what it should.
    pub(crate) fn prove(&self, service: &ServiceName, life: &LifeKey) -> Result<Identity, ServiceError> {
        let treatment = self.planned(service)?;
        if let Some(relay) = treatment.changed_relay() {
            self.host.programs.options_in_force(relay, &treatment.torrc)?;
        }
        health::proof(self.host, life, treatment)
    }

    /// Whether a service does its work.
    pub(crate) fn health(&self, service: &ServiceName) -> Health {
        match self.planned(service) {
            Ok(treatment) => health::look(self.host, treatment, self.host.manager.status(service).as_ref()),
            Err(why) => Health::Sick(why.to_string()),
        }
    }

    /// Whether a life still runs; if not, how it ended.
    pub(crate) fn still_runs(&self, service: &ServiceName, life: &LifeKey) -> Result<(), String> {
        if self.host.programs.life(life.pid).as_ref() == Some(life) {
            return Ok(());
        }
        let status = self.host.manager.status(service).map_err(|error| error.to_string())?;
        Err(health::how_it_ended(&status))
    }
}

/// Whether the library of a treatment is still the one that was installed.
pub(crate) fn check_library(
    disk: &dyn Disk,
    paths: &Paths,
    treatment: &ServiceTreatment,
) -> Result<(), ServiceError> {
    let Some(path) = treatment.expected.object.as_ref().filter(|path| paths.owns(path)) else {
        return Ok(());
    };
    match is_installed(disk, path, &treatment.expected.sha256)? {
        true => Ok(()),
        false => Err(ServiceError(format!(
            "its library {}: it is not the file that was installed, or others can write it",
            path.display()
        ))),
    }
}

/// Whether a library is there with these bytes, and nobody else can write it.
pub(crate) fn is_installed(disk: &dyn Disk, path: &Path, sha256: &str) -> Result<bool, FileError> {
    let present = files::read(disk, path)?.0;
    let is_it = matches!(&present, FileState::File { sha256: found, .. } if found == sha256);
    Ok(is_it && present.is_untouched_by_others())
}
