//! Path patterns as AppArmor writes them (apparmor.d(5), "Globbing").

use regex::Regex;

/// A pattern as a regular expression over whole paths; `None` where it cannot be read as one.
///
/// `*` and `?` do not match `/`, `**` does; `{a,b}` and `[a-z]` are alternatives.
pub(crate) fn glob(pattern: &str) -> Option<Regex> {
    let mut text = String::from("^");
    let mut depth = 0_u32;
    let mut characters = pattern.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '*' if characters.next_if_eq(&'*').is_some() => text.push_str(".*"),
            '*' => text.push_str("[^/]*"),
            '?' => text.push_str("[^/]"),
            '{' => {
                depth += 1;
                text.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                text.push(')');
            }
            ',' if depth > 0 => text.push('|'),
            '[' => {
                text.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    text.push('^');
                }
                loop {
                    match characters.next()? {
                        ']' => break,
                        '-' => text.push('-'),
                        c => text.push_str(&regex::escape(&c.to_string())),
                    }
                }
                text.push(']');
            }
            '\\' => text.push_str(&regex::escape(&characters.next()?.to_string())),
            c => text.push_str(&regex::escape(&c.to_string())),
        }
    }
    if depth > 0 {
        return None;
    }
    text.push('$');
    Regex::new(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_apparmor_does() {
        let cases = [
            ("/{usr/,}lib{,32,64}/**.so*", "/usr/lib/heaptrial/allocators/a/libx.so.2", true),
            ("/{usr/,}lib{,32,64}/**.so*", "/lib/libx.so", true),
            ("/{usr/,}lib{,32,64}/**.so*", "/usr/local/lib/libx.so", false),
            ("/usr/lib/*.so", "/usr/lib/a/libx.so", false),
            ("/usr/lib/[^a]*", "/usr/lib/a", false),
            ("/usr/lib/[a-c]?", "/usr/lib/b1", true),
            ("/usr/lib/x\\*", "/usr/lib/x*", true),
        ];
        for (pattern, path, matches) in cases {
            assert_eq!(glob(pattern).unwrap().is_match(path), matches, "{pattern} {path}");
        }
        assert!(glob("/usr/{lib").is_none() && glob("/usr/[lib").is_none());
    }

    proptest! {
        #[test]
        fn no_pattern_panics_and_plain_paths_match_themselves(text in "\\PC{0,40}", path in "(/[a-z0-9._-]{1,8}){1,5}") {
            let _ = glob(&text);
            prop_assert!(glob(&path).unwrap().is_match(&path));
        }
    }
}
