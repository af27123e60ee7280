//! Schema versions: making a new database, and bringing an older one up to date.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::{Access, OpenFile, SCHEMA_VERSION, Store, StoreError};

/// Steps from each version to the next; the first is from version 1.
const STEPS: [&str; 3] = [
    include_str!("migrate_1_to_2.sql"),
    include_str!("migrate_2_to_3.sql"),
    include_str!("migrate_3_to_4.sql"),
];

impl Store {
    /// Brings the database from version `found` to [`SCHEMA_VERSION`]; 0 is an empty one. All or nothing.
    pub(crate) fn migrate(&self, found: i64) -> Result<(), StoreError> {
        if found == SCHEMA_VERSION {
            return Ok(());
        }
        let steps = match found {
            0 => include_str!("schema.sql").to_owned(),
            // `found` is at least 1 here.
            older => STEPS[older as usize - 1..].concat(),
        };
        // Tables that others refer to are made anew; whether a transaction is open decides if this takes effect.
        let migrate = || -> rusqlite::Result<()> {
            self.connection.execute_batch("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")?;
            // Another process may have done it since `found` was read.
            let result = match crate::user_version(&self.connection)? {
                version if version == found => self
                    .connection
                    .execute_batch(&format!("{steps} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT")),
                _ => self.connection.execute_batch("ROLLBACK"),
            };
            if result.is_err() && !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            self.connection.execute_batch("PRAGMA foreign_keys = ON")?;
            result
        };
        migrate().map_err(StoreError::open(&self.path))
    }

    /// An older database opened for reading: a copy of it in memory is brought up to date, the file stays as it is.
    pub(crate) fn migrated_copy(from: Connection, path: &Path, found: i64) -> Result<Self, StoreError> {
        let copy = || -> rusqlite::Result<Connection> {
            let mut connection = Connection::open_in_memory()?;
            Backup::new(&from, &mut connection)?.step(-1)?;
            Ok(connection)
        };
        let connection = copy().map_err(StoreError::open(path))?;
        let file = OpenFile::at(path);
        let store = Self { connection, path: path.to_owned(), access: Access::Copy, file };
        store.migrate(found)?;
        Ok(store)
    }
}
