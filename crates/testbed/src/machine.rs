//! A virtual machine: a kernel of its own over the root file system of containers.
//!
//! The kernel is user-mode Linux, the real one as a process: it needs no support of the processor, which virtual machines
//! in virtual machines lack, no image and no initial ramdisk. It has one processor and no network; its memory management, its
//! control groups (version 2 alone) and its swap are those of every Linux. Page faults and system calls are slow.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::base::check_program;
use crate::cgroup::wait_for;
use crate::container::checked_bind;
use crate::state::Place;
use crate::{Base, Testbed, TestbedError, launch, skip};

const KERNEL: &str = "linux.uml";
const PACKAGE: &str = "user-mode-linux";
const DISK_BYTES: u64 = 512 << 20;

/// What a script said, with its errors, and how it ended.
const SAID: &str = "testbed-said";
const STATUS: &str = "testbed-status";
/// Runs the script once all has started, and switches off.
const UNIT: &str = "[Unit]\nAfter=multi-user.target\nSuccessAction=poweroff\nFailureAction=poweroff\n\
    [Service]\nType=oneshot\nExecStart=/bin/sh -c '/testbed-script > /testbed-said 2>&1; echo $? > /testbed-status'\n";

/// Files by which the root file system of containers and machines has service managers of users with a bus: what
/// pam_systemd(8) does, and the bus as distributions have it.
pub const USER_MANAGER_FILES: [(&str, &str); 3] = [
    (
        "/etc/systemd/system/user@.service.d/runtime.conf",
        "[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n",
    ),
    ("/etc/systemd/user/dbus.socket", "[Unit]\nDescription=The user's bus\n[Socket]\nListenStream=%t/bus\n"),
    (
        "/etc/systemd/user/dbus.service",
        "[Unit]\nDescription=The user's bus\nRequires=dbus.socket\n[Service]\nType=notify\n\
            ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation --syslog-only\n",
    ),
];

/// A machine that is switched off. Dropping it removes everything of it.
#[derive(Debug)]
pub struct Machine {
    place: Place,
    /// Paths of this host and of the machine.
    binds: Vec<(PathBuf, PathBuf)>,
}

impl Testbed {
    /// The root file system for a test that boots machines; `None`, after [skipping](crate::skip) it, if this machine cannot
    /// boot any.
    pub fn for_test_of_machines() -> Option<Base> {
        // Its ptrace(2) calls have no room for the registers of such a processor.
        let has_amx = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" amx_tile"));
        let why = match check_program(KERNEL, PACKAGE) {
            Ok(()) if has_amx => "user-mode Linux does not run on a processor with AMX".to_owned(),
            Ok(()) => return Self::for_test(),
            Err(why) => why.to_string(),
        };
        skip(&format!("a virtual machine cannot be booted here ({why})"));
        None
    }
}

impl Machine {
    /// A new one, with a disk of its own, that sees these folders of this host, read-only.
    pub fn new(base: &Base, binds: &[(&Path, &Path)]) -> Result<Self, TestbedError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("m{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let binds = binds.iter().map(|(host, inside)| checked_bind(((*host).into(), (*inside).into())));
        let binds = binds.collect::<Result<_, _>>()?;
        Ok(Self { place: Place::new(base, &name, DISK_BYTES)?, binds })
    }

    /// Writes a file before it boots.
    pub fn write(&self, path: &str, content: &str) -> Result<(), TestbedError> {
        let path = self.place.root().join(path.trim_start_matches('/'));
        let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
        parent.and_then(|()| fs::write(&path, content)).map_err(TestbedError::file("cannot write", &path))
    }

    /// A file that it left behind.
    pub fn read(&self, path: &str) -> Result<String, TestbedError> {
        let path = self.place.root().join(path.trim_start_matches('/'));
        fs::read_to_string(&path).map_err(TestbedError::file("cannot read", &path))
    }

    /// Boots it with so much memory and swap, has `script` run by `sh` as root once all has started, and switches it off.
    /// Gives what the script wrote. Of files that it writes outside of `/tmp` and `/run` root is the owner, whoever wrote them.
    pub fn run(
        &mut self,
        memory_mib: u64,
        swap_mib: u64,
        script: &str,
        limit: Duration,
    ) -> Result<String, TestbedError> {
        let mounts = self.binds.iter().map(|(host, inside)| {
            let (host, inside) = (host.display(), inside.display());
            format!("mkdir -p {inside}\nmount -t hostfs -o ro,{host} none {inside}\n")
        });
        let script = format!(
            "#!/bin/sh\nset -e\nmount -t tmpfs -o mode=1777 none /tmp\nmkswap -q /dev/ubdb\nswapon /dev/ubdb\n{}\
             cd /tmp\n{script}\n",
            mounts.collect::<String>()
        );
        self.write("testbed-script", &script)?;
        self.write("etc/systemd/system/testbed-script.service", UNIT)?;
        let script = self.place.root().join("testbed-script");
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .map_err(TestbedError::file("cannot make executable", &script))?;
        let swap = self.place.folder.join("swap");
        File::create(&swap)
            .and_then(|file| file.set_len(swap_mib << 20))
            .map_err(TestbedError::file("cannot create", &swap))?;
        self.boot(memory_mib, &swap, limit)?;
        let (said, status) = (self.read(SAID), self.read(STATUS));
        match status.as_deref().map(str::trim) {
            Ok("0") => said,
            status => Err(TestbedError::Failed {
                command: "the script of a virtual machine".to_owned(),
                status: format!("{status:?}"),
                output: format!("{}\n{}", said.unwrap_or_default(), self.place.console()),
            }),
        }
    }

    fn boot(&self, memory_mib: u64, swap: &Path, limit: Duration) -> Result<(), TestbedError> {
        self.place.cgroups.create()?;
        let console_path = self.place.console_file();
        let console =
            File::create(&console_path).map_err(TestbedError::file("cannot create", &console_path))?;
        let mut command = launch::command_in(&self.place.cgroups, KERNEL)?;
        command
            .arg(format!("mem={memory_mib}M"))
            .args(["root=/dev/root", "rootfstype=hostfs", "rw"])
            .arg(format!("rootflags={}", self.place.root().display()))
            .arg(format!("ubdb={}", swap.display()))
            .arg(format!("uml_dir={}/", self.place.folder.display()))
            .args(["umid=uml", "con=null", "con0=null,fd:1"])
            .args(["systemd.wants=testbed-script.service", "systemd.mask=getty.target"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(console);
        let source = |source| TestbedError::Start { program: KERNEL.to_owned(), source };
        let mut kernel = command.spawn().map_err(source)?;
        let ended = wait_for("the end of a virtual machine", limit, || {
            kernel.try_wait().map_err(|error| error.to_string())?.ok_or_else(|| self.place.console())
        });
        if ended.is_err() {
            let _ = kernel.kill();
            let _ = kernel.wait();
        }
        self.place.cgroups.end_all()?;
        self.place.cgroups.remove()?;
        ended.map(drop)
    }
}
