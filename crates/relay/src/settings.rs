//! The options of a tor process: its files, what they include, and its command line.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;
use rustix::fs::OFlags;

use super::torrc::{self, Change, Line};
use crate::TorError;

const MAX_NESTED_INCLUDES: usize = 31;
/// A folder that includes itself twice would otherwise never end.
const MAX_FILES: usize = 1000;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Values of options by their name in lower case, in the order in which tor reads them.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    values: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Settings {
    /// Adds lines that rank above all before: values that they set replace those.
    pub(super) fn add_layer(&mut self, lines: Vec<Line>) {
        let mut older: BTreeSet<String> = self.values.keys().cloned().collect();
        for line in lines {
            let option = line.option.to_ascii_lowercase();
            let values = self.values.entry(option.clone()).or_default();
            let is_older = older.remove(&option);
            // An option without a value is at its default again.
            if line.change == Change::Clear
                || line.value.is_empty()
                || (line.change == Change::Set && is_older)
            {
                values.clear();
            }
            if line.change != Change::Clear && !line.value.is_empty() {
                values.push(line.value);
            }
        }
    }

    /// All values of an option that may be given more than once.
    pub(super) fn all(&self, option: &str) -> impl Iterator<Item = &[u8]> {
        self.values.get(&option.to_ascii_lowercase()).into_iter().flatten().map(Vec::as_slice)
    }

    /// The value of an option that has one: the last that is given.
    pub(super) fn last(&self, option: &str) -> Option<&[u8]> {
        self.all(option).last()
    }

    pub(super) fn text(&self, option: &str) -> Option<String> {
        // A continued value may begin with a space, which tor does not mind in numbers and names.
        self.last(option).map(|value| String::from_utf8_lossy(value.trim_ascii()).into_owned())
    }

    pub(super) fn path(&self, option: &str) -> Option<PathBuf> {
        self.last(option).map(path)
    }

    pub(super) fn is_one(&self, option: &str) -> bool {
        self.last(option) == Some(b"1")
    }
}

pub(super) fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Reads the lines of a torrc and of what it includes.
pub(super) fn read_lines(root: &HostRoot, torrc: &Path) -> Result<Vec<Line>, TorError> {
    let mut lines = Vec::new();
    Reader { root, files: 0 }.read(torrc, 0, &mut lines)?;
    Ok(lines)
}

struct Reader<'a> {
    root: &'a HostRoot,
    files: usize,
}

impl Reader<'_> {
    fn read(&mut self, file: &Path, depth: usize, lines: &mut Vec<Line>) -> Result<(), TorError> {
        let content = |problem: String| TorError::Content { path: file.to_owned(), problem };
        self.files += 1;
        if depth > MAX_NESTED_INCLUDES || self.files > MAX_FILES {
            return Err(content(format!(
                "is more than {MAX_NESTED_INCLUDES} levels deep or not among the first {MAX_FILES} files of %include"
            )));
        }
        let bytes = read_small(&self.root.path(file), MAX_FILE_BYTES)?;
        let found = torrc::lines(&bytes)
            .map_err(|malformed| content(format!("line {} {}", malformed.line, malformed.problem)))?;
        for line in found {
            if line.option != "%include" {
                lines.push(line);
                continue;
            }
            for included in self.included(&line.value)? {
                self.read(&included, depth + 1, lines)?;
            }
        }
        Ok(())
    }

    /// The files that a `%include` names, in the order in which tor reads them.
    fn included(&self, pattern: &[u8]) -> Result<Vec<PathBuf>, TorError> {
        let mut files = Vec::new();
        for path in self.matches(pattern)? {
            let place = self.root.path(&path);
            if place.is_dir() {
                files.extend(folder(&place)?.into_iter().map(|name| path.join(name)));
            } else {
                files.push(path);
            }
        }
        Ok(files)
    }

    fn matches(&self, pattern: &[u8]) -> Result<Vec<PathBuf>, TorError> {
        if !pattern.iter().any(|byte| b"*?".contains(byte)) {
            return Ok(vec![path(pattern)]);
        }
        let problem = |problem: String| TorError::Content { path: path(pattern), problem };
        let base = self.root.path("/");
        let escaped = glob::Pattern::escape(&base.to_string_lossy());
        // Only `*` and `?` are wildcards of tor; brackets stand for themselves.
        let wanted = String::from_utf8_lossy(pattern).replace('[', "[[]");
        let wanted = format!("{}/{}", escaped.trim_end_matches('/'), wanted.trim_start_matches('/'));
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
        let found = glob::glob_with(&wanted, options).map_err(|error| problem(error.to_string()))?;
        let mut paths: Vec<PathBuf> = found
            .filter_map(Result::ok)
            .filter_map(|place| Some(Path::new("/").join(place.strip_prefix(&base).ok()?)))
            .collect();
        paths.sort_by(|one, other| one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes()));
        Ok(paths)
    }
}

/// The files of a folder in lexical order, without hidden ones.
fn folder(place: &Path) -> Result<Vec<OsString>, TorError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(place).map_err(TorError::file(place))? {
        let name = entry.map_err(TorError::file(place))?.file_name();
        if !name.as_bytes().starts_with(b".") && place.join(&name).is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a regular file of at most `limit` bytes. A pipe that another user put in its place cannot hold us up.
pub(crate) fn read_small(place: &Path, limit: u64) -> Result<Vec<u8>, TorError> {
    let problem = |problem: String| TorError::Content { path: place.to_owned(), problem };
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let file: File =
        OpenOptions::new().read(true).custom_flags(nonblock).open(place).map_err(TorError::file(place))?;
    if !file.metadata().map_err(TorError::file(place))?.is_file() {
        return Err(problem("is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(TorError::file(place))?;
    if bytes.len() as u64 > limit {
        return Err(problem(format!("has more than {limit} bytes")));
    }
    Ok(bytes)
}
