//! Starting a probe under an allocator and reading its answer.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

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
    let mut child = command
        .spawn()
        .map_err(|source| VerifyError(format!("cannot start the probe {}: {source}", probe_exe.display())))?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child);
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    let failed = |how: String| VerifyError::failed(&how, &stderr);
    let status = status.ok_or_else(|| failed(format!("did not end within {} s", TIME_LIMIT.as_secs())))?;
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

fn collect(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read before an error is still worth showing.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            _ => {
                // Already gone is as good as killed.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}
