//! What goes wrong, with the path or unit that it went wrong on.

use std::io;
use std::path::PathBuf;

use heaptrial_allocator::{IdentifyError, Mismatch};
use heaptrial_host::systemd::SystemdError;
use heaptrial_host::trusted::Untrusted;
use heaptrial_model::{Classified, ErrorClass, ServiceName};

use crate::edges::RelayError;
use crate::edit::EditError;
use crate::files::FileError;
use crate::journal::{Action, JournalError};
use crate::ledger::{Claim, Stray, some};
use crate::lock::LockError;
use crate::prepare::PrepareError;
use crate::state::TrialStage;

/// Why a transaction cannot be begun, continued or undone.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no such one here.
    #[error("there is no trial or rollout `{name}` on this host ({folder} is missing){}", known_trials(.known))]
    Unknown { name: String, folder: PathBuf, known: Vec<String> },
    /// There is one of this name already.
    #[error("there is a trial `{name}` on this host already ({folder}); give the new one another name")]
    Exists { name: String, folder: PathBuf },
    /// It cannot be done where it stands.
    #[error("{kind} `{name}` {}", stage_words(.stage))]
    Stage {
        /// What it is for, such as `trial`.
        kind: String,
        name: String,
        wanted: Action,
        stage: TrialStage,
    },
    /// It cannot end while services are neither as wanted nor as before.
    #[error("{} of {kind} `{name}` {} neither started nor as before", names(.services), are(.services))]
    InFlight {
        /// What it is for, such as `trial`.
        kind: String,
        name: String,
        services: Vec<ServiceName>,
    },
    /// It has no such service, or no longer.
    #[error("{service} is not a service of {kind} `{name}`, or was taken out of it")]
    NotOne {
        /// What it is for, such as `trial`.
        kind: String,
        name: String,
        service: ServiceName,
    },
    /// Records of the journal are gone: it knows nothing of files that are there.
    #[error(
        "the journal in {folder} has lost records: it knows nothing of {}, which its services run with; these files have to be \
         removed by hand, and what was there before is in {folder}/originals",
        some(.files.iter().map(|path| path.display().to_string()))
    )]
    JournalLost { folder: PathBuf, files: Vec<PathBuf> },
    /// Services have files of treatments of which there is no trial or rollout any more.
    #[error(
        "files of treatments are left on this host of which it has no trial or rollout in {trials}: {}. Put the folders of those \
         back there and revert them, or take the files out by hand. Nothing was changed",
        some(.strays.iter().map(|stray| format!("{} (`{}`)", stray.path.display(), stray.name)))
    )]
    Strays {
        /// Where trials and rollouts are.
        trials: PathBuf,
        strays: Vec<Stray>,
    },
    /// A service cannot be taken over from one that has not ended.
    #[error("{service} takes part in `{by}`, which has not ended; end that first")]
    Taken {
        service: ServiceName,
        /// Name of what has it.
        by: String,
    },
    #[error("services belong to what has not ended on this host: {}. Nothing was changed", some(.taken.iter().map(|(service, claim)| format!("{service} ({claim})"))))]
    Claimed {
        /// Which services, and whom they belong to.
        taken: Vec<(ServiceName, Claim)>,
    },
    /// Which services one has, and whether it has ended, is not known.
    #[error(
        "{why}; it may have the services that are wanted. If it has ended, move {folder} away. Nothing was changed"
    )]
    Unread { folder: PathBuf, why: String },
    /// Others can change what decides what is written to the host.
    #[error(
        "{source}; what lies in {folder} decides what is written to this host. Look whether it still tells what was done, and \
         give it back with `chown` and `chmod go-w`. Nothing was changed"
    )]
    Untrusted { folder: PathBuf, source: Untrusted },
    /// A file of its folder cannot be used.
    #[error("{doing} {path}: {source}")]
    Folder { doing: &'static str, path: PathBuf, source: io::Error },
    /// The frozen plan cannot be read.
    #[error("{path} is damaged: {source}")]
    Prepared { path: PathBuf, source: serde_json::Error },
    /// What the crate above recorded cannot be read or written.
    #[error("a note in the journal cannot be used: {source}")]
    Note { source: serde_json::Error },
    /// A library to install cannot be read.
    #[error("{path}: {source}")]
    Library { path: PathBuf, source: io::Error },
    /// A library to install is not the one that was measured.
    #[error("{path}: its SHA-256 is {found}, and the plan was made for {wanted}")]
    OtherLibrary { path: PathBuf, found: String, wanted: String },
    /// Somebody else is at it.
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    File(#[from] FileError),
    /// A change of a file.
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
}

fn known_trials(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) }
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

fn names(services: &[ServiceName]) -> String {
    services.iter().map(ServiceName::as_str).collect::<Vec<_>>().join(", ")
}

fn are(services: &[ServiceName]) -> &'static str {
    if services.len() == 1 { "is" } else { "are" }
}

/// Why a service did not become what it should.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub(crate) String);

impl ServiceError {
    /// Somebody stopped it, and a treatment is no reason to start it.
    pub(crate) fn stopped() -> Self {
        Self("it is stopped; start it, or leave it out, and go on".to_owned())
    }
}

/// They are only shown.
macro_rules! shown {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for ServiceError {
            fn from(error: $error) -> Self {
                Self(error.to_string())
            }
        })+
    };
}

shown!(ChangeError, EditError, ProofError, SystemdError);

/// Why a life is not proved to run what it should.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// It could not be examined.
    #[error(transparent)]
    Identify(#[from] IdentifyError),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It is not yet the service's program.
    #[error("its main process is still systemd's own code")]
    NotBegun,
    #[error("its main process ended while it was being identified")]
    Ended,
    #[error(transparent)]
    Relay(#[from] RelayError),
}

impl Classified for ChangeError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Unknown { .. }
            | Self::Exists { .. }
            | Self::Stage { .. }
            | Self::InFlight { .. }
            | Self::NotOne { .. }
            | Self::Taken { .. }
            | Self::Claimed { .. }
            | Self::Untrusted { .. }
            | Self::Unread { .. }
            | Self::Strays { .. }
            | Self::Library { .. }
            | Self::OtherLibrary { .. } => ErrorClass::Refused,
            // Somebody else may read it.
            Self::Folder { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                ErrorClass::Refused
            }
            Self::JournalLost { .. } | Self::Folder { .. } | Self::Prepared { .. } | Self::Note { .. } => {
                ErrorClass::Failed
            }
            Self::Lock(error) => error.class(),
            Self::Journal(error) => error.class(),
            Self::File(error) => error.class(),
            Self::Edit(error) => error.class(),
            Self::Systemd(error) => error.class(),
        }
    }
}

impl Classified for LockError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

impl Classified for PrepareError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

/// Something went wrong on the way.
macro_rules! failed {
    ($($error:ty),+ $(,)?) => {
        $(impl Classified for $error {
            fn class(&self) -> ErrorClass {
                ErrorClass::Failed
            }
        })+
    };
}

failed!(EditError, FileError, JournalError, ProofError, RelayError, ServiceError);
