use std::path::{Path, PathBuf};

/// Where the host's file systems are mounted: `/` on a live host, a fixture folder in tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    root: PathBuf,
}

impl Default for HostRoot {
    fn default() -> Self {
        Self { root: PathBuf::from("/") }
    }
}

impl HostRoot {
    /// A host whose `proc`, `sys` and `etc` are folders of `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The place of an absolute path of the host.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let path = absolute.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub fn process_dir(&self, pid: i32) -> PathBuf {
        self.path(format!("/proc/{pid}"))
    }

    /// Whether this is the running host rather than a fixture.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }
}
