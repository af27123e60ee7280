//! Names of allocator families, and how they are found in the names that people give to arms and lists.

/// All families, as specs and identities name them: those of the catalog.
pub const FAMILIES: [&str; 11] = [
    "glibc",
    "jemalloc",
    "mimalloc",
    "tcmalloc",
    "snmalloc",
    "rpmalloc",
    "scudo",
    "hardened_malloc",
    "musl",
    "tbbmalloc",
    "go",
];

/// Shorter names are words of any language.
const SHORTEST_FOUND: usize = 4;
/// Names of this length or more are found within a word too, such as in `libjemalloc2`.
const FOUND_WITHIN_WORDS: usize = 5;
/// A name behind one of these words is said not to be there: `no-glibc`.
const NOT: [&str; 4] = ["no", "non", "not", "without"];
/// How people write a family for short.
const SHORT_FOR: [(&str, &str); 2] = [("hardened", "hardened_malloc"), ("ptmalloc", "glibc")];

/// The family that `text` names first, and the text behind its name, in lower case: `group_B_mimalloc209` names
/// `mimalloc`, and `209` follows. The number of a library's ABI is no part of it.
pub fn family_in(text: &str) -> Option<(&'static str, String)> {
    let text = text.to_ascii_lowercase();
    let spelt = text.replace('-', "_");
    let found = |name: &str, family| Some((find(&spelt, name)?, name.len(), family));
    let by_name = FAMILIES.iter().filter_map(|family| found(family, *family)).min();
    let (at, length, family) =
        by_name.or_else(|| SHORT_FOR.iter().filter_map(|(short, family)| found(short, *family)).min())?;
    let after = &text[at + length..];
    // `libjemalloc2` is no version 2 but how the ABI of 5.3 is numbered.
    let is_library = text[..at].ends_with("lib");
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    Some((family, if is_library { after.trim_start_matches(is_of_number) } else { after }.to_owned()))
}

/// Where a name stands in a text.
fn find(text: &str, name: &str) -> Option<usize> {
    if name.len() < SHORTEST_FOUND {
        return None;
    }
    let denied = |before: &str| {
        let word = before.trim_end_matches(['_', ' ']).rsplit(|c: char| !c.is_alphabetic()).next();
        word.is_some_and(|word| NOT.contains(&word))
    };
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let stands = |at: &usize| {
        let (before, behind) = (&text[..*at], &text[at + name.len()..]);
        let apart = !is_letter(before.chars().next_back());
        !(apart && denied(before))
            && (name.len() >= FOUND_WITHIN_WORDS || apart && !is_letter(behind.chars().next()))
    };
    text.match_indices(name).map(|(at, _)| at).find(stands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arms_tell_families() {
        for (name, family) in [
            ("A_mimalloc301", "mimalloc"),
            ("group_E_glibc", "glibc"),
            ("Group D: JEMALLOC 5.3", "jemalloc"),
            ("libtcmalloc4", "tcmalloc"),
            ("hardened-malloc", "hardened_malloc"),
            ("hardened_mimalloc", "mimalloc"),
            ("alpine musl", "musl"),
            ("glibc_then_jemalloc", "glibc"),
            ("no-glibc-but-jemalloc", "jemalloc"),
        ] {
            assert_eq!(family_in(name).map(|found| found.0), Some(family), "{name}");
        }
        for name in ["A", "", "go_relays", "muslin", "no-glibc", "größe"] {
            assert_eq!(family_in(name), None, "{name}");
        }
        for (name, after) in [
            ("group_B_mimalloc209", "209"),
            ("libjemalloc2", ""),
            ("libtcmalloc4-de", "-de"),
            ("libjemalloc-5.3.0", "-5.3.0"),
        ] {
            assert_eq!(family_in(name).map(|found| found.1).as_deref(), Some(after), "{name}");
        }
    }
}
