//! How services that were given a treatment are now: what a rollout's gate goes by. Nothing is restarted.

use std::collections::HashMap;
use std::path::PathBuf;

use heaptrial_allocator::prove;
use heaptrial_host::systemd::{SystemdError, UnitStatus};
use heaptrial_host::{HostRoot, Paths};
use heaptrial_inspect::{NextStart, Service};
use heaptrial_model::{Identity, LifeKey, ServiceName};

use crate::edges::{Host, in_force, is_program_begun};
use crate::error::ChangeError;
use crate::files::{FileState, digest};
use crate::health::{self, Health};
use crate::journal::Event;
use crate::prepare::PRELOAD;
use crate::prepared::Prepared;
use crate::service::check_library;
use crate::state::{ServiceState, Stage, TrialState};
use crate::treatment::ServiceTreatment;
use crate::trial::{Trial, Witness};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has no treatment now.
    Untreated,
    /// It does its work under its treatment, in the life that was proved or in one that somebody asked for and that was
    /// proved now.
    Well { life: LifeKey },
    /// It is not yet, or no longer, ready for its work.
    NotReady(String),
    /// It failed, or does not run what it should.
    Failed(String),
}

impl Trial<'_> {
    /// How these services are, in their order. A service that somebody restarted, or that came up with the host, is
    /// proved anew and its new life recorded.
    pub fn standings(
        &mut self,
        services: &[ServiceName],
        witness: &mut dyn Witness,
    ) -> Result<Vec<Standing>, ChangeError> {
        let seen = look(self.host, &self.paths, &self.prepared, &self.state, services);
        let mut standings = Vec::with_capacity(services.len());
        for (service, (standing, other)) in services.iter().zip(seen) {
            if let Some((life, identity)) = other {
                witness.warning(&format!("{service} was restarted by somebody, and runs what it should"));
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
    let mut libraries = HashMap::new();
    let one = |(service, status): (&ServiceName, Result<UnitStatus, SystemdError>)| {
        let status = match status {
            Ok(status) => status,
            Err(error) => return (Standing::NotReady(error.to_string()), None),
        };
        let found = state.services.get(service).filter(|found| found.stage == Stage::Committed);
        let treatment = prepared.services.iter().find(|treatment| treatment.service == *service);
        let (Some(known), Some(treatment)) = (found.and_then(|found| found.life.as_ref()), treatment) else {
            return (Standing::Untreated, None);
        };
        // Services of an arm have one library in common.
        let object = treatment.expected.object.clone();
        let checked = libraries.entry(object).or_insert_with(|| check_library(host.disk, paths, treatment));
        if let Err(why) = checked {
            return (Standing::Failed(why.to_string()), None);
        }
        look_at(host, treatment, known, &status)
    };
    services.iter().zip(statuses).map(one).collect()
}

fn look_at(host: Host<'_>, treatment: &ServiceTreatment, known: &LifeKey, status: &UnitStatus) -> Seen {
    if status.active_state == "failed" || status.is_stopped() {
        let how = format!("it is {} ({})", status.active_state, health::how_it_ended(status));
        return (Standing::Failed(how), None);
    }
    let life = status.main_pid.filter(|_| status.is_running());
    let life = life.and_then(|pid| host.programs.life(pid));
    let same_boot = |life: &LifeKey| life.boot_id == known.boot_id;
    let by_itself = status.restarts > 0 && life.as_ref() != Some(known);
    if by_itself && life.as_ref().is_none_or(same_boot) {
        let times = heaptrial_model::units::counted(status.restarts as usize, "time");
        let how = format!("systemd restarted it {times} by itself ({})", health::how_it_ended(status));
        return (Standing::Failed(how), None);
    }
    let Some(life) = life else {
        return (Standing::NotReady(format!("it is {} ({})", status.active_state, status.sub_state)), None);
    };
    match health::look(host, treatment) {
        Health::Waiting { what, .. } => return (Standing::NotReady(what), None),
        Health::Sick(why) => return (Standing::Failed(why), None),
        Health::Healthy(_) => {}
    }
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

/// A unit file without the lines that name the trial and the arm.
fn without_header(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect()
}

/// Whether a service is already as a treatment wants it, now and after its next restart.
pub fn is_as_wanted(service: &Service, treatment: &ServiceTreatment, paths: &Paths) -> bool {
    let Some(process) = &service.process else { return false };
    let runs = process.identity.as_ref().is_some_and(|identity| prove(&treatment.expected, identity).is_ok());
    let root = HostRoot::default();
    let next = NextStart::of(&root, &service.unit);
    // The same build may be preloaded from where somebody else put it.
    let same_build = |name: &str| {
        let object = process.identity.as_ref().and_then(|identity| identity.path.as_ref());
        name == PRELOAD
            && next.preloads().len() == 1
            && object.is_some_and(|object| {
                let bytes = std::fs::read(object);
                next.preload_of(&root, object).is_some()
                    && bytes.is_ok_and(|bytes| digest(&bytes) == treatment.expected.sha256)
            })
    };
    let set = treatment.environment.iter();
    let stays =
        set.into_iter().all(|(name, value)| next.value(name) == Some(value.as_str()) || same_build(name));
    let nothing_else = treatment.unset.iter().all(|name| next.value(name).is_none());
    let options = |relay: &heaptrial_relay::Relay| match treatment.torrc.is_empty() {
        // Options that another arm set are no part of this one.
        true => {
            std::fs::read(&relay.torrc).is_ok_and(|text| heaptrial_relay::TorrcEdit::marker(&text).is_none())
        }
        false => in_force(relay, &treatment.torrc).is_ok(),
    };
    let torrc = service.relay.as_ref().map_or(treatment.torrc.is_empty(), options);
    let present = std::fs::read_to_string(paths.unit(&treatment.timer_name())).ok();
    let timer = match treatment.restart_every {
        None => present.is_none(),
        Some(every) => {
            let wanted = treatment.restart_timer(every);
            present.is_some_and(|text| without_header(&text) == wanted)
        }
    };
    runs && stays && nothing_else && torrc && timer && is_program_begun(process.life.pid)
}
