//! The SQLite database of a lab run or a host.
//!
//! One writer, one transaction per tick (`synchronous=FULL`, WAL): after a kill at any moment the
//! database holds everything up to the last committed tick.

mod error;
mod export;
mod import;
mod migrate;
mod read;
mod readings;
mod records;
mod write;

pub use error::StoreError;
pub use export::{SAMPLE_COLUMNS, StoredSample};
pub use import::{
    AggregateRow, ImportSource, ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService,
    ImportedTrial,
};
pub use readings::Readings;
pub use records::{
    ArmRecord, EventRecord, LifeRecord, NewTrial, SeriesPoint, ServiceRecord, TickInput, TickSummary,
    TrialRecord,
};

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// The schema this version of Heaptrial writes, kept in SQLite's `user_version`.
pub const SCHEMA_VERSION: i64 = 2;

/// An open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the database for writing, creating it where it is missing and migrating an older one.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(StoreError::open(path))?;
        let store = Self { connection, path: path.to_owned() };
        // Looked at before anything is set: a newer database is not touched.
        let found = store.schema_version()?;
        if !(0..=SCHEMA_VERSION).contains(&found) {
            return Err(StoreError::Schema { path: path.to_owned(), found, known: SCHEMA_VERSION });
        }
        store.prepare().map_err(StoreError::open(path))?;
        store.migrate(found)?;
        Ok(store)
    }

    /// Opens an existing database for reading only. Leftovers of a killed writer are no obstacle.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.is_file() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        // A reader of a WAL database writes a shared-memory index beside it. Where the disk is full, the
        // index is kept in memory with an exclusive lock; where the folder cannot be written at all, the
        // file is read as immutable, which misses what still stands in a WAL and is not done then.
        let attempts: [fn(&Path) -> rusqlite::Result<Connection>; 3] =
            [open_shared, open_exclusive, open_immutable];
        let mut last_error = None;
        for attempt in attempts {
            match attempt(path).and_then(|connection| Ok((user_version(&connection)?, connection))) {
                Ok((SCHEMA_VERSION, connection)) => return Ok(Self { connection, path: path.to_owned() }),
                Ok((found @ 1..SCHEMA_VERSION, connection)) => {
                    return Self::migrated_copy(connection, path, found);
                }
                // The pages of a database that was never checkpointed are all in its WAL.
                Ok((0, _)) => {}
                Ok((found, _)) => {
                    return Err(StoreError::Schema { path: path.to_owned(), found, known: SCHEMA_VERSION });
                }
                Err(error) => last_error = Some(error),
            }
        }
        Err(match last_error {
            Some(error) => StoreError::open(path)(error),
            None => StoreError::Schema { path: path.to_owned(), found: 0, known: SCHEMA_VERSION },
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(&self) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.pragma_update(None, "foreign_keys", true)?;
        self.connection.busy_timeout(std::time::Duration::from_secs(5))
    }

    fn schema_version(&self) -> Result<i64, StoreError> {
        user_version(&self.connection).map_err(StoreError::open(&self.path))
    }
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn open_shared(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn open_exclusive(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_shared(path)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(connection)
}

fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if std::fs::metadata(wal).is_ok_and(|found| found.len() > 0) {
        return open_shared(path);
    }
    let name = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)
}
