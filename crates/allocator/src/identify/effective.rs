//! Settings as the allocator has them in the process' memory: what took effect, whatever the environment says.
//!
//! - mimalloc has a table of options, each with its value beside a pointer to its name (`mi_option_desc_t` in options.c).
//! - glibc's dynamic loader has a table of tunables, each with its name and value (`tunable_t` in elf/dl-tunable-types.h).
//! - jemalloc and tcmalloc have a variable for each, which is found by its symbol; Debian's jemalloc has none.

use std::collections::BTreeMap;

use heaptrial_host::{Process, ProcessMemory};

use super::ELSEWHERE;
use super::objects::MappedObject;
use crate::catalog::{Family, SettingEntry, SettingKind};

/// The value of a tunable that nobody set: what the allocator takes then is not in its table.
pub(crate) const NOT_SET: &str = "not set";

/// More writable data than any allocator's library has.
const MOST_BYTES: u64 = 8 << 20;
/// Far above the number of mimalloc's options.
const MOST_OPTIONS: i32 = 256;
/// Longer than any text of settings.
const LONGEST_TEXT_BYTES: usize = 4096;
/// A tunable of glibc, from its name on.
const TUNABLE_BYTES: usize = 256;
/// A tunable by whose other name, the environment variable, the table's layout is known.
const KNOWN_TUNABLE: (&[u8], &[u8]) = (b"glibc.malloc.arena_max\0", b"MALLOC_ARENA_MAX\0");
/// Where an entry of glibc's table has what, as read in processes of these versions on 64 bits.
const TUNABLE_LAYOUTS: [TunableLayout; 2] = [
    // 2.35 and 2.36
    TunableLayout { value: 72, is_set: 80, other_name: 88 },
    // 2.39, 2.41, 2.42 and 2.43: a default before the value, both as wide as a text with its length
    TunableLayout { value: 88, is_set: 104, other_name: 105 },
];

/// Offsets in bytes from the start of an entry, which is its name.
struct TunableLayout {
    value: usize,
    is_set: usize,
    other_name: usize,
}

/// Values by the names of settings; empty where memory may not be read or the allocator's data is not known.
pub(super) fn settings(
    process: &Process,
    objects: &[MappedObject<'_>],
    provider: &MappedObject<'_>,
    family: &Family,
) -> BTreeMap<String, String> {
    let Ok(memory) = process.memory() else { return BTreeMap::new() };
    match family.name.as_str() {
        "mimalloc" => options(&memory, provider, family),
        "glibc" => objects
            .iter()
            .find(|object| object.is_loader())
            .map_or(BTreeMap::new(), |loader| tunables(&memory, loader, family).unwrap_or_default()),
        _ => variables(&memory, provider, family),
    }
}

fn options(memory: &ProcessMemory, library: &MappedObject<'_>, family: &Family) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for setting in &family.settings {
        let text = format!("{}\0", setting.name);
        for address in library.elf.find_constant(text.as_bytes()) {
            names.insert(library.bias.wrapping_add(address), setting);
        }
    }
    let mut found = BTreeMap::new();
    for (address, length) in library.elf.writable() {
        let mut bytes = vec![0; length.min(MOST_BYTES) as usize];
        if memory.read_at(library.bias.wrapping_add(address), &mut bytes).is_err() {
            continue;
        }
        // Value, whether it was initialized, number of the option, name.
        for entry in bytes.windows(24).step_by(8) {
            let Some(setting) = u64_at(entry, 16).and_then(|pointer| names.get(&pointer)) else { continue };
            let (Some(value), Some(state), Some(number)) =
                (u64_at(entry, 0), i32_at(entry, 8), i32_at(entry, 12))
            else {
                continue;
            };
            // 1 is the default, 2 what somebody set; what was not looked at yet may still become either.
            if (1..=2).contains(&state) && (0..MOST_OPTIONS).contains(&number) {
                found.insert(setting.name.clone(), setting.given(value as i64).to_string());
            }
        }
    }
    found
}

fn tunables(
    memory: &ProcessMemory,
    loader: &MappedObject<'_>,
    family: &Family,
) -> Option<BTreeMap<String, String>> {
    let entry_of = |name: &[u8]| -> Option<[u8; TUNABLE_BYTES]> {
        let address = loader.elf.find_data(name).first().copied()?;
        let mut entry = [0; TUNABLE_BYTES];
        memory.read_at(loader.bias.wrapping_add(address), &mut entry).ok()?;
        Some(entry)
    };
    let known = entry_of(KNOWN_TUNABLE.0)?;
    let layout =
        TUNABLE_LAYOUTS.iter().find(|layout| known[layout.other_name..].starts_with(KNOWN_TUNABLE.1))?;
    let value = |setting: &SettingEntry| {
        let entry = entry_of(format!("glibc.malloc.{}\0", setting.name).as_bytes())?;
        let value = match entry[layout.is_set] {
            0 => NOT_SET.to_owned(),
            1 => (u64_at(&entry, layout.value)? as i64).to_string(),
            _ => return None,
        };
        Some((setting.name.clone(), value))
    };
    Some(family.settings.iter().filter_map(value).collect())
}

fn variables(
    memory: &ProcessMemory,
    library: &MappedObject<'_>,
    family: &Family,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    library.elf.variables(|symbol, address, length| {
        let Ok(symbol) = std::str::from_utf8(symbol) else { return };
        let Some(setting) = family.settings.iter().find(|setting| is_of(symbol, &family.name, &setting.name))
        else {
            return;
        };
        let mut bytes = [0; 8];
        let length = length as usize;
        if length > bytes.len()
            || memory.read_at(library.bias.wrapping_add(address), &mut bytes[..length]).is_err()
        {
            return;
        }
        let value = match (setting.kind, length) {
            (SettingKind::Bool, 1) => bytes[0].to_string(),
            (SettingKind::Number, 8) => f64::from_ne_bytes(bytes).to_string(),
            (SettingKind::Integer, 8) => i64::from_ne_bytes(bytes).to_string(),
            (SettingKind::Text, 8) => match text(memory, u64::from_ne_bytes(bytes)) {
                Some(word) => word,
                None => return,
            },
            // One of several words is kept as a number that nothing tells the meaning of.
            (SettingKind::Integer | SettingKind::Text, 4) if setting.values.is_empty() => {
                u64::from_ne_bytes(bytes).to_string()
            }
            _ => return,
        };
        found.insert(setting.name.clone(), value);
    });
    found
}

/// What is read like the environment and is none of it, as lines of evidence: the target of a link, and a variable of the program's own.
pub(super) fn elsewhere(
    process: &Process,
    program: &MappedObject<'_>,
    provider: &MappedObject<'_>,
    family: &Family,
) -> Vec<String> {
    // A program has its own allocator with names and settings of its own.
    if provider.name == program.name {
        return Vec::new();
    }
    let environment = &family.environment;
    let mut found = Vec::new();
    if let Some((link, target)) = environment.linked(|link| process.seen_path(link)) {
        found.push(format!("{ELSEWHERE}{} is `{target}`", link.display()));
    }
    let variable = environment.program_variable.as_deref();
    let address = variable.and_then(|name| program.elf.exported(name));
    if let (Some(name), Some(address), Ok(memory)) = (variable, address, process.memory()) {
        let mut pointer = [0; 8];
        let is_read = memory.read_at(program.bias.wrapping_add(address), &mut pointer).is_ok();
        if let Some(value) = text(&memory, u64::from_ne_bytes(pointer)).filter(|_| is_read) {
            // It is the same in every arm and on every host of the program, and the environment wins over it.
            found.push(format!("the program brings settings of its own: `{name}` is `{value}`"));
        }
    }
    found
}

/// The text that an address points to, up to its NUL.
fn text(memory: &ProcessMemory, address: u64) -> Option<String> {
    let mut found = Vec::new();
    // No piece lies in two pages, of which the second may not be there.
    while address != 0 && found.len() < LONGEST_TEXT_BYTES {
        let at = address.checked_add(found.len() as u64)?;
        let mut piece = vec![0; 16 - (at % 16) as usize];
        memory.read_at(at, &mut piece).ok()?;
        let end = piece.iter().position(|byte| *byte == 0);
        found.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            return String::from_utf8(found).ok().filter(|text| !text.is_empty());
        }
    }
    None
}

/// Whether a variable is that of a setting.
fn is_of(symbol: &str, family: &str, setting: &str) -> bool {
    match family {
        // With or without the prefix that builds give it.
        "jemalloc" => symbol
            .strip_suffix(setting)
            .and_then(|rest| rest.strip_suffix("opt_"))
            .is_some_and(|prefix| ["", "je_", "_rjem_je_"].contains(&prefix)),
        // In a C++ namespace.
        "tcmalloc" => {
            ["tcmalloc", "malloc"].iter().any(|of| symbol.ends_with(&format!("FLAGS_{of}_{setting}E")))
        }
        _ => false,
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_known_by_their_symbols() {
        assert!(is_of("je_opt_narenas", "jemalloc", "narenas"));
        assert!(is_of("opt_tcache", "jemalloc", "tcache"));
        assert!(!is_of("je_opt_lg_tcache_max", "jemalloc", "tcache_max"));
        let mangled = "_ZN62FLAG__namespace_do_not_use_directly_use_DECLARE_double_instead27FLAGS_tcmalloc_release_rateE";
        assert!(is_of(mangled, "tcmalloc", "release_rate"));
        assert!(!is_of(&mangled.replace("27FLAGS_", "29FLAGS_no"), "tcmalloc", "release_rate"));
    }
}
