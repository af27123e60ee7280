//! Files of environment variables (EnvironmentFile in systemd.exec(5)), read as systemd reads them.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;

use crate::preflight::glob;

/// A variable that a file sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The variables of all files, in order. A file name may hold `*` and `?`; files that cannot be read are left out.
pub(crate) fn read(root: &HostRoot, files: &[PathBuf]) -> Vec<Variable> {
    let files = files.iter().flat_map(|file| matching(root, file));
    files
        .filter_map(|file| {
            let bytes = fs::read(root.path(&file)).ok()?;
            Some(parse(&file, &String::from_utf8_lossy(&bytes)))
        })
        .flatten()
        .collect()
}

/// The files that a name of EnvironmentFile= stands for, in the order in which systemd reads them.
pub(crate) fn matching(root: &HostRoot, file: &Path) -> Vec<PathBuf> {
    let text = file.to_string_lossy();
    let file = Path::new(text.strip_prefix('-').unwrap_or(&text));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (Some(folder), true) = (file.parent(), name.contains(['*', '?', '['])) else {
        return vec![file.to_owned()];
    };
    let Some(pattern) = glob(&name) else { return vec![file.to_owned()] };
    let entries = fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<PathBuf> =
        names.filter(|name| pattern.is_match(name)).map(|name| folder.join(name)).collect();
    found.sort();
    found
}

/// What the next character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Comment,
    Key,
    /// Nothing of the value was read yet, or a quoted part of it has ended.
    BeforeValue,
    Value,
    Quoted(char),
}

/// Quotes count where a value begins and after a quoted part, and a comment only where a line begins.
fn parse(file: &Path, text: &str) -> Vec<Variable> {
    let mut found = Vec::new();
    let (mut state, mut key, mut value) = (State::Key, String::new(), String::new());
    let (mut line, mut begun_in) = (1, 1);
    let mut push = |key: &mut String, value: &mut String, line| {
        let name = std::mem::take(key).trim().to_owned();
        let value = std::mem::take(value);
        if is_name(&name) {
            found.push(Variable { file: file.to_owned(), line, name, value });
        }
    };
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let ends_line = matches!(c, '\n' | '\r');
        state = match (state, c) {
            (State::Comment, _) if ends_line => State::Key,
            (State::Comment, _) => State::Comment,
            (State::Key, '#' | ';') if key.trim().is_empty() => State::Comment,
            (State::Key, '=') => {
                begun_in = line;
                State::BeforeValue
            }
            (State::Key, _) if ends_line => {
                key.clear();
                State::Key
            }
            (State::Key, _) => {
                key.push(c);
                State::Key
            }
            (State::BeforeValue | State::Value, _) if ends_line => {
                if state == State::Value {
                    value.truncate(value.trim_end_matches([' ', '\t']).len());
                }
                push(&mut key, &mut value, begun_in);
                State::Key
            }
            (State::BeforeValue, '"' | '\'') => State::Quoted(c),
            (State::BeforeValue, ' ' | '\t') => State::BeforeValue,
            (State::BeforeValue | State::Value, '\\') => {
                // An escaped end of a line is none.
                match characters.next() {
                    Some('\n') => line += 1,
                    escaped => value.extend(escaped),
                }
                State::Value
            }
            (State::BeforeValue | State::Value, _) => {
                value.push(c);
                State::Value
            }
            (State::Quoted(quote), _) if c == quote => State::BeforeValue,
            (State::Quoted('"'), '\\') => {
                match characters.next() {
                    Some('\n') => line += 1,
                    Some(escaped @ ('"' | '\\' | '`' | '$')) => value.push(escaped),
                    other => {
                        value.push(c);
                        value.extend(other);
                    }
                }
                state
            }
            (State::Quoted(_), _) => {
                value.push(c);
                state
            }
        };
        line += usize::from(c == '\n');
    }
    if state == State::Value {
        value.truncate(value.trim_end_matches([' ', '\t']).len());
    }
    if !matches!(state, State::Key | State::Comment) {
        push(&mut key, &mut value, begun_in);
    }
    found
}

/// systemd drops what is no name of a variable, such as `export A`.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| plain(c) && !c.is_ascii_digit()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_comments_and_wildcards() {
        let folder = tempfile::tempdir().unwrap();
        let root = HostRoot::at(folder.path());
        fs::create_dir_all(root.path("/etc/x")).unwrap();
        fs::write(root.path("/etc/x/a.conf"), "# LD_PRELOAD=/no\nLD_PRELOAD=\"/a b.so\"\n").unwrap();
        fs::write(root.path("/etc/x/b.conf"), "\nB = c\n").unwrap();
        fs::write(root.path("/etc/x/c.other"), "C=d\n").unwrap();
        let found = read(&root, &[PathBuf::from("/etc/x/*.conf"), PathBuf::from("-/missing")]);
        let told: Vec<_> = found.iter().map(|v| (v.line, v.name.as_str(), v.value.as_str())).collect();
        assert_eq!(told, [(2, "LD_PRELOAD", "/a b.so"), (2, "B", "c")]);
        assert_eq!(found[0].file, Path::new("/etc/x/a.conf"));
    }
}
