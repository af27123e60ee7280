//! Words of a command line that can be typed again.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// A word as a shell reads it. One that is not UTF-8, or has control characters, is written as `$'..'`, which bash, ksh and
/// zsh read.
pub fn quoted(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) if !text.chars().any(char::is_control) => shell_words::quote(text).into_owned(),
        _ => format!("$'{}'", escaped(word.as_bytes())),
    }
}

/// The words of a command line that is made of [`quoted`] ones.
pub fn split(line: &str) -> Result<Vec<OsString>, shell_words::ParseError> {
    let mut words = Vec::new();
    let (mut plain, mut at) = (0, 0);
    let mut quote = None;
    let mut begins = true;
    let bytes = line.as_bytes();
    while let Some(byte) = bytes.get(at) {
        if quote.is_none() && begins && bytes[at..].starts_with(b"$'") {
            words.extend(shell_words::split(&line[plain..at])?.into_iter().map(OsString::from));
            let (word, end) = unescaped(bytes, at + 2).ok_or(shell_words::ParseError)?;
            words.push(OsString::from_vec(word));
            (plain, at) = (end, end);
            continue;
        }
        begins = quote.is_none() && byte.is_ascii_whitespace();
        match (quote, byte) {
            (None, b'\'' | b'"') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            (None | Some(b'"'), b'\\') => at += 1,
            _ => {}
        }
        at += 1;
    }
    words.extend(shell_words::split(&line[plain..])?.into_iter().map(OsString::from));
    Ok(words)
}

/// What stands in `$'..'` from a place on, and the place behind it.
fn unescaped(bytes: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'\'', _) => return Some((word, at + 1)),
            (b'\\', Some(b'0'..=b'7')) => {
                let digits = bytes.get(at + 1..at + 4)?;
                word.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?);
                at += 4;
            }
            (b'\\', next) => {
                word.push(match next? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                at += 2;
            }
            (plain, _) => {
                word.push(plain);
                at += 1;
            }
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' | '\'' => text.extend(['\\', character]),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                // Three octal digits: what follows is never taken for a part of it.
                control if control.is_ascii_control() => text.push_str(&format!("\\{:03o}", control as u32)),
                plain => text.push(plain),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\{byte:03o}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_was() {
        let words: [&[u8]; 8] = [
            b"plain",
            b"two words",
            b"",
            b"it's",
            b"\xff\xfe1",
            b"a\nb\x1b[0m",
            b"q'\\\xe9",
            "é\x01".as_bytes(),
        ];
        for word in words {
            let told = quoted(OsStr::from_bytes(word));
            let output = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {told}")])
                .output()
                .unwrap();
            assert_eq!(output.stdout, word, "{told}");
        }
        assert_eq!(quoted(OsStr::from_bytes(b"\xff1")), "$'\\3771'");
        // As a line of a command, with others that look like it.
        let others: [&[u8]; 4] = [b"$'", b"a $'b' c", b"x=$'y'", b"\\"];
        let words: Vec<&[u8]> = words.into_iter().chain(others).chain(words).collect();
        let line: Vec<String> = words.iter().map(|word| quoted(OsStr::from_bytes(word))).collect();
        let read = split(&line.join(" ")).unwrap();
        assert_eq!(read.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(), words);
        assert!(split("a $'b").is_err() && split("a $'\\3").is_err());
    }
}
