//! `Environment=` and `UnsetEnvironment=` in the files of units (systemd.syntax(7)): systemd itself hands out the sum of all files.

use std::fs;
use std::path::Path;

use heaptrial_host::HostRoot;

/// The values of a key of `[Service]` in a file, as they are written; an empty one forgets those before.
pub(crate) fn assignments(root: &HostRoot, file: &Path, wanted: &str) -> Vec<String> {
    let bytes = fs::read(root.path(file)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let is_comment = |line: &&str| line.trim_start().starts_with(['#', ';']);
    let lines: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let mut in_service = false;
    let mut found = Vec::new();
    for line in joined.lines().map(str::trim) {
        if line.starts_with('[') {
            in_service = line == "[Service]";
        }
        match line.split_once('=') {
            Some((key, value)) if in_service && key.trim() == wanted => {
                found.push(value.trim().to_owned());
            }
            _ => {}
        }
    }
    found
}

/// Whether a value sets a variable to something.
pub(crate) fn sets(value: &str, name: &str) -> bool {
    let words = value.split([' ', '\t', '"', '\'']);
    words.filter_map(|word| word.split_once('=')).any(|(set, value)| set == name && !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_comments_quotes_and_continued_lines() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "# c\n[Unit]\nEnvironment=X=1\n[Service]\nEnvironment=A=1 \\\n# no\n  \"B=2 3\"\nEnvironment=\n";
        fs::write(folder.path().join("u"), text).unwrap();
        let found = assignments(&HostRoot::at(folder.path()), Path::new("/u"), "Environment");
        assert_eq!(found, ["A=1    \"B=2 3\"", ""]);
        assert!(sets(&found[0], "A") && sets(&found[0], "B") && !sets(&found[0], "X"));
        assert!(!sets("A=", "A"));
    }
}
