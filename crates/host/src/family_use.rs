//! What a process and everything below it takes of the host.

use std::time::Duration;

use crate::{HostError, HostRoot, ProcessReader, ProcessTree};

/// What a process and everything below it takes of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FamilyUse {
    /// Resident memory, a page that several share counted for each: no less than what they take together.
    pub rss_bytes: u64,
    /// CPU time since their start, with that of children that they waited for.
    pub cpu: Duration,
}

impl FamilyUse {
    /// Of `pid` now. Processes that end meanwhile are left out.
    pub fn read(root: &HostRoot, pid: i32) -> Result<Self, HostError> {
        let tree = ProcessTree::scan(root)?;
        let readings = tree
            .family(pid)
            .into_iter()
            .filter_map(|pid| ProcessReader::open(root, pid).ok()?.read().ok())
            .map(|reading| reading.sample);
        Ok(readings.fold(Self::default(), |sum, sample| Self {
            rss_bytes: sum.rss_bytes + sample.rss_bytes,
            cpu: sum.cpu + Duration::from_micros(sample.cpu_us),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_count() {
        let own = FamilyUse::read(&HostRoot::default(), std::process::id() as i32).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let of_child = FamilyUse::read(&HostRoot::default(), child.id() as i32).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(of_child.rss_bytes > 0 && own.rss_bytes > of_child.rss_bytes);
        assert!(own.cpu >= of_child.cpu);
    }
}
