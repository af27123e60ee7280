//! Names and versions by Debian's rules (Debian Policy 5.6.7 and 5.6.12).

use std::path::Path;

use heaptrial_model::{AllocatorSpec, Version};

use super::{PackageError, TOOL_VERSION};

/// Digits of the library's SHA-256 in the package's name.
const SHORT_DIGEST: usize = 12;

pub(super) fn package_name(spec: &AllocatorSpec, sha256: &str) -> String {
    let words = std::iter::once(spec.family.as_str())
        .chain(spec.version.as_ref().map(Version::as_str))
        .chain(spec.variants.iter().map(String::as_str));
    let words: Vec<String> = words.map(lower_case).collect();
    format!("heaptrial-{}-{}", words.join("-"), &sha256[..SHORT_DIGEST.min(sha256.len())])
}

/// The allocator's version with Heaptrial's as the Debian revision: `2.0.9-0heaptrial0.1.0`.
pub(super) fn package_version(version: Option<&Version>) -> String {
    let upstream = version.map_or("0", Version::as_str);
    let plain = |c: char| c.is_ascii_alphanumeric() || ".+-~".contains(c);
    let upstream: String = upstream.chars().map(|c| if plain(c) { c } else { '.' }).collect();
    let digit = upstream.starts_with(|c: char| c.is_ascii_digit());
    format!("{}{upstream}-0heaptrial{TOOL_VERSION}", if digit { "" } else { "0." })
}

/// The path stands in scripts and unit files: it must need no quoting there.
pub(super) fn check_path(path: &Path) -> Result<(), PackageError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/+-_.~".contains(c);
    match path.to_str() {
        Some(text) if text.chars().all(plain) => Ok(()),
        _ => Err(PackageError::Refused(format!(
            "{} cannot be packaged: its path may only have letters, digits and / + - _ . ~; rename the library",
            path.display()
        ))),
    }
}

fn lower_case(word: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || ".+".contains(c) { c } else { '-' };
    word.to_ascii_lowercase().chars().map(allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "0123456789abcdef";

    fn name(spec: &str) -> String {
        let spec: AllocatorSpec = spec.parse().unwrap();
        package_name(&spec, SHA256)
    }

    #[test]
    fn names_and_versions_are_those_of_debian() {
        assert_eq!(name("mimalloc@2.0.9+secure"), "heaptrial-mimalloc-2.0.9-secure-0123456789ab");
        assert_eq!(name("hardened_malloc@1.0-RC~2"), "heaptrial-hardened-malloc-1.0-rc-2-0123456789ab");
        let version = |text: &str| package_version(Some(&Version::new(text)));
        assert_eq!(version("5.3.0-1_x g"), format!("5.3.0-1.x.g-0heaptrial{TOOL_VERSION}"));
        assert_eq!(version("v1"), format!("0.v1-0heaptrial{TOOL_VERSION}"));
        assert_eq!(package_version(None), format!("0-0heaptrial{TOOL_VERSION}"));
    }

    #[test]
    fn paths_that_need_quoting_are_refused() {
        assert!(check_path(Path::new("/usr/lib/heaptrial/allocators/a-1+b-0/lib_x~.so.2")).is_ok());
        for wrong in ["/usr/lib/a b.so", "/usr/lib/$(id).so", "/usr/lib/a'.so", "/usr/lib/%i.so", "/a\n"] {
            assert!(check_path(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
