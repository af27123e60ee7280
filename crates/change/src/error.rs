//! What goes wrong, with the path or unit that it went wrong on.

use std::io;
use std::path::{Path, PathBuf};

use heaptrial_allocator::{IdentifyError, Mismatch};
use heaptrial_host::systemd::SystemdError;
use heaptrial_model::{Classified, ErrorClass, ServiceName};
use heaptrial_relay::TorError;

use crate::files::FileError;
use crate::ledger::{Claim, some};
use crate::lock::Holder;
use crate::state::TrialStage;

/// Why a transaction cannot be begun, continued or undone. What nobody asks for by kind is a text.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("there is no trial or rollout `{name}` on this host ({folder} is missing){}", known_trials(.known))]
    Unknown { name: String, folder: PathBuf, known: Vec<String> },
    #[error("there is a trial `{name}` on this host already ({folder}); give the new one another name")]
    Exists { name: String, folder: PathBuf },
    /// It cannot be done at this stage.
    #[error("{kind} `{name}` {}", stage_words(.stage))]
    Stage { kind: String, name: String, stage: TrialStage },
    /// It cannot end while services are neither as wanted nor as before.
    #[error("{} of {kind} `{name}`: neither started nor as before", some(.services.iter().map(ToString::to_string)))]
    InFlight { kind: String, name: String, services: Vec<ServiceName> },
    /// A journal knows nothing of files that are there.
    #[error("{0}")]
    JournalLost(String),
    /// Services have files of treatments of which there is no trial or rollout any more.
    #[error("{0}")]
    Strays(String),
    #[error("{service} takes part in `{by}`, which has not ended; end that first")]
    Taken { service: ServiceName, by: String },
    #[error("services belong to trials or rollouts that have not ended on this host: {}. Nothing was changed", some(.taken.iter().map(|(service, claim)| format!("{service} ({claim})"))))]
    Claimed { taken: Vec<(ServiceName, Claim)> },
    /// Nothing was changed.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    /// Somebody else is at it; who, where it says so.
    #[error("{} is changing services of this host ({path} is locked); wait until it has ended", process(.holder))]
    Held { path: PathBuf, holder: Option<Holder> },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
}

impl ChangeError {
    /// What the crate above recorded cannot be read or written.
    pub(crate) fn note(source: serde_json::Error) -> Self {
        Self::Failed(format!("a note in the journal cannot be used: {source}"))
    }

    pub(crate) fn damaged(path: &Path, source: serde_json::Error) -> Self {
        Self::Failed(format!("{} is damaged: {source}", path.display()))
    }
}

fn known_trials(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) }
}

fn process(holder: &Option<Holder>) -> String {
    holder.as_ref().map_or("another process".to_owned(), ToString::to_string)
}

fn stage_words(stage: &TrialStage) -> &'static str {
    match stage {
        TrialStage::Planned => "has not begun",
        TrialStage::Starting => "was begun and not finished",
        TrialStage::Running => "runs",
        TrialStage::Reverting => "is being reverted",
        TrialStage::Stopped => "has ended",
        TrialStage::Reverted => "has ended, and everything is as before",
    }
}

/// Why a service did not become what it should: only shown.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub String);

macro_rules! shown {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for ServiceError {
            fn from(error: $error) -> Self {
                Self(error.to_string())
            }
        })+
    };
}

shown!(ChangeError, FileError, IdentifyError, Mismatch, SystemdError, TorError);

impl Classified for ChangeError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Unknown { .. }
            | Self::Exists { .. }
            | Self::Stage { .. }
            | Self::InFlight { .. }
            | Self::Taken { .. }
            | Self::Claimed { .. }
            | Self::Strays(_)
            | Self::Refused(_)
            | Self::Held { .. } => ErrorClass::Refused,
            // Somebody else may read it.
            Self::File(error) if error.source.kind() == io::ErrorKind::PermissionDenied => {
                ErrorClass::Refused
            }
            Self::JournalLost(_) | Self::Failed(_) | Self::File(_) => ErrorClass::Failed,
            Self::Systemd(error) => error.class(),
        }
    }
}
