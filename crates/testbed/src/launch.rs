//! Starting systemd-nspawn, and finding the systemd in it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cgroup::{Cgroups, wait_for};
use crate::{Container, TestbedError, recipe};

/// Starts a container and gives its supervisor and the process id of its systemd, which
/// listens to `systemctl` by then.
pub(crate) fn launch(container: &Container, limit: Duration) -> Result<(Child, u32), TestbedError> {
    container.place.cgroups.create()?;
    let console_path = container.place.console_file();
    let console = File::create(&console_path).map_err(TestbedError::file("cannot create", &console_path))?;
    let errors = console.try_clone().map_err(TestbedError::file("cannot open", &console_path))?;
    let mut command = command(container)?;
    command.stdin(Stdio::null()).stdout(console).stderr(errors).process_group(0);
    let mut supervisor = command.spawn().map_err(|source| TestbedError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    let said = || container.place.console();
    let found = wait_for("the start of systemd", limit, || {
        if let Ok(Some(status)) = supervisor.try_wait() {
            return Ok(Err(status));
        }
        leader(supervisor.id()).map(Ok).ok_or_else(said)
    });
    match found {
        Ok(Ok(leader)) => Ok((supervisor, leader)),
        Ok(Err(status)) => Err(TestbedError::Failed {
            command: format!("systemd-nspawn for {}", container.name()),
            status: status.to_string(),
            output: said(),
        }),
        Err(error) => {
            // Its processes are killed by the caller, who knows the cgroups.
            let _ = supervisor.kill();
            let _ = supervisor.wait();
            Err(error)
        }
    }
}

/// A command whose program runs in these cgroups, which have been created.
pub(crate) fn command_in(cgroups: &Cgroups, program: &str) -> Result<Command, TestbedError> {
    if let Cgroups::Scope { unit, .. } = cgroups {
        let mut command = Command::new("systemd-run");
        command
            .args(["--scope", "--quiet", "--collect", "--property=Delegate=yes"])
            .arg(format!("--unit={unit}"))
            .args(["--", program]);
        return Ok(command);
    }
    let mut command = Command::new(program);
    let entrances = cgroups.entrances()?;
    let enter = move || -> io::Result<()> {
        for entrance in &entrances {
            rustix::io::write(entrance, b"0")?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only write(2) is called, on files that are open already.
    unsafe { command.pre_exec(enter) };
    Ok(command)
}

fn command(container: &Container) -> Result<Command, TestbedError> {
    let mut command = command_in(&container.place.cgroups, "systemd-nspawn")?;
    command
        .args(["--quiet", "--register=no", "--keep-unit", "--link-journal=no", "--private-network"])
        .args(["--console=read-only", "--resolv-conf=off", "--timezone=off"])
        .arg("--directory")
        .arg(container.place.root())
        .arg(format!("--machine={}", container.name()));
    for (host, container) in &container.binds {
        command.arg(format!("--bind-ro={}:{}", host.display(), container.display()));
    }
    for (host, container) in &container.shares {
        command.arg(format!("--bind={}:{}", host.display(), container.display()));
    }
    command.arg(recipe::INIT_PATH);
    Ok(command)
}

/// The child of systemd-nspawn that is systemd, once it listens.
fn leader(supervisor: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).ok()?;
    children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).find(|child: &u32| {
        let is_systemd =
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "systemd");
        let socket = fs::symlink_metadata(format!("/proc/{child}/root/run/systemd/private"));
        is_systemd && socket.is_ok_and(|socket| socket.file_type().is_socket())
    })
}
