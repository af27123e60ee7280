//! The unit's files as text: what the bus does not tell, and which file and line a setting is from.
//! Syntax: systemd.syntax(7).

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;
use heaptrial_host::systemd::Unit;

/// One assignment in a unit file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// All assignments of a unit file and its drop-ins, in the order in which they apply.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnitText {
    assignments: Vec<Assignment>,
}

impl UnitText {
    pub(crate) fn read(root: &HostRoot, unit: &Unit) -> Self {
        let files = unit.unit_file.iter().chain(&unit.drop_ins);
        let assignments = files
            .filter_map(|file| Some((file, fs::read(root.path(file)).ok()?)))
            .flat_map(|(file, bytes)| parse(file, &String::from_utf8_lossy(&bytes)));
        Self { assignments: assignments.collect() }
    }

    /// All assignments of a key.
    pub(crate) fn all(&self, section: &str, key: &str) -> Vec<&Assignment> {
        self.assignments.iter().filter(|found| found.section == section && found.key == key).collect()
    }

    /// The assignment that counts for a key with one value.
    pub(crate) fn last(&self, section: &str, key: &str) -> Option<&Assignment> {
        self.all(section, key).pop().filter(|found| !found.value.is_empty())
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, section: &str, key: &str) -> bool {
        self.last(section, key).is_some_and(|found| is_true(&found.value))
    }

    /// The assignments that count for a key that collects values: an empty one forgets those before.
    pub(crate) fn collected(&self, section: &str, key: &str) -> Vec<&Assignment> {
        let mut found = Vec::new();
        for assignment in self.all(section, key) {
            match assignment.value.is_empty() {
                true => found.clear(),
                false => found.push(assignment),
            }
        }
        found
    }
}

fn is_true(value: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn parse(file: &Path, text: &str) -> Vec<Assignment> {
    let mut found = Vec::new();
    let mut section = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let mut line = first.trim().to_owned();
        if line.starts_with(['#', ';']) {
            continue;
        }
        // A comment between continued lines is left out; it does not end them.
        while line.ends_with('\\') {
            line.pop();
            line.push(' ');
            match lines.find(|(_, next)| !next.trim_start().starts_with(['#', ';'])) {
                Some((_, next)) => line.push_str(next.trim()),
                None => break,
            }
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once('=') {
            found.push(Assignment {
                file: file.to_owned(),
                line: index + 1,
                section: section.clone(),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            });
        }
    }
    found
}

/// The words of a value: separated by spaces, with quotes and backslashes.
pub(crate) fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The variables that a value of `Environment=` sets.
pub(crate) fn variables(value: &str) -> Vec<(String, String)> {
    let pairs = words(value).into_iter();
    pairs.filter_map(|word| word.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> UnitText {
        UnitText { assignments: parse(Path::new("/u"), text) }
    }

    #[test]
    fn sections_comments_and_continued_lines() {
        let text =
            of("# c\n[Unit]\nRefuseManualStart=yes\n[Service]\nExecStart=/a \\\n# no\n  b\nType=x\nType=\n");
        assert!(text.is_on("Unit", "RefuseManualStart"));
        let start = text.last("Service", "ExecStart").unwrap();
        assert_eq!((start.value.as_str(), start.line), ("/a  b", 5));
        assert_eq!(text.last("Service", "Type"), None);
    }

    #[test]
    fn an_empty_value_forgets_those_before() {
        let text = of("[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n");
        let values: Vec<_> = text.collected("Service", "Environment").iter().map(|a| a.line).collect();
        assert_eq!(values, [4]);
    }

    #[test]
    fn variables_are_taken_out_of_quotes() {
        let found = variables(r#"A=1 "LD_PRELOAD=/x y.so" B="a\"b" 'C=d'"#);
        let expected = [("A", "1"), ("LD_PRELOAD", "/x y.so"), ("B", "a\"b"), ("C", "d")];
        assert_eq!(found, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\PC\\n\\\\=\\[\\]\"' ]{0,80}") {
            let _ = variables(&text);
            for found in parse(Path::new("/u"), &text) {
                prop_assert!(found.line <= text.lines().count());
            }
        }
    }
}
