//! Commands that make root file systems, with mounts that cannot outlive them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The command with mounts and processes of its own, all of which end with this process, however that ends.
pub fn confined(command: &Command) -> Command {
    let mut confined = Command::new("unshare");
    confined
        .args("--mount --propagation private --pid --fork --kill-child --mount-proc --".split(' '))
        .arg(command.get_program())
        .args(command.get_args());
    let parent = std::process::id();
    let end_with_parent = move || -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have ended before that.
        let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        if now == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec only prctl(2) and getppid(2) are called.
    unsafe { confined.pre_exec(end_with_parent) };
    confined
}
