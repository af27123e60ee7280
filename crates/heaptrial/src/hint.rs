//! What to do next after an error: the commands that a library cannot name.

use std::error::Error;

use heaptrial_change::{ChangeError, TrialStage};
use heaptrial_fleet::watch::WatchError;

use crate::options::command;

/// The hint for the outermost error of a chain that has one.
pub fn of(error: &(dyn Error + 'static)) -> Option<String> {
    let own = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(error), _) => of_change(error),
        (_, Some(error)) => of_watch(error),
        _ => None,
    };
    own.or_else(|| of(error.source()?))
}

/// The command that puts back what a trial or a rollout changed.
pub fn put_back(kind: &str, name: &str) -> String {
    match kind {
        "rollout" => command(format_args!("rollout rollback {name}")),
        _ => command(format_args!("trial stop {name} --revert")),
    }
}

/// The commands that continue or undo a transaction.
fn of_change(error: &ChangeError) -> Option<String> {
    match error {
        ChangeError::File(error) if error.source.kind() == std::io::ErrorKind::PermissionDenied => {
            Some("only root can read this: use sudo".to_owned())
        }
        ChangeError::Claimed { taken } => {
            let (_, first) = taken.first()?;
            let status = command(format_args!("{} status {}", first.kind, first.name));
            Some(format!("{status} shows what has them; end that, or exclude these services"))
        }
        ChangeError::JournalLost(_) | ChangeError::Strays(_) => {
            Some("docs/rollback-by-hand.md has the commands that find and remove such files".to_owned())
        }
        ChangeError::Stage { kind, name, stage: TrialStage::Reverting, .. } => {
            Some(format!("{} continues that", put_back(kind, name)))
        }
        ChangeError::Stage { kind, .. } => Some(format!("give a new {kind} another name")),
        ChangeError::InFlight { kind, name, .. } => {
            let resume = command(format_args!("{kind} resume {name}"));
            Some(format!("{resume} or {} first", put_back(kind, name)))
        }
        ChangeError::Taken { by, .. } => {
            Some(format!("{}, or {}", put_back("trial", by), put_back("rollout", by)))
        }
        _ => None,
    }
}

fn of_watch(error: &WatchError) -> Option<String> {
    match error {
        WatchError::Exists { name } => Some(format!("`heaptrial watch status {name}` shows that watch")),
        WatchError::Damaged { name, .. } => {
            Some(format!("`heaptrial watch stop {name}` ends the watch; then start it again"))
        }
        _ => None,
    }
}
