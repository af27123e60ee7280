use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink};
use std::path::Path;

use heaptrial_host::trusted::{Untrusted, path_is_trustworthy};
use heaptrial_host::{HostRoot, Scope};
use rustix::fs::{FlockOperation, OFlags, Timespec, Timestamps, XattrFlags, flock, futimens};

use super::{Disk, HeldLock};
use crate::files::{FileState, digest};

/// What lies in a transaction's folder decides what is written to the host: nobody else is to change it.
const MODE: u32 = 0o644;
/// Longer than somebody has a lock who only looks whether it is free.
const A_LOOK: std::time::Duration = std::time::Duration::from_millis(10);
/// A link in place of a file of ours leads to a file of somebody else's.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;

/// The files of the host that this program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisDisk;

impl Disk for ThisDisk {
    fn look(&self, path: &Path) -> io::Result<(FileState, Vec<u8>)> {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((FileState::Absent, Vec::new()));
            }
            found => found?,
        };
        if found.is_symlink() {
            return Ok((FileState::Link { target: fs::read_link(path)? }, Vec::new()));
        }
        if !found.is_file() {
            return Ok((FileState::Other, Vec::new()));
        }
        let mut file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let metadata = file.metadata()?;
        let state = FileState::File {
            sha256: digest(&bytes),
            mode: metadata.permissions().mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            modified_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            attributes: attributes(path)?,
        };
        Ok((state, bytes))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // A pipe in place of a file would be waited for.
        let mut file =
            OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn check_trusted(&self, path: &Path, scope: Scope) -> Result<(), Untrusted> {
        path_is_trustworthy(&HostRoot::default(), path, scope)
    }

    fn create(&self, path: &Path, state: &FileState, bytes: &[u8]) -> io::Result<()> {
        let (mode, uid, gid, modified_ns, attributes) = match state {
            FileState::File { mode, uid, gid, modified_ns, attributes, .. } => {
                (*mode, *uid, *gid, *modified_ns, attributes)
            }
            FileState::Link { target } => return symlink(target, path),
            FileState::Absent | FileState::Other => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        fchown(&file, Some(uid), Some(gid))?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        for (name, value) in attributes {
            let value = hex::decode(value).map_err(|_| io::ErrorKind::InvalidData)?;
            rustix::fs::fsetxattr(&file, name, &value, XattrFlags::empty())?;
        }
        if modified_ns != 0 {
            let time = Timespec {
                tv_sec: modified_ns.div_euclid(1_000_000_000),
                tv_nsec: modified_ns.rem_euclid(1_000_000_000),
            };
            futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
        }
        Ok(())
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(MODE).custom_flags(NO_FOLLOW).open(path)?.write_all(bytes)
    }

    fn cut(&self, path: &Path, length: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(MODE).truncate(false).custom_flags(NO_FOLLOW);
        options.open(path)?.set_len(length)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn HeldLock>>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(NO_FOLLOW);
        let file = options.open(path)?;
        for is_last in [false, true] {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Box::new(LockedFile(file)))),
                Err(rustix::io::Errno::WOULDBLOCK) if is_last => {}
                // Whoever looks whether it is free has it for a moment.
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(A_LOOK),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    /// A child that another thread has just forked has the file open as well until it runs its program, and would keep it locked.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl HeldLock for LockedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        self.0.write_all(bytes)
    }
}

fn attributes(path: &Path) -> io::Result<Vec<(String, String)>> {
    let mut names = vec![0_u8; 4096];
    let length = match rustix::fs::llistxattr(path, &mut names[..]) {
        // A file system without attributes.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = vec![0_u8; 65_536];
        let length = rustix::fs::lgetxattr(path, &name, &mut value[..])?;
        found.push((name, hex::encode(&value[..length])));
    }
    found.sort();
    Ok(found)
}
