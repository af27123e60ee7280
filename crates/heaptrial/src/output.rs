//! Standard output, tables, and files that appear whole.

use std::fmt;
use std::fs::Permissions;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use heaptrial_model::ServiceName;
use heaptrial_report::Screen;
use serde_json::{Value, json};

use crate::exit::Failure;

/// Columns two spaces apart; the last one is not padded.
#[derive(Default)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    pub fn new(heads: &[&str]) -> Self {
        Self(vec![heads.iter().map(|head| (*head).to_owned()).collect()])
    }

    pub fn row(&mut self, cells: &[&dyn fmt::Display]) {
        self.0.push(cells.iter().map(ToString::to_string).collect());
    }
}

impl From<Vec<Vec<String>>> for Table {
    fn from(rows: Vec<Vec<String>>) -> Self {
        Self(rows)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let screen = Screen { colored: false, width: width() };
        let lines = screen.columns(&self.0, |_| false, |_, line| line.to_owned());
        lines.iter().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

/// Of the terminal that standard output is, in columns, or as COLUMNS says.
pub fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let size = || Some(usize::from(rustix::termios::tcgetwinsize(io::stdout()).ok()?.ws_col));
    said.or_else(size).filter(|width| *width > 0)
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

/// An interval behind its figure, such as ` (0.27 to 0.35)`; nothing where there is none.
pub fn interval(ends: Option<(f64, f64)>, show: impl Fn(f64) -> String) -> String {
    ends.map_or(String::new(), |(low, high)| format!(" ({} to {})", show(low), show(high)))
}

/// Services with their reasons, for programs.
pub fn with_reasons(services: &[(ServiceName, String)]) -> Value {
    services.iter().map(|(service, why)| json!({ "service": service, "why": why })).collect()
}

/// Writes a file as a whole or not at all; replaces what is there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    stream_whole(path, |file| file.write_all(bytes).map_err(|error| cannot_write(path, &error)))
}

/// The same of what is written bit by bit. Mode as of any new file.
pub fn stream_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |error: io::Error| cannot_write(path, &error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mode = Permissions::from_mode(0o666);
    let beside = tempfile::Builder::new().permissions(mode).tempfile_in(folder.unwrap_or(Path::new(".")));
    let mut writer = BufWriter::new(beside.map_err(failed)?);
    let written = write(&mut writer)?;
    let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(written)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}
