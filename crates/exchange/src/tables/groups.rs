//! Lists of the services of a group: one nickname a line.

use crate::ImportError;
use crate::measured::NOT_A_NICKNAME;
use crate::problem::{Place, ProblemKind, Problems};
use heaptrial_model::ServiceName;

use super::table::without_mark;

/// What a list may have above its nicknames, as tables do.
const HEADER: &[u8] = b"nickname";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFile {
    /// The nicknames, each once, in the order of the file.
    pub members: Vec<String>,
    pub rows: u64,
    pub skipped: u64,
}

/// Reads a list. What follows a `#` is a comment; empty lines are passed over.
pub fn read_group(file: &str, bytes: &[u8], problems: &mut Problems) -> Result<GroupFile, ImportError> {
    let mut group = GroupFile::default();
    let mut seen = std::collections::HashSet::new();
    for (index, line) in without_mark(bytes).split(|byte| *byte == b'\n').enumerate() {
        let text = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if text.is_empty() {
            continue;
        }
        let first = group.rows == 0;
        group.rows += 1;
        let place = Place { file, line: index as u64 + 1, column: None, value: text };
        let name = std::str::from_utf8(text).ok().and_then(|text| text.parse::<ServiceName>().ok());
        match name {
            Some(_) if first && text.eq_ignore_ascii_case(HEADER) => {
                group.rows = 0;
                problems.report(
                    place,
                    ProblemKind::Note,
                    "taken for the header of the list, not for a service",
                )?;
            }
            None => {
                group.skipped += 1;
                problems.report(place, ProblemKind::MalformedRow, NOT_A_NICKNAME)?;
            }
            Some(name) if seen.insert(name.clone()) => group.members.push(name.as_str().to_owned()),
            Some(_) => problems.report(place, ProblemKind::Note, "named twice in this list; counted once")?,
        }
    }
    // A table in place of a list has commas in every line.
    if 2 * group.skipped > group.rows {
        let GroupFile { rows, skipped, .. } = group;
        return Err(ImportError::Refused(format!(
            "{file}: no list of services: {skipped} of {rows} lines are no nickname; expected one nickname a line"
        )));
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_line_ends_do_not_matter() {
        let mut problems = Problems::new(false);
        let text = b"\xef\xbb\xbf# group A\r\none\r\n\r\n  two # was B\nthree\nbad name\none\n\xff";
        let group = read_group("A.txt", text, &mut problems).unwrap();
        assert_eq!(group.members, ["one", "two", "three"]);
        assert_eq!((group.rows, group.skipped), (6, 2));
        assert_eq!(problems.details[0].to_string(), format!("A.txt:6: {NOT_A_NICKNAME}: `bad name`"));
        assert_eq!(problems.count(ProblemKind::Note), 1);
    }

    #[test]
    fn a_header_is_no_service() {
        let mut problems = Problems::new(true);
        let group = read_group("A.txt", b"# A\nNickname\none\n", &mut problems).unwrap();
        assert_eq!((group.members, group.rows), (vec!["one".to_owned()], 1));
        assert_eq!(problems.details[0].line, 2);
        assert_eq!(read_group("A.txt", b"one\nnickname\n", &mut problems).unwrap().members.len(), 2);
    }

    #[test]
    fn an_empty_list_is_a_list() {
        assert_eq!(read_group("A.txt", b"", &mut Problems::new(true)).unwrap(), GroupFile::default());
    }
}
