//! What goes wrong, with the path or unit that it went wrong on.

use std::io;
use std::path::PathBuf;

use heaptrial_allocator::{IdentifyError, Mismatch};
use heaptrial_host::systemd::{JobResult, SystemdError};
use heaptrial_host::trusted::Untrusted;
use heaptrial_model::{Classified, ErrorClass, HumanDuration, ServiceName};

use crate::edges::RelayError;
use crate::edit::EditError;
use crate::files::FileError;
use crate::journal::{Action, JournalError};
use crate::lock::LockError;
use crate::prepare::PrepareError;
use crate::state::TrialStage;
use crate::stray::Stray;

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
        some_paths(.files)
    )]
    JournalLost { folder: PathBuf, files: Vec<PathBuf> },
    /// Services have files of treatments of which there is no trial or rollout any more.
    #[error(
        "files of treatments are left on this host of which it has no trial or rollout in {trials}: {}. Put the folders of those \
         back there and revert them, or take the files out by hand. Nothing was changed",
        stray_words(.strays)
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
    #[error("services belong to what has not ended on this host: {}. Nothing was changed", crate::claims::words(.taken))]
    Claimed {
        /// Which services, and whom they belong to.
        taken: Vec<(ServiceName, crate::claims::Claim)>,
    },
    /// Which services one has, and whether it has ended, is not known.
    #[error(
        "{source}; it may have the services that are wanted. If it has ended, move {folder} away. Nothing was changed"
    )]
    Unread { folder: PathBuf, source: Box<ChangeError> },
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

fn some_paths(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().take(3).map(|path| path.display().to_string()).collect();
    let more = paths.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

fn stray_words(strays: &[Stray]) -> String {
    const SHOWN: usize = 8;
    let shown = strays.iter().take(SHOWN).map(|stray| format!("{} (`{}`)", stray.path.display(), stray.name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = strays.len().saturating_sub(SHOWN);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
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
pub enum ServiceError {
    /// The frozen plan does not name it.
    #[error("{service} is not in the frozen plan")]
    NotPlanned { service: ServiceName },
    /// Its files, or the journal of them.
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// systemd does not know the drop-in.
    #[error("systemd did not take {drop_in} in")]
    NotTaken { drop_in: PathBuf },
    /// systemd's own view has another value of a variable.
    #[error("{variable} is `{}` for systemd and not `{wanted}`{}", found.as_deref().unwrap_or("not set"), blame(.later))]
    Overridden {
        variable: String,
        /// Its value, if it is set.
        found: Option<String>,
        wanted: String,
        /// Drop-ins that come after ours.
        later: Vec<PathBuf>,
    },
    /// systemd's own view still has a variable.
    #[error("{variable} is not removed from its environment{}", blame(.later))]
    Kept {
        variable: String,
        /// Drop-ins that come after ours.
        later: Vec<PathBuf>,
    },
    /// The library that it is about to load cannot be read.
    #[error("its library {path}: {source}")]
    Library { path: PathBuf, source: io::Error },
    /// The library that it is about to load was replaced.
    #[error("its library {path}: it is not the file that was installed, or others can write it")]
    OtherLibrary { path: PathBuf },
    /// Somebody stopped it, and a treatment is no reason to start it.
    #[error("it is stopped; start it, or leave it out, and go on")]
    Stopped,
    #[error("its restart ended as `{}`; see `journalctl -u {service}`", result.0)]
    Restart { service: ServiceName, result: JobResult },
    /// Its restart took too long.
    #[error("its restart did not end within {limit}")]
    RestartLate {
        /// How long it was waited for.
        limit: HumanDuration,
    },
    #[error("{0}")]
    Sick(String),
    /// It did not begin its work in time.
    #[error("it was not healthy within {limit}: {last_seen}")]
    Unhealthy {
        /// How long it was waited for.
        limit: HumanDuration,
        last_seen: String,
    },
    /// It did not stay healthy.
    #[error("it ended or restarted by itself soon after it was healthy{}", how.as_ref().map_or(String::new(), |how| format!(" ({how})")))]
    EndedSoon {
        /// How, where that is known.
        how: Option<String>,
    },
    /// It does not run what it should.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// A timer of it did not start.
    #[error("its timer {timer} did not start: {}", result.0)]
    Timer { timer: ServiceName, result: JobResult },
}

impl From<EditError> for ServiceError {
    fn from(error: EditError) -> Self {
        Self::Change(error.into())
    }
}

fn blame(later: &[PathBuf]) -> String {
    if later.is_empty() {
        return String::new();
    }
    let later: Vec<String> = later.iter().map(|path| path.display().to_string()).collect();
    format!("; {} comes after it", later.join(", "))
}

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
