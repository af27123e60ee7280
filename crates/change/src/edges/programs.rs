use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_allocator::{Identifier, IdentifyError, PassedVariables};
use heaptrial_host::{HostRoot, Process, package_of};
use heaptrial_model::{Identity, LifeKey};
use heaptrial_relay::{Control, Relay};

use super::Programs;
use crate::error::ServiceError;

/// What a control socket gets to answer.
const CONTROL_PATIENCE: Duration = Duration::from_secs(5);
/// The processes of the host that this program runs on.
#[derive(Debug, Default)]
pub struct ThisHostsPrograms {
    /// Services have their program and libraries in common.
    identifier: Identifier,
}

fn process(pid: i32) -> Process {
    Process::new(&HostRoot::default(), pid)
}

impl Programs for ThisHostsPrograms {
    fn life(&self, pid: i32) -> Option<LifeKey> {
        process(pid).life_key().ok()
    }

    fn identify(&self, pid: i32, passed: PassedVariables<'_>) -> Result<Identity, IdentifyError> {
        self.identifier.identify(&process(pid), passed)
    }

    fn is_begun(&self, pid: i32) -> bool {
        // systemd forks before it runs a service's program.
        let is_manager = |program: &Path| {
            program.file_name().is_some_and(|name| name == "systemd" || name == "systemd-executor")
        };
        process(pid).exe().is_ok_and(|program| !is_manager(&program))
    }

    fn bootstrap_percent(&self, relay: &Relay) -> Option<u8> {
        Control::of(relay, CONTROL_PATIENCE).ok()?.bootstrap_percent().ok()
    }

    fn verify_torrc(&self, relay: &Relay, torrc: &[u8]) -> Result<(), ServiceError> {
        let refused = |why| {
            ServiceError(format!("{}: Tor refuses what was to be written: {why}", relay.torrc.display()))
        };
        relay.verify_torrc(torrc).map_err(refused)
    }

    fn options_in_force(
        &self,
        relay: &Relay,
        options: &BTreeMap<String, String>,
    ) -> Result<(), ServiceError> {
        let wanted = relay.effective_options(&relay.torrc)?;
        // One without a control socket is checked by the files alone.
        if !can_be_asked(relay) {
            return Ok(());
        }
        let mut control = Control::of(relay, CONTROL_PATIENCE)?;
        for (option, value) in options {
            if !control.is_in_force(option, value, &wanted)? {
                let found = control.conf(option)?.join(", ");
                return Err(ServiceError(format!("the relay says {option} is `{found}` and not `{value}`")));
            }
        }
        Ok(())
    }

    fn own_program(&self) -> io::Result<PathBuf> {
        std::env::current_exe().and_then(|path| path.canonicalize())
    }

    fn is_packaged(&self, path: &Path) -> bool {
        package_of(&HostRoot::default(), path).is_some()
    }
}

/// Whether a relay has a control socket or port.
pub(crate) fn can_be_asked(relay: &Relay) -> bool {
    relay.control_socket.is_some() || relay.control_port.is_some()
}
