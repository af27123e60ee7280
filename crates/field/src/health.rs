//! Whether a restarted service does its work, and runs what it should.

use std::path::Path;
use std::time::{Duration, Instant};

use heaptrial_allocator::{Identifier, prove};
use heaptrial_host::systemd::{Systemd, UnitStatus};
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{Identity, LifeKey};
use heaptrial_tor::relay::Relay;

use crate::treatment::ServiceTreatment;

/// A process may show its loader's or its predecessor's image for a moment after its start.
const PROOF_PATIENCE: Duration = Duration::from_secs(3);
/// A relay's control socket is asked this often.
const BOOTSTRAP_GAP: Duration = Duration::from_millis(250);
/// Between the first looks at a service.
const LEAST_GAP: Duration = Duration::from_millis(10);
/// What a control socket gets to answer.
pub(crate) const CONTROL_PATIENCE: Duration = Duration::from_secs(5);
/// Bootstrap of a relay that is done.
const BOOTSTRAPPED: u8 = 100;

/// What is known of a service that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// Not yet.
    Waiting(String),
    /// It does its work.
    Healthy(LifeKey),
    /// It will not.
    Sick(String),
}

/// Watches one service after its restart.
#[derive(Debug)]
pub(crate) struct Watch {
    next_look: Instant,
    gap: Duration,
    seen: Health,
    asked_at: Option<Instant>,
    bootstrap: Option<u8>,
    /// How it ended by itself since it is watched.
    ended: Option<String>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let seen = Health::Waiting("it has just started".to_owned());
        Self { next_look: Instant::now(), gap: LEAST_GAP, seen, asked_at: None, bootstrap: None, ended: None }
    }

    /// Looks at the service, at first often and then at a slower pace: what is asked of systemd here is asked on a host
    /// that is being measured.
    pub(crate) fn look(&mut self, systemd: &Systemd, treatment: &ServiceTreatment) -> Health {
        if Instant::now() >= self.next_look {
            self.seen = self.look_now(systemd, treatment);
            self.next_look = Instant::now() + self.gap;
            self.gap = (self.gap * 2).min(BOOTSTRAP_GAP);
        }
        self.seen.clone()
    }

    fn look_now(&mut self, systemd: &Systemd, treatment: &ServiceTreatment) -> Health {
        let activity = match systemd.activity(&treatment.service) {
            Ok(activity) => activity,
            Err(error) => return Health::Waiting(error.to_string()),
        };
        if matches!(activity.active_state.as_str(), "failed" | "inactive") {
            let status = match systemd.status(&treatment.service) {
                Ok(status) => status,
                Err(error) => return Health::Sick(format!("it is {} ({error})", activity.active_state)),
            };
            return Health::Sick(format!(
                "it is {} ({}); see `journalctl -u {}`",
                status.active_state,
                how_it_ended(&status),
                treatment.service
            ));
        }
        let Some(pid) = activity.main_pid.filter(|_| activity.active_state == "active") else {
            let mut what = format!("it is {} ({})", activity.active_state, activity.sub_state);
            if activity.sub_state == "auto-restart" {
                let status = systemd.status(&treatment.service);
                self.ended = status.map(|status| how_it_ended(&status)).ok().or(self.ended.take());
            }
            if let Some(ended) = &self.ended {
                what += &format!("; it ended by itself before ({ended})");
            }
            return Health::Waiting(what);
        };
        let Ok(life) = Process::new(&HostRoot::default(), pid).life_key() else {
            return Health::Waiting("its main process has just ended".to_owned());
        };
        match &treatment.relay {
            Some(relay) => self.relay(relay, life),
            None => Health::Healthy(life),
        }
    }

    fn relay(&mut self, relay: &Relay, life: LifeKey) -> Health {
        if !crate::torrc::can_be_asked(relay) {
            return Health::Healthy(life);
        }
        if self.asked_at.is_none_or(|at| at.elapsed() >= BOOTSTRAP_GAP) {
            self.asked_at = Some(Instant::now());
            self.bootstrap = crate::torrc::bootstrap_percent(relay, CONTROL_PATIENCE);
        }
        match self.bootstrap {
            Some(BOOTSTRAPPED) => Health::Healthy(life),
            Some(percent) => Health::Waiting(format!("the relay is bootstrapped to {percent}%")),
            None => Health::Waiting("the relay's control socket does not answer".to_owned()),
        }
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
    life: &LifeKey,
    treatment: &ServiceTreatment,
    identifier: &Identifier,
) -> Result<Identity, String> {
    let started = Instant::now();
    loop {
        let process = Process::new(&HostRoot::default(), life.pid);
        let found = identifier.identify(&process).map_err(|error| error.to_string());
        let proved = found.and_then(|identity| {
            prove(&treatment.expected, &identity).map(|()| identity).map_err(|mismatch| mismatch.to_string())
        });
        let same_life = process.life_key().is_ok_and(|key| key == *life);
        // systemd names the main process before that runs the service's program: until then it is systemd's own.
        let begun = process.exe().is_ok_and(|program| !is_manager(&program));
        match proved {
            Ok(identity) if same_life && begun => return Ok(identity),
            Ok(_) if same_life && started.elapsed() >= PROOF_PATIENCE => {
                return Err("its main process is still systemd's own code".to_owned());
            }
            _ if !same_life => return Err("its main process ended while it was being identified".to_owned()),
            Err(why) if started.elapsed() >= PROOF_PATIENCE => return Err(why),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Whether a program is the service manager's own, which forks before it runs a service's.
pub(crate) fn is_manager(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "systemd" || name == "systemd-executor")
}

/// Whether the torrc options are in force, by the relay's own word.
pub(crate) fn options_in_force(treatment: &ServiceTreatment) -> Result<(), String> {
    let Some(relay) = treatment.relay.as_ref().filter(|_| !treatment.torrc.is_empty()) else { return Ok(()) };
    crate::torrc::in_force(relay, &treatment.torrc, CONTROL_PATIENCE)
}
