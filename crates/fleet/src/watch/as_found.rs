//! What services run, where their next start will run the same: only then it is known what they are under.

use std::fs;

use heaptrial_allocator::{Catalog, Expected};
use heaptrial_change::{FileState, PRELOAD, expected_of};
use heaptrial_host::HostRoot;
use heaptrial_host::systemd::Unit;
use heaptrial_inspect::{MainProcess, NextStart, Service};
use heaptrial_model::{Identity, Linkage};

/// What a service runs, if its next start will run the same; else why it is not watched as it is. Nothing is changed.
pub(crate) fn as_found(root: &HostRoot, service: &Service) -> Result<Expected, String> {
    let status = &service.unit.status;
    let Some(process) = &service.process else {
        return Err(format!("it does not run ({}, {})", status.active_state, status.sub_state));
    };
    let identity = match (&process.identity, &process.unidentified) {
        (Some(identity), None) => identity,
        (_, why) => {
            return Err(format!("what it runs is not known: {}", why.as_deref().unwrap_or_default()));
        }
    };
    match difference(root, &service.unit, process, identity) {
        Some(what) => Err(format!(
            "its process and its next start by systemd differ in {what}: restart it first, or set in its unit what a wrapper sets"
        )),
        None => Ok(expected_of(identity)),
    }
}

/// In what a process and the next start of its service differ.
fn difference(root: &HostRoot, unit: &Unit, process: &MainProcess, identity: &Identity) -> Option<String> {
    if unit.needs_reload {
        return Some("its unit's files, which systemd has not read (`systemctl daemon-reload`)".to_owned());
    }
    let next = NextStart::of(root, unit);
    let own = process.preloads.iter().map(|preload| preload.library.as_str());
    let is_preloaded = process.preloads.iter().all(|preload| preload.loaded != Some(false));
    if !own.eq(next.preloads()) || !is_preloaded {
        return Some(PRELOAD.to_owned());
    }
    let family = Catalog::builtin().family(&identity.family);
    let reads = |name: &str| name != PRELOAD && family.is_some_and(|family| family.reads_variable(name));
    let variables = next.variables();
    let set = variables.iter().map(|(name, _)| name).filter(|name| reads(name));
    let differs = |name: &&String| identity.settings.get(*name).map(String::as_str) != next.value(name);
    if let Some(name) = set.chain(identity.settings.keys()).find(differs) {
        return Some(name.clone());
    }
    let library = identity.path.as_ref().filter(|_| identity.linkage != Linkage::Libc);
    let (path, sha256) = (library?, identity.sha256.as_ref()?);
    let present = FileState::read(&fs::canonicalize(root.path(path)).unwrap_or_else(|_| root.path(path)));
    let is_there = matches!(present, Ok(FileState::File { sha256: present, .. }) if present == *sha256);
    (!is_there).then(|| format!("the file {}, which is gone or another one", path.display()))
}
