//! The SQLite database of a lab run or a host.
//!
//! One transaction per tick (`synchronous=FULL`, WAL): after a kill at any moment the database holds everything up to
//! the last committed tick. Of a host's database there are several writers, which wait for each other: the agent writes
//! ticks and lives, commands write trials, events and looks.

mod begin;
mod error;
mod export;
mod file;
mod import;
mod part;
mod read;
mod readings;
mod recent;
mod records;
mod rollup;
mod running;
mod write;

pub use error::StoreError;
pub use import::{ImportSource, ImportedEvent, ImportedLife, ImportedSample, ImportedService, ImportedTrial};
pub use part::{BlockOf, Gathered, PartOf, PartRecord, PartTick};
pub use readings::Readings;
pub use recent::Tick;
pub use records::{
    ArmRecord, BY_HAND, EventRecord, LatestSample, LifeRecord, LookRecord, NewService, NewTrial,
    READY_SECONDS, SERVER, SeriesPoint, ServiceRecord, SpentPoint, TickInput, TickSummary, TrialRecord,
};
pub use rollup::{RollupHorizon, RollupStep};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

/// The schema this version of Heaptrial writes, kept in SQLite's `user_version`.
pub const SCHEMA_VERSION: i64 = 1;

/// Another writer is waited for so long.
const BUSY: Duration = Duration::from_secs(5);
const BUSY_STEP: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    access: Access,
    file: file::OpenFile,
}

/// How a database is held open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Together with others: what they commit is seen.
    Shared,
    /// Nobody else can write to it meanwhile.
    Exclusive,
    /// As a file that does not change: what is written afterwards does not show, and may be seen in part.
    Immutable,
}

impl Access {
    /// Whether what others write afterwards shows; if not, the database must be opened again to see it.
    pub fn shows_changes(self) -> bool {
        match self {
            Self::Shared | Self::Exclusive => true,
            Self::Immutable => false,
        }
    }
}

type Attempt = fn(&Path) -> rusqlite::Result<(Connection, Access)>;

impl Store {
    /// Opens the database for writing, creating it where it is missing.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(StoreError::open(path))?;
        let file = file::OpenFile::at(path);
        let mut store = Self { connection, path: path.to_owned(), access: Access::Shared, file };
        // Looked at before anything is set: a newer database is not touched.
        let found = store.schema_version()?;
        if !(0..=SCHEMA_VERSION).contains(&found) {
            return Err(StoreError::Schema { path: path.to_owned(), found, known: SCHEMA_VERSION });
        }
        store.prepare().map_err(StoreError::open(path))?;
        if found == 0 {
            store.make_tables().map_err(StoreError::open(path))?;
        }
        // What is beside it is there from now on.
        store.file = file::OpenFile::at(path);
        Ok(store)
    }

    /// Opens an existing database for writing, and makes none where it is missing.
    pub fn open_for_writing(path: &Path) -> Result<Self, StoreError> {
        match path.is_file() {
            true => Self::create(path),
            false => Err(StoreError::Missing { path: path.to_owned() }),
        }
    }

    /// Opens an existing database for reading only. Leftovers of a killed writer are no obstacle.
    ///
    /// Where the disk is full, writers are kept out as long as it is open; what stays
    /// open is opened with [`Store::open_to_stay`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        // A reader of a WAL database writes a shared-memory index beside it. Where the disk is full, the
        // index is kept in memory with an exclusive lock; where the folder cannot be written at all, the
        // file is read as immutable, which misses what still stands in a WAL and is not done then.
        Self::open_by(&[open_shared, open_exclusive, open_immutable], path)
    }

    /// Opens an existing database for reading only, for a process that stays: no writer is kept out. Where
    /// [`Store::access`] does not show changes, the reader looks at the file for them, and opens it again.
    pub fn open_to_stay(path: &Path) -> Result<Self, StoreError> {
        Self::open_by(&[open_shared, open_immutable], path)
    }

    fn open_by(attempts: &[Attempt], path: &Path) -> Result<Self, StoreError> {
        if !path.is_file() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        let mut last_error = None;
        for attempt in attempts {
            let opened = attempt(path).and_then(|opened| Ok((user_version(&opened.0)?, opened)));
            match opened {
                Ok((SCHEMA_VERSION, (connection, access))) => {
                    let file = file::OpenFile::at(path);
                    return Ok(Self { connection, path: path.to_owned(), access, file });
                }
                // The pages of a database that was never checkpointed are all in its WAL.
                Ok((0, _)) => {}
                Ok((found, _)) => {
                    return Err(StoreError::Schema { path: path.to_owned(), found, known: SCHEMA_VERSION });
                }
                // In no other way can it be read then, and each would wait.
                Err(error) if is_busy(&error) => return Err(StoreError::open(path)(error)),
                Err(error) => last_error = Some(error),
            }
        }
        Err(match last_error {
            Some(error) => StoreError::open(path)(error),
            None => StoreError::Schema { path: path.to_owned(), found: 0, known: SCHEMA_VERSION },
        })
    }

    /// Ends it as one file, with nothing beside it: what is copied elsewhere is whole then, and read where no log can be shared.
    pub fn into_one_file(self) -> Result<(), StoreError> {
        let set = self.connection.pragma_update(None, "journal_mode", "DELETE");
        set.map_err(StoreError::query(&self.path, "closing the database"))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// Limits what SQLite keeps of the file in memory, for a process that stays.
    pub fn limit_cache(&self, kib: u32) -> Result<(), StoreError> {
        // A negative number is in KiB.
        let set = self.connection.pragma_update(None, "cache_size", -i64::from(kib));
        set.map_err(StoreError::query(&self.path, "limiting the cache"))
    }

    fn prepare(&mut self) -> rusqlite::Result<()> {
        // Before anything else: another writer may hold the database now.
        self.connection.busy_timeout(BUSY)?;
        // One that reads first and then writes would fail where another has written in between.
        self.connection.set_transaction_behavior(TransactionBehavior::Immediate);
        self.begin_wal()?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.pragma_update(None, "foreign_keys", true)
    }

    /// SQLite waits for no other writer while it changes the journal's mode, as another process may do now.
    fn begin_wal(&self) -> rusqlite::Result<()> {
        let until = Instant::now() + BUSY;
        loop {
            match self.connection.pragma_update(None, "journal_mode", "WAL") {
                Err(error) if is_busy(&error) && Instant::now() < until => std::thread::sleep(BUSY_STEP),
                result => return result,
            }
        }
    }

    /// All or nothing; another process may have made them since the version was read.
    fn make_tables(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if user_version(&transaction)? == 0 {
            transaction.execute_batch(include_str!("schema.sql"))?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        transaction.commit()
    }

    fn schema_version(&self) -> Result<i64, StoreError> {
        user_version(&self.connection).map_err(StoreError::open(&self.path))
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn open_shared(path: &Path) -> rusqlite::Result<(Connection, Access)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok((connection, Access::Shared))
}

fn open_exclusive(path: &Path) -> rusqlite::Result<(Connection, Access)> {
    let (connection, _) = open_shared(path)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok((connection, Access::Exclusive))
}

fn open_immutable(path: &Path) -> rusqlite::Result<(Connection, Access)> {
    let log = |suffix: &str| {
        let mut log = path.as_os_str().to_owned();
        log.push(suffix);
        std::fs::metadata(log).is_ok_and(|found| found.len() > 0)
    };
    if log("-wal") || log("-journal") {
        return open_shared(path);
    }
    let name = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)?;
    Ok((connection, Access::Immutable))
}
