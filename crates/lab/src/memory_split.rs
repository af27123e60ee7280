//! Where the memory of a service is at the end of its run.

use heaptrial_allocator::{explain, identify_started_with};
use heaptrial_host::{HostRoot, Process, ProcessTree, ServiceProcesses};
use heaptrial_model::MemorySplit;

/// The split of all its processes together; `None` where the heap of one of them cannot be read.
pub(crate) fn memory_split(
    root: &HostRoot,
    processes: ServiceProcesses,
    passed: &[(String, String)],
) -> Option<MemorySplit> {
    let tree = ProcessTree::scan(root).ok()?;
    let mut parts = [0; 4];
    for pid in processes.running(&tree) {
        let process = Process::new(root, pid);
        let identity = identify_started_with(&process, passed).ok()?;
        let found = explain(&process, &identity).ok()?;
        let split = found.split?;
        let own = [
            split.in_use_bytes,
            split.free_in_pages_bytes,
            split.kept_free_bytes,
            found.stack_bytes + found.other_bytes,
        ];
        parts.iter_mut().zip(own).for_each(|(part, own)| *part += own);
    }
    Some(MemorySplit::from_parts(parts))
}
