//! `--userland` of lab runs: which libraries the services run with.

use std::path::{Path, PathBuf};

use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_lab::Inside;
use heaptrial_model::Classified;

use super::LabOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Starts this program again in the userland that was asked for; returns where none was, or where it runs there already.
/// There it sees `also` at its own path.
pub(super) fn enter(
    options: &LabOptions,
    global: &GlobalOptions,
    also: Option<&Path>,
) -> Result<(), Failure> {
    let started = std::env::current_dir().map_err(Failure::failed)?;
    enter_from(options, global, also, &started)
}

/// The same where this process has gone to another folder than the one that it was `started` in.
pub(super) fn enter_from(
    options: &LabOptions,
    global: &GlobalOptions,
    also: Option<&Path>,
    started: &Path,
) -> Result<(), Failure> {
    options.executor.check(options.userland.is_some())?;
    let Some(userland) = options.userland.as_ref().filter(|_| Inside::current().is_none()) else {
        return Ok(());
    };
    let host = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?.os;
    let say = |line: &str| eprintln!("{line}");
    let packages = &options.userland_package;
    let root = match options.dry_run {
        true => userland.root_there(packages),
        false => userland.root(packages, &say).map(Some),
    };
    let Some(root) = root.map_err(|error| Failure::of(error.class(), error))? else {
        eprintln!(
            "the userland {userland} is not there yet, and a dry run makes none: programs are looked for on this host"
        );
        return Ok(());
    };
    let folders: Vec<PathBuf> = visible(options, global)
        .into_iter()
        .chain([also, Some(started)].into_iter().flatten().filter_map(existing_folder))
        .collect();
    std::env::set_current_dir(started).map_err(Failure::failed)?;
    let entered = userland.enter(&root, &folders, &host);
    entered.map(|never| match never {}).map_err(|error| Failure::of(error.class(), error))
}

/// What services run in, in words: the userland, or the system of this host.
pub(super) fn runs_in() -> Result<String, Failure> {
    match Inside::current() {
        Some(inside) => Ok(inside.to_string()),
        None => Ok(HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?.os),
    }
}

/// Folders of the host that a run needs at their own paths: where it is started and what its options name.
fn visible(options: &LabOptions, global: &GlobalOptions) -> Vec<PathBuf> {
    let variables = ["HOME", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME"];
    let mut folders: Vec<PathBuf> =
        variables.iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
    folders.extend(std::env::current_dir());
    folders.push(std::env::temp_dir());
    let named = [&options.arms, &global.out, &global.db].into_iter().flatten();
    let named = named.chain(options.from.iter().map(|(_, path)| path));
    folders.extend(named.filter_map(|path| existing_folder(path)));
    folders.extend(options.sources.mirror_folder().and_then(existing_folder));
    folders
}

/// The folder that a path is, or the nearest one above it that exists.
fn existing_folder(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|folder| folder.is_dir()).map(Path::to_owned)
}
