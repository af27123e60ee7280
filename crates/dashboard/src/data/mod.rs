//! What pages are made from, read from the database.

mod overview;
mod service;
mod trial;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use heaptrial_model::KnownEvent;
use heaptrial_store::Store;

use crate::DashboardError;

pub(crate) use overview::{Overview, distinct, metrics};
pub(crate) use service::{Life, Service};
pub(crate) use trial::{Line, Stage, Trial};

/// Kinds of events after which somebody should look.
pub(crate) const GRAVE: [KnownEvent; 14] = [
    KnownEvent::AllocatorReplaced,
    KnownEvent::ArmFailed,
    KnownEvent::ClockJump,
    KnownEvent::Contaminated,
    KnownEvent::Crash,
    KnownEvent::Gap,
    KnownEvent::IdentityChange,
    KnownEvent::OomKill,
    KnownEvent::Reboot,
    KnownEvent::RelaySilent,
    KnownEvent::RestartUnplanned,
    KnownEvent::RevertFailed,
    KnownEvent::ServiceDown,
    KnownEvent::TreatmentFailed,
];

/// The database, opened again whenever it was written to: a reader that cannot share the log sees nothing new otherwise.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    opened: Option<(Store, Written)>,
    version: u64,
}

/// When the database and its log were written to last, and how long they are; an empty log comes and goes with readers.
type Written = [Option<(SystemTime, u64)>; 2];

impl Data {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: None, version: 0 }
    }

    /// The database as it is now, and a number that is another one after each change.
    pub(crate) fn current(&mut self) -> Result<(&Store, u64), DashboardError> {
        let written = written(&self.path);
        let (store, written) = match self.opened.take() {
            Some(opened) if opened.1 == written => opened,
            _ => {
                let store = Store::open_to_stay(&self.path)?;
                self.version += 1;
                (store, written)
            }
        };
        let (store, _) = self.opened.insert((store, written));
        Ok((store, self.version))
    }
}

fn written(path: &Path) -> Written {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path, Path::new(&log)].map(|file| {
        let found = std::fs::metadata(file).ok().filter(|found| found.len() > 0)?;
        Some((found.modified().ok()?, found.len()))
    })
}

pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
