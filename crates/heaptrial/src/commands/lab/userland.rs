//! `--userland` of lab runs: which libraries the services run with.

use std::path::{Path, PathBuf};

use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_lab::Userland;

use super::LabOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Starts this program again in the userland that was asked for; returns where none was, or where it runs there already. There
/// it sees `also` at their own paths. A dry run looks for programs on this host.
pub(super) fn enter(options: &LabOptions, global: &GlobalOptions, also: &[&Path]) -> Result<(), Failure> {
    options.check_place()?;
    let (Some(userland), None, false) = (&options.userland, Userland::current(), options.dry_run) else {
        return Ok(());
    };
    let host = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?.os;
    let also = also.iter().copied().filter_map(existing_folder);
    let folders: Vec<PathBuf> =
        visible(options, global).into_iter().chain(also).filter(|folder| folder.is_dir()).collect();
    let never = userland.enter(&folders, &host, &|line| eprintln!("{line}"))?;
    match never {}
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
