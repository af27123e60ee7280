//! Standard output, tables, and files that appear whole.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::exit::Failure;

/// Columns two spaces apart; the last one is not padded.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The heads of a table.
pub fn heads<const N: usize>(heads: [&str; N]) -> Vec<String> {
    heads.map(str::to_owned).to_vec()
}

/// The first few of several names, and how many more there are.
pub fn some<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Prints a result. A reader that went away is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(error)),
        _ => Ok(()),
    }
}

/// A new file next to another, for [`NamedTempFile::persist`] to put in its place as a whole. Mode as of any new file.
pub fn file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mode = Permissions::from_mode(0o666);
    tempfile::Builder::new().permissions(mode).tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Writes a file as a whole or not at all; replaces what is there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = || {
        let mut file = file_beside(path)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    };
    let failed = |error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    written().map(drop).map_err(failed)
}
