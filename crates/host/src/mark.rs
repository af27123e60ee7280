//! The line in a file that names the trial or rollout that wrote it.

const BEGINS: &str = "# Written by Heaptrial for trial ";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    pub name: String,
    pub id: String,
}

impl Mark {
    /// The line, for an arm. None of the texts may hold a line break.
    pub fn line(&self, arm: &str) -> String {
        format!("{BEGINS}{} ({}), arm {arm}.\n", self.name, self.id)
    }

    /// Of the bytes of a file that begins with such a line.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let rest = std::str::from_utf8(line).ok()?.strip_prefix(BEGINS)?;
        let (name, rest) = rest.split_once(" (")?;
        let (id, _) = rest.split_once("), arm ")?;
        Some(Self { name: name.to_owned(), id: id.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wrote_a_file_is_read_from_its_first_line() {
        let mark = Mark { name: "five-way".to_owned(), id: "0123".to_owned() };
        let line = mark.line("jemalloc (secure)");
        assert_eq!(Mark::of(format!("{line}[Service]\n").as_bytes()), Some(mark));
        assert_eq!(Mark::of(format!("[Service]\n{line}").as_bytes()), None);
    }
}
