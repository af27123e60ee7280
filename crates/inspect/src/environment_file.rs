//! Files of environment variables (EnvironmentFile in systemd.exec(5)), read as systemd reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::Chars;

use heaptrial_host::HostRoot;

/// A variable that a file sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The variables of all files, in order. Files that cannot be read, and names with `*`, are passed over.
pub(crate) fn read(root: &HostRoot, files: &[PathBuf]) -> Vec<Variable> {
    let read = |file: &PathBuf| {
        let text = file.to_string_lossy();
        let file = Path::new(text.strip_prefix('-').unwrap_or(&text));
        Some(parse(file, &String::from_utf8_lossy(&fs::read(root.path(file)).ok()?)))
    };
    files.iter().filter_map(read).flatten().collect()
}

fn parse(file: &Path, text: &str) -> Vec<Variable> {
    let mut found = Vec::new();
    let mut rest = text.chars();
    let mut key = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\r' => key.clear(),
            '#' | ';' if key.trim().is_empty() => drop(rest.find(|c| matches!(c, '\n' | '\r'))),
            '=' => {
                let name = std::mem::take(&mut key).trim().to_owned();
                let value = value(&mut rest);
                if is_name(&name) {
                    found.push(Variable { file: file.to_owned(), name, value });
                }
            }
            c => key.push(c),
        }
    }
    found
}

/// Quotes count where a value begins and after a quoted part.
fn value(rest: &mut Chars<'_>) -> String {
    let (mut value, mut quote, mut is_plain) = (String::new(), None, false);
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, '\n' | '\r') => break,
            (None, '"' | '\'') if !is_plain => quote = Some(c),
            (None, ' ' | '\t') if !is_plain => {}
            (Some(open), _) if c == open => quote = None,
            (Some('"'), '\\') => match rest.next() {
                Some('\n') => {}
                Some(escaped @ ('"' | '\\' | '`' | '$')) => value.push(escaped),
                other => value.extend([Some(c), other].into_iter().flatten()),
            },
            (None, '\\') => {
                // An escaped end of a line is none.
                value.extend(rest.next().filter(|escaped| *escaped != '\n'));
                is_plain = true;
            }
            _ => {
                value.push(c);
                is_plain = quote.is_none();
            }
        }
    }
    if is_plain {
        value.truncate(value.trim_end_matches([' ', '\t']).len());
    }
    value
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
    fn quotes_and_comments() {
        let folder = tempfile::tempdir().unwrap();
        let root = HostRoot::at(folder.path());
        fs::create_dir_all(root.path("/etc/x")).unwrap();
        fs::write(
            root.path("/etc/x/a.conf"),
            "# LD_PRELOAD=/no\nLD_PRELOAD=\"/a b.so\"\nC=a\\\nb 'c' \nexport D=1\nE='x' \"y\\$\" \n",
        )
        .unwrap();
        let found = read(&root, &[PathBuf::from("-/etc/x/a.conf"), PathBuf::from("-/missing")]);
        let variables: Vec<_> = found.iter().map(|v| (v.name.as_str(), v.value.as_str())).collect();
        assert_eq!(variables, [("LD_PRELOAD", "/a b.so"), ("C", "ab 'c'"), ("E", "xy$")]);
        assert_eq!(found[0].file, Path::new("/etc/x/a.conf"));
    }
}
