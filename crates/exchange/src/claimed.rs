//! Treatments that operators' names and configuration files claim. Nothing here is proved.

use std::collections::BTreeMap;

use heaptrial_model::{AllocatorSpec, Treatment, family_in};

use crate::tables::RelayConfig;

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

/// The treatment of an arm from its name, and from what the configuration says of all of its members alike.
pub(crate) fn treatment(arm: &str, members: &[&RelayConfig]) -> Treatment {
    let shared = |column: &str| -> Option<&str> {
        let value = members.first()?.values.get(column)?;
        members.iter().all(|relay| relay.values.get(column) == Some(value)).then_some(value.as_str())
    };
    let mut torrc = BTreeMap::new();
    let mut option = |name: &str, value: &str| {
        // The rule of trial plans: a value stays on its line.
        let one_line = !value.contains(|c: char| c.is_control()) && !value.ends_with('\\');
        if !matches!(value, "default" | "none" | "") && one_line {
            torrc.insert(name.to_owned(), value.to_owned());
        }
    };
    if let Some(value) = shared("dircache") {
        option("DirCache", value);
    }
    if let Some(value) = shared("maxmem") {
        option("MaxMemInQueues", value);
    }
    let mut restart_every = None;
    if let Some((name, value)) = shared("config").and_then(|config| config.split_once('=')) {
        match name.trim() {
            "restart" => restart_every = value.trim().parse().ok(),
            name if name.starts_with("LD_") || name.contains(|c: char| !c.is_ascii_alphanumeric()) => {}
            name => option(name, value.trim()),
        }
    }
    let allocator = allocator_in(arm).or_else(|| shared("allocator").and_then(allocator_in));
    Treatment { allocator, torrc, restart_every, ..Treatment::default() }
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

    #[test]
    fn configuration_gives_what_all_members_share() {
        let relay = |pairs: &[(&str, &str)]| RelayConfig {
            values: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..RelayConfig::default()
        };
        let a = relay(&[
            ("dircache", "0"),
            ("maxmem", "2GB"),
            ("config", "restart=24h"),
            ("allocator", "jemalloc"),
        ]);
        let b = relay(&[
            ("dircache", "0"),
            ("maxmem", "default"),
            ("config", "restart=24h"),
            ("allocator", "jemalloc"),
        ]);
        let treatment = super::treatment("A", &[&a, &b]);
        assert_eq!(treatment.torrc.iter().collect::<Vec<_>>(), [(&"DirCache".to_owned(), &"0".to_owned())]);
        assert_eq!(treatment.restart_every.unwrap().to_string(), "1d");
        assert_eq!(treatment.allocator.unwrap().to_string(), "jemalloc");
        assert_eq!(super::treatment("B", &[]), Treatment::default());
    }
}
