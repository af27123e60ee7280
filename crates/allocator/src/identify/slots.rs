//! The resolved addresses of `malloc` in the process' memory: what the dynamic loader really bound.

use std::collections::BTreeMap;

use heaptrial_host::{Mapping, Process};

use super::Findings;
use super::objects::MappedObject;

/// Enough to see what the process' objects agree on.
const SLOTS_READ: usize = 24;

/// The file that `malloc` of most objects is bound to. `None` where memory may not be read, nothing
/// is bound yet, or the objects disagree.
pub(super) fn resolved(
    process: &Process,
    mappings: &[Mapping],
    objects: &[MappedObject<'_>],
    findings: &mut Findings,
) -> Option<String> {
    let memory = match process.memory() {
        Ok(memory) => memory,
        Err(error) => {
            findings.evidence.push(format!("bindings were not read: {error}"));
            return None;
        }
    };
    let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
    let mut read = 0;
    for object in objects {
        for slot in object.elf.import_slots("malloc") {
            let mut bytes = [0; 8];
            if memory.read_at(object.bias.wrapping_add(slot), &mut bytes).is_err() {
                continue;
            }
            let address = u64::from_ne_bytes(bytes);
            let target = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
            // An unbound slot points back into its own object.
            if let Some(target) = target.filter(|target| target.is_file() && target.name != object.name) {
                *bound.entry(target.name.as_str()).or_default() += 1;
                read += 1;
            }
        }
        if read >= SLOTS_READ {
            break;
        }
    }
    // The loader binds its own allocator to itself; and in a program at a fixed address the slots of
    // libraries lead to the program's stub of `malloc`, which is no definition of it.
    let defines = |name: &str| {
        let object = objects.iter().find(|object| object.name == name);
        object.is_some_and(|object| !object.is_loader() && object.elf.exported("malloc").is_some())
    };
    bound.retain(|name, _| defines(name));
    for (name, count) in &bound {
        findings.evidence.push(format!("{count} bound slots of `malloc` point into {name}"));
    }
    match bound.len() {
        1 => bound.into_keys().next().map(str::to_owned),
        _ => None,
    }
}
