//! Starting a probe under an allocator and reading its answer.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::application::Application;
use crate::catalog::{Family, VersionCall};
use crate::probe::{PROBE_COMMAND, ProbeAnswer};
use crate::verify::VerifyError;

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Runs a probe; gives its answer and what it and the loader wrote to standard error.
pub(crate) fn ask(
    probe_exe: &Path,
    application: &Application,
    family: &Family,
) -> Result<(ProbeAnswer, String), VerifyError> {
    let mut command = application.command(probe_exe);
    command.arg(PROBE_COMMAND).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    without_foreign_settings(&mut command, application, family);
    if family.version_call == VersionCall::MiVersion {
        command.env("MIMALLOC_VERBOSE", "1");
    }
    let child = command
        .spawn()
        .map_err(|error| VerifyError(format!("cannot start the probe {}: {error}", probe_exe.display())))?;
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(ended) = receiver.recv_timeout(TIME_LIMIT) else {
        // Already gone is as good as killed.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        return Err(VerifyError::failed(&format!("did not end within {} s", TIME_LIMIT.as_secs()), ""));
    };
    let Output { status, stdout, stderr } =
        ended.map_err(|error| VerifyError::failed(&format!("gave no output: {error}"), ""))?;
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let failed = |how: String| VerifyError::failed(&how, &stderr);
    if !status.success() {
        return Err(failed(format!("ended with {status}")));
    }
    let answer = ProbeAnswer::read(&stdout).map_err(failed)?;
    Ok((answer, stderr))
}

/// Of the caller's own settings none may reach a process that is asked, but those of the application have to.
pub(crate) fn without_foreign_settings(command: &mut Command, application: &Application, family: &Family) {
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let foreign = text == "LD_PRELOAD" || family.reads_variable(text);
        if foreign && !application.env.iter().any(|(set, _)| set == text) {
            command.env_remove(text);
        }
    }
}
