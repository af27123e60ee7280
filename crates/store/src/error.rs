use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass, TrialKind};

/// Why the database could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{path}: no database here; name a run's folder or its heaptrial.db")]
    Missing { path: PathBuf },
    #[error("{path}: cannot be opened as a database of Heaptrial: {source}")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error(
        "{path}: schema version {found}, this version of Heaptrial knows {known}; use the version that wrote it or a newer one"
    )]
    Schema { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{path}: is damaged ({why}); of a database in use take `heaptrial export --format heaptrial`, not a plain copy"
    )]
    Damaged { path: PathBuf, why: String },
    #[error("{path}: the disk is full; everything up to the last tick is kept")]
    DiskFull { path: PathBuf },
    /// Another process keeps everybody else out, and was waited for.
    #[error(
        "{path}: another command holds the database, such as an import that is under way; try again when that has ended"
    )]
    Held { path: PathBuf },
    #[error("{path}: `{name}` goes on already ({}); end it first, or give the new one another name", .kind.describe())]
    NameTaken { path: PathBuf, name: String, kind: TrialKind },
    #[error("{path}: {doing}: {source}")]
    Query { path: PathBuf, doing: &'static str, source: rusqlite::Error },
}

impl Classified for StoreError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Missing { .. }
            | Self::Open { .. }
            | Self::Schema { .. }
            | Self::Damaged { .. }
            | Self::NameTaken { .. } => ErrorClass::Refused,
            Self::DiskFull { .. } | Self::Held { .. } | Self::Query { .. } => ErrorClass::Failed,
        }
    }
}

impl StoreError {
    /// Whether the same may succeed later: the disk is full, the file is locked, or the disk has a fault.
    pub fn is_passing(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseLocked, DiskFull, FileLockingProtocolFailed, ReadOnly, SystemIoFailure,
        };
        match self {
            Self::DiskFull { .. } | Self::Held { .. } => true,
            Self::Open { source, .. } | Self::Query { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(
                    CannotOpen
                        | DatabaseLocked
                        | DiskFull
                        | FileLockingProtocolFailed
                        | ReadOnly
                        | SystemIoFailure
                )
            ),
            _ => false,
        }
    }

    pub(crate) fn open(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        move |source| match source.sqlite_error_code() {
            _ if is_disk_full(&source) => Self::DiskFull { path: path.to_owned() },
            Some(rusqlite::ErrorCode::DatabaseBusy) => Self::Held { path: path.to_owned() },
            _ => Self::Open { path: path.to_owned(), source },
        }
    }

    pub(crate) fn query(path: &Path, doing: &'static str) -> impl Fn(rusqlite::Error) -> Self {
        move |source| match source.sqlite_error_code() {
            _ if is_disk_full(&source) => Self::DiskFull { path: path.to_owned() },
            Some(rusqlite::ErrorCode::DatabaseBusy) => Self::Held { path: path.to_owned() },
            _ => Self::Query { path: path.to_owned(), doing, source },
        }
    }
}

/// Whether there was no room, for the database or for the index of its log: SQLite reports the
/// latter as a fault (SQLITE_IOERR_SHMSIZE).
fn is_disk_full(error: &rusqlite::Error) -> bool {
    let index =
        error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
    index || error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_for_the_index_of_the_log_is_a_full_disk() {
        let error_of = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            StoreError::open(Path::new("x.db"))(error)
        };
        for code in [rusqlite::ffi::SQLITE_IOERR_SHMSIZE, rusqlite::ffi::SQLITE_FULL] {
            assert!(matches!(error_of(code), StoreError::DiskFull { .. }), "{:?}", error_of(code));
        }
        assert!(matches!(error_of(rusqlite::ffi::SQLITE_IOERR_READ), StoreError::Open { .. }));
    }
}
