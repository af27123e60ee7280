//! The SQLite database of a lab run or a host.
//!
//! One writer, one transaction per tick (`synchronous=FULL`, WAL): after a kill at any moment the
//! database holds everything up to the last committed tick.

mod error;
mod read;
mod records;
mod write;

pub use error::StoreError;
pub use records::{
    ArmRecord, EventRecord, LifeRecord, NewTrial, SeriesPoint, ServiceRecord, TickInput, TickSummary,
    TrialRecord,
};

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// The schema this version of Heaptrial writes, kept in SQLite's `user_version`.
pub const SCHEMA_VERSION: i64 = 1;

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
        store.prepare().map_err(StoreError::open(path))?;
        let found = store.schema_version()?;
        match found {
            SCHEMA_VERSION => {}
            0 => store.migrate()?,
            _ => return Err(StoreError::Schema { path: path.to_owned(), found, known: SCHEMA_VERSION }),
        }
        Ok(store)
    }

    /// Opens an existing database for reading only. Leftovers of a killed writer are no obstacle.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.is_file() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        // A reader of a WAL database must be able to write its shared-memory index; where the folder
        // is read-only, the file is read as immutable instead.
        let writable = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, writable)
            .and_then(|connection| connection.pragma_update(None, "query_only", true).map(|()| connection))
            .or_else(|_| {
                let uri = format!("file:{}?immutable=1", path.display().to_string().replace('?', "%3f"));
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(uri, flags)
            })
            .map_err(StoreError::open(path))?;
        let store = Self { connection, path: path.to_owned() };
        match store.schema_version()? {
            SCHEMA_VERSION => Ok(store),
            found => Err(StoreError::Schema { path: path.to_owned(), found, known: SCHEMA_VERSION }),
        }
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
        self.connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(StoreError::open(&self.path))
    }

    fn migrate(&self) -> Result<(), StoreError> {
        let script =
            format!("BEGIN; {} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;", include_str!("schema.sql"));
        self.connection.execute_batch(&script).map_err(StoreError::open(&self.path))
    }
}
