//! Files in memory. Names and bytes that were not synced may be lost when the power goes: of the changes of names in a
//! folder the last ones, of a file's bytes any part that was not synced.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use heaptrial_change::FileState;
use heaptrial_change::edges::{Disk, HeldLock};
use heaptrial_host::Scope;
use heaptrial_host::trusted::Untrusted;
use heaptrial_model::ServiceName;
use sha2::{Digest, Sha256};

use crate::fleet::{UNITS, torrc_of};
use crate::random::Random;
use crate::world::World;

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Folder,
    Link(PathBuf),
    /// Index of its bytes.
    File(usize),
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Inode {
    bytes: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    modified_ns: i64,
    attributes: Vec<(String, String)>,
    /// What is sure to survive.
    synced: Vec<u8>,
    is_synced: bool,
}

/// A change of a folder's names that is not synced: what has the name, or nothing.
#[derive(Debug, Clone)]
struct Pending {
    folder: String,
    names: Vec<(String, Option<Node>)>,
}

/// All files of the host.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// By path; texts are compared faster than paths.
    names: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pending: Vec<Pending>,
    inodes: Vec<Inode>,
    ticks: i64,
    /// Every file that somebody wrote into, with what it was.
    drifted: Vec<(PathBuf, Vec<u8>)>,
    /// Those of them that a process looked at since, or that were so when it began: it must not overwrite them.
    known_drift: BTreeSet<String>,
}

/// What somebody adds to a file.
const BY_HAND: &[u8] = b"# by hand\n";

fn not_found<T>() -> io::Result<T> {
    Err(ErrorKind::NotFound.into())
}

fn key(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A file before anything happens: path, bytes, mode, owner.
pub type FileAtFirst<'a> = (&'a str, &'a [u8], u32, (u32, u32));

impl Files {
    /// Before anything happens: durable.
    pub fn with(folders: &[&str], files: &[FileAtFirst<'_>]) -> Self {
        let mut own = Self::default();
        for folder in folders {
            for path in Path::new(folder).ancestors() {
                own.names.insert(key(path).to_owned(), Node::Folder);
            }
        }
        for (path, bytes, mode, owner) in files {
            let attributes = vec![("user.note".to_owned(), hex::encode(path))];
            own.inodes.push(Inode {
                bytes: bytes.to_vec(),
                mode: *mode,
                owner: *owner,
                modified_ns: 1_700_000_000_123_456_789 + own.inodes.len() as i64,
                attributes: if *mode == 0o640 { attributes } else { Vec::new() },
                synced: bytes.to_vec(),
                is_synced: true,
            });
            own.names.insert((*path).to_owned(), Node::File(own.inodes.len() - 1));
        }
        own.durable = own.names.clone();
        own
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(key(path)) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(_) => Err(ErrorKind::IsADirectory.into()),
            None => not_found(),
        }
    }

    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        Some(&self.inodes[self.inode(path).ok()?].bytes)
    }

    pub fn has(&self, path: &Path) -> bool {
        self.names.contains_key(key(path))
    }

    pub fn in_folder<'f>(&'f self, folder: &Path) -> impl Iterator<Item = &'f Path> {
        let prefix = format!("{}/", key(folder));
        let from = self.names.range(prefix.clone()..).map(|(path, _)| path.as_str());
        let length = prefix.len();
        let below = from.take_while(move |path| path.starts_with(&prefix));
        below.filter(move |path| !path[length..].contains('/')).map(Path::new)
    }

    fn state(&self, path: &str) -> FileState {
        match self.names.get(path) {
            None => FileState::Absent,
            Some(Node::Folder) => FileState::Other,
            Some(Node::Link(target)) => FileState::Link { target: target.clone() },
            Some(Node::File(inode)) => {
                let found = &self.inodes[*inode];
                FileState::File {
                    sha256: digest(&found.bytes),
                    mode: found.mode,
                    uid: found.owner.0,
                    gid: found.owner.1,
                    modified_ns: found.modified_ns,
                    attributes: found.attributes.clone(),
                }
            }
        }
    }

    /// Everything below some folders.
    pub fn snapshot(&self, folders: &[&str]) -> BTreeMap<PathBuf, FileState> {
        let below = |path: &&String| folders.iter().any(|folder| Path::new(path).starts_with(folder));
        self.names.keys().filter(below).map(|path| (path.into(), self.state(path))).collect()
    }

    fn name(&mut self, folder: &str, names: Vec<(String, Option<Node>)>) {
        for (path, node) in &names {
            match node {
                Some(node) => self.names.insert(path.clone(), node.clone()),
                None => self.names.remove(path),
            };
        }
        self.pending.push(Pending { folder: folder.to_owned(), names });
    }

    fn make_durable(&mut self, change: &Pending) {
        for (path, node) in &change.names {
            match node {
                Some(node) => self.durable.insert(path.clone(), node.clone()),
                None => self.durable.remove(path),
            };
        }
    }

    fn sync_names(&mut self, folder: &str) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if change.folder == folder { self.make_durable(&change) } else { self.pending.push(change) }
        }
    }

    /// The power goes. Seed 0 loses all that was not synced.
    pub fn power_cut(&mut self, random: &mut Random) {
        let loses_all = random.clone().next() == Random::new(0).next();
        let mut kept: BTreeMap<String, u64> = BTreeMap::new();
        for change in &self.pending {
            *kept.entry(change.folder.clone()).or_default() += 1;
        }
        for count in kept.values_mut() {
            *count = if loses_all { 0 } else { random.below(*count + 1) };
        }
        for change in std::mem::take(&mut self.pending) {
            let left = kept.entry(change.folder.clone()).or_default();
            if *left > 0 {
                *left -= 1;
                self.make_durable(&change);
            }
        }
        // What is in a folder that is gone is gone; parents come before what is in them.
        let mut names: BTreeMap<String, Node> = BTreeMap::new();
        for (path, node) in &self.durable {
            if path == "/" || names.get(parent(path)) == Some(&Node::Folder) {
                names.insert(path.clone(), node.clone());
            }
        }
        for inode in self.inodes.iter_mut().filter(|inode| !inode.is_synced) {
            let common =
                inode.bytes.iter().zip(&inode.synced).take_while(|(one, other)| one == other).count();
            match if loses_all { 0 } else { random.below(3) } {
                0 => inode.bytes = inode.synced.clone(),
                1 => {}
                _ => {
                    let end = common as u64 + random.below((inode.bytes.len() - common) as u64 + 1);
                    inode.bytes.truncate(end as usize);
                }
            }
            inode.synced = inode.bytes.clone();
            inode.is_synced = true;
        }
        self.durable = names.clone();
        self.names = names;
    }

    /// Somebody adds a line to a service's drop-in, or to its torrc.
    pub fn drift(&mut self, service: &ServiceName) {
        let drop_in = PathBuf::from(format!("{UNITS}/{service}.d/zz-heaptrial.conf"));
        let path = if self.has(&drop_in) { drop_in } else { torrc_of(service) };
        let Ok(inode) = self.inode(&path) else { return };
        let bytes = self.inodes[inode].bytes.clone();
        if !String::from_utf8_lossy(&bytes).contains("eaptrial") {
            // What is there before is whatever it is.
            return;
        }
        self.known_drift.remove(key(&path));
        self.drifted.push((path, bytes));
        let found = &mut self.inodes[inode];
        found.bytes.extend_from_slice(BY_HAND);
        found.synced = found.bytes.clone();
    }

    /// Somebody removes a service's drop-in, for good; gives whether it was there.
    pub fn remove_drop_in(&mut self, service: &ServiceName) -> bool {
        let folder = format!("{UNITS}/{service}.d");
        let path = format!("{folder}/zz-heaptrial.conf");
        let is_there = self.has(Path::new(&path));
        if is_there {
            self.name(&folder, vec![(path, None)]);
            self.sync_names(&folder);
        }
        is_there
    }

    /// Whoever wrote into files takes that back, as far as it stands there still.
    pub fn mend(&mut self) {
        for (path, bytes) in std::mem::take(&mut self.drifted).into_iter().rev() {
            let Ok(inode) = self.inode(&path) else { continue };
            let found = &mut self.inodes[inode];
            if found.bytes.ends_with(BY_HAND) {
                found.bytes = bytes;
                found.synced = found.bytes.clone();
            }
        }
    }

    fn is_by_hand(&self, path: &Path) -> bool {
        self.bytes(path).is_some_and(|bytes| bytes.ends_with(BY_HAND))
    }

    pub fn has_drift(&self) -> bool {
        self.drifted.iter().any(|(path, _)| self.is_by_hand(path))
    }

    /// A process begins: what somebody wrote before is there for it to be seen.
    pub fn know_drift(&mut self) {
        self.known_drift.extend(self.drifted.iter().map(|(path, _)| key(path).to_owned()));
    }

    fn check_not_by_hand(&self, path: &Path) {
        let is_lost = self.known_drift.contains(key(path)) && self.is_by_hand(path);
        assert!(!is_lost, "{} is overwritten, which somebody else changed", path.display());
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        match self.names.get(parent(key(path))) {
            Some(Node::Folder) => Ok(()),
            Some(_) => Err(ErrorKind::NotADirectory.into()),
            None => not_found(),
        }
    }

    fn tick(&mut self) -> i64 {
        self.ticks += 1;
        1_800_000_000_000_000_000 + self.ticks
    }

    fn new_file(&mut self, path: &Path) -> io::Result<usize> {
        self.check_parent(path)?;
        let modified_ns = self.tick();
        self.inodes.push(Inode { mode: 0o644, modified_ns, ..Inode::default() });
        let inode = self.inodes.len() - 1;
        let path = key(path);
        self.name(parent(path), vec![(path.to_owned(), Some(Node::File(inode)))]);
        Ok(inode)
    }

    fn open(&mut self, path: &Path) -> io::Result<usize> {
        match self.inode(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.new_file(path),
            found => found,
        }
    }
}

impl Disk for World {
    fn look(&self, path: &Path) -> io::Result<(FileState, Vec<u8>)> {
        self.operate();
        let mut files = self.files.borrow_mut();
        files.known_drift.insert(key(path).to_owned());
        Ok((files.state(key(path)), files.bytes(path).unwrap_or_default().to_vec()))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.operate();
        let files = self.files.borrow();
        let inode = files.inode(path)?;
        Ok(files.inodes[inode].bytes.clone())
    }

    fn exists(&self, path: &Path) -> bool {
        self.operate();
        self.files.borrow().has(path)
    }

    fn check_trusted(&self, _path: &Path, _scope: Scope) -> Result<(), Untrusted> {
        Ok(())
    }

    fn create(&self, path: &Path, state: &FileState, bytes: &[u8]) -> io::Result<()> {
        self.operate();
        self.space()?;
        let mut files = self.files.borrow_mut();
        files.check_parent(path)?;
        if files.has(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match state {
            FileState::Link { target } => {
                files.name(parent(key(path)), vec![(key(path).to_owned(), Some(Node::Link(target.clone())))]);
            }
            FileState::File { mode, uid, gid, modified_ns, attributes, .. } => {
                let inode = files.new_file(path)?;
                let now = files.tick();
                files.inodes[inode] = Inode {
                    bytes: bytes.to_vec(),
                    mode: *mode,
                    owner: (*uid, *gid),
                    modified_ns: if *modified_ns == 0 { now } else { *modified_ns },
                    attributes: attributes.clone(),
                    ..Inode::default()
                };
            }
            FileState::Absent | FileState::Other => return Err(ErrorKind::InvalidInput.into()),
        }
        Ok(())
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.operate();
        let full = self.space();
        let mut files = self.files.borrow_mut();
        let inode = files.open(path)?;
        let found = &mut files.inodes[inode];
        // A full disk takes what still fits.
        let fits = if full.is_ok() { bytes.len() } else { bytes.len() / 2 };
        found.bytes.extend_from_slice(&bytes[..fits]);
        found.is_synced = false;
        full
    }

    fn cut(&self, path: &Path, length: u64) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        let inode = files.open(path)?;
        files.inodes[inode].bytes.truncate(length as usize);
        files.inodes[inode].is_synced = false;
        Ok(())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        let inode = files.inode(path)?;
        let found = &mut files.inodes[inode];
        found.synced = found.bytes.clone();
        found.is_synced = true;
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        assert_eq!(from.parent(), to.parent(), "only within a folder");
        let Some(node) = files.names.get(key(from)).cloned() else { return not_found() };
        files.check_not_by_hand(to);
        if files.names.get(key(to)) == Some(&Node::Folder) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let names = vec![(key(from).to_owned(), None), (key(to).to_owned(), Some(node))];
        files.name(parent(key(to)), names);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        files.check_not_by_hand(path);
        match files.names.get(key(path)) {
            None => not_found(),
            Some(Node::Folder) => Err(ErrorKind::IsADirectory.into()),
            Some(_) => {
                files.name(parent(key(path)), vec![(key(path).to_owned(), None)]);
                Ok(())
            }
        }
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.operate();
        self.space()?;
        let mut files = self.files.borrow_mut();
        files.check_parent(path)?;
        if files.has(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        files.name(parent(key(path)), vec![(key(path).to_owned(), Some(Node::Folder))]);
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        if files.names.get(key(path)) != Some(&Node::Folder) {
            return not_found();
        }
        if files.in_folder(path).next().is_some() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        files.name(parent(key(path)), vec![(key(path).to_owned(), None)]);
        Ok(())
    }

    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        let below = |name: &&String| Path::new(name).starts_with(path);
        let all: Vec<String> = files.names.keys().filter(below).cloned().collect();
        for path in all.into_iter().rev() {
            let folder = parent(&path).to_owned();
            files.name(&folder, vec![(path, None)]);
        }
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.operate();
        let mut files = self.files.borrow_mut();
        if files.names.get(key(path)) != Some(&Node::Folder) {
            return not_found();
        }
        files.sync_names(key(path));
        Ok(())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.operate();
        let files = self.files.borrow();
        if !files.has(folder) {
            return not_found();
        }
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(files.in_folder(folder).filter_map(name).collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn HeldLock>>> {
        self.operate();
        self.files.borrow_mut().open(path)?;
        let free = !self.locked.replace(true);
        Ok(free.then(|| -> Box<dyn HeldLock> { Box::new(Held(self.locked.clone())) }))
    }
}

#[derive(Debug)]
struct Held(Rc<Cell<bool>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl HeldLock for Held {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<()> {
        // The world has one process at a time, and nobody to be told.
        Ok(())
    }
}
