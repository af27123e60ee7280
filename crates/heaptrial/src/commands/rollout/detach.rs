//! A rollout without a terminal: a transient unit of systemd goes on with it.

use std::path::Path;
use std::process::{Command, ExitCode};

use heaptrial_host::Paths;
use heaptrial_host::systemd::escape;
use serde_json::json;

use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Starts a unit that carries a rollout out as `heaptrial rollout resume` does, and returns. The unit is gone after a reboot:
/// then the rollout stands where it was, and `rollout resume` goes on.
pub fn carry_out(
    name: &str,
    attended: bool,
    paths: &Paths,
    database: &Path,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let own = paths.program();
    let program = if own.exists() { own } else { std::env::current_exe().map_err(Failure::failed)? };
    let unit = format!("heaptrial-rollout-{}.service", escape(name));
    let mut command = Command::new("systemd-run");
    command.args(["--quiet", "--collect", "--property=Type=exec", "--unit", &unit]);
    command.arg(format!("--description=Heaptrial brings rollout {name} out"));
    command.arg("--").arg(program).arg("--db").arg(database).args(["rollout", "resume", name]);
    if attended {
        command.arg("--attended");
    }
    let output = command.output().map_err(|error| {
        Failure::failed(format!(
            "cannot run systemd-run: {error}; `heaptrial rollout resume {name}` goes on here"
        ))
    })?;
    if !output.status.success() {
        return Err(Failure::failed(format!(
            "systemd started no unit for the rollout: {}; nothing was restarted, `heaptrial rollout resume {name}` goes on here, \
             `heaptrial rollout rollback {name}` takes it away",
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "rollout": name, "unit": unit }));
    } else {
        println!(
            "{unit} carries it out: `heaptrial rollout status {name}` tells where it stands, `journalctl -u {unit}` what it said"
        );
    }
    Ok(ExitCode::SUCCESS)
}
