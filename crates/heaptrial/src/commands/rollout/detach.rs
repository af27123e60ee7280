//! A rollout without a terminal: a transient unit of systemd goes on with it.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use heaptrial_change::journal::{self, Action, Event};
use heaptrial_fleet::rollout::{pause, paused};
use heaptrial_host::Paths;
use heaptrial_host::systemd::{Manager as _, escape};
use heaptrial_model::ServiceName;
use serde_json::json;

use crate::commands::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// How long a unit that runs may take until it works on the rollout, before this stops looking.
const BEGIN_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_GAP: Duration = Duration::from_millis(50);
/// Lines of a unit's journal that are shown where it ended at once.
const LAST_WORDS: &str = "5";

/// Starts a unit that carries a rollout out as `heaptrial rollout resume` does, and returns once it is at work. The unit is gone after a reboot:
/// then the rollout stands where it was until `rollout resume` goes on.
pub fn carry_out(
    name: &str,
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
    command.arg("--").arg(program).arg("--db").arg(database).args(["rollout", "resume", name, "--in-unit"]);
    let before = times_begun(paths, name);
    // From here on a pause that is asked for is for what the unit does. A process that is at work may not have seen one yet, and refuses the unit.
    let was_paused = paused(paths, name) && !on_host::is_at_work(paths, name);
    if was_paused {
        pause(paths, name, false).map_err(Failure::failed)?;
    }
    let done = in_unit(command, (name, &unit), (paths, before), global);
    if done.is_err() && was_paused && !on_host::is_at_work(paths, name) {
        pause(paths, name, true).map_err(Failure::failed)?;
    }
    done?;
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "rollout": name, "unit": unit }));
    } else {
        println!(
            "{unit} carries it out: `heaptrial rollout status {name}` tells where it stands, `journalctl -u {unit}` what it said"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the unit, and returns once it is at work.
fn in_unit(
    mut command: Command,
    (name, unit): (&str, &str),
    (paths, before): (&Paths, usize),
    global: &GlobalOptions,
) -> Result<(), Failure> {
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
    await_work(name, unit, (paths, before), global)
}

/// How often a process began a rollout or went on with it, by its journal.
fn times_begun(paths: &Paths, name: &str) -> usize {
    let begins =
        |event: &Event| matches!(event, Event::Opened { action: Action::Start | Action::Resume, .. });
    let records = journal::read(&paths.trial(name)).unwrap_or_default();
    records.iter().filter(|record| begins(&record.event)).count()
}

/// Waits until the unit works on the rollout, which was begun so often before; an error if it ended before that was seen.
fn await_work(
    name: &str,
    unit: &str,
    (paths, before): (&Paths, usize),
    global: &GlobalOptions,
) -> Result<(), Failure> {
    let systemd = global.systemd()?;
    let service: ServiceName = unit.parse().map_err(Failure::failed)?;
    let until = Instant::now() + BEGIN_PATIENCE;
    let is_begun = || on_host::is_at_work(paths, name) && times_begun(paths, name) > before;
    while !is_begun() && Instant::now() < until {
        let found = systemd.statuses(std::slice::from_ref(&service)).pop();
        // It may have begun its work after the question before.
        if found.is_some_and(|found| found.is_ok_and(|found| found.main_pid.is_none()))
            && !on_host::is_at_work(paths, name)
        {
            // It saw a pause that was asked for since, and stands.
            if times_begun(paths, name) > before && paused(paths, name) {
                return Ok(());
            }
            let journal = Command::new("journalctl")
                .args(["--no-pager", "--output=cat", "--lines", LAST_WORDS, "--unit", unit])
                .output()
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .unwrap_or_default();
            return Err(Failure::failed(format!(
                "{unit} ended at once; its last words:\n{journal}\n`heaptrial rollout status {name}` tells where it stands, \
                 `journalctl -u {unit}` more"
            )));
        }
        std::thread::sleep(LOOK_GAP);
    }
    Ok(())
}
