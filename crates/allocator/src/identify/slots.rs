//! The resolved addresses of `malloc` in the process' memory: what the dynamic loader really bound.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::Identity;

use super::Subject;
use super::objects::MappedObject;

/// Enough to see what the process' objects agree on.
const SLOTS_READ: usize = 24;

pub(super) enum Bound {
    /// Memory may not be read, or nothing is bound yet.
    Unread,
    To(String),
    /// Why they do not show what holds the process' memory.
    Undecided(String),
}

/// The file that `malloc` of the process' objects is bound to. Where they disagree, as where a plugin brought an allocator of
/// its own (RTLD_DEEPBIND in dlopen(3)), those of the program and of what it needs count.
pub(super) fn resolved(subject: &Subject<'_, '_>, findings: &mut Identity) -> Bound {
    let Subject { objects, program, mappings, .. } = *subject;
    let memory = match subject.process.memory() {
        Ok(memory) => memory,
        Err(error) => {
            findings.evidence.push(format!("bindings were not read: {error}"));
            return Bound::Unread;
        }
    };
    let defines = |name: &str| {
        let object = objects.iter().find(|object| object.name == name);
        object.is_some_and(|object| object.elf.exported("malloc").is_some())
    };
    // The loader binds its own allocator to itself; and in a program at a fixed address the slots of libraries lead to the
    // program's stub of `malloc`, which is no definition of it.
    let counts = |name: &str| match objects.iter().find(|object| object.name == name) {
        Some(object) if object.name == program.name => defines(name),
        Some(object) => !object.is_loader(),
        None => true,
    };
    let mut bound: Vec<(&str, &str)> = Vec::new();
    let others = objects.iter().filter(|object| object.name != program.name);
    for object in std::iter::once(program).chain(others) {
        for slot in object.elf.import_slots("malloc") {
            let mut bytes = [0; 8];
            if memory.read_at(object.bias.wrapping_add(slot), &mut bytes).is_err() {
                continue;
            }
            let address = u64::from_ne_bytes(bytes);
            let target = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
            // An unbound slot points back into its own object.
            let target = target.filter(|target| target.is_file() && target.name != object.name);
            if let Some(target) = target.filter(|target| counts(&target.name)) {
                bound.push((object.name.as_str(), target.name.as_str()));
            }
        }
        if bound.len() >= SLOTS_READ {
            break;
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, target) in &bound {
        *counts.entry(target).or_default() += 1;
    }
    for (name, count) in &counts {
        findings.evidence.push(format!("{count} bound slots of `malloc` point into {name}"));
    }
    if counts.len() > 1 {
        let needed = needed_by(objects, program);
        bound.retain(|(object, _)| needed.contains(object));
    }
    let names: BTreeSet<&str> = bound.iter().map(|(_, target)| *target).collect();
    match (names.len(), names.first()) {
        (1, Some(only)) if defines(only) => Bound::To((*only).to_owned()),
        (1, Some(only)) => {
            Bound::Undecided(format!("`malloc` is bound to {only}, which is not known to define it"))
        }
        _ if counts.is_empty() => Bound::Unread,
        _ => Bound::Undecided("the process' files are bound to different `malloc`s".to_owned()),
    }
}

/// The program, what it needs, and what that needs: files that are searched in one order.
fn needed_by<'a, 'd>(objects: &'a [MappedObject<'d>], program: &'a MappedObject<'d>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::from([program.name.as_str()]);
    let mut left = vec![program];
    while let Some(object) = left.pop() {
        let needed = object.elf.needed();
        let is_needed = |other: &&MappedObject<'_>| {
            let soname = other.elf.soname();
            needed.iter().any(|name| soname.as_ref() == Some(name) || other.file_name() == name)
        };
        left.extend(objects.iter().filter(is_needed).filter(|other| found.insert(other.name.as_str())));
    }
    found
}
