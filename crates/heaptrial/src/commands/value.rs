//! Values of options that have no type of their own.

use std::ops::RangeBounds;

use heaptrial_model::{DurationError, SpecError};

/// Why a text is no value of an option; the command line names both.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// It is something else.
    #[error("expected {0}")]
    Expected(&'static str),
    /// It is no allocator.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// It is no duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
}

/// A number within a range.
pub fn number(text: &str, range: impl RangeBounds<f64>, expected: &'static str) -> Result<f64, ValueError> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or(ValueError::Expected(expected))
}

/// A size as systemd writes it: K, M, G and T are powers of 1024.
pub fn size(text: &str) -> Result<u64, ValueError> {
    let bytes = parse_size::Config::new().with_binary().parse_size(text);
    bytes.ok().filter(|bytes| *bytes > 0).ok_or(ValueError::Expected("a size above 0, such as 8G"))
}
