//! The package file: an `ar` archive of two compressed `tar` archives (deb(5)), the same bytes for the same files.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::time::Duration;

use flate2::{Compression, GzBuilder};
use md5::{Digest as _, Md5};
use tar::{EntryType, Header};

use crate::hexadecimal;

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
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(control, time)?)?),
        ("data.tar.gz", gzip(&tar(data, time)?)?),
    ];
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = ar::Header::new(name.into(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(time.as_secs());
        archive.append(&header, bytes.as_slice())?;
    }
    archive.into_inner()
}

/// MD5 digests of all files, as dpkg checks them.
pub(crate) fn md5sums(data: &[Entry]) -> String {
    data.iter()
        .map(|entry| format!("{}  {}\n", hexadecimal(&Md5::digest(&entry.bytes)), entry.path))
        .collect()
}

/// Compressed, without name and time.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Folders first, then files, each in order of their paths.
fn tar(entries: &[Entry], time: Duration) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for folder in folders(entries) {
        let mut header = header(EntryType::Directory, 0o755, 0, time);
        archive.append_data(&mut header, folder, io::empty())?;
    }
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    for entry in sorted {
        let mut header = header(EntryType::Regular, entry.mode, entry.bytes.len() as u64, time);
        archive.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
    }
    archive.into_inner()
}

/// All folders above the files, outer ones before inner ones.
fn folders(entries: &[Entry]) -> BTreeSet<String> {
    let above = |path: &str| {
        let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at + 1).collect();
        ends.into_iter().map(|end| path[..end].to_owned()).collect::<Vec<_>>()
    };
    entries.iter().flat_map(|entry| above(&entry.path)).collect()
}

fn header(kind: EntryType, mode: u32, size: u64, time: Duration) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header.set_mtime(time.as_secs());
    // What fits is known to fit: the names are short.
    let _ = header.set_username("root").and_then(|()| header.set_groupname("root"));
    header
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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
    fn dpkg_reads_it_with_owners_modes_times_and_order() {
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
        let names: Vec<&str> = lines.iter().map(|line| line[5].trim_start_matches("./")).collect();
        assert_eq!(
            names,
            [
                "usr/",
                "usr/lib/",
                "usr/lib/x/",
                "usr/share/",
                "usr/share/doc/",
                "usr/share/doc/x/",
                "usr/lib/x/libx.so",
                "usr/share/doc/x/copyright"
            ]
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
