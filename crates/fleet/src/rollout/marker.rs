//! The mark by which one process asks another that works on a rollout to pause.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_host::Paths;

/// Its name in the rollout's folder.
const MARKER: &str = "paused";

fn path(paths: &Paths, name: &str) -> PathBuf {
    paths.trial(name).join(MARKER)
}

/// Asks whoever works on a rollout to pause; it stays paused until that is taken back.
pub fn pause(paths: &Paths, name: &str, wanted: bool) -> io::Result<()> {
    let path = path(paths, name);
    let done = if wanted { fs::write(&path, "") } else { fs::remove_file(&path) };
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted => Ok(()),
        done => done.and_then(|()| sync(&path)),
    }
}

/// Whether a rollout is to pause.
pub fn paused(paths: &Paths, name: &str) -> bool {
    path(paths, name).exists()
}

fn sync(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}
