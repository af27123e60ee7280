//! The torrc format, as tor(1) describes it under "THE CONFIGURATION FILE FORMAT" and as tor reads it.

/// How a line changes its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// `Option value`: replaces what files of lower rank say.
    Set,
    /// `+Option value`: is added to what files of lower rank say.
    Add,
    /// `/Option`: takes all values away.
    Clear,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) change: Change,
    /// As it is written, lossy where it is not UTF-8.
    pub(super) option: String,
    /// Without quotes, escapes, continuations and comments. Paths need not be UTF-8.
    pub(super) value: Vec<u8>,
}

/// A line that tor would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) line: usize,
    pub(super) problem: &'static str,
}

/// All option lines of a file, in order. Tor reads a file up to its first NUL byte, and without carriage returns.
pub(super) fn lines(bytes: &[u8]) -> Result<Vec<Line>, Malformed> {
    let bytes = bytes.iter().copied().take_while(|byte| *byte != 0).filter(|byte| *byte != b'\r');
    let bytes: Vec<u8> = bytes.collect();
    let mut cursor = Cursor { bytes: &bytes, at: 0 };
    let mut lines = Vec::new();
    loop {
        cursor.skip_blank_and_comments();
        if cursor.peek().is_none() {
            return Ok(lines);
        }
        let line = cursor.line_number();
        let (change, option, value) = cursor.line().map_err(|problem| Malformed { line, problem })?;
        lines.push(Line { change, option: String::from_utf8_lossy(option).into_owned(), value });
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn line_number(&self) -> usize {
        1 + self.bytes[..self.at].iter().filter(|byte| **byte == b'\n').count()
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    fn skip_comment(&mut self) {
        self.skip_while(|byte| byte != b'\n');
    }

    fn skip_blank_and_comments(&mut self) {
        loop {
            self.skip_while(is_space);
            if self.peek() != Some(b'#') {
                return;
            }
            self.skip_comment();
        }
    }

    fn at_continuation(&self) -> bool {
        self.bytes[self.at..].starts_with(b"\\\n")
    }

    fn line(&mut self) -> Result<(Change, &'a [u8], Vec<u8>), &'static str> {
        let start = self.at;
        while self.peek().is_some_and(|byte| !is_space(byte) && byte != b'#') && !self.at_continuation() {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        self.skip_while(|byte| byte == b' ' || byte == b'\t');
        let value = if self.peek() == Some(b'"') { self.quoted()? } else { self.plain() };
        Ok(match word {
            [b'+', option @ ..] => (Change::Add, option, value),
            [b'/', option @ ..] => (Change::Clear, option, Vec::new()),
            option => (Change::Set, option, value),
        })
    }

    fn plain(&mut self) -> Vec<u8> {
        let start = self.at;
        let mut continued = false;
        while let Some(byte) = self.peek() {
            if self.at_continuation() {
                continued = true;
                self.at += 2;
            } else if byte == b'\n' || (byte == b'#' && !continued) {
                break;
            } else if byte == b'#' {
                self.skip_comment_line();
            } else {
                self.at += 1;
            }
        }
        let raw = &self.bytes[start..self.at];
        let kept = raw.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
        // Only now are the marks of a continued line taken out, so that one at the end loses its line break above and
        // stays, as with tor.
        Cursor { bytes: &raw[..kept], at: 0 }.joined()
    }

    /// A value without marks of continuation and comments between them.
    fn joined(mut self) -> Vec<u8> {
        let mut value = Vec::new();
        while let Some(byte) = self.peek() {
            if self.at_continuation() {
                self.at += 2;
            } else if byte == b'#' {
                self.skip_comment_line();
            } else {
                value.push(byte);
                self.at += 1;
            }
        }
        value
    }

    /// A comment inside a continued line, with its line break.
    fn skip_comment_line(&mut self) {
        self.skip_comment();
        self.at = (self.at + 1).min(self.bytes.len());
    }

    fn quoted(&mut self) -> Result<Vec<u8>, &'static str> {
        let (value, length) =
            unquote(&self.bytes[self.at..]).ok_or("has a quoted value without end or with a wrong escape")?;
        self.at += length;
        self.skip_while(|byte| byte == b' ' || byte == b'\t');
        match self.peek() {
            None | Some(b'#' | b'\n') => Ok(value),
            Some(_) => Err("goes on after a quoted value"),
        }
    }
}

/// The value of a C-style quoted string at the start of `bytes`, and how long it is with its quotes.
pub(crate) fn unquote(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut value = Vec::new();
    let mut at = 1;
    if bytes.first() != Some(&b'"') {
        return None;
    }
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((value, at + 1)),
            b'\n' => return None,
            b'\\' => {
                let (byte, length) = escape(&bytes[at + 1..])?;
                value.push(byte);
                at += 1 + length;
            }
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
}

/// The byte that an escape stands for, and its length after the backslash.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    let digits = |digits: &[u8], radix| u8::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok();
    Some(match *bytes.first()? {
        b'n' => (b'\n', 1),
        b't' => (b'\t', 1),
        b'r' => (b'\r', 1),
        byte @ (b'\'' | b'"' | b'\\' | b'?') => (byte, 1),
        b'x' | b'X' => {
            let hex = bytes.get(1..3).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))?;
            (digits(hex, 16)?, 3)
        }
        b'0'..=b'7' => {
            let length = bytes.iter().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
            (digits(&bytes[..length], 8)?, length)
        }
        _ => return None,
    })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<(String, String)> {
        let text = |value| String::from_utf8(value).unwrap();
        lines(bytes).unwrap().into_iter().map(|line| (line.option, text(line.value))).collect()
    }

    fn one(bytes: &[u8]) -> String {
        let mut lines = read(bytes);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0).1
    }

    #[test]
    fn comments_continuations_and_quotes_are_read_as_tor_reads_them() {
        assert_eq!(one(b"\n  # a comment\n\tNickname  relay # behind\n"), "relay");
        assert_eq!(one(b"Nickname relay\r\n"), "relay");
        assert_eq!(one(b"Nickname relay"), "relay");
        assert_eq!(one(b"ExitPolicy accept *:80,\\\n# inside\nreject *:*\n"), "accept *:80,reject *:*");
        assert_eq!(
            one(b"DataDirectory \"/a \\\"b\\\" \\x41\\101 # no comment\" # a comment"),
            "/a \"b\" AA # no comment"
        );
        assert_eq!(one(b"ContactInfo me \\\n\n"), "me \\");
        assert_eq!(one(b"DirCache"), "");
        assert_eq!(one(b"DirCache 0\n\0DirCache 1"), "0");
        assert_eq!(one(b"Nickname a\\\r\nb\rc\r"), "abc");
    }

    #[test]
    fn a_malformed_line_has_its_number() {
        assert_eq!(lines(b"A b\n\nDataDirectory \"/a\n").unwrap_err().line, 3);
        assert!(lines(b"DataDirectory \"/a\" b").is_err());
        assert!(lines(b"DataDirectory \"\\q\"").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>(), text in "([A-C/+%\"\\\\# \t\r\n\u{0}]{0,40})") {
            let _ = lines(&bytes);
            let _ = lines(text.as_bytes());
        }
    }
}
