//! A host in a folder, for tests.

use std::fs;
use std::path::Path;

use crate::HostRoot;

/// A host with these files.
pub(crate) fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path, text);
    }
    let root = HostRoot::at(folder.path());
    (folder, root)
}

pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A process with so much memory.
pub(crate) fn process(root: &Path, pid: i32, parent: i32, state: char, kib: u64) {
    let sizes = format!("VmSize:\t{kib} kB\nVmRSS:\t{kib} kB\nRssAnon:\t{kib} kB\n");
    let stat = format!("{pid} (x) {state} {parent} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 500 0 0");
    write(root, &format!("proc/{pid}/status"), &format!("Name:\tx\n{sizes}"));
    write(root, &format!("proc/{pid}/stat"), &stat);
}
