//! What a trial asks of a Tor instance.

use std::collections::BTreeMap;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_tor::relay::{Relay, RelayControl, TorrcEdit};

use crate::change::ChangeError;
use crate::files::FileState;

/// Where a torrc waits while Tor checks it; gone after a reboot.
const CHECKED_IN: &str = "/run/heaptrial";

/// The torrc with the options in a marked block at its end.
pub(crate) fn edited(
    present: &[u8],
    options: &BTreeMap<String, String>,
    marker: &str,
) -> Result<Vec<u8>, String> {
    let edit = TorrcEdit::new(marker, options).map_err(|refusal| refusal.to_string())?;
    edit.apply(present).map_err(|refusal| refusal.to_string())
}

/// Whether a torrc has a block of Heaptrial's.
pub(crate) fn is_edited(present: &[u8]) -> bool {
    TorrcEdit::remove(present).is_some()
}

/// Has Tor itself check the torrc that is about to be written, as the owner who will read it.
pub(crate) fn verify(relay: &Relay, state: &FileState, bytes: &[u8]) -> Result<(), ChangeError> {
    let problem = |problem: String| ChangeError::Torrc { path: relay.torrc.clone(), problem };
    let file =
        Candidate::write(state, bytes).map_err(|error| problem(format!("a copy to check: {error}")))?;
    relay
        .verify_config(&file.path)
        .map_err(|error| problem(format!("Tor refuses what was to be written: {error}")))
}

/// A copy of a torrc that is removed again.
struct Candidate {
    path: PathBuf,
}

impl Candidate {
    fn write(state: &FileState, bytes: &[u8]) -> std::io::Result<Self> {
        let folder = Path::new(CHECKED_IN);
        std::fs::create_dir_all(folder)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
        let candidate = Self { path: folder.join(format!("torrc-{}", std::process::id())) };
        let _ = std::fs::remove_file(&candidate.path);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&candidate.path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        if let FileState::File { mode, uid, gid, .. } = state {
            chown(&candidate.path, Some(*uid), Some(*gid))?;
            file.set_permissions(std::fs::Permissions::from_mode(*mode))?;
        }
        Ok(candidate)
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Bootstrap progress in percent; `None` while the relay does not answer.
pub(crate) fn bootstrap_percent(relay: &Relay, patience: Duration) -> Option<u8> {
    RelayControl::connect(relay, patience).ok()?.bootstrap_percent().ok()
}

/// Whether the options are in force, by the relay's own word. A relay without a control socket was checked by the files
/// alone.
pub(crate) fn in_force(
    relay: &Relay,
    options: &BTreeMap<String, String>,
    patience: Duration,
) -> Result<(), String> {
    let wanted = relay.effective_options(&relay.torrc).map_err(|error| error.to_string())?;
    if !can_be_asked(relay) {
        return Ok(());
    }
    let mut control = RelayControl::connect(relay, patience).map_err(|error| error.to_string())?;
    for (option, value) in options {
        if !control.is_in_force(option, value, &wanted).map_err(|error| error.to_string())? {
            let found = control.conf(option).map_err(|error| error.to_string())?;
            return Err(format!("the relay says {option} is `{}` and not `{value}`", found.join(", ")));
        }
    }
    Ok(())
}

/// Whether the relay has a control socket or port.
pub(crate) fn can_be_asked(relay: &Relay) -> bool {
    relay.control_socket.is_some() || relay.control_port.is_some()
}
