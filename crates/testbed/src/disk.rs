//! A container's disk: an overlay over the base whose upper layer is a tmpfs, so that it has a size limit and
//! works where the target folder itself lies on an overlay. It lasts until it is unmounted.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount as unmount_one};

use crate::TestbedError;

const LAYER: &str = "disk";
const ROOT: &str = "root";

/// Where the disk of the container with this folder is mounted.
pub(crate) fn root(folder: &Path) -> PathBuf {
    folder.join(ROOT)
}

/// Mounts an empty disk over `base`.
pub(crate) fn mount_new(folder: &Path, base: &Path, bytes: u64) -> Result<(), TestbedError> {
    let (layer, root) = (folder.join(LAYER), root(folder));
    let create = |path: &Path| fs::create_dir(path).map_err(TestbedError::file("cannot create", path));
    create(&layer)?;
    create(&root)?;
    let options = |text: String| std::ffi::CString::new(text).unwrap_or_default();
    let failed = |path: &Path, error: Errno| TestbedError::file("cannot mount", path)(error.into());
    let size = options(format!("size={bytes},mode=0755"));
    mount("heaptrial-testbed", &layer, "tmpfs", MountFlags::empty(), Some(size.as_c_str()))
        .map_err(|error| failed(&layer, error))?;
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    create(&upper)?;
    create(&work)?;
    let layers = options(format!(
        "lowerdir={},upperdir={},workdir={}",
        base.display(),
        upper.display(),
        work.display()
    ));
    mount("heaptrial-testbed", &root, "overlay", MountFlags::empty(), Some(layers.as_c_str()))
        .map_err(|error| failed(&root, error))
}

/// Unmounts what is mounted; the content is lost.
pub(crate) fn unmount(folder: &Path) -> Result<(), TestbedError> {
    for path in [root(folder), folder.join(LAYER)] {
        match unmount_one(&path, UnmountFlags::DETACH) {
            // Not mounted, or not even a folder yet.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(TestbedError::file("cannot unmount", path)(error.into())),
        }
    }
    Ok(())
}
