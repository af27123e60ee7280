//! Allocators that the names of operators' arms claim. Nothing here is proved.

use heaptrial_model::{AllocatorSpec, family_in};

/// The allocator that a text names: `group_B_mimalloc209` is `mimalloc@2.0.9`.
pub(crate) fn allocator_in(text: &str) -> Option<AllocatorSpec> {
    let (family, rest) = family_in(text)?;
    // Names of trials of our own are specs.
    if let Some(spec) = text.parse::<AllocatorSpec>().ok().filter(|spec| spec.family == family) {
        return Some(spec);
    }
    let version = version_at_start(&rest, family).map(|version| format!("@{version}")).unwrap_or_default();
    let variant = if rest.contains("secure") { "+secure" } else { "" };
    format!("{family}{version}{variant}").parse().ok()
}

/// `209`, `2.0.9`, `-2.0.9`, `_v2_0_9`. Digits behind a separator that have no parts may count anything.
fn version_at_start(rest: &str, family: &str) -> Option<String> {
    let separated = rest.trim_start_matches(['-', '_', '@', ' ']);
    let from = separated.strip_prefix('v').unwrap_or(separated);
    let behind = from.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
    let number = from[..from.len() - behind.len()].trim_end_matches(['.', '_']);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.len() > 20 {
        return None;
    }
    if number.contains(['.', '_']) {
        let parts: Vec<&str> = number.split(['.', '_']).filter(|part| !part.is_empty()).collect();
        return Some(parts.join("."));
    }
    if rest.len() != separated.len() {
        return None;
    }
    let two_parts = matches!(family, "glibc" | "tcmalloc");
    match number.len() {
        1 => Some(number.to_owned()),
        2 => Some(format!("{}.{}", &number[..1], &number[1..])),
        3 if two_parts => Some(format!("{}.{}", &number[..1], &number[1..])),
        3 => Some(format!("{}.{}.{}", &number[..1], &number[1..2], &number[2..])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_allocators() {
        for (name, spec) in [
            ("group_E_glibc", "glibc"),
            ("group_D_jemalloc", "jemalloc"),
            ("group_B_mimalloc209", "mimalloc@2.0.9"),
            ("group_A_mimalloc301", "mimalloc@3.0.1"),
            ("group_C_mimalloc217_historical", "mimalloc@2.1.7"),
            ("mimalloc3", "mimalloc@3"),
            ("jemalloc-5.3.0", "jemalloc@5.3.0"),
            ("mimalloc_2_0_9_secure", "mimalloc@2.0.9+secure"),
            ("glibc241", "glibc@2.41"),
            ("glibc_20", "glibc"),
            ("Mimalloc v2.1", "mimalloc@2.1"),
            ("tcmalloc", "tcmalloc"),
            ("libjemalloc2", "jemalloc"),
            ("mimalloc@3.0.1?purge_delay=0", "mimalloc@3.0.1?purge_delay=0"),
            ("mimalloc@2.0.9+secure", "mimalloc@2.0.9+secure"),
        ] {
            assert_eq!(allocator_in(name).map(|spec| spec.to_string()).as_deref(), Some(spec), "{name}");
        }
        assert_eq!(allocator_in("A"), None);
    }
}
