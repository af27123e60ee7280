//! The package file, put together by `dpkg-deb`: the same bytes for the same files.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use flate2::{Compression, GzBuilder};

/// A file of an archive. All belong to root.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Path from the root folder, without a slash in front.
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl Entry {
    pub(crate) fn file(path: String, bytes: Vec<u8>) -> Self {
        Self { path: path.trim_start_matches('/').to_owned(), mode: 0o644, bytes }
    }

    pub(crate) fn program(path: String, bytes: Vec<u8>) -> Self {
        Self { mode: 0o755, ..Self::file(path, bytes) }
    }

    /// What it takes on a disk, in KiB, rounded up.
    pub(crate) fn kibibytes(&self) -> u64 {
        (self.bytes.len() as u64).div_ceil(1024)
    }
}

/// A Debian package of these control files and files.
pub(crate) fn debian_package(control: &[Entry], data: &[Entry], time: Duration) -> io::Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (root, file) = (folder.path().join("root"), folder.path().join("package.deb"));
    let mut folders = BTreeSet::new();
    for entry in data {
        write(&root, entry, time, &mut folders)?;
    }
    for entry in control {
        write(&root.join("DEBIAN"), entry, time, &mut folders)?;
    }
    for folder in folders.iter().filter(|folder| folder.starts_with(&root)) {
        finish(folder, 0o755, time)?;
    }
    // Its default, xz, is not the same on machines with other numbers of processors.
    let output = Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Zgzip", "-z9", "--build"])
        .args([&root, &file])
        .env("SOURCE_DATE_EPOCH", time.as_secs().to_string())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("dpkg-deb cannot be run: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(said));
    }
    fs::read(file)
}

/// Writes a file, and notes the folders above it.
fn write(root: &Path, entry: &Entry, time: Duration, folders: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let path = root.join(&entry.path);
    let above = path.ancestors().skip(1).map(Path::to_owned);
    folders.extend(above);
    fs::create_dir_all(path.parent().unwrap_or(root))?;
    fs::write(&path, &entry.bytes)?;
    finish(&path, entry.mode, time)
}

/// Sets mode and time, whatever the umask and the clock are.
fn finish(path: &Path, mode: u32, time: Duration) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    File::open(path)?.set_modified(SystemTime::UNIX_EPOCH + time)
}

/// Compressed, without name and time.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Vec<u8> {
        let data = [
            Entry::file("/usr/share/doc/x/copyright".to_owned(), b"MIT\n".to_vec()),
            Entry::file("/usr/lib/x/libx.so".to_owned(), vec![1; 3000]),
        ];
        let control =
            "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: X <x@example.org>\nDescription: x\n";
        let control = [
            Entry::file("control".to_owned(), control.into()),
            Entry::program("prerm".to_owned(), b"#!/bin/sh\n".to_vec()),
        ];
        debian_package(&control, &data, Duration::from_secs(86_400)).unwrap()
    }

    #[test]
    fn dpkg_reads_it_with_owners_modes_and_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.deb");
        std::fs::write(&file, package()).unwrap();
        let ask = |option: &str| {
            let output = Command::new("dpkg-deb")
                .env("TZ", "UTC")
                .arg(option)
                .arg(&file)
                .output()
                .expect("needs dpkg-deb");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(ask("--field").starts_with("Package: x\nVersion: 1\n"));
        let listed = ask("--contents");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> = listed.lines().map(words).collect();
        let names: BTreeSet<&str> = lines.iter().map(|line| line[5].as_str()).collect();
        assert_eq!(
            names,
            BTreeSet::from([
                "./",
                "./usr/",
                "./usr/lib/",
                "./usr/lib/x/",
                "./usr/share/",
                "./usr/share/doc/",
                "./usr/share/doc/x/",
                "./usr/lib/x/libx.so",
                "./usr/share/doc/x/copyright"
            ])
        );
        for line in &lines {
            let mode = if line[5].ends_with('/') { "drwxr-xr-x" } else { "-rw-r--r--" };
            assert_eq!(
                (line[0].as_str(), line[1].as_str(), line[3].as_str()),
                (mode, "root/root", "1970-01-02")
            );
        }
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert_eq!(package(), package());
    }
}
