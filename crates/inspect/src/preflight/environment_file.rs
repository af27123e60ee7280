//! Files of environment variables (EnvironmentFile in systemd.exec(5)).

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;

use crate::preflight::unit_text::words;

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

fn matching(root: &HostRoot, file: &Path) -> Vec<PathBuf> {
    let text = file.to_string_lossy();
    let file = Path::new(text.strip_prefix('-').unwrap_or(&text));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (Some(folder), true) = (file.parent(), name.contains(['*', '?', '['])) else {
        return vec![file.to_owned()];
    };
    let Some(pattern) = crate::preflight::apparmor::glob(&name) else { return vec![file.to_owned()] };
    let entries = fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<PathBuf> =
        names.filter(|name| pattern.is_match(name)).map(|name| folder.join(name)).collect();
    found.sort();
    found
}

fn parse(file: &Path, text: &str) -> Vec<Variable> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let mut line = first.trim().to_owned();
        if line.starts_with(['#', ';']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            let Some((_, next)) = lines.next() else { break };
            line.push_str(next.trim());
        }
        if let Some((name, value)) = line.split_once('=') {
            let value = value.trim();
            let value = match value.starts_with(['"', '\'']) {
                true => words(value).into_iter().next().unwrap_or_default(),
                false => value.to_owned(),
            };
            let name = name.trim().trim_start_matches("export ").to_owned();
            found.push(Variable { file: file.to_owned(), line: index + 1, name, value });
        }
    }
    found
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
