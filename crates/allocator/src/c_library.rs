//! The C library of this host.

use std::ffi::CStr;

use heaptrial_model::Version;

/// Folder of a Debian system's libraries for this architecture, below `lib`.
#[cfg(target_arch = "x86_64")]
pub(crate) const MULTIARCH: &str = "x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
pub(crate) const MULTIARCH: &str = "aarch64-linux-gnu";

/// Name of this architecture in package managers.
#[cfg(target_arch = "x86_64")]
pub const DEBIAN_ARCHITECTURE: &str = "amd64";
#[cfg(target_arch = "aarch64")]
pub const DEBIAN_ARCHITECTURE: &str = "arm64";

/// Version of the glibc that this program runs under.
pub fn host_glibc() -> Version {
    // SAFETY: the function takes no arguments and returns a static, NUL-terminated string.
    let text = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Version::new(text.to_string_lossy().into_owned())
}
