//! Words of a command line that can be typed again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A word as a shell reads it. One that is not UTF-8, or has control characters, is written as `$'..'`, which bash, ksh and
/// zsh read.
pub fn quoted(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) if !text.chars().any(char::is_control) => shell_words::quote(text).into_owned(),
        _ => format!("$'{}'", escaped(word.as_bytes())),
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
    }
}
