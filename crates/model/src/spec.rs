//! The allocator spec, such as `mimalloc@2.0.9+secure`: `family[@version][+variant...][?setting=value[&setting=value...]]`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::InvalidText;

/// What to run under: `glibc`, `jemalloc@5.3.0`, `mimalloc@2.0.9+secure`, `mimalloc@3.0.1?purge_delay=0`.
///
/// A parsed spec is well formed; whether its family, version and settings exist is the
/// catalog's business. `Display` gives back exactly what was parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllocatorSpec {
    /// Lower-case family name such as `mimalloc`.
    pub family: String,
    /// The version asked for; `None` means "the one at hand".
    pub version: Option<Version>,
    /// Build variants such as `secure`, in the order given.
    pub variants: Vec<String>,
    /// Settings in the order given.
    pub settings: Vec<Setting>,
}

/// One `name=value` of a spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The setting's name in the catalog, such as `purge_delay`.
    pub name: String,
    pub value: String,
}

/// A version as text, ordered by its numeric parts: `2.0.9 < 2.0.10`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = "A version such as `2.0.9`")]
pub struct Version(String);

const FAMILY: &str = "an allocator family (lower-case letters, digits, `-` or `_`, starting with a letter)";
const VERSION: &str = "a version (digits, letters, `.`, `-` or `~`, starting with a digit) after `@`";
const VARIANT: &str = "a variant name (lower-case letters, digits, `-` or `_`) after `+`";
const SETTING: &str = "a setting name (letters, digits, `.` or `_`)";
const VALUE: &str = "a value (letters, digits or any of `. _ : , / + -`) after `=`";

impl AllocatorSpec {
    /// A spec of a family alone, without version, variants or settings.
    pub fn family(name: &str) -> Self {
        Self { family: name.to_owned(), version: None, variants: Vec::new(), settings: Vec::new() }
    }

    /// The same build without its settings: what has to be obtained.
    pub fn without_settings(&self) -> Self {
        Self { settings: Vec::new(), ..self.clone() }
    }

    /// Whether both ask for the same, in whatever order they have variants and settings.
    pub fn is_same(&self, other: &Self) -> bool {
        let sorted = |spec: &Self| {
            let mut spec = spec.clone();
            spec.variants.sort();
            spec.settings.sort_by(|a, b| a.name.cmp(&b.name));
            spec
        };
        sorted(self) == sorted(other)
    }
}

impl fmt::Display for AllocatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.family)?;
        if let Some(version) = &self.version {
            write!(f, "@{version}")?;
        }
        for variant in &self.variants {
            write!(f, "+{variant}")?;
        }
        for (index, setting) in self.settings.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            write!(f, "{separator}{}={}", setting.name, setting.value)?;
        }
        Ok(())
    }
}

impl FromStr for AllocatorSpec {
    type Err = InvalidText;

    fn from_str(input: &str) -> Result<Self, InvalidText> {
        let mut scanner = Scanner { input, rest: input };
        let family = scanner.word(FAMILY, |c| c.is_ascii_lowercase(), is_name)?;
        let version = match scanner.eat('@') {
            true => Some(Version(scanner.word(VERSION, |c| c.is_ascii_digit(), is_version)?)),
            false => None,
        };
        let mut variants = Vec::new();
        while scanner.eat('+') {
            let at = scanner.rest;
            let variant = scanner.word(VARIANT, |c| c.is_ascii_lowercase(), is_name)?;
            if variants.contains(&variant) {
                return Err(scanner.error_at(at, "a variant that was not named before"));
            }
            variants.push(variant);
        }
        let mut settings: Vec<Setting> = Vec::new();
        if scanner.eat('?') {
            loop {
                let at = scanner.rest;
                let name = scanner.word(SETTING, |c| c.is_ascii_alphabetic(), is_setting)?;
                if settings.iter().any(|s| s.name == name) {
                    return Err(scanner.error_at(at, "a setting that was not named before"));
                }
                if !scanner.eat('=') {
                    return Err(scanner.error("`=` and a value after the setting's name"));
                }
                let value = scanner.word(VALUE, is_value, is_value)?;
                settings.push(Setting { name, value });
                if !scanner.eat('&') {
                    break;
                }
            }
        }
        if !scanner.rest.is_empty() {
            let expected = match (settings.is_empty(), variants.is_empty() && version.is_none()) {
                (false, _) => "`&` and another setting, or the end",
                (true, false) => "`+variant`, `?setting=value`, or the end",
                (true, true) => "`@version`, `+variant`, `?setting=value`, or the end",
            };
            return Err(scanner.error(expected));
        }
        Ok(Self { family, version, variants, settings })
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_'
}

fn is_version(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '~')
}

fn is_setting(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_')
}

fn is_value(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | ',' | '/' | '+' | '-')
}

struct Scanner<'a> {
    input: &'a str,
    rest: &'a str,
}

impl Scanner<'_> {
    fn eat(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(
        &mut self,
        expected: &'static str,
        first: impl Fn(char) -> bool,
        others: impl Fn(char) -> bool,
    ) -> Result<String, InvalidText> {
        if !self.rest.starts_with(first) {
            return Err(self.error(expected));
        }
        let end = self.rest.find(|c| !others(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word.to_owned())
    }

    fn error(&self, expected: &'static str) -> InvalidText {
        self.error_at(self.rest, expected)
    }

    fn error_at(&self, rest: &str, expected: &'static str) -> InvalidText {
        let consumed = &self.input[..self.input.len() - rest.len()];
        let found = match rest.chars().next() {
            Some(_) if rest.chars().count() > 24 => {
                format!("`{}...`", rest.chars().take(24).collect::<String>())
            }
            Some(_) => format!("`{rest}`"),
            None => "the end".to_owned(),
        };
        let (input, position) = (self.input, consumed.chars().count() + 1);
        InvalidText(format!(
            "`{input}` is not an allocator spec: at position {position}: expected {expected}, found {found}\n  {input}\n  {:>position$}",
            "^"
        ))
    }
}

impl Version {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a version that a catalog or a library gave; not checked against the spec grammar.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The runs of digits and of other characters that are compared one by one.
    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.0.split(['.', '-', '~']).map(|part| match part.parse::<u64>() {
            Ok(number) => Part::Number(number),
            Err(_) => Part::Text(part),
        })
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Text(&'a str),
    Number(u64),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(other.parts()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_spec_is_taken_apart() {
        let spec: AllocatorSpec = "mimalloc@3.0.1+secure?purge_delay=0&arena_reserve=1GiB".parse().unwrap();
        assert_eq!(spec.family, "mimalloc");
        assert_eq!(spec.version.unwrap().as_str(), "3.0.1");
        assert_eq!(spec.variants, ["secure"]);
        assert_eq!(spec.settings[1], Setting { name: "arena_reserve".into(), value: "1GiB".into() });
    }

    #[test]
    fn errors_tell_the_position_and_what_was_expected() {
        for (input, position, expected) in [
            ("", 1, FAMILY),
            ("Glibc", 1, FAMILY),
            ("mimalloc@", 10, VERSION),
            ("mimalloc@2.0.9+", 16, VARIANT),
            ("mimalloc@2.0.9+secure+secure", 23, "a variant that was not named before"),
            ("glibc?", 7, SETTING),
            ("glibc?arena_max", 16, "`=` and a value after the setting's name"),
            ("glibc?arena_max=", 17, VALUE),
            ("glibc?a=1&a=2", 11, "a setting that was not named before"),
            ("glibc 2", 6, "`@version`, `+variant`, `?setting=value`, or the end"),
            ("glibc@2.36 x", 11, "`+variant`, `?setting=value`, or the end"),
        ] {
            let error = input.parse::<AllocatorSpec>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("at position {position}: expected {expected}, found")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_error_points_at_the_place() {
        let text = "glibc?=1".parse::<AllocatorSpec>().unwrap_err().to_string();
        assert!(text.ends_with("\n  glibc?=1\n        ^"), "{text}");
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let mut versions = ["2.0.10", "5.3.1", "2.0.9", "2.41", "2.36"].map(Version::new);
        versions.sort();
        assert_eq!(versions.map(|v| v.0), ["2.0.9", "2.0.10", "2.36", "2.41", "5.3.1"]);
    }

    proptest! {
        #[test]
        fn display_gives_back_what_was_parsed(
            text in "[a-z][a-z0-9_-]{0,8}(@[0-9][0-9a-z.~-]{0,6})?(\\+[a-z]{3,5})?(\\?[a-z][a-z_]{0,5}=[A-Za-z0-9.:/,+-]{1,6})?"
        ) {
            let spec: AllocatorSpec = text.parse().unwrap();
            prop_assert_eq!(spec.to_string(), text);
        }

        #[test]
        fn no_input_panics(text in "\\PC{0,30}") {
            let _ = text.parse::<AllocatorSpec>();
        }
    }
}
