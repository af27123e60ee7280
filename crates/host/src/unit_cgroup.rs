//! The control group that systemd made for a unit: which processes are the unit's, and what they take together.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::cgroup::{CPU_MOUNT, group_in};
use crate::{Cgroup, CgroupVersion, HostError, HostRoot};

/// Where systemd keeps the processes of units in version 1: a hierarchy that accounts for nothing.
const V1_MOUNT: &str = "/sys/fs/cgroup/systemd";
const V1_NAME: &str = "name=systemd";

/// The control group of a unit, as far as it is the unit's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitCgroup {
    pub(crate) processes: Option<PathBuf>,
    pub(crate) memory: Option<Cgroup>,
}

impl UnitCgroup {
    /// By the path that systemd has (ControlGroup), of a unit whose main process is `pid`. In which hierarchies that process is in
    /// it or below it: version 1 puts a unit that it does not account for into a group that others are in as well.
    pub(crate) fn of(root: &HostRoot, path: &str, pid: i32) -> Result<Self, HostError> {
        let Some(own) = path.strip_prefix('/').filter(|own| !own.is_empty()) else {
            return Ok(Self::default());
        };
        let version = CgroupVersion::of(root);
        let file = root.process_dir(pid).join("cgroup");
        let text = fs::read_to_string(&file).map_err(HostError::read(&file))?;
        let dir_in = |version, controller, mount| {
            let of_main = group_in(&text, version, controller)?;
            let dir = root.path(mount).join(own);
            (Path::new(of_main).starts_with(path) && dir.join("cgroup.procs").exists()).then_some(dir)
        };
        let in_v1 = |controller, mount| dir_in(CgroupVersion::V1, controller, mount);
        if version == CgroupVersion::V2 {
            let dir = dir_in(version, "", version.mount());
            let memory = dir.clone().map(|dir| Cgroup::at(version, dir, None));
            return Ok(Self { processes: dir, memory });
        }
        let memory = in_v1("memory", version.mount()).filter(|_| version == CgroupVersion::V1);
        let memory = memory.map(|dir| Cgroup::at(version, dir, in_v1("cpuacct", CPU_MOUNT)));
        Ok(Self { processes: in_v1(V1_NAME, V1_MOUNT), memory })
    }
}

/// The processes that are in a group or below it.
pub(crate) fn processes_below(dir: &Path) -> Result<Vec<i32>, HostError> {
    let (mut found, mut below) = list(dir)?;
    while let Some(dir) = below.pop() {
        match list(&dir) {
            Ok((processes, groups)) => {
                found.extend(processes);
                below.extend(groups);
            }
            // It was removed meanwhile, which takes that nothing is in it.
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The processes in a group, and the folders of the groups in it.
fn list(dir: &Path) -> Result<(Vec<i32>, Vec<PathBuf>), HostError> {
    let list = dir.join("cgroup.procs");
    let text = match fs::read_to_string(&list) {
        // A threaded group: the one above lists its processes (cgroups(7)).
        Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => String::new(),
        read => read.map_err(HostError::read(list))?,
    };
    // Processes of another namespace of process ids are 0.
    let processes = text.lines().filter_map(|line| line.parse().ok()).filter(|pid: &i32| *pid > 0);
    let mut groups = Vec::new();
    // Two, and one for each group in it.
    if fs::metadata(dir).map_err(HostError::read(dir))?.nlink() != 2 {
        for entry in fs::read_dir(dir).map_err(HostError::read(dir))? {
            let entry = entry.map_err(HostError::read(dir))?;
            groups.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
        }
    }
    Ok((processes.collect(), groups))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A host of version 1 with one process in these groups, and these folders of groups.
    fn host(of_process: &str, groups: &[&str]) -> (tempfile::TempDir, HostRoot) {
        let (folder, root) = fixture::host(&[
            ("proc/7/cgroup", of_process),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ]);
        for group in groups {
            fixture::write(folder.path(), &format!("sys/fs/cgroup/{group}/cgroup.procs"), "7\n");
        }
        (folder, root)
    }

    fn found(root: &HostRoot, path: &str) -> (Option<PathBuf>, Option<PathBuf>) {
        let group = UnitCgroup::of(root, path, 7).unwrap();
        let memory = group.memory.map(|group| group.dir().to_owned());
        let short = |dir: PathBuf| dir.strip_prefix(root.path("/sys/fs/cgroup")).unwrap().to_owned();
        (group.processes.map(short), memory.map(short))
    }

    #[test]
    fn a_unit_without_accounting_has_its_processes_and_not_the_memory_of_its_slice() {
        let text = "4:memory:/system.slice\n3:cpu,cpuacct:/\n1:name=systemd:/system.slice/a.service\n";
        let groups = ["memory/system.slice", "systemd/system.slice/a.service"];
        let (_folder, root) = host(text, &groups);
        let processes = Some(PathBuf::from("systemd/system.slice/a.service"));
        assert_eq!(found(&root, "/system.slice/a.service"), (processes.clone(), None));
        let text = "4:memory:/system.slice/a.service\n1:name=systemd:/system.slice/a.service\n";
        let groups = ["memory/system.slice/a.service", "systemd/system.slice/a.service"];
        let (_folder, root) = host(text, &groups);
        let memory = Some(PathBuf::from("memory/system.slice/a.service"));
        assert_eq!(found(&root, "/system.slice/a.service"), (processes, memory));
    }
}
