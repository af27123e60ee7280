//! Running a rollout in this process, and printing how that ended.

use std::path::Path;
use std::process::ExitCode;

use heaptrial_change::{Stage, Trial};
use heaptrial_fleet::rollout::{Ending, Rollout, RolloutPlan};
use heaptrial_host::Paths;
use heaptrial_model::ErrorClass;
use serde_json::json;

use super::observe::Watcher;
use crate::commands::trial::in_database;
use crate::commands::trial::on_host::{self, Teller};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Goes on with a rollout until it ends, stops or is paused.
pub fn carry_out(
    trial: &mut Trial<'_>,
    plan: RolloutPlan,
    paths: &Paths,
    database: &Path,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let name = trial.prepared().plan.name.clone();
    let count = trial.prepared().services.len();
    let interrupt = on_host::interrupt()?;
    let mut teller = Teller::new(database, trial.prepared(), count);
    // What a process that was killed could not tell any more.
    teller.tell_committed(trial.state());
    let mut watcher = Watcher::new(database.to_owned(), trial.prepared(), &plan.strata);
    let waves = plan.waves.len();
    let mut rollout = Rollout::new(trial, plan, paths.clone(), &mut watcher, &mut teller, &interrupt);
    let ending = rollout.go()?;
    let count = trial.state().count(Stage::Committed);
    if ending == Ending::Complete {
        // `rollout resume` says of one that is complete what is missing; the agent reads services a while longer otherwise.
        let _ = in_database::end(database, trial.prepared());
    }
    if global.json {
        println!("{:#}", as_json(&name, &ending));
    } else {
        print!("{}", text(&name, &ending, (count, waves)));
    }
    Ok(match ending {
        Ending::Complete => ExitCode::SUCCESS,
        Ending::Paused => code(ErrorClass::Paused),
        Ending::Stopped { .. } | Ending::Interrupted => code(ErrorClass::Failed),
    })
}

/// What is printed at the end.
fn text(name: &str, ending: &Ending, (count, waves): (usize, usize)) -> String {
    let go_on = format!(
        "`heaptrial rollout resume {name}` goes on; `heaptrial rollout rollback {name}` puts everything back"
    );
    match ending {
        Ending::Complete => format!(
            "rollout {name}: {} passed, {} run it; `heaptrial watch start {name}` keeps an eye on them\n",
            heaptrial_model::units::counted(waves, "wave"),
            heaptrial_model::units::counted(count, "service")
        ),
        Ending::Paused => format!("rollout {name}: paused; {go_on}\n"),
        Ending::Interrupted => format!("rollout {name}: interrupted; {go_on}\n"),
        Ending::Stopped { wave, reasons, stuck } => {
            let back = if stuck.is_empty() {
                "which was put back"
            } else {
                "which could not be put back as a whole"
            };
            let mut text = format!("rollout {name}: STOPPED in wave {} of {waves}, {back}\n", wave + 1);
            for reason in reasons {
                text += &format!("  {reason}\n");
            }
            for (service, why) in stuck {
                text += &format!("  {service} COULD NOT BE PUT BACK: {why}\n");
            }
            text + &go_on + "\n"
        }
    }
}

fn as_json(name: &str, ending: &Ending) -> serde_json::Value {
    let (word, wave, reasons, stuck) = match ending {
        Ending::Complete => ("complete", None, Vec::new(), Vec::new()),
        Ending::Paused => ("paused", None, Vec::new(), Vec::new()),
        Ending::Interrupted => ("interrupted", None, Vec::new(), Vec::new()),
        Ending::Stopped { wave, reasons, stuck } => {
            let stuck =
                stuck.iter().map(|(service, why)| json!({ "service": service, "why": why })).collect();
            ("stopped", Some(wave + 1), reasons.clone(), stuck)
        }
    };
    json!({
        "schema_version": 1,
        "rollout": name,
        "ending": word,
        "wave": wave,
        "reasons": reasons,
        "not_put_back": stuck,
    })
}
