//! Words of a closed list, and names that are texts.

/// Why a text is not what it should be: what it is not, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(pub(crate) String);

/// A word that is none of those that can stand there; `what` is such as `kind of a trial`.
pub(crate) fn unknown_word(word: &str, what: &str, known: &[&str]) -> InvalidText {
    InvalidText(format!("`{word}` is no {what}; expected one of {}", known.join(", ")))
}

/// Declares an enum of which each variant has one spelling, the same in files, tables and the database.
///
/// It parses from that spelling only, is shown as it, and is a text to serde.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $what:literal {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in files, tables and the database.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::InvalidText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().copied().find(|own| own.as_str() == text);
                known.ok_or_else(|| $crate::word::unknown_word(text, $what, &[$($word),+]))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = Self::ALL.iter().map(|own| own.as_str()).collect();
                schemars::json_schema!({ "type": "string", "enum": words })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Declares a text of which not every one is valid; the message says what was expected of those that are not.
macro_rules! text_type {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident, valid by $rule:expr, else $message:literal
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::InvalidText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let rule: fn(&str) -> bool = $rule;
                match rule(text) {
                    true => Ok(Self(text.to_owned())),
                    false => Err($crate::InvalidText(format!($message, text))),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {text_type, words};
