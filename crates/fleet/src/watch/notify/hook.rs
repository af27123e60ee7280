//! A command that gets alerts.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use heaptrial_host::trusted::path_is_trustworthy;
use heaptrial_host::{HostRoot, Scope};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::watch::error::WatchError;

/// The command may take so long.
const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Whether a command can be run: its first word is the absolute path of a program.
pub fn check_hook(words: &[String]) -> Result<(), WatchError> {
    let path = Path::new(words.first().map_or("", String::as_str));
    let usage = |why: &str| Err(WatchError::Usage(format!("the hook's program `{}` {why}", path.display())));
    if !path.is_absolute() {
        return usage("is no absolute path; the timer has no PATH to find it by");
    }
    if !path.is_file() {
        return usage("is not there");
    }
    // It runs as whoever runs the watch.
    if rustix::process::geteuid().is_root() {
        path_is_trustworthy(&HostRoot::default(), path, Scope::System).map_err(|untrusted| {
            WatchError::Refused(format!("the hook would run as root, and others can change it: {untrusted}"))
        })?;
    }
    Ok(())
}

/// Runs a command with a document on its standard input, without a shell.
pub(super) fn run(words: &[String], document: &Value) -> Result<(), WatchError> {
    // Somebody may have changed it since the watch was started.
    check_hook(words)?;
    run_within(words, document, LIMIT)
}

fn run_within(words: &[String], document: &Value, limit: Duration) -> Result<(), WatchError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let failed = |error: std::io::Error| WatchError::Failed(format!("{program} cannot be run: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        let text = format!("{document}\n");
        // One that does not read it ends by itself or by the limit; that nobody reads is no failure of ours.
        std::thread::spawn(move || {
            let _ = input.write_all(text.as_bytes());
        });
    }
    match wait(&mut child, limit).map_err(failed)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(WatchError::Failed(format!("{program} ended with {status}"))),
        None => {
            Err(WatchError::Failed(format!("{program} took longer than {} s and was ended", limit.as_secs())))
        }
    }
}

/// Waits for its end; `None` where it took too long and was killed with all that it started.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn failures_of_a_command_are_reported() {
        let document = Value::Null;
        let error = run(&words(&["/usr/bin/false"]), &document).unwrap_err().to_string();
        assert!(error.contains("/usr/bin/false") && error.contains("exit status: 1"), "{error}");
        let error = run(&words(&["/nonexistent"]), &document).unwrap_err().to_string();
        assert!(error.contains("`/nonexistent` is not there"), "{error}");
        let limit = Duration::from_millis(200);
        let error = run_within(&words(&["/usr/bin/sleep", "600"]), &document, limit).unwrap_err().to_string();
        assert!(error.contains("took longer"), "{error}");
        assert!(check_hook(&words(&["tee"])).is_err() && check_hook(&words(&["/nonexistent"])).is_err());
        check_hook(&words(&["/usr/bin/tee", "x"])).unwrap();
    }
}
