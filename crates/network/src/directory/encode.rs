//! Texts of the directory formats.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// Base64 without padding, as digests and ids are written.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

/// The bytes of base64 with or without padding, as relays write keys.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

/// An object between BEGIN and END lines (dir-spec section 1.2).
pub(crate) fn object(tag: &str, bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut text = format!("-----BEGIN {tag}-----\n");
    for start in (0..encoded.len()).step_by(64) {
        text.push_str(&encoded[start..encoded.len().min(start + 64)]);
        text.push('\n');
    }
    text.push_str(&format!("-----END {tag}-----\n"));
    text
}

/// `YYYY-MM-DD HH:MM:SS` in UTC from seconds since 1970.
pub(crate) fn utc(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A fingerprint in upper-case hexadecimal.
pub(crate) fn fingerprint(id: &[u8]) -> String {
    hex::encode_upper(id)
}
