//! What a report has to say about the host.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::{CgroupVersion, HostError, HostRoot};

/// The properties of a host that change memory results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userland: Option<String>,
    pub kernel: String,
    pub architecture: String,
    pub cpu_count: u32,
    pub cpu_model: Option<String>,
    pub ram_bytes: u64,
    pub thp_mode: Option<String>,
    pub cgroup_version: CgroupVersion,
    pub overcommit_memory: Option<String>,
    /// The C library that this program runs on, such as `glibc 2.36`; `None` where it is another.
    pub libc: Option<String>,
    #[serde(default)]
    pub page_size_bytes: u64,
    pub boot_id: String,
}

pub fn boot_id(root: &HostRoot) -> Result<String, HostError> {
    line(root, "/proc/sys/kernel/random/boot_id")
}

fn line(root: &HostRoot, path: &str) -> Result<String, HostError> {
    let path = root.path(path);
    let text = fs::read_to_string(&path).map_err(HostError::read(&path))?;
    Ok(text.trim().to_owned())
}

/// The release of a system by its name (PRETTY_NAME of os-release(5)): point releases, which come with updates, are left out.
/// `Ubuntu 24.04.3 LTS` is `Ubuntu 24.04 LTS`.
pub fn release(name: &str) -> String {
    let word = |word: &str| -> String {
        let mut parts = word.splitn(3, '.');
        let numbers = [parts.next(), parts.next(), parts.next()];
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match numbers {
            [Some(major), Some(minor), Some(point)]
                if [major.trim_start_matches('v'), minor, point].into_iter().all(is_number) =>
            {
                format!("{major}.{minor}")
            }
            _ => word.to_owned(),
        }
    };
    name.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl HostFacts {
    pub fn read(root: &HostRoot) -> Result<Self, HostError> {
        let text = |path: &str| fs::read_to_string(root.path(path)).ok();
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u32;
        let available = std::thread::available_parallelism();
        Ok(Self {
            os: text("/etc/os-release")
                .and_then(|text| Some(value_of(&text, "PRETTY_NAME=")?.trim_matches('"').to_owned()))
                .unwrap_or_else(|| "unknown".to_owned()),
            userland: None,
            kernel: line(root, "/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned()),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu_count: if cpus > 0 { cpus } else { available.map_or(1, |number| number.get() as u32) },
            cpu_model: cpuinfo
                .lines()
                .find(|line| line.starts_with("model name"))
                .and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())),
            ram_bytes: text("/proc/meminfo")
                .and_then(|text| {
                    value_of(&text, "MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
                })
                .map_or(0, |kib| kib * 1024),
            thp_mode: text("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            cgroup_version: CgroupVersion::of(root),
            overcommit_memory: line(root, "/proc/sys/vm/overcommit_memory").ok(),
            libc: Some(c_library()),
            page_size_bytes: rustix::param::page_size() as u64,
            boot_id: boot_id(root)?,
        })
    }
}

fn c_library() -> String {
    // SAFETY: the function takes no arguments and returns a static, NUL-terminated string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

/// The code name of the suite whose system is below a root, such as `trixie`.
pub fn codename(root: &HostRoot) -> Option<String> {
    let text = fs::read_to_string(root.path("/etc/os-release")).ok()?;
    Some(value_of(&text, "VERSION_CODENAME=")?.trim_matches('"').to_owned())
}

/// The host's name, as of `uname -n`.
pub fn host_name(root: &HostRoot) -> Result<String, HostError> {
    line(root, "/proc/sys/kernel/hostname")
}

fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_release_is_no_other_system() {
        for (name, of) in [
            ("Ubuntu 24.04.3 LTS", "Ubuntu 24.04 LTS"),
            ("Ubuntu 24.04 LTS", "Ubuntu 24.04 LTS"),
            ("Debian GNU/Linux 13 (trixie)", "Debian GNU/Linux 13 (trixie)"),
            ("Alpine Linux v3.19.1", "Alpine Linux v3.19"),
            ("Rocky Linux 9.4 (Blue Onyx)", "Rocky Linux 9.4 (Blue Onyx)"),
            ("a 1.2.3.4 x", "a 1.2.3.4 x"),
        ] {
            assert_eq!(release(name), of);
        }
    }
}
