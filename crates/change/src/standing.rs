//! How services that were given a treatment are now: what a rollout's gate goes by. Nothing is restarted.

use std::fs;
use std::path::PathBuf;

use heaptrial_allocator::prove;
use heaptrial_host::systemd::{SystemdError, UnitStatus};
use heaptrial_host::{Mark, Paths};
use heaptrial_inspect::Service;
use heaptrial_model::{Identity, LifeKey, ServiceName};

use crate::edges::{Host, Programs as _, ThisHostsPrograms};
use crate::error::ChangeError;
use crate::files::{File, FileState};
use crate::health::{self, Health};
use crate::journal::Event;
use crate::prepared::Prepared;
use crate::service::check_library;
use crate::state::{ServiceState, Stage, TrialState};
use crate::treatment::ServiceTreatment;
use crate::trial::Trial;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has no treatment now.
    Untreated,
    /// It does its work under its treatment, in the life that was proved or in a later one that was proved now.
    Well { life: LifeKey },
    /// It is not yet, or no longer, ready for its work.
    NotReady(String),
    /// It failed, or does not run what it should.
    Failed(String),
}

impl Trial<'_> {
    /// How these services are, in their order. One that was restarted since is proved again and its new life recorded.
    pub fn standings(&mut self, services: &[ServiceName]) -> Result<Vec<Standing>, ChangeError> {
        let seen = look(self.host, &self.paths, &self.prepared, &self.state, services);
        let mut standings = Vec::with_capacity(services.len());
        for (service, (standing, other)) in services.iter().zip(seen) {
            if let Some((life, identity)) = other {
                self.warn(&format!("{service} was restarted by somebody, and runs what it should"));
                let service = service.clone();
                self.record(Event::Committed { service, life, identity: Some(identity) })?;
            }
            standings.push(standing);
        }
        Ok(standings)
    }
}

/// How services of a transaction are, in their order, while another process may be at work on it: nothing is recorded.
pub fn standings(
    host: Host<'_>,
    paths: &Paths,
    prepared: &Prepared,
    state: &TrialState,
    services: &[ServiceName],
) -> Vec<Standing> {
    let seen = look(host, paths, prepared, state, services);
    seen.into_iter().map(|(standing, _)| standing).collect()
}

/// A service's standing, and the life that runs where the journal does not know it.
type Seen = (Standing, Option<(LifeKey, Identity)>);

fn look(
    host: Host<'_>,
    paths: &Paths,
    prepared: &Prepared,
    state: &TrialState,
    services: &[ServiceName],
) -> Vec<Seen> {
    let statuses = host.manager.statuses(services);
    let one = |(service, status): (&ServiceName, Result<UnitStatus, SystemdError>)| {
        let status = match status {
            Ok(status) => status,
            Err(error) => return (Standing::NotReady(error.to_string()), None),
        };
        let found = state.services.get(service).filter(|found| found.stage == Stage::Committed);
        let treatment = prepared.treatment(service);
        let (Some(known), Some(treatment)) = (found.and_then(|found| found.life.as_ref()), treatment) else {
            return (Standing::Untreated, None);
        };
        if let Err(why) = check_library(host.disk, paths, treatment) {
            return (Standing::Failed(why.to_string()), None);
        }
        look_at(host, treatment, known, &status)
    };
    services.iter().zip(statuses).map(one).collect()
}

fn look_at(host: Host<'_>, treatment: &ServiceTreatment, known: &LifeKey, status: &UnitStatus) -> Seen {
    let health = health::look(host, treatment, Ok(status));
    // After a boot systemd may have needed more than one attempt.
    let is_excused = |health: &Health| matches!(health, Health::Healthy(life) if life == known || life.boot_id != known.boot_id);
    if status.restarts > 0 && !is_excused(&health) {
        let times = heaptrial_model::units::counted(status.restarts as usize, "time");
        let how = format!("systemd restarted it {times} by itself ({})", health::how_it_ended(status));
        return (Standing::Failed(how), None);
    }
    let life = match health {
        Health::Waiting(what) => return (Standing::NotReady(what), None),
        Health::Sick(why) => return (Standing::Failed(why), None),
        Health::Healthy(life) => life,
    };
    let identity = match health::proof(host, &life, treatment) {
        Ok(identity) => identity,
        Err(why) => return (Standing::Failed(why.to_string()), None),
    };
    let other = (life != *known).then(|| (life.clone(), identity));
    (Standing::Well { life }, other)
}

/// Files of services that have their treatment by the journal, and that are not as they were written.
pub fn changed_files(state: &TrialState) -> Vec<(ServiceName, PathBuf)> {
    let committed = state.services.iter().filter(|(_, found)| found.stage == Stage::Committed);
    let changed = |(service, found): (&ServiceName, &ServiceState)| {
        let other = found.changes.iter().find(|change| {
            FileState::read(&change.path).is_ok_and(|present| !present.is_same(&change.after))
        })?;
        Some((service.clone(), other.path.clone()))
    };
    committed.filter_map(changed).collect()
}

/// A file without the lines that name the trial and the arm.
fn without_header(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"#")).collect::<Vec<_>>().concat()
}

/// Whether a service is, and after its next restart will be, as a treatment wants it, by files of an earlier trial.
pub fn is_as_wanted(service: &Service, treatment: &ServiceTreatment, paths: &Paths) -> bool {
    let Some(process) = &service.process else { return false };
    let runs = process.identity.as_ref().is_some_and(|identity| prove(&treatment.expected, identity).is_ok());
    let programs = ThisHostsPrograms::default();
    let is_there = |file: &File| match &file.state {
        FileState::Link { target } => fs::read_link(&file.path).is_ok_and(|present| present == *target),
        _ => {
            fs::read(&file.path).is_ok_and(|present| without_header(&present) == without_header(&file.bytes))
        }
    };
    // What another arm set is no part of this one.
    let is_unmarked = |text: Vec<u8>| heaptrial_relay::TorrcEdit::marker(&text).is_none();
    let torrc_fits = match &service.relay {
        Some(relay) if treatment.torrc.is_empty() => fs::read(&relay.torrc).is_ok_and(is_unmarked),
        Some(relay) => programs.options_in_force(relay, &treatment.torrc).is_ok(),
        None => treatment.torrc.is_empty(),
    };
    let has_own_timer = treatment.restart_every.is_none() && paths.unit(&treatment.timer_name()).exists();
    let mut files = treatment.files(paths, &Mark::default()).into_iter();
    runs && files.all(|file| is_there(&file))
        && torrc_fits
        && !has_own_timer
        && programs.is_begun(process.life.pid)
}
