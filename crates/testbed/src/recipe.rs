//! What the root file system is made of.

use std::fs;
use std::process::Command;

use heaptrial_host::apt_options;
use sha2::{Digest, Sha256};

use crate::Unavailable;

/// Packages besides those that are essential.
const PACKAGES: [&str; 14] = [
    "adduser",
    "apparmor",
    "dbus",
    "iproute2",
    "libcap2-bin",
    "libjemalloc2",
    // Ansible logs in and runs its modules.
    "openssh-server",
    "procps",
    "python3",
    // Ansible's module for packages asks it.
    "python3-apt",
    "systemd",
    "systemd-sysv",
    "tor",
    "util-linux",
];

/// First process of a container. systemd-nspawn mounts cgroup v1 controllers read-only, and systemd can then
/// account nothing. From version 256 on it has to be asked to.
const INIT: &str = "#!/bin/sh
for controller in memory cpu cpuacct blkio pids; do
    if [ -e /sys/fs/cgroup/$controller/cgroup.procs ]; then
        mount -o remount,bind,rw /sys/fs/cgroup/$controller
    fi
done
exec /lib/systemd/systemd SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
";

/// Path of [`INIT`] in a container.
pub(crate) const INIT_PATH: &str = "/testbed-init";

/// Files that are written over those of the packages: path, content, mode.
const FILES: [(&str, &str, u32); 5] = [
    ("etc/hostname", "testbed\n", 0o644),
    ("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 testbed\n::1 localhost\n", 0o644),
    // Empty, so that the first boot gives the container an identity of its own.
    ("etc/machine-id", "", 0o444),
    // A container has no network; should anything ask for a name, it asks loopback.
    ("etc/resolv.conf", "nameserver 127.0.0.1\n", 0o644),
    ("testbed-init", INIT, 0o755),
];

/// Units that would wake up by themselves or start a Tor that nobody asked for, how this host reaches its package mirror,
/// and generators that find nothing in a container: systemd runs each at every `daemon-reload`, a seventh of all work of the
/// tests on hosts.
const REMOVED: [&str; 12] = [
    "etc/systemd/system/timers.target.wants",
    "etc/systemd/system/multi-user.target.wants/ssh.service",
    "etc/systemd/system/multi-user.target.wants/tor.service",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "usr/lib/systemd/system-generators/systemd-cryptsetup-generator",
    "usr/lib/systemd/system-generators/systemd-getty-generator",
    "usr/lib/systemd/system-generators/systemd-gpt-auto-generator",
    "usr/lib/systemd/system-generators/systemd-hibernate-resume-generator",
    "usr/lib/systemd/system-generators/systemd-integritysetup-generator",
    "usr/lib/systemd/system-generators/systemd-rc-local-generator",
    "usr/lib/systemd/system-generators/systemd-system-update-generator",
    "usr/lib/systemd/system-generators/systemd-veritysetup-generator",
];

/// How the root file system is built.
#[derive(Debug)]
pub(crate) struct Recipe {
    suite: String,
    /// The suite of this host, of which it has mirrors.
    own: String,
    packages: Vec<&'static str>,
}

impl Recipe {
    /// For this host's suite, so that programs built here run there, or for a newer one of its distribution; with `further`
    /// packages.
    pub(crate) fn of(suite: Option<&str>, further: &[&'static str]) -> Result<Self, Unavailable> {
        let path = "/etc/os-release";
        let text =
            fs::read_to_string(path).map_err(|error| Unavailable(format!("cannot read {path}: {error}")))?;
        let own = text
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .map(|name| name.trim_matches('"').to_owned())
            .filter(|name| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric()))
            .ok_or_else(|| Unavailable(format!("{path} names no release (VERSION_CODENAME)")))?;
        let suite = suite.unwrap_or(&own).to_owned();
        let mimalloc = match suite.as_str() {
            "bookworm" | "jammy" | "noble" => Some("libmimalloc2.0"),
            "trixie" => Some("libmimalloc3"),
            _ => None,
        };
        let packages = PACKAGES.into_iter().chain(mimalloc).chain(further.iter().copied()).collect();
        Ok(Self { packages, suite, own })
    }

    /// Short and different for each recipe.
    pub(crate) fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{} {:?} {FILES:?} {REMOVED:?}", self.suite, self.packages));
        hex::encode(&hash.finalize()[..6])
    }

    /// The program that unpacks the packages into `folder`.
    pub(crate) fn command(&self, folder: &std::path::Path) -> Command {
        let mut command = Command::new("mmdebstrap");
        command
            .args(["--quiet", "--variant=minbase"])
            .arg(format!("--include={}", self.packages.join(",")))
            .args(
                ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"]
                    .map(|unneeded| format!("--dpkgopt=path-exclude={unneeded}")),
            )
            .args(apt_options().iter().map(|option| format!("--aptopt={option}")))
            .arg(&self.suite)
            .arg(folder)
            .args(mirrors(&self.own).into_iter().map(|line| line.replace(&self.own, &self.suite)));
        command
    }

    /// Makes the unpacked packages a host.
    pub(crate) fn finish(&self, root: &std::path::Path) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        for path in REMOVED {
            let path = root.join(path);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&path)?,
                Ok(_) => fs::remove_file(&path)?,
                Err(_) => {}
            }
        }
        for (path, content, mode) in FILES {
            let path = root.join(path);
            if fs::symlink_metadata(&path).is_ok() {
                fs::remove_file(&path)?;
            }
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

/// Where this host gets the packages of its distribution from; none if it is not known, which means
/// mmdebstrap's default.
fn mirrors(suite: &str) -> Vec<String> {
    let format = "$(ORIGIN)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)";
    let output =
        Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]).output();
    let Ok(output) = output else { return Vec::new() };
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let [origin, uri, release, component] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
            let own = ["Debian", "Ubuntu"].contains(&origin) && release.starts_with(suite);
            own.then(|| format!("deb {uri} {release} {component}"))
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines
}
