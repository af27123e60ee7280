//! Carrying a rollout out: in this process, or in a unit of systemd.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use heaptrial_change::{Stage, Trial};
use heaptrial_fleet::rollout::{Ending, Rollout, RolloutPlan};
use heaptrial_host::systemd::escape;
use heaptrial_model::{ErrorClass, units};
use serde_json::json;

use super::observe::Watcher;
use crate::answer::Answer;
use crate::commands::host::events::EventLog;
use crate::commands::host::{Host, interrupt};
use crate::exit::Failure;
use crate::output::with_reasons;

/// Where a unit says that it has begun its work (sd_notify(3)).
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Continues a rollout until it ends, stops or is paused.
pub fn carry_out(host: &Host<'_>, trial: &mut Trial<'_>, plan: RolloutPlan) -> Result<Answer, Failure> {
    let name = trial.prepared().plan.name.clone();
    let interrupt = interrupt()?;
    let mut log = EventLog::new(&host.database, trial.prepared(), trial.prepared().services.len());
    log.record_committed(trial.state());
    trial.report_to(log);
    let mut watcher = Watcher::new(host.database.clone(), trial.prepared(), &plan.strata);
    let waves = plan.waves.len();
    notify_ready();
    let mut rollout = Rollout::new(trial, plan, host.paths.clone(), &mut watcher, &interrupt);
    let ending = rollout.go()?;
    let answer = answer(&name, &ending, waves, trial.state().count(Stage::Committed));
    let is_ended = ending != Ending::Complete || host.end_record(trial.prepared());
    Ok(answer.unless(is_ended))
}

/// Says to systemd that the unit has begun, if this process is that of one.
fn notify_ready() {
    if let (Some(path), Ok(socket)) = (std::env::var_os(NOTIFY_SOCKET), UnixDatagram::unbound()) {
        // Without an answer systemd ends the unit, and reports that.
        let _ = socket.send_to(b"READY=1", path);
    }
}

fn answer(name: &str, ending: &Ending, waves: usize, count: usize) -> Answer {
    let (word, class) = match ending {
        Ending::Complete => ("complete", None),
        Ending::Paused => ("paused", Some(ErrorClass::Paused)),
        Ending::Interrupted => ("interrupted", Some(ErrorClass::Failed)),
        Ending::Stopped { .. } => ("stopped", Some(ErrorClass::Failed)),
    };
    let (mut text, mut document) =
        (format!("rollout {name}: {word}\n"), json!({ "rollout": name, "ending": word }));
    match ending {
        Ending::Complete => {
            let (waves, services) = (units::counted(waves, "wave"), units::counted(count, "service"));
            text = format!(
                "rollout {name}: {waves} passed, {services} run it; `heaptrial watch start {name}` watches them\n"
            );
        }
        Ending::Paused | Ending::Interrupted => {}
        Ending::Stopped { wave, reasons, stuck } => {
            let number = wave + 1;
            text = format!("rollout {name}: STOPPED in wave {number} of {waves}, which was put back\n");
            reasons.iter().for_each(|reason| text += &format!("  {reason}\n"));
            for (service, why) in stuck {
                text += &format!("  {service} COULD NOT BE PUT BACK: {why}\n");
            }
            document["not_put_back"] = with_reasons(stuck);
            document["wave"] = json!(number);
            document["reasons"] = json!(reasons);
        }
    }
    let Some(class) = class else { return Answer::new(document, text) };
    text += &format!(
        "`heaptrial rollout resume {name}` continues; `heaptrial rollout rollback {name}` puts everything back\n"
    );
    Answer::new(document, text).ending(class)
}

/// Starts a unit that carries a rollout out as `heaptrial rollout resume` does, and returns once it is at work. The unit is
/// gone after a reboot: then the rollout is where it was until `rollout resume` continues it.
pub fn detach(host: &Host<'_>, name: &str) -> Result<Answer, Failure> {
    let own = host.paths.program();
    let program = if own.exists() { own } else { std::env::current_exe().map_err(Failure::failed)? };
    let unit = format!("heaptrial-rollout-{}.service", escape(name));
    let mut command = Command::new("systemd-run");
    command.args(["--quiet", "--collect", "--property=Type=notify", "--unit", &unit]);
    command.arg(format!("--description=Heaptrial carries out rollout {name}"));
    command.arg("--").arg(program).arg("--db").arg(&host.database).args(["rollout", "resume", name]);
    let output =
        command.output().map_err(|error| Failure::failed(format!("cannot run systemd-run: {error}")))?;
    if !output.status.success() {
        return Err(Failure::failed(format!(
            "the unit of the rollout did not begin: {}. `journalctl -u {unit}` shows why, `heaptrial rollout status {name}` where \
             it is; `heaptrial rollout resume {name}` continues here",
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    let text = format!(
        "{unit} carries it out: `heaptrial rollout status {name}` shows where it is, `journalctl -u {unit}` what it printed\n"
    );
    Ok(Answer::new(json!({ "rollout": name, "unit": unit }), text))
}
