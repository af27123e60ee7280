//! Unit names as systemd writes them (systemd.unit(5), systemd-escape(1)).

/// Escapes a text for use as an instance, as `systemd-escape` does: `a/b c` is `a-b\x20c`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'/' => escaped.push('-'),
            b':' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => escaped.push(char::from(byte)),
            b'.' if at > 0 => escaped.push('.'),
            _ => escaped += &format!("\\x{byte:02x}"),
        }
    }
    escaped
}

/// The text that [`escape`] made this of. What is no valid escape is left as it is.
pub fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let escaped = tail.get(..3).and_then(|escape| hex::decode(escape.strip_prefix(b"x")?).ok());
        match (first, escaped) {
            (b'-', _) => bytes.push(b'/'),
            (b'\\', Some(byte)) => {
                bytes.extend(byte);
                rest = &tail[3..];
            }
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A word of a unit file, in quotes, without specifiers (systemd.syntax(7), systemd.unit(5)).
pub fn quoted(text: &str) -> String {
    let mut word = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => word.extend(['\\', c]),
            '%' => word += "%%",
            c => word.push(c),
        }
    }
    word + "\""
}

/// A word of a command line or list in a unit file, without specifiers and variables (systemd.syntax(7), systemd.service(5));
/// `None` where it cannot stand on one line.
pub fn unit_word(word: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@*?:".contains(c);
    match word {
        _ if word.chars().any(char::is_control) => None,
        _ if !word.is_empty() && word.chars().all(is_plain) => Some(word.to_owned()),
        _ => Some(quoted(word).replace('$', "$$")),
    }
}

/// The template and the instance, unescaped, of a unit's name; `None` for a plain unit.
pub fn template_and_instance(name: &str) -> Option<(String, String)> {
    let (stem, unit_type) = name.rsplit_once('.')?;
    let (prefix, instance) = stem.split_once('@')?;
    (!instance.is_empty()).then(|| (format!("{prefix}@.{unit_type}"), unescape(instance)))
}

/// Path of the unit's object on the bus (sd_bus_path_encode(3)).
pub(super) fn object_path(name: &str) -> String {
    let mut path = "/org/freedesktop/systemd1/unit/".to_owned();
    for (at, byte) in name.bytes().enumerate() {
        if byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit()) {
            path.push(char::from(byte));
        } else {
            path += &format!("_{byte:02x}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_by_systemd_escape() {
        // Made with `systemd-escape`.
        for (plain, escaped) in [
            ("relay1", "relay1"),
            ("a/b c", r"a-b\x20c"),
            ("my-relay", r"my\x2drelay"),
            (".hidden.x", r"\x2ehidden.x"),
            ("ü:_@", r"\xc3\xbc:_\x40"),
        ] {
            assert_eq!(escape(plain), escaped);
            assert_eq!(unescape(escaped), plain);
        }
        assert_eq!(unescape(r"a\xzz\x4"), r"a\xzz\x4");
    }

    #[test]
    fn a_name_is_taken_apart_at_its_first_at_sign() {
        let parts = |name| template_and_instance(name).map(|(template, instance)| template + " " + &instance);
        assert_eq!(parts("tor@relay1.service").as_deref(), Some("tor@.service relay1"));
        assert_eq!(parts(r"x@a\x2db.c.timer").as_deref(), Some("x@.timer a-b.c"));
        assert_eq!(parts("tor@.service"), None);
        assert_eq!(parts("tor.service"), None);
    }

    #[test]
    fn object_paths_are_those_of_systemd() {
        let path = object_path(r"tor@a\x2db.service");
        assert_eq!(path, "/org/freedesktop/systemd1/unit/tor_40a_5cx2db_2eservice");
        assert!(object_path("1a.service").ends_with("/_31a_2eservice"));
    }
}
