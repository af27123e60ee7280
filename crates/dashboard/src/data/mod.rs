//! What pages are made from, read from the database.

mod overview;
mod service;
mod ticks;
mod trial;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use heaptrial_model::KnownEvent;
use heaptrial_store::Store;

use crate::DashboardError;

pub(crate) use overview::{Overview, distinct, metrics};
pub(crate) use service::{Life, LifeEnd, Service};
pub(crate) use trial::{Condition, Line, Stage, Trial};

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

/// KiB of the file that SQLite keeps in memory.
const CACHE_KIB: u32 = 4096;

/// The database, opened for reading while it is the same file.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    opened: Option<Opened>,
    version: u64,
}

#[derive(Debug)]
struct Opened {
    store: Store,
    file: (u64, u64),
    /// A copy, and what is read as immutable, shows nothing new: when the file was written to last.
    fixed: Option<Written>,
    seen: i64,
}

type Written = [Option<(SystemTime, u64)>; 2];

impl Data {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: None, version: 0 }
    }

    /// The database as it is now, and a number that is another one after each change.
    pub(crate) fn current(&mut self) -> Result<(&Store, u64), DashboardError> {
        let file = std::fs::metadata(&self.path).ok().map(|found| (found.dev(), found.ino()));
        let written = written(&self.path);
        let same =
            |opened: &Opened| Some(opened.file) == file && opened.fixed.is_none_or(|fixed| fixed == written);
        let opened = match self.opened.take().filter(same) {
            Some(opened) => opened,
            None => {
                let store = Store::open_to_stay(&self.path)?;
                store.limit_cache(CACHE_KIB)?;
                let fixed = (!store.access().shows_changes()).then_some(written);
                self.version += 1;
                let seen = store.data_version()?;
                Opened { store, file: file.unwrap_or_default(), fixed, seen }
            }
        };
        let opened = self.opened.insert(opened);
        let seen = opened.store.data_version()?;
        if seen != opened.seen {
            opened.seen = seen;
            self.version += 1;
        }
        Ok((&opened.store, self.version))
    }
}

fn written(path: &Path) -> Written {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    [path, Path::new(&wal)].map(|file| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len()))
    })
}

pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
