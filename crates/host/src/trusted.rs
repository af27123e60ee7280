//! Whether a file can only be changed by root, or by the user whose own it is: it and every folder on the way to it. What is
//! opened, written or run with their rights is checked here and nowhere else.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::{HostRoot, Scope};

/// Why a path must not be given to a program of another user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Untrusted(String);

/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Whether nobody but root can change what a path leads to; and, where a user's own services are meant, that user.
///
/// Every folder on the way, every symbolic link and what it leads to, and the file itself have to be theirs and not
/// writable by group or others; a sticky folder such as `/tmp` is not good enough. Where an access control list lets
/// others write, the mode of the group shows it (acl(5)). What does not exist yet is no objection, as nobody but root
/// can make it: the last folder that exists was examined. On a fixture tree root is who owns the tree.
pub fn path_is_trustworthy(root: &HostRoot, path: &Path, scope: Scope) -> Result<(), Untrusted> {
    let owners = match root.is_live() {
        true => [0, scope.owner()],
        false => [examine(root, Path::new("/"))?.map_or(0, |root| root.uid()); 2],
    };
    walk(root, path, |path, metadata| {
        let mode = metadata.mode() & 0o7777;
        if !owners.contains(&metadata.uid()) {
            let (path, user) = (path.display(), metadata.uid());
            let owner = if scope.is_system() { "root" } else { "you or root" };
            return Err(Untrusted(format!("{path} belongs to user {user}, not to {owner}")));
        }
        // A symbolic link has no mode of its own; its folder decides who may change it.
        let whom = match mode {
            _ if metadata.is_symlink() => return Ok(()),
            mode if mode & 0o002 != 0 => "everybody",
            mode if mode & 0o020 != 0 => "its group",
            _ => return Ok(()),
        };
        Err(Untrusted(format!("{} can be written by {whom} (mode {mode:04o})", path.display())))
    })
    .map(drop)
}

/// The path with all symbolic links followed, within the root; `None` where it does not exist or cannot be followed.
pub fn resolve(root: &HostRoot, path: &Path) -> Option<PathBuf> {
    let found = walk(root, path, |_, _| Ok(())).ok()?;
    examine(root, &found).ok()??;
    Some(found)
}

/// Goes along a path within the root and calls `visit` with everything on it, links before what they lead to.
/// Gives the path without links; what does not exist is taken as it is.
fn walk(
    root: &HostRoot,
    path: &Path,
    mut visit: impl FnMut(&Path, &Metadata) -> Result<(), Untrusted>,
) -> Result<PathBuf, Untrusted> {
    if !path.is_absolute() {
        return Err(Untrusted(format!("{} is not an absolute path", path.display())));
    }
    let mut at = PathBuf::from("/");
    if let Some(metadata) = examine(root, &at)? {
        visit(&at, &metadata)?;
    }
    let mut left = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let Some(metadata) = examine(root, &next)? else {
            at = next;
            continue;
        };
        visit(&next, &metadata)?;
        if !metadata.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Untrusted(format!("{}: too many symbolic links", path.display())));
        }
        let target = fs::read_link(root.path(&next)).map_err(|error| unread(&next, &error))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(names(&target));
    }
    Ok(at)
}

fn unread(path: &Path, error: &io::Error) -> Untrusted {
    Untrusted(format!("cannot examine {}: {error}", path.display()))
}

/// The names of a path, last first.
fn names(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = named.collect();
    names.reverse();
    names
}

fn examine(root: &HostRoot, path: &Path) -> Result<Option<Metadata>, Untrusted> {
    match fs::symlink_metadata(root.path(path)) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(unread(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const LIBRARY: &str = "/usr/lib/heaptrial/allocators/x.so";

    fn tree() -> (tempfile::TempDir, HostRoot) {
        let folder = tempfile::tempdir().unwrap();
        let root = HostRoot::at(folder.path());
        fs::create_dir_all(root.path("/usr/lib/heaptrial/allocators")).unwrap();
        fs::write(root.path(LIBRARY), "").unwrap();
        for path in ["/", "/usr", "/usr/lib", "/usr/lib/heaptrial", "/usr/lib/heaptrial/allocators"] {
            mode(&root, path, 0o755);
        }
        mode(&root, LIBRARY, 0o644);
        (folder, root)
    }

    fn mode(root: &HostRoot, path: &str, mode: u32) {
        fs::set_permissions(root.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn judged(root: &HostRoot, path: &str) -> String {
        path_is_trustworthy(root, Path::new(path), Scope::System)
            .map_or_else(|why| why.to_string(), |()| "trusted".to_owned())
    }

    #[test]
    fn a_path_that_only_root_can_change_is_trusted() {
        let (_folder, root) = tree();
        assert_eq!(judged(&root, LIBRARY), "trusted");
        assert_eq!(judged(&root, "/usr/lib/heaptrial/not/yet/there.so"), "trusted");
        assert_eq!(judged(&HostRoot::default(), "/usr/lib"), "trusted");
    }

    #[test]
    fn every_writable_part_is_refused() {
        for (path, bits) in [("/usr", 0o777), ("/usr/lib/heaptrial", 0o775), (LIBRARY, 0o666), ("/", 0o1777)]
        {
            let (_folder, root) = tree();
            mode(&root, path, bits);
            let why = judged(&root, LIBRARY);
            assert!(why.starts_with(&format!("{path} can be written by ")), "{why}");
            assert!(why.ends_with(&format!("(mode {bits:04o})")), "{why}");
        }
    }

    #[test]
    fn links_are_followed_within_the_root_and_what_they_lead_to_is_examined() {
        let (_folder, root) = tree();
        fs::create_dir_all(root.path("/tmp/a")).unwrap();
        fs::write(root.path("/tmp/a/y.so"), "").unwrap();
        mode(&root, "/tmp", 0o1777);
        symlink("/usr/lib/heaptrial", root.path("/lib")).unwrap();
        symlink("../../../../tmp/a/y.so", root.path("/usr/lib/heaptrial/allocators/y.so")).unwrap();
        assert_eq!(judged(&root, "/lib/allocators/x.so"), "trusted");
        assert_eq!(resolve(&root, Path::new("/lib/allocators/x.so")).unwrap(), Path::new(LIBRARY));
        assert!(judged(&root, "/lib/allocators/y.so").starts_with("/tmp can be written by everybody"));
        symlink("loop", root.path("/loop")).unwrap();
        assert!(judged(&root, "/loop").contains("too many symbolic links"));
        assert!(judged(&root, "usr/lib").contains("not an absolute path"));
        assert_eq!(resolve(&root, Path::new("/no/such")), None);
    }
}
