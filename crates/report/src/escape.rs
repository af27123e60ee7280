//! Texts from outside, made harmless for the form they go into.

/// `text` with each control character as its picture (`␛`), and each that reorders or hides text as `�`.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(printable_char).collect()
}

/// The same of a text whose lines are kept.
pub(crate) fn printable_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { printable_char(c) }).collect()
}

fn printable_char(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('�'),
        '\x7f' => '␡',
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{ffff}' => '�',
        _ => c,
    }
}

/// Printable text for XML and HTML, in content or in an attribute between double quotes.
pub(crate) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().map(printable_char) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Text for a paragraph or a table cell of GitHub's Markdown.
pub(crate) fn markdown(text: &str) -> String {
    let characters: Vec<char> = text.chars().map(printable_char).collect();
    let mut escaped = String::with_capacity(text.len());
    for (index, c) in characters.iter().enumerate() {
        let is_word = |at: Option<usize>| {
            at.and_then(|at| characters.get(at)).is_some_and(|character| character.is_alphanumeric())
        };
        let inside_word = is_word(index.checked_sub(1)) && is_word(index.checked_add(1));
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Inside a word an underscore emphasises nothing.
            '_' if inside_word => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' => {
                escaped.push('\\');
                escaped.push(*c);
            }
            _ => escaped.push(*c),
        }
    }
    escaped
}

/// A block of code in Markdown, fenced by more backticks than it holds in a row.
pub(crate) fn markdown_block(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", printable_lines(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_and_reordering_characters_become_visible() {
        assert_eq!(printable("a\x1b[31mb\u{202e}c\0\n"), "a␛[31mb�c␀␊");
    }

    #[test]
    fn markdown_keeps_names_readable() {
        assert_eq!(markdown("mimalloc@3.0.1?purge_delay=0"), "mimalloc@3.0.1?purge_delay=0");
        assert_eq!(markdown("a|b<c>_d_ [x](y)"), "a\\|b&lt;c&gt;\\_d\\_ \\[x\\](y)");
        assert_eq!(markdown_block("a```b"), "````\na```b\n````");
    }

    proptest! {
        #[test]
        fn xml_has_no_markup_left(text in "\\PC{0,40}") {
            let escaped = xml(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        }

        #[test]
        fn printable_text_has_no_control_characters(text in any::<String>()) {
            prop_assert!(!printable(&text).chars().any(char::is_control));
        }
    }
}
