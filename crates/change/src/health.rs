//! Whether a service does its work, and runs what it should.

use std::time::Duration;

use heaptrial_allocator::prove;
use heaptrial_host::systemd::{SystemdError, UnitStatus};
use heaptrial_model::{Identity, LifeKey, ServiceName};

use crate::edges::{Host, can_be_asked};
use crate::error::ServiceError;
use crate::treatment::ServiceTreatment;

/// A process may show its loader's or its predecessor's image for a moment after its start.
const PROOF_PATIENCE: Duration = Duration::from_secs(3);
/// Between two attempts at a proof.
const PROOF_GAP: Duration = Duration::from_millis(50);
/// What systemd has started again by itself as often will not come up. Not at once: a port may be taken for a moment.
const MOST_RESTARTS: u32 = 5;
/// Bootstrap of a relay that is done.
const BOOTSTRAPPED: u8 = 100;

/// What runs of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Running {
    Life(LifeKey),
    /// Nothing at this moment: it failed, or it is on its way up or down.
    Nothing,
    /// Nothing, and nothing is about to start it: somebody stopped it, or it was through with its work.
    Stopped,
}

impl Running {
    /// The life, if there is one.
    pub(crate) fn life(self) -> Option<LifeKey> {
        if let Self::Life(life) = self { Some(life) } else { None }
    }
}

/// What is known of a service that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    Waiting(String),
    Healthy(LifeKey),
    Sick(String),
}

/// Whether a service does its work, by systemd's word and, of a relay that can be asked, by its own.
pub(crate) fn look(
    host: Host<'_>,
    treatment: &ServiceTreatment,
    status: Result<&UnitStatus, &SystemdError>,
) -> Health {
    let status = match status {
        Ok(status) => status,
        Err(error) => return Health::Waiting(error.to_string()),
    };
    // Between the two halves of a restart its unit is what it was before.
    if status.is_stopped() || (status.active_state == "failed" && status.job.is_none()) {
        let how = how_it_ended(status);
        let service = &treatment.service;
        return Health::Sick(format!("it is {} ({how}); see `journalctl -u {service}`", status.active_state));
    }
    let Some(pid) = status.main_pid.filter(|_| status.active_state == "active") else {
        if status.restarts >= MOST_RESTARTS {
            let (times, how) = (status.restarts, how_it_ended(status));
            return Health::Sick(format!(
                "it ends by itself again and again ({how}); systemd started it {times} times"
            ));
        }
        return Health::Waiting(format!("it is {} ({})", status.active_state, status.sub_state));
    };
    let Some(life) = host.programs.life(pid) else {
        return Health::Waiting("its main process has just ended".to_owned());
    };
    let Some(relay) = treatment.relay.as_ref().filter(|relay| can_be_asked(relay)) else {
        return Health::Healthy(life);
    };
    match host.programs.bootstrap_percent(relay) {
        Some(BOOTSTRAPPED) => Health::Healthy(life),
        Some(percent) => Health::Waiting(format!("the relay is bootstrapped to {percent}%")),
        None => Health::Waiting("the relay's control socket does not answer".to_owned()),
    }
}

/// What runs of a service.
pub(crate) fn running(host: Host<'_>, service: &ServiceName) -> Running {
    let Ok(status) = host.manager.status(service) else { return Running::Nothing };
    match status.main_pid.and_then(|pid| host.programs.life(pid)) {
        Some(life) => Running::Life(life),
        None if status.is_stopped() => Running::Stopped,
        None => Running::Nothing,
    }
}

/// How the last main process of a service ended, in systemd's words.
pub(crate) fn how_it_ended(status: &UnitStatus) -> String {
    if status.exec_main_code == 0 {
        return status.result.clone();
    }
    let how = if status.exec_main_code == 1 { "exit status" } else { "signal" };
    format!("{}, {how} {}", status.result, status.exec_main_status)
}

/// What a life runs, if that is what it should.
pub(crate) fn proof(
    host: Host<'_>,
    life: &LifeKey,
    treatment: &ServiceTreatment,
) -> Result<Identity, ServiceError> {
    let began = host.clock.now();
    // It was restarted after its drop-in was loaded: what systemd has loaded is what it was started with.
    let passed = || {
        let mut found = host.manager.environments(std::slice::from_ref(&treatment.service)).ok()?;
        Some(found.pop()?.variables())
    };
    loop {
        let found = host.programs.identify(life.pid, &passed).map_err(ServiceError::from);
        let proved = found.and_then(|identity| {
            prove(&treatment.expected, &identity)?;
            Ok(identity)
        });
        let same_life = host.programs.life(life.pid).as_ref() == Some(life);
        // systemd names the main process before that runs the service's program: until then it is systemd's own.
        let begun = host.programs.is_begun(life.pid);
        let late = host.clock.now() - began >= PROOF_PATIENCE;
        match proved {
            _ if !same_life => {
                return Err(ServiceError("its main process ended while it was being identified".to_owned()));
            }
            Ok(identity) if begun => return Ok(identity),
            Ok(_) if late => {
                return Err(ServiceError("its main process is still systemd's own code".to_owned()));
            }
            Err(why) if late => return Err(why),
            _ => host.clock.sleep(PROOF_GAP),
        }
    }
}
