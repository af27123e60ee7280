//! systemd over D-Bus (org.freedesktop.systemd1(5)): what its services are, and restarting them.

mod bus;
mod essential;
mod jobs;
mod link;
mod name;
mod properties;
mod questions;
mod transient;
mod unit;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heaptrial_model::{Classified, ErrorClass, ServiceName};

use crate::Scope;
use bus::CALL_LIMIT;
use link::Link;

pub use essential::why_essential;
pub use name::{escape, quoted, template_and_instance, unescape, unit_word};
pub use transient::{TransientCommand, TransientEnd};
pub use unit::{BindPath, Sandbox, Unit, UnitEnvironment, UnitStatus};

/// Why something could not be asked of systemd, or done by it.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// There is no system bus, or systemd is not on it.
    #[error(
        "cannot reach systemd over D-Bus: {0}; this needs a host that runs systemd, and permission to use its bus"
    )]
    Connect(String),
    /// The user has no bus, or not where it is looked for, or the user's systemd is not on it.
    #[error(
        "cannot reach the service manager of user {user} over D-Bus: {said}; the user's bus is there while the user is \
         logged in, and always after `loginctl enable-linger {user}` (Debian has it in the package dbus-user-session); it is \
         found by XDG_RUNTIME_DIR, which is /run/user/{user} on most hosts and which neither su nor sudo sets"
    )]
    NoUserManager { user: u32, said: String },
    /// systemd went away from the bus, or the bus itself, before it answered: whether it heard is not known.
    #[error("systemd: {doing}: it went away before it answered ({said})")]
    Lost { doing: String, said: String },
    #[error("systemd: {doing}: {said}")]
    Call { doing: String, said: String },
    #[error("systemd: {doing} did not end within {}", heaptrial_model::HumanDuration(*.limit))]
    Timeout { doing: String, limit: Duration },
}

impl Classified for SystemdError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Connect(_) | Self::NoUserManager { .. } => ErrorClass::Refused,
            Self::Lost { .. } | Self::Call { .. } | Self::Timeout { .. } => ErrorClass::Failed,
        }
    }
}

/// How a job of systemd ended: `done`, `failed`, `timeout`, `canceled`, `dependency`, `skipped`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult(pub String);

impl JobResult {
    pub fn is_done(&self) -> bool {
        self.0 == "done"
    }
}

/// The services that some patterns name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    pub units: Vec<Unit>,
    /// Which of them each pattern names, in the order of the patterns.
    pub of_pattern: Vec<Vec<ServiceName>>,
}

/// A job that was queued and may not have ended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: u32,
    pub unit: ServiceName,
    /// Number of the connection over which its end will be heard.
    pub connection: u64,
}

/// A way to a service manager. Several threads may use it at once.
///
/// systemd leaves the bus for a moment when it executes itself again (`systemctl daemon-reexec`), and a bus that is restarted
/// ends all connections. Whatever can be asked twice is then asked again over a new connection, for as long as `patience`;
/// what queues a job is not, since nobody knows whether it was heard ([`SystemdError::Lost`]).
#[derive(Debug)]
pub struct Systemd {
    link: Mutex<Arc<Link>>,
    scope: Scope,
    call_limit: Duration,
    patience: Duration,
}

/// What a transaction asks of a service manager, and does by it.
pub trait Manager {
    /// What changes about units, in the order of the names.
    fn statuses(&self, names: &[ServiceName]) -> Vec<Result<UnitStatus, SystemdError>>;
    /// That of one.
    fn status(&self, name: &ServiceName) -> Result<UnitStatus, SystemdError> {
        self.statuses(std::slice::from_ref(name)).pop().unwrap_or_else(|| Err(questions::no_answer(name)))
    }
    /// What services' processes get from their units and drop-ins as loaded, in the order of the names.
    fn environments(&self, names: &[ServiceName]) -> Result<Vec<UnitEnvironment>, SystemdError>;
    /// Reads all unit files again (`systemctl daemon-reload`).
    fn reload(&self) -> Result<(), SystemdError>;
    fn restart(&self, name: &ServiceName) -> Result<Job, SystemdError>;
    fn start(&self, name: &ServiceName) -> Result<Job, SystemdError>;
    fn stop(&self, name: &ServiceName) -> Result<Job, SystemdError>;
    /// Waits for a job, as long as `limit`. [`SystemdError::Lost`] if its end can no longer be heard.
    fn wait(&self, job: &Job, limit: Duration) -> Result<JobResult, SystemdError>;
    /// Forgets a unit's failed state and its count of starts.
    fn reset_failed(&self, name: &ServiceName) -> Result<(), SystemdError>;
}

/// How long systemd may be away from the bus. It is back within a second, or much later on a host in need.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a job does to those that are queued (systemctl(1), --job-mode).
const REPLACE: &str = "replace";
/// Between two attempts to reach it.
const RETRY_GAP: Duration = Duration::from_millis(100);

impl Systemd {
    /// Connects to the service manager of the system, or of the user who runs this program.
    pub fn connect(scope: Scope) -> Result<Self, SystemdError> {
        Self::new(scope, CALL_LIMIT, PATIENCE)
    }

    /// The same, with calls that wait for a reply no longer than `call_limit` and are not asked again: for who has other work to
    /// do. After [`SystemdError::Connect`] or [`SystemdError::Lost`] it is of no further use.
    pub fn connect_with_limit(scope: Scope, call_limit: Duration) -> Result<Self, SystemdError> {
        Self::new(scope, call_limit, Duration::ZERO)
    }

    fn new(scope: Scope, call_limit: Duration, patience: Duration) -> Result<Self, SystemdError> {
        let began = Instant::now();
        let link = loop {
            match Link::new(scope, call_limit, 0) {
                Err(SystemdError::Lost { .. }) if began.elapsed() < patience => std::thread::sleep(RETRY_GAP),
                link => break link?,
            }
        };
        Ok(Self { link: Mutex::new(Arc::new(link)), scope, call_limit, patience })
    }

    pub fn scope(&self) -> Scope {
        self.scope
    }

    fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks what can be asked twice, until that is heard.
    fn ask_until<T>(&self, is_heard: impl Fn(&T) -> bool, question: impl Fn(&Link) -> T) -> T {
        let began = Instant::now();
        loop {
            let link = self.link();
            let answer = question(&link);
            if is_heard(&answer) || began.elapsed() >= self.patience {
                return answer;
            }
            std::thread::sleep(RETRY_GAP);
            self.renew(&link);
        }
    }

    fn ask<T>(&self, question: impl Fn(&Link) -> Result<T, SystemdError>) -> Result<T, SystemdError> {
        self.ask_until(is_heard, question)
    }

    /// Asks about several units; what is lost for one is asked again for all.
    fn ask_each<T>(
        &self,
        question: impl Fn(&Link) -> Vec<Result<T, SystemdError>>,
    ) -> Vec<Result<T, SystemdError>> {
        self.ask_until(|answers| answers.iter().all(is_heard), question)
    }

    /// Another connection in place of one that lost systemd, where one can be had and no other thread has made one.
    fn renew(&self, lost: &Arc<Link>) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&link, lost) {
            if let Ok(new) = Link::new(self.scope, self.call_limit, lost.number + 1) {
                *link = Arc::new(new);
            }
        }
    }

    fn queue(&self, method: &str, doing: &str, name: &ServiceName) -> Result<Job, SystemdError> {
        // Before anything is queued this can be asked again.
        self.ask(Link::check_hears)?;
        let (link, doing) = (self.link(), format!("{doing} {name}"));
        let reply = link.bus.manager(&doing, method, &(name.as_str(), REPLACE))?;
        link.job(&doing, &reply, name)
    }

    fn of_job(&self, job: &Job) -> Result<Arc<Link>, SystemdError> {
        let link = self.link();
        if job.connection == link.number { Ok(link) } else { Err(jobs::disconnected(job)) }
    }
}

fn is_heard<T>(answer: &Result<T, SystemdError>) -> bool {
    !matches!(answer, Err(SystemdError::Lost { .. }))
}
